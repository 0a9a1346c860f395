//! The records of one core. A record takes the place of an earlier one that it makes void: see
//! "Absorbing" in `docs/design/log.md`.
//!
//! The lock that orders changes of a thing is held around each append of it. So of two records of
//! one thing in this list the later one has the later version.

use crate::owed::{COPIES, Owed, bytes_of, bytes_of_new, owner};
use hearth_backend::{Attrs, Inode, Record, Target, Xattr};
use std::collections::BTreeMap;

/// Records that may be found again, by the hash of what they are of: a power of two.
const RECENT: usize = 256;
/// Records that are looked at one by one.
const FEW: usize = 16;

/// Records of one core, and whose they are.
#[derive(Debug)]
pub(super) struct CoreRecords {
    /// `None` where an inode came and went.
    records: Vec<Option<Record>>,
    /// Indices of these.
    holes: Vec<u32>,
    /// Where the last record of a thing may be. A hint: the record there says what it is of.
    recent: Box<[u32; RECENT]>,
    pub owed: Owed,
    /// What extended attributes, targets of links and pages count for, of all that is owed, in
    /// bytes.
    pub extra: u64,
    /// Owners that owe the records of extended attributes, by the index of the record.
    owes_xattrs: BTreeMap<u32, u64>,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It lies behind the others: they are so many now.
    Behind(usize),
    /// It lies where an inode came and went.
    InHole,
    /// An earlier one says it now.
    Absorbed,
    /// It was the end of an inode whose first record was here: the backend never hears of that.
    Brief,
}

impl Default for CoreRecords {
    fn default() -> CoreRecords {
        CoreRecords {
            records: Vec::new(),
            holes: Vec::new(),
            recent: Box::new([0; RECENT]),
            owed: Owed::default(),
            extra: 0,
            owes_xattrs: BTreeMap::new(),
        }
    }
}

