//! The backend fails: the tree equals that of a model which did not do what was stopped.

use super::{Dice, Forgetful, Met, SCRIPTS, cases, driver::Library, run, volume};
use hearth::backend::TestBackend;
use hearth::{Credentials, Errno, Observer};
use hearth_model::{Model, Numbers, Op, Outcome, PROCESSES, System, compare_trees};
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// What no operation answers by itself here.
const INJECTED: [Errno; 5] = [
    Errno(libc::EREMOTEIO),
    Errno::EIO,
    Errno::ENOSPC,
    Errno::EDQUOT,
    Errno(libc::ETIMEDOUT),
];

/// What moves bytes.
const MOVES: &[&str] = &[
    "Read", "ReadAt", "ReadV", "ReadVAt", "Write", "WriteAt", "WriteV", "WriteVAt", "Copy",
];

/// What came of the faults.
#[derive(Default)]
struct Faults {
    /// Calls of the backend that were failed, by name.
    calls: Mutex<BTreeMap<&'static str, u64>>,
    /// Operations that answered so, by name.
    stopped: Mutex<BTreeMap<String, u64>>,
}

/// An operation that a failing backend stopped has changed nothing: the model, which never saw it,
/// has the same tree. (One that read something before has moved an access time, as in Linux: once
/// in many thousand scripts that time was one that had been set. Such an operation is not stopped.)
#[test]
fn an_operation_that_the_backend_fails_changes_nothing() {
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
        "load_pages",
        "load_allocation",
        "commit",
    ] {
        assert!(calls.contains_key(call), "{call} never failed: {calls:?}");
    }
    let stopped = faults.stopped.lock().expect("nobody panicked");
    // Those that are made of several parts, among others; few are of each that moves bytes.
    for parts in [&["List"] as &[&str], &["ListFd"], &["Rename"], MOVES] {
        let met = parts.iter().any(|&op| stopped.contains_key(op));
        assert!(met, "none of {parts:?} ever stopped: {stopped:?}");
    }
    let (all, scripts) = (stopped.values().sum::<u64>(), cases(SCRIPTS));
    assert!(all > u64::from(scripts), "{all} operations stopped");
}

/// The model test says of a short read only that it equals a shorter one.
#[test]
fn a_read_that_the_backend_fails_half_way_is_short_and_the_next_one_fails() {
    const PAGE: usize = 4096;
    const START: usize = 100;
    let backend = Arc::new(TestBackend::new());
    let volume = volume(&backend);
    let root = volume.process(Credentials::root());
    let whole: Vec<u8> = (0..3 * PAGE).map(|at| (at / PAGE) as u8 + 1).collect();
    let fd = root.open("/f", libc::O_CREAT | libc::O_RDWR, 0o600);
    let fd = fd.expect("a new name");
    root.pwrite(fd, &whole, 0).expect("there is room");
    // A vector's first part ends where the second page begins, or inside of it.
    for first in [PAGE - START, PAGE] {
        for (at_offset, in_parts) in [(false, false), (false, true), (true, false), (true, true)] {
            let read = |at: usize| {
                let mut out = vec![0; 3 * PAGE];
                let (one, two) = out.split_at_mut(first);
                let parts = &mut [IoSliceMut::new(one), IoSliceMut::new(two)];
                let got = match (at_offset, in_parts) {
                    (false, false) => root.read(fd, &mut out),
                    (false, true) => root.readv(fd, parts),
                    (true, false) => root.pread(fd, &mut out, at as u64),
                    (true, true) => root.preadv(fd, parts, at as u64),
                };
                got.map(|got| out[..got].to_vec())
            };
            root.lseek(fd, START as i64, libc::SEEK_SET)
                .expect("inside");
            for pages in 0..=2 {
                backend.set_fault(None);
                volume.reclaim(u64::MAX);
                let mut here = vec![0; pages * PAGE];
                assert_eq!(root.pread(fd, &mut here, 0), Ok(pages * PAGE));
                backend.set_fault(Some(Box::new(no_pages)));
                let case = format!("{pages} pages, {at_offset}, {in_parts}, {first}");
                if pages == 0 {
                    assert_eq!(read(START), Err(Errno::EIO), "{case}");
                    continue;
                }
                let end = pages * PAGE;
                assert_eq!(read(START), Ok(whole[START..end].to_vec()), "{case}");
                assert_eq!(read(end), Err(Errno::EIO), "{case}");
                backend.set_fault(None);
                assert_eq!(read(end), Ok(whole[end..].to_vec()), "{case}");
                root.lseek(fd, START as i64, libc::SEEK_SET)
                    .expect("inside");
            }
        }
    }
}

/// What changed of contents, for a kernel in front.
#[derive(Default)]
struct Told(Mutex<Vec<(u64, Range<u64>)>>);

