//! The library by example: what a first user tries.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{Credentials, Errno, Event, Kind, Process, Volume};
use hearth_testing::threads::SetOnDrop;

fn root() -> Process {
    Volume::memory().process(Credentials::root())
}

const RW: i32 = libc::O_RDWR;
const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

#[test]
fn a_file_keeps_what_was_written() {
    let p = root();
    p.mkdir("/a", 0o755).unwrap();
    let fd = p.open("/a/f", NEW, 0o644).unwrap();
    assert_eq!(fd, 0, "the lowest descriptor");
    assert_eq!(p.write(fd, b"hello world").unwrap(), 11);
    let mut out = [0; 32];
    assert_eq!(p.pread(fd, &mut out, 6).unwrap(), 5);
    assert_eq!(&out[..5], b"world");
    let attr = p.fstat(fd).unwrap();
    assert_eq!(
        (attr.size, attr.blocks, attr.nlink, attr.kind),
        (11, 8, 1, Kind::File)
    );
    p.close(fd).unwrap();
    assert_eq!(p.close(fd), Err(Errno::EBADF));
    assert_eq!(p.stat("/a").unwrap().nlink, 2);
}

#[test]
fn an_unlinked_file_lives_until_its_last_close() {
    let p = root();
    let free = p.statfs("/").unwrap();
    let fd = p.open("/f", NEW, 0o600).unwrap();
    p.write(fd, &[7; 10_000]).unwrap();
    p.unlink("/f").unwrap();
    assert_eq!(p.stat("/f"), Err(Errno::ENOENT));
    let mut out = [0; 4];
    assert_eq!(p.pread(fd, &mut out, 9_998).unwrap(), 2);
    assert_eq!(p.fstat(fd).unwrap().nlink, 0);
    assert_ne!(p.statfs("/").unwrap(), free);
    p.close(fd).unwrap();
    assert_eq!(p.statfs("/").unwrap(), free);
}

#[test]
fn a_listing_shows_every_entry_once_at_every_size() {
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    for n in 0..5000 {
        let fd = p.open(format!("/d/file-{n}"), NEW, 0o600).unwrap();
        p.close(fd).unwrap();
        if n % 997 == 0 {
            let mut names: Vec<_> = p
                .read_dir("/d")
                .unwrap()
                .into_iter()
                .map(|e| e.name)
                .collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), n + 1);
        }
    }
    for n in 0..5000 {
        p.unlink(format!("/d/file-{n}")).unwrap();
    }
    p.rmdir("/d").unwrap();
    assert_eq!(p.stat("/").unwrap().nlink, 2);
}

#[test]
fn rename_replaces_exchanges_and_refuses_loops() {
    let p = root();
    for dir in ["/a", "/a/b", "/c"] {
        p.mkdir(dir, 0o755).unwrap();
    }
    assert_eq!(p.rename("/a", "/a/b/x"), Err(Errno::EINVAL));
    p.rename("/a/b", "/c/b").unwrap();
    assert_eq!(p.stat("/a").unwrap().nlink, 2);
    assert_eq!(p.stat("/c").unwrap().nlink, 3);
    p.chdir("/c/b").unwrap();
    assert_eq!(p.getcwd().unwrap(), b"/c/b");
    p.renameat2(
        hearth::AT_FDCWD,
        "/a",
        hearth::AT_FDCWD,
        "/c",
        libc::RENAME_EXCHANGE,
    )
    .unwrap();
    assert_eq!(p.getcwd().unwrap(), b"/a/b");
    assert_eq!(p.rename("/c", "/a"), Err(Errno::ENOTEMPTY));
    let fd = p.open("/f", NEW, 0o600).unwrap();
    p.close(fd).unwrap();
    p.symlink("f", "/s").unwrap();
    p.rename("/s", "/f").unwrap();
    assert_eq!(p.readlink("/f").unwrap(), b"f");
    assert_eq!(p.open("/f", RW, 0), Err(Errno::ELOOP));
}

#[test]
fn users_are_kept_out_by_mode_and_sticky_bit() {
    let p = root();
    p.mkdir("/tmp", 0o1777).unwrap();
    p.chmod("/tmp", 0o1777).unwrap();
    let fd = p.open("/tmp/mine", NEW, 0o600).unwrap();
    p.close(fd).unwrap();
    let user = p.fork();
    user.set_credentials(Credentials::user(1000, 1000));
    assert_eq!(user.open("/tmp/mine", RW, 0), Err(Errno::EACCES));
    assert_eq!(user.unlink("/tmp/mine"), Err(Errno::EPERM));
    assert_eq!(user.mkdir("/new", 0o755), Err(Errno::EACCES));
    user.mkdir("/tmp/dir", 0o755).unwrap();
    assert_eq!(user.stat("/tmp/dir").unwrap().uid, 1000);
}

