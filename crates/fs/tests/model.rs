//! The library against the reference model: random scripts of two processes and their children,
//! over the whole list of operations, errors included, must agree in every outcome and in the
//! whole tree. The model itself agrees with the kernel (`crates/model/tests/kernel`).

#[path = "model/driver.rs"]
mod driver;
mod hands;
#[path = "model/keeper.rs"]
mod keeper;
#[path = "model/limits.rs"]
mod limits;
#[path = "model/regressions.rs"]
mod regressions;
#[path = "model/waiting.rs"]
mod waiting;

use std::cell::Cell;
use std::fmt::Debug;

use driver::Library;
use hearth::{Credentials, Volume};
use hearth_model::strategy::{Abilities, script};
use hearth_model::{Difference, OBSERVER, Op, Tree, compare, listing, reduce};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestError, TestRunner};

/// Steps between two comparisons of the trees.
const TREE_EVERY: usize = 16;

/// What Hearth can do beyond tmpfs.
const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};

/// Runs random scripts and gives the number of operations.
fn random_scripts(cases: u32, check: impl Fn(&[(usize, Op)]) -> Result<(), Difference>) -> usize {
    run_scripts(cases, script(ABILITIES, 1..130), check, listing)
}

/// Runs scripts of any kind of steps, which `listing` shows.
fn run_scripts<T: Clone + Debug>(
    cases: u32,
    scripts: impl Strategy<Value = Vec<T>>,
    check: impl Fn(&[T]) -> Result<(), Difference>,
    listing: impl Fn(&[T]) -> String,
) -> usize {
    let cases = std::env::var("HEARTH_MODEL_CASES").map_or(cases, |text| {
        text.parse().expect("HEARTH_MODEL_CASES is a number")
    });
    let persistence = FileFailurePersistence::Direct("tests/model/seeds.txt");
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 500,
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::default()
    };
    let operations = Cell::new(0);
    let result = TestRunner::new(config).run(&scripts, |steps| {
        operations.set(operations.get() + steps.len());
        check(&steps).map_err(|difference| TestCaseError::fail(difference.to_string()))
    });
    match result {
        Ok(()) => operations.get(),
        Err(TestError::Fail(_, steps)) => {
            let steps = reduce(&steps, |steps| check(steps).is_err());
            let why = check(&steps).expect_err("it failed before");
            panic!("{why}\n{}", listing(&steps))
        }
        Err(error) => panic!("{error}"),
    }
}

/// When every process has ended, the inodes are those that have names, and `bare` others, and
/// `statfs` says so: nothing else takes room.
fn nothing_is_left_but_the_tree(library: &mut Library, bare: usize) -> Result<(), Difference> {
    let wrong = |what| Difference {
        step: usize::MAX,
        what,
    };
    let (tree, _) = Tree::read(library, OBSERVER).map_err(wrong)?;
    let inodes = || tree.entries.iter().filter(|(path, e)| **path == e.same_as);
    let named = inodes().count();
    let root = library.volume().process(Credentials::root());
    let mut blocks = 0;
    for (path, _) in inodes() {
        let attr = root.lstat(&path.0);
        blocks += attr.map_err(|errno| wrong(errno.to_string()))?.blocks;
    }
    let pages = blocks / 8;
    library.exit_all();
    let left = library.volume().inodes_in_memory() - bare;
    if left != named {
        return Err(wrong(format!(
            "{named} inodes have names, but {left} are in memory at the end"
        )));
    }
    let room = root.statfs("/").map_err(|errno| wrong(errno.to_string()))?;
    let used = (room.files - room.ffree, room.blocks - room.bfree);
    if used == (named as u64, pages) {
        return Ok(());
    }
    Err(wrong(format!(
        "{named} inodes have {pages} pages, but statfs says {used:?}"
    )))
}

#[test]
fn library_and_model_agree_on_a_hundred_thousand_operations() {
    let operations = random_scripts(1700, |steps| {
        // Every second script with heat, which changes nothing that anybody sees.
        let heat = steps.len().is_multiple_of(2);
        let volume = Volume::builder().hot_track(heat).build();
        let volume = volume.expect("the defaults are a valid volume");
        let bare = volume.inodes_in_memory() - 1;
        let mut library = Library::new(volume);
        compare(&mut library, steps, TREE_EVERY)?;
        nothing_is_left_but_the_tree(&mut library, bare)
    });
    assert!(operations >= 100_000, "only {operations} operations");
}
