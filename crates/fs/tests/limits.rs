//! What a volume or a process may have at most.

use hearth::backend::{Backend, Record, TestBackend};
use hearth::fdtable::FdPolicy;
use hearth::{Credentials, Errno, Interrupt, LockKind, LockSpec, Process, Volume};
use std::sync::Arc;

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

fn process(volume: &Volume) -> Process {
    volume.process(Credentials::root())
}

fn bytes(kind: LockKind, start: i64, len: i64) -> LockSpec {
    LockSpec {
        kind,
        whence: libc::SEEK_SET,
        start,
        len,
    }
}

#[test]
fn another_descriptor_policy_keeps_the_limit() {
    let mut p = process(&Volume::memory());
    p.set_fd_limit(2).unwrap();
    for policy in [FdPolicy::PerCore, FdPolicy::Lowest] {
        p.set_fd_policy(policy).unwrap();
        let fds: Vec<_> = (0..2).map(|_| p.open("/f", NEW, 0o600).unwrap()).collect();
        assert_eq!(p.open("/f", NEW, 0o600), Err(Errno::EMFILE), "{policy:?}");
        for fd in fds {
            p.close(fd).unwrap();
        }
    }
}

#[test]
fn a_file_has_no_more_names_than_it_may() {
    let p = process(&Volume::builder().links_max(3).build().unwrap());
    p.mknod("/1", libc::S_IFREG | 0o600, 0).unwrap();
    p.link("/1", "/2").unwrap();
    p.link("/1", "/3").unwrap();
    assert_eq!(p.link("/1", "/4"), Err(Errno::EMLINK));
    assert_eq!(
        (p.stat("/1").unwrap().nlink, p.stat("/4")),
        (3, Err(Errno::ENOENT))
    );
    p.unlink("/2").unwrap();
    p.link("/3", "/4").unwrap();
    // Directories are not bound by it: their links are their subdirectories.
    for n in 0..5 {
        p.mkdir(format!("/d{n}"), 0o700).unwrap();
    }
    assert_eq!(p.stat("/").unwrap().nlink, 7);
}

/// Once, `st_nlink` was 2 and the size 0 from 2^23 on. A backend tells of a directory with nearly
/// that many.
#[test]
fn a_directory_has_eight_million_subdirectories() {
    const MOST: u64 = 1 << 23;
    let backend = Arc::new(TestBackend::new());
    let open = || {
        let volume = Volume::builder().backend(backend.clone()).build();
        volume.unwrap()
    };
    let volume = open();
    let p = process(&volume);
    p.mkdir("/d", 0o700).unwrap();
    p.mkdir("/e", 0o700).unwrap();
    let dir = p.stat("/d").unwrap();
    drop((p, volume));
    let of = |entries: u64| Record::Entries {
        dir: dir.ino,
        generation: dir.generation,
        entries: entries as i64,
        subdirectories: entries as i64,
        touched: 0,
        order: 0,
    };
    backend.commit(1_000, vec![of(MOST - 1)]).unwrap();
    let volume = open();
    let p = process(&volume);
    let seen = || {
        let dir = p.stat("/d").unwrap();
        (u64::from(dir.nlink) - 2, dir.size / 20)
    };
    assert_eq!(seen(), (MOST - 1, MOST - 1));
    p.mkdir("/d/a", 0o700).unwrap();
    assert_eq!(seen(), (MOST, MOST));
    assert_eq!(p.mkdir("/d/b", 0o700), Err(Errno::EMLINK));
    assert_eq!(p.rename("/e", "/d/e"), Err(Errno::EMLINK));
    p.mknod("/d/f", libc::S_IFREG | 0o600, 0).unwrap();
    let exchange = |old: &str, new: &str| {
        let at = hearth::AT_FDCWD;
        p.renameat2(at, old, at, new, libc::RENAME_EXCHANGE)
    };
    assert_eq!(exchange("/e", "/d/f"), Err(Errno::EMLINK));
    assert_eq!(exchange("/d/f", "/e"), Err(Errno::EMLINK));
    assert_eq!(p.rename("/e", "/d/a"), Ok(()), "one for another");
    p.rename("/d/a", "/d/c").unwrap();
    p.rmdir("/d/c").unwrap();
    p.mkdir("/d/b", 0o700).unwrap();
    assert_eq!(seen(), (MOST, MOST + 1));
}

