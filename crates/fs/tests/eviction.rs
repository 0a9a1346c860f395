//! The model test on a backend that gives objects back: everything may be forgotten between any two
//! operations, and any call of the backend may fail.

#[path = "eviction/ahead.rs"]
mod ahead;
#[path = "eviction/attributes.rs"]
mod attributes;
#[path = "eviction/crowd.rs"]
mod crowd;
#[path = "model/driver.rs"]
mod driver;
#[path = "eviction/ends.rs"]
mod ends;
#[path = "eviction/faults.rs"]
mod faults;
#[path = "eviction/kept_open.rs"]
mod kept_open;
#[path = "eviction/nodes.rs"]
mod nodes;
#[path = "eviction/table.rs"]
mod table;
#[path = "eviction/through.rs"]
mod through;
#[path = "eviction/written.rs"]
mod written;

use driver::Library;
use hearth::backend::TestBackend;
use hearth::{Clock, Credentials, Errno, SystemClock, Time, Volume};
use hearth_model::strategy::{Abilities, run_scripts};
use hearth_model::{Op, Outcome, System, compare};
use hearth_testing::threads::SetOnDrop;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};
/// Scripts of one run: some hundred thousand operations.
const SCRIPTS: u32 = 1_700;

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

/// What was met on the way, so that a test which meets nothing fails.
#[derive(Default)]
struct Met {
    operations: AtomicU64,
    /// Bytes that were given back to the backend.
    reclaimed: AtomicU64,
}

/// A library that forgets something before every operation.
struct Forgetful<'m> {
    library: Library,
    dice: Dice,
    met: &'m Met,
}

impl System for Forgetful<'_> {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        let all = self.dice.one_in(3);
        let bytes = if all { u64::MAX } else { 4096 };
        let won = self.library.volume().reclaim(bytes);
        self.met.reclaimed.fetch_add(won, Ordering::Relaxed);
        self.met.operations.fetch_add(1, Ordering::Relaxed);
        self.library.apply(p, op)
    }
}

fn volume(backend: &Arc<TestBackend>) -> Volume {
    Volume::builder()
        .backend(backend.clone())
        .memory_budget(1 << 20)
        .build()
        .expect("a new backend has nothing that could fail")
}

/// How many scripts a run has, unless it is told.
fn cases(scripts: u32) -> u32 {
    std::env::var("HEARTH_MODEL_CASES").map_or(scripts, |text| {
        text.parse().expect("HEARTH_MODEL_CASES is a number")
    })
}

fn run(scripts: u32, check: impl Fn(u64, &[(usize, Op)]) -> Option<String>) {
    let config = ProptestConfig::with_cases(cases(scripts));
    run_scripts(config, (ABILITIES, 20..100), |seed, steps| {
        check(seed, steps).map_or(Ok(()), Err)
    });
}

#[test]
fn a_volume_that_forgets_everything_at_every_step_equals_the_model() {
    let met = Met::default();
    run(SCRIPTS, |seed, steps| {
        let backend = Arc::new(TestBackend::new());
        let library = Library::new(volume(&backend));
        let mut forgetful = Forgetful {
            library,
            dice: Dice::new(seed),
            met: &met,
        };
        let difference = compare(&mut forgetful, steps, 16).err();
        difference.map(|difference| difference.to_string())
    });
    met.enough();
}

/// Nobody asks for memory here: what does not fit is given back by the operations.
#[test]
fn a_volume_that_has_little_memory_equals_the_model() {
    let calls = Arc::new(AtomicU64::new(0));
    run(SCRIPTS / 4, |_, steps| {
        let backend = Arc::new(TestBackend::new());
        let count = Arc::clone(&calls);
        backend.set_fault(Some(Box::new(move |call| {
            let loads = u64::from(call.starts_with("load_"));
            count.fetch_add(loads, Ordering::Relaxed);
            None
        })));
        let volume = Volume::builder().backend(backend).memory_budget(4 << 10);
        let mut library = Library::new(volume.build().expect("a valid volume"));
        let difference = compare(&mut library, steps, 16).err();
        difference.map(|difference| difference.to_string())
    });
    let (calls, scripts) = (calls.load(Ordering::Relaxed), cases(SCRIPTS / 4));
    assert!(
        calls > 5 * u64::from(scripts),
        "{calls} objects came back in {scripts} scripts"
    );
}

impl Met {
    fn enough(&self) {
        let scripts = u64::from(cases(SCRIPTS));
        let operations = self.operations.load(Ordering::Relaxed);
        assert!(
            operations > 40 * scripts,
            "{operations} operations of {scripts} scripts"
        );
        let reclaimed = self.reclaimed.load(Ordering::Relaxed);
        assert!(
            reclaimed > 4096 * scripts,
            "{reclaimed} bytes were given back"
        );
    }
}

