//! No size is durable beyond its data, and nothing lies behind it.

use super::{NEW, PAGE, begin, crashed, create, neighbour_syncs, text};
use hearth::backend::TestBackend;
use hearth_testing::threads::SetOnDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What is written at an offset; never 0.
fn byte(at: u64) -> u8 {
    (at / 61 % 251) as u8 + 1
}

fn bytes(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(byte).collect()
}

/// After a crash now every byte of the file is what was written there, and behind it are zeros.
fn is_prefix(backend: &TestBackend, path: &str) -> usize {
    let (_, _volume, process) = crashed(backend);
    if process.stat(path).is_err() {
        return 0;
    }
    let found = text(&process, path);
    let wrong = (0..found.len()).find(|&at| found[at] != byte(at as u64));
    assert_eq!(wrong, None, "of {} bytes", found.len());
    process
        .truncate(path, (found.len() + 3 * PAGE) as u64)
        .unwrap();
    let longer = text(&process, path);
    let wrong = (found.len()..longer.len()).find(|&at| longer[at] != 0);
    assert_eq!(wrong, None, "behind {} bytes", found.len());
    found.len()
}

#[test]
fn an_append_that_nobody_synced_is_there_as_a_prefix_or_not_at_all() {
    for step in [10, 1_000, 5_000, 40_000] {
        let (backend, volume, root) = begin();
        let fd = root.open("/f", NEW, 0o644).unwrap();
        let mut size = 0;
        for round in 0..20 {
            root.pwrite(fd, &bytes(size, step), size).unwrap();
            size += step as u64;
            match round % 4 {
                1 => neighbour_syncs(&root),
                2 => drop(volume.reclaim(u64::MAX)),
                3 => volume.sync().unwrap(),
                _ => {}
            }
            let found = is_prefix(&backend, "/f") as u64;
            assert!(round % 4 != 3 || found == size, "{found} of {size}");
        }
    }
}

/// Somebody writes, others write back and commit, and what a crash leaves is looked at meanwhile.
fn beside(write: impl FnOnce(&hearth::Process, hearth::Fd) + Send, looks: usize) {
    let (backend, volume, root) = begin();
    let fd = root.open("/f", NEW, 0o644).unwrap();
    let ended = AtomicBool::new(false);
    let copies = std::thread::scope(|scope| {
        let end = SetOnDrop(&ended);
        let syncing = scope.spawn(|| {
            while !ended.load(Relaxed) {
                volume.sync().unwrap();
            }
        });
        let neighbour = scope.spawn(|| {
            while !ended.load(Relaxed) {
                neighbour_syncs(&root);
                volume.reclaim(64 << 10);
            }
        });
        let copying = scope.spawn(|| {
            let mut copies = Vec::new();
            while !ended.load(Relaxed) {
                if copies.len() < looks {
                    copies.push(backend.after_crash());
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            copies
        });
        write(&root, fd);
        drop(end);
        syncing.join().unwrap();
        neighbour.join().unwrap();
        copying.join().unwrap()
    });
    for copy in &copies {
        is_prefix(copy, "/f");
    }
    volume.sync().unwrap();
    let size = root.fstat(fd).unwrap().size as usize;
    assert_eq!(is_prefix(&backend, "/f"), size);
}

#[test]
fn appends_beside_write_backs_are_prefixes() {
    let write = |root: &hearth::Process, fd| {
        let mut size = 0;
        for round in 0..3_000 {
            let len = 1 + round * 37 % 3_000;
            root.pwrite(fd, &bytes(size, len), size).unwrap();
            size += len as u64;
        }
    };
    beside(write, 60);
}

/// More pages than one step of a write-back has; room is preallocated behind the end.
#[test]
fn long_appends_beside_write_backs_are_prefixes() {
    let write = |root: &hearth::Process, fd| {
        root.fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, 0, 40 << 20)
            .unwrap();
        for chunk in 0..80 {
            let at = chunk << 18;
            root.pwrite(fd, &bytes(at, 1 << 18), at).unwrap();
        }
    };
    beside(write, 12);
}

#[test]
fn files_that_shrink_and_grow_beside_write_backs_are_prefixes() {
    let write = |root: &hearth::Process, fd| {
        let (mut size, mut seed) = (0, 11_u64);
        for _ in 0..4_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let roll = seed >> 33;
            if roll.is_multiple_of(3) {
                size = size.min(roll / 3 % (size + 1));
                root.ftruncate(fd, size).unwrap();
            } else {
                let len = 1 + (roll / 3 % 30_000) as usize;
                root.pwrite(fd, &bytes(size, len), size).unwrap();
                size += len as u64;
            }
        }
    };
    beside(write, 60);
}

