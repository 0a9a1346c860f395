//! Callers that wait for one commit: threads that sleep, and front ends that leave a function.

use super::{NEW, crashed, create, opened_every, text};
use hearth::backend::TestBackend;
use hearth::{Caller, Credentials, Errno, NonBlocking, Process, Volume, VolumeVfs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const CALLERS: usize = 16;
const LONG: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(60);

struct Ground {
    backend: Arc<TestBackend>,
    volume: Volume,
    root: Process,
    vfs: VolumeVfs<NonBlocking>,
    /// Commits that have begun.
    commits: Arc<AtomicU64>,
    /// Whether commits go on.
    gate: Arc<AtomicBool>,
}

/// A volume with all its threads, whose backend counts commits and holds them at a gate.
fn ground() -> Ground {
    let backend = Arc::new(TestBackend::new());
    let volume = opened_every(&backend, Some(LONG));
    let (commits, gate) = (Arc::<AtomicU64>::default(), Arc::new(AtomicBool::new(true)));
    let (counted, open) = (Arc::clone(&commits), Arc::clone(&gate));
    backend.set_fault(Some(Box::new(move |call| {
        if call == "commit" {
            counted.fetch_add(1, Relaxed);
            let begun = Instant::now();
            while !open.load(Relaxed) {
                assert!(begun.elapsed() < SOON, "the gate stays closed");
                std::thread::yield_now();
            }
        }
        None
    })));
    Ground {
        root: volume.process(Credentials::root()),
        vfs: volume.nonblocking_vfs(),
        backend,
        volume,
        commits,
        gate,
    }
}

type Told = (usize, Result<(), Errno>);

impl Ground {
    /// Makes a file and begins its fsync. What comes of it is sent with `number`.
    fn begin(&self, number: usize, told: &mpsc::Sender<Told>) {
        let path = format!("/f{number}");
        let fd = create(&self.root, &path, path.as_bytes());
        self.root.close(fd).unwrap();
        self.begin_again(number, told);
    }

    /// An fsync of a file that is there.
    fn begin_again(&self, number: usize, told: &mpsc::Sender<Told>) {
        let ino = self.root.stat(format!("/f{number}")).unwrap().ino;
        let Ok(file) = self.vfs.open(&Caller::ROOT, ino, libc::O_RDONLY) else {
            panic!("f{number} cannot be opened");
        };
        let point = self.vfs.begin_fsync(&file).expect("little is unwritten");
        let told = told.clone();
        let then = move |result| told.send((number, result)).unwrap();
        self.vfs.when_durable(point, Box::new(then));
        self.vfs.release(&file, None);
    }

    fn wait_for_commits(&self, wanted: u64) {
        let begun = Instant::now();
        while self.commits.load(Relaxed) < wanted {
            assert!(begun.elapsed() < SOON, "nobody commits");
            std::thread::yield_now();
        }
    }
}

#[test]
fn all_who_come_during_a_commit_share_the_next_one() {
    let ground = ground();
    let (told, tells) = mpsc::channel();
    ground.gate.store(false, Relaxed);
    ground.begin(0, &told);
    ground.wait_for_commits(1);
    (1..=CALLERS).for_each(|number| ground.begin(number, &told));
    ground.gate.store(true, Relaxed);
    for _ in 0..=CALLERS {
        let (number, result) = tells.recv_timeout(SOON).unwrap();
        assert_eq!(result, Ok(()), "{number}");
        let (_, _volume, root) = crashed(&ground.backend);
        let path = format!("/f{number}");
        assert_eq!(text(&root, &path), path.as_bytes());
    }
    assert_eq!(ground.commits.load(Relaxed), 2);
}

/// Once, they fell into groups that waited for each other's commit.
#[test]
fn callers_that_come_back_at_once_pay_for_an_eighth_of_a_commit_each() {
    const ROUNDS: u64 = 20;
    let ground = ground();
    ground.backend.set_delay(Duration::from_millis(20));
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let root = ground.volume.process(Credentials::root());
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let fd = create(&root, &format!("/{caller}-{round}"), b"x");
                    root.fsync(fd).unwrap();
                    root.close(fd).unwrap();
                }
            });
        }
    });
    let (commits, syncs) = (ground.commits.load(Relaxed), CALLERS as u64 * ROUNDS);
    assert!(commits * 8 <= syncs, "{commits} commits for {syncs} syncs");
}

