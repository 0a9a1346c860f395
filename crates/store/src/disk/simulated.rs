//! A disk in memory that forgets what was not synced, for crash tests.
//!
//! Each write, sync and change of a name is a step. A test lets the power fail at a step, or lets a
//! step fail, and then asks for the disk as it is found after the crash: each block of 512 bytes
//! that was written and not synced has any of its contents since the last sync, or a mix of two of
//! them; names that were not synced are there up to any one of them.

pub use super::blocks::Dice;
use super::blocks::SimulatedInode;
use super::{Access, Disk, File};
use crate::error::{Error, Result};
use hearth_backend::Errno;
use hearth_sync::primitive::{Arc, Mutex};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A disk; clones are the same disk.
#[derive(Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<DiskState>>);

/// Steps that fail on a full disk.
const NEEDS_ROOM: [&str; 4] = [
    "write a table of the engine",
    "reserve room in",
    "create",
    "make the folder",
];

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
    /// Flushes.
    pub syncs: u64,
    /// All steps.
    pub steps: u64,
}

/// Contents of the tables of a simulated engine.
pub(crate) type Maps = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

#[derive(Default)]
struct DiskState {
    place: PathBuf,
    names: Names,
    durable_names: Names,
    /// Changes of names since the last sync of a folder, in order.
    renames: Vec<(String, Option<usize>)>,
    inodes: Vec<SimulatedInode>,
    locks: BTreeMap<String, Vec<(u64, Option<String>)>>,
    next_lock: u64,
    counts: Counts,
    cut_at: Option<u64>,
    faults: BTreeMap<u64, Fault>,
    is_off: bool,
    is_full: bool,
    free: u64,
    engine: Option<Arc<Maps>>,
    dice: Dice,
}

/// A name has the number of an inode; a folder has `FOLDER`.
type Names = BTreeMap<String, usize>;
const FOLDER: usize = usize::MAX;

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
        let old = self.0.lock();
        let mut dice = Dice(seed);
        let mut names = old.durable_names.clone();
        let kept = dice.below(old.renames.len() as u64 + 1) as usize;
        for (name, inode) in &old.renames[..kept] {
            set(&mut names, name, *inode);
        }
        let inodes: Vec<SimulatedInode> = old
            .inodes
            .iter()
            .map(|inode| inode.crashed(&mut dice))
            .collect();
        let state = DiskState {
            place: old.place.clone(),
            durable_names: names.clone(),
            names,
            inodes,
            is_full: old.is_full,
            free: old.free,
            engine: old.engine.clone(),
            dice,
            ..DiskState::default()
        };
        SimulatedDisk(Arc::new(Mutex::new(state)))
    }

    /// The bytes of a file, to look at or to damage: they count as synced.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        if let Some(&inode) = state.names.get(name) {
            let inode = &mut state.inodes[inode];
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

impl DiskState {
    /// Counts a step. The error is that of a fault, or of a power that has failed.
    fn step(&mut self, op: &'static str, name: &str) -> Result<()> {
        let path = self.place.join(name);
        let off = Error::of_errno(op, &path, Errno::EIO);
        if self.is_off {
            return Err(off);
        }
        let step = self.counts.steps;
        self.counts.steps += 1;
        if self.cut_at == Some(step) {
            self.is_off = true;
            return Err(off);
        }
        match self.faults.get(&step) {
            None if self.is_full && NEEDS_ROOM.contains(&op) => {
                Err(Error::of_errno(op, &path, Errno::ENOSPC))
            }
            None => Ok(()),
            Some(Fault::NoSpace) => Err(Error::of_errno(op, &path, Errno::ENOSPC)),
            Some(Fault::Device) => Err(off),
        }
    }

    /// Whether the last step was the one within which the power failed.
    fn is_cut_here(&self) -> bool {
        self.cut_at.is_some_and(|cut| cut + 1 == self.counts.steps)
    }

    fn set_name(&mut self, name: &str, inode: Option<usize>) {
        set(&mut self.names, name, inode);
        self.renames.push((name.to_owned(), inode));
    }
}

fn set(names: &mut Names, name: &str, inode: Option<usize>) {
    match inode {
        Some(inode) => names.insert(name.to_owned(), inode),
        None => names.remove(name),
    };
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
        state.inodes.push(SimulatedInode::default());
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
        // Both halves are one change: the old name goes with the next change at the latest.
        state.set_name(to, inode);
        state.set_name(from, None);
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

    fn sync_dir(&self, name: &str) -> Result<()> {
        let mut state = self.0.lock();
        let step = state.step("sync", name);
        if step.is_ok() || (state.is_off && state.is_cut_here() && state.dice.coin()) {
            state.counts.syncs += 1;
            state.durable_names = state.names.clone();
            state.renames.clear();
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

struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
    name: String,
}

impl File for SimulatedFile {
    fn size(&self) -> Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        let state = self.disk.0.lock();
        let bytes = &state.inodes[self.inode].now;
        let from = (at as usize).min(bytes.len());
        let count = into.len().min(bytes.len() - from);
        into[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.0.lock();
        let step = state.step("write", &self.name);
        let count = match &step {
            Ok(()) => bytes.len(),
            Err(_) if state.is_off && !state.is_cut_here() => 0,
            Err(_) => bytes.len() / 2,
        };
        state.counts.writes += 1;
        state.inodes[self.inode].write(at as usize, &bytes[..count]);
        step
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.disk.0.lock();
        let step = state.step("sync", &self.name);
        let is_cut = state.is_off && state.is_cut_here();
        if step.is_ok() || (is_cut && state.dice.coin()) {
            state.counts.syncs += 1;
            state.inodes[self.inode].sync();
        } else if !state.is_off {
            state.inodes[self.inode].fail_sync();
        }
        step
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.step("reserve room in", &self.name)?;
        let now = state.inodes[self.inode].now.len();
        if len as usize > now {
            state.inodes[self.inode].write(now, &vec![0; len as usize - now]);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.step("cut off", &self.name)?;
        let inode = &mut state.inodes[self.inode];
        inode.now.resize(len as usize, 0);
        inode.durable.resize(len as usize, 0);
        Ok(())
    }
}
