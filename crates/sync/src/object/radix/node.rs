//! The nodes and leaves of the radix tree, and the packed root pointer.

use std::ops::Range;
use std::ptr::{self, NonNull};

use crate::object::entry::Entry;
use crate::object::numbers::BLOCK_BITS;
use crate::object::obj_ref::{Object, Word};
use crate::object::slabs::Slabs;
use crate::primitive::atomic::{AtomicPtr, Ordering};

pub(super) const FAN: usize = 1 << BLOCK_BITS;

/// An inner node: pointers to nodes or leaves.
///
/// Every slot has a cache line of its own: a lookup does not read a line that the creation of a
/// neighbouring node writes.
pub(super) struct Node([OwnLine; FAN]);

#[repr(align(64))]
struct OwnLine(AtomicPtr<Node>);

/// The bits of a root pointer that hold its shift; nodes and leaves are aligned beyond them.
const SHIFT_MASK: usize = align_of::<Node>() - 1;

impl Node {
    /// The child at `at`, which is less than [`FAN`].
    #[inline]
    pub(super) fn slot(&self, at: usize) -> &AtomicPtr<Node> {
        &self.0[at].0
    }

    // A function of its own: its 64 KiB would be on the stack of whoever looks for an entry, who
    // touches each page of them.
    #[cold]
    #[inline(never)]
    pub(super) fn new() -> *mut Node {
        Box::into_raw(Box::new(Node(std::array::from_fn(|_| {
            OwnLine(AtomicPtr::new(ptr::null_mut()))
        }))))
    }
}

/// Bytes of a leaf.
pub(super) const fn leaf_bytes<T>() -> usize {
    FAN * size_of::<Object<T>>()
}

/// A leaf: [`FAN`] entries without an object.
pub(super) fn new_leaf<T>(slabs: &Slabs) -> *mut Node {
    let leaf = slabs.take(leaf_bytes::<T>()).cast::<Object<T>>();
    // Zeros are null words; under a model checker a word is more than a pointer.
    if cfg!(any(feature = "loom", feature = "shuttle")) {
        for at in 0..FAN {
            // SAFETY: the memory was allocated here and has space for that many entries.
            unsafe { Object::word_of(leaf.add(at)).write(Word::new(ptr::null_mut())) };
        }
    }
    leaf.as_ptr().cast()
}

/// # Safety
///
/// `leaf` is a leaf of a tree of `T` that lives as long as `'a`, and `at` is below [`FAN`].
#[inline]
pub(super) unsafe fn entry<'a, T>(leaf: *mut Node, at: usize) -> Entry<'a, T> {
    // SAFETY: leaves have FAN entries with initialised words.
    unsafe { Entry::new(NonNull::new_unchecked(leaf.cast::<Object<T>>().add(at))) }
}

