//! Large files are written back while they are written.

use super::{NEW, PAGE, Ticking, crashed, neighbour_syncs, text};
use hearth::backend::TestBackend;
use hearth::{Caller, Credentials, Fd, Process, Volume};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// A volume that writes large files back early and commits nothing by itself, and how often pages
/// were stored by another thread than this one.
fn begin() -> (Arc<TestBackend>, Volume, Process, Arc<AtomicUsize>) {
    let backend = Arc::new(TestBackend::new());
    let seen = Arc::<AtomicUsize>::default();
    let (counted, here) = (Arc::clone(&seen), std::thread::current().id());
    backend.set_fault(Some(Box::new(move |call| {
        let is_early = call == "write_pages" && std::thread::current().id() != here;
        counted.fetch_add(usize::from(is_early), SeqCst);
        None
    })));
    let builder = Volume::builder().workers(0).clock(Ticking::new());
    let builder = builder.commit_interval(Duration::from_secs(3600));
    let volume = builder.backend(Arc::clone(&backend)).build().unwrap();
    let root = volume.process(Credentials::root());
    (backend, volume, root, seen)
}

/// A MiB that is like no other.
fn mib(seed: usize) -> Vec<u8> {
    let mut bytes = vec![(seed % 251) as u8 + 1; MIB];
    for (at, page) in bytes.chunks_mut(PAGE).enumerate() {
        page[..8].copy_from_slice(&(seed * 1000 + at).to_le_bytes());
    }
    bytes
}

/// Appends MiB by MiB until `is_enough`.
fn append(root: &Process, fd: Fd, from: usize, mut is_enough: impl FnMut() -> bool) -> Vec<u8> {
    let mut all = Vec::new();
    for seed in from..from + 2000 {
        if is_enough() {
            return all;
        }
        let next = mib(seed);
        root.pwrite(fd, &next, (seed * MIB) as u64).unwrap();
        all.extend(next);
    }
    panic!("nothing was written back early");
}

#[test]
fn a_large_file_is_written_back_before_anybody_asks_and_is_there_after_the_sync() {
    let (backend, _volume, root, calls) = begin();
    let fd = root.open("/f", NEW, 0o644).unwrap();
    let early = append(&root, fd, 0, || calls.load(SeqCst) > 2);
    // What somebody else's commit names is a part from the beginning on.
    neighbour_syncs(&root);
    let found = text(&crashed(&backend).2, "/f");
    assert!(
        found == early[..found.len()],
        "a prefix of {} bytes",
        found.len()
    );
    let rest = append(&root, fd, early.len() / MIB, {
        let until = calls.load(SeqCst) + 1;
        let calls = Arc::clone(&calls);
        move || calls.load(SeqCst) > until
    });
    root.fsync(fd).unwrap();
    assert!(text(&crashed(&backend).2, "/f") == [early, rest].concat());
}

