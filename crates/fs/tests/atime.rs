//! When a read moves the access time, in each of the three modes; what moves the others when the
//! clock is set back.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hands;

use hands::Hands;
use hearth::backend::TestBackend;
use hearth::{
    AtimeMode, Caller, Clock, Credentials, Observer, Origin, Process, ROOT, SetTime, Time, Volume,
};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const DAY: i64 = 24 * 60 * 60;

/// A file that was read and changed long ago, on a volume of this mode.
fn old_file(mode: AtimeMode) -> (Process, i32, Arc<AtomicI64>) {
    let clock = Arc::new(AtomicI64::new(100 * DAY));
    let volume = Volume::builder().clock(Hands(Arc::clone(&clock)));
    let process = volume.build().unwrap().process(Credentials::root());
    process.volume().set_atime(mode);
    let fd = process
        .open("/f", libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    process.write(fd, b"text").unwrap();
    let old = |day: i64| {
        SetTime::At(Time {
            sec: day * DAY,
            nsec: 0,
        })
    };
    process.futimens(fd, Some(old(1)), Some(old(2))).unwrap();
    (process, fd, clock)
}

/// The day of the access time after a read on each of these days.
fn read_on(mode: AtimeMode, days: &[i64]) -> Vec<i64> {
    let (process, fd, clock) = old_file(mode);
    let read = |&day: &i64| {
        clock.store(day * DAY, Relaxed);
        assert_eq!(process.pread(fd, &mut [0; 4], 0), Ok(4));
        process.fstat(fd).unwrap().atime.sec / DAY
    };
    days.iter().map(read).collect()
}

#[test]
fn relatime_moves_what_is_older_than_the_last_change_or_than_a_day() {
    // The change of times on day 100 was the last change.
    assert_eq!(
        read_on(AtimeMode::Relatime, &[101, 101, 102]),
        [101, 101, 102]
    );
    let (process, fd, clock) = old_file(AtimeMode::Relatime);
    let atime = || process.fstat(fd).unwrap().atime.sec;
    clock.store(101 * DAY, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    clock.store(101 * DAY + 60, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    assert_eq!(atime(), 101 * DAY, "it was read a minute ago");
    process.pwrite(fd, b"new", 0).unwrap();
    clock.store(101 * DAY + 120, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    assert_eq!(atime(), 101 * DAY + 120, "it was changed since");
}

#[test]
fn strictatime_moves_it_each_time_and_noatime_never() {
    let (process, fd, clock) = old_file(AtimeMode::Strict);
    for second in 1..4 {
        clock.store(101 * DAY + second, Relaxed);
        process.pread(fd, &mut [0; 4], 0).unwrap();
        assert_eq!(process.fstat(fd).unwrap().atime.sec, 101 * DAY + second);
    }
    assert_eq!(read_on(AtimeMode::No, &[101, 150, 200]), [1, 1, 1]);
}

/// What observers were told.
#[derive(Default)]
struct Told(AtomicI64);

impl Observer for Told {
    fn entry_changed(&self, _parent: u64, _name: &[u8]) {}
    fn inode_changed(&self, _ino: u64, _data: Option<Range<u64>>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Once, a kernel that read a file was told of it on its own behalf, before the answer, and dropped
/// what it had read.
#[test]
fn a_kernel_knows_of_the_access_time_of_what_it_reads_and_is_told_of_that_of_others() {
    let (process, fd, clock) = old_file(AtimeMode::Relatime);
    let volume = process.volume();
    let told = Arc::new(Told::default());
    volume.observe(told.clone());
    let ino = process.fstat(fd).unwrap().ino;
    process.symlink("f", "/l").unwrap();
    let link = process.lstat("/l").unwrap().ino;
    let vfs = volume.vfs();
    let caller = Caller {
        origin: Origin::Kernel,
        ..Caller::ROOT
    };
    let file = vfs.open(&caller, ino, libc::O_RDONLY).unwrap();
    let top = vfs.open(&caller, ROOT, libc::O_DIRECTORY).unwrap();
    let before = told.0.load(Relaxed);
    clock.store(200 * DAY, Relaxed);
    vfs.read(&file, 0, &mut [0; 4]).unwrap();
    vfs.read_node(ino, 0, &mut [0; 4]).unwrap();
    vfs.readlink(link).unwrap();
    vfs.readdir(&top, 0, &mut |_| true).unwrap();
    assert_eq!(process.fstat(fd).unwrap().atime.sec, 200 * DAY);
    assert_eq!(told.0.load(Relaxed), before);
    clock.store(300 * DAY, Relaxed);
    process.pread(fd, &mut [0; 4], 0).unwrap();
    assert_eq!(told.0.load(Relaxed), before + 1);
}

/// Once, both times stood still until the clock was where it had been: `make` and `rsync` saw no
/// change.
#[test]
fn what_changes_after_the_clock_was_set_back_has_the_time_of_its_change() {
    let clock = Arc::new(AtomicI64::new(100 * DAY));
    let backend = Arc::new(TestBackend::new());
    let open = || {
        let volume = Volume::builder().backend(backend.clone());
        let volume = volume.clock(Hands(Arc::clone(&clock))).build().unwrap();
        let root = volume.process(Credentials::root());
        (volume, root)
    };
    let new = libc::O_CREAT | libc::O_RDWR;
    let times = |root: &Process, path: &str| {
        let attr = root.stat(path).unwrap();
        [attr.mtime, attr.ctime].map(|time| time.sec / DAY)
    };
    let (volume, root) = open();
    root.mkdir("/d", 0o755).unwrap();
    let fd = root.open("/f", new, 0o600).unwrap();
    root.pwrite(fd, b"text", 0).unwrap();
    // On several cores: each has a part of the time of a directory that all of them change.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let root = volume.process(Credentials::root());
            scope.spawn(move || {
                for n in 0..50 {
                    root.mkdir(format!("/d/{thread}-{n}"), 0o755).unwrap();
                    std::thread::yield_now();
                }
            });
        }
    });
    root.open("/loaded", new, 0o600).unwrap();
    for path in ["/f", "/d", "/loaded"] {
        assert_eq!(times(&root, path), [100, 100], "{path}");
    }
    clock.store(90 * DAY, Relaxed);
    // Attributes alone: the time of the contents stays.
    root.chmod("/f", 0o644).unwrap();
    assert_eq!(times(&root, "/f"), [100, 90]);
    root.setxattr("/d", b"user.a", b"v", 0).unwrap();
    assert_eq!(times(&root, "/d"), [100, 90]);
    clock.store(91 * DAY, Relaxed);
    root.pwrite(fd, b"more", 0).unwrap();
    root.rmdir("/d/0-0").unwrap();
    for path in ["/f", "/d"] {
        assert_eq!(times(&root, path), [91, 91], "{path}");
    }
    clock.store(92 * DAY, Relaxed);
    root.pwrite(fd, b"more", 0).unwrap();
    root.mkdir("/d/new", 0o755).unwrap();
    let seen = |root: &Process| ["/f", "/d", "/loaded"].map(|path| times(root, path));
    assert_eq!(seen(&root), [[92, 92], [92, 92], [100, 100]]);
    root.close(fd).unwrap();
    drop((root, volume));
    // While nothing was mounted, too.
    clock.store(80 * DAY, Relaxed);
    let (_volume, root) = open();
    assert_eq!(seen(&root), [[92, 92], [92, 92], [100, 100]]);
    let fd = root.open("/loaded", libc::O_RDWR, 0).unwrap();
    root.pwrite(fd, b"text", 0).unwrap();
    root.link("/f", "/g").unwrap();
    assert_eq!(seen(&root), [[92, 80], [92, 92], [80, 80]]);
}

/// What a kernel in front sends of a change that is older than another one counts for nothing.
#[test]
fn a_time_that_only_moves_forward_leaves_a_later_one() {
    let (process, fd, clock) = old_file(AtimeMode::No);
    let at = |day: i64| Time {
        sec: day * DAY,
        nsec: 0,
    };
    let forward = |day| {
        let time = Some(SetTime::NoEarlier(at(day)));
        process.futimens(fd, None, time).unwrap();
        process.fstat(fd).unwrap().mtime
    };
    assert_eq!(forward(1), at(2), "it has a later one");
    assert_eq!(forward(3), at(3));
    // The time of a write is kept apart, by core.
    clock.store(101 * DAY, Relaxed);
    process.write(fd, b"text").unwrap();
    assert_eq!(forward(50), at(101));
    assert_eq!(forward(102), at(102));
}

/// A clock whose next look, once it is armed, lets a write beside it go first, if that can.
#[derive(Clone)]
struct Beside {
    hands: Hands,
    write: Arc<Mutex<Option<Turn>>>,
}

/// Has the write begin, and hears of its end.
type Turn = (mpsc::Sender<()>, mpsc::Receiver<()>);

impl Clock for Beside {
    fn now(&self) -> Time {
        let write = self.write.lock().unwrap().take();
        if let Some((begin, end)) = write {
            begin.send(()).unwrap();
            // A writer that has to wait for the caller of this goes behind it.
            let _ = end.recv_timeout(Duration::from_millis(300));
        }
        self.hands.now()
    }
}

/// Once, a kernel's time was compared before the change, and a write in between lost its own.
#[test]
fn a_write_beside_a_time_that_only_moves_forward_keeps_its_own() {
    let hands = Hands(Arc::new(AtomicI64::new(100 * DAY)));
    let clock = Beside {
        hands: hands.clone(),
        write: Arc::default(),
    };
    let volume = Volume::builder().clock(clock.clone()).build().unwrap();
    let process = volume.process(Credentials::root());
    let fd = process
        .open("/f", libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    process.write(fd, b"text").unwrap();
    let (begin, begun) = mpsc::channel();
    let (done, end) = mpsc::channel();
    std::thread::scope(|scope| {
        let (process, hands) = (&process, &hands);
        scope.spawn(move || {
            begun.recv().unwrap();
            hands.0.store(102 * DAY, Relaxed);
            process.pwrite(fd, b"more", 0).unwrap();
            let _ = done.send(());
        });
        *clock.write.lock().unwrap() = Some((begin, end));
        let time = Time {
            sec: 101 * DAY,
            nsec: 0,
        };
        let forward = Some(SetTime::NoEarlier(time));
        process.futimens(fd, None, forward).unwrap();
    });
    assert_eq!(process.fstat(fd).unwrap().mtime.sec / DAY, 102);
}

/// The later one of a write's time and a kernel's is what a volume has that is opened again.
#[test]
fn a_time_that_only_moves_forward_is_kept_as_the_later_one() {
    let clock = Arc::new(AtomicI64::new(100 * DAY));
    let backend = Arc::new(TestBackend::new());
    let open = || {
        let volume = Volume::builder().backend(backend.clone());
        let volume = volume.clock(Hands(Arc::clone(&clock))).build().unwrap();
        let root = volume.process(Credentials::root());
        (volume, root)
    };
    let forward = |root: &Process, fd, day: i64| {
        let time = Time {
            sec: day * DAY,
            nsec: 0,
        };
        let forward = Some(SetTime::NoEarlier(time));
        root.futimens(fd, None, forward).unwrap();
    };
    let mtimes = |root: &Process| {
        let paths = ["/written", "/synced", "/both", "/later"];
        paths.map(|path| root.stat(path).unwrap().mtime.sec / DAY)
    };
    let (volume, root) = open();
    let new = libc::O_CREAT | libc::O_RDWR;
    let [written, synced, both, later] =
        ["/written", "/synced", "/both", "/later"].map(|path| root.open(path, new, 0o600).unwrap());
    for fd in [written, synced, both, later] {
        root.pwrite(fd, b"text", 0).unwrap();
    }
    forward(&root, written, 101);
    root.fsync(synced).unwrap();
    forward(&root, synced, 101);
    forward(&root, both, 101);
    clock.store(102 * DAY, Relaxed);
    root.pwrite(both, b"more", 0).unwrap();
    forward(&root, later, 103);
    root.fsync(later).unwrap();
    assert_eq!(mtimes(&root), [101, 101, 102, 103]);
    drop((root, volume));
    let (_volume, root) = open();
    assert_eq!(mtimes(&root), [101, 101, 102, 103]);
}
