//! All operations on all threads, and at the end nothing is left: no inode, no entry, no
//! descriptor, no page, nothing that waits for a reader, no byte.
//!
//! Random scripts of the model's operations run on one volume, on twice as many threads as there
//! are cores, each thread with processes of its own; the names are few, so that the threads meet.
//! `cargo xtask soak` runs it for ten minutes with a new seed, `HEARTH_SOAK_SECONDS` and
//! `HEARTH_SEED` by hand.

#[path = "../../fs/tests/model/driver.rs"]
mod driver;
mod soaking;

use driver::Library;
use hearth::{Credentials, Process, Volume};
use hearth_bench::allocations::{Counting, Live};
use hearth_bench::suites::garbage::settle;
use hearth_model::System;
use hearth_sync::epoch;
use hearth_sync::primitive::cores;
use proptest::test_runner::TestRunner;
use soaking::{clear, next, number, runner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The allocator of the program `hearth`, counting.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc, true> = Counting(mimalloc::MiMalloc);

/// Kinds of operations of the model: every one is made.
const KINDS: usize = 62;
/// Scripts that a thread runs in one round; then the tree, which grows, is taken away.
const ROUND: u32 = 300;

/// Allocations that may be there at the end and were not at the start. Objects are none of them:
/// [`Held`] compares those exactly. They are lists whose length follows the busiest moment, of
/// which each core and each table has a few, never one for each thousandth operation.
fn blocks_more() -> i64 {
    20 + 10 * cores() as i64
}

/// Bytes of the same: the table of inodes grows by 64 KiB for each thousand that live at once, and
/// keeps what it has.
const BYTES: i64 = 512 << 10;

/// The gauges that say what lives in a volume, summed over all of it.
const GAUGES: [&str; 5] = [
    "hearth_inodes",
    "hearth_inodes_in_memory",
    "hearth_dentries",
    "hearth_pages",
    "hearth_lock_waiters",
];

/// Tests of this program take turns: allocations and what is retired are the program's.
static ALONE: Mutex<()> = Mutex::new(());

/// What a volume, its processes and the program hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    gauges: [u64; GAUGES.len()],
    /// Descriptors that scripts left when all were closed.
    fds: usize,
    blocks_free: u64,
    inodes_free: u64,
    /// What waits in the epochs for readers.
    retired: u64,
}

impl Held {
    fn now(volume: &Volume, fds: usize) -> Held {
        settle();
        let root = volume.process(Credentials::root());
        let gauges = statistics(&root);
        let room = root.statfs("/").expect("the root is there");
        drop(root);
        // What was asked with has gone, too.
        settle();
        Held {
            gauges: GAUGES.map(|name| gauges[name]),
            fds,
            blocks_free: room.bfree,
            inodes_free: room.ffree,
            retired: epoch::pending(),
        }
    }
}

/// A volume in memory, with `/.hearth`.
fn with_control_files() -> Volume {
    let volume = Volume::memory();
    hearth_control::install(&volume).expect("it has none yet");
    volume
}

/// The values of `/.hearth/stats` that have no labels.
fn statistics(root: &Process) -> BTreeMap<String, u64> {
    let stats = root.open("/.hearth/stats", libc::O_RDONLY, 0);
    let stats = stats.expect("a control file");
    let mut text = vec![0; 1 << 20];
    let len = root.read(stats, &mut text).expect("it is open");
    root.close(stats).expect("it is open");
    let text = String::from_utf8_lossy(&text[..len]);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let values = lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    values.collect()
}

/// What came of scripts.
#[derive(Default)]
struct Round {
    /// Operations.
    done: u64,
    /// Their kinds; of several threads those that every one made.
    kinds: BTreeSet<String>,
    /// Descriptors left when all are closed.
    fds: usize,
}

/// Runs so many scripts.
fn work(volume: &Volume, scripts: &mut TestRunner, scripts_each: u32) -> Round {
    let mut round = Round::default();
    for _ in 0..scripts_each {
        let mut library = Library::new(volume.clone());
        for (p, op) in next(scripts) {
            library.apply(p, &op);
            round.done += 1;
            let text = format!("{op:?}");
            let kind = text.split([' ', '{']).next().unwrap_or_default();
            if !round.kinds.contains(kind) {
                round.kinds.insert(kind.to_owned());
            }
        }
        round.fds += library.close_all();
        library.exit_all();
    }
    round
}

