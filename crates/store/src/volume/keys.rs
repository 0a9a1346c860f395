//! An open volume of keys and values.

use super::checkpoint::check_merges;
use super::file_names::{LOCK, SEGMENTS};
use super::gate::InScan;
use super::log::Appended;
use super::shared::Shared;
use super::superblock::{Superblock, WRAPPED_MOST};
use super::{Info, MkfsOptions, OpenMode, OpenOptions, Parts, mkfs, open, overlay, upkeep};
use crate::disk::modes::OWN_FOLDER;
use crate::disk::real::RealDisk;
use crate::disk::{Access, Disk};
use crate::engine::Compacted;
use crate::engine::fjall_tables::FjallEngines;
use crate::error::{Error, Result};
use crate::kv::{KvOp, Read, Table};
use crate::memory::MemoryParts;
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::primitive::{Arc, thread};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

/// How often a commit looks again whether a scan leaves the engine to its checkpoint.
const BUSY_TRIES: u32 = 3;
const FULL_LOG: &str = "empty the log while a scan keeps the engine";
const SHORTAGE: &str = "empty the log while descriptors or memory are lacking";
/// How often the end looks whether scans leave the engine, and from which time on new reads wait
/// meanwhile.
const CLOSE_TRIES: u32 = if cfg!(test) { 1_000 } else { 10_000 };
const POLITE_CLOSE_TRIES: u32 = 500;
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// An open volume. Dropping it without [`Kv::close`] is like a kill: nothing that was committed is
/// lost.
pub struct Kv {
    shared: Arc<Shared>,
}

impl Kv {
    /// Makes a volume in `dir`, which is empty or is made. What is made is for its owner alone; a
    /// directory that was there keeps its mode.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if something is there; nothing is changed then.
    pub fn mkfs(dir: &Path, options: &MkfsOptions) -> Result<()> {
        let is_new = match std::fs::DirBuilder::new().mode(OWN_FOLDER).create(dir) {
            Ok(()) => {
                let parent = dir.parent().unwrap_or(dir);
                let parent = match parent.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => parent,
                };
                RealDisk::new(parent).sync_dir("")?;
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(Error::io("make the folder", dir, error)),
        };
        let made = Kv::mkfs_parts(&real(dir, MemoryParts::default().tables), options);
        if made.is_err() && is_new {
            // Not where something is left in it.
            let _ = std::fs::remove_dir(dir);
        }
        made
    }

    /// As [`Kv::mkfs`], on any disk and engine.
    pub fn mkfs_parts(parts: &Parts, options: &MkfsOptions) -> Result<()> {
        mkfs::mkfs(parts, options)
    }

    /// What the superblock in `dir` says, without opening the volume.
    pub fn info_of(dir: &Path) -> Result<Info> {
        let disk = RealDisk::new(dir);
        Ok(Info::of(&Superblock::read(&disk, Access::Read)?.slot))
    }

