//! A table of objects, by number.

use super::entry::{Entry, NoRoom, NotFilled, Room};
use super::lifecycle::SLOTS;
use super::numbers::Numbers;
use super::obj_ref::Body;
use super::storage::Storage;
use super::{ObjRef, Object};
use crate::epoch::{self, Guard};
use crate::percpu::{Counter, PerCpuCounters};
use crate::primitive::Backoff;
use std::ops::Range;
use std::ptr::NonNull;

/// A concurrent table of objects, by number.
///
/// Numbers come from per-core blocks of [`BLOCK`](super::BLOCK) and come back with the next
/// generation, so a number and its generation together never name two objects.
///
/// Dropping the table drops its objects, except those with references: they are leaked, with the
/// memory that the table stores its objects in, rather than freed under their holder.
pub struct Table<T: Send + Sync + 'static> {
    /// The objects. Stored by `insert`, `insert_at` and `restore`, cleared by evictors. Freed by
    /// the drop.
    pub(super) storage: Storage<T>,
    /// Free numbers.
    numbers: Numbers,
    /// The number of objects.
    count: Counter,
}

/// The reason why an object could not be stored at a given number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableError {
    /// The number has an object.
    Occupied {
        /// The number.
        number: u64,
    },
    /// The number has an object of another generation.
    OtherGeneration {
        /// The number.
        number: u64,
        /// The generation of the object that is there.
        found: u32,
    },
}

