//! Single facts about volumes.

use super::harness::*;
use crate::disk::simulated::{Fault, SimulatedDisk};
use crate::disk::{Access, Disk};
use crate::engine::memory::MemoryEngines;
use crate::engine::{Engine, Engines};
use crate::volume::log::{Appended, LogWriter, open_files};
use crate::volume::overlay::Point;
use crate::volume::{FrameCipher, Kv, MkfsOptions, OpenMode, OpenOptions, Parts, frame};
use crate::{Error, KvOp, MemoryParts, Read, Result, Table};
use hearth_sync::primitive::atomic::{AtomicU32, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, thread};
use std::time::{Duration, Instant};

#[test]
fn a_commit_of_4_kib_is_one_write_and_one_flush() {
    let disk = made(1, 64);
    let kv = open(&disk).unwrap();
    let value = "x".repeat(4096);
    for epoch in 1..20 {
        let before = disk.counts();
        kv.commit(epoch, &[put("inode", "i"), put("bytes", &value)])
            .unwrap();
        let after = disk.counts();
        assert_eq!(after.writes - before.writes, 1);
        assert_eq!(after.syncs - before.syncs, 1);
        assert_eq!(after.steps - before.steps, 2);
    }
}

#[test]
fn a_commit_of_nothing_and_an_idle_volume_write_nothing() {
    let disk = made(1, 8);
    let kv = open(&disk).unwrap();
    kv.commit(1, &[put("a", "b")]).unwrap();
    kv.write_witness().unwrap();
    kv.checkpoint().unwrap();
    let before = disk.counts();
    kv.commit(2, &[]).unwrap();
    kv.write_witness().unwrap();
    kv.checkpoint().unwrap();
    assert_eq!(disk.counts(), before);
    assert_eq!(kv.last_epoch(), 1);
}

#[test]
fn epochs_may_leave_numbers_out_and_never_go_back() {
    let disk = made(1, 8);
    let kv = open(&disk).unwrap();
    kv.commit(5, &[put("a", "5")]).unwrap();
    kv.commit(900, &[put("a", "900")]).unwrap();
    let stale = kv.commit(900, &[put("a", "again")]);
    assert!(matches!(stale, Err(Error::Stale { last: 900, .. })));
    assert_eq!(kv.latched(), None);
    drop(kv);
    let kv = open(&disk).unwrap();
    assert_eq!(kv.last_epoch(), 900);
    assert_eq!(get(&kv, "a").as_deref(), Some("900"));
}

#[test]
fn an_epoch_of_many_frames_is_there_as_a_whole_or_not_at_all() {
    let value = "v".repeat(3000);
    let ops: Vec<KvOp> = (0..20).map(|at| put(&format!("{at}"), &value)).collect();
    for seed in 0..600 {
        let disk = made(seed, 8 + seed % 3 * 40);
        let kv = open(&disk).unwrap();
        kv.commit(1, &[put("first", "1")]).unwrap();
        disk.cut_at(disk.counts().steps + seed % 6);
        let done = kv.commit(2, &ops);
        let kv = open(&disk.crashed(seed)).unwrap();
        let count = state(&kv).unwrap()[0].len();
        assert!(
            count == 21 || (count == 1 && done.is_err()),
            "{seed}: {count}"
        );
    }
}

#[test]
fn what_is_too_large_is_refused_and_nothing_latches() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    let large = "x".repeat(1 << 16);
    let refused = kv.commit(1, &[put(&large, "a")]);
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    kv.commit(1, &[put("a", "b")]).unwrap();
    assert_eq!(state(&kv).unwrap()[0].len(), 1);
}

#[test]
fn a_second_opener_is_refused_and_a_reader_shares_with_readers() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    let refused = open_for(&disk, writer()).err().unwrap();
    assert!(matches!(&refused, Error::InUse { who, .. } if who.contains("/m")));
    let refused = open_for(&disk, OpenMode::Shared).err().unwrap();
    assert!(matches!(&refused, Error::InUse { who, .. } if who.contains("/m")));
    // A look beside a writer goes without the lock.
    drop(open_for(&disk, OpenMode::ReadOnly).unwrap());
    drop(kv);
    let readers = [
        open_for(&disk, OpenMode::Shared).unwrap(),
        open_for(&disk, OpenMode::ReadOnly).unwrap(),
        open_for(&disk, OpenMode::Shared).unwrap(),
    ];
    assert!(matches!(open(&disk).err(), Some(Error::InUse { .. })));
    drop(readers);
    open(&disk).unwrap();
}

