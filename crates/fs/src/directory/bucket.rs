//! A bucket: one cache line with a lock, a sequence count and six entry pointers, and overflow
//! lines behind it.
//!
//! Only the holder of `lock` writes, inside a [`SeqCount`] write section. Readers take no lock:
//! they read the count before and after, and read again where it moved. A pair of buckets that one
//! rename changes is therefore seen before or after it, never in between.

use super::entry::Entry;
use crate::hashed::Hashed;
use crate::name::may_share_group;
use hearth_sync::epoch::Guard;
use hearth_sync::lock::RawLock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU8, Ordering};
use hearth_sync::rcu::{RcuSlot, TagSlot};
use hearth_sync::seq::SeqCount;

/// Entries in the first line of a bucket.
pub(super) const INLINE: usize = 6;
const OVERFLOW: usize = 7;
/// Most negative entries of a bucket.
pub(super) const NEGATIVES: usize = 4;

/// The entries are now in another table.
const MOVED: u8 = 1;
/// The directory has been removed: nothing may be inserted.
const DEAD: u8 = 2;

lock_class!(pub(super) BucketLock = "directory.bucket", 40);

#[repr(C, align(64))]
pub(super) struct Bucket {
    pub lock: RawLock<BucketLock>,
    /// `MOVED`, `DEAD`: written under `lock`, inside a write section of `seq`.
    flags: AtomicU8,
    pub seq: SeqCount<BucketLock>,
    slots: [TagSlot<Entry>; INLINE],
    next: RcuSlot<Overflow>,
}

#[repr(C, align(64))]
struct Overflow {
    slots: [TagSlot<Entry>; OVERFLOW],
    next: RcuSlot<Overflow>,
}

/// A slot with the entry in it.
pub(super) type Filled<'g> = (&'g TagSlot<Entry>, &'g Entry);

/// Where the entry of a name goes, found by one look at every slot.
#[derive(Clone, Copy)]
pub(crate) struct Place<'g> {
    /// The entry of this name, with its slot.
    pub(super) old: Option<Filled<'g>>,
    /// A free slot.
    slot: Option<&'g TagSlot<Entry>>,
    /// How many other entries may be of the same group, and so have the same cookie. A whole word,
    /// so that the place has no padding: with padding it would be copied piece by piece.
    pub(super) in_group: usize,
}

impl<'g> Place<'g> {
    /// That of a name which has an entry: the entry decides all that is done with it.
    pub(super) fn of(old: Filled<'g>) -> Place<'g> {
        Place {
            old: Some(old),
            slot: None,
            in_group: 0,
        }
    }
}

#[inline(always)]
fn find_in<'g>(slots: &'g [TagSlot<Entry>], at: &Hashed<'_>, g: &'g Guard) -> Option<Filled<'g>> {
    // Apart, so that what the length decides is not asked for each slot.
    if !Entry::is_short(at) {
        return find_long_in(slots, *at, g);
    }
    let tag = at.hash.tag();
    // A plain loop: as a chain of iterators it becomes a function, which takes more than the slots.
    for slot in slots {
        if let Some(entry) = slot.load_if(tag, g)
            && entry.has_short_name(at)
        {
            return Some((slot, entry));
        }
    }
    None
}

/// [`find_in`] of a name that no entry has in itself.
#[cold]
#[inline(never)]
fn find_long_in<'g>(
    slots: &'g [TagSlot<Entry>],
    at: Hashed<'_>,
    g: &'g Guard,
) -> Option<Filled<'g>> {
    slots.iter().find_map(|slot| {
        let entry = slot.load_if(at.hash.tag(), g)?;
        entry.is_named(&at).then_some((slot, entry))
    })
}

/// Looks at the slots of one line for [`Bucket::place`]. The place goes by value, or it would be
/// kept in memory.
#[inline(always)]
fn place_in<'g>(
    mut place: Place<'g>,
    slots: &'g [TagSlot<Entry>],
    at: &Hashed<'_>,
    g: &'g Guard,
) -> Place<'g> {
    let tag = at.hash.tag();
    // From the end: the last free slot that is seen is then the first.
    for slot in slots.iter().rev() {
        match slot.tag() {
            None => place.slot = Some(slot),
            // Equal tags are of one group.
            Some(found) if may_share_group(found, tag) => match slot.load_if(tag, g) {
                Some(entry) if entry.is_named(at) => place.old = Some((slot, entry)),
                _ => place.in_group += 1,
            },
            Some(_) => {}
        }
    }
    place
}

