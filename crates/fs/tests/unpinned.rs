//! A backend may take as long as it likes: whoever waits for it holds nothing back that others
//! retire.

use hearth::backend::TestBackend;
use hearth::{Credentials, Errno, Fd, LockKind, LockSpec, Process, Volume};
use hearth_sync::epoch;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

struct Retired(Arc<AtomicBool>);

impl Drop for Retired {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Whether what another thread retires now is dropped while this thread stays where it is.
fn is_unpinned() -> bool {
    let dropped = Arc::new(AtomicBool::new(false));
    let retired = Box::new(Retired(Arc::clone(&dropped)));
    let other = std::thread::spawn(move || {
        epoch::retire(retired, &epoch::pin());
        let limit = Instant::now() + Duration::from_secs(2);
        while !dropped.load(Ordering::SeqCst) && Instant::now() < limit {
            epoch::pin().flush();
            std::thread::yield_now();
        }
        dropped.load(Ordering::SeqCst)
    });
    other.join().expect("the other thread does not panic")
}

/// Calls of the backend that were made while the caller was pinned, and not.
type Seen = Arc<Mutex<(BTreeSet<&'static str>, BTreeSet<&'static str>)>>;

fn watched() -> (Volume, Process, Arc<TestBackend>, Seen) {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .backend(backend.clone())
        .build()
        .expect("a valid volume");
    let process = volume.process(Credentials::user(0, 0));
    (volume, process, backend, Seen::default())
}

fn watch(backend: &TestBackend, seen: &Seen) {
    let seen = Arc::clone(seen);
    backend.set_fault(Some(Box::new(move |call| {
        let mut seen = seen.lock().expect("nobody panicked");
        if is_unpinned() {
            seen.1.insert(call);
        } else {
            seen.0.insert(call);
        }
        None
    })));
}

#[test]
fn nothing_is_pinned_while_a_backend_loads_or_takes_pages() {
    let (volume, p, backend, seen) = watched();
    p.mkdir("/d", 0o755).unwrap();
    let fd = p.open("/d/f", NEW, 0o644).unwrap();
    p.write(fd, &[7; 300_000]).unwrap();
    watch(&backend, &seen);
    p.fsync(fd).unwrap();
    p.pwrite(fd, b"again", 5).unwrap();
    volume.sync().unwrap();
    p.close(fd).unwrap();
    for _ in 0..3 {
        volume.reclaim(u64::MAX);
    }
    let fd = p.open("/d/f", libc::O_RDWR, 0).unwrap();
    assert_eq!(p.read(fd, &mut [0; 10_000]).unwrap(), 10_000);
    assert_eq!(p.pread(fd, &mut [0; 10_000], 50_000).unwrap(), 10_000);
    p.pwrite(fd, b"part of a page", 100_000).unwrap();
    p.lseek(fd, 0, libc::SEEK_HOLE).unwrap();
    assert_eq!(p.read_dir("/d").unwrap().len(), 1);
    backend.set_fault(None);
    let (pinned, unpinned) = &*seen.lock().unwrap();
    let wanted = [
        "load_inode",
        "load_entry",
        "load_directory",
        "load_pages",
        "load_inodes",
        "write_pages",
        "commit",
    ];
    for call in wanted {
        assert!(unpinned.contains(call), "{call} was not seen: {unpinned:?}");
        assert!(!pinned.contains(call), "{call} was made while pinned");
    }
}

/// Once, such a sync waited for the end of the operation that had called it, for ever.
#[test]
fn a_sync_inside_a_callback_is_refused_and_works_behind_it() {
    let (volume, p, _, _) = watched();
    p.mkdir("/d", 0o755).unwrap();
    let fd = p.open("/d/f", NEW, 0o644).unwrap();
    p.write(fd, b"x").unwrap();
    let dir = p.open("/d", libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
    let mut refused = Vec::new();
    let mut each = |_: hearth::DirEntry<'_>| {
        refused.push((p.fsync(fd), p.fdatasync(fd), p.syncfs(fd), volume.sync()));
        refused.push((
            volume.close(),
            Err(Errno::EDEADLK),
            p.pwrite(fd, b"y", 0).map(drop),
            Ok(()),
        ));
        true
    };
    p.getdents(dir, &mut each).unwrap();
    let no = Err(Errno::EDEADLK);
    assert_eq!(refused.len(), 6, "., .. and f");
    for two in refused.chunks(2) {
        assert_eq!(two, [(no, no, no, no), (no, no, Ok(()), Ok(()))]);
    }
    p.fsync(fd).unwrap();
    volume.sync().unwrap();
    volume.close().unwrap();
}

/// Once, the change waited for the cut, and the cut for the callback.
#[test]
fn a_change_inside_a_callback_does_not_wait_for_ever_for_the_sync_of_another() {
    let (volume, p, _, _) = watched();
    p.mkdir("/d", 0o755).unwrap();
    let fd = p.open("/d/f", NEW, 0o644).unwrap();
    let dir = p.open("/d", libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
    std::thread::scope(|scope| {
        let mut other = None;
        let mut each = |_: hearth::DirEntry<'_>| {
            if other.is_none() {
                other = Some(scope.spawn(|| volume.sync()));
                std::thread::sleep(Duration::from_millis(200));
                assert_eq!(p.pwrite(fd, b"x", 0), Err(Errno::EDEADLK));
            }
            true
        };
        p.getdents(dir, &mut each).unwrap();
        let synced = other.map(|other| other.join().expect("it does not panic"));
        assert_eq!(synced, Some(Ok(())));
    });
    assert_eq!(p.write(fd, b"x"), Ok(1));
}

type Call<'a> = &'a (dyn Fn(&Process, Fd) -> bool + Sync);

/// Calls `beside` for a file while another thread holds its offset: a write, which waits for a page
/// that the backend does not give. Returns whether the call was unpinned then, and what it returns.
fn beside_held_offset(beside: Call<'_>) -> (bool, bool) {
    let (volume, p, backend, _) = watched();
    let fd = p.open("/f", NEW, 0o644).expect("a file");
    p.write(fd, &[7; 300_000]).expect("a file");
    volume.sync().expect("a sync");
    p.close(fd).expect("a file");
    for _ in 0..3 {
        volume.reclaim(u64::MAX);
    }
    let fd = p.open("/f", libc::O_RDWR, 0).expect("a file");
    let [waits, goes_on] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (told, until) = (Arc::clone(&waits), Arc::clone(&goes_on));
    backend.set_fault(Some(Box::new(move |call| {
        if call == "load_pages" {
            told.store(true, Ordering::SeqCst);
            wait_for(&until);
        }
        None
    })));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| p.write(fd, b"a part of a page"));
        wait_for(&waits);
        let caller = scope.spawn(|| beside(&p, fd));
        // Time for it to begin its wait.
        std::thread::sleep(Duration::from_millis(50));
        let is_unpinned = is_unpinned();
        goes_on.store(true, Ordering::SeqCst);
        assert_eq!(writer.join().expect("it does not panic"), Ok(16));
        (is_unpinned, caller.join().expect("it does not panic"))
    })
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

