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

pub fn create(process: &Process, path: impl AsRef<[u8]>, bytes: usize) -> i32 {
    let fd = process
        .open(path.as_ref(), libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    process.write(fd, &vec![7; bytes]).unwrap();
    fd
}