/// Once, `..` was a stale handle there, and not a name that is missing as in a volume that forgets
/// nothing.
#[test]
fn a_removed_directory_below_one_that_is_gone_has_nothing_above() {
    let volume = volume(&Arc::new(TestBackend::new()));
    let root = volume.process(Credentials::root());
    root.mkdir("/a", 0o755).expect("a new name");
    root.mkdir("/a/b", 0o755).expect("a new name");
    root.chdir("/a/b").expect("it is there");
    root.rmdir("/a/b").expect("it is empty");
    volume.reclaim(u64::MAX);
    assert!(root.stat("..").is_ok(), "it is there and comes back");
    root.rmdir("/a").expect("it is empty");
    volume.reclaim(u64::MAX);
    for _ in 0..2 {
        assert_eq!(root.unlink(".."), Err(Errno::EISDIR));
        assert_eq!(root.stat("..").err(), Some(Errno::ENOENT));
    }
    assert_eq!(root.stat(".").map(|attr| attr.nlink), Ok(0));
}

/// Once, a listing ended where the directory was forgotten, as if there were no more.
#[test]
fn a_listing_beside_evictions_has_every_name_once() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .backend(backend)
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
        let _end = SetOnDrop(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                volume.reclaim(u64::MAX);
            }
        });
        for _ in 0..100 {
            let listed = root.read_dir("/").expect("the root is there");
            let seen: BTreeSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
            let (all, distinct) = (listed.len(), seen.len());
            let is_whole = seen == names && all == names.len();
            assert!(is_whole, "{all} names are listed, {distinct} distinct ones");
        }
    });
}

/// Once, what came after the first thousand entries was missing without a word.
#[test]
fn a_listing_that_the_backend_fails_half_way_says_so_and_goes_on_later() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder().backend(backend.clone()).build();
    let volume = volume.expect("a valid volume");
    let root = volume.process(Credentials::root());
    root.mkdir("/d", 0o755).expect("a new name");
    for n in 0..3_000 {
        let made = root.mknod(format!("/d/{n}"), libc::S_IFREG | 0o600, 0);
        made.expect("a new name");
    }
    volume.sync().expect("the backend fails nothing");
    let fail = |fails: bool| {
        let fault = move |_: &'static str| fails.then_some(Errno::EIO);
        backend.set_fault(Some(Box::new(fault)));
    };
    let fd = root.open("/d", libc::O_DIRECTORY, 0).expect("it is there");
    let mut names = Vec::new();
    let listed = root.getdents(fd, &mut |entry| {
        names.push(entry.name.to_vec());
        if names.len() == 1_500 {
            volume.reclaim(u64::MAX);
            fail(true);
        }
        true
    });
    assert_eq!(listed, Err(Errno::EIO));
    assert!(names.len() < 3_002, "it was forgotten half-way");
    assert_eq!(root.read_dir("/d"), Err(Errno::EIO));
    fail(false);
    let goes_on = root.getdents(fd, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    });
    assert_eq!((goes_on, names.len()), (Ok(()), 3_002));
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 3_002);
}

/// A clock that does something when it is asked.
#[derive(Clone)]
struct Hooked(Arc<Mutex<Hook>>);
type Hook = Option<Box<dyn FnMut() + Send>>;

impl Clock for Hooked {
    fn now(&self) -> Time {
        let hook = self.0.lock().expect("nobody panicked").take();
        if let Some(mut hook) = hook {
            hook();
        }
        SystemClock.now()
    }
}

/// Each part of a listing asks for the time once: the second finds its directory forgotten.
#[test]
fn a_listing_that_fails_in_its_second_part_is_no_listing() {
    let backend = Arc::new(TestBackend::new());
    let clock = Hooked(Arc::new(Mutex::new(None)));
    let volume = Volume::builder().backend(backend.clone());
    let volume = volume.clock(clock.clone()).build();
    let volume = volume.expect("a valid volume");
    let root = volume.process(Credentials::root());
    for n in 0..3_000 {
        let made = root.mknod(format!("/{n}"), libc::S_IFREG | 0o600, 0);
        made.expect("a new name");
    }
    volume.sync().expect("the backend fails nothing");
    let set = |hook: Hook| *clock.0.lock().expect("nobody panicked") = hook;
    let (second, evicting, failing) = (clock.clone(), volume.clone(), backend.clone());
    set(Some(Box::new(move || {
        let (evicting, failing) = (evicting.clone(), failing.clone());
        let forget: Box<dyn FnMut() + Send> = Box::new(move || {
            evicting.reclaim(u64::MAX);
            failing.set_fault(Some(Box::new(|_| Some(Errno::EIO))));
        });
        *second.0.lock().expect("nobody panicked") = Some(forget);
    })));
    assert_eq!(root.read_dir("/"), Err(Errno::EIO));
    backend.set_fault(None);
    set(None);
    assert_eq!(root.read_dir("/").map(|names| names.len()), Ok(3_000));
}
