//! A call on a descriptor that `dup2` replaces is on what it named before or on what it names then:
//! at no time does the number name nothing, though the last close of the one comes right after.

use hearth::{Credentials, Errno, Fd, Process, Volume};
use hearth_sync::primitive::{Arc, thread};
use std::io::IoSliceMut;

use crate::explore::explore;

const SCHEDULES: usize = 400;
const NEW: i32 = libc::O_CREAT | libc::O_RDWR;
/// Sizes of the two files.
const OLD: usize = 3;
const OTHER: usize = 5;
/// An attribute of both, whose value is as long as the file.
const SIZE: &[u8] = b"user.size";

/// Two files and two directories; the first of each has one descriptor, which a thread replaces.
fn race(call: impl Fn(&Process, Fd, Fd) -> usize + Send + Sync + 'static) {
    explore(SCHEDULES, &["old", "new"], move || {
        let process = Arc::new(Volume::memory().process(Credentials::root()));
        let open = |dir: &str, size: usize| {
            process.mkdir(dir, 0o700).unwrap();
            let file = process.open(format!("{dir}/f"), NEW, 0o600).unwrap();
            process.write(file, &vec![b'x'; size]).unwrap();
            process.lseek(file, 0, libc::SEEK_SET).unwrap();
            process.fsetxattr(file, SIZE, &vec![b'x'; size], 0).unwrap();
            (file, process.open(dir, libc::O_RDONLY, 0).unwrap())
        };
        let (old, other) = (open("/old", OLD), open("/other", OTHER));
        let replacer = Arc::clone(&process);
        let replaced = thread::spawn(move || {
            replacer.dup2(other.0, old.0).unwrap();
            replacer.dup2(other.1, old.1).unwrap();
        });
        let size = call(&process, old.0, old.1);
        replaced.join().unwrap();
        match size {
            OLD => "old",
            OTHER => "new",
            size => panic!("{size} bytes"),
        }
    });
}

/// The one of the two files that has got 8 bytes.
fn grown(process: &Process) -> usize {
    let size = |path| process.stat(path).unwrap().size;
    match [size("/old/f"), size("/other/f")] {
        [8, 5] => OLD,
        [3, 8] => OTHER,
        sizes => panic!("{sizes:?}"),
    }
}

#[test]
fn dup2_of_a_descriptor_that_is_read_is_seen_before_or_after() {
    race(|process, file, _| process.pread(file, &mut [0; 8], 0).unwrap());
    race(|process, file, _| process.read(file, &mut [0; 8]).unwrap());
    race(|process, file, _| {
        let mut out = [0; 8];
        process
            .preadv(file, &mut [IoSliceMut::new(&mut out)], 0)
            .unwrap()
    });
}

#[test]
fn dup2_of_a_descriptor_that_is_asked_about_is_seen_before_or_after() {
    race(|process, file, _| process.fstat(file).unwrap().size as usize);
    race(|process, file, _| process.lseek(file, 0, libc::SEEK_END).unwrap() as usize);
    race(|process, _, dir| process.statat(dir, "f", 0).unwrap().size as usize);
}

#[test]
fn dup2_of_a_descriptor_that_is_written_is_seen_before_or_after() {
    race(|process, file, _| {
        assert_eq!(process.pwrite(file, b"x", 7), Ok(1));
        grown(process)
    });
    race(|process, file, _| {
        assert_eq!(process.write(file, &[b'x'; 8]), Ok(8));
        grown(process)
    });
    race(|process, file, _| {
        process.ftruncate(file, 8).unwrap();
        grown(process)
    });
    race(|process, file, _| {
        process.fallocate(file, 0, 7, 1).unwrap();
        grown(process)
    });
}

#[test]
fn dup2_of_a_descriptor_that_is_copied_is_seen_before_or_after() {
    race(|process, file, _| {
        let copy = process.open("/copy", NEW, 0o600).unwrap();
        let copied = process.copy_file_range((file, Some(&mut 0)), (copy, None), 8, 0);
        copied.unwrap() as usize
    });
    race(|process, file, _| {
        let eight = process.open("/eight", NEW, 0o600).unwrap();
        process.write(eight, &[b'x'; 8]).unwrap();
        let to = (file, Some(&mut 0));
        let copied = process.copy_file_range((eight, Some(&mut 0)), to, 8, 0);
        assert_eq!(copied, Ok(8));
        grown(process)
    });
}

#[test]
fn dup2_of_a_descriptor_whose_attributes_are_used_is_seen_before_or_after() {
    race(|process, file, _| process.fgetxattr(file, SIZE).unwrap().len());
    race(|process, file, _| {
        process.fsetxattr(file, b"user.new", b"", 0).unwrap();
        let has = |path| process.getxattr(path, b"user.new").is_ok();
        match [has("/old/f"), has("/other/f")] {
            [true, false] => OLD,
            [false, true] => OTHER,
            both => panic!("{both:?}"),
        }
    });
    race(|process, file, _| {
        process.fremovexattr(file, SIZE).unwrap();
        let lacks = |path| process.getxattr(path, SIZE) == Err(Errno::ENODATA);
        match [lacks("/old/f"), lacks("/other/f")] {
            [true, false] => OLD,
            [false, true] => OTHER,
            both => panic!("{both:?}"),
        }
    });
}

#[test]
fn dup2_of_a_directory_that_is_entered_is_seen_before_or_after() {
    race(|process, _, dir| {
        process.fchdir(dir).unwrap();
        process.stat("f").unwrap().size as usize
    });
}

#[test]
fn a_close_beside_a_read_leaves_the_bytes_or_no_descriptor() {
    explore(SCHEDULES, &["read", "closed"], || {
        let process = Arc::new(Volume::memory().process(Credentials::root()));
        let file = process.open("/f", NEW, 0o600).unwrap();
        process.write(file, b"x").unwrap();
        let closer = Arc::clone(&process);
        let closed = thread::spawn(move || closer.close(file).unwrap());
        let got = process.pread(file, &mut [0; 8], 0);
        closed.join().unwrap();
        match got {
            Ok(1) => "read",
            Err(Errno::EBADF) => "closed",
            got => panic!("{got:?}"),
        }
    });
}
