//! Objects by number.

use super::held::Body;
use super::numbers::Numbers;
use super::place::Place;
use super::refs::LANES;
use super::storage::Storage;
use super::{Held, Object};
use crate::epoch::{self, Guard};
use crate::primitive::Backoff;
use crate::spread::{Counter, Spread};

/// Objects by number.
///
/// Numbers come from per-core blocks of [`BLOCK`](super::BLOCK) and come back with the next
/// generation, so a number and its generation together never name two objects.
///
/// Dropping the table drops its objects, except those that somebody holds: they are leaked, with
/// the memory that the table kept its objects in, rather than freed under their holder.
pub struct Table<T: Send + Sync + 'static> {
    /// Objects, put by whoever makes them and cleared by whoever ended them. Freed by the drop.
    pub(super) storage: Storage<T>,
    /// Free numbers.
    numbers: Numbers,
    /// How many objects there are.
    count: Counter,
}

/// Why an object could not be put at a fixed number.
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
        Table {
            storage: Storage::new(),
            numbers: Numbers::new(first_number),
            count: Counter::new(),
        }
    }

    /// The object with `number`, if there is one. Writes nothing.
    ///
    /// It may be ended at any time; it stays readable as long as the guard.
    #[inline]
    pub fn get<'g>(&self, number: u64, _g: &'g Guard) -> Option<&'g Object<T>> {
        let object = self.storage.places.find(number)?.load();
        // SAFETY: places answer live objects or null. Whoever clears one, the table's drop
        // included, retires it through the epoch, which waits for the guard, and the storage
        // goes through the epoch too.
        unsafe { object.as_ref() }
    }

    /// A reference to the object with `number`; `None` if there is none or it is dead.
    #[inline]
    pub fn hold(&self, number: u64, g: &Guard) -> Option<Held<T>> {
        self.get(number, g)?.hold()
    }

    /// Puts what `make` makes of a new number and its generation into the table.
    pub fn insert(&self, make: impl FnOnce(u64, u32) -> T) -> Held<T> {
        loop {
            let ((number, generation), next) = self.numbers.take_ahead();
            // The memory of an object that ended a while ago is in no cache any more; that of the
            // next one comes while this one is made.
            if let Some(soon) = next.and_then(|next| self.storage.places.find(next)) {
                soon.prefetch();
            }
            let place = self.storage.places.reach(number);
            // A number that was filled by `insert_at` or `restore` is passed over.
            if place.is_vacant() {
                let made = Body::held(number, generation, make(number, generation));
                return self.publish(place, made).unwrap_or_else(|_| {
                    panic!("number {number} was filled while `insert` owned it")
                });
            }
        }
    }

    /// Gives out no number up to `number` from now on, but for those of blocks that cores have
    /// taken: what lies there has a place outside of the table.
    pub fn pass(&self, number: u64) {
        self.numbers.pass(number);
    }

    /// Takes a number for [`Table::insert_at`], with its generation.
    pub fn reserve(&self) -> (u64, u32) {
        self.numbers.take()
    }

    /// Gives back a number that was reserved, or evicted and is now gone for good, with the last
    /// generation it had. The next object there has the generation after.
    pub fn release(&self, number: u64, generation: u32) {
        self.numbers.give(number, generation);
    }

    /// Puts an object at a number that [`Table::reserve`] gave, or that the table never gives out
    /// because it lies below its first number.
    pub fn insert_at(
        &self,
        number: u64,
        generation: u32,
        make: impl FnOnce(u64, u32) -> T,
    ) -> Result<Held<T>, TableError> {
        let place = self.storage.places.reach(number);
        if !place.load().is_null() {
            return Err(TableError::Occupied { number });
        }
        let made = Body::held(number, generation, make(number, generation));
        self.publish(place, made)
            .map_err(|_| TableError::Occupied { number })
    }

    /// Brings an evicted object back, or finds that another thread just did. What is counted of it
    /// is there before anybody sees it, if `make` adds it to the words that it is given.
    ///
    /// Of two concurrent restores both get the same object, and the one whose object it is is told
    /// so.
    pub fn restore(
        &self,
        number: u64,
        generation: u32,
        make: impl FnOnce(u64, u32, &Spread<LANES>) -> T,
    ) -> Result<(Held<T>, bool), TableError> {
        let place = self.storage.places.reach(number);
        if let Some(held) = self.hold_other(place, number, generation)? {
            return Ok((held, false));
        }
        let make = |shares: &_| make(number, generation, shares);
        let mut made = Body::made(number, generation, make);
        loop {
            made = match self.publish(place, made) {
                Ok(held) => return Ok((held, true)),
                Err(made) => made,
            };
            // The value that came too late is dropped, and the other is taken.
            if let Some(held) = self.hold_other(place, number, generation)? {
                return Ok((held, false));
            }
        }
    }

    /// Ends an object that nobody holds: it leaves the table now and is dropped later, and its
    /// number comes back with the next generation.
    ///
    /// False if somebody holds it (whoever gives that reference up asks again) or if another
    /// thread ended it.
    pub fn retire(&self, object: &Object<T>, g: &Guard) -> bool {
        let (number, generation) = (object.number(), object.generation());
        let ended = self.end(object, g);
        if ended {
            self.numbers.give(number, generation);
        }
        ended
    }

    /// Like [`Table::retire`], but the number stays taken: the object can be restored.
    pub fn evict(&self, object: &Object<T>, g: &Guard) -> bool {
        self.end(object, g)
    }

    /// Shows the objects from number `from` on to `see`, in the order of their numbers, until it
    /// returns false. Objects that come or go meanwhile may or may not be seen.
    pub fn scan(&self, from: u64, _g: &Guard, mut see: impl FnMut(&Object<T>) -> bool) {
        self.storage.places.scan(from, |place| {
            // SAFETY: as in `get`; the guard outlives this call.
            let object = unsafe { place.load().as_ref() };
            object.is_none_or(|object| object.is_dead() || see(object))
        });
    }

    /// How many objects there are: a sum over the cores.
    pub fn len(&self) -> usize {
        usize::try_from(self.count.sum()).unwrap_or(0)
    }

    /// True if there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a new object with one reference into `place`; gives it back if there is one.
    fn publish(&self, place: Place<'_, T>, body: Body<T>) -> Result<Held<T>, Body<T>> {
        let object = place.fill(body)?;
        self.count.add(1);
        // SAFETY: a new object has one reference, made for us.
        Ok(unsafe { Held::from_counted(object) })
    }

    /// Holds what is in `place`; `None` once there is nothing.
    fn hold_other(
        &self,
        place: Place<'_, T>,
        number: u64,
        generation: u32,
    ) -> Result<Option<Held<T>>, TableError> {
        let backoff = Backoff::new();
        loop {
            let g = epoch::pin();
            // SAFETY: as in `get`; the guard lives until the end of the round.
            let Some(other) = (unsafe { place.load().as_ref() }) else {
                return Ok(None);
            };
            if other.generation() != generation && !other.is_dead() {
                let found = other.generation();
                return Err(TableError::OtherGeneration { number, found });
            }
            if let Some(held) = other.hold() {
                return Ok(Some(held));
            }
            // Dead: whoever ended it is about to clear the place.
            drop(g);
            backoff.snooze();
        }
    }

    fn end(&self, object: &Object<T>, g: &Guard) -> bool {
        if !object.kill() {
            return false;
        }
        let place = self.storage.places.find(object.number());
        let cleared = place.and_then(|place| Some((place, place.clear(object)?)));
        let (place, object) = cleared.expect("an object is ended through the table that it is in");
        self.count.add(-1);
        // SAFETY: the object has no reference and will get none, and it was cleared just now; the
        // table frees its storage as asked.
        unsafe { self.storage.retire(place, object, g) };
        true
    }
}

impl<T: Send + Sync + 'static> Drop for Table<T> {
    fn drop(&mut self) {
        let g = epoch::pin();
        let storage = &self.storage;
        let mut is_held = false;
        storage.places.scan(0, |place| {
            let object = place.load();
            // SAFETY: places answer live objects, and nobody clears one during a drop.
            let is_ended = unsafe { &*object }.kill();
            if let Some(object) = is_ended.then(|| place.clear(object)).flatten() {
                // SAFETY: no reference is left, and it was cleared just now. Readers that found it
                // before hold guards.
                unsafe { storage.retire(place, object, &g) };
            }
            is_held |= !is_ended;
            true
        });
        if !is_held {
            // SAFETY: nobody uses it after the drop.
            unsafe { storage.free(&g) };
        }
        // Whoever ends a table may have nothing more to do for long, and it was much memory.
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
