//! A volume that tracks heat by a clock that the test moves.

use hearth::{Clock, Credentials, Process, Time, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that the test moves.
#[derive(Clone, Default)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Time {
        Time::from_nanos(1_700_000_000_000_000_000 + self.monotonic() * 1_000_000)
    }

    fn monotonic(&self) -> u64 {
        1_000_000_000 + self.0.load(Ordering::SeqCst)
    }
}

pub fn tracked() -> (Volume, Process, Hand) {
    let hand = Hand::default();
    let volume = Volume::builder()
        .hot_track(true)
        .clock(hand.clone())
        .build()
        .unwrap();
    let process = volume.process(Credentials::root());
    (volume, process, hand)
}

/// Keeps this thread on the `n`th core that it may use, if there are so many: numbers of inodes
/// that end are used again by the core where they ended.
pub fn stay_on(n: usize) {
    // SAFETY: the sets are plain data, the calls get their true size, the numbers are inside.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&all), &raw mut all);
        let core = (0..1024).filter(|&core| libc::CPU_ISSET(core, &all)).nth(n);
        if let Some(core) = core {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        }
    }
}

pub fn create(process: &Process, path: impl AsRef<[u8]>, bytes: usize) -> i32 {
    let fd = process
        .open(path.as_ref(), libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    process.write(fd, &vec![7; bytes]).unwrap();
    fd
}