/// As many as a count of 32 bits has, but for the one that would say none: a backend tells of a
/// file that has nearly all of them.
#[test]
fn a_file_has_four_billion_names() {
    let backend = Arc::new(TestBackend::new());
    let volume = || {
        Volume::builder()
            .backend(Arc::clone(&backend))
            .build()
            .unwrap()
    };
    let of_before = volume();
    let p = process(&of_before);
    p.mknod("/1", libc::S_IFREG | 0o600, 0).unwrap();
    let ino = p.stat("/1").unwrap().ino;
    of_before.sync().unwrap();
    drop((p, of_before));
    let mut record = backend.load_inode(ino).unwrap().unwrap();
    for (epoch, nlink) in [(1 << 20, i32::MAX as u32), (2 << 20, u32::MAX - 1)] {
        record.attrs.nlink = nlink;
        let record = Record::Attrs {
            ino,
            version: 0,
            attrs: record.attrs,
        };
        backend.commit(epoch, vec![record]).unwrap();
        let volume = volume();
        let p = process(&volume);
        assert_eq!(p.stat("/1").unwrap().nlink, nlink);
        p.link("/1", "/2").unwrap();
        assert_eq!(p.stat("/2").unwrap().nlink, nlink + 1);
        if nlink + 1 == u32::MAX {
            assert_eq!(p.link("/1", "/3"), Err(Errno::EMLINK));
        }
        p.unlink("/2").unwrap();
        assert_eq!(p.stat("/1").unwrap().nlink, nlink);
    }
}

#[test]
fn a_process_has_no_more_ranges_locked_than_it_may_over_all_files() {
    let volume = Volume::builder().lock_ranges(2).build().unwrap();
    let (p, other) = (process(&volume), process(&volume));
    let [a, b, c] = ["/a", "/b", "/c"].map(|path| p.open(path, NEW, 0o600).unwrap());
    let lock = |fd, kind, start, len| p.set_lock(fd, &bytes(kind, start, len), None);
    lock(a, LockKind::Write, 0, 10).unwrap();
    lock(a, LockKind::Write, 20, 10).unwrap();
    lock(b, LockKind::Write, 0, 10).unwrap();
    lock(b, LockKind::Read, 20, 0).unwrap();
    assert_eq!(lock(b, LockKind::Write, 25, 1), Err(Errno::ENOLCK));
    assert_eq!(
        lock(a, LockKind::Unlock, 5, 1),
        Err(Errno::ENOLCK),
        "that makes two of one"
    );
    // The first of each file does not count.
    lock(c, LockKind::Write, 0, 1).unwrap();
    lock(a, LockKind::Write, 10, 10).unwrap();
    lock(a, LockKind::Unlock, 5, 1).unwrap();
    assert_eq!(lock(a, LockKind::Read, 25, 1), Err(Errno::ENOLCK));
    // Nobody else is bound by that, nor are the locks of an open file.
    let theirs = other.open("/a", NEW, 0o600).unwrap();
    for start in 0..3 {
        let spec = bytes(LockKind::Read, 100 + 2 * start, 1);
        other.set_lock(theirs, &spec, None).unwrap();
        p.set_ofd_lock(c, &spec, None).unwrap();
    }
    // A close gives back what it took.
    p.close(b).unwrap();
    lock(a, LockKind::Write, 200, 1).unwrap();
    p.close(a).unwrap();
    let a = p.open("/a", NEW, 0o600).unwrap();
    for start in 0..3 {
        p.set_lock(a, &bytes(LockKind::Write, 2 * start, 1), None)
            .unwrap();
    }
}

#[test]
fn a_lock_that_comes_after_a_wait_counts_as_well() {
    let volume = Volume::builder().lock_ranges(1).build().unwrap();
    let (p, other) = (process(&volume), process(&volume));
    let mine = p.open("/f", NEW, 0o600).unwrap();
    let theirs = other.open("/f", NEW, 0o600).unwrap();
    p.set_lock(mine, &bytes(LockKind::Write, 0, 1), None)
        .unwrap();
    for start in [9, 19] {
        other
            .set_lock(theirs, &bytes(LockKind::Write, start, 1), None)
            .unwrap();
    }
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let wait = Interrupt::new();
            other.set_lock(theirs, &bytes(LockKind::Write, 0, 1), Some(&wait))
        });
        // It is refused at its turn whether or not it has begun to wait.
        p.set_lock(mine, &bytes(LockKind::Unlock, 0, 1), None)
            .unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Errno::ENOLCK));
    });
}
