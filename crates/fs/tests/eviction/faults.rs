//! The home fails: the tree equals that of a model which did not do what was stopped.

use super::{Dice, Forgetful, Met, SCRIPTS, cases, driver::Library, run, volume};
use hearth::Errno;
use hearth::home::TestHome;
use hearth_model::{Model, Numbers, Op, Outcome, PROCESSES, System, compare_trees};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What no operation answers by itself here.
const INJECTED: [Errno; 5] = [
    Errno(libc::EREMOTEIO),
    Errno::EIO,
    Errno::ENOSPC,
    Errno::EDQUOT,
    Errno(libc::ETIMEDOUT),
];

/// What came of the faults.
#[derive(Default)]
struct Faults {
    /// Calls of the home that were failed, by name.
    calls: Mutex<BTreeMap<&'static str, u64>>,
    /// Operations that answered so, by name.
    stopped: Mutex<BTreeMap<String, u64>>,
}

/// An operation that a failing home stopped has changed nothing: the model, which never saw it, has
/// the same tree. (One that read something before has moved an access time, as in Linux: once in
/// many thousand scripts that time was one that had been set. Such an operation is not stopped.)
#[test]
fn an_operation_that_the_home_fails_changes_nothing() {
    let (met, faults) = (Met::default(), Faults::default());
    run(SCRIPTS, |seed, steps| {
        with_faults(seed, steps, &met, &faults).err()
    });
    met.enough();
    let calls = faults.calls.lock().expect("nobody panicked");
    for call in [
        "load_inode",
        "load_entry",
        "load_directory",
        "load_page",
        "list_pages",
        "commit",
        "write_page",
    ] {
        assert!(calls.contains_key(call), "{call} never failed: {calls:?}");
    }
    let stopped = faults.stopped.lock().expect("nobody panicked");
    // Those that are made of several parts, among others.
    for op in [
        "ReadV", "ReadVAt", "WriteV", "Copy", "List", "ListFd", "Rename",
    ] {
        assert!(stopped.contains_key(op), "{op} never stopped: {stopped:?}");
    }
    let (all, scripts) = (stopped.values().sum::<u64>(), cases(SCRIPTS));
    assert!(all > u64::from(scripts), "{all} operations stopped");
}

fn with_faults(seed: u64, steps: &[(usize, Op)], met: &Met, faults: &Faults) -> Result<(), String> {
    let home = Arc::new(TestHome::new());
    let library = Library::new(volume(&home));
    let dice = Dice::new(seed);
    let mut forgetful = Forgetful {
        library,
        dice: dice.clone(),
        met,
    };
    let mut model = Model::new();
    for (uid, gid, groups) in PROCESSES {
        model.add_process(uid, gid, groups);
    }
    let mut numbers = Numbers::default();
    for (step, (p, op)) in steps.iter().enumerate() {
        // What Linux leaves to the filesystem is done on neither side, as in `compare`.
        if model.clone().apply(*p, op) == Outcome::Unspecified {
            continue;
        }
        let injected = INJECTED[step % INJECTED.len()];
        let (dice, calls) = (dice.clone(), Arc::new(Mutex::new(Vec::new())));
        let failed = Arc::clone(&calls);
        if !moves_on(&model, *p, op) && !is_synchronous(&mut forgetful, *p, op) {
            home.set_fault(Some(Box::new(move |call| {
                let fails = dice.one_in(4);
                if fails {
                    failed.lock().expect("nobody panicked").push(call);
                }
                fails.then_some(injected)
            })));
        }
        let found = forgetful.apply(*p, op);
        home.set_fault(None);
        let failed = std::mem::take(&mut *calls.lock().expect("nobody panicked"));
        for call in &failed {
            let mut calls = faults.calls.lock().expect("nobody panicked");
            *calls.entry(call).or_default() += 1;
        }
        if !failed.is_empty() && found == Outcome::Error(injected.0) {
            let mut stopped = faults.stopped.lock().expect("nobody panicked");
            *stopped.entry(name(op)).or_default() += 1;
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

/// The name of the variant.
fn name(op: &Op) -> String {
    let text = format!("{op:?}");
    let end = text.find([' ', '(']).unwrap_or(text.len());
    text[..end].to_owned()
}

/// Whether an operation that fails leaves something behind all the same: the access time of a
/// link, or of what it had begun to read in several parts, to copy or to list.
fn moves_on(model: &Model, p: usize, op: &Op) -> bool {
    match op {
        Op::ReadV { .. }
        | Op::ReadVAt { .. }
        | Op::Copy { .. }
        | Op::List { .. }
        | Op::ListFd { .. } => model.reads_anything(p, op),
        op => model.reads_links(p, op),
    }
}

/// A write to a file that is open with `O_DSYNC` may have written and then failed to make it
/// durable; as in Linux it answers the error and the bytes stay.
fn is_synchronous(system: &mut Forgetful<'_>, p: usize, op: &Op) -> bool {
    let fd = match op {
        Op::Write { fd, .. }
        | Op::WriteV { fd, .. }
        | Op::WriteAt { fd, .. }
        | Op::WriteVAt { fd, .. }
        | Op::Copy { to: fd, .. } => *fd,
        _ => return false,
    };
    match system.library.apply(p, &Op::GetStatus { fd }) {
        Outcome::Number(flags) => flags & (libc::O_SYNC | libc::O_DSYNC) as u64 != 0,
        _ => false,
    }
}
