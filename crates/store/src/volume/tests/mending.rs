//! A broken engine is opened again while others read.

use super::failing::volume;
use super::harness::*;
use crate::{Error, Read, Table};
use hearth_backend::Errno;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use std::time::{Duration, Instant};

const READERS: usize = 8;

/// Once, steady readers kept a broken engine from being opened again for ever: each commit over the
/// bound of memory took a second more, and with a full log none ended.
#[test]
fn steady_readers_do_not_keep_a_broken_engine_from_being_opened_again() {
    let (_, engines, kv) = volume();
    *engines.merge.lock() = Some(Error::corrupt("engine", 0, "a bad block"));
    assert!(kv.compact(u64::MAX).is_err());
    let is_over = AtomicBool::new(false);
    let kept = thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    assert_eq!(get(&kv, "b").as_deref(), Some("1"));
                }
            });
        }
        thread::sleep(Duration::from_millis(50));
        let kept = kv.checkpoint();
        is_over.store(true, Relaxed);
        kept
    });
    kept.unwrap();
}

/// The visitor of a scan reads while others wait: its scan ends, and the engine is free.
#[test]
fn a_scan_that_reads_while_a_broken_engine_waits_for_it_goes_on() {
    let (_, engines, kv) = volume();
    *engines.merge.lock() = Some(Error::corrupt("engine", 0, "a bad block"));
    assert!(kv.compact(u64::MAX).is_err());
    let is_in = AtomicBool::new(false);
    thread::scope(|scope| {
        let (kv, is_in) = (&kv, &is_in);
        scope.spawn(move || {
            let begun = Instant::now();
            kv.scan(Table::Meta, b"", None, &mut |_, _| {
                is_in.store(true, Relaxed);
                while begun.elapsed() < Duration::from_millis(700) {
                    assert_eq!(get(kv, "b").as_deref(), Some("1"));
                }
                false
            })
            .unwrap();
        });
        while !is_in.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        kv.checkpoint().unwrap();
    });
}

/// Once, a commit that found the log full waited for the end of a scan without a bound, and every
/// caller behind it with it.
#[test]
fn a_commit_into_a_full_log_does_not_wait_for_ever_for_a_scan() {
    let (_, engines, kv) = volume();
    *engines.merge.lock() = Some(Error::corrupt("engine", 0, "a bad block"));
    assert!(kv.compact(u64::MAX).is_err());
    let mut failed = None;
    kv.scan(Table::Meta, b"", None, &mut |_, _| {
        failed = (3..1000).find_map(|epoch| kv.commit(epoch, &[put("c", "3")]).err());
        false
    })
    .unwrap();
    assert!(matches!(failed, Some(Error::NoSpace { .. })), "{failed:?}");
    assert_eq!(kv.latched(), None);
    // The epoch is given again.
    kv.commit(kv.last_epoch() + 1, &[put("c", "4")]).unwrap();
    assert_eq!(get(&kv, "c").as_deref(), Some("4"));
}

fn failed(errno: Errno) -> Error {
    Error::of_errno("merge tables of the engine", "engine".as_ref(), errno)
}

/// Once, a write or a sync that failed in the engine's own merges was forgotten with its opening.
#[test]
fn a_write_that_fails_in_a_merge_of_the_engine_makes_the_volume_read_only() {
    let (_, engines, kv) = volume();
    *engines.own_merge.lock() = Some(failed(Errno::EIO));
    let refused = kv.checkpoint().unwrap_err();
    assert_eq!(refused, failed(Errno::EIO));
    assert!(kv.latched().is_some());
    // The engine is not opened anew on that disk, and what it has is read.
    assert_eq!(get(&kv, "b").as_deref(), Some("1"));
    assert_eq!(get(&kv, "a").as_deref(), Some("2"));
    let refused = kv.commit(3, &[put("c", "3")]).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
}

/// The superblock does not say that the log is in tables whose disk has just failed.
#[test]
fn a_write_that_fails_in_a_merge_beside_a_checkpoint_keeps_the_log() {
    let (disk, engines, kv) = volume();
    *engines.beside_a_table.lock() = Some(failed(Errno::EIO));
    assert_eq!(kv.checkpoint(), Err(failed(Errno::EIO)));
    assert!(kv.latched().is_some());
    drop(kv);
    let kv = open(&disk.crashed(1)).unwrap();
    assert_eq!(get(&kv, "a").as_deref(), Some("2"));
}