/// Once, one who found a write-back under way ended its turn, and waited for himself.
#[test]
fn an_early_write_back_leaves_one_that_is_under_way_alone() {
    let (backend, _volume, root, _) = begin();
    let fd = root.open("/f", NEW, 0o644).unwrap();
    let (stop, stopped) = mpsc::sync_channel::<()>(0);
    let (go, wait) = mpsc::channel::<()>();
    let mut is_first = true;
    backend.set_fault(Some(Box::new(move |call| {
        if call == "write_pages" && std::mem::take(&mut is_first) {
            stop.send(()).unwrap();
            wait.recv().unwrap();
        }
        None
    })));
    root.pwrite(fd, &mib(0), 0).unwrap();
    std::thread::scope(|scope| {
        // Dropped where this fails, so that the sync goes on and ends.
        let go = go;
        let syncing = scope.spawn(|| root.fsync(fd).unwrap());
        stopped.recv_timeout(Duration::from_secs(60)).unwrap();
        // Enough for the early write-back, which finds that the sync is not over.
        for seed in 1..80 {
            root.pwrite(fd, &mib(seed), (seed * MIB) as u64).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        go.send(()).unwrap();
        syncing.join().unwrap();
    });
    root.fsync(fd).unwrap();
    let expected: Vec<u8> = (0..80).flat_map(mib).collect();
    assert!(text(&crashed(&backend).2, "/f") == expected);
}

#[test]
fn cuts_and_writes_beside_early_write_backs_lose_nothing() {
    cuts_and_writes(|_, root, fd, bytes, at| {
        assert_eq!(root.pwrite(fd, bytes, at), Ok(bytes.len()));
    });
}

#[test]
fn cuts_and_writes_beside_pages_that_a_kernel_keeps_lose_nothing() {
    cuts_and_writes(|volume, root, fd, bytes, at| {
        let ino = root.fstat(fd).unwrap().ino;
        keep(volume, ino, bytes, at);
    });
}

/// Once, each write counted as more to be written back: a file of 4 MiB that was written over and
/// over went to the disk at the rate of memory.
#[test]
fn what_is_written_again_before_it_was_written_back_counts_once() {
    let (backend, _volume, root, calls) = begin();
    let fd = root.open("/f", NEW, 0o644).unwrap();
    let mut last = Vec::new();
    for round in 0..100 {
        last = (round..round + 4).flat_map(mib).collect();
        assert_eq!(root.pwrite(fd, &last, 0), Ok(4 * MIB));
    }
    assert_eq!(calls.load(SeqCst), 0);
    root.fsync(fd).unwrap();
    assert!(text(&crashed(&backend).2, "/f") == last);
    // Written back, it counts again.
    for seed in 4..80 {
        root.pwrite(fd, &mib(seed), (seed * MIB) as u64).unwrap();
    }
    let begun = Instant::now();
    while calls.load(SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes as a kernel does out of its page cache.
fn keep(volume: &Volume, ino: u64, bytes: &[u8], at: u64) {
    let vfs = volume.vfs();
    let written = vfs.write_back(&Caller::ROOT, ino, at, bytes, false, true);
    assert_eq!(written, Ok(bytes.len()));
}

/// What a kernel keeps is given to the backend and leaves memory; what a program of the library has
/// written stays.
#[test]
fn a_large_file_out_of_a_page_cache_does_not_stay_in_memory() {
    const ALL: usize = 96;
    for is_kept in [true, false] {
        let (backend, volume, root, _) = begin();
        let fd = root.open("/f", NEW, 0o644).unwrap();
        let ino = root.fstat(fd).unwrap().ino;
        let in_memory = || volume.gauges().budgeted_bytes as usize / MIB;
        let mut left = ALL;
        for seed in 0..ALL {
            match is_kept {
                true => keep(&volume, ino, &mib(seed), (seed * MIB) as u64),
                false => assert_eq!(root.pwrite(fd, &mib(seed), (seed * MIB) as u64), Ok(MIB)),
            }
            if is_kept && seed % 16 == 15 {
                let begun = Instant::now();
                // The cores watch their own parts of the file.
                let most = 16 * hearth_sync::primitive::cores();
                while in_memory() > most && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                left = in_memory();
                assert!(left <= most, "{left} MiB behind {seed} MiB");
            }
        }
        assert!(is_kept && left < ALL / 2 || in_memory() >= ALL);
        let mut read = vec![0; MIB];
        for seed in (0..ALL).rev() {
            assert_eq!(root.pread(fd, &mut read, (seed * MIB) as u64), Ok(MIB));
            assert!(read == mib(seed), "MiB {seed}");
        }
        root.fsync(fd).unwrap();
        let all: Vec<u8> = (0..ALL).flat_map(mib).collect();
        assert!(text(&crashed(&backend).2, "/f") == all);
    }
}

fn cuts_and_writes(write: impl Fn(&Volume, &Process, Fd, &[u8], u64)) {
    let (backend, volume, root, calls) = begin();
    let fd = root.open("/f", NEW, 0o644).unwrap();
    let mut expected: Vec<u8> = Vec::new();
    let mut seed = 0_usize;
    let mut next = || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        seed >> 33
    };
    for round in 0..120 {
        let bytes = mib(round);
        let at = match round % 4 {
            0 => next() % (expected.len() + 1),
            _ => expected.len(),
        };
        write(&volume, &root, fd, &bytes, at as u64);
        expected.resize(expected.len().max(at + MIB), 0);
        expected[at..at + MIB].copy_from_slice(&bytes);
        match next() % 12 {
            0 => {
                let size = expected.len() - next() % MIB.min(expected.len());
                root.ftruncate(fd, size as u64).unwrap();
                expected.truncate(size);
            }
            1 if expected.len() > 8 * MIB => {
                let from = next() % (expected.len() - MIB);
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                root.fallocate(fd, mode, from as u64, MIB as u64).unwrap();
                expected[from..from + MIB].fill(0);
            }
            2 if expected.len() > 8 * MIB => {
                let from = next() % (expected.len() / PAGE - 64) * PAGE;
                let mode = libc::FALLOC_FL_COLLAPSE_RANGE;
                root.fallocate(fd, mode, from as u64, 16 * PAGE as u64)
                    .unwrap();
                expected.drain(from..from + 16 * PAGE);
            }
            3 => root.fsync(fd).unwrap(),
            _ => continue,
        }
        if round % 40 > 33 {
            root.fsync(fd).unwrap();
            let found = text(&crashed(&backend).2, "/f");
            assert_eq!(found.len(), expected.len());
            assert!(found == expected, "after round {round}");
        }
    }
    assert!(text(&root, "/f") == expected);
    root.fsync(fd).unwrap();
    assert!(text(&crashed(&backend).2, "/f") == expected);
    assert!(calls.load(SeqCst) > 2, "early write-backs happened");
}