impl<T: Send + Sync + 'static> Table<T> {
    /// An empty table that gives out numbers from `first_number` on.
    pub fn new(first_number: u64) -> Table<T> {
        Table::with_pages(first_number, true)
    }

    /// As [`Table::new`], for few of many objects at a time: it takes no huge pages, so that a few
    /// objects with numbers far apart take little memory.
    pub fn sparse(first_number: u64) -> Table<T> {
        Table::with_pages(first_number, false)
    }

    fn with_pages(first_number: u64, is_huge: bool) -> Table<T> {
        Table {
            storage: Storage::new(is_huge),
            numbers: Numbers::new(first_number),
            count: Counter::new(),
        }
    }

    /// Gives back the memory of blocks of numbers that have no object, of those in `numbers`;
    /// objects may be stored there again at any time. Objects that were evicted a moment ago may
    /// still keep their block.
    pub fn trim(&self, numbers: Range<u64>, g: &Guard) {
        self.storage.trim(numbers, g);
    }

    /// Bytes of the blocks of memory in which objects lie, also where few of a block's are left.
    pub fn bytes(&self) -> usize {
        self.storage.entries.leaves_bytes()
    }

    /// The object with `number`, if there is one. Writes nothing.
    ///
    /// It may be evicted at any time; it stays readable as long as the guard.
    #[inline]
    pub fn get<'g>(&self, number: u64, _g: &'g Guard) -> Option<&'g Object<T>> {
        let object = self.storage.entries.load(number);
        // SAFETY: entries return live objects or null. A thread that clears one, the table's drop
        // included, retires the object through the epoch, which waits for the guard, and the
        // storage goes through the epoch too.
        unsafe { object.as_ref() }
    }

    /// A reference to the object with `number`; `None` if there is none or it is dead.
    #[inline]
    pub fn hold(&self, number: u64, g: &Guard) -> Option<ObjRef<T>> {
        self.get(number, g)?.hold()
    }

    /// Stores the value that `make` creates for a new number and its generation.
    pub fn insert(&self, make: impl FnOnce(u64, u32) -> T) -> ObjRef<T> {
        self.insert_prepared(make, |_| {}, &epoch::pin())
    }

    /// [`Table::insert`] by a caller that is pinned, since entries may leave the tree; `prepare`
    /// sees the value in its place, before anybody else does.
    // Always inlined, as what it calls: the object is then made in the memory where it stays.
    #[inline(always)]
    pub fn insert_prepared(
        &self,
        make: impl FnOnce(u64, u32) -> T,
        prepare: impl FnOnce(&T),
        _g: &Guard,
    ) -> ObjRef<T> {
        loop {
            let (new, next) = self.numbers.take_and_peek();
            // The memory of an object that died a while ago is in no cache any more. The memory of
            // the next number is fetched while this object is created.
            if let Some(soon) = next.and_then(|next| self.storage.entries.find(next)) {
                soon.prefetch();
            }
            let entry = self.storage.entries.find_or_grow(new.0);
            let room = match entry.claim() {
                Ok(room) => room,
                // A number that was filled by `insert_at` or `restore` is skipped.
                Err(NoRoom::Taken) => continue,
                Err(NoRoom::Elsewhere) => Room::elsewhere(entry),
            };
            // Once in the code: only so are the closures a part of it.
            return match room.fill(new, make, prepare) {
                // SAFETY: it is new, and its reference belongs to this function.
                Ok(object) => unsafe { self.counted(object) },
                Err(made) => self.insert_made(new.0, made),
            };
        }
    }

    /// Stores a new object that does not lie in the entry of its number.
    #[cold]
    #[inline(never)]
    fn insert_made(&self, number: u64, made: Body<T>) -> ObjRef<T> {
        let entry = self.storage.entries.find_or_grow(number);
        let stored = self.publish(entry, number, made);
        stored.unwrap_or_else(|_| filled_by_another(number))
    }

    /// Begins life number `life` of the numbers, before the first object is inserted. A number and
    /// its generation together then never name two objects over all lives, even if it is forgotten
    /// which numbers the lives before have used.
    pub fn begin_life(&self, life: u32) {
        self.numbers.begin_life(life);
    }

    /// Allocates no number up to `number` from now on, except from blocks that cores have taken
    /// already. The objects of these numbers have a place outside of the table.
    pub fn skip_past(&self, number: u64) {
        self.numbers.skip_past(number);
    }

    /// Reserves a number for [`Table::insert_at`]; returns it with its generation.
    pub fn reserve(&self) -> (u64, u32) {
        self.numbers.take()
    }

    /// Frees a number that was reserved, or that was evicted and is now gone for good, with the
    /// last generation it had. The next object there has the generation after it.
    pub fn release(&self, number: u64, generation: u32) {
        self.numbers.give(number, generation);
    }

    /// Stores an object at a number that [`Table::reserve`] returned, or that the table never
    /// allocates because it lies below its first number.
    pub fn insert_at(
        &self,
        number: u64,
        generation: u32,
        make: impl FnOnce(u64, u32) -> T,
    ) -> Result<ObjRef<T>, TableError> {
        let _g = epoch::pin();
        let entry = self.storage.entries.find_or_grow(number);
        if !entry.load().is_null() {
            return Err(TableError::Occupied { number });
        }
        let made = Body::held(number, generation, make(number, generation));
        self.publish(entry, number, made)
            .map_err(|_| TableError::Occupied { number })
    }

    /// Brings an evicted object back, or finds that another thread just did. The counters are
    /// correct before any other thread sees the object, if `make` adds to the counters that it is
    /// given.
    ///
    /// Two concurrent restores return the same object; the flag is true for the one that created
    /// it.
    pub fn restore(
        &self,
        number: u64,
        generation: u32,
        make: impl FnOnce(u64, u32, &PerCpuCounters<SLOTS>) -> T,
    ) -> Result<(ObjRef<T>, bool), TableError> {
        let _g = epoch::pin();
        let entry = || self.storage.entries.find_or_grow(number);
        if let Some(held) = self.hold_existing(entry(), number, generation)? {
            return Ok((held, false));
        }
        let make = |percpu: &_| make(number, generation, percpu);
        let mut made = Body::made(number, generation, make);
        loop {
            made = match self.publish(entry(), number, made) {
                Ok(held) => return Ok((held, true)),
                Err(made) => made,
            };
            // The value that lost the race is dropped, and the other is taken.
            if let Some(held) = self.hold_existing(entry(), number, generation)? {
                return Ok((held, false));
            }
        }
    }

    /// Evicts an object that has no reference, for good: it leaves the table now and is dropped
    /// later, and its number comes back with the next generation.
    ///
    /// False if it has a reference (the thread that releases that one asks again), or if another
    /// thread evicted it. Before it looks for references it has a full fence: the partner of
    /// [`ObjRef::release_and_fence`].
    pub fn retire(&self, object: &Object<T>, g: &Guard) -> bool {
        let (number, generation) = (object.number(), object.generation());
        let ended = self.try_evict(object, g);
        if ended {
            self.numbers.give(number, generation);
        }
        ended
    }

    /// Like [`Table::retire`], with its fence, but the number stays taken: the object can be
    /// restored.
    pub fn evict(&self, object: &Object<T>, g: &Guard) -> bool {
        self.try_evict(object, g)
    }

    /// Calls `visit` for the objects from number `from` on, in the order of their numbers, until it
    /// returns false. Objects that are added or removed meanwhile may be missed.
    pub fn scan(&self, from: u64, _g: &Guard, mut visit: impl FnMut(&Object<T>) -> bool) {
        self.storage.entries.scan(from, |entry| {
            // SAFETY: as in `get`; the guard outlives this call.
            let object = unsafe { entry.load().as_ref() };
            object.is_none_or(|object| object.is_dead() || visit(object))
        });
    }

    /// The number of objects: a sum over the cores.
    pub fn len(&self) -> usize {
        usize::try_from(self.count.sum()).unwrap_or(0)
    }

    /// True if there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores a new object with one reference in `entry`, that of `number`; returns it if the entry
    /// has one. The caller is pinned.
    // Always inlined: see `Entry::fill`.
    #[inline(always)]
    fn publish<'a>(
        &'a self,
        mut entry: Entry<'a, T>,
        number: u64,
        mut body: Body<T>,
    ) -> Result<ObjRef<T>, Body<T>> {
        let backoff = Backoff::new();
        let object = loop {
            match entry.fill(body) {
                Ok(object) => break object,
                Err(NotFilled::Taken(body)) => return Err(body),
                Err(NotFilled::Gone(same)) => {
                    body = same;
                    backoff.snooze();
                    entry = self.storage.entries.find_or_grow(number);
                }
            }
        };
        // SAFETY: it is new, and its reference belongs to this function.
        Ok(unsafe { self.counted(object) })
    }

    /// Counts an object that was stored just now.
    ///
    /// # Safety
    ///
    /// Its one reference belongs to the caller, who passes it to the result.
    #[inline(always)]
    unsafe fn counted(&self, object: NonNull<Object<T>>) -> ObjRef<T> {
        self.count.add(1);
        // SAFETY: as the caller promises.
        unsafe { ObjRef::from_counted(object) }
    }

    /// Takes a reference to the object in `entry`; `None` once there is none.
    fn hold_existing(
        &self,
        entry: Entry<'_, T>,
        number: u64,
        generation: u32,
    ) -> Result<Option<ObjRef<T>>, TableError> {
        let backoff = Backoff::new();
        loop {
            let g = epoch::pin();
            // SAFETY: as in `get`; the guard lives until the end of the round.
            let Some(other) = (unsafe { entry.load().as_ref() }) else {
                return Ok(None);
            };
            if other.generation() != generation && !other.is_dead() {
                let found = other.generation();
                return Err(TableError::OtherGeneration { number, found });
            }
            if let Some(held) = other.hold() {
                return Ok(Some(held));
            }
            // Dead: the thread that evicted it is about to clear the entry.
            drop(g);
            backoff.snooze();
        }
    }

    fn try_evict(&self, object: &Object<T>, g: &Guard) -> bool {
        if !object.try_evict() {
            return false;
        }
        let entry = self.storage.entries.find(object.number());
        // SAFETY: the object was ended just now, which succeeds once.
        let cleared = entry.and_then(|entry| Some((entry, unsafe { entry.clear(object) }?)));
        let (entry, object) = cleared.expect("an object is ended through the table that it is in");
        self.count.add(-1);
        // SAFETY: the object has no reference and will get none, and it was cleared just now. The
        // table frees its storage as asked.
        unsafe { self.storage.retire(entry, object, g) };
        true
    }
}

