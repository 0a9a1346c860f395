//! Random scripts of the model, with a crash behind each.

use super::driver::Library;
use super::{check, opened};
use hearth::Errno;
use hearth::backend::TestBackend;
use hearth_model::strategy::{Abilities, script};
use hearth_model::{
    Kind, Model, Numbers, OBSERVER, Op, Outcome, PROCESSES, Stamp, System, Tree, listing,
};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};
const SCRIPTS: u32 = 400;

fn run(check: impl Fn(u64, &[(usize, Op)]) -> Result<(), String>) {
    let cases = std::env::var("HEARTH_MODEL_CASES").map_or(SCRIPTS, |text| {
        text.parse().expect("HEARTH_MODEL_CASES is a number")
    });
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let input = (any::<u64>(), script(ABILITIES, 10..100));
    let result = TestRunner::new(config).run(&input, |(seed, steps)| {
        check(seed, &steps).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (seed, steps))) => {
            panic!("{why}\nseed {seed}\n{}", listing(&steps))
        }
        Err(error) => panic!("{error}"),
    }
}

/// What the last commit left of the tree, as far as that is known.
struct Kept {
    tree: Tree,
    /// Contents are as in the tree: everything was written back before.
    with_contents: bool,
}

/// A script under way.
struct Site {
    backend: Arc<TestBackend>,
    library: Library,
    model: Model,
    /// Commits of the backend.
    commits: Arc<AtomicU64>,
    kept: Kept,
}

impl Site {
    fn new() -> Site {
        let backend = Arc::new(TestBackend::new());
        let library = Library::new(opened(&backend));
        let mut model = Model::new();
        for (uid, gid, groups) in PROCESSES {
            model.add_process(uid, gid, groups);
        }
        let commits = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&commits);
        backend.set_fault(Some(Box::new(move |call| {
            count.fetch_add(u64::from(call == "commit"), Relaxed);
            None
        })));
        let kept = Kept {
            tree: model.snapshot(),
            with_contents: true,
        };
        Site {
            backend,
            library,
            model,
            commits,
            kept,
        }
    }

    /// Runs `work`, after which the tree is the model's; remembers that if it has committed.
    fn note<T>(&mut self, is_sync: bool, work: impl FnOnce(&mut Site) -> T) -> T {
        let before = self.commits.load(Relaxed);
        let result = work(self);
        if is_sync || self.commits.load(Relaxed) != before {
            self.kept = Kept {
                tree: self.model.snapshot(),
                with_contents: is_sync,
            };
        }
        result
    }

    fn step(&mut self, numbers: &mut Numbers, p: usize, op: &Op) -> Result<(), String> {
        if self.model.clone().apply(p, op) == Outcome::Unspecified {
            return Ok(());
        }
        self.note(false, |site| {
            let expected = site.model.apply(p, op);
            let found = site.library.apply(p, op);
            match expected.agrees(&found, numbers) {
                true => Ok(()),
                false => Err(format!("{op:?}: expected {expected:?}, found {found:?}")),
            }
        })
    }

    /// Opens what a crash now leaves, and compares.
    fn crash(&self) -> Result<(), String> {
        let backend = Arc::new(self.backend.after_crash());
        let mut library = Library::new(opened(&backend));
        let (mut found, _) = Tree::read(&mut library, OBSERVER)?;
        let mut expected = self.kept.tree.clone();
        if !self.kept.with_contents {
            without_contents(&mut expected);
            without_contents(&mut found);
        }
        if let Some(difference) = expected.difference(&found) {
            return Err(format!(
                "after a crash, contents {}: {difference}",
                self.kept.with_contents
            ));
        }
        check(&backend, library.volume());
        Ok(())
    }
}

/// Removes what a commit of operations alone leaves open.
fn without_contents(tree: &mut Tree) {
    for entry in tree.entries.values_mut() {
        if entry.attr.kind == Kind::File {
            entry.pages.clear();
            entry.attr.size = 0;
            entry.attr.pages = hearth_model::PageCount { least: 0, most: 0 };
            (entry.attr.mtime, entry.attr.ctime) = (Stamp::Now, Stamp::Now);
            // A write takes it away, whether its bytes survive or not.
        }
    }
}

fn one_in(seed: &mut u64, n: u64) -> bool {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    seed.is_multiple_of(n)
}

#[test]
fn a_tree_after_a_crash_is_that_of_the_last_commit() {
    run(|seed, steps| {
        let (mut site, mut numbers) = (Site::new(), Numbers::default());
        let mut seed = seed | 1;
        for (number, (p, op)) in steps.iter().enumerate() {
            let at = |why| format!("step {number}: {why}");
            if one_in(&mut seed, 6) {
                site.note(true, |site| site.library.volume().sync())
                    .map_err(|errno: Errno| errno.to_string())?;
            }
            if one_in(&mut seed, 4) {
                site.note(false, |site| site.library.volume().reclaim(u64::MAX));
            }
            if one_in(&mut seed, 12) {
                site.crash().map_err(at)?;
            }
            site.step(&mut numbers, *p, op).map_err(at)?;
        }
        site.crash()?;
        site.note(true, |site| site.library.volume().sync())
            .map_err(|errno: Errno| errno.to_string())?;
        site.crash()
    });
}