#[test]
fn a_read_only_opening_makes_no_step() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    kv.commit(1, &[put("a", "1")]).unwrap();
    drop(kv);
    let (before, contents) = (disk.counts(), disk.contents());
    let kv = open_for(&disk, OpenMode::ReadOnly).unwrap();
    assert_eq!(get(&kv, "a").as_deref(), Some("1"));
    assert!(matches!(kv.checkpoint(), Err(Error::ReadOnly { .. })));
    assert!(kv.commit(2, &[put("a", "2")]).is_err());
    assert!(kv.set_wrapped_keys(b"k").is_err());
    kv.close().unwrap();
    assert_eq!(disk.counts().steps, before.steps);
    assert!(disk.contents() == contents);
}

#[test]
fn each_opening_for_writing_is_counted_and_has_an_incarnation_of_its_own() {
    let disk = made(1, 4);
    let mut seen = Vec::new();
    for count in 1..6 {
        let kv = open(&disk).unwrap();
        assert_eq!(kv.opened(), count);
        assert!(!seen.contains(&kv.info().incarnation));
        seen.push(kv.info().incarnation);
        kv.commit(u64::from(count), &[put("a", "1")]).unwrap();
    }
}

/// Rewrites the newest slot of the superblock with other fields.
fn with_slot(disk: &SimulatedDisk, at: usize, byte: u8) {
    disk.edit("superblock", |bytes| {
        for slot in bytes.chunks_mut(4096) {
            slot[at] = byte;
            crate::volume::fields::seal(slot);
        }
    });
}

#[test]
fn later_versions_and_unknown_features_are_refused_by_name() {
    let opened = |at, byte, mode| {
        let disk = made(1, 4);
        open(&disk).unwrap();
        with_slot(&disk, at, byte);
        let before = disk.contents();
        let opened = open_for(&disk, mode).err().map(|error| error.to_string());
        assert!(opened.is_none() || disk.contents() == before);
        opened
    };
    let newer = opened(8, 2, OpenMode::ReadOnly).unwrap();
    assert!(newer.contains("version 2"), "{newer}");
    assert_eq!(opened(16, 1, writer()), None);
    let feature = opened(24, 4, writer()).unwrap();
    assert!(
        feature.contains("read-only compatible feature 2"),
        "{feature}"
    );
    assert_eq!(opened(24, 4, OpenMode::ReadOnly), None);
    for mode in [writer(), OpenMode::ReadOnly] {
        let feature = opened(33, 1, mode).unwrap();
        assert!(feature.contains("incompatible feature 8"), "{feature}");
    }
}

#[test]
fn a_poisoned_engine_is_opened_anew_and_work_goes_on() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    kv.commit(1, &[put("a", "1")]).unwrap();
    // Both attempts of the checkpoint: with the ballast and without.
    let now = disk.counts().steps;
    for step in [now, now + 2] {
        disk.fail_at(step, Fault::NoSpace);
    }
    assert!(matches!(kv.checkpoint(), Err(Error::NoSpace { .. })));
    assert_eq!(get(&kv, "a").as_deref(), Some("1"));
    kv.commit(2, &[put("b", "2")]).unwrap();
    kv.checkpoint().unwrap();
    assert_eq!(state(&kv).unwrap()[0].len(), 2);
    assert_eq!(kv.info().checkpoint, 2);
}

/// Engines that find no room to open for so many times.
struct FullEngines {
    engines: MemoryEngines,
    refusals: AtomicU32,
}

impl Engines for FullEngines {
    fn create(&self) -> Result<()> {
        self.engines.create()
    }

    fn open(&self) -> Result<Box<dyn Engine>> {
        let less = |left: u32| left.checked_sub(1);
        match self.refusals.fetch_update(Relaxed, Relaxed, less) {
            Ok(_) => Err(Error::NoSpace { what: "open" }),
            Err(_) => self.engines.open(),
        }
    }

    fn open_read_only(&self) -> Result<Box<dyn Engine>> {
        self.engines.open_read_only()
    }
}

