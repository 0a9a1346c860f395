//! The size of a file: appends, cuts and changes of owner meet, and the end of the file meets a
//! cut.

use hearth::{AT_FDCWD, Caller, Credentials, Errno, Origin, Process, SetAttr, Volume};
use hearth_sync::primitive::thread;

use crate::explore::explore;

const SCHEDULES: usize = 600;
const CONTENT: &[u8] = b"what the file holds";
const MORE: &[u8] = b", and more";
const CUT: u64 = 4;
const OWNER: u32 = 7;

fn kernel() -> Caller<'static> {
    Caller {
        origin: Origin::Kernel,
        ..Caller::ROOT
    }
}

fn world() -> (Volume, Process) {
    let volume = Volume::memory();
    let process = volume.process(Credentials::root());
    let fd = process
        .openat(AT_FDCWD, "/f", libc::O_CREAT | libc::O_WRONLY, 0o600)
        .unwrap();
    process.write(fd, CONTENT).unwrap();
    process.close(fd).unwrap();
    (volume, process)
}

/// A change of owner with a cut takes the write lock of the file, so no append falls in between.
#[test]
fn an_append_and_a_cut_with_a_new_owner_leave_the_size_of_one_order() {
    explore(SCHEDULES, &["append first", "cut first"], || {
        let (volume, process) = world();
        let appender = volume.process(Credentials::root());
        let append = thread::spawn(move || {
            let fd = appender.open("/f", libc::O_WRONLY | libc::O_APPEND, 0);
            let fd = fd.unwrap();
            assert_eq!(appender.write(fd, MORE), Ok(MORE.len()));
            appender.chmod("/f", 0o640).unwrap();
            appender.close(fd).unwrap();
        });
        let ino = process.stat("/f").unwrap().ino;
        let set = SetAttr {
            uid: Some(OWNER),
            size: Some(CUT),
            ..SetAttr::default()
        };
        volume.vfs().setattr(&kernel(), ino, None, &set).unwrap();
        append.join().unwrap();
        let attr = process.stat("/f").unwrap();
        assert_eq!((attr.uid, attr.perm), (OWNER, 0o640));
        assert!(volume.quota().check().unwrap().is_clean());
        match attr.size {
            CUT => "append first",
            size if size == CUT + MORE.len() as u64 => "cut first",
            size => panic!("{size} bytes"),
        }
    });
}

/// What was at the end is nearer to the beginning, or behind the end.
#[test]
fn a_read_at_the_end_beside_a_collapse_sees_no_zeros() {
    const PAGE: u64 = 4096;
    explore(SCHEDULES, &["before", "after"], || {
        let (volume, process) = world();
        let fd = process.open("/f", libc::O_RDWR, 0).unwrap();
        process.pwrite(fd, MORE, PAGE).unwrap();
        let other = volume.process(Credentials::root());
        let collapse = thread::spawn(move || {
            let fd = other.open("/f", libc::O_RDWR, 0).unwrap();
            let mode = libc::FALLOC_FL_COLLAPSE_RANGE;
            other.fallocate(fd, mode, 0, PAGE).unwrap();
        });
        let mut out = [b'-'; MORE.len()];
        let got = process.pread(fd, &mut out, PAGE).unwrap();
        collapse.join().unwrap();
        match got {
            0 => "after",
            _ => {
                assert_eq!(out, MORE);
                "before"
            }
        }
    });
}

/// A cut takes no more than the lock of the size, and so does the end of the file, which gives all
/// blocks back: one of the two gives them back.
#[test]
fn a_cut_and_the_end_of_the_file_give_its_blocks_back_once() {
    explore(SCHEDULES, &["cut", "too late"], || {
        let (volume, process) = world();
        let free = process.statfs("/").unwrap().bfree;
        let remover = volume.process(Credentials::root());
        let remove = thread::spawn(move || remover.unlink("/f").unwrap());
        let cut = process.truncate("/f", 0);
        remove.join().unwrap();
        assert_eq!(process.statfs("/").unwrap().bfree, free + 1);
        match cut {
            Ok(()) => "cut",
            Err(Errno::ENOENT) => "too late",
            Err(errno) => panic!("{errno}"),
        }
    });
}