/// Whether a file was written back before it is cut and grows again.
#[test]
fn a_file_that_is_cut_and_grows_reads_zeros_behind_the_cut() {
    for (size, cut) in [
        (10_000, 5_000),
        (10_000, 4_096),
        (300_000, 100_001),
        (50, 20),
    ] {
        for synced in [0, size / 3, size] {
            for again in [false, true] {
                let (backend, volume, root) = begin();
                let fd = create(&root, "/f", &bytes(0, synced));
                volume.sync().unwrap();
                root.pwrite(fd, &bytes(0, size), 0).unwrap();
                if again {
                    volume.sync().unwrap();
                    root.pwrite(fd, &bytes(0, size), 0).unwrap();
                }
                for (step, to) in [cut, 2 * size].into_iter().enumerate() {
                    root.ftruncate(fd, to as u64).unwrap();
                    neighbour_syncs(&root);
                    let found = text(&crashed(&backend).2, "/f");
                    let is = |at: usize| match at < cut {
                        true => found[at] == byte(at as u64),
                        false => found[at] == 0,
                    };
                    let wrong = (0..found.len()).find(|&at| !is(at));
                    let case = format!("{size} {cut} {synced} {again} {step}");
                    assert_eq!(wrong, None, "{case}: {} bytes", found.len());
                    if step == 0 {
                        // And so it is when it grows after the crash.
                        let (_, _volume, process) = crashed(&backend);
                        process.truncate("/f", 3 * size as u64).unwrap();
                        let longer = text(&process, "/f");
                        let end = found.len();
                        assert!(longer[end..].iter().all(|&byte| byte == 0), "{case}");
                    }
                }
                volume.sync().unwrap();
                let found = text(&crashed(&backend).2, "/f");
                assert_eq!(found.len(), 2 * size);
                assert_eq!(&found[..cut], bytes(0, cut));
                assert!(found[cut..].iter().all(|&byte| byte == 0));
            }
        }
    }
}

/// Pages that come to lie below the durable size need not be durable.
#[test]
fn a_range_that_is_taken_out_leaves_no_size_beyond_its_data() {
    for synced in [0, 4, 8, 12, 16] {
        for (from, pages) in [(0, 2), (2, 8), (6, 8), (2, 13)] {
            let (backend, volume, root) = begin();
            let label = |page: usize| vec![page as u8 + 1; PAGE];
            let fd = root.open("/f", NEW, 0o644).unwrap();
            for page in 0..16 {
                if page == synced {
                    volume.sync().unwrap();
                }
                root.pwrite(fd, &label(page), (page * PAGE) as u64).unwrap();
            }
            let mode = libc::FALLOC_FL_COLLAPSE_RANGE;
            root.fallocate(fd, mode, (from * PAGE) as u64, (pages * PAGE) as u64)
                .unwrap();
            neighbour_syncs(&root);
            let expected: Vec<u8> = (0..16)
                .filter(|page| !(from..from + pages).contains(page))
                .flat_map(label)
                .collect();
            let found = text(&crashed(&backend).2, "/f");
            let case = format!("{synced} pages, without {pages} from {from}");
            assert!(expected.starts_with(&found), "{case}: {}", found.len());
            volume.sync().unwrap();
            assert_eq!(text(&crashed(&backend).2, "/f"), expected, "{case}");
        }
    }
}

