//! The state of a simulated disk: files, names, and what is not durable of them.

use super::blocks::{BLOCK, Dice, SimulatedInode};
use super::{Counts, Fault, Maps, Moment};
use crate::error::{Error, Result};
use hearth_backend::Errno;
use hearth_sync::primitive::Arc;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

/// Steps that fail on a full disk.
const NEEDS_ROOM: [&str; 4] = [
    "write a table of the engine",
    "reserve room in",
    "create",
    "make the folder",
];

/// What a disk holds, and what it is told to do.
#[derive(Default)]
pub(super) struct DiskState {
    pub(super) place: PathBuf,
    pub(super) names: Names,
    pub(super) durable_names: Names,
    /// Changes of names since the syncs of their folders, in order.
    pub(super) renames: Vec<NameChange>,
    pub(super) inodes: Vec<Arc<SimulatedInode>>,
    pub(super) locks: BTreeMap<String, Vec<(u64, Option<String>)>>,
    pub(super) next_lock: u64,
    pub(super) counts: Counts,
    pub(super) cut_at: Option<u64>,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) failing_read: Option<u64>,
    /// Blocks of inodes that cannot be read until they are written.
    pub(super) unreadable: BTreeSet<(usize, usize)>,
    pub(super) is_off: bool,
    pub(super) is_full: bool,
    pub(super) free: u64,
    pub(super) engine: Option<Arc<Maps>>,
    pub(super) dice: Dice,
    /// `None`: they are not kept.
    pub(super) moments: Option<Vec<Moment>>,
    pub(super) mark: u64,
}

/// Names of one folder that change together.
#[derive(Clone)]
pub(super) struct NameChange {
    folder: String,
    names: Vec<(String, Option<usize>)>,
}

/// A name has the number of an inode; a folder has `FOLDER`.
pub(super) type Names = BTreeMap<String, usize>;
pub(super) const FOLDER: usize = usize::MAX;

impl DiskState {
    /// Counts a step. The error is that of a fault, or of a power that has failed.
    pub(super) fn step(&mut self, op: &'static str, name: &str) -> Result<()> {
        let path = self.place.join(name);
        let off = Error::of_errno(op, &path, Errno::EIO);
        if self.is_off {
            return Err(off);
        }
        let step = self.counts.steps;
        self.keep_moment(step, op);
        self.counts.steps += 1;
        if self.cut_at == Some(step) {
            self.is_off = true;
            return Err(off);
        }
        let fault = self.faults.get(&step);
        self.counts.faults += u64::from(fault.is_some());
        match fault {
            None if self.is_full && NEEDS_ROOM.contains(&op) => {
                Err(Error::of_errno(op, &path, Errno::ENOSPC))
            }
            None => Ok(()),
            Some(Fault::NoSpace) => Err(Error::of_errno(op, &path, Errno::ENOSPC)),
            Some(Fault::Device) => Err(off),
        }
    }

    /// Counts a read. The error is that of a fault.
    pub(super) fn read(&mut self, op: &'static str, name: &str) -> Result<()> {
        let read = self.counts.reads;
        self.counts.reads += 1;
        if self.failing_read != Some(read) {
            return Ok(());
        }
        self.counts.faults += 1;
        Err(Error::of_errno(op, &self.place.join(name), Errno::EIO))
    }

    /// Fails if bytes of a file cannot be read.
    pub(super) fn read_blocks(
        &mut self,
        inode: usize,
        name: &str,
        bytes: Range<usize>,
    ) -> Result<()> {
        let blocks = (inode, bytes.start / BLOCK)..(inode, bytes.end.div_ceil(BLOCK));
        if bytes.is_empty() || self.unreadable.range(blocks).next().is_none() {
            return Ok(());
        }
        self.counts.faults += 1;
        Err(Error::of_errno("read", &self.place.join(name), Errno::EIO))
    }

    /// Blocks that are written as a whole can be read again, as on a disk that has spare ones.
    pub(super) fn write_blocks(&mut self, inode: usize, bytes: Range<usize>) {
        for block in bytes.start.div_ceil(BLOCK)..bytes.end / BLOCK {
            self.unreadable.remove(&(inode, block));
        }
    }

