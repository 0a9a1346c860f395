//! Writes of a kernel's page cache that overtake each other: what is recorded ends before what has
//! yet to come.

use super::one_core::stay_on_one_core;
use super::{NEW, PAGE, crashed, neighbour_syncs, opened_every, text};
use hearth::backend::TestBackend;
use hearth::{
    Caller, Credentials, Errno, Fd, NonBlocking, Process, QuotaEventKind, Volume, VolumeVfs,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Half of what a gap is waited for of which nobody says anything.
const SOON: Duration = Duration::from_secs(30);
const OFTEN: Duration = Duration::from_millis(10);
/// Bytes of a request.
const PART: usize = 32 * PAGE;

struct Kernel {
    backend: Arc<TestBackend>,
    volume: Volume,
    root: Process,
    vfs: VolumeVfs<NonBlocking>,
    fd: Fd,
    ino: u64,
}

/// A part of a file that is like no other.
fn part(number: usize) -> Vec<u8> {
    vec![number as u8 + 1; PART]
}

impl Kernel {
    /// In front of a file of one part, in a volume that commits often.
    fn new() -> Kernel {
        let backend = Arc::new(TestBackend::new());
        let volume = opened_every(&backend, Some(OFTEN));
        let root = volume.process(Credentials::root());
        let fd = root.open("/f", NEW, 0o644).unwrap();
        let kernel = Kernel {
            ino: root.fstat(fd).unwrap().ino,
            vfs: volume.nonblocking_vfs(),
            volume,
            backend,
            root,
            fd,
        };
        kernel.writes(0);
        kernel
    }

    /// Sends part `number`.
    fn writes(&self, number: usize) {
        let (at, part) = ((number * PART) as u64, part(number));
        let written = self
            .vfs
            .write_back(&Caller::ROOT, self.ino, at, &part, false, true);
        assert!(matches!(written, Ok(PART)), "part {number}");
    }

    /// Closes a descriptor: everything that it kept was sent before.
    fn closes(&self) {
        let Ok(file) = self.vfs.open(&Caller::ROOT, self.ino, libc::O_RDONLY) else {
            panic!("it cannot be opened");
        };
        assert!(self.vfs.flush(&file, 1).is_ok());
        self.vfs.release(&file, None);
    }

    /// The parts that are there after a crash, `None` for zeros.
    fn kept(&self) -> Vec<Option<usize>> {
        neighbour_syncs(&self.root);
        let bytes = text(&crashed(&self.backend).2, "/f");
        let of = |chunk: &[u8]| {
            assert!(chunk.iter().all(|byte| *byte == chunk[0]) && chunk.len() == PART);
            (chunk[0] as usize).checked_sub(1)
        };
        bytes.chunks(PART).map(of).collect()
    }

    fn wait_until_kept(&self, wanted: &[Option<usize>]) {
        let begun = Instant::now();
        while self.kept() != wanted {
            assert!(begun.elapsed() < SOON, "{:?}", self.kept());
            std::thread::sleep(OFTEN);
        }
    }
}

/// Once, a commit recorded the size of the write that came first, and zeros for the one before it.
#[test]
fn a_commit_ends_before_a_write_that_another_has_overtaken() {
    let kernel = Kernel::new();
    kernel.writes(2);
    kernel.wait_until_kept(&[Some(0)]);
    for _ in 0..10 {
        std::thread::sleep(OFTEN);
        assert_eq!(kernel.kept(), [Some(0)]);
    }
    kernel.writes(1);
    kernel.wait_until_kept(&[Some(0), Some(1), Some(2)]);
}

#[test]
fn an_early_write_back_ends_before_a_write_that_another_has_overtaken() {
    let kernel = Kernel::new();
    // Enough for several early write-backs.
    (2..400).for_each(|number| kernel.writes(number % 250 + 2));
    for _ in 0..20 {
        std::thread::sleep(OFTEN);
        let kept = kernel.kept();
        assert!(kept.is_empty() || kept == [Some(0)], "{kept:?}");
    }
}

#[test]
fn a_hole_that_somebody_made_is_kept_by_his_sync() {
    let kernel = Kernel::new();
    kernel.writes(2);
    kernel.root.fsync(kernel.fd).unwrap();
    assert_eq!(kernel.kept(), [Some(0), None, Some(2)]);
    kernel.writes(4);
    kernel.volume.sync().unwrap();
    assert_eq!(kernel.kept(), [Some(0), None, Some(2), None, Some(4)]);
}

#[test]
fn a_hole_in_a_file_that_was_closed_is_kept_by_the_next_commits() {
    let kernel = Kernel::new();
    kernel.writes(2);
    kernel.closes();
    kernel.wait_until_kept(&[Some(0), None, Some(2)]);
}

/// A kernel whose close has failed sends no flush, and what it could not write never comes.
#[test]
fn what_lies_behind_a_lost_write_is_kept_by_the_next_commits_with_a_release_alone() {
    let kernel = Kernel::new();
    kernel.writes(2);
    let Ok(file) = kernel.vfs.open(&Caller::ROOT, kernel.ino, libc::O_RDWR) else {
        panic!("it cannot be opened");
    };
    kernel.vfs.release(&file, None);
    kernel.wait_until_kept(&[Some(0), None, Some(2)]);
}

#[test]
fn a_write_that_is_lost_is_waited_for_by_nobody() {
    let kernel = Kernel::new();
    kernel.writes(2);
    kernel.wait_until_kept(&[Some(0)]);
    let lost = PART as u64..2 * PART as u64;
    kernel.vfs.lose(kernel.ino, &[lost], Errno::ENOSPC);
    kernel.wait_until_kept(&[Some(0), None, Some(2)]);
    let events = kernel.volume.quota().events(0).unwrap();
    let (what, file) = (events[0].what, events[0].file.as_ref().unwrap());
    let (errno, bytes) = (Errno::ENOSPC, Some(PART as u64));
    assert_eq!(what, QuotaEventKind::WriteLost { errno, bytes });
    assert_eq!(file.path.as_deref(), Some(&b"/f"[..]));
}

/// Once, commits of a file with the number of a removed one ended where that had a gap.
#[test]
fn gaps_of_a_removed_file_hold_nothing_back_of_the_next_one_with_its_number() {
    stay_on_one_core();
    let mut kernel = Kernel::new();
    kernel.writes(2);
    kernel.root.close(kernel.fd).unwrap();
    kernel.root.unlink("/f").unwrap();
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < SOON, "the number is not used again");
        // Its number is free when the backend has forgotten the file.
        neighbour_syncs(&kernel.root);
        let fd = kernel.root.open("/f", NEW, 0o644).unwrap();
        if kernel.root.fstat(fd).unwrap().ino == kernel.ino {
            kernel.fd = fd;
            break;
        }
        kernel.root.close(fd).unwrap();
        kernel.root.rename("/f", "/kept").unwrap();
    }
    kernel.writes(0);
    let (at, fd) = ((2 * PART) as u64, kernel.fd);
    kernel.root.pwrite(fd, &part(2), at).unwrap();
    kernel.wait_until_kept(&[Some(0), None, Some(2)]);
}