/// Once, a lock relative to the offset waited for it pinned: a cut waited for that thread, it for a
/// write, and the write for the cut, for ever.
#[test]
fn nobody_waits_for_an_offset_while_pinned() {
    let spec = LockSpec {
        kind: LockKind::Read,
        whence: libc::SEEK_CUR,
        start: 0,
        len: 1,
    };
    let copy = |p: &Process, fd: Fd| {
        let to = p.open("/to", NEW, 0o644).unwrap();
        p.copy_file_range((fd, None), (to, None), 1, 0).is_ok()
    };
    let calls: [(&str, Call<'_>); 6] = [
        ("set_lock", &|p, fd| p.set_lock(fd, &spec, None).is_ok()),
        ("get_lock", &|p, fd| p.get_lock(fd, &spec).is_ok()),
        ("set_ofd_lock", &|p, fd| {
            p.set_ofd_lock(fd, &spec, None).is_ok()
        }),
        ("get_ofd_lock", &|p, fd| p.get_ofd_lock(fd, &spec).is_ok()),
        ("copy_file_range", &copy),
        ("lseek", &|p, fd| p.lseek(fd, 0, libc::SEEK_CUR).is_ok()),
    ];
    for (name, call) in calls {
        assert_eq!(beside_held_offset(call), (true, true), "{name}");
    }
}
