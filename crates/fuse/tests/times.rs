//! Times of files on a real mount, on both transports: those that the kernel keeps itself and those
//! of the volume.

#![allow(clippy::unwrap_used)]

mod harness;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

fn check(result: libc::c_int) {
    assert!(result >= 0, "{}", io::Error::last_os_error());
}

/// Has the kernel write all pages back, and wait for them only after it has begun with all.
fn sync_all(mount: &Path) {
    let root = File::open(mount).unwrap();
    // SAFETY: a descriptor.
    check(unsafe { libc::syncfs(root.as_raw_fd()) });
}

/// The mtime of the file `f` as the volume has it is the one that the kernel tells.
fn agree(mounted: &mut harness::Mounted, file: &File, n: u32) {
    let told = file.metadata().unwrap();
    let told = format!("{}.{:09}", told.mtime(), told.mtime_nsec());
    assert_eq!(mounted.command("mtime /f"), told, "round {n}");
}

/// Has the kernel give a file a time between two ticks of its coarse clock, behind which no file of
/// any filesystem is stamped from then on (Linux 6.13).
fn advance_stamps(other: &mut File) {
    for _ in 0..2 {
        other.write_all(b"x").unwrap();
        other.metadata().unwrap();
    }
}

/// `FS_IMMUTABLE_FL`, `FS_APPEND_FL`, `FS_NODUMP_FL`.
const IMMUTABLE: libc::c_long = 0x10;
const APPEND: libc::c_long = 0x20;
const NO_DUMP: libc::c_long = 0x40;

/// `chattr`, all flags at once.
fn set_flags(path: &Path, flags: libc::c_long) {
    let file = File::open(path).unwrap();
    // SAFETY: the ioctl reads one number, which lives through the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &flags) });
}

/// What `utimensat` says, with no times if there are none.
fn set_times(path: &Path, times: Option<[(i64, i64); 2]>) -> i32 {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let times = times.map(|two| two.map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec }));
    let pointer = times.as_ref().map_or(std::ptr::null(), |two| two.as_ptr());
    // SAFETY: a C string, and no times or two that live through the call.
    match unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), pointer, 0) } {
        0 => 0,
        _ => io::Error::last_os_error().raw_os_error().unwrap(),
    }
}

/// What all ways to set times say of a file and a directory, plain, immutable and append-only.
fn all_times(below: &Path) -> Vec<String> {
    const NOW: (i64, i64) = (0, libc::UTIME_NOW);
    const OMIT: (i64, i64) = (0, libc::UTIME_OMIT);
    let ways = [
        ("no times", None),
        ("now", Some([NOW, NOW])),
        ("given", Some([(1000, 5), (2000, 7)])),
        ("atime", Some([(3000, 0), OMIT])),
        ("mtime", Some([OMIT, (4000, 0)])),
        ("atime now", Some([NOW, OMIT])),
        ("mtime now", Some([OMIT, NOW])),
        ("now and given", Some([NOW, (5000, 0)])),
        ("given and now", Some([(6000, 0), NOW])),
        ("nothing", Some([OMIT, OMIT])),
    ];
    let (file, directory) = (below.join("fixed"), below.join("fixed.d"));
    std::fs::write(&file, "contents").unwrap();
    std::fs::create_dir(&directory).unwrap();
    let mut all = Vec::new();
    for path in [&file, &directory] {
        for flags in [0, IMMUTABLE, APPEND, IMMUTABLE | APPEND] {
            set_flags(path, flags);
            for (name, times) in ways {
                if name == "mtime now" {
                    // It is another time than the one that was set last.
                    thread::sleep(Duration::from_millis(15));
                }
                let said = set_times(path, times);
                let name = format!("{flags:x} {name}");
                all.push(format!("{:?} {name}: {said}", path.file_name().unwrap()));
            }
            set_flags(path, 0);
        }
    }
    std::fs::remove_file(file).unwrap();
    std::fs::remove_dir(directory).unwrap();
    all
}

/// The mount refuses what the filesystem below the temporary directory refuses.
fn fixed_times(mount: &Path) {
    let elsewhere = harness::fresh_directory();
    let expected = all_times(&elsewhere);
    std::fs::remove_dir(&elsewhere).unwrap();
    assert!(expected.iter().any(|line| line.ends_with(": 1")));
    let seen = all_times(mount);
    let mut differ = seen
        .iter()
        .zip(&expected)
        .filter(|(one, other)| one != other);
    assert_eq!(differ.next(), None);
    assert_eq!(seen.len(), expected.len());
}

