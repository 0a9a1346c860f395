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
use hearth::{Credentials, Volume};
use hearth_bench::live::{Counted, Live};
use hearth_model::strategy::{Abilities, script};
use hearth_model::{Op, System};
use hearth_sync::epoch;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use soaking::{clear, number, runner};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The allocator of the program `hearth`, counting.
#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

/// Everything that Hearth can do.
const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};
/// Kinds of operations of the model: every one is made.
const KINDS: usize = 62;
/// Scripts that a thread runs in one round; then the tree, which grows, is taken away.
const ROUND: u32 = 300;

/// Allocations that may be there at the end and were not at the start: lists that have another
/// length, never one for each thousandth operation.
const BLOCKS: i64 = 40;
/// Bytes of the same: the table of inodes grows by 64 KiB for each thousand that live at once.
const BYTES: i64 = 512 << 10;

/// What a volume, and the program, hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    inodes: usize,
    entries: usize,
    blocks_free: u64,
    inodes_free: u64,
    retired: u64,
}

impl Held {
    fn now(volume: &Volume) -> Held {
        settle();
        let root = volume.process(Credentials::root());
        let room = root.statfs("/").expect("the root is there");
        let entries = root.read_dir("/").expect("the root is there").len();
        Held {
            inodes: volume.inodes_in_memory(),
            entries,
            blocks_free: room.bfree,
            inodes_free: room.ffree,
            retired: epoch::pending(),
        }
    }
}

/// Nobody is at work: frees all that is due.
fn settle() {
    let (mut before, mut since) = (Live::now(), Instant::now());
    // What a thread left waits for it for a tenth of a second.
    while since.elapsed() < Duration::from_millis(300) {
        // A turn of the collector frees some of what is due.
        for _ in 0..256 {
            epoch::pin().flush();
        }
        let now = Live::now();
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}

/// The next script of a thread.
fn next(runner: &mut TestRunner) -> Vec<(usize, Op)> {
    let script = script(ABILITIES, 1..130);
    // No lock of a script waits: threads could wait for each other for ever.
    script.new_tree(runner).expect("a script").current()
}

/// Runs so many scripts; answers how many operations, and of which kinds.
fn work(volume: &Volume, scripts: &mut TestRunner, scripts_each: u32) -> (u64, BTreeSet<String>) {
    let (mut done, mut kinds) = (0, BTreeSet::new());
    for _ in 0..scripts_each {
        let mut library = Library::new(volume.clone());
        for (p, op) in next(scripts) {
            library.apply(p, &op);
            done += 1;
            let text = format!("{op:?}");
            let kind = text.split([' ', '{']).next().unwrap_or_default();
            if !kinds.contains(kind) {
                kinds.insert(kind.to_owned());
            }
        }
        assert_eq!(
            library.close_all(),
            0,
            "descriptors are left when all are closed"
        );
        library.exit_all();
    }
    (done, kinds)
}

/// Every thread works; the volume is empty afterwards. Answers how many operations were made, and
/// of how many kinds by every thread.
fn all_threads(volume: &Volume, scripts: &mut [TestRunner], scripts_each: u32) -> (u64, usize) {
    let results: Vec<_> = std::thread::scope(|scope| {
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
    let all = results.iter().map(|(_, kinds)| kinds.clone());
    let every = all.reduce(|a, b| &a & &b).unwrap_or_default();
    (results.iter().map(|(done, _)| done).sum(), every.len())
}

/// More than at the start, within what lists may differ by.
fn check_memory(what: &str, before: Live, after: Live) {
    println!("{what}: {before:?}, then {after:?}");
    let (bytes, blocks) = (after.bytes - before.bytes, after.blocks - before.blocks);
    assert!(blocks <= BLOCKS, "{what}: {blocks} allocations are left");
    assert!(bytes <= BYTES, "{what}: {bytes} bytes are left");
}

#[test]
fn nothing_is_left_when_all_operations_ran_on_all_threads() {
    let (seconds, seed) = (number("HEARTH_SOAK_SECONDS", 4), number("HEARTH_SEED", 1));
    let threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let mut runners: Vec<_> = (0..threads).map(|n| runner(seed, n)).collect();
    // What the program makes once, for whichever volume, is made now.
    all_threads(&Volume::memory(), &mut runners, 10);
    settle();
    let empty = Live::now();
    let volume = Volume::memory();
    // Tables and per-core parts have their size when this is over.
    all_threads(&volume, &mut runners, ROUND);
    let (before, live_before) = (Held::now(&volume), Live::now());
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut done, mut kinds) = (0, KINDS);
    while Instant::now() < end {
        let round = all_threads(&volume, &mut runners, ROUND);
        done += round.0;
        kinds = kinds.min(round.1);
    }
    let (after, live_after) = (Held::now(&volume), Live::now());
    println!("{done} operations of {kinds} kinds on {threads} threads, seed {seed}");
    println!("{before:?}, then {after:?}");
    assert_eq!(kinds, KINDS, "every thread makes operations of every kind");
    assert_eq!(after, before);
    check_memory("with the volume", live_before, live_after);
    drop(volume);
    settle();
    check_memory("without it", empty, Live::now());
}