/// Regression: a commit that waited for a gap found nothing behind it any more, and took the file
/// for written back. No sync kept the size that it has.
#[test]
fn the_size_of_a_file_that_was_cut_in_a_gap_is_kept_by_its_sync() {
    let cuts: [fn(&Kernel); 2] = [
        |kernel| {
            let size = 2 * PART as u64;
            kernel.root.ftruncate(kernel.fd, size).unwrap();
        },
        |kernel| {
            let (mode, at) = (
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                2 * PART,
            );
            let punched = kernel
                .root
                .fallocate(kernel.fd, mode, at as u64, PART as u64);
            punched.unwrap();
        },
    ];
    for (cut, behind) in cuts.into_iter().zip([1, 2]) {
        let kernel = Kernel::new();
        kernel.writes(2);
        kernel.wait_until_kept(&[Some(0)]);
        cut(&kernel);
        // A commit that nobody asked for writes the file back.
        for _ in 0..10 {
            std::thread::sleep(OFTEN);
            assert_eq!(kernel.kept(), [Some(0)]);
        }
        kernel.root.fsync(kernel.fd).unwrap();
        let mut expected = vec![Some(0)];
        expected.resize(1 + behind, None);
        assert_eq!(kernel.kept(), expected);
    }
}

/// A caller who writes behind the end makes a hole, whatever a kernel would do.
#[test]
fn a_hole_that_a_caller_made_is_kept_by_the_next_commits() {
    let kernel = Kernel::new();
    let (at, fd) = ((2 * PART) as u64, kernel.fd);
    kernel.root.pwrite(fd, &part(2), at).unwrap();
    kernel.wait_until_kept(&[Some(0), None, Some(2)]);
}
