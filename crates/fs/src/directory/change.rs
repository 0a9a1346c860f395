//! Changes of a directory: one or two locked buckets, and the removal of a directory.

use super::bucket::{Bucket, Place};
use super::entry::Entry;
use super::table::BucketTable;
use super::{Directory, FIRST_LOG2, Lookup, UNKNOWN};
use crate::attr::Target;
use crate::hashed::Hashed;
use crate::log::ChangeLog;
use crate::name::NameHash;
use hearth_sync::epoch::Guard;
use hearth_sync::lock::RawGuard;
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::rcu::TagSlot;
use std::cell::Cell;

/// The directory has been removed.
#[derive(Debug)]
pub(crate) struct Dead;

/// Why a directory cannot be removed now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has entries.
    NotEmpty,
    /// Another thread changes or grows it; release all locks and try again.
    Busy,
    /// Only the backend knows; load the directory first.
    Unknown,
}

/// Exclusive right to change one name of a directory.
pub(crate) struct Locked<'a> {
    pub(super) directory: &'a Directory,
    pub(super) bucket: &'a Bucket,
    /// Another thread held the bucket when the lock was requested.
    is_contended: bool,
    /// The epoch in which the change is recorded, and the last one that the backend has. 0 and the
    /// largest for a volume without a log.
    epochs: Cell<(u32, u32)>,
    _held: RawGuard<'a>,
}

/// The entry of a name that is there, with its slot.
pub(crate) struct Found<'a> {
    slot: &'a TagSlot<Entry>,
    pub entry: &'a Entry,
}

const NO_LOG: (u32, u32) = (0, u32::MAX);

/// One change: the name gets this inode, or none.
pub(crate) struct EntryChange<'n> {
    pub at: Hashed<'n>,
    pub to: Option<Target>,
}