/// Once, checkpoints went on until all tables had been looked at, on the disk that had just failed.
#[test]
fn no_checkpoint_is_made_until_it_is_known_why_a_merge_has_failed() {
    let (disk, engines, kv) = volume();
    let looking = Error::Busy {
        what: "a checkpoint from being made",
    };
    *engines.beside_a_table.lock() = Some(looking.clone());
    for _ in 0..2 {
        assert_eq!(kv.checkpoint(), Err(looking.clone()));
        assert_eq!(kv.compact(u64::MAX).err(), Some(looking.clone()));
        assert_eq!(kv.latched(), None);
    }
    kv.commit(3, &[put("c", "3")]).unwrap();
    let cut = open(&disk.crashed(1)).unwrap();
    assert_eq!(get(&cut, "c").as_deref(), Some("3"), "the log is whole");
    *engines.own_merge.lock() = Some(failed(Errno::EIO));
    assert_eq!(kv.checkpoint(), Err(failed(Errno::EIO)));
    assert!(kv.latched().is_some());
}

/// Once, the error of a merge that was under way went with the engine, and another was opened on
/// the disk.
#[test]
fn a_merge_that_fails_while_its_end_is_waited_for_is_heard() {
    let (_, engines, kv) = volume();
    *engines.own_merge.lock() = Some(Error::corrupt("engine", 0, "a bad block"));
    *engines.at_the_end.lock() = Some(failed(Errno::EIO));
    assert_eq!(kv.checkpoint(), Err(failed(Errno::EIO)));
    assert!(kv.latched().is_some());
    let (disk, engines, kv) = volume();
    *engines.at_the_end.lock() = Some(failed(Errno::EIO));
    assert_eq!(kv.close(), Err(failed(Errno::EIO)));
    let kv = open(&disk).unwrap();
    assert_eq!(get(&kv, "a").as_deref(), Some("2"), "it was closed");
}

/// Once, nobody looked while nothing was committed.
#[test]
fn a_merge_that_has_failed_is_heard_without_a_commit() {
    let (_, engines, kv) = volume();
    kv.checkpoint().unwrap();
    *engines.own_merge.lock() = Some(failed(Errno::EIO));
    assert_eq!(kv.compact(u64::MAX).err(), Some(failed(Errno::EIO)));
    assert!(kv.latched().is_some());
    let (_, engines, kv) = volume();
    kv.checkpoint().unwrap();
    *engines.own_merge.lock() = Some(failed(Errno::EIO));
    assert_eq!(kv.close(), Err(failed(Errno::EIO)));
}

#[test]
fn a_merge_of_the_engine_that_met_a_bad_block_or_no_room_costs_the_merge_alone() {
    for error in [
        Error::corrupt("engine", 0, "a bad block"),
        failed(Errno::ENOSPC),
    ] {
        let (_, engines, kv) = volume();
        *engines.own_merge.lock() = Some(error.clone());
        kv.checkpoint().unwrap();
        assert_eq!(kv.latched(), None, "{error}");
        assert_eq!(get(&kv, "a").as_deref(), Some("2"));
    }
}

/// Once, an engine that could not be opened again for a lack of descriptors made the volume
/// read-only.
#[test]
fn a_lack_of_descriptors_memory_or_threads_passes() {
    for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EAGAIN] {
        let (_, engines, kv) = volume();
        *engines.own_merge.lock() = Some(failed(errno));
        *engines.open.lock() = Some(failed(errno));
        for _ in 0..2 {
            assert_eq!(kv.checkpoint(), Err(failed(errno)));
            assert_eq!(kv.latched(), None, "{errno}");
        }
        kv.commit(3, &[put("c", "3")]).unwrap();
        *engines.open.lock() = None;
        kv.checkpoint().unwrap();
        let all = ["a", "b", "c"].map(|key| get(&kv, key));
        assert_eq!(all.map(Option::unwrap_or_default), ["2", "1", "3"]);
    }
}

/// Once, the end of a volume waited without a bound for a scan that waited for it.
#[test]
fn a_volume_that_is_closed_in_a_scan_says_that_the_scan_keeps_it() {
    let (disk, _, kv) = volume();
    let mut closed = Ok(());
    kv.scan(Table::Meta, b"", None, &mut |_, _| {
        closed = kv.close();
        false
    })
    .unwrap();
    assert!(matches!(closed, Err(Error::Busy { .. })), "{closed:?}");
    kv.close().unwrap();
    drop(kv);
    assert_eq!(state(&open(&disk).unwrap()).unwrap()[0].len(), 2);
}
