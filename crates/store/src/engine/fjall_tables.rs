//! The engine of volumes: fjall, fed by ingestion of sorted tables.
//!
//! Ingestion goes around fjall's journal and its memtables: a table is written, synced and made
//! part of a keyspace, or an error comes back and nothing happened. So the journals stay empty,
//! and damage in them costs nothing; opening empties them all the same. They are emptied and not
//! removed: without its journal files fjall starts its sequence numbers at 0, and a new value
//! loses to an old one.
//!
//! No thread of fjall runs: see [`super::merger`].

use super::fjall_errors::failed;
use super::merger::{Merges, TableMerger};
use super::mirror::{Mirror, is_journal, list};
use super::rests::MergeRests;
use super::{Change, Compacted, Engine, Engines, FOLDER, View, blame, layout};
use crate::disk::modes::OWN_FOLDER;
use crate::error::{Error, Result};
use crate::kv::Table;
use fjall::config::PartitioningPolicy;
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, Readable, Snapshot};
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FIRST_JOURNAL: &str = "0.jnl";
/// What names of files begin with that `tempfile` makes for fjall.
const UNFINISHED: &str = ".tmp";
const KEYSPACES: [&str; 2] = ["meta", "extents"];
const TABLES: [Table; 2] = [Table::Meta, Table::Extents];
/// Descriptors that fjall keeps open.
const OPEN_FILES: usize = 256;
/// Tables of the first level above which a checkpoint waits for compaction.
const FIRST_LEVEL_MOST: usize = 16;
/// How long it waits. A level that stays full makes reads slower, and nothing worse.
const COMPACTION_WAIT: Duration = Duration::from_secs(10);
/// Bytes of tables that are written anew at once, to give back what is gone: at least, for less is
/// not worth it, and at most, for it is one step that nothing interrupts.
const COMPACTED: RangeInclusive<u64> = 4 << 20..=128 << 20;
/// One in so many entries says that a key is gone, where they are written anew.
const GONE: u64 = 4;
/// Bytes that stay free beside the new tables.
const SPARE: u64 = 16 << 20;
/// A key that nothing has.
const NO_KEY: &[u8] = &[0, 0];

/// The engines of the volume in a directory.
pub(crate) struct FjallEngines {
    folder: PathBuf,
    /// Bytes of cached blocks.
    cache: u64,
    rests: Arc<MergeRests>,
}

impl FjallEngines {
    /// The engines of the volume there, which keep `cache` bytes of blocks in memory.
    pub(crate) fn new(volume: &Path, cache: u64) -> FjallEngines {
        FjallEngines {
            folder: volume.join(FOLDER),
            cache,
            rests: Arc::default(),
        }
    }
}

impl Engines for FjallEngines {
    fn create(&self) -> Result<()> {
        // The modes of what fjall makes follow the umask: the folder keeps others out of them.
        let made = fs::DirBuilder::new().mode(OWN_FOLDER).create(&self.folder);
        made.map_err(|error| Error::io("make the folder", &self.folder, error))?;
        Tables::open(&self.folder, self.cache, None, None).map(drop)?;
        // fjall 3.1.13 syncs neither the folders of keyspaces nor those above them.
        sync_folders(&self.folder)
    }

    fn open(&self) -> Result<Box<dyn Engine>> {
        layout::check(&self.folder, KEYSPACES.len())?;
        empty_journals(&self.folder)?;
        remove_unfinished(&self.folder)?;
        make_lock_file(&self.folder)?;
        Ok(Box::new(self.tables(&self.folder, None, true)?))
    }

    /// fjall cannot open read-only. It gets a folder of its own outside the volume: copies of the
    /// small files, empty journals, and symbolic links to the tables, which it only reads; nothing
    /// merges them. This costs a link for each table of up to 64 MiB.
    fn open_read_only(&self) -> Result<Box<dyn Engine>> {
        layout::check(&self.folder, KEYSPACES.len())?;
        let mirror = Mirror::of(&self.folder)?;
        empty_journals(mirror.path())?;
        make_lock_file(mirror.path())?;
        let folder = mirror.path().to_path_buf();
        Ok(Box::new(self.tables(&folder, Some(mirror), false)?))
    }
}

impl FjallEngines {
    /// Opens fjall in `folder`, or says which table keeps it from opening.
    fn tables(&self, folder: &Path, mirror: Option<Mirror>, merges: bool) -> Result<Tables> {
        let rests = merges.then_some(&self.rests);
        let opened = Tables::open(folder, self.cache, mirror, rests);
        opened.map_err(|error| blame::named(&self.folder, KEYSPACES.len(), error))
    }
}

