//! The model test on a home that gives objects back: everything may be forgotten between any two
//! operations, and any call of the home may fail.

#[path = "model/driver.rs"]
mod driver;

use driver::Library;
use hearth::home::TestHome;
use hearth::{Credentials, Errno, Volume};
use hearth_model::strategy::{Abilities, script};
use hearth_model::{
    Model, Numbers, Op, Outcome, PROCESSES, System, compare, compare_trees, listing,
};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
};
/// What no operation answers by itself.
const INJECTED: Errno = Errno(libc::EREMOTEIO);

/// A small generator of our own: the same seed, the same evictions and faults.
#[derive(Clone)]
struct Dice(Arc<AtomicU64>);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(Arc::new(AtomicU64::new(
            seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        )))
    }

    /// One in `n`.
    fn one_in(&self, n: u64) -> bool {
        let step = |x: u64| {
            let x = x ^ (x << 13);
            let x = x ^ (x >> 7);
            Some(x ^ (x << 17))
        };
        let roll = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        roll.unwrap_or_default().is_multiple_of(n)
    }
}

/// A library that forgets something before every operation.
struct Forgetful {
    library: Library,
    dice: Dice,
}

impl System for Forgetful {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        let all = self.dice.one_in(3);
        self.library
            .volume()
            .reclaim(if all { u64::MAX } else { 4096 });
        self.library.apply(p, op)
    }
}

fn volume(home: &Arc<TestHome>) -> Volume {
    Volume::builder()
        .home(home.clone())
        .memory_budget(1 << 20)
        .build()
        .expect("a new home has nothing that could fail")
}

fn run(cases: u32, check: impl Fn(u64, &[(usize, Op)]) -> Option<String>) {
    let cases = std::env::var("HEARTH_MODEL_CASES").map_or(cases, |text| {
        text.parse().expect("HEARTH_MODEL_CASES is a number")
    });
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let input = (any::<u64>(), script(ABILITIES, 20..100));
    let result = TestRunner::new(config).run(&input, |(seed, steps)| {
        check(seed, &steps).map_or(Ok(()), |why| Err(TestCaseError::fail(why)))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (seed, steps))) => {
            panic!("{why}\nseed {seed}\n{}", listing(&steps))
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_volume_that_forgets_everything_at_every_step_equals_the_model() {
    run(400, |seed, steps| {
        let home = Arc::new(TestHome::new());
        let library = Library::new(volume(&home));
        let mut forgetful = Forgetful {
            library,
            dice: Dice::new(seed),
        };
        let difference = compare(&mut forgetful, steps, 16).err();
        difference.map(|difference| difference.to_string())
    });
}

/// An operation that a failing home stopped has changed nothing: the model, which never saw it, has
/// the same tree.
#[test]
fn an_operation_that_the_home_fails_changes_nothing() {
    run(400, |seed, steps| with_faults(seed, steps).err());
}

fn with_faults(seed: u64, steps: &[(usize, Op)]) -> Result<(), String> {
    let home = Arc::new(TestHome::new());
    let library = Library::new(volume(&home));
    let dice = Dice::new(seed);
    let mut forgetful = Forgetful {
        library,
        dice: dice.clone(),
    };
    let mut model = Model::new();
    for (uid, gid, groups) in PROCESSES {
        model.add_process(uid, gid, groups);
    }
    let mut numbers = Numbers::default();
    for (step, (p, op)) in steps.iter().enumerate() {
        let fired = Arc::new(AtomicU64::new(0));
        let (dice, count) = (dice.clone(), fired.clone());
        if stops_cleanly(op) && !is_synchronous(&mut forgetful, *p, op) {
            home.set_fault(Some(Box::new(move |_| {
                let fails = dice.one_in(4);
                count.fetch_add(u64::from(fails), Ordering::Relaxed);
                fails.then_some(INJECTED)
            })));
        }
        // What Linux leaves to the filesystem is done on neither side, as in `compare`.
        if model.clone().apply(*p, op) == Outcome::Unspecified {
            home.set_fault(None);
            continue;
        }
        let found = forgetful.apply(*p, op);
        home.set_fault(None);
        if found == Outcome::Error(INJECTED.0) {
            continue;
        }
        let expected = model.apply(*p, op);
        if !expected.agrees(&found, &mut numbers) {
            return Err(format!(
                "step {step}, process {p}: {op:?}\n  expected {expected:?}\n  found    {found:?}"
            ));
        }
    }
    compare_trees(&mut model, &mut forgetful)
}

/// A write to a file that is open with `O_DSYNC` may have written and then failed to make it
/// durable; as in Linux it answers the error and the bytes stay.
fn is_synchronous(system: &mut Forgetful, p: usize, op: &Op) -> bool {
    let fd = match op {
        Op::Write { fd, .. }
        | Op::WriteV { fd, .. }
        | Op::WriteAt { fd, .. }
        | Op::WriteVAt { fd, .. } => *fd,
        _ => return false,
    };
    match system.library.apply(p, &Op::GetStatus { fd }) {
        Outcome::Number(flags) => flags & (libc::O_SYNC | libc::O_DSYNC) as u64 != 0,
        _ => false,
    }
}

/// Operations made of several parts may stop between them with a short count, which the model
/// cannot follow; listings ask for the generation of each entry besides; `fork` and `exit` answer
/// no errors.
fn stops_cleanly(op: &Op) -> bool {
    !matches!(
        op,
        Op::Copy { .. }
            | Op::ReadV { .. }
            | Op::ReadVAt { .. }
            | Op::List { .. }
            | Op::ListFd { .. }
            | Op::Fork
            | Op::Exit
            | Op::Close { .. }
    )
}

/// Once, a listing ended where the directory was forgotten, as if there were no more.
#[test]
fn a_listing_beside_evictions_has_every_name_once() {
    let home = Arc::new(TestHome::new());
    let volume = Volume::builder()
        .home(home)
        .build()
        .expect("a valid volume");
    let root = volume.process(Credentials::root());
    let names: BTreeSet<Vec<u8>> = (0..3_000).map(|n| format!("{n}").into_bytes()).collect();
    for name in &names {
        let path = [b"/", &name[..]].concat();
        let file = root.open(path, libc::O_CREAT | libc::O_RDWR, 0o644);
        root.close(file.expect("a new name")).expect("it is open");
    }
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                volume.reclaim(u64::MAX);
            }
        });
        for _ in 0..100 {
            let listed = root.read_dir("/").expect("the root is there");
            let seen: BTreeSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
            // Nothing of this may panic before the other thread is told to end.
            if seen != names || listed.len() != names.len() {
                ended.store(true, Ordering::Relaxed);
                panic!(
                    "{} names are listed, {} distinct ones",
                    listed.len(),
                    seen.len()
                );
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
}
