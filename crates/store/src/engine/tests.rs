//! Merges in the background, of an engine on real files.

use super::fjall_tables::FjallEngines;
use super::{Engine, Engines};
use crate::error::Error;
use crate::kv::Table;
use hearth_sync::primitive::thread;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Tables from which on the engine merges them: the first becomes the last level as it is.
const MERGED: u64 = 5;

fn engines(root: &Path) -> FjallEngines {
    let engines = FjallEngines::new(root, 8 << 20);
    engines.create().unwrap();
    engines
}

/// Writes a table of `count` keys from `first` on.
fn write(engine: &dyn Engine, first: u64, step: usize, count: u64) {
    let keys = (first..).step_by(step).map(u64::to_be_bytes);
    let keys: Vec<_> = keys.take(count as usize).collect();
    let mut changes = keys.iter().map(|key| (&key[..], Some(&key[..1])));
    engine.write_table(Table::Extents, &mut changes).unwrap();
}

fn count(engine: &dyn Engine) -> u64 {
    let mut count = 0;
    let view = engine.view().unwrap();
    let counted = view.scan(Table::Extents, b"", None, &mut |_, _| {
        count += 1;
        true
    });
    counted.unwrap();
    count
}

/// No merge is under way when the database is dropped, which tells merges to stop.
#[test]
fn an_engine_that_is_closed_in_the_middle_of_a_merge_keeps_every_key() {
    const KEYS: u64 = 300_000;
    for pause in [2, 50, 150, 300] {
        let root = tempfile::tempdir().unwrap();
        let engines = engines(root.path());
        let engine = engines.open().unwrap();
        for table in 0..MERGED {
            // Each table has keys all over, so that none is moved as it is.
            write(&*engine, table, MERGED as usize, KEYS);
        }
        thread::sleep(Duration::from_millis(pause));
        drop(engine);
        let engine = engines.open().unwrap();
        assert_eq!(count(&*engine), MERGED * KEYS, "closed after {pause} ms");
    }
}

/// Once, the error of a merge in the background was lost, and the disk was believed.
#[test]
fn an_engine_tells_why_a_merge_of_its_own_has_failed() {
    let root = tempfile::tempdir().unwrap();
    let engine = engines(root.path()).open().unwrap();
    let folder = root.path().join("engine/keyspaces/2/tables");
    let mut written = 0;
    while !engine.is_broken() {
        assert!(written < 4 * MERGED, "it never merges");
        let mut newest = 0;
        for file in fs::read_dir(&folder).unwrap().flatten() {
            // What keeps a merge from writing, from the round before.
            if file.file_type().unwrap().is_dir() {
                fs::remove_dir(file.path()).unwrap();
                continue;
            }
            newest = newest.max(file.file_name().to_str().unwrap().parse::<u64>().unwrap());
        }
        // The next table has the next number, and a merge the one behind it.
        fs::create_dir(folder.join((newest + 2).to_string())).unwrap();
        write(&*engine, written, 4 * MERGED as usize, 1000);
        written += 1;
        thread::sleep(Duration::from_millis(100));
    }
    let error = engine.merge_error();
    let is_of_a_write = |error: &Error| matches!(error, Error::Io { .. }) && !error.is_shortage();
    assert!(error.as_ref().is_some_and(is_of_a_write), "{error:?}");
    assert_eq!(count(&*engine), written * 1000, "the old tables are whole");
}

/// Once, an engine with a damaged table was opened, merged and looked at anew behind each write.
#[test]
fn an_engine_that_is_opened_again_does_not_merge_at_once_what_has_failed() {
    let root = tempfile::tempdir().unwrap();
    let engines = engines(root.path());
    let begun = Instant::now();
    let (mut failed, mut first) = (0, 0);
    let mut engine = engines.open().unwrap();
    while first < 60 {
        write(&*engine, first, 60, 1000);
        if first == 0 {
            // The oldest table, of which each merge reads all.
            let mut tables = fs::read_dir(root.path().join("engine/keyspaces/2/tables")).unwrap();
            let table = tables.next().unwrap().unwrap().path();
            let mut bytes = fs::read(&table).unwrap();
            bytes[100] ^= 1;
            fs::write(&table, bytes).unwrap();
        }
        first += 1;
        thread::sleep(Duration::from_millis(20));
        if engine.is_broken() {
            engine.end_merges();
            let error = engine.merge_error();
            assert!(matches!(error, Some(Error::Corrupt { .. })), "{error:?}");
            failed += 1;
            drop(engine);
            engine = engines.open().unwrap();
        }
    }
    // Behind pauses of 1, 2, 4 and more seconds.
    let most = (begun.elapsed().as_secs() + 2).ilog2() + 1;
    assert!(
        (1..=most).contains(&failed),
        "{failed} merges, {most} at most"
    );
}