/// An open fjall. Fields are dropped in this order: no merge may be under way when the database
/// goes, the lock of the folder is free only when the keyspaces are gone, and the mirror goes last.
struct Tables {
    /// `None` where tables are only read.
    merger: Option<TableMerger>,
    keyspaces: [Keyspace; 2],
    database: Database,
    /// Where they are. Immutable.
    folder: PathBuf,
    /// A table that could not be finished lies about until the engine is opened again. Relaxed:
    /// checkpoints, one at a time, write and read it.
    has_failed: AtomicBool,
    _mirror: Option<Mirror>,
}

impl Tables {
    /// Merges tables where it has `rests`.
    fn open(
        folder: &Path,
        cache: u64,
        mirror: Option<Mirror>,
        rests: Option<&Arc<MergeRests>>,
    ) -> Result<Tables> {
        let database = Database::builder(folder)
            .cache_size(cache)
            .max_cached_files(Some(OPEN_FILES))
            .manual_journal_persist(true)
            .worker_threads_unchecked(0)
            .open()
            .map_err(failed("open the engine"))?;
        let keyspace = |name| {
            database
                .keyspace(name, keyspace_options)
                .map_err(failed("open a keyspace of the engine"))
        };
        let keyspaces = [keyspace(KEYSPACES[0])?, keyspace(KEYSPACES[1])?];
        let merges = || TableMerges {
            database: database.clone(),
            keyspaces: keyspaces.clone(),
            folder: folder.to_path_buf(),
        };
        let merger = rests.map(|rests| TableMerger::start(merges(), rests));
        let merger = merger.transpose()?;
        Ok(Tables {
            merger,
            keyspaces,
            database,
            folder: folder.to_path_buf(),
            has_failed: AtomicBool::new(false),
            _mirror: mirror,
        })
    }

    fn keyspace(&self, table: Table) -> &Keyspace {
        &self.keyspaces[table as usize]
    }

    /// Waits while compaction is far behind, but not while it rests.
    fn wait_for_compaction(&self, table: Table) {
        let waited = Instant::now();
        let rests = |merger: &TableMerger| merger.rests(table as usize);
        while self.keyspace(table).l0_table_count() > FIRST_LEVEL_MOST
            && waited.elapsed() < COMPACTION_WAIT
            && !self.is_broken()
            && !self.merger.as_ref().is_some_and(rests)
        {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Engine for Tables {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self
            .keyspace(table)
            .get(key)
            .map_err(failed("read the engine"))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(TablesNow {
            tables: self,
            snapshot: self.database.snapshot(),
        }))
    }

    fn write_table<'a>(
        &self,
        table: Table,
        changes: &mut dyn Iterator<Item = Change<'a>>,
    ) -> Result<()> {
        let failed = |error| {
            self.has_failed.store(true, Ordering::Relaxed);
            failed("write a table of the engine")(error)
        };
        let keyspace = self.keyspace(table);
        let mut ingestion = keyspace.start_ingestion().map_err(&failed)?;
        for (key, value) in changes {
            match value {
                Some(value) => ingestion.write(key, value),
                None => ingestion.write_tombstone(key),
            }
            .map_err(&failed)?;
        }
        ingestion.finish().map_err(&failed)?;
        if let Some(merger) = &self.merger {
            merger.ask(table as usize);
        }
        self.wait_for_compaction(table);
        Ok(())
    }

    /// fjall merges tables when there are many of them, and leaves a few as they are for ever: what
    /// a table says is gone keeps its room in the tables below.
    fn compact(&self, free: u64) -> Result<Option<Compacted>> {
        let is_worth_it = |table: &&Table| {
            let keyspace = self.keyspace(**table);
            let (gone, bytes) = (keyspace.tree.tombstone_count(), keyspace.disk_space());
            let is_much = gone * GONE >= keyspace.approximate_len() as u64;
            // Twice: what the first merge below makes goes when the second one has ended.
            is_much && COMPACTED.contains(&bytes) && 2 * bytes + SPARE < free
        };
        let Some(&table) = TABLES.iter().find(is_worth_it) else {
            return Ok(None);
        };
        let keyspace = self.keyspace(table);
        let before = keyspace.disk_space();
        // A merge drops only what is older than the last ingestion, and the files of tables that it
        // has merged are removed by a later merge. So a tombstone is ingested before each, and the
        // second merge, of what is left, removes the files of the first.
        for _ in 0..2 {
            self.write_table(table, &mut std::iter::once((NO_KEY, None)))?;
            keyspace.major_compact().map_err(|error| {
                self.has_failed.store(true, Ordering::Relaxed);
                let error = failed("merge tables of the engine")(error);
                blame::of_merge(&self.folder, 1 + table as usize, error, &|| false)
            })?;
        }
        let after = keyspace.disk_space();
        Ok(Some(Compacted { before, after }))
    }