/// Every thread works; the volume is empty afterwards.
fn all_threads(volume: &Volume, scripts: &mut [TestRunner], scripts_each: u32) -> Round {
    let results: Vec<Round> = std::thread::scope(|scope| {
        let spawn = |scripts| scope.spawn(move || work(volume, scripts, scripts_each));
        let threads: Vec<_> = scripts.iter_mut().map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread failed"))
            .collect()
    });
    let root = volume.process(Credentials::root());
    clear(&root, b"/");
    // Large attributes of the root take blocks, and nothing else takes them away.
    for name in root
        .listxattr("/")
        .expect("the root is there")
        .split(|&byte| byte == 0)
    {
        if !name.is_empty() {
            root.removexattr("/", name).expect("it is listed");
        }
    }
    let together = |all: Round, one: Round| Round {
        done: all.done + one.done,
        kinds: &all.kinds & &one.kinds,
        fds: all.fds + one.fds,
    };
    let all = results.into_iter().reduce(together);
    all.unwrap_or_default()
}

/// More than at the start, within what lists may differ by.
fn check_memory(what: &str, before: Live, after: Live) {
    println!("{what}: {before:?}, then {after:?}");
    let (bytes, blocks) = (after.bytes - before.bytes, after.blocks - before.blocks);
    assert!(
        blocks <= blocks_more(),
        "{what}: {blocks} allocations are left"
    );
    assert!(bytes <= BYTES, "{what}: {bytes} bytes are left");
}

#[test]
fn a_name_a_page_and_a_file_without_a_name_are_held_wherever_they_are() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let volume = with_control_files();
    let root = volume.process(Credentials::root());
    root.mkdir("/d", 0o755).expect("a new name");
    let flags = libc::O_CREAT | libc::O_RDWR;
    let file = root.open("/d/x", flags, 0o600).expect("a new name");
    // What control files need is there as well.
    Held::now(&volume, 0);
    let mut before = Held::now(&volume, 0);
    assert_eq!(Held::now(&volume, 0), before);
    let mut more = |what: &str| {
        let now = Held::now(&volume, 0);
        assert_ne!(now, before, "{what}");
        before = now;
    };
    root.link("/d/x", "/d/y").expect("a new name");
    more("a name that is not in the root");
    root.pwrite(file, &[7], 0).expect("it is open");
    more("a page");
    for name in ["/d/x", "/d/y"] {
        root.unlink(name).expect("it is there");
    }
    more("the names are gone");
    root.close(file).expect("it is open");
    more("the file that had no name is gone");
}

#[test]
fn nothing_is_left_when_all_operations_ran_on_all_threads() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (seconds, seed) = (number("HEARTH_SOAK_SECONDS", 4), number("HEARTH_SEED", 1));
    let threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let mut runners: Vec<_> = (0..threads).map(|n| runner(seed, n)).collect();
    // What the program makes once, for whichever volume, is made now.
    all_threads(&Volume::memory(), &mut runners, 10);
    settle();
    let empty = Live::now();
    let volume = with_control_files();
    // Tables and per-core parts have their size when this is over.
    let mut fds = all_threads(&volume, &mut runners, ROUND).fds;
    let (before, live_before) = (Held::now(&volume, 0), Live::now());
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut done, mut kinds) = (0, KINDS);
    while Instant::now() < end {
        let round = all_threads(&volume, &mut runners, ROUND);
        done += round.done;
        kinds = kinds.min(round.kinds.len());
        fds += round.fds;
    }
    let (after, live_after) = (Held::now(&volume, fds), Live::now());
    println!("{done} operations of {kinds} kinds on {threads} threads, seed {seed}");
    println!("{before:?}, then {after:?}");
    assert_eq!(kinds, KINDS, "every thread makes operations of every kind");
    assert_eq!(after, before);
    check_memory("with the volume", live_before, live_after);
    drop(volume);
    settle();
    check_memory("without it", empty, Live::now());
}
