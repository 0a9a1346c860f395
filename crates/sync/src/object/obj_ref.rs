//! An object, and the owned reference to it.

use std::ops::Deref;
use std::ptr::NonNull;

use super::lifecycle::{Lifecycle, SLOTS};
use crate::epoch::Guard;
use crate::percpu::PerCpuCounters;
use crate::primitive::atomic::AtomicPtr;

/// A value with a number, kept alive by per-CPU references.
///
/// Two objects never share a cache line. The header and the value come first, the counters last. If
/// the value is sized so that [`Object::PERCPU_AT`] is a multiple of 64, reading the value and
/// counting use different lines.
#[repr(C, align(64))]
pub struct Object<T> {
    /// Belongs to the [entry](super::entry) that the object is stored in; unused on the heap.
    word: Word<T>,
    body: Body<T>,
}

/// The word of an entry.
pub(super) type Word<T> = AtomicPtr<Object<T>>;

/// The part of an object that is created and dropped in an entry.
#[repr(C)]
pub(super) struct Body<T> {
    /// Immutable.
    number: u64,
    /// Immutable.
    generation: u32,
    /// Written by a thread that tries to evict the object.
    pub(super) lifecycle: Lifecycle,
    /// Protected as `T` documents.
    value: T,
    /// Written by every core that counts here; atomic.
    percpu: PerCpuCounters<SLOTS>,
}

/// An owned reference: the object lives as long as this does.
///
/// Dropping it releases the reference and does nothing else. A caller that knows that the object
/// may go now calls [`Table::retire`](super::Table::retire) or
/// [`Table::evict`](super::Table::evict) afterwards.
pub struct ObjRef<T>(NonNull<Object<T>>);

// SAFETY: a `ObjRef` gives shared access to the value from any thread and may be what lets another
// thread drop it, which asks for both of T. The reference count is atomic.
unsafe impl<T: Send + Sync> Send for ObjRef<T> {}
// SAFETY: as for Send: a shared `ObjRef` can be cloned.
unsafe impl<T: Send + Sync> Sync for ObjRef<T> {}

impl<T> Object<T> {
    /// Offset of the value in an object, for layout assertions.
    pub const VALUE_AT: usize =
        std::mem::offset_of!(Object<T>, body) + std::mem::offset_of!(Body<T>, value);

    /// Offset of the counters in an object, for size assertions.
    pub const PERCPU_AT: usize =
        std::mem::offset_of!(Object<T>, body) + std::mem::offset_of!(Body<T>, percpu);

    /// An object on the heap.
    pub(super) fn boxed(body: Body<T>) -> Object<T> {
        Object {
            word: Word::new(std::ptr::null_mut()),
            body,
        }
    }

    pub(super) fn into_body(self) -> Body<T> {
        self.body
    }

    /// Address of the word, in memory that may hold no object.
    #[inline]
    pub(super) fn word_of(at: NonNull<Object<T>>) -> *mut Word<T> {
        // SAFETY: `at` points to memory for an object, which the offset does not leave.
        unsafe { &raw mut (*at.as_ptr()).word }
    }

    /// Address of the body, in memory that may hold no object.
    #[inline]
    pub(super) fn body_of(at: NonNull<Object<T>>) -> *mut Body<T> {
        // SAFETY: as in `word_of`.
        unsafe { &raw mut (*at.as_ptr()).body }
    }

    /// Marks the object dead if it has no reference. True for the one caller that did it.
    pub(super) fn try_evict(&self) -> bool {
        self.body.lifecycle.try_evict(&self.body.percpu)
    }

    /// The number that the table knows it by.
    #[inline]
    pub fn number(&self) -> u64 {
        self.body.number
    }

    /// Distinguishes this object from earlier ones of this number.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.body.generation
    }

    /// The per-CPU counters of the object.
    #[inline]
    pub fn percpu(&self) -> &PerCpuCounters<SLOTS> {
        &self.body.percpu
    }

    /// Takes a reference; `None` if the object is dead.
    #[inline]
    pub fn hold(&self) -> Option<ObjRef<T>> {
        self.body
            .lifecycle
            .try_get(&self.body.percpu)
            .then(|| ObjRef(NonNull::from(self)))
    }

    /// True once the object was retired or evicted: it is gone from its table.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.body.lifecycle.is_dead()
    }

    /// The number of references; exact while nobody takes or releases one.
    pub fn references(&self) -> i64 {
        Lifecycle::references(&self.body.percpu)
    }

    /// The number of references that [`ObjRef::into_raw_count`] left counted and nobody has
    /// released; exact while nobody takes or releases one.
    pub fn raw_counts(&self) -> u64 {
        u64::try_from(Lifecycle::sum_counts(&self.body.percpu)).unwrap_or(0)
    }

    /// Releases `count` references that [`ObjRef::into_raw_count`] left counted.
    ///
    /// Releasing more than were left lets the object be evicted although a caller relies on a
    /// count. It is never evicted under an [`ObjRef`].
    #[inline]
    pub fn put_many(&self, count: u64) {
        Lifecycle::put_counts(&self.body.percpu, count);
    }

    /// [`Object::put_many`], before all that the thread reads from now on: a full fence.
    pub fn put_many_and_fence(&self, count: u64) {
        Lifecycle::put_counts_and_fence(&self.body.percpu, count);
    }
}