    /// Whether the last step was the one within which the power failed.
    pub(super) fn is_cut_here(&self) -> bool {
        self.cut_at.is_some_and(|cut| cut + 1 == self.counts.steps)
    }

    pub(super) fn inode(&mut self, number: usize) -> &mut SimulatedInode {
        Arc::make_mut(&mut self.inodes[number])
    }

    fn keep_moment(&mut self, step: u64, op: &str) {
        if let Some(mut moments) = self.moments.take() {
            moments.push(Moment {
                step,
                is_sync: op == "sync",
                mark: self.mark,
                state: self.still(),
            });
            self.moments = Some(moments);
        }
    }

    /// What a crash may leave parts of.
    fn still(&self) -> DiskState {
        DiskState {
            place: self.place.clone(),
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            renames: self.renames.clone(),
            inodes: self.inodes.clone(),
            is_full: self.is_full,
            free: self.free,
            engine: self.engine.clone(),
            unreadable: self.unreadable.clone(),
            ..DiskState::default()
        }
    }

    pub(super) fn crashed(&self, seed: u64) -> DiskState {
        let mut dice = Dice(seed);
        let names = self.names_after(&mut dice);
        let mut inodes = vec![Arc::default(); self.inodes.len()];
        for &inode in names.values().filter(|&&inode| inode != FOLDER) {
            let of = &self.inodes[inode];
            inodes[inode] = match of.is_settled() {
                true => Arc::clone(of),
                false => Arc::new(of.crashed(&mut dice)),
            };
        }
        DiskState {
            place: self.place.clone(),
            durable_names: names.clone(),
            names,
            inodes,
            is_full: self.is_full,
            free: self.free,
            engine: self.engine.clone(),
            unreadable: self.unreadable.clone(),
            dice,
            ..DiskState::default()
        }
    }

    /// Names after a crash: of the changes of each folder any first ones, and nothing below a
    /// folder that is gone.
    fn names_after(&self, dice: &mut Dice) -> Names {
        let mut changes: BTreeMap<&str, Vec<&NameChange>> = BTreeMap::new();
        for change in &self.renames {
            changes.entry(&change.folder).or_default().push(change);
        }
        let mut names = self.durable_names.clone();
        for of_folder in changes.values() {
            let kept = dice.below(of_folder.len() as u64 + 1) as usize;
            for change in &of_folder[..kept] {
                change.make(&mut names);
            }
        }
        let all = names.clone();
        names.retain(|name, _| above(name).all(|folder| all.contains_key(folder)));
        names
    }

    /// Changes names of one folder together.
    pub(super) fn set_names(&mut self, changed: Vec<(String, Option<usize>)>) {
        let change = NameChange {
            folder: changed
                .first()
                .map_or("", |(name, _)| folder_of(name))
                .to_owned(),
            names: changed,
        };
        change.make(&mut self.names);
        self.renames.push(change);
    }

    pub(super) fn set_name(&mut self, name: &str, inode: Option<usize>) {
        self.set_names(vec![(name.to_owned(), inode)]);
    }

    /// Makes the names in a folder durable.
    pub(super) fn sync_names(&mut self, folder: &str) {
        let renames = std::mem::take(&mut self.renames);
        for change in renames {
            match change.folder == folder {
                true => change.make(&mut self.durable_names),
                false => self.renames.push(change),
            }
        }
    }
}

impl NameChange {
    fn make(&self, names: &mut Names) {
        for (name, inode) in &self.names {
            set(names, name, *inode);
        }
    }
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The folders that a name is in, but the topmost.
fn above(name: &str) -> impl Iterator<Item = &str> {
    let folders = std::iter::successors(Some(name), |name| Some(folder_of(name)));
    folders.skip(1).take_while(|folder| !folder.is_empty())
}

fn set(names: &mut Names, name: &str, inode: Option<usize>) {
    match inode {
        Some(inode) => names.insert(name.to_owned(), inode),
        None => names.remove(name),
    };
}