#[test]
fn an_engine_without_room_to_open_again_is_opened_when_there_is_some() {
    let disk = made(1, 4);
    let engines = Arc::new(FullEngines {
        engines: MemoryEngines(disk.clone()),
        refusals: AtomicU32::new(0),
    });
    let parts = Parts {
        disk: Arc::new(disk.clone()),
        engines: Arc::clone(&engines) as _,
    };
    // The volume has its thread, which tries again.
    let kv = Kv::open_parts(parts, OpenOptions::new(writer())).unwrap();
    kv.commit(1, &[put("a", "1")]).unwrap();
    kv.checkpoint().unwrap();
    kv.commit(2, &[put("b", "2")]).unwrap();
    // The thread has nothing to write meanwhile.
    kv.write_witness().unwrap();
    engines.refusals.store(1, Relaxed);
    disk.fail_at(disk.counts().steps, Fault::NoSpace);
    assert!(matches!(kv.checkpoint(), Err(Error::NoSpace { .. })));
    assert!(matches!(
        kv.get(Table::Meta, b"a"),
        Err(Error::NoSpace { .. })
    ));
    assert_eq!(kv.latched(), None);
    kv.commit(3, &[put("c", "3")]).unwrap();
    let waited = Instant::now();
    while kv.get(Table::Meta, b"a").is_err() {
        assert!(waited.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(state(&kv).unwrap()[0].len(), 3);
    kv.checkpoint().unwrap();
    assert_eq!(kv.info().checkpoint, 3);
}

#[test]
fn a_visitor_of_a_scan_may_read_while_the_engine_is_opened_anew() {
    let disk = made(1, 4);
    let kv = open(&disk).unwrap();
    kv.commit(1, &[put("a", "1")]).unwrap();
    kv.checkpoint().unwrap();
    kv.commit(2, &[put("a", "2")]).unwrap();
    let now = disk.counts().steps;
    for step in [now, now + 2] {
        disk.fail_at(step, Fault::NoSpace);
    }
    assert!(matches!(kv.checkpoint(), Err(Error::NoSpace { .. })));
    thread::scope(|scope| {
        let mut mending = None;
        let scanned = kv.scan(Table::Meta, &[], None, &mut |_, _| {
            mending = Some(scope.spawn(|| kv.checkpoint()));
            for _ in 0..20 {
                thread::sleep(Duration::from_millis(1));
                assert_eq!(get(&kv, "b"), None);
                assert_eq!(get(&kv, "a").as_deref(), Some("2"));
            }
            true
        });
        scanned.unwrap();
        mending.unwrap().join().unwrap().unwrap();
    });
    assert_eq!(kv.info().checkpoint, 2);
}

struct Xor;

impl FrameCipher for Xor {
    fn seal(&self, context: &[u8], data: &mut Vec<u8>) -> Result<[u8; 24]> {
        data.iter_mut().for_each(|byte| *byte ^= 0x77);
        data.extend_from_slice(&context[..16]);
        Ok([5; 24])
    }

    fn open(&self, context: &[u8], nonce: &[u8; 24], data: &mut Vec<u8>) -> Result<()> {
        let tag = data.split_off(data.len() - 16);
        if tag != context[..16] || *nonce != [5; 24] {
            return Err(Error::WrongKey { why: "another key" });
        }
        data.iter_mut().for_each(|byte| *byte ^= 0x77);
        Ok(())
    }
}

/// A volume whose frames are sealed, and its opening.
fn sealed() -> (SimulatedDisk, impl Fn(OpenMode) -> Result<Kv>) {
    let disk = SimulatedDisk::new(1);
    let options = MkfsOptions {
        cipher: 1,
        log_len: 4 * 4096,
        ..MkfsOptions::default()
    };
    Kv::mkfs_parts(&parts(&disk), &options).unwrap();
    let parts = parts(&disk);
    let open = move |mode| {
        let options = OpenOptions {
            cipher: Some(Arc::new(Xor)),
            background: false,
            ..OpenOptions::new(mode)
        };
        Kv::open_parts(parts.clone(), options)
    };
    (disk, open)
}

/// Once, who could write into the directory could add an epoch without the key.
#[test]
fn a_plain_frame_in_an_encrypted_volume_is_damage() {
    let (disk, open) = sealed();
    let kv = open(writer()).unwrap();
    kv.commit(1, &[put("key", "1")]).unwrap();
    drop(kv);
    disk.edit("log/0", |bytes| {
        let before = frame::Header::decode(bytes).unwrap();
        let header = frame::Header {
            epoch: 2,
            before: before.digest,
            flags: 0,
            ..before
        };
        let mut plain = Vec::new();
        let records = |log: &mut Vec<u8>| frame::encode_records(log, &[put("key", "2")]);
        frame::append(&mut plain, &header, records, None).unwrap();
        bytes[4096..][..plain.len()].copy_from_slice(&plain);
    });
    let error = open(writer()).err().unwrap();
    assert!(
        matches!(&error, Error::Corrupt { file, offset: 4096, .. } if file.ends_with("log/0")),
        "{error}"
    );
    let kv = open(OpenMode::ReadOnly).unwrap();
    assert_eq!(kv.damage(), Some(&error));
    assert_eq!(get(&kv, "key").as_deref(), Some("1"));
    drop(kv);
    let who = "fsck".to_owned();
    drop(open(OpenMode::Repair { who }).unwrap());
    assert_eq!(get(&open(writer()).unwrap(), "key").as_deref(), Some("1"));
}

#[test]
fn frames_of_an_encrypted_volume_hold_no_plain_byte_and_need_the_key() {
    let (disk, opened) = sealed();
    let open_sealed = || opened(writer()).unwrap();
    let secret = "a secret of many letters";
    let kv = open_sealed();
    kv.commit(1, &[put("key", secret)]).unwrap();
    drop(kv);
    let log = &disk.contents()["log/0"];
    assert!(!log.windows(8).any(|bytes| bytes == &secret.as_bytes()[..8]));
    assert!(matches!(open(&disk).err(), Some(Error::WrongKey { .. })));
    assert_eq!(get(&open_sealed(), "key").as_deref(), Some(secret));
}

#[test]
fn the_thread_writes_the_witness_and_makes_checkpoints() {
    let disk = made(1, 4);
    let options = OpenOptions::new(writer());
    let kv = Kv::open_parts(parts(&disk), options).unwrap();
    let value = "v".repeat(4000);
    for epoch in 1..200 {
        let key = format!("{}", epoch % 50);
        kv.commit(epoch, &[put(&key, &value)]).unwrap();
    }
    assert!(kv.info().checkpoint > 100);
    kv.close().unwrap();
    assert_eq!(kv.info().checkpoint, 199);
    assert!(matches!(
        kv.commit(200, &[put("a", "")]),
        Err(Error::Closed)
    ));
    assert!(kv.get(Table::Meta, b"1").is_err());
    assert_eq!(state(&open(&disk).unwrap()).unwrap()[0].len(), 50);
}

/// Once, each change to another file asked for one, and half of all flushes were checkpoints'.
#[test]
fn a_checkpoint_is_due_when_half_of_the_log_is_used() {
    let disk = made(1, 4);
    let file_len = disk.contents()["log/0"].len() as u64;
    let files = open_files(&disk, Access::Write, file_len).unwrap();
    let mut writer = LogWriter::new(files, file_len, [0; 16], None, Point::default(), [0; 4]);
    let value = "v".repeat(file_len as usize / 2 - 1000);
    let mut due = Vec::new();
    for epoch in 1..=8 {
        let appended = writer.append(&disk, epoch, &[put("k", &value)]).unwrap();
        if appended == Appended::Done(true) {
            due.push(epoch);
            writer.kept = epoch;
        }
    }
    // Two epochs in each file.
    assert_eq!(due, [4, 8]);
}

#[test]
fn what_waits_for_a_checkpoint_has_a_bound_in_memory_and_after_a_kill() {
    let disk = made(1, 256);
    let memory = MemoryParts {
        overlay: 64 << 10,
        ..MemoryParts::default()
    };
    let options = OpenOptions {
        background: false,
        memory,
        ..OpenOptions::new(writer())
    };
    let kv = Kv::open_parts(parts(&disk), options).unwrap();
    let value = "v".repeat(1000);
    for epoch in 1..1000 {
        let keys = (0..4).map(|key| format!("{}", epoch * 4 + key));
        let ops: Vec<_> = keys.map(|key| put(&key, &value)).collect();
        kv.commit(epoch, &ops).unwrap();
        let bytes = kv.layer_bytes();
        assert!(bytes <= (128 << 10) + 8192, "{bytes} at epoch {epoch}");
    }
    assert!(kv.info().checkpoint > 900);
    drop(kv);
    let kv = open_for(&disk, OpenMode::ReadOnly).unwrap();
    assert!(kv.layer_bytes() <= (128 << 10) + 8192);
    assert_eq!(kv.last_epoch(), 999);
}

#[test]
fn a_lost_lock_file_keeps_nobody_out() {
    let disk = made(1, 4);
    disk.remove("lock").unwrap();
    open_for(&disk, OpenMode::ReadOnly).unwrap();
    open(&disk).unwrap();
}