impl Overflow {
    /// [`Bucket::place`] in this line and those behind it.
    #[inline(never)]
    fn place_from<'g>(
        mut self: &'g Overflow,
        mut place: Place<'g>,
        at: Hashed<'_>,
        g: &'g Guard,
    ) -> Place<'g> {
        loop {
            let free = place.slot;
            place = place_in(place, &self.slots, &at, g);
            place.slot = free.or(place.slot);
            match self.next.load(g) {
                Some(next) => self = next,
                None => return place,
            }
        }
    }

    /// The entry of `at` in this line or an overflow line.
    #[inline(never)]
    fn find_from<'g>(mut line: &'g Overflow, at: Hashed<'_>, g: &'g Guard) -> Option<Filled<'g>> {
        loop {
            if let Some(found) = find_in(&line.slots, &at, g) {
                return Some(found);
            }
            line = line.next.load(g)?;
        }
    }
}

// Under shuttle the atomics are larger.
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Bucket>() == 64 && size_of::<Overflow>() == 64);

impl Bucket {
    pub fn new() -> Bucket {
        Bucket {
            lock: RawLock::new(),
            flags: AtomicU8::new(0),
            seq: SeqCount::new(),
            slots: [const { TagSlot::empty() }; INLINE],
            next: RcuSlot::empty(),
        }
    }

    pub fn is_moved(&self) -> bool {
        // Acquire: partner of `set_moved`. A reader that sees the flag also sees the table that the
        // entries moved to.
        self.flags.load(Ordering::Acquire) & MOVED != 0
    }

    pub fn set_moved(&self) {
        // Release: partner of `is_moved`.
        self.flags.fetch_or(MOVED, Ordering::Release);
    }

    pub fn is_dead(&self) -> bool {
        // Relaxed: read and written under `lock` only.
        self.flags.load(Ordering::Relaxed) & DEAD != 0
    }

    pub fn set_dead(&self) {
        // Relaxed: see `is_dead`.
        self.flags.fetch_or(DEAD, Ordering::Relaxed);
    }