#[test]
fn a_range_that_is_put_in_or_punched_is_there_after_a_crash() {
    for synced in [0, 8, 16] {
        for mode in [
            libc::FALLOC_FL_INSERT_RANGE,
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            libc::FALLOC_FL_ZERO_RANGE,
        ] {
            let (backend, volume, root) = begin();
            let fd = create(&root, "/f", &bytes(0, synced * PAGE));
            volume.sync().unwrap();
            root.pwrite(fd, &bytes(0, 16 * PAGE), 0).unwrap();
            root.fallocate(fd, mode, 4 * PAGE as u64, 3 * PAGE as u64)
                .unwrap();
            let expected = text(&root, "/f");
            neighbour_syncs(&root);
            let (after, volume2, process) = crashed(&backend);
            let found = text(&process, "/f");
            for (at, byte) in found.iter().enumerate() {
                let is = *byte == expected[at] || *byte == 0;
                assert!(is, "{mode} {synced}: byte {at} of {}", found.len());
            }
            super::check(&after, &volume2);
            volume.sync().unwrap();
            let (after, volume2, process) = crashed(&backend);
            assert_eq!(text(&process, "/f"), expected, "{mode} {synced}");
            super::check(&after, &volume2);
        }
    }
}

/// Once, the pages inside a hole were gone after a crash, and the parts of pages at its edges were
/// not.
#[test]
fn a_hole_that_ends_inside_pages_is_there_whole_after_a_crash() {
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    for mode in [libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE] {
        for (off, len) in [
            (PAGE + 100, 3 * PAGE),
            (PAGE + 100, PAGE),
            (2 * PAGE, PAGE + 7),
        ] {
            let (backend, volume, root) = begin();
            let size = 6 * PAGE + 50;
            let fd = create(&root, "/f", &bytes(0, size));
            root.fsync(fd).unwrap();
            let hole = off..off + len;
            let (at, count) = (off as u64, len as u64);
            root.fallocate(fd, mode | keep, at, count).unwrap();
            let mut expected = bytes(0, size);
            expected[hole].fill(0);
            neighbour_syncs(&root);
            let (_, _again, process) = crashed(&backend);
            assert!(text(&process, "/f") == expected, "{mode} {off} {len}");
            // What is written into an edge afterwards is not lost to what was recorded.
            root.pwrite(fd, b"new", (off + 5) as u64).unwrap();
            expected[off + 5..off + 8].copy_from_slice(b"new");
            root.fsync(fd).unwrap();
            let (_, _again, process) = crashed(&backend);
            assert!(text(&process, "/f") == expected, "{mode} {off} {len}");
            drop(volume);
        }
    }
}

/// What lies behind the recorded size in a page at an edge is not durable, and is not there when
/// the file grows again.
#[test]
fn an_edge_of_a_hole_brings_nothing_from_behind_the_recorded_size() {
    let (backend, _volume, root) = begin();
    let fd = create(&root, "/f", &bytes(0, 3 * PAGE + 100));
    root.fsync(fd).unwrap();
    let more = bytes(3 * PAGE as u64 + 100, 500);
    root.pwrite(fd, &more, 3 * PAGE as u64 + 100).unwrap();
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (off, len) = (PAGE + 10, 2 * PAGE);
    root.fallocate(fd, mode, off as u64, len as u64).unwrap();
    neighbour_syncs(&root);
    let (_, _again, process) = crashed(&backend);
    let mut expected = bytes(0, 3 * PAGE + 100);
    expected[off..off + len].fill(0);
    assert!(text(&process, "/f") == expected);
    process.truncate("/f", 4 * PAGE as u64).unwrap();
    expected.resize(4 * PAGE, 0);
    assert!(text(&process, "/f") == expected);
}

#[test]
fn a_sync_of_many_small_files_is_several_commits() {
    let (backend, volume, root) = begin();
    let commits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&commits);
    backend.set_fault(Some(Box::new(move |call| {
        counted.fetch_add(u64::from(call == "commit"), Relaxed);
        None
    })));
    // Some 32 MiB of contents that ride in records.
    for n in 0..512 {
        let fd = create(&root, &format!("f{n}"), &[1; 16 * PAGE]);
        root.close(fd).unwrap();
    }
    volume.sync().unwrap();
    let commits = commits.load(Relaxed);
    assert!((4..12).contains(&commits), "{commits} commits");
    let (_, _, root) = crashed(&backend);
    for n in 0..512 {
        assert_eq!(root.stat(format!("f{n}")).unwrap().size, 16 * PAGE as u64);
    }
}