impl Directory {
    /// Locks the bucket of `at`.
    // Always inlined: as a call it takes 40 instructions more, most of them to return its result.
    #[inline(always)]
    #[track_caller]
    pub fn lock<'a>(&'a self, at: Hashed<'_>, g: &'a Guard) -> Result<Locked<'a>, Dead> {
        loop {
            let bucket = self.bucket_for_change(at.hash, g);
            let (held, is_contended) = bucket.lock.lock_guard_noticing();
            if bucket.is_dead() {
                return Err(Dead);
            }
            if !bucket.is_moved() {
                return Ok(Locked {
                    directory: self,
                    bucket,
                    is_contended,
                    epochs: Cell::new(NO_LOG),
                    _held: held,
                });
            }
        }
    }

    /// A name is recorded in `epoch`. The caller holds its bucket.
    fn note_logged(&self, epoch: u64) {
        let logged = &self.growth.0.logged;
        // Relaxed: read with all buckets locked. Only the first change of an epoch writes it.
        if logged.load(Ordering::Relaxed) != epoch {
            logged.store(epoch, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn bucket_for_change<'a>(&'a self, hash: NameHash, g: &'a Guard) -> &'a Bucket {
        loop {
            if let Some((_, bucket)) = self.live(hash.value(), g) {
                return bucket;
            }
            self.install_first(g);
        }
    }

    #[cold]
    #[inline(never)]
    fn install_first(&self, g: &Guard) {
        // The loser of the race finds the winner's table.
        let _ = self
            .table
            .install(Box::new(BucketTable::new(FIRST_LOG2)), g);
    }

    /// Begins the removal of an empty directory: every bucket is locked until the result is
    /// dropped.
    pub fn begin_removal<'a>(&'a self, g: &'a Guard) -> Result<Removal<'a>, Refused> {
        let grow = self.growth.0.grow.try_lock().ok_or(Refused::Busy)?;
        if self.has_entries(g) {
            return Err(Refused::NotEmpty);
        }
        // By trying only: the bucket of the parent is held.
        if !self.end_growth(|bucket| bucket.lock.try_lock_guard(), g) {
            return Err(Refused::Busy);
        }
        if self.table.is_empty() {
            let _ = self.table.install(Box::new(BucketTable::new(0)), g);
        }
        let table = self.table.load(g).ok_or(Refused::Busy)?;
        let mut held = Vec::with_capacity(table.buckets().len());
        for bucket in table.buckets() {
            held.push(bucket.lock.try_lock_guard().ok_or(Refused::Busy)?);
            let mut empty = true;
            bucket.for_each(g, |entry| empty &= entry.is_negative());
            if !empty {
                return Err(Refused::NotEmpty);
            }
        }
        if !self.is_complete() {
            return Err(Refused::Unknown);
        }
        Ok(Removal {
            table,
            _held: held,
            _grow: grow,
        })
    }

    /// Drops every entry, for reclaim, if the backend has them all; `also` evicts the directory
    /// itself while no name of it can change. Does nothing while another thread changes the
    /// directory. Returns what `also` returned.
    pub fn evict(&self, log: Option<&ChangeLog>, also: impl FnOnce() -> bool, g: &Guard) -> bool {
        let Some(_grow) = self.growth.0.grow.try_lock() else {
            return false;
        };
        if !self.end_growth(|bucket| bucket.lock.try_lock_guard(), g) {
            return false;
        }
        if self.table.is_empty() {
            let _ = self.table.install(Box::new(BucketTable::new(0)), g);
        }
        let Some(table) = self.table.load(g) else {
            return false;
        };
        let mut held = Vec::with_capacity(table.buckets().len());
        for bucket in table.buckets() {
            let Some(guard) = bucket.lock.try_lock_guard() else {
                return false;
            };
            if bucket.is_dead() {
                return false;
            }
            held.push(guard);
        }
        // Relaxed: all buckets are locked, so no change is under way.
        let logged = self.growth.0.logged.load(Ordering::Relaxed);
        if log.is_some_and(|log| log.is_pending(logged)) {
            return false;
        }
        let is_evicted = also();
        let writes: Vec<_> = table
            .buckets()
            .iter()
            .map(|bucket| bucket.seq.write())
            .collect();
        // Release: partner of `is_complete`.
        self.completeness.store(UNKNOWN, Ordering::Release);
        // Relaxed: a hint.
        self.growth.0.misses.store(0, Ordering::Relaxed);
        for bucket in table.buckets() {
            bucket.for_each(g, Entry::set_gone);
        }
        self.new_table();
        self.table.take(g);
        table.buckets().iter().for_each(Bucket::set_moved);
        drop(writes);
        is_evicted
    }
}

impl<'a> Locked<'a> {
    /// The place for the locked name if there is no such name; otherwise what is known of it.
    /// [`Locked::put`] gets the place back, by value: beside the lock it would be kept in memory.
    #[inline(always)]
    pub fn find(&self, at: Hashed<'_>, g: &'a Guard) -> Result<Place<'a>, Lookup<'a>> {
        let place = self.bucket.place(&at, g);
        match self.known(place.old.map(|(_, entry)| entry)) {
            Lookup::Negative => Ok(place),
            other => Err(other),
        }
    }

    /// The entry of the locked name for [`Locked::remove`], which needs no room for another one.
    /// `seen`: the entry that the name had before it was locked.
    #[inline(always)]
    pub fn find_old(
        &self,
        at: Hashed<'_>,
        seen: Option<&'a Entry>,
        g: &'a Guard,
    ) -> Result<Found<'a>, Lookup<'a>> {
        match self.bucket.still_has(seen, &at) {
            Some((slot, entry)) => Ok(Found { slot, entry }),
            None => self.find_another(at, g),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_another(&self, at: Hashed<'_>, g: &'a Guard) -> Result<Found<'a>, Lookup<'a>> {
        let old = self.bucket.find_slot(&at, g);
        match (self.known(old.map(|(_, entry)| entry)), old) {
            (Lookup::Hit(_), Some((slot, entry))) => Ok(Found { slot, entry }),
            (absent, _) => Err(absent),
        }
    }

    /// Removes the entry that was found and releases the lock.
    #[inline(always)]
    pub fn remove(self, found: Found<'_>, at: Hashed<'_>, g: &Guard) {
        let _write = self.bucket.seq.write();
        self.note_contention(g);
        match self.directory.is_complete() {
            true => {
                found.entry.set_gone();
                found.slot.take(g);
            }
            // Without a negative entry the next lookup would have to ask the backend.
            false => _ = put_negative(self.bucket, &at, self.epochs.get(), g),
        }
    }

    #[inline(always)]
    fn known(&self, entry: Option<&'a Entry>) -> Lookup<'a> {
        match entry {
            Some(entry) if entry.is_negative() => Lookup::Negative,
            Some(entry) => Lookup::Hit(entry),
            None => self.directory.absence(),
        }
    }

    /// Notes that a change of the name is recorded now. Returns the version of the change.
    // Always inlined: a call would keep what is locked in memory, also where there is no log.
    #[inline(always)]
    pub fn note_logged(&self, log: &ChangeLog) -> u32 {
        let epoch = log.epoch();
        self.epochs.set((epoch as u32, log.applied() as u32));
        self.directory.note_logged(epoch);
        self.bucket.seq.peek()
    }

    /// Puts the entry in the place that was found and releases the lock. Returns whether
    /// [`Directory::grow_some`] has work to do: the bucket overflowed, two threads wanted it at
    /// once, or this name is one that helps a growing table. It is true seldom, because the caller
    /// then adds up the entries of all cores.
    // Always inlined, as what it calls: what was found is in registers.
    #[inline(always)]
    pub fn put(self, place: Place<'a>, at: Hashed<'_>, to: Target, g: &Guard) -> bool {
        let _write = self.bucket.seq.write();
        self.note_contention(g) | self.put_at(place, &at, to, g)
    }

    /// Puts or removes the entry of a name that was not looked up, and releases the lock. Returns
    /// what [`Locked::put`] returns.
    pub fn apply(self, change: EntryChange<'_>, g: &Guard) -> bool {
        let _write = self.bucket.seq.write();
        self.note_contention(g) | self.make(&change, None, g)
    }

    #[inline(always)]
    fn put_at(&self, place: Place<'a>, at: &Hashed<'_>, to: Target, g: &Guard) -> bool {
        let needs_growth = put_in(self.bucket, (at, place), to, g);
        needs_growth || self.directory.is_grower(at.hash.value(), g)
    }

    /// Makes one change in `place`, if the name was looked up; true if the table should grow for
    /// it, see [`Locked::put`].
    #[inline(always)]
    fn make(&self, change: &EntryChange<'_>, place: Option<Place<'a>>, g: &Guard) -> bool {
        let EntryChange { at, to } = change;
        let is_same = |place: Place<'_>| place.old.is_none_or(|(_, old)| old.name() == at.name);
        debug_assert!(place.is_none_or(is_same), "another name");
        let place = || place.unwrap_or_else(|| place_of(self.bucket, at, g));
        match to {
            Some(target) => self.put_at(place(), at, *target, g),
            // Without a negative entry the next lookup would have to ask the backend.
            None if !self.directory.is_complete() => {
                put_negative(self.bucket, at, self.epochs.get(), g);
                false
            }
            None => {
                self.bucket.remove(place(), g);
                false
            }
        }
    }

    /// Records whether two threads wanted the bucket at once. True if the table is too small for
    /// the threads that change it.
    #[inline(always)]
    fn note_contention(&self, g: &Guard) -> bool {
        self.is_contended && self.directory.contend(g)
    }
}

/// Two locked buckets, perhaps the same one twice.
pub(crate) struct Pair<'a> {
    first: Locked<'a>,
    second: Option<Locked<'a>>,
    swapped: bool,
    /// Where [`Pair::find`] has found the first name and the second, or room for it. Nobody else
    /// changes the buckets since.
    places: [Option<Place<'a>>; 2],
}

/// Locks the buckets of two names, in the order of (directory number, hash).
#[track_caller]
pub(crate) fn lock_pair<'a>(
    (a, a_ino, a_at): (&'a Directory, u64, Hashed<'_>),
    (b, b_ino, b_at): (&'a Directory, u64, Hashed<'_>),
    g: &'a Guard,
) -> Result<Pair<'a>, Dead> {
    let swapped = (b_ino, b_at.hash.value()) < (a_ino, a_at.hash.value());
    let (lower, lower_at, upper, upper_at) = if swapped {
        (b, b_at, a, a_at)
    } else {
        (a, a_at, b, b_at)
    };
    let first = lower.lock(lower_at, g)?;
    // A bucket that is held does not move, so if the upper name is in it, it stays there.
    let same =
        a_ino == b_ino && std::ptr::eq(first.bucket, upper.bucket_for_change(upper_at.hash, g));
    let second = if same {
        None
    } else {
        Some(upper.lock(upper_at, g)?)
    };
    Ok(Pair {
        first,
        second,
        swapped,
        places: [None; 2],
    })
}

impl<'a> Pair<'a> {
    /// The entry of the first name (`second` false) or the second. The change of it goes on from
    /// here. `seen`: the entry that the name had before it was locked.
    pub fn find(
        &mut self,
        second: bool,
        (at, seen): (Hashed<'_>, Option<&'a Entry>),
        g: &'a Guard,
    ) -> Lookup<'a> {
        let side = self.side(second);
        let place = match side.bucket.still_has(seen, &at) {
            Some(old) => Place::of(old),
            None => side.bucket.place(&at, g),
        };
        let known = side.known(place.old.map(|(_, entry)| entry));
        self.places[usize::from(second)] = Some(place);
        known
    }

    /// [`Locked::note_logged`] for the first name (`second` false) or the second.
    pub fn note_logged(&self, second: bool, log: &ChangeLog) -> u32 {
        self.side(second).note_logged(log)
    }

    /// Makes both changes as one: no reader sees only one of them. The second name is changed
    /// first, so that even a reader that ignores sequence counts always finds one of them (C4).
    ///
    /// The buckets stay locked: what else the caller writes under these locks ends before them.
    pub fn apply(&mut self, first: EntryChange<'_>, second: EntryChange<'_>, g: &Guard) -> bool {
        let (a, b) = (self.side(false).bucket, self.side(true).bucket);
        let write_a = a.seq.write();
        let write_b = (!std::ptr::eq(a, b)).then(|| b.seq.write());
        let mut needs_growth = self.first.note_contention(g);
        needs_growth |= self
            .second
            .as_ref()
            .is_some_and(|second| second.note_contention(g));
        // The places are of before this change.
        let [place_a, place_b] = std::mem::take(&mut self.places);
        needs_growth |= self.side(true).make(&second, place_b, g);
        // In one bucket, the second name may have got the slot that was free for the first.
        let place_a = place_a.filter(|place| place.old.is_some());
        self.side(false).make(&first, place_a, g);
        drop((write_a, write_b));
        needs_growth
    }

    fn side(&self, second: bool) -> &Locked<'a> {
        match (&self.second, second == self.swapped) {
            (Some(upper), false) => upper,
            _ => &self.first,
        }
    }
}

/// A directory that is being removed: until this is dropped, no entry can be added or found
/// missing.
pub(crate) struct Removal<'a> {
    table: &'a BucketTable,
    _held: Vec<RawGuard<'a>>,
    _grow: hearth_sync::lock::LockGuard<'a, super::Grow, ()>,
}

