//! Advisory locks of one inode: record locks and whole-file locks, as plain lists.

use crate::op::LockKind;
use crate::outcome::LockInfo;
use crate::process::FileId;

/// The holder of a record lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A process.
    Process(usize),
    /// An open file description.
    File(FileId),
}

/// A record lock on `start..=end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its holder.
    pub owner: Owner,
    /// Whether it is exclusive.
    pub write: bool,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
}

/// A requested lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// `flock`
    Whole {
        /// The description that it is for.
        file: FileId,
        /// `LOCK_EX`
        exclusive: bool,
    },
    /// A record lock.
    #[allow(missing_docs)]
    Record {
        owner: Owner,
        kind: LockKind,
        start: u64,
        end: u64,
    },
}

/// The locks of an inode.
#[derive(Debug, Clone, Default)]
pub struct Locks {
    records: Vec<Record>,
    /// `flock`: description and whether exclusive.
    whole: Vec<(FileId, bool)>,
}

impl Locks {
    /// Returns whether no lock of another owner conflicts.
    pub fn is_free(&self, wish: Wish) -> bool {
        match wish {
            Wish::Whole { file, exclusive } => {
                let stands =
                    |(holder, other): &(FileId, bool)| *holder != file && (exclusive || *other);
                !self.whole.iter().any(stands)
            }
            Wish::Record { .. } => self.blockers(wish).is_empty(),
        }
    }

    /// Grants a lock that does not conflict.
    pub fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Whole { file, exclusive } => {
                self.unflock(file);
                self.whole.push((file, exclusive));
            }
            Wish::Record {
                owner,
                kind,
                start,
                end,
            } => self.set(owner, kind, start, end),
        }
    }

    /// Returns the owners of record locks that conflict with this one.
    pub fn blockers(&self, wish: Wish) -> Vec<Owner> {
        let Wish::Record {
            owner,
            kind,
            start,
            end,
        } = wish
        else {
            return Vec::new();
        };
        self.against(owner, kind, start, end)
            .map(|r| r.owner)
            .collect()
    }

    /// Returns locks of others that prevent `owner` from getting this lock.
    pub fn conflicts(&self, owner: Owner, kind: LockKind, start: u64, end: u64) -> Vec<LockInfo> {
        let info = |r: &Record| LockInfo {
            kind: if r.write {
                LockKind::Write
            } else {
                LockKind::Read
            },
            start: r.start,
            end: r.end,
        };
        self.against(owner, kind, start, end).map(info).collect()
    }

    fn against(
        &self,
        owner: Owner,
        kind: LockKind,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |r| {
            r.owner != owner
                && r.start <= end
                && start <= r.end
                && kind != LockKind::Unlock
                && (r.write || kind == LockKind::Write)
        })
    }

    /// Sets or clears `start..=end` for `owner`, cutting and joining its locks. The caller has
    /// checked for conflicts.
    pub fn set(&mut self, owner: Owner, kind: LockKind, start: u64, end: u64) {
        let mut kept = Vec::new();
        for r in self.records.drain(..) {
            if r.owner != owner || r.end < start || end < r.start {
                kept.push(r);
                continue;
            }
            if r.start < start {
                kept.push(Record {
                    end: start - 1,
                    ..r
                });
            }
            if r.end > end {
                kept.push(Record {
                    start: end + 1,
                    ..r
                });
            }
        }
        if kind != LockKind::Unlock {
            kept.push(Record {
                owner,
                write: kind == LockKind::Write,
                start,
                end,
            });
        }
        self.records = kept;
        self.join(owner);
    }

    /// Clears all locks of `owner`; returns whether there were any.
    pub fn release(&mut self, owner: Owner) -> bool {
        let before = self.records.len();
        self.records.retain(|r| r.owner != owner);
        self.records.len() < before
    }

    /// Returns whether the description has exactly this `flock`.
    pub fn has_flock(&self, file: FileId, exclusive: bool) -> bool {
        self.whole.contains(&(file, exclusive))
    }

    /// Returns the holders of `flock` locks, and whether each is exclusive.
    pub fn whole(&self) -> &[(FileId, bool)] {
        &self.whole
    }

    /// Returns the record locks, in no particular order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// `flock(LOCK_UN)`.
    pub fn unflock(&mut self, file: FileId) {
        self.whole.retain(|(holder, _)| *holder != file);
    }

    /// Joins adjacent locks of one kind.
    fn join(&mut self, owner: Owner) {
        let (mut own, others): (Vec<_>, Vec<_>) =
            self.records.drain(..).partition(|r| r.owner == owner);
        own.sort_by_key(|r| r.start);
        let mut joined: Vec<Record> = Vec::new();
        for r in own {
            match joined.last_mut() {
                Some(last) if last.write == r.write && last.end.checked_add(1) == Some(r.start) => {
                    last.end = r.end;
                }
                _ => joined.push(r),
            }
        }
        self.records = others;
        self.records.extend(joined);
    }
}
