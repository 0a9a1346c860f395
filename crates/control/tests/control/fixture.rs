//! Volumes with control files, and what tests do with them.

use hearth::{Clock, Credentials, Errno, Process, Time, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A volume in memory with control files.
pub fn volume() -> Volume {
    let volume = Volume::memory();
    hearth_control::install(&volume).unwrap();
    volume
}

/// A process of root on a new volume.
pub fn root() -> Process {
    volume().process(Credentials::root())
}

/// A clock that the test moves.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_nanos(1_700_000_000_000_000_000 + self.monotonic() * 1_000_000)
    }

    fn monotonic(&self) -> u64 {
        1_000_000_000 + self.0.load(Ordering::SeqCst)
    }
}

/// A volume that tracks heat by a clock that the test moves, and a process of root.
pub fn tracked() -> (Volume, Process, ManualClock) {
    let clock = ManualClock::default();
    let volume = Volume::builder()
        .hot_track(true)
        .clock(clock.clone())
        .build()
        .unwrap();
    hearth_control::install(&volume).unwrap();
    let process = volume.process(Credentials::root());
    (volume, process, clock)
}

/// Makes a file of this many bytes and leaves it open.
pub fn create(process: &Process, path: impl AsRef<[u8]>, bytes: usize) -> i32 {
    let fd = process
        .open(path.as_ref(), libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    process.write(fd, &vec![7; bytes]).unwrap();
    fd
}

/// The text of a control file.
pub fn read(process: &Process, path: &str) -> String {
    let fd = process.open(path, libc::O_RDONLY, 0).unwrap();
    let mut text = vec![0; 1 << 20];
    let len = process.read(fd, &mut text).unwrap();
    process.close(fd).unwrap();
    text.truncate(len);
    String::from_utf8(text).unwrap()
}

/// Writes to a control file without reading on.
pub fn write(process: &Process, path: &str, text: &str) -> Result<usize, Errno> {
    let fd = process.open(path, libc::O_WRONLY | libc::O_TRUNC, 0)?;
    let written = process.write(fd, text.as_bytes());
    process.close(fd)?;
    written
}
