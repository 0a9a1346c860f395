//! What survives a crash: volumes are opened again on copies of what a backend had at some moment.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "durable/crowd.rs"]
mod crowd;
#[path = "model/driver.rs"]
mod driver;
#[path = "durable/early.rs"]
mod early;
#[path = "durable/errors.rs"]
mod errors;
#[path = "support/one_core.rs"]
mod one_core;
#[path = "durable/overtaken.rs"]
mod overtaken;
#[path = "durable/reopened.rs"]
mod reopened;
#[path = "durable/replaced.rs"]
mod replaced;
#[path = "durable/scripts.rs"]
mod scripts;
#[path = "durable/sizes.rs"]
mod sizes;
#[path = "durable/waiting.rs"]
mod waiting;

use hearth::backend::TestBackend;
use hearth::{Clock, Credentials, Fd, Process, Time, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const PAGE: usize = 4096;
const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

/// A clock that shows no time twice.
#[derive(Clone)]
struct Ticking(Arc<AtomicU64>);

impl Ticking {
    fn new() -> Ticking {
        Ticking(Arc::new(AtomicU64::new(1_700_000_000_000_000_000)))
    }
}

impl Clock for Ticking {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.fetch_add(1000, Relaxed))
    }
}

/// A volume on this backend that commits nothing by itself.
fn opened(backend: &Arc<TestBackend>) -> Volume {
    opened_every(backend, None)
}

/// A volume on this backend that commits so often by itself.
fn opened_every(backend: &Arc<TestBackend>, interval: Option<Duration>) -> Volume {
    let builder = Volume::builder().workers(0).clock(Ticking::new());
    let builder = match interval {
        Some(interval) => builder.commit_interval(interval),
        None => builder,
    };
    builder.backend(Arc::clone(backend)).build().unwrap()
}

/// A new volume, its backend, and a process of root.
fn begin() -> (Arc<TestBackend>, Volume, Process) {
    let backend = Arc::new(TestBackend::new());
    let volume = opened(&backend);
    let root = volume.process(Credentials::root());
    (backend, volume, root)
}

/// What a crash at this moment leaves, opened again.
fn crashed(backend: &TestBackend) -> (Arc<TestBackend>, Volume, Process) {
    let backend = Arc::new(backend.after_crash());
    let volume = opened(&backend);
    let root = volume.process(Credentials::root());
    (backend, volume, root)
}

fn create(process: &Process, path: &str, bytes: &[u8]) -> Fd {
    let fd = process.open(path, NEW, 0o644).unwrap();
    assert_eq!(process.pwrite(fd, bytes, 0), Ok(bytes.len()));
    fd
}

/// The whole of a file.
fn text(process: &Process, path: &str) -> Vec<u8> {
    let fd = process.open(path, libc::O_RDONLY, 0).unwrap();
    let size = process.fstat(fd).unwrap().size as usize;
    let mut text = vec![0; size];
    let mut done = 0;
    while done < size {
        let read = process.pread(fd, &mut text[done..], done as u64).unwrap();
        assert!(read > 0, "{path} ends at {done} of {size}");
        done += read;
    }
    process.close(fd).unwrap();
    text
}

/// What a neighbour does for itself: it commits all operations, but no contents of others.
fn neighbour_syncs(process: &Process) {
    let fd = create(process, "/neighbour", b"x");
    process.fsync(fd).unwrap();
    process.close(fd).unwrap();
}

/// Checks a volume that nobody uses: names and numbers of names, entries, parents, charges; and
/// that nothing is left that has no name. Returns the files by number.
fn check(backend: &TestBackend, volume: &Volume) -> BTreeMap<u64, u64> {
    let root = volume.process(Credentials::root());
    let mut names = BTreeMap::new();
    let mut links = BTreeMap::new();
    let mut directories = vec![(b"/".to_vec(), root.stat("/").unwrap().ino)];
    let mut found = 1;
    while let Some((path, above)) = directories.pop() {
        let this = root.lstat(&path).unwrap();
        let shown = String::from_utf8_lossy(&path);
        let (mut entries, mut below) = (0, 0);
        for entry in root.read_dir(&path).unwrap() {
            if *entry.name == *b"." {
                assert_eq!(entry.ino, this.ino, "{shown}");
                continue;
            }
            if *entry.name == *b".." {
                assert_eq!(entry.ino, above, "the parent of {shown}");
                continue;
            }
            let inner = match path.len() {
                1 => [b"/", &entry.name[..]].concat(),
                _ => [&path[..], b"/", &entry.name[..]].concat(),
            };
            let attr = root.lstat(&inner);
            let attr = attr.unwrap_or_else(|errno| panic!("a name in {shown}: {errno}"));
            assert_eq!(attr.ino, entry.ino, "a name in {shown}");
            entries += 1;
            if attr.kind == hearth::Kind::Directory {
                below += 1;
                found += 1;
                directories.push((inner, this.ino));
            } else {
                *names.entry(attr.ino).or_insert(0) += 1;
                links.insert(attr.ino, (u64::from(attr.nlink), inner));
            }
        }
        assert_eq!(
            (this.size, this.nlink),
            (20 * entries, 2 + below),
            "{shown}"
        );
    }
    for (ino, (nlink, path)) in &links {
        assert_eq!(names[ino], *nlink, "names of {path:?}");
    }
    found += names.len() as u64;
    let quota = volume.quota().check().unwrap();
    assert!(quota.is_clean(), "{quota:?}");
    assert_eq!((quota.inodes, quota.nameless), (found, 0));
    let room = root.statfs("/").unwrap();
    assert_eq!(room.files - room.ffree, found, "inodes that are charged");
    volume.sync().unwrap();
    assert_eq!(backend.inodes() as u64, found, "inodes of the backend");
    names
}