/// # Safety
///
/// `node` belongs to a tree of `T` that lives for the length of the call, and `shift` is its shift.
pub(super) unsafe fn scan_node<T>(
    node: *mut Node,
    shift: u32,
    from: u64,
    visit: &mut impl FnMut(Entry<'_, T>) -> bool,
) -> bool {
    let first = index(from, shift);
    for at in first..FAN {
        let go_on = if shift == 0 {
            // SAFETY: with shift 0 it is a leaf.
            let entry: Entry<'_, T> = unsafe { entry(node, at) };
            entry.load().is_null() || visit(entry)
        } else {
            // SAFETY: with another shift it is a node.
            let slot = unsafe { &*node }.slot(at);
            // Acquire: pairs with the Release in `new_child`.
            let child = slot.load(Ordering::Acquire);
            // Only the first child on the way is entered in the middle.
            let from = if at == first { from } else { 0 };
            // SAFETY: inner slots point to what lies a level below.
            child.is_null() || unsafe { scan_node(child, shift - BLOCK_BITS, from, visit) }
        };
        if !go_on {
            return false;
        }
    }
    true
}

/// Takes leaves below `node` without an object out of it, of numbers in `numbers`; the first number
/// of the node is `base`.
///
/// # Safety
///
/// `node` belongs to a tree of `T` that lives for the length of the call, and `shift` is its shift,
/// more than 0.
pub(super) unsafe fn trim_node<T>(
    node: *mut Node,
    shift: u32,
    base: u64,
    numbers: &Range<u64>,
    retire: &mut impl FnMut(NonNull<u8>),
) {
    // Numbers begin at 0 in the node.
    let from = numbers.start.saturating_sub(base) >> shift;
    for at in (from as usize).min(FAN)..FAN {
        let first = base.wrapping_add((at as u64).wrapping_shl(shift));
        if first >= numbers.end {
            return;
        }
        // SAFETY: with a shift above 0 it is a node.
        let slot = unsafe { &*node }.slot(at);
        // Acquire: pairs with the Release in `new_child`.
        let child = slot.load(Ordering::Acquire);
        if child.is_null() {
            continue;
        }
        if shift > BLOCK_BITS {
            // SAFETY: inner slots point to what lies a level below.
            unsafe { trim_node::<T>(child, shift - BLOCK_BITS, first, numbers, retire) };
        // SAFETY: at the last level inner slots point to leaves.
        } else if unsafe { take_back::<T>(child) } {
            // Release: whoever finds an entry gone and then an empty slot makes another leaf.
            slot.store(ptr::null_mut(), Ordering::Release);
            retire(NonNull::new(child).expect("it is not null").cast());
        }
    }
}

/// Lets nobody fill an entry of a leaf any more, if all are free.
///
/// # Safety
///
/// `leaf` is a leaf of a tree of `T` that lives for the length of the call.
unsafe fn take_back<T>(leaf: *mut Node) -> bool {
    // SAFETY: it is a leaf, and has so many entries.
    let entry = |at| -> Entry<'_, T> { unsafe { entry(leaf, at) } };
    if !(0..FAN).all(|at| entry(at).is_free()) {
        return false;
    }
    let taken = (0..FAN).take_while(|&at| entry(at).take_back()).count();
    if taken < FAN {
        (0..taken).for_each(|at| entry(at).leave());
    }
    taken == FAN
}

/// # Safety
///
/// `node` belongs to a tree of `T`, `shift` is its shift, and nobody uses it any more.
pub(super) unsafe fn free<T>(node: *mut Node, shift: u32) {
    if shift == 0 {
        // The leaf itself goes with the slabs.
        for at in 0..FAN * usize::from(std::mem::needs_drop::<Word<T>>()) {
            // SAFETY: a leaf has that many initialised words, and the caller has them alone.
            unsafe {
                let at = NonNull::new_unchecked(node.cast::<Object<T>>().add(at));
                Object::word_of(at).drop_in_place();
            }
        }
        return;
    }
    // SAFETY: the caller owns the node.
    let node = unsafe { Box::from_raw(node) };
    for OwnLine(slot) in &node.0 {
        // Relaxed: the caller has exclusive access.
        let child = slot.load(Ordering::Relaxed);
        if !child.is_null() {
            // SAFETY: an inner slot points to what lies a level below, which it owns.
            unsafe { free::<T>(child, shift - BLOCK_BITS) };
        }
    }
}

// The shift of the tallest possible root fits into its bits.
const _: () = assert!(((u64::BITS - 1) / BLOCK_BITS * BLOCK_BITS) as usize <= SHIFT_MASK);

/// The index of a number in a node with this shift.
#[inline]
pub(super) fn index(number: u64, shift: u32) -> usize {
    (number >> shift) as usize % FAN
}

/// Whether a root with this shift covers the number.
#[inline]
pub(super) fn covers(shift: u32, number: u64) -> bool {
    number >> shift < FAN as u64
}

#[inline]
pub(super) fn split(root: *mut Node) -> (*mut Node, u32) {
    (
        root.map_addr(|address| address & !SHIFT_MASK),
        (root.addr() & SHIFT_MASK) as u32,
    )
}

pub(super) fn join(node: *mut Node, shift: u32) -> *mut Node {
    debug_assert!(shift as usize <= SHIFT_MASK);
    node.map_addr(|address| address | shift as usize)
}