impl Removal<'_> {
    /// Makes the removal final: every later insertion fails.
    pub fn finish(self) {
        self.table.buckets().iter().for_each(Bucket::set_dead);
    }
}

#[inline(never)]
fn place_of<'g>(bucket: &'g Bucket, at: &Hashed<'_>, g: &'g Guard) -> Place<'g> {
    bucket.place(at, g)
}

/// Returns whether a line was added to the bucket.
pub(super) fn put(bucket: &Bucket, at: &Hashed<'_>, to: Target, g: &Guard) -> bool {
    let place = place_of(bucket, at, g);
    put_in(bucket, (at, place), to, g)
}

/// [`put`] of a name whose place is known.
// Always inlined: what it is given is in registers.
#[inline(always)]
fn put_in(bucket: &Bucket, (at, place): (&Hashed<'_>, Place<'_>), to: Target, g: &Guard) -> bool {
    let entry = Entry::new(at, cookie_for(bucket, at, place, g), to);
    bucket.put(place, at.hash.tag(), entry, g)
}

/// Puts a negative entry for a name that is not there. Returns whether a line was added to the
/// bucket or another negative entry was replaced.
///
/// `epochs`: in which it was removed, or 0, and the last one that the backend has.
#[inline(never)]
pub(super) fn put_negative(
    bucket: &Bucket,
    at: &Hashed<'_>,
    (removed, applied): (u32, u32),
    g: &Guard,
) -> bool {
    let has_room = bucket.drop_spare(at.hash.tag(), applied, g);
    let place = place_of(bucket, at, g);
    let entry = Entry::negative(at, cookie_for(bucket, at, place, g), removed);
    bucket.put(place, at.hash.tag(), entry, g) | has_room
}

#[inline(always)]
fn cookie_for(bucket: &Bucket, at: &Hashed<'_>, place: Place<'_>, g: &Guard) -> u64 {
    match place.old {
        Some((_, old)) => old.cookie(),
        None if place.in_group == 0 => at.hash.cookie(),
        None => free_cookie(bucket, at.hash, g),
    }
}

/// A cookie for `hash` that no entry of the bucket has: its own, or the next free value that
/// differs in the low bits only and so stays in the same bucket at every table size.
#[cold]
#[inline(never)]
fn free_cookie(bucket: &Bucket, hash: NameHash, g: &Guard) -> u64 {
    let low = (1u64 << NameHash::PROBE_BITS) - 1;
    let (base, start) = (hash.cookie() & !low, hash.cookie() & low);
    let mut taken = Vec::new();
    bucket.for_each_in_group(hash.tag(), g, |entry| {
        if entry.cookie() & !low == base {
            taken.push(entry.cookie() & low);
        }
    });
    let free = (0..=low)
        .map(|step| (start + step) & low)
        .find(|c| !taken.contains(c));
    base | free.unwrap_or(start)
}
