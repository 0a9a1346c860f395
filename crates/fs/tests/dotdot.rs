//! `..` of a directory beside its removal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{Clock, Credentials, Process, SystemClock, Time, Volume};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::yield_now;

/// Directories that are made and removed at most until a number is used again.
const TRIES: usize = 100_000;

thread_local! {
    /// The next look at the clock by this thread is where it stops.
    static STOPS: Cell<bool> = const { Cell::new(false) };
}

/// A clock at which a thread stops: an operation asks for the time when its names have changed, and
/// before the attributes do.
#[derive(Default)]
struct Stops {
    stopped: AtomicBool,
    goes_on: AtomicBool,
}

struct StopClock(Arc<Stops>);

impl Clock for StopClock {
    fn now(&self) -> Time {
        if STOPS.replace(false) {
            self.0.stopped.store(true, SeqCst);
            while !self.0.goes_on.load(SeqCst) {
                yield_now();
            }
        }
        SystemClock.now()
    }
}

/// A directory that gets the number `wanted`, and a file in it.
fn reuse(p: &Process, wanted: u64) {
    for n in 0..TRIES {
        let name = format!("/x{n}");
        p.mkdir(&name, 0o700).unwrap();
        if p.stat(&name).unwrap().ino == wanted {
            p.mkdir(format!("{name}/secret"), 0o700).unwrap();
            return;
        }
        p.rmdir(&name).unwrap();
    }
    panic!("the number of the parent is not used again");
}

/// Runs `remove`, which takes `/p/d` away, up to where its name is gone; then `/p` goes, and its
/// number becomes that of another directory. Nobody below `/p/d` may come to that one.
fn check(remove: impl FnOnce(&Process) + Send) {
    let stops = Arc::new(Stops::default());
    let volume = Volume::builder()
        .clock(StopClock(Arc::clone(&stops)))
        .build()
        .unwrap();
    let [p, inside] = [(); 2].map(|()| volume.process(Credentials::root()));
    for directory in ["/p", "/p/d", "/p/s"] {
        p.mkdir(directory, 0o755).unwrap();
    }
    let parent = p.stat("/p").unwrap().ino;
    inside.chdir("/p/d").unwrap();
    std::thread::scope(|scope| {
        let remover = scope.spawn(|| {
            STOPS.set(true);
            remove(&p);
        });
        while !stops.stopped.load(SeqCst) {
            yield_now();
        }
        assert_eq!(inside.stat("..").map(|attr| attr.ino), Ok(parent));
        for name in ["/p/d", "/p/s"] {
            let _ = p.rmdir(name);
        }
        p.rmdir("/p").unwrap();
        reuse(&p, parent);
        let seen = ["..", "../secret"].map(|path| inside.stat(path).map(|attr| attr.ino));
        stops.goes_on.store(true, SeqCst);
        remover.join().unwrap();
        let no = Err(hearth::Errno::ENOENT);
        assert_eq!(seen, [no, no], "{parent} is another directory now");
        assert_eq!(inside.stat("..").map(|attr| attr.ino), no);
    });
}

/// Once, `..` led into that directory as long as the link count was not written.
#[test]
fn dotdot_of_a_directory_whose_removal_ends_leads_to_no_directory_with_its_parents_number() {
    check(|p| p.rmdir("/p/d").unwrap());
}

#[test]
fn dotdot_of_a_directory_that_is_being_replaced_leads_to_no_directory_with_its_parents_number() {
    check(|p| p.rename("/p/s", "/p/d").unwrap());
}