impl CoreRecords {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.len() == self.holes.len()
    }

    /// Whether there are none but of the attributes of `ino`, and few of these.
    pub fn has_only_attrs_of(&self, ino: u64) -> bool {
        let is_of_attrs = |record: &Record| match record {
            Record::Attrs { ino: its, .. } | Record::Untouched { ino: its, .. } => *its == ino,
            _ => false,
        };
        self.records.len() <= FEW && self.records.iter().flatten().all(is_of_attrs)
    }

    /// Moves them all to `to`.
    pub fn move_to(&mut self, to: &mut Vec<Record>) {
        self.owed = Owed::default();
        self.extra = 0;
        self.owes_xattrs.clear();
        self.holes.clear();
        to.extend(std::mem::take(&mut self.records).into_iter().flatten());
    }

    /// Adds a record that no other takes.
    pub fn add(&mut self, record: Record) -> Added {
        self.records.push(Some(record));
        Added::Behind(self.records.len())
    }

    /// Adds a new inode, by an operation that counts for `cost` bytes of its tenant.
    pub fn add_new(&mut self, inode: Box<Inode>, cost: u64) -> Added {
        let extra = bytes_of_new(&inode);
        self.extra += extra;
        self.owed.add(owner(&inode.attrs), cost + extra);
        let slot = slot(inode.ino);
        let version = 0;
        self.put(slot, Record::New { inode, version })
    }

    /// Adds attributes.
    pub fn add_attrs(&mut self, ino: u64, version: u32, attrs: &Attrs, cost: u64) -> Added {
        let slot = slot(ino);
        let (old, last) = match self.recent(slot) {
            Some(Record::New { inode, version }) if inode.ino == ino => (&mut inode.attrs, version),
            Some(Record::Attrs {
                ino: its,
                version,
                attrs,
            }) if *its == ino => (attrs, version),
            _ => return self.put_attrs(slot, ino, version, attrs, cost),
        };
        if old.generation != attrs.generation {
            return self.put_attrs(slot, ino, version, attrs, cost);
        }
        let (before, now) = (owner(old), owner(attrs));
        (*old, *last) = (*attrs, version);
        if before != now {
            let all = cost + self.extra_of_new(slot);
            self.owed.take(before, all);
            self.owed.add(now, all);
        }
        Added::Absorbed
    }

    /// What the record in this place counts for beside the operation, if it is a new inode.
    #[cold]
    fn extra_of_new(&mut self, slot: usize) -> u64 {
        match self.recent(slot) {
            Some(Record::New { inode, .. }) => bytes_of_new(inode),
            _ => 0,
        }
    }

    fn put_attrs(
        &mut self,
        slot: usize,
        ino: u64,
        version: u32,
        attrs: &Attrs,
        cost: u64,
    ) -> Added {
        self.owed.add(owner(attrs), cost);
        let record = Record::Attrs {
            ino,
            version,
            attrs: *attrs,
        };
        self.put(slot, record)
    }

    /// Adds the extended attributes of an inode, number and generation, which `tenant` owes.
    /// `is_apart`: others may be elsewhere. Those of a new inode are before all others, so it takes
    /// these only where there are none. Leaves in `xattrs` what is no longer needed.
    pub fn add_xattrs(
        &mut self,
        (ino, generation): (u64, u32),
        version: u32,
        xattrs: &mut Vec<Xattr>,
        is_apart: bool,
        tenant: u64,
    ) -> Added {
        let bytes = bytes_of(xattrs);
        self.extra += bytes;
        if !is_apart
            && let Some(Record::New { inode, .. }) = self.recent(slot(ino))
            && (inode.ino, inode.attrs.generation) == (ino, generation)
        {
            std::mem::swap(&mut inode.xattrs, xattrs);
            let owner = owner(&inode.attrs);
            self.take_extra(owner, bytes_of(xattrs));
            self.owed.add(owner, bytes);
            return Added::Absorbed;
        }
        self.owed.add(tenant, bytes);
        let slot = slot_of_xattrs(ino);
        let at = self.recent[slot];
        if let Some(Record::Xattrs {
            ino: its,
            generation: its_generation,
            version: last,
            xattrs: old,
        }) = self.recent(slot)
            && (*its, *its_generation) == (ino, generation)
        {
            *last = version;
            std::mem::swap(old, xattrs);
            if let Some(before) = self.owes_xattrs.insert(at, tenant) {
                self.take_extra(before, bytes_of(xattrs));
            }
            return Added::Absorbed;
        }
        let record = Record::Xattrs {
            ino,
            generation,
            version,
            xattrs: std::mem::take(xattrs),
        };
        let added = self.put(slot, record);
        self.owes_xattrs.insert(self.recent[slot], tenant);
        added
    }

    /// Counts `bytes` that a record carries.
    pub fn owe(&mut self, tenant: u64, bytes: u64) {
        self.extra += COPIES * bytes;
        self.owed.add(tenant, COPIES * bytes);
    }

    /// Takes back what attributes that are gone counted for.
    fn take_extra(&mut self, tenant: u64, bytes: u64) {
        self.extra -= bytes;
        self.owed.take(tenant, bytes);
    }

    /// Adds the end of an inode, number and generation. `is_apart`: records of it may be elsewhere,
    /// in this list or in those of other cores.
    pub fn add_end(&mut self, (ino, generation): (u64, u32), is_apart: bool, cost: u64) -> Added {
        let slot = slot(ino);
        let at = self.recent[slot];
        let gone = |is_brief| Record::Gone {
            ino,
            generation,
            is_brief,
        };
        let earlier = self.records.get_mut(at as usize);
        match earlier.as_deref() {
            Some(Some(Record::New { inode, .. }))
                if (inode.ino, inode.attrs.generation) == (ino, generation) =>
            {
                let extra = bytes_of_new(inode);
                self.extra -= extra;
                self.owed.take(owner(&inode.attrs), cost + extra);
                self.records[at as usize] = is_apart.then(|| gone(true));
                if !is_apart {
                    self.holes.push(at);
                }
                Added::Brief
            }
            Some(Some(Record::Attrs {
                ino: its, attrs, ..
            })) if (*its, attrs.generation) == (ino, generation) => {
                self.records[at as usize] = Some(gone(false));
                Added::Absorbed
            }
            _ => self.put(slot, gone(false)),
        }
    }

    /// Adds what a name in a directory, inode and generation, means. The name is copied only where
    /// no earlier record has it.
    pub fn add_name(
        &mut self,
        dir: (u64, u32),
        name: &[u8],
        version: u32,
        to: Option<Target>,
    ) -> Added {
        let slot = slot_of_name(dir.0, name);
        if let Some(Record::Name {
            dir: its_dir,
            generation: its_generation,
            name: its_name,
            version: last,
            to: its_to,
            came,
        }) = self.recent(slot)
            && (*its_dir, *its_generation) == dir
            && **its_name == *name
        {
            *came |= its_to.is_some();
            (*last, *its_to) = (version, to);
            return Added::Absorbed;
        }
        let record = Record::Name {
            dir: dir.0,
            generation: dir.1,
            name: name.into(),
            version,
            to,
            came: false,
        };
        self.put(slot, record)
    }

    /// Adds entries of a directory, inode and generation, that came or went: all and
    /// subdirectories; `touch` is the order of the touch and its time.
    pub fn add_entries(
        &mut self,
        dir: (u64, u32),
        (entries, subdirectories): (i64, i64),
        touch: (u64, u64),
    ) -> Added {
        let slot = slot(!dir.0);
        if let Some(Record::Entries {
            dir: its_dir,
            generation: its_generation,
            entries: sum,
            subdirectories: sum_of_directories,
            touched,
            order,
        }) = self.recent(slot)
            && (*its_dir, *its_generation) == dir
        {
            *sum += entries;
            *sum_of_directories += subdirectories;
            // The clock was read before the append, so it may be earlier.
            (*order, *touched) = (*order, *touched).max(touch);
            return Added::Absorbed;
        }
        let record = Record::Entries {
            dir: dir.0,
            generation: dir.1,
            entries,
            subdirectories,
            touched: touch.1,
            order: touch.0,
        };
        self.put(slot, record)
    }

    fn recent(&mut self, slot: usize) -> Option<&mut Record> {
        self.records.get_mut(self.recent[slot] as usize)?.as_mut()
    }

    /// Puts a record where it is found again.
    fn put(&mut self, slot: usize, record: Record) -> Added {
        let record = Some(record);
        if let Some(hole) = self.holes.pop() {
            self.recent[slot] = hole;
            self.records[hole as usize] = record;
            return Added::InHole;
        }
        self.recent[slot] = self.records.len() as u32;
        self.records.push(record);
        Added::Behind(self.records.len())
    }
}

fn slot_of_xattrs(ino: u64) -> usize {
    slot(ino.rotate_left(u64::BITS / 2))
}

fn slot_of_name(dir: u64, name: &[u8]) -> usize {
    // The ends of a name tell it from most others.
    let (first, last) = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => {
            let mut whole = [0; 8];
            whole[..name.len()].copy_from_slice(name);
            (u64::from_le_bytes(whole), 0)
        }
    };
    slot(dir ^ first.rotate_left(17) ^ last.wrapping_mul(SPREAD))
}

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn slot(of: u64) -> usize {
    (of.wrapping_mul(SPREAD) >> (u64::BITS - RECENT.ilog2())) as usize
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;
