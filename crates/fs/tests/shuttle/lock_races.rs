//! Advisory locks: no wake-up is lost, no circle is missed, whatever the schedule. A task that
//! sleeps for ever is a failure that shuttle reports by itself.

use hearth_sync::primitive::Arc;
use hearth_sync::primitive::thread::{self, JoinHandle};

use crate::errno::Errno;
use crate::explore::explore;
use crate::locks::{FileLocks, Interrupt, LockKind, LockRequest, Wait, WaitGraph};

const SCHEDULES: usize = 6000;
/// Of races of whole operations, which take longer.
const TREE_SCHEDULES: usize = 1200;

#[derive(Default)]
struct Files {
    f: FileLocks,
    g: FileLocks,
    graph: WaitGraph,
}

fn posix(owner: u64, kind: LockKind) -> LockRequest {
    LockRequest {
        owner,
        pid: owner as u32,
        kind,
        start: 0,
        end: 9,
        flock: false,
    }
}

fn flock(owner: u64, kind: LockKind) -> LockRequest {
    LockRequest {
        flock: true,
        ..posix(owner, kind)
    }
}

fn spawn<R: Send + 'static>(
    files: &Arc<Files>,
    work: impl FnOnce(&Files) -> R + Send + 'static,
) -> JoinHandle<R> {
    let files = Arc::clone(files);
    thread::spawn(move || work(&files))
}

impl Files {
    fn wait(&self) -> Option<Wait<'_>> {
        Some(Wait {
            graph: &self.graph,
            interrupt: None,
        })
    }
}

#[test]
fn a_release_reaches_everyone_who_waits_for_it() {
    explore(SCHEDULES, &["done"], || {
        let files = Arc::new(Files::default());
        let tasks = [1, 2, 3].map(|owner| {
            spawn(&files, move |files| {
                let kind = if owner == 2 {
                    LockKind::Read
                } else {
                    LockKind::Write
                };
                files.f.set(&flock(owner, kind), files.wait()).unwrap();
                files.f.release_owner(owner, true);
            })
        });
        for task in tasks {
            task.join().unwrap();
        }
        assert!(files.f.is_empty());
        "done"
    });
}

#[test]
fn an_interrupt_against_a_release_ends_the_wait_one_way_or_the_other() {
    explore(SCHEDULES, &["granted", "interrupted"], || {
        let files = Arc::new(Files::default());
        let interrupt = Interrupt::new();
        files.f.set(&posix(1, LockKind::Write), None).unwrap();
        let token = interrupt.clone();
        let waiter = spawn(&files, move |files| {
            let wait = Wait {
                graph: &files.graph,
                interrupt: Some(&token),
            };
            files.f.set(&posix(2, LockKind::Read), Some(wait))
        });
        let trigger = thread::spawn(move || interrupt.trigger());
        files.f.release_owner(1, false);
        trigger.join().unwrap();
        let holder = |files: &Files| files.f.get(&posix(9, LockKind::Write)).map(|l| l.owner);
        match waiter.join().unwrap() {
            Ok(()) => {
                assert_eq!(holder(&files), Some(2));
                "granted"
            }
            Err(error) => {
                assert_eq!((error, holder(&files)), (Errno::EINTR, None));
                assert!(files.f.is_empty());
                "interrupted"
            }
        }
    });
}

#[test]
fn a_circle_over_two_files_never_hangs() {
    explore(SCHEDULES, &["first refused", "second refused"], || {
        let files = Arc::new(Files::default());
        files.f.set(&posix(1, LockKind::Write), None).unwrap();
        files.g.set(&posix(2, LockKind::Write), None).unwrap();
        let other = spawn(&files, |files| {
            let answer = files.f.set(&posix(2, LockKind::Read), files.wait());
            files.g.release_owner(2, false);
            answer
        });
        let mine = files.g.set(&posix(1, LockKind::Read), files.wait());
        files.f.release_owner(1, false);
        match (mine, other.join().unwrap()) {
            (Err(Errno::EDEADLK), Ok(())) => "first refused",
            (Ok(()), Err(Errno::EDEADLK)) => "second refused",
            both => panic!("{both:?}"),
        }
    });
}

