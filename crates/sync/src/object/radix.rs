//! Numbers to slots, found without a lock and grown without a stop.
//!
//! A tree whose nodes have [`BLOCK`](super::BLOCK) slots each. The root knows how many levels
//! there are, so that small numbers are found in few steps; a number that is too large for the
//! tree puts a new root on top, with the old one as its first child. Nodes are never removed
//! while the tree lives.

use std::marker::PhantomData;
use std::ptr;

use super::numbers::BLOCK_BITS;
use crate::primitive::atomic::{AtomicPtr, Ordering};

/// A tree of slots; each slot is null or a pointer that its user put there.
pub(super) struct Radix<T> {
    /// A node, with the number of levels above the leaves in the low bits of the address.
    root: AtomicPtr<Node>,
    _points_to: PhantomData<*mut T>,
}

// SAFETY: the tree owns only its nodes and hands out atomics; what the pointers in its slots mean
// is up to the user, who states the bounds.
unsafe impl<T> Send for Radix<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for Radix<T> {}

/// A slot of a leaf.
pub(super) struct Slot<'a, T> {
    pointer: &'a AtomicPtr<Node>,
    _points_to: PhantomData<*mut T>,
}

const FAN: usize = 1 << BLOCK_BITS;

/// An inner node points to nodes, a leaf to what the user put there.
///
/// Every slot has a cache line of its own: whoever looks a number up does not notice that others
/// fill and clear the slots beside it.
struct Node([OwnLine; FAN]);

#[repr(align(64))]
struct OwnLine(AtomicPtr<Node>);

/// The bits of a root's address that hold its height; nodes are aligned beyond them.
const HEIGHT: usize = align_of::<Node>() - 1;

impl<T> Radix<T> {
    pub(super) fn new() -> Radix<T> {
        Radix {
            root: AtomicPtr::new(join(Node::new(), 0)),
            _points_to: PhantomData,
        }
    }