#[cold]
#[inline(never)]
fn filled_by_another(number: u64) -> ! {
    panic!("number {number} was filled while `insert` owned it")
}

impl<T: Send + Sync + 'static> Drop for Table<T> {
    fn drop(&mut self) {
        let g = epoch::pin();
        let storage = &self.storage;
        let mut is_held = false;
        storage.entries.scan(0, |entry| {
            let object = entry.load();
            // SAFETY: entries return live objects, and no other thread clears one during a drop.
            let is_ended = unsafe { &*object }.try_evict();
            // SAFETY: it was ended just now, which succeeds once.
            if let Some(object) = is_ended.then(|| unsafe { entry.clear(object) }).flatten() {
                // SAFETY: no reference is left, and it was cleared just now. Readers that found it
                // before hold guards.
                unsafe { storage.retire(entry, object, &g) };
            }
            is_held |= !is_ended;
            true
        });
        if !is_held {
            // SAFETY: nobody uses it after the drop.
            unsafe { storage.free(&g) };
        }
        // The dropping thread may not use the epoch again for long, and this was much memory.
        g.flush();
    }
}

impl<T: Send + Sync + 'static> std::fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TableError::Occupied { number } => write!(f, "number {number} is taken"),
            TableError::OtherGeneration { number, found } => {
                write!(f, "number {number} is taken by generation {found}")
            }
        }
    }
}

impl std::error::Error for TableError {}