    fn damaged_tables(&self) -> Result<Vec<String>> {
        blame::damaged_of(&self.folder, KEYSPACES.len())
    }

    fn is_broken(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.merge_error().is_some()
    }

    fn merge_error(&self) -> Option<Error> {
        self.merger.as_ref()?.error()
    }

    fn end_merges(&self) {
        if let Some(merger) = &self.merger {
            merger.end();
        }
    }
}

/// Merges tables as fjall's own threads do: with its strategy, and dropping what no snapshot sees.
struct TableMerges {
    database: Database,
    keyspaces: [Keyspace; 2],
    folder: PathBuf,
}

impl Merges for TableMerges {
    fn merge(&self, number: usize) -> Result<()> {
        let keyspace = &self.keyspaces[number];
        let strategy = keyspace.config.compaction_strategy.clone();
        let seen = &self.database.supervisor.snapshot_tracker;
        let merged = keyspace.tree.compact(strategy, seen.get_seqno_safe_to_gc());
        merged.map_err(|error| failed("merge tables of the engine")(error.into()))
    }

    fn blame(&self, number: usize, error: Error, is_ending: &dyn Fn() -> bool) -> Error {
        blame::of_merge(&self.folder, 1 + number, error, is_ending)
    }
}

struct TablesNow<'a> {
    tables: &'a Tables,
    snapshot: Snapshot,
}

impl View for TablesNow<'_> {
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let keyspace = self.tables.keyspace(table);
        let found = match to {
            Some(to) if to <= from => return Ok(()),
            Some(to) => self.snapshot.range(keyspace, from..to),
            None => self.snapshot.range(keyspace, from..),
        };
        for entry in found {
            let (key, value) = entry.into_inner().map_err(failed("read the engine"))?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

/// Index and filter of a large table lie in blocks of their own size, of which a lookup reads one
/// each. In one block, as fjall has them by default in the upper levels, those of a table of 64 MiB
/// take a megabyte each, which no small cache keeps: a lookup among ten million files took 35 ms.
fn keyspace_options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .index_block_partitioning_policy(PartitioningPolicy::new([false, false, true]))
        .filter_block_partitioning_policy(PartitioningPolicy::new([false, true]))
}

fn empty_journals(folder: &Path) -> Result<()> {
    let mut journals = list(folder)?;
    journals.retain(|name| is_journal(name));
    if journals.is_empty() {
        journals.push(FIRST_JOURNAL.to_owned());
    }
    for name in journals {
        let path = folder.join(name);
        fs::File::create(&path).map_err(|error| Error::io("empty", &path, error))?;
    }
    Ok(())
}

/// Removes what a kill left of files that were to become the `current` of a keyspace. fjall removes
/// the tables and lists that such a kill leaves, and these it does not know.
fn remove_unfinished(folder: &Path) -> Result<()> {
    for keyspace in 0..=KEYSPACES.len() {
        let folder = folder.join(format!("keyspaces/{keyspace}"));
        for name in list(&folder)? {
            if name.starts_with(UNFINISHED) {
                let path = folder.join(name);
                fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
            }
        }
    }
    Ok(())
}

/// Makes the file that fjall locks, where a copy lacks it: it holds nothing.
fn make_lock_file(folder: &Path) -> Result<()> {
    let path = folder.join("lock");
    let mut lock = fs::OpenOptions::new();
    let made = lock.write(true).create(true).truncate(false).open(&path);
    made.map(drop)
        .map_err(|error| Error::io("make", &path, error))
}

/// Makes the names in a folder and in all below it durable.
fn sync_folders(folder: &Path) -> Result<()> {
    let failed = |error| Error::io("sync", folder, error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            sync_folders(&path)?;
        }
    }
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, each kill while a list of tables became the current one left a file for ever.
    #[test]
    fn what_a_kill_left_of_the_current_list_goes_with_the_next_opening() {
        let root = tempfile::tempdir().unwrap();
        let engines = FjallEngines::new(root.path(), 1 << 20);
        engines.create().unwrap();
        let left = [0, 1, 2].map(|keyspace| {
            let folder = root.path().join(FOLDER);
            folder.join(format!("keyspaces/{keyspace}/.tmpA1b2C3"))
        });
        for file in &left {
            fs::write(file, b"a part").unwrap();
        }
        drop(engines.open_read_only().unwrap());
        assert!(
            left.iter().all(|file| file.exists()),
            "a look changes nothing"
        );
        drop(engines.open().unwrap());
        assert!(!left.iter().any(|file| file.exists()));
    }
}
