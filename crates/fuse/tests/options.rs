//! What mount options save, and what they cost.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::Mounted;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// `FS_APPEND_FL`.
const APPEND: libc::c_long = 0x20;
/// `FS_IMMUTABLE_FL`.
const IMMUTABLE: libc::c_long = 0x10;

/// How many requests of this kind the kernel has sent.
fn requests(mounted: &Mounted, op: &str) -> u64 {
    let stats = fs::read_to_string(mounted.path().join(".hearth/stats")).unwrap();
    let start = format!("hearth_op_seconds_count{{op=\"{op}\"}} ");
    let line = stats.lines().find_map(|line| line.strip_prefix(&*start));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Far more than the requests that looking at the statistics takes itself.
const OFTEN: u64 = 100;

/// How many requests of this kind `done` leads to, with those of the look at the statistics.
fn sent(mounted: &Mounted, op: &str, done: impl FnOnce()) -> u64 {
    let before = requests(mounted, op);
    done();
    requests(mounted, op) - before
}

/// A file of one page, in no cache, open for reading.
fn cold_file(mounted: &Mounted) -> File {
    let path = mounted.path().join("f");
    fs::write(&path, [7; 4096]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    // SAFETY: a descriptor and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    file
}

fn read_often(file: &File) {
    for _ in 0..OFTEN {
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
    }
}

fn look_often(path: &Path) {
    for _ in 0..OFTEN {
        fs::metadata(path.join("f")).unwrap();
        fs::metadata(path.join("missing")).unwrap_err();
    }
}

/// Writes often, and hands the file over still open.
fn written_bit_by_bit(mounted: &Mounted) -> File {
    let mut file = File::create(mounted.path().join("f")).unwrap();
    for _ in 0..OFTEN {
        file.write_all(b"0123456789").unwrap();
    }
    file
}

fn set_flags(path: &Path, flags: libc::c_long) {
    let file = File::open(path).unwrap();
    // SAFETY: the ioctl reads one number, which lives through the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &flags) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn copy(from: &File, to: &File) -> std::io::Result<isize> {
    let none = std::ptr::null_mut();
    // SAFETY: two descriptors, and no offsets.
    match unsafe { libc::copy_file_range(from.as_raw_fd(), none, to.as_raw_fd(), none, 100, 0) } {
        -1 => Err(std::io::Error::last_os_error()),
        copied => Ok(copied),
    }
}

/// `fallocate` of the first page.
fn allocate(file: &File, mode: i32) -> std::io::Result<()> {
    // SAFETY: a descriptor and numbers.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, 0, 4096) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

on_both_transports! {
    fn what_the_kernel_believes_is_not_asked_again(mounted, "") {
        fs::write(mounted.path().join("f"), b"x").unwrap();
        look_often(mounted.path());
        for op in ["lookup", "getattr"] {
            let asked = sent(&mounted, op, || look_often(mounted.path()));
            assert!(asked < OFTEN / 2, "{op}: {asked}");
        }
    }

    fn what_the_kernel_may_not_believe_is_asked_each_time(
        mounted, "entry_timeout=0,attr_timeout=0,negative_timeout=0"
    ) {
        fs::write(mounted.path().join("f"), b"x").unwrap();
        let asked = sent(&mounted, "lookup", || look_often(mounted.path()));
        assert!(asked >= 2 * OFTEN, "{asked}");
    }

    fn small_writes_are_collected_and_seen_by_the_library_after_fsync(mounted, "writeback") {
        let mut file = None;
        let writes = sent(&mounted, "write", || file = Some(written_bit_by_bit(&mounted)));
        assert!(writes < OFTEN / 2, "{writes}");
        file.unwrap().sync_all().unwrap();
        assert_eq!(mounted.command("read /f"), "0123456789".repeat(OFTEN as usize));
    }

    fn every_write_is_a_request_and_seen_by_the_library_at_once(mounted, "no_writeback") {
        let mut file = None;
        let writes = sent(&mounted, "write", || file = Some(written_bit_by_bit(&mounted)));
        assert_eq!(writes, OFTEN);
        assert_eq!(mounted.command("read /f"), "0123456789".repeat(OFTEN as usize));
        drop(file);
    }

    fn a_page_that_was_read_is_not_asked_for_again(mounted, "") {
        let file = cold_file(&mounted);
        let asked = sent(&mounted, "read", || read_often(&file));
        assert!((1..OFTEN / 2).contains(&asked), "{asked}");
    }

    fn every_read_is_a_request(mounted, "direct_io") {
        let file = cold_file(&mounted);
        assert!(sent(&mounted, "read", || read_often(&file)) >= OFTEN);
    }

    fn opens_are_neither_sent_nor_refused_by_flags_of_the_file(mounted, "no_open,no_opendir") {
        let path = mounted.path().join("log");
        fs::write(&path, b"one two").unwrap();
        set_flags(&path, APPEND);
        let open = || {
            // The first of each is sent: its answer tells the kernel to send no more.
            drop(OpenOptions::new().write(true).open(&path).unwrap());
            fs::read_dir(mounted.path()).unwrap().for_each(drop);
        };
        open();
        // Who closed what it created did not wait for the answer.
        let settled = || sent(&mounted, "release", || sleep(Duration::from_millis(50))) == 0;
        assert!((0..100).any(|_| settled()));
        for op in ["open", "opendir", "release", "releasedir"] {
            assert_eq!(sent(&mounted, op, open), 0, "{op}");
        }
        set_flags(&path, 0);
        fs::write(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(mounted.command("read /log"), "three", "it was cut by a request of its own");
        let mut file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "three", "the kernel's reference keeps it");
    }

    fn what_is_fixed_is_copied_from_and_what_only_grows_is_allocated_for(mounted, "no_open") {
        let [from, to, log] = ["from", "to", "log"].map(|name| mounted.path().join(name));
        fs::write(&from, b"fixed").unwrap();
        fs::write(&log, b"one").unwrap();
        set_flags(&log, APPEND);
        for flags in [APPEND, IMMUTABLE] {
            set_flags(&from, flags);
            let copied = copy(&File::open(&from).unwrap(), &File::create(&to).unwrap());
            assert_eq!(copied.unwrap(), 5);
            assert_eq!(fs::read(&to).unwrap(), b"fixed");
        }
        let file = OpenOptions::new().write(true).open(&log).unwrap();
        let refused = copy(&File::open(&from).unwrap(), &file);
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EPERM));
        allocate(&file, 0).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4096);
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(allocate(&file, hole).unwrap_err().raw_os_error(), Some(libc::EPERM));
        set_flags(&from, 0);
        set_flags(&log, 0);
    }

    fn a_cut_at_an_open_that_is_not_sent_moves_times(mounted, "no_open,no_writeback") {
        let path = mounted.path().join("f");
        let old = std::time::UNIX_EPOCH + Duration::from_secs(2);
        let modified = || fs::metadata(&path).unwrap().modified().unwrap();
        File::create(&path).unwrap().set_modified(old).unwrap();
        assert_eq!(modified(), old);
        File::create(&path).unwrap();
        assert_ne!(modified(), old);
    }

    fn opens_are_sent_and_refused_by_flags_of_the_file(mounted, "") {
        let path = mounted.path().join("log");
        fs::write(&path, b"one").unwrap();
        assert!(sent(&mounted, "open", || drop(File::open(&path).unwrap())) >= 1);
        set_flags(&path, APPEND);
        let refused = OpenOptions::new().write(true).open(&path).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        set_flags(&path, 0);
    }
}
