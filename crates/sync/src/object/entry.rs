//! The place of a number: room for one object, and the word that says what the number means.
//!
//! Objects lie in their places, so that a lookup goes from the tree straight to the object. Only a
//! number that gets an object again before the memory of its last one is free (somebody may still
//! read that under a guard) has its object on the heap.
//!
//! The word, in the first line of the place, which whoever looks the number up reads anyway:
//!
//! | word | the number means | the room |
//! |---|---|---|
//! | 0 | nothing | is free |
//! | [`INLINE_USED`] | nothing | is being filled, or waits for its last readers |
//! | this place, [`INLINE_USED`] | the object in the room | is in use |
//! | an address | an object on the heap | is free |
//! | an address, [`INLINE_USED`] | an object on the heap | waits for its last readers |
//!
//! The upper bits are filled from null by one and cleared by one; [`INLINE_USED`] is set by whoever fills
//! the room and cleared by whoever emptied it.
//!
//! | who | does | ordering | partner |
//! |---|---|---|---|
//! | reader | load | Acquire | the publishing exchange: the object is complete |
//! | filler | takes the room | Acquire | its release: the last object is gone |
//! | filler | publishes the object | Release | readers |
//! | ender | clears the upper bits | AcqRel | what was published; the next object comes after |
//! | reclaimer | releases the room | Release | the next filler |

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::obj_ref::{Body, Object, Word};
use crate::primitive::atomic::Ordering;
use crate::primitive::prefetch;

/// The room of the place is not free.
const INLINE_USED: usize = 1;

/// The place of one number, in a tree that lives as long as `'a`.
pub(super) struct Entry<'a, T> {
    /// Its word is initialised; the rest is while an object lies in it.
    at: NonNull<Object<T>>,
    _tree: PhantomData<&'a Object<T>>,
}

impl<T> Clone for Entry<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entry<'_, T> {}

impl<'a, T> Entry<'a, T> {
    /// # Safety
    ///
    /// Room for an object at `at`, its word initialised, lives as long as `'a` and is used through
    /// places only.
    #[inline]
    pub(super) unsafe fn new(at: NonNull<Object<T>>) -> Entry<'a, T> {
        Entry {
            at,
            _tree: PhantomData,
        }
    }

    /// The object of the number, or null.
    #[inline]
    pub(super) fn load(self) -> *mut Object<T> {
        // Acquire: see the table above.
        address(self.word().load(Ordering::Acquire))
    }

    /// Whether the number means nothing, asked by who is about to fill it and nobody else can.
    ///
    /// Asked with a write that changes nothing: were memory that nobody has touched read first, the
    /// kernel would map its page of zeros there, and have to take it away again, on all cores, for
    /// the write that follows.
    #[inline]
    pub(super) fn is_vacant(self) -> bool {
        let nothing = ptr::null_mut();
        // Relaxed: nothing is read through the word.
        let changed =
            (self.word()).compare_exchange(nothing, nothing, Ordering::Relaxed, Ordering::Relaxed);
        changed.map_or_else(|found| address(found).is_null(), |_| true)
    }

    /// Says that the room will soon be filled.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.at.as_ptr());
    }

    /// Gives the number its object; gives it back if the number has one.
    pub(super) fn fill(self, body: Body<T>) -> Result<NonNull<Object<T>>, Body<T>> {
        let free = ptr::null_mut();
        let taken = tagged(free);
        let word = self.word();
        // Acquire and Relaxed: see the table above; on failure nothing was read yet.
        match word.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {}
            Err(found) if found == taken => return self.fill_boxed(body),
            Err(_) => return Err(body),
        }
        let room = Object::body_of(self.at);
        // SAFETY: whoever takes the room has it alone until the object in it is ended.
        unsafe { room.write(body) };
        let mine = tagged(self.at.as_ptr());
        // Release: see the table above. Relaxed on failure: the other object is not looked at.
        match word.compare_exchange(taken, mine, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(self.at),
            Err(_) => {
                // SAFETY: it was written above and never published.
                let body = unsafe { room.read() };
                self.release_inline();
                Err(body)
            }
        }
    }

    /// The same on the heap, while the room waits for readers of the last object.
    #[cold]
    fn fill_boxed(self, body: Body<T>) -> Result<NonNull<Object<T>>, Body<T>> {
        let object = Box::into_raw(Box::new(Object::boxed(body)));
        // Release: see the table above.
        let done = self.change(Ordering::Release, |word| {
            address(word).is_null().then(|| with_address(word, object))
        });
        if done.is_none() {
            // SAFETY: it was made above and never published.
            let object = unsafe { Box::from_raw(object) };
            return Err(object.into_body());
        }
        Ok(NonNull::new(object).expect("a box has an address"))
    }

    /// Makes the number mean nothing if it means `object`, and answers the object, which may be
    /// used where a reference to it may not.
    pub(super) fn clear(self, object: *const Object<T>) -> Option<NonNull<Object<T>>> {
        // AcqRel: see the table above.
        let cleared = self.change(Ordering::AcqRel, |word| {
            ptr::eq(address(word), object).then(|| with_address(word, ptr::null_mut()))
        });
        cleared.and_then(|word| NonNull::new(address(word)))
    }

    /// Whether the object lies in this place.
    pub(super) fn holds_inline(self, object: NonNull<Object<T>>) -> bool {
        self.at == object
    }

    /// Drops the object in the room and makes the room free, also if the drop panics.
    ///
    /// # Safety
    ///
    /// The object was cleared, and nobody can reach it any more.
    pub(super) unsafe fn drop_inline(self) {
        let _emptied = ReleaseOnDrop(self);
        // SAFETY: the caller has the object alone; its word is no part of what is dropped.
        unsafe { Object::body_of(self.at).drop_in_place() };
    }

    fn release_inline(self) {
        // Release: see the table above.
        self.change(Ordering::Release, |word| {
            Some(word.map_addr(|bits| bits & !INLINE_USED))
        });
    }

    #[inline]
    fn word(self) -> &'a Word<T> {
        // SAFETY: the word of a place is always initialised, and lives as long as the tree.
        unsafe { &*Object::word_of(self.at) }
    }

    /// Changes the word to what `next` makes of it, until that is nothing; answers what it was.
    fn change(
        self,
        ordering: Ordering,
        next: impl Fn(*mut Object<T>) -> Option<*mut Object<T>>,
    ) -> Option<*mut Object<T>> {
        let word = self.word();
        // Relaxed: the exchange decides, and a failed one follows nothing.
        let mut found = word.load(Ordering::Relaxed);
        loop {
            match word.compare_exchange(found, next(found)?, ordering, Ordering::Relaxed) {
                Ok(_) => return Some(found),
                Err(other) => found = other,
            }
        }
    }
}

/// Releases the room at its end, however that comes.
struct ReleaseOnDrop<'a, T>(Entry<'a, T>);

impl<T> Drop for ReleaseOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.release_inline();
    }
}

#[inline]
fn address<T>(word: *mut T) -> *mut T {
    word.map_addr(|bits| bits & !INLINE_USED)
}

fn tagged<T>(word: *mut T) -> *mut T {
    word.map_addr(|bits| bits | INLINE_USED)
}

/// `word` with another address and the same tag.
fn with_address<T>(word: *mut T, to: *mut T) -> *mut T {
    to.map_addr(|bits| bits | word.addr() & INLINE_USED)
}
