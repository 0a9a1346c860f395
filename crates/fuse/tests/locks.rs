//! Advisory locks on a real mount, on both transports: who waits, who is woken, who is interrupted.

#![allow(clippy::unwrap_used)]

mod harness;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

/// `flock(2)`; each opened file is an owner of its own.
fn flock(file: &File, operation: i32) -> Result<(), i32> {
    // SAFETY: a descriptor and a number.
    match unsafe { libc::flock(file.as_raw_fd(), operation) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// A record lock of the open file description.
fn ofd_lock(file: &File, kind: i32, start: i64, len: i64, command: i32) -> Result<(), i32> {
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: fcntl reads the lock, which lives through the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// A record lock of one byte of the calling process, as soon as others have given it up. Nothing
/// but a system call: for a process that was forked off.
fn posix_lock(file: i32, start: i64) -> Result<(), i32> {
    let lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: fcntl reads the lock, which lives through the call.
    match unsafe { libc::fcntl(file, libc::F_SETLKW, &lock) } {
        0 => Ok(()),
        // SAFETY: the number of this thread's last error.
        _ => Err(unsafe { *libc::__errno_location() }),
    }
}

/// Keeps the calling thread, and those it will start, on CPU 0.
fn stay_on_one_cpu() {
    // SAFETY: an all-zero set is empty, CPU 0 fits, and the size is right.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

extern "C" fn ignore(_: i32) {}

/// A signal that interrupts system calls and does nothing else.
fn quiet_signal() -> i32 {
    // SAFETY: an all-zero sigaction without SA_RESTART, and a handler that does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    libc::SIGUSR1
}

/// Somebody else has a lock and gives it up while this process waits for it through a descriptor
/// that it has closed meanwhile. Answers the other one, and what the descriptor was; `before` sees
/// it when it is open.
fn closed_while_it_waits(mount: &Path, before: impl FnOnce(RawFd)) -> (File, RawFd) {
    let path = mount.join("lock");
    let (holder, fd) = (open(&path), open(&path).into_raw_fd());
    before(fd);
    ofd_lock(&holder, libc::F_WRLCK, 0, 1, libc::F_OFD_SETLK).unwrap();
    let waiter = thread::spawn(move || posix_lock(fd, 0));
    let stats = || std::fs::read_to_string(mount.join(".hearth/stats")).unwrap();
    while !stats().contains("\nhearth_lock_waiters 1\n") {
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: a descriptor of this function's own.
    unsafe { libc::close(fd) };
    ofd_lock(&holder, libc::F_UNLCK, 0, 1, libc::F_OFD_SETLK).unwrap();
    assert_eq!(waiter.join().unwrap(), Err(libc::EBADF));
    (holder, fd)
}

on_both_transports! {
    fn a_lock_excludes_others_until_it_is_given_up(mounted, "") {
        let path = mounted.path().join("lock");
        let (one, two) = (open(&path), open(&path));
        flock(&one, libc::LOCK_EX).unwrap();
        assert_eq!(flock(&two, libc::LOCK_EX | libc::LOCK_NB), Err(libc::EWOULDBLOCK));
        flock(&one, libc::LOCK_UN).unwrap();
        flock(&two, libc::LOCK_EX | libc::LOCK_NB).unwrap();
        drop(two);
        // Given up by the last close, which the kernel reports when it comes to it.
        flock(&one, libc::LOCK_EX).unwrap();
    }

    /// Once, somebody was refused right behind a close in one round of seventy: no program waits
    /// for the message that says that the file was closed for good.
    fn a_lock_is_free_behind_the_close_that_ends_it(mounted, "") {
        let path = mounted.path().join("lock");
        type Lock = fn(&File) -> Result<(), i32>;
        let kinds: [Lock; 2] = [
            |file| flock(file, libc::LOCK_EX | libc::LOCK_NB),
            |file| ofd_lock(file, libc::F_WRLCK, 0, 1, libc::F_OFD_SETLK),
        ];
        let (turn, refused) = (Barrier::new(2), AtomicUsize::new(0));
        let lock_and_close = |lock: Lock, file: File| {
            let is_refused = lock(&file).is_err();
            refused.fetch_add(is_refused.into(), SeqCst);
        };
        for lock in kinds {
            thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        lock_and_close(lock, open(&path));
                        turn.wait();
                        turn.wait();
                    }
                });
                for _ in 0..1_000 {
                    let file = open(&path);
                    turn.wait();
                    lock_and_close(lock, file);
                    turn.wait();
                }
            });
        }
        assert_eq!(refused.into_inner(), 0, "of 4,000");
    }

    /// And one that another descriptor keeps is still refused.
    fn a_lock_is_kept_behind_the_close_of_one_of_its_descriptors(mounted, "") {
        let path = mounted.path().join("lock");
        let (one, two) = (open(&path), open(&path));
        flock(&one, libc::LOCK_EX).unwrap();
        drop(one.try_clone().unwrap());
        for _ in 0..2 {
            assert_eq!(flock(&two, libc::LOCK_EX | libc::LOCK_NB), Err(libc::EWOULDBLOCK));
        }
    }

    fn record_locks_of_two_files_meet_only_where_they_overlap(mounted, "") {
        let path = mounted.path().join("lock");
        let (one, two) = (open(&path), open(&path));
        ofd_lock(&one, libc::F_WRLCK, 0, 100, libc::F_OFD_SETLK).unwrap();
        ofd_lock(&two, libc::F_WRLCK, 100, 100, libc::F_OFD_SETLK).unwrap();
        assert_eq!(ofd_lock(&two, libc::F_RDLCK, 99, 1, libc::F_OFD_SETLK), Err(libc::EAGAIN));
        drop(one);
        ofd_lock(&two, libc::F_RDLCK, 99, 1, libc::F_OFD_SETLKW).unwrap();
    }

    fn a_process_that_ended_leaves_no_record_lock_where_closes_are_not_told(mounted, "no_flush") {
        let file = open(&mounted.path().join("lock"));
        let fd = file.as_raw_fd();
        // SAFETY: between fork and exit the child makes system calls only.
        let child = match unsafe { libc::fork() } {
            0 => {
                let got = posix_lock(fd, 0).is_ok();
                // SAFETY: ends the child without running what belongs to the parent.
                unsafe { libc::_exit(i32::from(got)) }
            }
            child => child,
        };
        let mut status = 0;
        // SAFETY: the child is this process's own.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 1, "the child had the lock");
        let other = open(&mounted.path().join("lock"));
        ofd_lock(&other, libc::F_WRLCK, 0, 1, libc::F_OFD_SETLK).unwrap();
    }

    fn more_waiters_than_ring_entries_do_not_stop_the_holder(mounted, "") {
        const WAITERS: usize = 40;
        stay_on_one_cpu();
        let path = mounted.path().join("lock");
        let holder = open(&path);
        flock(&holder, libc::LOCK_EX).unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..WAITERS).map(|_| {
            let (begun, file) = (Arc::clone(&begun), open(&path));
            thread::spawn(move || {
                begun.fetch_add(1, SeqCst);
                flock(&file, libc::LOCK_EX).unwrap();
                flock(&file, libc::LOCK_UN).unwrap();
            })
        }).collect();
        while begun.load(SeqCst) < WAITERS {
            thread::yield_now();
        }
        // Everything else goes on while they wait; each of these asks the daemon from the waiters'
        // CPU.
        for i in 0..100 {
            std::fs::write(mounted.path().join(format!("f{i}")), b"busy").unwrap();
        }
        flock(&holder, libc::LOCK_UN).unwrap();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    }

    fn a_signal_ends_the_wait_for_a_lock(mounted, "") {
        let signal = quiet_signal();
        let path = mounted.path().join("lock");
        let (holder, file) = (open(&path), open(&path));
        flock(&holder, libc::LOCK_EX).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        let waiter = thread::spawn(move || {
            let result = flock(&file, libc::LOCK_EX);
            ended.store(true, SeqCst);
            result
        });
        // Whether the wait has begun cannot be seen from here, so the signal is repeated until it
        // has worked.
        while !done.load(SeqCst) {
            thread::sleep(Duration::from_millis(10));
            // SAFETY: the thread was not joined yet.
            unsafe { libc::pthread_kill(waiter.as_pthread_t(), signal) };
        }
        assert_eq!(waiter.join().unwrap(), Err(libc::EINTR));
        // The interrupted request left nothing behind.
        flock(&holder, libc::LOCK_UN).unwrap();
        flock(&open(&path), libc::LOCK_EX | libc::LOCK_NB).unwrap();
    }

    /// Each has a byte and waits for that of the other: one of them is told, and gives up.
    fn of_two_processes_that_wait_for_each_other_one_is_told(mounted, "") {
        let path = mounted.path().join("lock");
        let (file, ready) = (open(&path), open(&mounted.path().join("ready")));
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        posix_lock(file.as_raw_fd(), 0).unwrap();
        // SAFETY: the child makes system calls only and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a string that ends; descriptors and numbers.
            unsafe {
                let own = libc::open(name.as_ptr(), libc::O_RDWR);
                let has = posix_lock(own, 1).is_ok();
                let begins = has && libc::write(ready.as_raw_fd(), c"x".as_ptr().cast(), 1) == 1;
                let status = match posix_lock(own, 0) {
                    _ if !begins => 3,
                    Ok(()) => 0,
                    Err(libc::EDEADLK) => 1,
                    Err(_) => 2,
                };
                libc::_exit(status);
            }
        }
        while ready.metadata().unwrap().len() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let done = posix_lock(file.as_raw_fd(), 1);
        assert!([Ok(()), Err(libc::EDEADLK)].contains(&done), "{done:?}");
        // Any close of the file gives up what the process has of it.
        drop(file);
        let mut status = 0;
        // SAFETY: the child is this process's own.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{status}");
        let told = libc::WEXITSTATUS(status);
        assert_eq!(told, i32::from(done.is_ok()), "one of the two is told: {done:?}");
    }

    fn the_library_and_the_mount_exclude_each_other(mounted, "") {
        let path = mounted.path().join("lock");
        let (file, waits) = (open(&path), open(&path));
        let held = mounted.command("lock /lock");
        assert_eq!(flock(&file, libc::LOCK_EX | libc::LOCK_NB), Err(libc::EWOULDBLOCK));
        assert_eq!(flock(&file, libc::LOCK_SH | libc::LOCK_NB), Err(libc::EWOULDBLOCK));
        let waiter = thread::spawn(move || {
            let done = flock(&waits, libc::LOCK_EX);
            (done, waits)
        });
        thread::sleep(Duration::from_millis(100));
        assert!(!waiter.is_finished(), "the library has it");
        mounted.command(&format!("unlock {held}"));
        let (done, waits) = waiter.join().unwrap();
        assert_eq!(done, Ok(()));
        assert_eq!(mounted.command("lock /lock"), "refused");
        flock(&waits, libc::LOCK_UN).unwrap();
        assert_ne!(mounted.command("lock /lock"), "refused");
    }

    /// FUSE leaves to the daemon what Linux takes back by itself.
    fn a_lock_that_came_through_a_closed_descriptor_ends_with_the_file(mounted, "") {
        let (holder, fd) = closed_while_it_waits(mounted.path(), |_| ());
        let end = Instant::now() + Duration::from_secs(20);
        while let Err(errno) = ofd_lock(&holder, libc::F_WRLCK, 0, 1, libc::F_OFD_SETLK) {
            assert_eq!(errno, libc::EAGAIN);
            assert!(Instant::now() < end, "{fd} was closed, and has a lock for good");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn a_lock_that_came_through_a_closed_descriptor_is_kept_while_another_one_is_open(mounted, "") {
        let mut dup = -1;
        let (holder, _) = closed_while_it_waits(mounted.path(), |fd| {
            // SAFETY: a descriptor that is open.
            dup = unsafe { libc::dup(fd) };
        });
        let is_free = || ofd_lock(&holder, libc::F_WRLCK, 0, 1, libc::F_OFD_SETLK);
        assert_eq!(is_free(), Err(libc::EAGAIN));
        // SAFETY: a descriptor of this test's own.
        unsafe { libc::close(dup) };
        assert_eq!(is_free(), Ok(()));
    }

    fn a_daemon_that_ends_wakes_those_who_wait(mounted, "") {
        let path = mounted.path().join("lock");
        let (holder, file) = (open(&path), open(&path));
        flock(&holder, libc::LOCK_EX).unwrap();
        let waiter = thread::spawn(move || flock(&file, libc::LOCK_EX));
        thread::sleep(Duration::from_millis(100));
        assert_eq!(mounted.end(), Some(0));
        assert!(waiter.join().unwrap().is_err());
    }
}
