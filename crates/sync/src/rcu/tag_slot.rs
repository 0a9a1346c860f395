//! A nullable owning RCU pointer with a tag of sixteen bits that is read without following it.

use std::marker::PhantomData;
use std::ptr;

use crate::epoch::{Guard, retire_raw};
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::const_unless_loom;

/// A nullable owning pointer with a tag, eight bytes together.
///
/// The word: bits 0 to 47 are the address, bits 48 to 63 the tag; all zero when empty. A tag
/// that does not match saves the reader the cache line behind the pointer. See
/// [the module](super) for the rules.
pub struct TagSlot<T> {
    /// The word described above; swapped by writers, loaded by readers under a guard.
    word: AtomicPtr<T>,
    /// Owns a `T` that any thread may read and the last writer drops.
    _owned: PhantomData<T>,
}

const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

impl<T> TagSlot<T> {
    const_unless_loom! {
        /// A slot with nothing in it.
        pub fn empty() -> TagSlot<T> {
            TagSlot { word: AtomicPtr::new(ptr::null_mut()), _owned: PhantomData }
        }
    }
}

impl<T: Send + Sync + 'static> TagSlot<T> {
    /// The tag, if there is a value. Does not follow the pointer.
    #[inline]
    pub fn tag(&self) -> Option<u16> {
        // Relaxed: the pointer is not followed.
        let (tag, pointer) = split(self.word.load(Ordering::Relaxed));
        (!pointer.is_null()).then_some(tag)
    }

    /// The tag and the value, if there is one. Writes nothing.
    #[inline]
    pub fn load<'g>(&'g self, _g: &'g Guard) -> Option<(u16, &'g T)> {
        let (tag, pointer) = split(self.acquire());
        // SAFETY: a non-null pointer is a live box: a thread that takes it out of the slot retires
        // it through the epoch, which waits for the guard, and the slot's owner, who would free it
        // at once, is excluded by the borrow of the slot.
        unsafe { pointer.as_ref() }.map(|value| (tag, value))
    }

    /// The value if its tag is `tag`. Writes nothing, and otherwise reads nothing but the slot.
    #[inline]
    pub fn load_if<'g>(&'g self, tag: u16, _g: &'g Guard) -> Option<&'g T> {
        // A word without its tag is the address.
        let pointer = self
            .acquire()
            .map_addr(|word| word ^ usize::from(tag) << ADDRESS_BITS);
        // Null is looked for apart: the compiler does so anyway, where one comparison tells both.
        // And here: of a null that was returned it would make another look.
        match pointer.addr() > ADDRESS || pointer.is_null() {
            true => None,
            // SAFETY: as in `load`.
            false => Some(unsafe { &*pointer }),
        }
    }

    /// Stores a tagged value (or nothing) and retires the old value.
    pub fn store(&self, value: Option<(u16, Box<T>)>, g: &Guard) {
        let word = value.map_or(ptr::null_mut(), |(tag, value)| {
            join(tag, Box::into_raw(value))
        });
        retire_if_some(self.swap(word), g);
    }

    /// [`TagSlot::store`] by the only thread that may write the slot. An empty one is filled by a
    /// store: what another thread puts there in between is never dropped.
    #[inline]
    pub fn put(&self, tag: u16, value: Box<T>, g: &Guard) {
        match self.is_empty() {
            // Release: pairs with the Acquire in `acquire`.
            true => self
                .word
                .store(join(tag, Box::into_raw(value)), Ordering::Release),
            false => self.store(Some((tag, value)), g),
        }
    }

    /// Empties the slot and retires the old value; false if it was empty.
    pub fn take(&self, g: &Guard) -> bool {
        retire_if_some(self.swap(ptr::null_mut()), g)
    }

    /// Moves tag and value to `dst`, never in both slots at once, and retires the old value of
    /// `dst`.
    pub fn move_to(&self, dst: &TagSlot<T>, g: &Guard) {
        let word = self.swap(ptr::null_mut());
        retire_if_some(dst.swap(word), g);
    }

    /// True if the slot is empty now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tag().is_none()
    }

    /// True if all of them are empty, each at the moment when it is looked at.
    #[inline]
    pub fn are_empty(slots: &[TagSlot<T>]) -> bool {
        // Relaxed: the pointers are not followed.
        let words = slots.iter().map(|slot| slot.word.load(Ordering::Relaxed));
        words.fold(0, |all, word| all | word.addr()) == 0
    }

    /// Whether this very value is here, with this tag. Does not follow the pointer.
    #[inline]
    pub fn holds(&self, tag: u16, value: &T) -> bool {
        // Relaxed: the pointer is not followed.
        let word = self.word.load(Ordering::Relaxed).addr();
        word == std::ptr::from_ref(value).addr() | usize::from(tag) << ADDRESS_BITS
    }

    #[inline]
    fn acquire(&self) -> *mut T {
        // Acquire: pairs with the Release in `swap`; the value behind the pointer is complete.
        self.word.load(Ordering::Acquire)
    }

    fn swap(&self, word: *mut T) -> *mut T {
        // AcqRel: Release pairs with the Acquire in `acquire`; Acquire pairs with the Release of
        // the thread that stored the old value, which is about to be moved or dropped.
        self.word.swap(word, Ordering::AcqRel)
    }
}

impl<T> Default for TagSlot<T> {
    fn default() -> TagSlot<T> {
        TagSlot::empty()
    }
}

impl<T> std::fmt::Debug for TagSlot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: the pointer is printed, not followed.
        let (tag, pointer) = split(self.word.load(Ordering::Relaxed));
        f.debug_tuple("TagSlot")
            .field(&tag)
            .field(&pointer)
            .finish()
    }
}

impl<T> Drop for TagSlot<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with every earlier writer.
        let (_, pointer) = split(self.word.load(Ordering::Relaxed));
        if !pointer.is_null() {
            // SAFETY: the slot owns the box, and every reference to it borrows the slot.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

#[inline]
fn split<T>(word: *mut T) -> (u16, *mut T) {
    (
        (word.addr() >> ADDRESS_BITS) as u16,
        word.map_addr(|address| address & ADDRESS),
    )
}

fn join<T>(tag: u16, pointer: *mut T) -> *mut T {
    assert_eq!(
        pointer.addr() & !ADDRESS,
        0,
        "an address needs more than {ADDRESS_BITS} bits"
    );
    pointer.map_addr(|address| address | usize::from(tag) << ADDRESS_BITS)
}

/// Retires a pointer that was just swapped out of a slot; false if it was null.
#[inline]
fn retire_if_some<T: Send + 'static>(word: *mut T, g: &Guard) -> bool {
    let (_, pointer) = split(word);
    let is_some = !pointer.is_null();
    if is_some {
        // SAFETY: the pointer was swapped out of its only slot, so it is ours alone and no new
        // reader finds it.
        unsafe { retire_raw(pointer, g) };
    }
    is_some
}