    /// The entry of `at`, positive or negative. Without the lock the result counts only if `seq`
    /// has not moved.
    // Always inlined: every step of every walk calls it, and a call would cost as much as the
    // lookup.
    #[inline(always)]
    pub fn find<'g>(&'g self, at: &Hashed<'_>, g: &'g Guard) -> Option<&'g Entry> {
        self.find_slot(at, g).map(|(_, entry)| entry)
    }

    /// [`Bucket::find`], with the slot.
    // Always inlined, like `find`.
    #[inline(always)]
    pub fn find_slot<'g>(&'g self, at: &Hashed<'_>, g: &'g Guard) -> Option<Filled<'g>> {
        match find_in(&self.slots, at, g) {
            Some(found) => Some(found),
            // By value: who does not come here has no need of it in memory.
            None => Overflow::find_from(self.next.load(g)?, *at, g),
        }
    }

    /// The entry `seen` of `at`, which was found under the caller's guard, if the first line still
    /// has it: it is the same entry, since nothing else can be at its address under that guard.
    /// Follows no pointer. Needs the lock.
    // Always inlined, like `find`.
    #[inline(always)]
    pub fn still_has<'g>(&'g self, seen: Option<&'g Entry>, at: &Hashed<'_>) -> Option<Filled<'g>> {
        let entry = seen?;
        debug_assert!(!entry.is_negative() && entry.is_named(at), "another name");
        for slot in &self.slots {
            if slot.holds(at.hash.tag(), entry) {
                return Some((slot, entry));
            }
        }
        None
    }

    /// Its slots, unless it has overflow lines.
    #[inline]
    pub fn only_line(&self) -> Option<&[TagSlot<Entry>; INLINE]> {
        self.next.is_empty().then_some(&self.slots)
    }

    /// Every entry, in arbitrary order.
    #[inline]
    pub fn for_each<'g>(&'g self, g: &'g Guard, mut f: impl FnMut(&'g Entry)) {
        self.for_each_slot(g, |slot| {
            if let Some((_, entry)) = slot.load(g) {
                f(entry);
            }
        });
    }

    /// Every entry whose tag is one of its group's, in arbitrary order; touches no other entry.
    pub fn for_each_in_group<'g>(&'g self, tag: u16, g: &'g Guard, mut f: impl FnMut(&'g Entry)) {
        self.for_each_slot(g, |slot| {
            if let Some((found, entry)) = slot.load(g)
                && may_share_group(found, tag)
            {
                f(entry);
            }
        });
    }

    /// Where the entry of `at` goes. Needs the lock.
    // Always inlined: what it finds stays in registers.
    #[inline(always)]
    pub fn place<'g>(&'g self, at: &Hashed<'_>, g: &'g Guard) -> Place<'g> {
        let place = Place {
            old: None,
            slot: None,
            in_group: 0,
        };
        let place = place_in(place, &self.slots, at, g);
        match self.next.load(g) {
            None => place,
            Some(line) => {
                // Part by part: what a call returns stays in memory, and so would the other case.
                let Place {
                    old,
                    slot,
                    in_group,
                } = line.place_from(place, *at, g);
                Place {
                    old,
                    slot,
                    in_group,
                }
            }
        }
    }

    /// Removes the entry that is in `place`, if there is one. Needs the lock, held since the place
    /// was found, and a write section.
    #[inline]
    pub fn remove(&self, place: Place<'_>, g: &Guard) {
        if let Some((slot, entry)) = place.old {
            entry.set_gone();
            slot.take(g);
        }
    }

    /// Puts `entry` in its place; true if a line was added for it. Needs the lock, held since the
    /// place was found, and a write section.
    // Always inlined: a call would need the place in memory.
    #[inline(always)]
    pub fn put(&self, place: Place<'_>, tag: u16, entry: Box<Entry>, g: &Guard) -> bool {
        let replaced = place.old.map(|(slot, old)| {
            old.set_gone();
            slot
        });
        let found = replaced.or(place.slot);
        found.unwrap_or_else(|| self.add_line(g)).put(tag, entry, g);
        found.is_none()
    }

    /// Makes room for a negative entry: if there are many that the backend, which has every epoch
    /// up to `applied`, can give again, one of them goes. True if one went. Needs the lock and a
    /// write section.
    pub fn drop_spare(&self, tag: u16, applied: u32, g: &Guard) -> bool {
        let is_negative = |slot: &TagSlot<Entry>| {
            let held = slot.load(g);
            held.is_some_and(|(_, entry)| entry.is_spare(applied))
        };
        let mut negatives = 0;
        self.for_each_slot(g, |slot| negatives += usize::from(is_negative(slot)));
        let is_full = negatives >= NEGATIVES;
        if is_full {
            // Replaces an arbitrary one: the tag is as good as a random number.
            let mut left = usize::from(tag) % negatives;
            self.for_each_slot(g, |slot| {
                if is_negative(slot) {
                    if left == 0 {
                        slot.take(g);
                    }
                    left = left.wrapping_sub(1);
                }
            });
        }
        is_full
    }

    /// Moves every entry to the bucket that `target` names for its tag, or for the entry. Needs
    /// this lock and a write section; no other thread may have reached the targets yet.
    pub fn move_all<'t>(&self, g: &Guard, target: impl Fn(u16, &Entry) -> &'t Bucket) {
        self.for_each_slot(g, |slot| {
            if let Some((tag, entry)) = slot.load(g) {
                let to = target(tag, entry);
                slot.move_to(to.free_slot(g), g);
            }
        });
    }

    fn free_slot<'g>(&'g self, g: &'g Guard) -> &'g TagSlot<Entry> {
        let mut free: Option<&TagSlot<Entry>> = None;
        self.for_each_slot(g, |slot| {
            if slot.is_empty() {
                free = free.or(Some(slot));
            }
        });
        free.unwrap_or_else(|| self.add_line(g))
    }

    #[inline]
    fn for_each_slot<'s>(&'s self, g: &'s Guard, mut f: impl FnMut(&'s TagSlot<Entry>)) {
        for slot in &self.slots {
            f(slot);
        }
        let mut line = self.next.load(g);
        while let Some(overflow) = line {
            overflow.slots.iter().for_each(&mut f);
            line = overflow.next.load(g);
        }
    }

    /// Appends an empty overflow line and returns its first slot.
    #[cold]
    #[inline(never)]
    fn add_line<'g>(&'g self, g: &'g Guard) -> &'g TagSlot<Entry> {
        let mut end = &self.next;
        while let Some(line) = end.load(g) {
            end = &line.next;
        }
        let fresh = Overflow {
            slots: [const { TagSlot::empty() }; OVERFLOW],
            next: RcuSlot::empty(),
        };
        end.store(Some(Box::new(fresh)), g);
        let line = end
            .load(g)
            .expect("the line was stored just now, under the bucket's lock");
        &line.slots[0]
    }
}