#[test]
fn a_lack_of_room_is_told_to_those_who_waited_and_the_next_are_served() {
    let ground = ground();
    let (told, tells) = mpsc::channel();
    let full = Arc::new(AtomicBool::new(true));
    let is_full = Arc::clone(&full);
    let no_room = move |call| (call == "commit" && is_full.load(Relaxed)).then_some(Errno::ENOSPC);
    ground.backend.set_fault(Some(Box::new(no_room)));
    ground.begin(1, &told);
    let first = tells.recv_timeout(SOON).unwrap();
    assert_eq!(first, (1, Err(Errno::ENOSPC)));
    full.store(false, Relaxed);
    ground.begin_again(1, &told);
    assert_eq!(tells.recv_timeout(SOON).unwrap(), (1, Ok(())));
    let (_, _volume, root) = crashed(&ground.backend);
    assert_eq!(text(&root, "/f1"), b"/f1");
}

#[test]
fn an_error_and_a_panic_of_the_backend_are_told_to_all_who_wait() {
    for panics in [false, true] {
        let ground = ground();
        let (told, tells) = mpsc::channel();
        ground.backend.set_fault(Some(Box::new(move |call| {
            assert!(!(panics && call == "commit"), "a panic that a test wants");
            (call == "commit").then_some(Errno::EIO)
        })));
        ground.begin(1, &told);
        assert_eq!(tells.recv_timeout(SOON).unwrap(), (1, Err(Errno::EIO)));
        // The thread that leads is still there.
        ground.begin_again(1, &told);
        assert_eq!(tells.recv_timeout(SOON).unwrap(), (1, Err(Errno::EIO)));
    }
}

#[test]
fn what_would_take_long_is_not_begun_and_stays_unwritten() {
    let ground = ground();
    let long = vec![7; 17 * super::PAGE];
    let fd = create(&ground.root, "/long", &long);
    let ino = ground.root.stat("/long").unwrap().ino;
    let Ok(file) = ground.vfs.open(&Caller::ROOT, ino, libc::O_RDWR) else {
        panic!("it cannot be opened");
    };
    assert!(ground.vfs.begin_fsync(&file).is_none());
    ground.vfs.release(&file, None);
    ground.root.fsync(fd).unwrap();
    let (_, _volume, root) = crashed(&ground.backend);
    assert_eq!(text(&root, "/long"), long);
}

#[test]
fn who_waits_when_the_volume_is_closed_is_told() {
    let ground = ground();
    let (told, tells) = mpsc::channel();
    ground.gate.store(false, Relaxed);
    ground.begin(0, &told);
    ground.wait_for_commits(1);
    ground.begin(1, &told);
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| ground.volume.close());
        ground.gate.store(true, Relaxed);
        for _ in 0..2 {
            assert_eq!(tells.recv_timeout(SOON).unwrap().1, Ok(()));
        }
        assert_eq!(closing.join().unwrap(), Ok(()));
    });
    let fd = ground.root.open("/f1", NEW & !libc::O_CREAT, 0);
    let ino = ground.root.stat("/f1").unwrap().ino;
    assert!(fd.is_err(), "a closed volume refuses to be written");
    if let Ok(file) = ground.vfs.open(&Caller::ROOT, ino, libc::O_RDONLY) {
        assert!(ground.vfs.begin_fsync(&file).is_none(), "nobody would lead");
    }
}