#[test]
fn the_control_directory_is_found_but_not_listed() {
    let p = root();
    assert!(p.read_dir("/").unwrap().is_empty());
    assert!(p.read_dir("/.hearth").unwrap().is_empty());
    assert_eq!(p.mkdir("/.hearth", 0o755), Err(Errno::EEXIST));
    assert_eq!(p.rmdir("/.hearth"), Err(Errno::EBUSY));
    assert_eq!(p.mkdir("/.hearth/x", 0o755), Err(Errno::EPERM));
}

#[test]
fn threads_make_different_names_in_one_directory() {
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let p = &p;
            scope.spawn(move || {
                for n in 0..2000 {
                    let name = format!("/d/{t}-{n}");
                    let fd = p.open(&name, NEW, 0o600).unwrap();
                    p.write(fd, name.as_bytes()).unwrap();
                    p.close(fd).unwrap();
                    if n % 3 == 0 {
                        p.rename(&name, format!("/d/{t}-{n}-moved")).unwrap();
                    }
                    if n % 2 == 1 {
                        let gone = format!("/d/{t}-{n}");
                        let moved = format!("{gone}-moved");
                        p.unlink(if n % 3 == 0 { &moved } else { &gone }).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(p.read_dir("/d").unwrap().len(), 4 * 1000);
    assert_eq!(p.stat("/d").unwrap().size, 4 * 1000 * 20);
}

#[test]
fn a_directory_is_twenty_bytes_an_entry_and_has_a_link_from_each_directory_in_it() {
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    let told = || p.stat("/d").map(|stat| (stat.size, stat.nlink)).unwrap();
    assert_eq!(told(), (0, 2));
    for name in ["/d/a", "/d/b", "/d/c"] {
        p.mkdir(name, 0o755).unwrap();
    }
    p.open("/d/file", NEW, 0o600).unwrap();
    p.symlink("file", "/d/link").unwrap();
    assert_eq!(told(), (5 * 20, 5));
    p.rename("/d/a", "/a").unwrap();
    p.rmdir("/d/b").unwrap();
    p.unlink("/d/file").unwrap();
    assert_eq!(told(), (2 * 20, 3));
}

/// The tick that the kernel stamps files of tmpfs with: what it shows before and after is around
/// the stamp, where a finer clock would be ahead.
#[test]
fn files_are_stamped_with_the_tick_of_the_kernels_coarse_clock() {
    let p = root();
    let tick = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        (now.tv_sec, now.tv_nsec)
    };
    for number in 0..100 {
        let path = format!("/{number}");
        let before = tick();
        let fd = p.open(&path, NEW, 0o600).unwrap();
        p.close(fd).unwrap();
        let after = tick();
        let made = p.stat(&path).unwrap();
        for time in [made.atime, made.mtime, made.ctime, made.btime] {
            let stamp = (time.sec, i64::from(time.nsec));
            assert!(before <= stamp && stamp <= after, "{before:?} {stamp:?}");
        }
    }
}

#[test]
fn a_size_that_a_file_has_moves_its_times_by_a_descriptor_only() {
    let (p, old) = (root(), hearth::Time { sec: 2, nsec: 0 });
    let fd = p.open("/f", NEW, 0o644).unwrap();
    let ino = p.fstat(fd).unwrap().ino;
    let (vfs, caller) = (p.volume().vfs(), hearth::Caller::ROOT);
    let file = vfs.open(&caller, ino, libc::O_RDWR).unwrap();
    let set = |file, size| {
        let size = hearth::SetAttr {
            size: Some(size),
            ..Default::default()
        };
        vfs.setattr(&caller, ino, file, &size).unwrap();
    };
    let moves = |act: &dyn Fn()| {
        let at = Some(hearth::SetTime::At(old));
        p.futimens(fd, at, at).unwrap();
        act();
        p.fstat(fd).unwrap().mtime != old
    };
    for size in [0, 5] {
        p.pwrite(fd, &b"bytes"[..size as usize], 0).unwrap();
        assert!(!moves(&|| p.truncate("/f", size).unwrap()));
        assert!(!moves(&|| set(None, size)));
        assert!(moves(&|| p.ftruncate(fd, size).unwrap()));
        assert!(moves(&|| set(Some(&file), size)));
        assert!(moves(&|| p.truncate("/f", size + 1).unwrap()));
        p.truncate("/f", size).unwrap();
    }
    p.truncate("/f", 0).unwrap();
    let cut = libc::O_WRONLY | libc::O_TRUNC;
    assert!(moves(&|| p.open("/f", cut, 0).map(drop).unwrap()));
    vfs.release(&file, None);
}

#[test]
fn a_front_end_that_went_leaves_no_inode_behind() {
    let volume = Volume::memory();
    let (p, vfs) = (volume.process(Credentials::root()), volume.vfs());
    let before = volume.inodes_in_memory();
    for name in ["a", "b"] {
        let fd = p.open(name, NEW, 0o600).unwrap();
        p.close(fd).unwrap();
        for _ in 0..3 {
            vfs.lookup(&hearth::Caller::ROOT, hearth::ROOT, name.as_bytes())
                .unwrap();
        }
    }
    p.unlink("a").unwrap();
    assert_eq!(
        volume.inodes_in_memory(),
        before + 2,
        "the front end still knows it"
    );
    vfs.forget_all();
    assert_eq!(volume.inodes_in_memory(), before + 1);
    p.unlink("b").unwrap();
    assert_eq!(volume.inodes_in_memory(), before);
}

#[test]
fn the_way_up_from_a_removed_directory_never_leads_elsewhere() {
    let p = root();
    p.mkdir("/a", 0o755).unwrap();
    p.mkdir("/a/b", 0o755).unwrap();
    let number = p.stat("/a").unwrap().ino;
    p.chdir("/a/b").unwrap();
    p.rmdir("/a/b").unwrap();
    assert_eq!(
        p.stat("..").unwrap().ino,
        number,
        "what was above is still there"
    );
    p.rmdir("/a").unwrap();
    for n in 0..10 {
        p.mkdir(format!("/other-{n}"), 0o755).unwrap();
    }
    assert_eq!(p.stat(".."), Err(Errno::ENOENT));
    assert_eq!(p.open("../x", NEW, 0o600), Err(Errno::ENOENT));
}

#[test]
fn gauges_count_names_and_their_memory() {
    let p = Volume::memory().process(Credentials::root());
    let before = p.volume().gauges();
    p.mkdir("/d", 0o755).unwrap();
    for n in 0..3000 {
        p.mknod(format!("/d/{n}"), libc::S_IFREG | 0o600, 0)
            .unwrap();
    }
    p.link("/d/1", "/d/again").unwrap();
    p.mkdir("/later", 0o755).unwrap();
    p.mknod("/later/x", libc::S_IFREG | 0o600, 0).unwrap();
    let after = p.volume().gauges();
    assert_eq!(after.dentries - before.dentries, 3004);
    assert_eq!(after.inodes - before.inodes, 3003);
    assert_eq!(after.inodes_in_memory - before.inodes_in_memory, 3003);
    let dentry_bytes = after.dentry_bytes - before.dentry_bytes;
    assert!(dentry_bytes >= 3004 * 64, "{after:?}");
    let inode_bytes = after.inode_bytes - before.inode_bytes;
    assert!(inode_bytes >= 3003 * 128, "{after:?}");
}

#[test]
fn walks_that_renames_disturb_are_counted() {
    let p = Volume::memory().process(Credentials::root());
    for directory in ["/a", "/b", "/a/d", "/a/d/e"] {
        p.mkdir(directory, 0o755).unwrap();
    }
    let restarts = || p.volume().stats().events(Event::WalkRestart);
    assert_eq!(restarts(), 0);
    let done = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        scope.spawn(|| {
            while !done.load(relaxed) {
                p.rename("/a/d", "/b/d").unwrap();
                p.rename("/b/d", "/a/d").unwrap();
            }
        });
        let begin = std::time::Instant::now();
        while restarts() == 0 && begin.elapsed() < std::time::Duration::from_secs(60) {
            for _ in 0..1000 {
                let _ = p.stat("/a/d/e/../../d/e/missing");
            }
        }
    });
    assert!(restarts() > 0, "no walk met a rename");
}

/// Linux keeps the open file for the caller; once it was EBADF.
#[test]
fn who_waits_for_a_lock_of_an_open_file_has_had_it_though_the_last_descriptor_is_closed() {
    let p = root();
    let held = p.open("/f", NEW, 0o600).unwrap();
    let asked = p.open("/f", RW, 0).unwrap();
    p.flock(held, libc::LOCK_EX).unwrap();
    std::thread::scope(|threads| {
        let waiter = threads.spawn(|| p.flock(asked, libc::LOCK_EX));
        while p.volume().lock_waiters() == 0 {
            assert!(!waiter.is_finished(), "it did not wait");
            std::thread::yield_now();
        }
        p.close(asked).unwrap();
        p.flock(held, libc::LOCK_UN).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    assert_eq!(
        p.flock(held, libc::LOCK_EX | libc::LOCK_NB),
        Ok(()),
        "it is given back"
    );
}

/// Once, a call that had found the old file as its last descriptor went was `EBADF`.
#[test]
fn a_descriptor_that_dup2_replaces_names_something_all_the_time() {
    let p = root();
    let fd = p.open("/f", NEW, 0o600).unwrap();
    p.write(fd, b"x").unwrap();
    std::thread::scope(|threads| {
        let replacer = threads.spawn(|| {
            for _ in 0..20_000 {
                let other = p.open("/f", RW, 0).unwrap();
                p.dup2(other, fd).unwrap();
                p.close(other).unwrap();
            }
        });
        while !replacer.is_finished() {
            assert_eq!(p.pread(fd, &mut [0; 2], 0), Ok(1));
            assert_eq!(p.read(fd, &mut []), Ok(0));
            assert_eq!(p.fstat(fd).unwrap().size, 1);
            assert_eq!(p.pwrite(fd, b"y", 0), Ok(1));
            assert_eq!(p.fsync(fd), Ok(()));
            assert_eq!(p.flock(fd, libc::LOCK_SH), Ok(()));
        }
    });
}
