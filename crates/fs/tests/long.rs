//! Transfers and listings that go on for long: the same results, and no memory held back.

use hearth::{Credentials, Errno, Fd, Process, Volume};
use hearth_sync::epoch::{pin, retire};
use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;
/// More than is moved under one guard, and no multiple of it.
const LENGTH: usize = (3 << 20) + 12_345;

fn root() -> Process {
    Volume::memory().process(Credentials::root())
}

/// Bytes that tell where they are.
fn pattern() -> Vec<u8> {
    (0..LENGTH).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_long_transfer_moves_every_byte_and_the_offset() {
    let p = root();
    let fd = p.open("/f", NEW, 0o600).unwrap();
    let data = pattern();
    assert_eq!(p.write(fd, &data), Ok(LENGTH));
    assert_eq!(p.lseek(fd, 0, libc::SEEK_CUR), Ok(LENGTH as u64));
    assert_eq!(p.lseek(fd, 5, libc::SEEK_SET), Ok(5));
    let mut out = vec![0; LENGTH];
    assert_eq!(
        p.read(fd, &mut out),
        Ok(LENGTH - 5),
        "it ends where the file ends"
    );
    assert_eq!(out[..LENGTH - 5], data[5..]);
    assert_eq!(p.lseek(fd, 0, libc::SEEK_CUR), Ok(LENGTH as u64));
    assert_eq!(p.pread(fd, &mut out, 0), Ok(LENGTH));
    assert_eq!(out, data);

    assert_eq!(p.pwrite(fd, &data, 1), Ok(LENGTH));
    assert_eq!(p.fstat(fd).unwrap().size, LENGTH as u64 + 1);
    let (mut a, mut b) = (vec![0; LENGTH / 2], vec![0; LENGTH]);
    let parts = &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    assert_eq!(p.preadv(fd, parts, 1), Ok(LENGTH));
    assert_eq!([&a[..], &b[..LENGTH - LENGTH / 2]].concat(), data);
    assert_eq!(
        p.lseek(fd, 0, libc::SEEK_CUR),
        Ok(LENGTH as u64),
        "it stayed"
    );

    p.lseek(fd, 1, libc::SEEK_SET).unwrap();
    let parts = &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    assert_eq!(p.readv(fd, parts), Ok(LENGTH));
    assert_eq!(
        p.writev(fd, &[IoSlice::new(&data), IoSlice::new(b"end")]),
        Ok(LENGTH + 3)
    );
    assert_eq!(p.fstat(fd).unwrap().size, 1 + 2 * LENGTH as u64 + 3);
}

#[test]
fn a_long_transfer_refuses_what_a_short_one_refuses() {
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    let mut out = vec![0; LENGTH];
    let both = |p: &Process, fd: Fd, out: &mut [u8]| {
        let long = (
            p.read(fd, out),
            p.pread(fd, out, 0),
            p.write(fd, out),
            p.pwrite(fd, out, 0),
        );
        let out = &mut out[..10];
        let short = (
            p.read(fd, out),
            p.pread(fd, out, 0),
            p.write(fd, out),
            p.pwrite(fd, out, 0),
        );
        assert_eq!(long, short);
        long
    };
    let dir = p.open("/d", libc::O_DIRECTORY, 0).unwrap();
    let seen = both(&p, dir, &mut out);
    assert_eq!(
        seen,
        (
            Err(Errno::EISDIR),
            Err(Errno::EISDIR),
            Err(Errno::EBADF),
            Err(Errno::EBADF)
        )
    );
    let _ = both(&p, 77, &mut out);
    let path = p.open("/d", libc::O_PATH, 0).unwrap();
    let _ = both(&p, path, &mut out);
    let file = p.open("/f", NEW, 0o600).unwrap();
    let last = i64::MAX as u64 - 10;
    assert_eq!(p.pread(file, &mut out, last), Err(Errno::EINVAL));
    assert_eq!(p.pwrite(file, &out, last), Err(Errno::EINVAL));
    p.lseek(file, last as i64, libc::SEEK_SET).unwrap();
    assert_eq!(p.read(file, &mut out), Err(Errno::EINVAL));
    assert_eq!(p.write(file, &out), Err(Errno::EINVAL));
}

#[test]
fn a_full_volume_takes_the_part_that_fits() {
    let volume = Volume::builder().size(2 << 20).build().unwrap();
    let p = volume.process(Credentials::root());
    let fd = p.open("/f", NEW, 0o600).unwrap();
    let done = p.write(fd, &pattern()).unwrap();
    assert!(((1 << 20)..=(2 << 20)).contains(&done), "{done}");
    assert_eq!(p.lseek(fd, 0, libc::SEEK_CUR), Ok(done as u64));
    assert_eq!(p.fstat(fd).unwrap().size, done as u64);
    assert_eq!(p.write(fd, &pattern()), Err(Errno::ENOSPC));
}

#[test]
fn what_is_appended_at_length_stays_in_one_piece() {
    let volume = Volume::memory();
    std::thread::scope(|scope| {
        for byte in 1..=2 {
            let p = volume.process(Credentials::root());
            scope.spawn(move || {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_APPEND;
                let fd = p.open("/f", flags, 0o600).unwrap();
                for _ in 0..8 {
                    assert_eq!(p.write(fd, &vec![byte; LENGTH]), Ok(LENGTH));
                }
            });
        }
    });
    let p = volume.process(Credentials::root());
    let fd = p.open("/f", libc::O_RDONLY, 0).unwrap();
    let mut out = vec![0; LENGTH];
    for n in 0..16 {
        assert_eq!(p.read(fd, &mut out), Ok(LENGTH));
        assert!(out.iter().all(|&byte| byte == out[0]), "piece {n} is mixed");
    }
}

struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_long_listing_lets_go_of_what_is_removed_meanwhile() {
    const ENTRIES: usize = 20_000;
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    for n in 0..ENTRIES {
        p.mknod(format!("/d/{n}"), libc::S_IFREG | 0o600, 0)
            .unwrap();
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let fd = p.open("/d", libc::O_DIRECTORY, 0).unwrap();
    let (mut names, mut freed_at) = (BTreeSet::new(), None);
    p.getdents(fd, &mut |entry| {
        assert!(
            names.insert(entry.name.to_vec()),
            "{:?} came twice",
            entry.name
        );
        if names.len() == 1 {
            retire(Box::new(Flag(Arc::clone(&dropped))), &pin());
        }
        pin().flush();
        // The other tests of this program pin as well: give them time to move on.
        if freed_at.is_none() && names.len().is_multiple_of(100) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        if dropped.load(Ordering::SeqCst) && freed_at.is_none() {
            freed_at = Some(names.len());
        }
        true
    })
    .unwrap();
    assert_eq!(names.len(), ENTRIES + 2);
    assert!(
        freed_at.is_some_and(|at| at > 1),
        "not before the end: {freed_at:?}"
    );
    assert_eq!(p.read_dir("/d").unwrap().len(), ENTRIES);
}

#[test]
fn a_long_listing_goes_on_where_its_reader_stopped() {
    const ENTRIES: usize = 5_000;
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    for n in 0..ENTRIES {
        p.mknod(format!("/d/{n}"), libc::S_IFREG | 0o600, 0)
            .unwrap();
    }
    let fd = p.open("/d", libc::O_DIRECTORY, 0).unwrap();
    let mut names = BTreeSet::new();
    // Around the length of what is listed under one guard.
    for stop in [1, 1022, 1, 1, 1024, 1025, 2048, usize::MAX] {
        let mut left = stop;
        p.getdents(fd, &mut |entry| {
            if left == 0 {
                return false;
            }
            left -= 1;
            assert!(
                names.insert(entry.name.to_vec()),
                "{:?} came twice",
                entry.name
            );
            true
        })
        .unwrap();
    }
    assert_eq!(names.len(), ENTRIES + 2);
}

/// Regression: entries are passed on some at a time, and one that was refused among those that
/// would have been enough was taken for enough: it came again in the same call.
#[test]
fn a_listing_ends_where_an_entry_is_refused() {
    const ALL: usize = 1_200;
    let p = root();
    p.mkdir("/d", 0o755).unwrap();
    for n in 2..ALL {
        p.mknod(format!("/d/{n}"), libc::S_IFREG | 0o600, 0)
            .unwrap();
    }
    for most in 1_000..1_060 {
        let fd = p.open("/d", libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        let (mut seen, mut is_refused) = (BTreeSet::new(), false);
        p.getdents(fd, &mut |entry| {
            assert!(!is_refused, "{most}");
            is_refused = seen.len() == most || !seen.insert(entry.name.to_vec());
            !is_refused
        })
        .unwrap();
        assert_eq!(seen.len(), most);
        p.getdents(fd, &mut |entry| {
            assert!(seen.insert(entry.name.to_vec()), "{most}");
            true
        })
        .unwrap();
        assert_eq!(seen.len(), ALL, "{most}");
        p.close(fd).unwrap();
    }
}