impl Observer for Told {
    fn entry_changed(&self, _parent: u64, _name: &[u8]) {}
    fn inode_changed(&self, ino: u64, data: Option<Range<u64>>) {
        let mut told = self.0.lock().expect("nobody panicked");
        told.extend(data.map(|data| (ino, data)));
    }
}

#[test]
fn a_copy_that_the_backend_fails_half_way_is_short_and_observers_know_of_it() {
    let backend = Arc::new(TestBackend::new());
    let volume = volume(&backend);
    let root = volume.process(Credentials::root());
    let open = |path: &str| {
        let fd = root.open(path, libc::O_CREAT | libc::O_RDWR, 0o600);
        fd.expect("a new name")
    };
    let (from, to) = (open("/from"), open("/to"));
    root.pwrite(from, &[7; 8192], 0).expect("there is room");
    let ino = root.fstat(to).expect("it is open").ino;
    volume.reclaim(u64::MAX);
    let told = Arc::new(Told::default());
    volume.observe(told.clone());
    assert_eq!(root.pread(from, &mut [0; 4096], 0), Ok(4096));
    backend.set_fault(Some(Box::new(no_pages)));
    let mut end = 0;
    let copied = root.copy_file_range((from, None), (to, Some(&mut end)), 8192, 0);
    backend.set_fault(None);
    assert_eq!((copied, end), (Ok(4096), 4096));
    assert_eq!(root.fstat(to).map(|attr| attr.size), Ok(4096));
    assert_eq!(root.lseek(from, 0, libc::SEEK_CUR), Ok(4096));
    let told = told.0.lock().expect("nobody panicked");
    assert!(told.contains(&(ino, 0..4096)), "{told:?}");
}

/// Fails to give any page.
fn no_pages(call: &'static str) -> Option<Errno> {
    (call == "load_pages").then_some(Errno::EIO)
}

fn with_faults(seed: u64, steps: &[(usize, Op)], met: &Met, faults: &Faults) -> Result<(), String> {
    let backend = Arc::new(TestBackend::new());
    let library = Library::new(volume(&backend));
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
        // A failed load is that operation's alone. Any other call fails for lack of room: another
        // error ends the volume.
        let errno_of = move |call: &str| match call.starts_with("load_") {
            true => injected,
            false => Errno::ENOSPC,
        };
        let (dice, calls) = (dice.clone(), Arc::new(Mutex::new(Vec::new())));
        let failed = Arc::clone(&calls);
        if !moves_on(&model, *p, op) && !is_synchronous(&mut forgetful, *p, op) {
            backend.set_fault(Some(Box::new(move |call| {
                let fails = dice.one_in(4);
                if fails {
                    failed.lock().expect("nobody panicked").push(call);
                }
                fails.then(|| errno_of(call))
            })));
        }
        let found = forgetful.apply(*p, op);
        backend.set_fault(None);
        let failed = std::mem::take(&mut *calls.lock().expect("nobody panicked"));
        for call in &failed {
            let mut calls = faults.calls.lock().expect("nobody panicked");
            *calls.entry(call).or_default() += 1;
        }
        let is_injected = |call: &&str| found == Outcome::Error(errno_of(call).0);
        if failed.iter().any(is_injected) {
            let mut stopped = faults.stopped.lock().expect("nobody panicked");
            *stopped.entry(name(op)).or_default() += 1;
            continue;
        }
        // A read or copy that the backend stopped after a part is a shorter one.
        let short = match &found {
            Outcome::Data(bytes) if !failed.is_empty() => cut(op, bytes.len()),
            Outcome::Number(len) if !failed.is_empty() => cut(op, *len as usize),
            _ => None,
        };
        if short.as_ref().is_some_and(|short| short != op) {
            let mut stopped = faults.stopped.lock().expect("nobody panicked");
            *stopped.entry(format!("short {}", name(op))).or_default() += 1;
        }
        let op = short.as_ref().unwrap_or(op);
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

/// A shortened read or copy, of no more than `most` bytes; `None` if it is neither, or moves
/// nothing.
fn cut(op: &Op, most: usize) -> Option<Op> {
    let mut cut = op.clone();
    match &mut cut {
        _ if most == 0 => return None,
        Op::Read { len, .. } | Op::ReadAt { len, .. } | Op::Copy { len, .. } => {
            *len = most.min(*len);
        }
        Op::ReadV { lens, .. } | Op::ReadVAt { lens, .. } => {
            let mut left = most;
            for len in lens {
                *len = left.min(*len);
                left -= *len;
            }
        }
        _ => return None,
    }
    Some(cut)
}

/// Whether an operation that fails leaves something behind all the same: the access time of a
/// link, or of what it had begun to copy or to list.
fn moves_on(model: &Model, p: usize, op: &Op) -> bool {
    match op {
        Op::Copy { .. } | Op::List { .. } | Op::ListFd { .. } => model.reads_anything(p, op),
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