#[test]
fn two_readers_that_upgrade_at_once_never_hang() {
    explore(SCHEDULES, &["first refused", "second refused"], || {
        let files = Arc::new(Files::default());
        for owner in [1, 2] {
            files.f.set(&posix(owner, LockKind::Read), None).unwrap();
        }
        let upgrade = |owner| {
            move |files: &Files| {
                let answer = files.f.set(&posix(owner, LockKind::Write), files.wait());
                files.f.release_owner(owner, false);
                answer
            }
        };
        let other = spawn(&files, upgrade(2));
        match (upgrade(1)(&files), other.join().unwrap()) {
            (Err(Errno::EDEADLK), Ok(())) => "first refused",
            (Ok(()), Err(Errno::EDEADLK)) => "second refused",
            both => panic!("{both:?}"),
        }
    });
}

/// A process with `/a` open, shared with another task, and a second process that has it open too.
fn opened() -> (Arc<hearth::Process>, i32, hearth::Process, i32) {
    let volume = hearth::Volume::memory();
    let root = hearth::Credentials::root;
    let (mine, other) = (volume.process(root()), volume.process(root()));
    let fd = mine
        .open("/a", libc::O_CREAT | libc::O_RDWR, 0o600)
        .unwrap();
    let other_fd = other.open("/a", libc::O_RDWR, 0).unwrap();
    (Arc::new(mine), fd, other, other_fd)
}

fn whole_file(kind: hearth::LockKind) -> hearth::LockSpec {
    hearth::LockSpec {
        kind,
        whence: libc::SEEK_SET,
        start: 0,
        len: 0,
    }
}

/// How the lock of a description, or of a process, is asked for without waiting.
type Ask = fn(&hearth::Process, i32) -> Result<(), hearth::Errno>;

const ASKS: [Ask; 3] = [
    |process, fd| process.flock(fd, libc::LOCK_EX | libc::LOCK_NB),
    |process, fd| process.set_ofd_lock(fd, &whole_file(hearth::LockKind::Write), None),
    |process, fd| process.set_lock(fd, &whole_file(hearth::LockKind::Write), None),
];

#[test]
fn a_lock_that_races_with_the_close_of_its_descriptor_is_not_left_behind() {
    for ask in ASKS {
        explore(TREE_SCHEDULES, &["locked", "bad"], move || {
            let (mine, fd, other, other_fd) = opened();
            let closing = Arc::clone(&mine);
            let closer = thread::spawn(move || closing.close(fd));
            let locked = ask(&mine, fd);
            assert_eq!(closer.join().unwrap(), Ok(()));
            assert_eq!(ask(&other, other_fd), Ok(()), "nobody has it");
            match locked {
                Ok(()) => "locked",
                Err(hearth::Errno::EBADF) => "bad",
                Err(error) => panic!("{error}"),
            }
        });
    }
}

#[test]
fn a_lock_that_was_waited_for_while_its_descriptor_was_closed_is_not_left_behind() {
    explore(TREE_SCHEDULES, &["locked", "bad"], || {
        let (mine, fd, other, other_fd) = opened();
        other.flock(other_fd, libc::LOCK_EX).unwrap();
        let waiting = Arc::clone(&mine);
        let waiter = thread::spawn(move || waiting.flock(fd, libc::LOCK_EX));
        let closing = Arc::clone(&mine);
        let closer = thread::spawn(move || closing.close(fd));
        other.flock(other_fd, libc::LOCK_UN).unwrap();
        assert_eq!(closer.join().unwrap(), Ok(()));
        let waited = waiter.join().unwrap();
        let again = other.flock(other_fd, libc::LOCK_EX | libc::LOCK_NB);
        assert_eq!(again, Ok(()), "nobody has it");
        if waited.is_ok() { "locked" } else { "bad" }
    });
}

#[test]
fn the_record_locks_of_a_process_go_with_its_descriptor_whoever_closes_the_file_last() {
    explore(TREE_SCHEDULES, &["done"], || {
        let (mine, fd, other, other_fd) = opened();
        let child = mine.fork();
        ASKS[2](&mine, fd).unwrap();
        let closer = thread::spawn(move || child.close(fd));
        assert_eq!(mine.close(fd), Ok(()));
        assert_eq!(closer.join().unwrap(), Ok(()));
        assert_eq!(ASKS[2](&other, other_fd), Ok(()), "nobody has it");
        "done"
    });
}
