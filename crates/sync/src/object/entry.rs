//! A table entry: memory for one object, and the word that says what the number means.
//!
//! Objects are stored inline in their entries, so a lookup goes from the tree straight to the
//! object. Only a number that gets a new object before the memory of its last one is free (a reader
//! may still use that under a guard) has its object on the heap.
//!
//! The word lies in the first cache line of the entry, which every lookup reads anyway:
//!
//! | word | the number means | the inline memory |
//! |---|---|---|
//! | 0 | nothing | is free |
//! | [`INLINE_USED`] | nothing | is being filled, or waits for its last readers |
//! | this entry, [`INLINE_USED`] | the object in the inline memory | is in use |
//! | an address | an object on the heap | is free |
//! | an address, [`INLINE_USED`] | an object on the heap | waits for its last readers |
//! | [`GONE`] | nothing | is being given back: the number gets another entry |
//!
//! The upper bits are filled from null by one thread and cleared by one. [`INLINE_USED`] is set by
//! the thread that fills the inline memory and cleared by the thread that has emptied it.
//!
//! | who | does | ordering | partner |
//! |---|---|---|---|
//! | reader | load | Acquire | the publishing exchange: the object is complete |
//! | filler | sets `INLINE_USED` | Acquire | its release: the last object is gone |
//! | filler | publishes the object | Release | readers |
//! | evictor | clears the upper bits | Acquire, Release | what was published; the next object |
//! | reclaimer | clears `INLINE_USED` | Release | the next filler, who takes the leaf back |
//! | who takes a leaf back | 0 to [`GONE`] | Acquire | the reclaimer: the last object is gone |

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::obj_ref::{Body, Object, Word};
use crate::primitive::atomic::Ordering;
use crate::primitive::prefetch;

/// The inline memory is not free.
const INLINE_USED: usize = 1;
/// The leaf with this entry leaves the tree. Only ever alone in a word, and final, unless who set
/// it finds that another entry of the leaf is in use.
const GONE: usize = 2;
const TAGS: usize = INLINE_USED | GONE;

/// Why an object could not be stored. Gives back what was to be stored.
pub(super) enum NotFilled<T> {
    /// The number has an object.
    Taken(Body<T>),
    /// The entry is no longer the number's: it is looked up again.
    Gone(Body<T>),
}

/// Why the inline memory cannot be claimed.
#[derive(Debug)]
pub(super) enum NoRoom {
    /// The number has an object.
    Taken,
    /// The number means nothing, but its object has to lie elsewhere: readers may still use the
    /// last one here, or this is no longer the number's entry.
    Elsewhere,
}

/// Memory for an object: that of an entry, claimed and given back on drop, also when unwinding; or,
/// where that is not free, some in which the object is made all the same.
pub(super) struct Room<'a, T> {
    entry: Entry<'a, T>,
    elsewhere: Option<Box<MaybeUninit<Body<T>>>>,
}