    /// The name of the process that has the volume in `dir` open for writing, if one has.
    pub fn user_of(dir: &Path) -> Result<Option<String>> {
        match RealDisk::new(dir).lock(LOCK, None) {
            Ok(_) => Ok(None),
            Err(Error::InUse { who, .. }) => Ok(Some(who)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the volume in `dir`.
    pub fn open(dir: &Path, mode: OpenMode) -> Result<Kv> {
        Kv::open_with(dir, OpenOptions::new(mode))
    }

    /// As [`Kv::open`], with more options.
    pub fn open_with(dir: &Path, options: OpenOptions) -> Result<Kv> {
        Kv::open_parts(real(dir, options.memory.tables), options)
    }

    /// As [`Kv::open_with`], on any disk and engine.
    pub fn open_parts(parts: Parts, options: OpenOptions) -> Result<Kv> {
        let shared = Arc::new(open::open(parts, &options)?);
        if options.background && !options.mode.is_read_only() {
            upkeep::start(&shared);
        }
        Ok(Kv { shared })
    }

    /// Applies `ops` as epoch `epoch`, all or none of them: durable and seen by reads when it
    /// returns. An epoch of nothing writes nothing. Called by one thread at a time.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: give the same epoch again. Any other error of the device latches.
    pub fn commit(&self, epoch: u64, ops: &[KvOp]) -> Result<()> {
        let shared = &self.shared;
        shared.check_writable()?;
        if ops.is_empty() {
            return Ok(());
        }
        shared.bound_layers()?;
        let mut is_ballast_out = false;
        let mut kept = 0;
        loop {
            let mut log = shared.log.lock();
            let writer = log.as_mut().ok_or(Error::Closed)?;
            match writer.append(&*shared.parts.disk, epoch, ops) {
                Ok(Appended::Done(is_due)) => {
                    let mut layers = shared.layers.write();
                    layers.active.apply(ops);
                    let is_large = layers.is_large(shared.layer_bytes);
                    drop((layers, log));
                    shared.background.ask_for_witness();
                    if is_due || is_large {
                        shared.background.ask_for_checkpoint();
                    }
                    return Ok(());
                }
                Ok(Appended::Full) => {
                    drop(log);
                    match shared.checkpoint() {
                        Ok(()) => {}
                        // It waits for the end of a scan: the epoch is not lost for that. The
                        // caller has locks that others wait for.
                        Err(Error::Busy { .. }) if kept < BUSY_TRIES => kept += 1,
                        Err(Error::Busy { .. }) => return Err(Error::NoSpace { what: FULL_LOG }),
                        // The caller tries again, as on a full disk.
                        Err(error) if error.is_shortage() => {
                            return Err(Error::NoSpace { what: SHORTAGE });
                        }
                        Err(error) => return Err(error),
                    }
                }
                // A large epoch has a file of its own; the log has its room.
                Err(Error::NoSpace { .. }) if !is_ballast_out => {
                    drop(log);
                    shared.release_ballast()?;
                    is_ballast_out = true;
                }
                Err(error) => {
                    shared.latch_unless_full(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Bytes of memory that what was committed since the last checkpoint takes.
    pub fn layer_bytes(&self) -> u64 {
        self.shared.layers.read().bytes()
    }

    /// Moves what was committed into tables.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.checkpoint()
    }

    /// Gives back the room of keys that were deleted before the last checkpoint, where that may be
    /// much and so many free bytes are enough for it. `None`: there was nothing to do.
    pub fn compact(&self, free: u64) -> Result<Option<Compacted>> {
        self.shared.compact(free)
    }

    /// Makes the witness name the last epoch, as the thread of the volume does within a second.
    pub fn write_witness(&self) -> Result<()> {
        self.shared.write_witness()
    }

    /// The last epoch that was committed.
    pub fn last_epoch(&self) -> u64 {
        match &*self.shared.log.lock() {
            Some(log) => log.last.epoch,
            None => self.shared.begun_at.epoch,
        }
    }

    /// How often the volume was opened for writing, this time included.
    pub fn opened(&self) -> u32 {
        self.shared.superblock.lock().slot.opened
    }

    /// What the superblock says.
    pub fn info(&self) -> Info {
        Info::of(&self.shared.superblock.lock().slot)
    }

    /// Replaces the wrapped keys, in both slots: afterwards the old ones open nothing. At any
    /// moment the old or the new ones are there.
    ///
    /// # Errors
    /// [`Error::KeysInDoubt`] where the disk fails in the middle. Others have changed nothing.
    pub fn set_wrapped_keys(&self, wrapped_keys: &[u8]) -> Result<()> {
        self.shared.check_writable()?;
        if wrapped_keys.len() > WRAPPED_MOST {
            let most = WRAPPED_MOST as u64;
            let what = "the list of wrapped keys";
            return Err(Error::TooLarge { what, most });
        }
        let mut superblock = self.shared.superblock.lock();
        for are_new in [false, true] {
            let mut slot = superblock.slot.clone();
            slot.wrapped_keys = wrapped_keys.to_vec();
            superblock.write(slot).map_err(|error| {
                self.shared.latch_unless_full(&error);
                let cause = Box::new(error);
                Error::KeysInDoubt { cause, are_new }
            })?;
        }
        Ok(())
    }

    /// Bytes of room: all of the filesystem below, and what of it is free for this volume.
    pub fn room(&self) -> Result<(u64, u64)> {
        let (all, free) = self.shared.parts.disk.room()?;
        let missing = match &self.shared.ballast {
            Some(ballast) => ballast.missing()?,
            None => 0,
        };
        Ok((all, free.saturating_sub(missing)))
    }

    /// Whether somebody reads segments beside this writer: a dump, or a check.
    pub fn is_looked_at(&self) -> bool {
        self.shared.parts.disk.is_shared(SEGMENTS)
    }

    /// What is wrong with a volume that was opened in spite of it, read-only or for repair.
    pub fn damage(&self) -> Option<&Error> {
        self.shared.damage.as_ref()
    }

    /// Why nothing is written any more, after an error of the device.
    pub fn latched(&self) -> Option<String> {
        let is_read_only = self.shared.log.lock().is_none();
        let why = self.shared.latched.lock().clone();
        why.filter(|_| !is_read_only)
    }

    /// Ends everything that is under way: checkpoint, witness, engine, lock.
    ///
    /// # Errors
    /// [`Error::Busy`] if a scan keeps the engine for ten seconds: everything is durable then, and
    /// the volume stays locked until this is called again or the volume is dropped.
    pub fn close(&self) -> Result<()> {
        let shared = &self.shared;
        shared.background.end();
        if shared.is_closed() {
            return self.let_go();
        }
        let is_writing = shared.log.lock().is_some() && shared.latched.lock().is_none();
        let done = match is_writing {
            true => shared.write_witness().and_then(|()| shared.checkpoint()),
            false => Ok(()),
        };
        shared.closed.store(true, Ordering::Relaxed);
        match done {
            // Everything is in the log: the next opening has it.
            Err(error) if error.is_passing() => self.let_go(),
            done => done.and(self.let_go()),
        }
    }

    /// Closes the engine and gives the locks back.
    fn let_go(&self) -> Result<()> {
        let (shared, mut shut) = (&self.shared, None);
        // Nothing depends on a merge that fails now: it says that the disk is broken.
        let merged = shared.engine.read().as_deref().map_or(Ok(()), |engine| {
            engine.end_merges();
            check_merges(engine)
        });
        for tried in 0..CLOSE_TRIES {
            if tried == POLITE_CLOSE_TRIES {
                shut = Some(shared.gate.shut());
            }
            // As when it is mended: a visitor of a scan may read again.
            if let Some(mut engine) = shared.engine.try_write() {
                *engine = None;
                drop(shut);
                *shared.lock.lock() = None;
                *shared.sharing.lock() = None;
                return merged;
            }
            thread::sleep(CLOSE_PAUSE);
        }
        Err(Error::Busy {
            what: "the volume from being closed",
        })
    }
}

impl Drop for Kv {
    fn drop(&mut self) {
        self.shared.background.end();
    }
}

impl Read for Kv {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.shared.layers.read().get(table, key);
        match found {
            Some(value) => Ok(value),
            None => {
                self.shared.gate.pass();
                let engine = self.shared.engine.read();
                let engine = engine.as_deref().ok_or_else(|| self.shared.no_engine())?;
                engine.get(table, key)
            }
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        self.shared.gate.pass();
        // One moment of all: under the lock of the layers none of them moves into the engine.
        let layers = self.shared.layers.read();
        let engine = self.shared.engine.read();
        let changes = layers.changes(table);
        let view = engine.as_deref();
        let view = view.ok_or_else(|| self.shared.no_engine())?.view()?;
        drop(layers);
        let _here = InScan::begin();
        overlay::scan(&changes, &*view, table, (from, to), visit)
    }

    fn damaged_tables(&self) -> Result<Vec<String>> {
        self.shared.gate.pass();
        let engine = self.shared.engine.read();
        let engine = engine.as_deref().ok_or_else(|| self.shared.no_engine())?;
        engine.damaged_tables()
    }
}

/// The parts of a volume in `dir`, whose engine keeps `cache` bytes of tables in memory.
fn real(dir: &Path, cache: u64) -> Parts {
    Parts {
        disk: Arc::new(RealDisk::new(dir)),
        engines: Arc::new(FjallEngines::new(dir, cache)),
    }
}