impl<T> ObjRef<T> {
    /// # Safety
    ///
    /// One reference of the live object behind `object` belongs to the caller, who passes it to the
    /// result.
    #[inline]
    pub(super) unsafe fn from_counted(object: NonNull<Object<T>>) -> ObjRef<T> {
        ObjRef(object)
    }

    /// Forgets the handle; its reference stays counted.
    #[inline]
    pub(super) fn into_counted(self) -> NonNull<Object<T>> {
        let object = self.0;
        std::mem::forget(self);
        object
    }

    /// Forgets the handle but leaves its reference counted, for a holder that stores only a number
    /// and a count. [`Object::put_many`] releases such references.
    #[inline]
    pub fn into_raw_count(self) {
        Lifecycle::handle_to_count(self.percpu());
        std::mem::forget(self);
    }

    /// The object for the length of a guard, even if this reference is released meanwhile.
    #[inline]
    pub fn pinned<'g>(&self, _g: &'g Guard) -> &'g Object<T> {
        // SAFETY: the object lives now. Once it is dead it is retired through the epoch, which
        // waits for the guard.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Body<T> {
    /// A live object with one reference, which belongs to the caller.
    pub(super) fn held(number: u64, generation: u32, value: T) -> Body<T> {
        Body::made(number, generation, |_| value)
    }

    /// Writes a live object with one reference, which belongs to the caller, to its place: part by
    /// part, because as a whole it would be made elsewhere and copied.
    ///
    /// # Safety
    ///
    /// `at` points to memory for it that the caller has alone.
    #[inline(always)]
    pub(super) unsafe fn write_held(
        at: *mut Body<T>,
        (number, generation): (u64, u32),
        make: impl FnOnce() -> T,
    ) {
        // SAFETY: as the caller promises; the parts do not leave the memory.
        unsafe {
            (&raw mut (*at).value).write(make());
            (&raw mut (*at).number).write(number);
            (&raw mut (*at).generation).write(generation);
            (&raw mut (*at).lifecycle).write(Lifecycle::new());
            (&raw mut (*at).percpu).write(Lifecycle::new_counters());
        }
    }

    /// The value.
    pub(super) fn value(&self) -> &T {
        &self.value
    }

    /// A live object with one reference, whose value `make` creates; `make` may add to the
    /// counters.
    pub(super) fn made(
        number: u64,
        generation: u32,
        make: impl FnOnce(&PerCpuCounters<SLOTS>) -> T,
    ) -> Body<T> {
        let percpu = Lifecycle::new_counters();
        Body {
            number,
            generation,
            lifecycle: Lifecycle::new(),
            value: make(&percpu),
            percpu,
        }
    }
}

impl<T> Deref for Object<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.body.value
    }
}

impl<T> Deref for ObjRef<T> {
    type Target = Object<T>;
    #[inline]
    fn deref(&self) -> &Object<T> {
        // SAFETY: the reference is counted, so the object is not dead.
        unsafe { self.0.as_ref() }
    }
}

impl<T> ObjRef<T> {
    /// Releases the reference, before all that the thread reads from now on: a full fence. On x86
    /// the subtraction is one.
    #[inline]
    pub fn release_and_fence(self) {
        Lifecycle::put_and_fence(self.percpu());
        std::mem::forget(self);
    }
}

impl<T> Clone for ObjRef<T> {
    #[inline]
    fn clone(&self) -> ObjRef<T> {
        // Through the whole protocol, not by a plain addition: an evicting thread that has already
        // summed this core's counter must not miss a reference whose original is released on
        // another core before that counter is summed.
        self.hold()
            .expect("an object with a reference is never dead")
    }
}

impl<T> Drop for ObjRef<T> {
    #[inline]
    fn drop(&mut self) {
        // The subtraction is the last access: the object may be freed right after it.
        Lifecycle::put(self.percpu());
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Object<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("number", &self.body.number)
            .field("generation", &self.body.generation)
            .field("value", &self.body.value)
            .finish_non_exhaustive()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for ObjRef<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Held").field(&**self).finish()
    }
}
