//! Stores in directories.

use super::audit::audit;
use super::model::Model;
use super::*;
use crate::KvOp;
use crate::codec::{Compression, Passphrase};
use crate::error::Error;
use crate::volume::OpenMode;
use hearth_sync::primitive::thread;
use std::path::Path;
use std::time::Duration;

fn open(dir: &Path) -> StoreBackend {
    let mode = OpenMode::Write {
        who: "a test".into(),
    };
    StoreBackend::open(dir, StoreOptions::new(mode)).unwrap()
}

fn make(compression: Compression) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let options = MakeOptions {
        compression,
        log_len: 256 << 10,
        ..MakeOptions::default()
    };
    StoreBackend::mkfs(dir.path(), &options).unwrap();
    dir
}

#[test]
fn a_store_on_disk_gives_back_what_was_recorded_after_kills_and_ends() {
    for seed in 1..=4u64 {
        let compression = match seed % 3 {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => Compression::Zstd(3),
        };
        let dir = make(compression);
        let seed = seed.wrapping_mul(0x0123_4567_89ab_cdef);
        let mut model = Model::new(seed, open(dir.path()), None);
        for round in 0..30 {
            model.round();
            if round % 5 == 4 {
                if round % 2 == 0 {
                    model.store.close().unwrap();
                }
                // A store that is dropped without its end is one that was killed.
                let limits = model.store.limits;
                model.store = StoreBackend::memory().unwrap();
                model.store = open(dir.path());
                model.store.limits = limits;
                model.check();
            }
        }
        tidy_all(&model.store);
        model.check();
        assert!(!model.store.tidy());
    }
}

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.into()).unwrap()
}

fn make_encrypted(dir: &Path, text: &str) {
    let options = MakeOptions {
        passphrase: Some(passphrase(text)),
        log_len: 256 << 10,
        ..MakeOptions::default()
    };
    StoreBackend::mkfs(dir, &options).unwrap();
}

fn opens_with(dir: &Path, text: &str) -> bool {
    let options = StoreOptions {
        passphrase: Some(passphrase(text)),
        ..StoreOptions::new(OpenMode::ReadOnly)
    };
    StoreBackend::open(dir, options).is_ok()
}

/// Once, both were told that they had succeeded, and the passphrase of one opened nothing.
#[test]
fn of_two_changes_of_a_passphrase_at_once_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    make_encrypted(dir.path(), "old");
    let dir = dir.path();
    let (old, new) = (passphrase("old"), ["one", "other"]);
    let done = thread::scope(|scope| {
        let tried = new.map(|text| {
            let old = &old;
            scope.spawn(move || StoreBackend::change_passphrase(dir, old, &passphrase(text)))
        });
        tried.map(|change| change.join().unwrap())
    });
    for (text, done) in new.iter().zip(&done) {
        assert_eq!(opens_with(dir, text), done.is_ok(), "{text}: {done:?}");
    }
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
    assert!(!opens_with(dir, "old"));
}

/// Once it was opened, and what was written to be hidden was not.
#[test]
fn a_passphrase_for_a_store_that_is_not_encrypted_is_refused() {
    let dir = make(Compression::Lz4);
    let given = || StoreOptions {
        passphrase: Some(passphrase("secret")),
        ..StoreOptions::new(OpenMode::Shared)
    };
    let opened = StoreBackend::open(dir.path(), given()).err();
    assert!(matches!(opened, Some(Error::NotEncrypted)), "{opened:?}");
    let changed = StoreBackend::change_passphrase(dir.path(), &passphrase("a"), &passphrase("b"));
    assert!(matches!(changed, Err(Error::NotEncrypted)), "{changed:?}");
    open(dir.path());
}

#[test]
fn generations_of_an_opening_are_new() {
    let dir = make(Compression::None);
    let mut last = 0;
    for epoch in 1..4 {
        let store = open(dir.path());
        if epoch == 1 {
            assert!(store.restart().unwrap().is_none());
            store.commit(1, vec![root()]).unwrap();
        }
        let opened = store.restart().unwrap().unwrap().opened;
        assert!(opened > last);
        last = opened;
    }
}

