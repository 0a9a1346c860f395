//! Reads for the cache of a kernel that keep nothing here.

use hearth::backend::TestBackend;
use hearth::{Credentials, Errno, Process, Volume};
use std::sync::Arc;

const PAGE: usize = 4096;
const PAGES: usize = 80;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn begin() -> (Arc<TestBackend>, Volume, Process) {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder().backend(backend.clone()).build();
    let volume = volume.expect("a new backend has nothing that could fail");
    let root = volume.process(Credentials::root());
    (backend, volume, root)
}

/// Reads a part of the file as a kernel does, on a thread that may block.
fn through(volume: &Volume, ino: u64, off: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let vfs = volume.vfs();
    let file = vfs.open(&hearth::Caller::ROOT, ino, libc::O_RDONLY)?;
    let mut out = vec![9; len];
    let read = vfs.read_through(&file, off, &mut out);
    vfs.release(&file, None);
    out.truncate(read?);
    Ok(out)
}

#[test]
fn a_read_that_keeps_nothing_gives_what_other_reads_give() {
    for seed in 1..=40 {
        let (_, volume, root) = begin();
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let fd = root.open("/f", libc::O_CREAT | libc::O_RDWR, 0o600);
        let fd = fd.expect("a new name");
        let ino = root.stat("/f").expect("it is there").ino;
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..60 {
            let mut at = random.below(PAGES * PAGE);
            let mut len = 1 + random.below(6 * PAGE);
            if random.below(2) == 0 {
                // Whole pages: none of them is read first.
                (at, len) = (at / PAGE * PAGE, len.next_multiple_of(PAGE));
            }
            match random.below(8) {
                0 => {
                    let end = at as u64;
                    root.ftruncate(fd, end).expect("it is open");
                    model.resize(at, 0);
                }
                1 => {
                    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    let done = root.fallocate(fd, punch, at as u64, len as u64);
                    done.expect("it is open");
                    let end = (at + len).min(model.len());
                    model[at.min(end)..end].fill(0);
                }
                2 => {
                    let done = root.fallocate(fd, 0, at as u64, len as u64);
                    done.expect("there is room");
                    model.resize(model.len().max(at + len), 0);
                }
                7 => {
                    let zero = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
                    let done = root.fallocate(fd, zero, at as u64, len as u64);
                    done.expect("there is room");
                    let end = (at + len).min(model.len());
                    model[at.min(end)..end].fill(0);
                }
                3 => root.fsync(fd).expect("the backend fails nothing"),
                4 => drop(volume.reclaim(u64::MAX)),
                _ => {
                    let byte = 1 + random.below(250) as u8;
                    let bytes = vec![byte; len];
                    root.pwrite(fd, &bytes, at as u64).expect("there is room");
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].fill(byte);
                }
            }
            let (off, len) = (random.below(PAGES * PAGE), random.below(PAGES * PAGE));
            let right = &model[off.min(model.len())..(off + len).min(model.len())];
            let read = through(&volume, ino, off as u64, len).expect("the backend fails nothing");
            assert!(read == right, "seed {seed}: {len} bytes at {off}");
        }
    }
}

/// Once, what was punched came back in a read that keeps nothing, until the next commit.
#[test]
fn a_hole_that_the_backend_has_not_heard_of_is_zeros() {
    let (_, volume, root) = begin();
    let flags = libc::O_CREAT | libc::O_RDWR;
    let fd = root.open("/f", flags, 0o600).expect("a new name");
    let len = PAGES * PAGE;
    root.pwrite(fd, &vec![7; len], 0).expect("there is room");
    let ino = root.stat("/f").expect("it is there").ino;
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    let mut right = vec![7; len];
    let kinds = [libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE];
    for (at, mode) in [20, 50].into_iter().zip(kinds) {
        // Only the backend has the pages.
        root.fsync(fd).expect("the backend fails nothing");
        volume.reclaim(u64::MAX);
        let hole = at * PAGE..(at + 4) * PAGE;
        let (off, size) = (hole.start as u64, hole.len() as u64);
        root.fallocate(fd, mode | keep, off, size).expect("room");
        right[hole].fill(0);
        let read = through(&volume, ino, 0, len).expect("the backend fails nothing");
        assert!(read == right, "mode {mode}");
        // From the middle of the hole, and in the middle of a page.
        let from = (at + 1) * PAGE + 9;
        let read = through(&volume, ino, from as u64, len).expect("the backend fails nothing");
        assert!(read == right[from..], "mode {mode}");
    }
    // What is cut off and grows again.
    root.fsync(fd).expect("the backend fails nothing");
    volume.reclaim(u64::MAX);
    root.ftruncate(fd, 10 * PAGE as u64).expect("it is open");
    root.ftruncate(fd, len as u64).expect("it is open");
    right[10 * PAGE..].fill(0);
    assert!(through(&volume, ino, 0, len) == Ok(right));
}

#[test]
fn a_large_file_that_a_kernel_reads_does_not_stay_in_memory() {
    let (backend, volume, root) = begin();
    let flags = libc::O_CREAT | libc::O_RDWR;
    let fd = root.open("/f", flags, 0o600).expect("a new name");
    let bytes: Vec<u8> = (0..512 * PAGE).map(|n| (n / 7) as u8).collect();
    root.pwrite(fd, &bytes, 0).expect("there is room");
    root.close(fd).expect("it is open");
    let ino = root.stat("/f").expect("it is there").ino;
    volume.reclaim(u64::MAX);
    root.stat("/f").expect("it is there");
    let before = volume.gauges().budgeted_bytes;
    assert_eq!(through(&volume, ino, 0, bytes.len() + 100), Ok(bytes));
    assert_eq!(volume.gauges().budgeted_bytes, before);
    let no_pages = |call: &str| (call == "load_pages").then_some(Errno::EIO);
    backend.set_fault(Some(Box::new(no_pages)));
    assert_eq!(through(&volume, ino, 0, PAGE), Err(Errno::EIO));
    // Where a kernel's thread must not block the read says what it lacks, and keeps it.
    backend.set_fault(None);
    let vfs = volume.nonblocking_vfs();
    let file = vfs.open(&hearth::Caller::ROOT, ino, libc::O_RDONLY);
    let file = file.expect("it is there");
    let missed = vfs.read_for_cache(&file, 0, &mut [0; PAGE]);
    assert!(matches!(missed, Err(hearth::VfsError::Miss(miss)) if miss.is_page()));
    hearth::Vfs::release(&vfs, &file, None);
}