/// The entry of one number, in a tree that lives as long as `'a`.
pub(super) struct Entry<'a, T> {
    /// The word is initialised; the rest is only while an object is stored there.
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
    /// Memory for an object at `at`, its word initialised, lives as long as `'a` and is used
    /// through entries only.
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

    /// Claims the inline memory for the next object of the number, which the caller alone may fill
    /// unless somebody stores an object at this very number.
    ///
    /// Nothing is read before: a plain read of memory that nobody has touched would map the
    /// kernel's page of zeros, which the write that follows would have to take away again on all
    /// cores.
    #[inline(always)]
    pub(super) fn claim(self) -> Result<Room<'a, T>, NoRoom> {
        let free = ptr::null_mut();
        // Acquire and Relaxed: see the table above; on failure nothing was read yet.
        match self
            .word()
            .compare_exchange(free, tagged(free), Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Ok(Room {
                entry: self,
                elsewhere: None,
            }),
            Err(found) if address(found).is_null() => Err(NoRoom::Elsewhere),
            Err(_) => Err(NoRoom::Taken),
        }
    }

    /// Prefetches the memory, which will soon be filled.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.at.as_ptr());
    }

    /// Stores the number's object; returns it if that cannot be done here.
    // Always inlined: the object is then made where it stays, or copied once.
    #[inline(always)]
    pub(super) fn fill(self, body: Body<T>) -> Result<NonNull<Object<T>>, NotFilled<T>> {
        let free = ptr::null_mut();
        let taken = tagged(free);
        let word = self.word();
        // Acquire and Relaxed: see the table above; on failure nothing was read yet.
        match word.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {}
            Err(found) if found == taken => return self.fill_boxed(body),
            Err(found) => return Err(not_filled(found, body)),
        }
        // SAFETY: the thread that set `INLINE_USED` has the memory alone until the object in it is
        // dead.
        unsafe { Object::body_of(self.at).write(body) };
        self.publish().map_err(NotFilled::Taken)
    }

    /// Publishes the object that the caller has written to the inline memory, which it has claimed;
    /// returns it if the number has another one by now.
    #[inline(always)]
    fn publish(self) -> Result<NonNull<Object<T>>, Body<T>> {
        let (taken, mine) = (tagged(ptr::null_mut()), tagged(self.at.as_ptr()));
        // Release: see the table above. Relaxed on failure: the other object is not looked at.
        match (self.word()).compare_exchange(taken, mine, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(self.at),
            Err(_) => {
                // SAFETY: the caller has written it, and it was never published.
                let body = unsafe { Object::body_of(self.at).read() };
                self.release_inline();
                Err(body)
            }
        }
    }

    /// Stores the object on the heap, because the inline memory still waits for readers of the last
    /// object.
    #[cold]
    fn fill_boxed(self, body: Body<T>) -> Result<NonNull<Object<T>>, NotFilled<T>> {
        let object = Box::into_raw(Box::new(Object::boxed(body)));
        // Release: see the table above.
        let met = Cell::new(ptr::null_mut());
        let done = self.change(Ordering::Release, |word| {
            met.set(word);
            let is_free = address(word).is_null() && !is_gone(word);
            is_free.then(|| with_address(word, object))
        });
        if done.is_none() {
            // SAFETY: it was made above and never published.
            let object = unsafe { Box::from_raw(object) };
            return Err(not_filled(met.get(), object.into_body()));
        }
        Ok(NonNull::new(object).expect("a box has an address"))
    }

    /// Makes the number mean nothing if it means `object`. Returns the object as a pointer, which
    /// may be used where a reference to it may not.
    ///
    /// # Safety
    ///
    /// The caller is the one who has ended the object, and clears it once.
    #[inline]
    pub(super) unsafe fn clear(self, object: *const Object<T>) -> Option<NonNull<Object<T>>> {
        let mine = tagged(self.at.as_ptr());
        // Acquire: see the table above.
        if ptr::eq(object, self.at.as_ptr()) && self.word().load(Ordering::Acquire) == mine {
            // A store is enough. Whoever fills needs a word without an address; `INLINE_USED`
            // belongs to this very object, so nobody else clears it; and the caller is the only one
            // who clears the address.
            // Release: see the table above.
            self.word()
                .store(tagged(ptr::null_mut()), Ordering::Release);
            return Some(self.at);
        }
        self.clear_elsewhere(object)
    }

    /// [`Entry::clear`] of an object on the heap: meanwhile the inline memory may become free.
    #[cold]
    fn clear_elsewhere(self, object: *const Object<T>) -> Option<NonNull<Object<T>>> {
        // AcqRel: see the table above.
        let cleared = self.change(Ordering::AcqRel, |word| {
            ptr::eq(address(word), object).then(|| with_address(word, ptr::null_mut()))
        });
        cleared.and_then(|word| NonNull::new(address(word)))
    }

    /// Whether the number means nothing and the memory is free: a hint.
    pub(super) fn is_free(self) -> bool {
        // Relaxed: nothing is read through the word.
        self.word().load(Ordering::Relaxed).is_null()
    }

    /// Lets nobody fill the entry any more, if it is free.
    pub(super) fn take_back(self) -> bool {
        let (free, gone) = (
            ptr::null_mut(),
            ptr::null_mut::<Object<T>>().map_addr(|_| GONE),
        );
        // Acquire: see the table above. Relaxed on failure: nothing is read.
        let taken =
            (self.word()).compare_exchange(free, gone, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    /// Undoes [`Entry::take_back`] by the same thread.
    pub(super) fn leave(self) {
        // Relaxed: nothing was changed meanwhile, and nobody else changes a word that is `GONE`.
        self.word().store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether the object is stored inline in this entry.
    pub(super) fn holds_inline(self, object: NonNull<Object<T>>) -> bool {
        self.at == object
    }

    /// Drops the inline object and frees its memory, also if the drop panics.
    ///
    /// # Safety
    ///
    /// The object was cleared from the entry, and nobody can reach it any more.
    pub(super) unsafe fn drop_inline(self) {
        let _emptied = ReleaseOnDrop(self);
        // SAFETY: the caller has the object alone; the word is not part of what is dropped.
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
        // SAFETY: the word of an entry is always initialised, and lives as long as the tree.
        unsafe { &*Object::word_of(self.at) }
    }

    /// Replaces the word by `next` of it until `next` returns `None`; returns the old word.
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

impl<'a, T> Room<'a, T> {
    /// Memory outside of the entry.
    #[cold]
    #[inline(never)]
    pub(super) fn elsewhere(entry: Entry<'a, T>) -> Room<'a, T> {
        Room {
            entry,
            elsewhere: Some(Box::new_uninit()),
        }
    }

    /// Makes an object in its place, with one reference, and publishes it. `prepare` sees it before
    /// anybody else. Returns it if its place is not the entry, or if another thread has stored an
    /// object at its number meanwhile.
    // Always inlined: the object is then made where it stays.
    #[inline(always)]
    pub(super) fn fill(
        mut self,
        (number, generation): (u64, u32),
        make: impl FnOnce(u64, u32) -> T,
        prepare: impl FnOnce(&T),
    ) -> Result<NonNull<Object<T>>, Body<T>> {
        let body = match &mut self.elsewhere {
            None => Object::body_of(self.entry.at),
            Some(memory) => memory.as_mut_ptr(),
        };
        // SAFETY: who has claimed the memory has it alone until the object in it is dead.
        unsafe { Body::write_held(body, (number, generation), || make(number, generation)) };
        let made = Made(body);
        // SAFETY: it was written just now, and nobody else knows it.
        prepare(unsafe { (&*body).value() });
        std::mem::forget(made);
        if self.elsewhere.is_some() {
            // SAFETY: it was written just now, and its memory is freed without it.
            return Err(unsafe { body.read() });
        }
        let entry = self.entry;
        std::mem::forget(self);
        entry.publish()
    }
}

impl<T> Drop for Room<'_, T> {
    fn drop(&mut self) {
        if self.elsewhere.is_none() {
            self.entry.release_inline();
        }
    }
}

/// An object that nobody else knows. Dropped with this, when unwinding.
struct Made<T>(*mut Body<T>);

impl<T> Drop for Made<T> {
    fn drop(&mut self) {
        // SAFETY: it was made and never published.
        unsafe { self.0.drop_in_place() };
    }
}

/// Clears `INLINE_USED` on drop, also when unwinding.
struct ReleaseOnDrop<'a, T>(Entry<'a, T>);

impl<T> Drop for ReleaseOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.release_inline();
    }
}

#[inline]
fn address<T>(word: *mut T) -> *mut T {
    word.map_addr(|bits| bits & !TAGS)
}

fn is_gone<T>(word: *mut T) -> bool {
    word.addr() == GONE
}

fn not_filled<T>(found: *mut Object<T>, body: Body<T>) -> NotFilled<T> {
    match is_gone(found) {
        true => NotFilled::Gone(body),
        false => NotFilled::Taken(body),
    }
}

fn tagged<T>(word: *mut T) -> *mut T {
    word.map_addr(|bits| bits | INLINE_USED)
}

/// `word` with another address and the same tag.
fn with_address<T>(word: *mut T, to: *mut T) -> *mut T {
    to.map_addr(|bits| bits | word.addr() & INLINE_USED)
}
