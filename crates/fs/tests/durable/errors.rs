//! A backend that has no room, or fails.

use super::{NEW, begin, check, crashed, create, neighbour_syncs, text};
use hearth::{Caller, Errno, QuotaEventKind, VfsError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

#[test]
fn what_a_commit_has_no_room_for_is_kept_and_comes_with_a_later_one() {
    for call in ["commit", "write_pages"] {
        let (backend, volume, root) = begin();
        let full = Arc::new(AtomicBool::new(true));
        let is_full = Arc::clone(&full);
        backend.set_fault(Some(Box::new(move |called| {
            (called == call && is_full.load(Relaxed)).then_some(Errno::ENOSPC)
        })));
        let long = vec![7; 300_000];
        root.mkdir("/d", 0o755).unwrap();
        let fd = create(&root, "/d/long", &long);
        create(&root, "/d/short", b"short");
        for _ in 0..3 {
            assert_eq!(volume.sync(), Err(Errno::ENOSPC), "{call}");
            assert_eq!(root.fsync(fd), Err(Errno::ENOSPC), "{call}");
        }
        assert!(!volume.read_only());
        root.rename("/d/short", "/d/renamed").unwrap();
        root.unlink("/d/long").unwrap();
        root.close(fd).unwrap();
        full.store(false, Relaxed);
        volume.sync().unwrap();
        create(&root, "/d/long", &long[1..]);
        volume.sync().unwrap();
        assert_eq!(text(&root, "/d/renamed"), b"short");
        let (backend, volume, root) = crashed(&backend);
        assert_eq!(text(&root, "/d/renamed"), b"short");
        assert_eq!(text(&root, "/d/long"), &long[1..]);
        check(&backend, &volume);
    }
}

/// Regression: while a commit was under way, what it allocated was counted neither as unwritten any
/// more nor by the backend yet, and an allocation that found no room then was made.
#[test]
fn what_was_allocated_counts_as_unwritten_until_the_backend_has_it() {
    let (backend, volume, root) = begin();
    let fd = create(&root, "/f", b"");
    root.fallocate(fd, 0, 0, 1 << 20).unwrap();
    let (seen, looked_at) = (Arc::new(AtomicU64::new(0)), volume.clone());
    let least = Arc::clone(&seen);
    backend.set_fault(Some(Box::new(move |called| {
        if called == "commit" {
            least.store(looked_at.store_gauges().unwrap().dirty_bytes, Relaxed);
        }
        None
    })));
    volume.sync().unwrap();
    assert_eq!(seen.load(Relaxed), 1 << 20);
    assert_eq!(volume.store_gauges().unwrap().dirty_bytes, 0);
    backend.set_fault(None);
}

/// Regression: what a refused commit had not allocated was counted nowhere until a later one.
#[test]
fn what_was_allocated_counts_as_unwritten_behind_a_refused_commit() {
    let (backend, volume, root) = begin();
    let fd = create(&root, "/f", b"");
    root.fallocate(fd, 0, 0, 1 << 20).unwrap();
    let refused = |called: &'static str| (called == "commit").then_some(Errno::ENOSPC);
    backend.set_fault(Some(Box::new(refused)));
    let unwritten = || volume.store_gauges().unwrap().dirty_bytes;
    for _ in 0..3 {
        assert_eq!(volume.sync(), Err(Errno::ENOSPC));
        assert_eq!(unwritten(), 1 << 20);
    }
    backend.set_fault(None);
    volume.sync().unwrap();
    assert_eq!(unwritten(), 0);
}

/// Regression: each of two allocations at once found the room that was left for one.
#[test]
fn two_allocations_at_once_do_not_share_the_room_that_is_left() {
    let (backend, _volume, root) = begin();
    let files = ["/a", "/b"].map(|name| create(&root, name, b""));
    // The store keeps 4 MiB for itself.
    backend.set_size(53 << 20);
    // Both are told at the same time what is free, unless one keeps the other from asking.
    backend.set_delay(std::time::Duration::from_millis(100));
    let start = Barrier::new(2);
    let made = std::thread::scope(|scope| {
        let allocate = |fd| {
            start.wait();
            root.fallocate(fd, 0, 0, 32 << 20)
        };
        let threads = files.map(|fd| scope.spawn(move || allocate(fd)));
        threads.map(|thread| thread.join().unwrap())
    });
    let refused = made.iter().filter(|made| **made == Err(Errno::ENOSPC));
    assert_eq!(refused.count(), 1, "{made:?}");
    assert!(made.contains(&Ok(())), "{made:?}");
}

/// Regression: where a look at the room took longer than a full backend is left alone, an
/// allocation that did not fit asked for room again and again, without an end.
#[test]
fn a_slow_look_at_the_room_refuses_what_does_not_fit() {
    let (backend, _volume, root) = begin();
    let fd = create(&root, "/f", b"");
    backend.set_size(32 << 20);
    let mut looks = 0;
    let at = Arc::clone(&backend);
    backend.set_fault(Some(Box::new(move |called| {
        if called == "room" {
            std::thread::sleep(std::time::Duration::from_millis(300));
            looks += 1;
            if looks == 12 {
                // It has looked often enough: what is asked for fits now, and the test fails.
                at.set_size(1 << 40);
            }
        }
        None
    })));
    assert_eq!(root.fallocate(fd, 0, 0, 64 << 20), Err(Errno::ENOSPC));
    backend.set_fault(None);
}

/// A front end allocates a long range in parts. Once, one that no room was left for took all that
/// there was before it was refused.
#[test]
fn an_allocation_that_cannot_fit_is_refused_before_a_part_of_it_is_made() {
    let (backend, volume, root) = begin();
    create(&root, "/f", b"");
    backend.set_size(64 << 20);
    let (vfs, ino) = (volume.vfs(), root.stat("/f").unwrap().ino);
    let file = vfs.open(&Caller::ROOT, ino, libc::O_RDWR).unwrap();
    let check = |len| vfs.check_allocate(&file, 0, 0, len);
    assert_eq!(check(1 << 30), Err(Errno::ENOSPC));
    assert_eq!(check(8 << 20), Ok(()));
    vfs.release(&file, None);
}

/// Once, a file without room for its contents kept what was removed from being committed, so that
/// removing made none.
#[test]
fn what_is_removed_is_committed_beside_a_file_that_finds_no_room() {
    let (backend, volume, root) = begin();
    create(&root, "/old", b"x");
    volume.sync().unwrap();
    let no_room = |called: &'static str| (called == "write_pages").then_some(Errno::ENOSPC);
    backend.set_fault(Some(Box::new(no_room)));
    let contents = vec![7; 300_000];
    create(&root, "/large", &contents);
    root.unlink("/old").unwrap();
    assert_eq!(volume.sync(), Err(Errno::ENOSPC));
    let found = crashed(&backend).2;
    assert_eq!(found.stat("/old").unwrap_err(), Errno::ENOENT);
    assert_eq!(
        found.stat("/large").unwrap().size,
        0,
        "no size without its data"
    );
    backend.set_fault(None);
    volume.sync().unwrap();
    assert_eq!(text(&crashed(&backend).2, "/large"), contents);
}

/// Once, the commit that came next took the new name, and left the contents behind.
#[test]
fn a_file_that_replaces_another_is_still_first_when_there_was_no_room_for_it() {
    let (backend, volume, root) = begin();
    // More than rides in records.
    let (old, new) = (vec![1; 200_000], vec![2; 17 << 20]);
    create(&root, "/f", &old);
    volume.sync().unwrap();
    create(&root, "/g", &new);
    root.rename("/g", "/f").unwrap();
    let no_room = |called: &'static str| (called == "write_pages").then_some(Errno::ENOSPC);
    backend.set_fault(Some(Box::new(no_room)));
    let fd = create(&root, "/neighbour", b"x");
    assert_eq!(root.fsync(fd), Err(Errno::ENOSPC));
    assert_eq!(text(&crashed(&backend).2, "/f"), old);
    backend.set_fault(None);
    root.fsync(fd).unwrap();
    assert_eq!(text(&crashed(&backend).2, "/f"), new);
}

/// Once, no commit came as long as there was no room for such a file, so nothing that was removed
/// made any.
#[test]
fn a_file_that_replaces_another_keeps_no_removal_from_making_room_for_it() {
    let (backend, volume, root) = begin();
    let (old, new) = (vec![1; 200_000], vec![2; 1_000_000]);
    for name in ["/f", "/cut", "/removed"] {
        create(&root, name, &old);
    }
    volume.sync().unwrap();
    let no_room = |called: &'static str| (called == "write_pages").then_some(Errno::ENOSPC);
    backend.set_fault(Some(Box::new(no_room)));
    create(&root, "/g", &new);
    root.rename("/g", "/f").unwrap();
    let fd = root
        .open("/cut", libc::O_WRONLY | libc::O_TRUNC, 0)
        .unwrap();
    root.write(fd, &new).unwrap();
    root.unlink("/removed").unwrap();
    neighbour_syncs(&root);
    let (after, volume, found) = crashed(&backend);
    assert_eq!(found.stat("/removed").unwrap_err(), Errno::ENOENT);
    assert_eq!(text(&found, "/f"), new);
    assert_eq!(text(&found, "/cut"), new);
    check(&after, &volume);
}

#[test]
fn two_that_sync_a_file_at_once_both_hear_that_there_is_no_room() {
    let (backend, _volume, root) = begin();
    let fd = create(&root, "/f", &vec![7; 1 << 20]);
    let no_room = |called: &'static str| (called == "write_pages").then_some(Errno::ENOSPC);
    backend.set_fault(Some(Box::new(no_room)));
    backend.set_delay(std::time::Duration::from_millis(20));
    let results: Vec<_> = std::thread::scope(|scope| {
        let syncs: Vec<_> = (0..4).map(|_| scope.spawn(|| root.fsync(fd))).collect();
        syncs.into_iter().map(|sync| sync.join().unwrap()).collect()
    });
    assert_eq!(results, [Err(Errno::ENOSPC); 4]);
}

#[test]
fn any_other_error_latches_the_volume_and_reads_go_on() {
    for call in ["commit", "write_pages"] {
        let (backend, volume, root) = begin();
        create(&root, "/old", b"old");
        volume.sync().unwrap();
        let fd = create(&root, "/f", &vec![7; 300_000]);
        let fails = move |called: &'static str| (called == call).then_some(Errno::EIO);
        backend.set_fault(Some(Box::new(fails)));
        assert_eq!(volume.sync(), Err(Errno::EIO));
        backend.set_fault(None);
        for _ in 0..2 {
            assert_eq!(volume.sync(), Err(Errno::EIO));
            assert_eq!(root.fsync(fd), Err(Errno::EIO));
        }
        assert!(volume.read_only());
        volume.set_read_only(false);
        assert!(volume.read_only(), "the backend takes nothing any more");
        assert_eq!(root.mkdir("/new", 0o755), Err(Errno::EROFS));
        assert_eq!(root.pwrite(fd, b"x", 0), Err(Errno::EROFS));
        volume.reclaim(u64::MAX);
        assert_eq!(text(&root, "/f").len(), 300_000);
        assert_eq!(text(&root, "/old"), b"old");
        assert_eq!(volume.close(), Err(Errno::EIO));
        let (backend, volume, root) = crashed(&backend);
        assert_eq!(text(&root, "/old"), b"old");
        check(&backend, &volume);
    }
}

/// Bytes that are in memory alone, of files that have a name.
#[test]
fn what_the_backend_will_never_get_is_told_by_file_once() {
    let lost = |volume: &hearth::Volume| -> Vec<(String, QuotaEventKind)> {
        let events = volume.quota().events(0).unwrap().into_iter();
        let named = |event: hearth::QuotaEvent| {
            let path = event.file.and_then(|file| file.path).unwrap_or_default();
            (String::from_utf8(path).unwrap(), event.what)
        };
        events.map(named).collect()
    };
    for (call, bytes) in [("write_pages", Some(300_000)), ("commit", None)] {
        let (backend, volume, root) = begin();
        create(&root, "/old", b"old");
        volume.sync().unwrap();
        create(&root, "/f", &vec![7; 300_000]);
        let gone = create(&root, "/gone", &vec![7; 300_000]);
        root.unlink("/gone").unwrap();
        volume.run_background_once();
        assert_eq!(lost(&volume), [], "{call}: it may get them yet");
        let fails = move |called: &'static str| (called == call).then_some(Errno::EIO);
        backend.set_fault(Some(Box::new(fails)));
        assert_eq!(volume.sync(), Err(Errno::EIO));
        volume.run_background_once();
        let errno = Errno::EIO;
        let told = [("/f".to_owned(), QuotaEventKind::WriteLost { errno, bytes })];
        assert_eq!(lost(&volume), told, "{call}");
        volume.run_background_once();
        assert_eq!(lost(&volume), told, "{call}: once");
        // What a kernel writes back from then on is refused, so that its caller is told.
        let ino = root.stat("/old").unwrap().ino;
        let vfs = volume.nonblocking_vfs();
        let refused = vfs.write_back(&Caller::ROOT, ino, 0, b"new", false, true);
        assert!(
            matches!(refused, Err(VfsError::Errno(Errno::EIO))),
            "{call}"
        );
        assert_eq!(text(&root, "/old"), b"old");
        root.close(gone).unwrap();
    }
    let (_, volume, root) = begin();
    create(&root, "/f", b"text");
    volume.abandon();
    volume.run_background_once();
    assert_eq!(lost(&volume), [], "who abandons it knows");
}

/// Once, nobody wrote them back any more: their list was lost.
#[test]
fn files_behind_one_at_which_the_backend_panicked_are_written_back_later() {
    let (backend, volume, root) = begin();
    for number in 0..8 {
        create(&root, &format!("/{number}"), &vec![number; 200_000]);
    }
    let mut left = 3;
    backend.set_fault(Some(Box::new(move |called| {
        if called == "write_pages" && left > 0 {
            left -= 1;
            panic!("the backend breaks");
        }
        None
    })));
    for _ in 0..3 {
        let synced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| volume.sync()));
        assert!(synced.is_err(), "it panics");
    }
    volume.sync().unwrap();
    let (_, _, root) = crashed(&backend);
    for number in 0..8 {
        assert_eq!(text(&root, &format!("/{number}")), vec![number; 200_000]);
    }
}

#[test]
fn what_was_changed_before_a_volume_became_read_only_is_kept_at_its_end() {
    let (backend, volume, root) = begin();
    create(&root, "/f", b"text");
    volume.set_read_only(true);
    assert_eq!(root.open("/g", NEW, 0o644).err(), Some(Errno::EROFS));
    volume.close().unwrap();
    assert_eq!(text(&crashed(&backend).2, "/f"), b"text");
}

#[test]
fn a_sync_of_nothing_commits_nothing() {
    let (backend, volume, root) = begin();
    neighbour_syncs(&root);
    volume.sync().unwrap();
    let fails = |called: &'static str| (called == "commit").then_some(Errno::EIO);
    backend.set_fault(Some(Box::new(fails)));
    assert_eq!(volume.sync(), Ok(()));
    assert!(!volume.read_only());
}