/// The time of change moves with the flags of a file and of a directory, at once.
fn chattr_shows(mount: &Path) {
    let (file, directory) = (mount.join("flagged"), mount.join("flagged.d"));
    std::fs::write(&file, "contents").unwrap();
    std::fs::create_dir(&directory).unwrap();
    for path in [&file, &directory] {
        let ctime = || {
            let seen = path.metadata().unwrap();
            (seen.ctime(), seen.ctime_nsec())
        };
        for flags in [NO_DUMP, 0] {
            let before = ctime();
            // Until the clock has gone on.
            thread::sleep(Duration::from_millis(15));
            set_flags(path, flags);
            let end = Instant::now() + Duration::from_secs(2);
            // A close that is on its way keeps the kernel from dropping the inode.
            while ctime() == before && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(ctime() > before, "{}: {flags:x}", path.display());
        }
    }
}

/// 512-byte blocks of a file that is written and stays open.
fn blocks(path: &Path) -> u64 {
    path.metadata().unwrap().blocks()
}

/// What is written back shows in the blocks of a file that stays open: after an fsync all of it,
/// and else soon.
fn blocks_show(mount: &Path) {
    let path = mount.join("long");
    let mut file = File::create(&path).unwrap();
    for n in 1..=3 {
        file.write_all(&[1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(blocks(&path), n * 2048, "after fsync");
    }
    file.write_all(&[2; 1 << 20]).unwrap();
    sync_all(mount);
    let end = Instant::now() + Duration::from_secs(10);
    while blocks(&path) != 4 * 2048 && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(blocks(&path), 4 * 2048, "some time after sync");
    file.set_len(0).unwrap();
    assert_eq!(blocks(&path), 0);
}

on_both_transports! {
    fn times_of_what_is_fixed_are_refused(mounted, "writeback") {
        fixed_times(mounted.path());
    }

    fn times_of_what_is_fixed_are_refused_without_writeback(mounted, "no_writeback") {
        fixed_times(mounted.path());
    }

    // Once, the kernel told the time before until it asked again, after a minute.
    fn flags_move_the_time_of_change_at_once(mounted, "writeback") {
        chattr_shows(mounted.path());
    }

    fn flags_move_the_time_of_change_at_once_without_writeback(mounted, "no_writeback") {
        chattr_shows(mounted.path());
    }

    // Once, a file that stayed open had no blocks for a minute.
    fn what_is_written_back_has_blocks(mounted, "writeback") {
        blocks_show(mounted.path());
    }

    fn what_is_written_at_once_has_blocks(mounted, "no_writeback") {
        blocks_show(mounted.path());
    }

    fn what_is_written_directly_has_blocks(mounted, "direct_io") {
        blocks_show(mounted.path());
    }

    // Once, pages that came after the kernel had said when they were written moved the time.
    fn a_write_that_was_collected_has_the_time_at_which_it_was_made(mounted, "writeback") {
        for n in 0..300 {
            let mut file = File::create(mounted.path().join("f")).unwrap();
            write!(file, "{n}").unwrap();
            // Until the clock has gone on.
            thread::sleep(Duration::from_millis(5));
            sync_all(mounted.path());
            agree(&mut mounted, &file, n);
        }
    }

    // Once, the volume went back behind the time of the write, to the last tick, and the kernel,
    // for which the time had not changed, did not say so.
    fn a_cut_in_the_tick_of_a_write_does_not_go_back_behind_it(mounted, "writeback") {
        let elsewhere = harness::fresh_directory();
        let mut other = File::create(elsewhere.join("other")).unwrap();
        for n in 0..300 {
            let mut file = File::create(mounted.path().join("f")).unwrap();
            advance_stamps(&mut other);
            write!(file, "{n}").unwrap();
            sync_all(mounted.path());
            let file = File::create(mounted.path().join("f")).unwrap();
            sync_all(mounted.path());
            agree(&mut mounted, &file, n);
        }
        std::fs::remove_dir_all(elsewhere).unwrap();
    }
}
