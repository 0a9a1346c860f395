//! A disk in memory that forgets what was not synced, for crash tests.
//!
//! Each write, sync and change of a name is a step. A test lets the power fail at a step, or lets a
//! step fail, and then asks for the disk as it is found after the crash: each block of 512 bytes
//! that was written and not synced has any of its contents since the last sync, or a mix of two of
//! them; of the changes of names in a folder that was not synced any first ones are there.
//!
//! A test that looks at many cuts of one run keeps the disk as it was before each step
//! ([`SimulatedDisk::keep_moments`]): files that did not change between two moments are shared.

mod blocks;
mod file;
mod state;

pub use blocks::Dice;

use super::{Access, Disk, File};
use crate::error::{Error, Result};
use blocks::BLOCK;
use file::SimulatedFile;
use hearth_backend::Errno;
use hearth_sync::primitive::{Arc, Mutex};
use state::{DiskState, FOLDER};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A disk; clones are the same disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<DiskState>>);

/// How a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `ENOSPC`; a write has written half.
    NoSpace,
    /// `EIO`; a write has written half, and what a sync should have kept may be lost.
    Device,
}

/// What the disk did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes to files.
    pub writes: u64,
    /// Bytes whose writeback was started before a sync.
    pub bytes_started: u64,
    /// Flushes.
    pub syncs: u64,
    /// All steps.
    pub steps: u64,
    /// Reads of files and of the engine, which are no steps.
    pub reads: u64,
    /// Bytes of files that were read.
    pub bytes_read: u64,
    /// Steps and reads that failed as they were told to.
    pub faults: u64,
}

/// Contents of the tables of a simulated engine.
pub(crate) type Maps = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// The disk as it was before a step.
pub struct Moment {
    /// The step, counted as [`Counts::steps`].
    pub step: u64,
    /// Whether the step is a flush, or a sync of names.
    pub is_sync: bool,
    /// What [`SimulatedDisk::set_mark`] had set.
    pub mark: u64,
    state: DiskState,
}

impl Moment {
    /// The disk as it is found if the power had failed then.
    pub fn crashed(&self, seed: u64) -> SimulatedDisk {
        SimulatedDisk(Arc::new(Mutex::new(self.state.crashed(seed))))
    }
}

impl SimulatedDisk {
    /// An empty disk whose random choices follow from `seed`.
    pub fn new(seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk::default();
        let mut state = disk.0.lock();
        state.place = PathBuf::from("simulated");
        state.free = 1 << 40;
        state.dice = Dice(seed);
        drop(state);
        disk
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        self.0.lock().counts
    }

    /// Lets the power fail within step `step`, counted as [`Counts::steps`].
    pub fn cut_at(&self, step: u64) {
        self.0.lock().cut_at = Some(step);
    }

    /// Lets step `step` fail.
    pub fn fail_at(&self, step: u64, fault: Fault) {
        self.0.lock().faults.insert(step, fault);
    }

    /// Lets a read fail with `EIO`, counted as [`Counts::reads`].
    pub fn fail_read_at(&self, read: u64) {
        self.0.lock().failing_read = Some(read);
    }

    /// Lets reads of these bytes of a file fail with `EIO`, until they are written: whole blocks of
    /// 512.
    pub fn make_unreadable(&self, name: &str, bytes: Range<u64>) {
        let mut state = self.0.lock();
        let inode = state.names[name];
        let block = BLOCK as u64;
        let blocks = bytes.start / block..bytes.end.div_ceil(block);
        let blocks = blocks.map(|block| (inode, block as usize));
        state.unreadable.extend(blocks);
    }

    /// One read of the engine.
    pub(crate) fn read_engine(&self) -> Result<()> {
        self.0.lock().read("read the engine", "engine")
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.0.lock().is_off
    }

    /// Sets whether nothing new gets room: tables, files, more of the ballast.
    pub fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    /// Sets how many bytes are free.
    pub fn set_free(&self, free: u64) {
        self.0.lock().free = free;
    }

    /// The disk as it is found after the power has failed now.
    pub fn crashed(&self, seed: u64) -> SimulatedDisk {
        let state = self.0.lock().crashed(seed);
        SimulatedDisk(Arc::new(Mutex::new(state)))
    }

    /// From now on the disk as it is before each step is kept.
    pub fn keep_moments(&self) {
        self.0.lock().moments = Some(Vec::new());
    }

    /// What the next moments are marked with.
    pub fn set_mark(&self, mark: u64) {
        self.0.lock().mark = mark;
    }