    /// The slot of `number`, if the tree reaches there.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Option<Slot<'_, T>> {
        // Acquire: pairs with the Release in `grow`; the nodes below are complete.
        let (mut node, height) = split(self.root.load(Ordering::Acquire));
        if !covers(height, number) {
            return None;
        }
        for level in (1..=height).rev() {
            // SAFETY: roots and inner slots point to nodes that live as long as the tree.
            let slot = &unsafe { &*node }.0[index(number, level)].0;
            // Acquire: pairs with the Release in `child`.
            node = slot.load(Ordering::Acquire);
            if node.is_null() {
                return None;
            }
        }
        // SAFETY: as above; at level 0 it is a leaf.
        Some(Slot::new(&unsafe { &*node }.0[index(number, 0)].0))
    }

    /// The slot of `number`; the tree grows there if it must.
    pub(super) fn reach(&self, number: u64) -> Slot<'_, T> {
        let (mut node, height) = loop {
            // Acquire: pairs with the Release in `grow`.
            let root = self.root.load(Ordering::Acquire);
            let (node, height) = split(root);
            if covers(height, number) {
                break (node, height);
            }
            self.grow(root);
        };
        for level in (1..=height).rev() {
            // SAFETY: roots and inner slots point to nodes that live as long as the tree.
            node = child(&unsafe { &*node }.0[index(number, level)].0);
        }
        // SAFETY: as above; at level 0 it is a leaf.
        Slot::new(&unsafe { &*node }.0[index(number, 0)].0)
    }

    /// Shows every slot from `from` on that is not null, in the order of the numbers, until
    /// `see` returns false.
    pub(super) fn scan(&self, from: u64, mut see: impl FnMut(Slot<'_, T>) -> bool) {
        // Acquire: pairs with the Release in `grow`.
        let (root, height) = split(self.root.load(Ordering::Acquire));
        if covers(height, from) {
            // SAFETY: the root lives as long as the tree.
            scan_node(unsafe { &*root }, height, from, &mut see);
        }
    }

    /// Puts a new root on top of `root`, unless another thread was faster.
    #[cold]
    fn grow(&self, root: *mut Node) {
        let (node, height) = split(root);
        let taller = Node::new();
        // Relaxed: published by the exchange below.
        // SAFETY: the node was made here and is not shared yet.
        unsafe { &*taller }.0[0].0.store(node, Ordering::Relaxed);
        // AcqRel: Release pairs with the Acquire loads of the root; Acquire keeps what is below
        // the old root visible to those who come through the new one. Relaxed on failure: the
        // caller looks again.
        let grown = self.root.compare_exchange(
            root,
            join(taller, height + 1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if grown.is_err() {
            // SAFETY: the exchange failed, so nobody else has seen the node.
            drop(unsafe { Box::from_raw(taller) });
        }
    }
}

impl<T> Slot<'_, T> {
    #[inline]
    fn new(pointer: &AtomicPtr<Node>) -> Slot<'_, T> {
        Slot {
            pointer,
            _points_to: PhantomData,
        }
    }

    /// What is in the slot.
    #[inline]
    pub(super) fn load(&self) -> *mut T {
        // Acquire: pairs with the Release in `fill`.
        self.pointer.load(Ordering::Acquire).cast()
    }

    /// Puts `value` into the slot if it is null.
    pub(super) fn fill(&self, value: *mut T) -> bool {
        // Release: pairs with the Acquire in `load`. Relaxed on failure: nothing is looked at.
        self.pointer
            .compare_exchange(
                ptr::null_mut(),
                value.cast(),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Makes the slot null and answers what was there, if it points to what `value` does.
    ///
    /// The answer may be used where `value`, which came through a reference, may not.
    pub(super) fn clear(&self, value: *const T) -> Option<*mut T> {
        // AcqRel: Acquire pairs with the Release in `fill` of what is about to go; Release makes
        // the end of the old value come before a new one in the same slot. Relaxed on failure.
        self.pointer
            .compare_exchange(
                value.cast_mut().cast(),
                ptr::null_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .ok()
            .map(<*mut Node>::cast)
    }
}

impl Node {
    fn new() -> *mut Node {
        Box::into_raw(Box::new(Node(std::array::from_fn(|_| {
            OwnLine(AtomicPtr::new(ptr::null_mut()))
        }))))
    }
}

impl<T> Drop for Radix<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` has synchronised with every writer.
        let (root, height) = split(self.root.load(Ordering::Relaxed));
        // SAFETY: the tree owns its nodes, and `&mut self` proves that nobody uses them.
        unsafe { free(root, height) };
    }
}

/// The child in `slot`, made now unless another thread was faster.
fn child(slot: &AtomicPtr<Node>) -> *mut Node {
    // Acquire: pairs with the Release below.
    let found = slot.load(Ordering::Acquire);
    if !found.is_null() {
        return found;
    }
    let new = Node::new();
    // Release: pairs with the Acquire loads of inner slots. Acquire on failure: the other
    // thread's node is about to be used.
    match slot.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire) {
        Ok(_) => new,
        Err(theirs) => {
            // SAFETY: the exchange failed, so nobody else has seen the node.
            drop(unsafe { Box::from_raw(new) });
            theirs
        }
    }
}

fn scan_node<T>(
    node: &Node,
    level: u32,
    from: u64,
    see: &mut impl FnMut(Slot<'_, T>) -> bool,
) -> bool {
    let first = index(from, level);
    for (at, OwnLine(slot)) in node.0.iter().enumerate().skip(first) {
        // Acquire: pairs with the Release in `child`; at level 0 the user loads again.
        let pointer = slot.load(Ordering::Acquire);
        if pointer.is_null() {
            continue;
        }
        let go_on = if level == 0 {
            see(Slot::new(slot))
        } else {
            // Only the first child on the way is entered in the middle.
            let from = if at == first { from } else { 0 };
            // SAFETY: inner slots point to nodes that live as long as the tree.
            scan_node(unsafe { &*pointer }, level - 1, from, see)
        };
        if !go_on {
            return false;
        }
    }
    true
}

/// # Safety
///
/// `node` is a node of `level`, and nobody uses it any more.
unsafe fn free(node: *mut Node, level: u32) {
    // SAFETY: the caller owns the node.
    let node = unsafe { Box::from_raw(node) };
    if level == 0 {
        return;
    }
    for OwnLine(slot) in &node.0 {
        // Relaxed: the caller has exclusive access.
        let below = slot.load(Ordering::Relaxed);
        if !below.is_null() {
            // SAFETY: an inner slot points to a node of the level below that it owns.
            unsafe { free(below, level - 1) };
        }
    }
}

#[inline]
fn index(number: u64, level: u32) -> usize {
    number.checked_shr(level * BLOCK_BITS).unwrap_or(0) as usize % FAN
}

#[inline]
fn covers(height: u32, number: u64) -> bool {
    number.checked_shr((height + 1) * BLOCK_BITS).unwrap_or(0) == 0
}

#[inline]
fn split(root: *mut Node) -> (*mut Node, u32) {
    (
        root.map_addr(|address| address & !HEIGHT),
        (root.addr() & HEIGHT) as u32,
    )
}

fn join(node: *mut Node, height: u32) -> *mut Node {
    debug_assert!(height as usize <= HEIGHT);
    node.map_addr(|address| address | height as usize)
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    const NUMBERS: [u64; 8] = [
        0,
        1,
        1_023,
        1_024,
        1 << 20,
        (1 << 40) + 7,
        (1 << 61) - 1,
        u64::MAX,
    ];

    fn pointer(number: u64) -> *mut u64 {
        ptr::without_provenance_mut(number as usize | 1 << 63)
    }

    #[test]
    fn every_number_has_a_slot_of_its_own() {
        let radix = Radix::<u64>::new();
        for number in NUMBERS {
            assert!(
                radix.find(number).is_none_or(|slot| slot.load().is_null()),
                "{number}"
            );
            assert!(radix.reach(number).fill(pointer(number / 2)));
        }
        for number in NUMBERS {
            let slot = radix.find(number).expect("it was reached");
            assert_eq!(slot.load(), pointer(number / 2));
            assert!(!slot.fill(pointer(3)));
        }
        assert!(radix.find(5).is_some_and(|slot| slot.load().is_null()));
        assert!(radix.find(1 << 50).is_none());
    }

    #[test]
    fn a_scan_sees_numbers_in_order_from_where_it_starts() {
        let radix = Radix::<u64>::new();
        for number in NUMBERS {
            radix.reach(number).fill(pointer(number / 2));
        }
        for from in 0..NUMBERS.len() {
            let mut seen = Vec::new();
            radix.scan(NUMBERS[from], |slot| {
                seen.push(slot.load());
                true
            });
            let wanted: Vec<_> = NUMBERS[from..]
                .iter()
                .map(|number| pointer(number / 2))
                .collect();
            assert_eq!(seen, wanted);
        }
        let mut seen = 0;
        radix.scan(0, |_| {
            seen += 1;
            seen < 3
        });
        assert_eq!(seen, 3);
    }

    #[test]
    fn threads_that_grow_the_tree_lose_nothing() {
        for _ in 0..20 {
            let radix = Radix::<u64>::new();
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let radix = &radix;
                    scope.spawn(move || {
                        for bits in 0..15 {
                            let number = (1 << (4 * bits)) + thread;
                            assert!(radix.reach(number).fill(pointer(number)));
                        }
                    });
                }
            });
            for number in (0..15).flat_map(|bits| (0..4).map(move |t| (1 << (4 * bits)) + t)) {
                assert_eq!(
                    radix.find(number).map(|slot| slot.load()),
                    Some(pointer(number))
                );
            }
        }
    }
}
