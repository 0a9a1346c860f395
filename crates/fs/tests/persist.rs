//! What a volume over a durable backend has of its settings when it is opened again: quotas, heat,
//! weights and ceilings of tenants, tunables. A crash leaves what the backend has.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "persist/heat.rs"]
mod heat;
#[path = "persist/quota.rs"]
mod quota;
#[path = "persist/settings.rs"]
mod settings;

use hearth::backend::{Backend, Record, TestBackend};
use hearth::{Clock, Credentials, Process, Time, Volume, VolumeBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A wall clock and a monotonic one, which the test moves together.
#[derive(Clone, Default)]
struct Hand {
    wall: Arc<AtomicU64>,
    up: Arc<AtomicU64>,
}

impl Hand {
    fn pass(&self, time: Duration) {
        for clock in [&self.wall, &self.up] {
            clock.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
        }
    }

    /// The machine starts again: its monotonic clock begins anew.
    fn restart(&self) {
        self.up.store(0, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Time {
        let wall = self.wall.load(Ordering::SeqCst);
        Time::from_nanos((1_700_000_000_000 + wall) * 1_000_000)
    }

    fn monotonic(&self) -> u64 {
        1_000_000 + self.up.load(Ordering::SeqCst)
    }
}

/// A backend that outlives its volumes, and the time.
#[derive(Default)]
struct World {
    backend: Arc<TestBackend>,
    hand: Hand,
}

impl World {
    fn builder(&self) -> VolumeBuilder {
        Volume::builder()
            .backend(Arc::clone(&self.backend))
            .clock(self.hand.clone())
    }

    fn open(&self) -> Volume {
        self.builder().build().expect("opens")
    }

    /// Ends the volume without another word.
    fn crash(&mut self, volume: Volume) {
        self.backend = Arc::new(self.backend.after_crash());
        volume.abandon();
    }

    /// Ends it as an unmount does.
    fn close(&mut self, volume: Volume) {
        volume.close().expect("closes");
    }

    /// Counts calls of the backend that commit.
    fn count_commits(&self) -> Arc<AtomicU64> {
        let commits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commits);
        self.backend.set_fault(Some(Box::new(move |call| {
            counted.fetch_add(u64::from(call == "commit"), Ordering::SeqCst);
            None
        })));
        commits
    }

    /// The keys of the settings that the backend has.
    fn keys(&self) -> Vec<String> {
        let copy = self.backend.after_crash();
        let restart = copy.restart().expect("restarts").expect("is a volume");
        let keys = restart.settings.into_iter().map(|(key, _)| key);
        keys.map(|key| String::from_utf8_lossy(&key).into_owned())
            .collect()
    }

    /// Changes a setting behind the back of the volumes.
    fn put(&self, key: &str, value: &[u8]) {
        let restart = self.backend.restart().expect("restarts");
        let epoch = restart.map_or(0, |restart| restart.epoch);
        let record = Record::Setting {
            key: key.as_bytes().into(),
            version: 0,
            value: Some(value.into()),
        };
        self.backend.commit(epoch + 1, vec![record]).expect("keeps");
    }
}

fn root(volume: &Volume) -> Process {
    volume.process(Credentials::root())
}

/// Writes `bytes` to a new file and closes it.
fn create(process: &Process, path: &str, bytes: usize) -> hearth::Result<usize> {
    let fd = process.open(path, libc::O_CREAT | libc::O_RDWR, 0o644)?;
    let written = process.write(fd, &vec![7; bytes]);
    process.close(fd)?;
    written
}