#[test]
fn a_read_only_store_reads_and_changes_nothing() {
    let dir = make(Compression::Lz4);
    let store = open(dir.path());
    let pages: Vec<_> = (0..40).map(|index| (index, page(index))).collect();
    let extents = store.write_pages(2, 1, &pages).unwrap();
    let written = contents(2, 1, 1, 40 * 4096, Edit::Write(extents));
    store
        .commit(1, vec![root(), new(2, attrs(1, Kind::File)), written])
        .unwrap();
    store.write_pages(3, 1, &pages).unwrap();
    drop(store);
    let options = StoreOptions::new(OpenMode::ReadOnly);
    let store = StoreBackend::open(dir.path(), options).unwrap();
    let before = store.blocks.list().unwrap();
    assert_eq!(before.len(), 2);
    assert_eq!(read(&store, 2, 0..u64::MAX).len(), 40);
    assert_eq!(store.write_pages(2, 1, &pages), Err(Errno::EROFS));
    assert_eq!(
        store.commit(2, vec![contents(2, 1, 2, 1, Edit::Size)]),
        Err(Errno::EROFS)
    );
    assert!(!store.tidy());
    assert_eq!(store.blocks.list().unwrap(), before);
    store.close().unwrap();
    let store = open(dir.path());
    tidy_all(&store);
    assert_eq!(
        store.blocks.list().unwrap().len(),
        1,
        "nobody names the other one"
    );
    audit(store.kv());
}

#[test]
fn the_collector_frees_room_on_disk() {
    let dir = make(Compression::None);
    let store = open(dir.path());
    let mut records = vec![root()];
    for ino in 2..20 {
        let pages: Vec<_> = (0..64).map(|index| (index, page(ino + index))).collect();
        let extents = store.write_pages(ino, 1, &pages).unwrap();
        records.push(new(ino, attrs(1, Kind::File)));
        records.push(contents(ino, 1, 1, 64 * 4096, Edit::Write(extents)));
    }
    store.commit(1, records).unwrap();
    let cuts = (2..20).map(|ino| contents(ino, 1, 2, 64 * 4096, Edit::Cut(5..50)));
    store.commit(2, cuts.collect()).unwrap();
    tidy_all(&store);
    let list = store.blocks.list().unwrap();
    let bytes = list.iter().map(|segment| {
        let path = dir.path().join(crate::segment::Segments::file_of(*segment));
        std::fs::metadata(path).unwrap().len()
    });
    let bytes: u64 = bytes.sum();
    assert!(
        bytes < 18 * 22 * 4096,
        "{bytes} bytes in {} segments",
        list.len()
    );
    audit(store.kv());
    for ino in 2..20 {
        let pages = read(&store, ino, 0..u64::MAX);
        assert_eq!(pages.len(), 19);
        assert!(
            pages
                .iter()
                .all(|(index, bytes)| *bytes == *page(ino + index))
        );
    }
}

/// Bytes of all files in the folder of the engine.
fn engine_bytes(volume: &Path) -> u64 {
    let mut folders = vec![volume.join("engine")];
    let mut sum = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => sum += entry.metadata().unwrap().len(),
            }
        }
    }
    sum
}

/// Regression: contents of small files stayed in the engine's tables when the files were gone: on a
/// disk of 500 MB 59 MB did not come back.
#[test]
fn the_room_of_deleted_keys_comes_back() {
    let dir = make(Compression::None);
    let mut store = open(dir.path());
    store.limits.quiet = Duration::ZERO;
    let mut random = Random(3);
    let (kv, mut epoch) = (Arc::clone(&store.kv), store.kv.epoch());
    let mut commit = |value: &mut dyn FnMut() -> Option<Box<[u8]>>| {
        for piece in 0..16u32 {
            let ops = (0..256u32).map(|n| KvOp {
                table: Table::Extents,
                key: [&[0xfe][..], &(piece * 256 + n).to_be_bytes()]
                    .concat()
                    .into(),
                value: value(),
            });
            epoch += 1;
            kv.commit(epoch, &ops.collect::<Vec<_>>()).unwrap();
        }
    };
    commit(&mut || Some((0..4096).map(|_| random.next() as u8).collect()));
    store.kv.checkpoint().unwrap();
    assert!(engine_bytes(dir.path()) > 16 << 20);
    commit(&mut || None);
    // The first round sees the last epoch, the second one that nothing has come since.
    while store.tidy() {}
    while store.tidy() {}
    let left = engine_bytes(dir.path());
    assert!(left < 2 << 20, "{left} bytes of the engine are left");
}
