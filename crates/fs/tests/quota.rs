//! Quotas seen through the library: what is counted, what is refused, what is told.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in what its threads share as well"
)]

#[path = "quota/collecting.rs"]
mod collecting;
#[path = "quota/events.rs"]
mod events;
mod hands;
#[path = "quota/limits.rs"]
mod limits;
#[path = "support/one_core.rs"]
mod one_core;
#[path = "quota/promises.rs"]
mod promises;
#[path = "quota/race.rs"]
mod race;
#[path = "quota/random.rs"]
mod random;
#[path = "quota/rules.rs"]
mod rules;
#[path = "quota/trees.rs"]
mod trees;

use hands::Hands;
use hearth::{Credentials, LimitChange, LimitUpdate, Process, QuotaId, Resource, Volume};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

const PAGE: u64 = 4096;

/// A volume with a directory that everybody may use, and a clock that the test moves.
struct Site {
    volume: Volume,
    clock: Arc<AtomicI64>,
    root: Process,
}

fn site() -> Site {
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let volume = Volume::builder()
        .inodes(100_000)
        .clock(Hands(Arc::clone(&clock)))
        .build()
        .unwrap();
    let root = volume.process(Credentials::root());
    root.umask(0);
    root.mkdir("/d", 0o777).unwrap();
    Site {
        volume,
        clock,
        root,
    }
}

impl Site {
    fn user(&self, uid: u32) -> Process {
        self.volume.process(Credentials::user(uid, uid))
    }

    /// (bytes, inodes) of an id.
    fn used(&self, who: QuotaId) -> (u64, u64) {
        let record = self.volume.quota().get(who).unwrap();
        (record.bytes.used, record.inodes.used)
    }

    fn hard(&self, who: QuotaId, bytes: u64, inodes: u64) {
        let change = LimitChange {
            bytes_hard: LimitUpdate::To(bytes),
            inodes_hard: LimitUpdate::To(inodes),
            ..LimitChange::default()
        };
        self.volume.quota().set(who, &change).unwrap();
    }

    fn soft(&self, who: QuotaId, resource: Resource, soft: u64) {
        let mut change = LimitChange::default();
        match resource {
            Resource::Blocks => change.bytes_soft = LimitUpdate::To(soft),
            Resource::Inodes => change.inodes_soft = LimitUpdate::To(soft),
        }
        self.volume.quota().set(who, &change).unwrap();
    }

    /// The ledger is what a full walk finds.
    #[track_caller]
    fn check(&self) {
        check(&self.volume);
    }
}

#[track_caller]
fn check(volume: &Volume) {
    let check = volume.quota().check().unwrap();
    assert!(check.is_clean(), "{check:?}");
}

fn file(process: &Process, path: &str) -> i32 {
    process
        .open(path, libc::O_CREAT | libc::O_RDWR, 0o666)
        .unwrap()
}

/// `pages` whole pages from the start.
fn fill(process: &Process, fd: i32, pages: u64) {
    let bytes = vec![7; (pages * PAGE) as usize];
    assert_eq!(process.pwrite(fd, &bytes, 0), Ok(bytes.len()));
}
