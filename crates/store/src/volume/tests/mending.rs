//! A broken engine is opened again while others read.

use super::harness::*;
use super::merging::volume;
use crate::{Error, Read, Table};
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