    /// The moments that were kept since the last call.
    pub fn take_moments(&self) -> Vec<Moment> {
        let mut state = self.0.lock();
        state
            .moments
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// The bytes of a file, to look at or to damage: they count as synced.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        if let Some(&inode) = state.names.get(name) {
            let inode = Arc::make_mut(&mut state.inodes[inode]);
            change(&mut inode.now);
            inode.durable = inode.now.clone();
        }
    }

    /// All names with the contents of the files.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.0.lock();
        let bytes = |inode: usize| match inode {
            FOLDER => Vec::new(),
            inode => state.inodes[inode].now.clone(),
        };
        let names = state.names.iter();
        names.map(|(name, &of)| (name.clone(), bytes(of))).collect()
    }

    pub(crate) fn engine(&self) -> Option<Arc<Maps>> {
        self.0.lock().engine.clone()
    }

    /// One step of the engine, which puts `maps` in place or does not.
    pub(crate) fn set_engine(&self, maps: Maps) -> Result<()> {
        let mut state = self.0.lock();
        let step = state.step("write a table of the engine", "engine");
        if step.is_ok() || (state.is_off && state.is_cut_here() && state.dice.coin()) {
            state.engine = Some(Arc::new(maps));
        }
        step.map(drop)
    }

    fn change_name(&self, op: &'static str, name: &str, inode: Option<usize>) -> Result<()> {
        let mut state = self.0.lock();
        state.step(op, name)?;
        state.set_name(name, inode);
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    fn place(&self) -> &Path {
        Path::new("simulated")
    }

    fn open(&self, name: &str, _: Access) -> Result<Arc<dyn File>> {
        let state = self.0.lock();
        match state.names.get(name) {
            Some(&inode) if inode != FOLDER => Ok(Arc::new(SimulatedFile {
                disk: self.clone(),
                inode,
                name: name.to_owned(),
            })),
            _ => Err(Error::of_errno(
                "open",
                &state.place.join(name),
                Errno::ENOENT,
            )),
        }
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let mut state = self.0.lock();
        state.step("create", name)?;
        if state.names.contains_key(name) {
            let path = state.place.join(name);
            return Err(Error::of_errno("create", &path, Errno::EEXIST));
        }
        state.inodes.push(Arc::default());
        let inode = state.inodes.len() - 1;
        state.set_name(name, Some(inode));
        Ok(Arc::new(SimulatedFile {
            disk: self.clone(),
            inode,
            name: name.to_owned(),
        }))
    }

    fn make_dir(&self, name: &str) -> Result<()> {
        self.change_name("make the folder", name, Some(FOLDER))
    }

    fn list(&self, name: &str) -> Result<Vec<String>> {
        let state = self.0.lock();
        let prefix = match name {
            "" => String::new(),
            name => format!("{name}/"),
        };
        let inside = state
            .names
            .keys()
            .filter_map(|name| name.strip_prefix(&prefix));
        Ok(inside
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.0.lock();
        state.step("rename", from)?;
        let inode = state.names.get(from).copied();
        state.set_names(vec![(to.to_owned(), inode), (from.to_owned(), None)]);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let below: Vec<String> = {
            let state = self.0.lock();
            let inside = format!("{name}/");
            let is_in = |key: &&String| *key == name || key.starts_with(&inside);
            state.names.keys().filter(is_in).cloned().collect()
        };
        for name in below.into_iter().rev() {
            self.change_name("remove", &name, None)?;
        }
        Ok(())
    }

    fn make_private(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        let mut state = self.0.lock();
        let step = state.step("sync", name);
        if step.is_ok() || (state.is_off && state.is_cut_here() && state.dice.coin()) {
            state.counts.syncs += 1;
            state.sync_names(name);
        }
        step
    }

    fn lock(&self, name: &str, owner: Option<&str>) -> Result<Box<dyn Send + Sync>> {
        let mut state = self.0.lock();
        let key = state.next_lock;
        state.next_lock += 1;
        let held = state.locks.entry(name.to_owned()).or_default();
        if let Some((_, first)) = held.first()
            && (owner.is_some() || first.is_some())
        {
            let who = first.clone().unwrap_or_else(|| "a reader".to_owned());
            let path = state.place.clone();
            return Err(Error::InUse { path, who });
        }
        held.push((key, owner.map(str::to_owned)));
        Ok(Box::new(SimulatedLock {
            disk: self.clone(),
            name: name.to_owned(),
            key,
        }))
    }

    fn share(&self, name: &str) -> Option<Box<dyn Send + Sync>> {
        self.lock(name, None).ok()
    }

    fn is_shared(&self, name: &str) -> bool {
        let state = self.0.lock();
        state.locks.get(name).is_some_and(|held| !held.is_empty())
    }

    fn room(&self) -> Result<(u64, u64)> {
        Ok((1 << 40, self.0.lock().free))
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    name: String,
    key: u64,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        if let Some(held) = state.locks.get_mut(&self.name) {
            held.retain(|(key, _)| *key != self.key);
        }
    }
}
