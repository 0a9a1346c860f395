//! A radix tree from numbers to entries: lock-free lookups, growth without a pause.
//!
//! Nodes have [`BLOCK`](super::BLOCK) slots each; a leaf holds the entries of as many consecutive
//! numbers. A root says by how many bits a number is shifted to index it, so small numbers are
//! found in few steps. A number that is too large for the tree puts a new root on top, with the old
//! one as its first child. Numbers from [`FAR`] on have a tree of their own: one such number, which
//! its user chose, does not make the others slow. Nodes are never removed while the tree lives; a
//! leaf without an object leaves it when it is asked to, and its memory is freed when no guard can
//! see it.

mod node;

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};

use super::entry::Entry;
use super::numbers::BLOCK_BITS;
use super::obj_ref::Object;
use super::slabs::Slabs;
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crossbeam_utils::CachePadded;
use node::{
    FAN, Node, covers, entry, free, index, join, leaf_bytes, new_leaf, scan_node, split, trim_node,
};

/// Two trees of entries.
pub(super) struct Radix<T> {
    /// On a cache line of its own: every lookup reads a root, and what lies behind is written.
    roots: CachePadded<Roots>,
    /// The memory of the leaves.
    slabs: Slabs,
    _entries: PhantomData<*mut Object<T>>,
}

struct Roots {
    /// The tree of the numbers below [`FAR`].
    near: Root,
    /// The tree of all other numbers. Null before the first of them. Null covers none of them,
    /// because the numbers of one leaf lie below [`FAR`].
    far: Root,
}

/// A node or a leaf, with its shift in the low bits of the address.
type Root = AtomicPtr<Node>;

/// A thousand million numbers lie below, found in three steps at most.
const FAR: u64 = 1 << (3 * BLOCK_BITS);
const _: () = assert!(FAR > FAN as u64);

// SAFETY: the tree returns entries, whose words are atomic. The user, who states the bounds, stores
// and removes objects.
unsafe impl<T> Send for Radix<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for Radix<T> {}

impl<T> Radix<T> {
    pub(super) fn new(is_huge: bool) -> Radix<T> {
        let slabs = Slabs::new(is_huge);
        Radix {
            roots: CachePadded::new(Roots {
                near: Root::new(join(new_leaf::<T>(&slabs), 0)),
                far: Root::new(ptr::null_mut()),
            }),
            slabs,
            _entries: PhantomData,
        }
    }

    #[inline]
    fn root_of(&self, number: u64) -> &Root {
        let roots = &*self.roots;
        if number < FAR {
            &roots.near
        } else {
            &roots.far
        }
    }

    /// The object of `number`, or null.
    // Like `find`, with the load in both arms: an entry that may be missing is looked at once more.
    #[inline]
    pub(super) fn load(&self, number: u64) -> *mut Object<T> {
        // Acquire: as in `find`.
        let (node, shift) = split(self.roots.near.load(Ordering::Acquire));
        let object = |entry: Option<Entry<'_, T>>| entry.map_or(ptr::null_mut(), Entry::load);
        match covers(shift, number) {
            true => object(self.find_below(node, shift, number)),
            false => object(self.find_far(number)),
        }
    }

    /// The entry of `number`, if its tree reaches there.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Option<Entry<'_, T>> {
        // Acquire: pairs with the Release in `grow`; the nodes below are complete. The near root
        // covers no number of the far tree.
        let (node, shift) = split(self.roots.near.load(Ordering::Acquire));
        match covers(shift, number) {
            true => self.find_below(node, shift, number),
            false => self.find_far(number),
        }
    }

    /// [`Radix::find`] of a number that the near root does not cover.
    #[cold]
    #[inline(never)]
    fn find_far(&self, number: u64) -> Option<Entry<'_, T>> {
        // Acquire: as in `find`.
        let (node, shift) = split(self.roots.far.load(Ordering::Acquire));
        match number >= FAR && covers(shift, number) {
            true => self.find_below(node, shift, number),
            false => None,
        }
    }

    /// The entry of `number` below the root `node`, which covers it.
    #[inline(always)]
    fn find_below(&self, mut node: *mut Node, mut shift: u32, number: u64) -> Option<Entry<'_, T>> {
        let mut at = (number >> shift) as usize;
        while shift > 0 {
            // SAFETY: roots that cover a number and inner slots point to nodes that live as long
            // as the tree.
            let slot = unsafe { &*node }.slot(at);
            // Acquire: pairs with the Release in `new_child`.
            node = slot.load(Ordering::Acquire);
            if node.is_null() {
                return None;
            }
            shift -= BLOCK_BITS;
            at = index(number, shift);
        }
        // SAFETY: with shift 0 it is a leaf.
        Some(unsafe { entry(node, at) })
    }

    /// The entry of `number`; the tree grows if it must.
    #[inline]
    pub(super) fn find_or_grow(&self, number: u64) -> Entry<'_, T> {
        let at = self.root_of(number);
        let (mut node, mut shift) = loop {
            // Acquire: pairs with the Release in `grow`.
            let root = at.load(Ordering::Acquire);
            let (node, shift) = split(root);
            if covers(shift, number) {
                break (node, shift);
            }
            grow(at, root, number);
        };
        while shift > 0 {
            // SAFETY: as in `find`.
            let slot = unsafe { &*node }.slot(index(number, shift));
            shift -= BLOCK_BITS;
            node = self.child(slot, shift);
        }
        // SAFETY: with shift 0 it is a leaf.
        unsafe { entry(node, index(number, 0)) }
    }

    /// Calls `visit` for the entry of every number from `from` on that has an object, in the order
    /// of the numbers, until it returns false.
    pub(super) fn scan(&self, from: u64, mut visit: impl FnMut(Entry<'_, T>) -> bool) {
        let Roots { near, far } = &*self.roots;
        for (root, from) in [(near, from), (far, from.max(FAR))] {
            // Acquire: pairs with the Release in `grow`.
            let (node, shift) = split(root.load(Ordering::Acquire));
            // SAFETY: the shift is that of the root, which lives as long as the tree. A null root
            // covers none of the numbers that it is asked for.
            if covers(shift, from) && !unsafe { scan_node(node, shift, from, &mut visit) } {
                return;
            }
        }
    }

    /// Takes leaves without an object, of numbers in `numbers`, out of the tree, and passes them to
    /// `retire`. A tree of one leaf keeps it.
    pub(super) fn trim(&self, numbers: Range<u64>, retire: &mut impl FnMut(NonNull<u8>)) {
        let Roots { near, far } = &*self.roots;
        for root in [near, far] {
            // Acquire: pairs with the Release in `grow`.
            let (node, shift) = split(root.load(Ordering::Acquire));
            if !node.is_null() && shift > 0 {
                // SAFETY: the shift is that of the root, which lives as long as the tree.
                unsafe { trim_node::<T>(node, shift, 0, &numbers, retire) };
            }
        }
    }

    /// Bytes of all leaves.
    pub(super) fn leaves_bytes(&self) -> usize {
        self.slabs.in_use()
    }

    /// Frees the memory of a leaf that has left the tree.
    ///
    /// # Safety
    ///
    /// [`Radix::trim`] passed it on, and no guard is left that could see it.
    pub(super) unsafe fn free_leaf(&self, leaf: NonNull<u8>) {
        // SAFETY: as the caller promises; leaves are made with this length.
        unsafe { self.slabs.give(leaf, leaf_bytes::<T>()) };
    }

    /// The child in `slot`, created now unless another thread was faster.
    #[inline]
    fn child(&self, slot: &AtomicPtr<Node>, shift: u32) -> *mut Node {
        // Acquire: pairs with the Release in `new_child`.
        let found = slot.load(Ordering::Acquire);
        match found.is_null() {
            true => self.new_child(slot, shift),
            false => found,
        }
    }

    #[cold]
    #[inline(never)]
    fn new_child(&self, slot: &AtomicPtr<Node>, shift: u32) -> *mut Node {
        let new = match shift {
            0 => new_leaf::<T>(&self.slabs),
            _ => Node::new(),
        };
        // Release: pairs with the Acquire loads of inner slots. Acquire on failure: the other
        // thread's node is about to be used.
        match slot.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire) {
            Ok(_) => new,
            Err(theirs) => {
                if shift > 0 {
                    // SAFETY: the exchange failed, so nobody else has seen the node.
                    drop(unsafe { Box::from_raw(new) });
                }
                // A surplus leaf stays unused until the tree is freed: it takes addresses, not
                // memory.
                theirs
            }
        }
    }
}

/// Puts a new root on top of `root`, the one in `at`, unless another thread was faster. The first
/// root of a tree covers `number` at once.
#[cold]
#[inline(never)]
fn grow(at: &Root, root: *mut Node, number: u64) {
    let (node, mut shift) = split(root);
    shift += BLOCK_BITS;
    while node.is_null() && !covers(shift, number) {
        shift += BLOCK_BITS;
    }
    let taller = Node::new();
    // Relaxed: published by the exchange below.
    // SAFETY: the node was made here and is not shared yet.
    unsafe { &*taller }.slot(0).store(node, Ordering::Relaxed);
    // AcqRel: Release pairs with the Acquire loads of the root; Acquire keeps what is below the old
    // root visible to threads that come through the new one. Relaxed on failure: the caller tries
    // again.
    let grown = at.compare_exchange(
        root,
        join(taller, shift),
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
    if grown.is_err() {
        // SAFETY: the exchange failed, so nobody else has seen the node.
        drop(unsafe { Box::from_raw(taller) });
    }
}

impl<T> Drop for Radix<T> {
    fn drop(&mut self) {
        for root in [&self.roots.near, &self.roots.far] {
            // Relaxed: `&mut self` has synchronised with every writer.
            let (node, shift) = split(root.load(Ordering::Relaxed));
            if !node.is_null() {
                // SAFETY: the tree owns its nodes, and `&mut self` proves that nobody uses them.
                unsafe { free::<T>(node, shift) };
            }
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::object::entry::NotFilled;
    use crate::object::obj_ref::Body;
    use crate::primitive::rounds;

    const NUMBERS: [u64; 10] = [
        0,
        1,
        1_023,
        1_024,
        // Under Miri blocks are small, so this number is in the far tree.
        if cfg!(miri) { FAR >> 1 } else { 1 << 20 },
        FAR - 1,
        FAR,
        (1 << 40) + 7,
        (1 << 61) - 1,
        u64::MAX,
    ];

    fn put(entry: Entry<'_, u64>, number: u64) -> bool {
        entry.fill(Body::held(number, 1, number)).is_ok()
    }

    fn value(entry: Entry<'_, u64>) -> Option<u64> {
        // SAFETY: objects that these tests store are never evicted.
        unsafe { entry.load().as_ref() }.map(|object| **object)
    }

    #[test]
    fn every_number_has_an_entry_of_its_own() {
        let radix = Radix::<u64>::new(true);
        for number in NUMBERS {
            assert_eq!(radix.find(number).and_then(value), None, "{number}");
            assert!(put(radix.find_or_grow(number), number));
        }
        for number in NUMBERS {
            let entry = radix.find(number).expect("it was reached");
            assert_eq!(value(entry), Some(number));
            assert!(!put(entry, 3));
        }
        let (_, shift) = split(radix.roots.near.load(Ordering::Relaxed));
        assert_eq!(
            shift,
            2 * BLOCK_BITS,
            "far numbers make near ones no slower"
        );
        assert!(radix.find(5).is_some_and(|entry| entry.load().is_null()));
        assert!(radix.find(1 << 50).is_none());
    }

    #[test]
    fn a_scan_visits_numbers_in_order_from_its_start() {
        let radix = Radix::<u64>::new(true);
        for number in NUMBERS {
            assert!(put(radix.find_or_grow(number), number));
        }
        for from in 0..NUMBERS.len() {
            let mut seen = Vec::new();
            radix.scan(NUMBERS[from], |entry| {
                seen.extend(value(entry));
                true
            });
            assert_eq!(seen, NUMBERS[from..]);
        }
        let mut seen = 0;
        radix.scan(0, |_| {
            seen += 1;
            seen < 3
        });
        assert_eq!(seen, 3);
    }

    #[test]
    fn a_leaf_without_an_object_leaves_the_tree_and_comes_back_empty() {
        let radix = Radix::<u64>::new(false);
        let fan = FAN as u64;
        for number in [fan, 3 * fan + 1, FAR + 5] {
            assert!(put(radix.find_or_grow(number), number));
        }
        radix.find_or_grow(2 * fan);
        let old = radix.find(2 * fan).expect("it was reached");
        let mut taken = Vec::new();
        radix.trim(0..u64::MAX, &mut |leaf| taken.push(leaf));
        // That of the numbers below the fan, and the one between those with an object.
        assert_eq!(taken.len(), 2);
        assert!(radix.find(2 * fan).is_none() && radix.find(3 * fan).is_some());
        let again = old.fill(Body::held(2 * fan, 1, 7));
        assert!(matches!(again, Err(NotFilled::Gone(_))));
        for leaf in taken {
            // SAFETY: no other thread has seen it.
            unsafe { radix.free_leaf(leaf) };
        }
        assert!(put(radix.find_or_grow(2 * fan), 2));
        for (number, is) in [
            (fan, fan),
            (2 * fan, 2),
            (3 * fan + 1, 3 * fan + 1),
            (FAR + 5, FAR + 5),
        ] {
            assert_eq!(radix.find(number).and_then(value), Some(is));
        }
        radix.trim(0..u64::MAX, &mut |_| panic!("all leaves have an object"));
        radix.trim(3 * fan..4 * fan, &mut |_| panic!("it has an object"));
    }

    #[test]
    fn a_scan_may_start_at_an_unused_number() {
        let radix = Radix::<u64>::new(true);
        let far = 1 << 59;
        for number in [1, far, far + 5] {
            assert!(put(radix.find_or_grow(number), number));
        }
        let first_from = |from| {
            let mut first = None;
            radix.scan(from, |entry| {
                first = value(entry);
                false
            });
            first
        };
        for (from, first) in [
            (0, Some(1)),
            (2, Some(far)),
            (1 << 20, Some(far)),
            (FAR - 1, Some(far)),
            (FAR, Some(far)),
            (far + 1, Some(far + 5)),
            (far + 6, None),
            (u64::MAX, None),
        ] {
            assert_eq!(first_from(from), first, "{from}");
        }
    }

    #[test]
    fn concurrent_growth_loses_no_entry() {
        for _ in 0..rounds(20) {
            let radix = Radix::<u64>::new(true);
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let radix = &radix;
                    scope.spawn(move || {
                        for bits in 0..15 {
                            let number = (1 << (4 * bits)) + thread;
                            assert!(put(radix.find_or_grow(number), number));
                        }
                    });
                }
            });
            for number in (0..15).flat_map(|bits| (0..4).map(move |t| (1 << (4 * bits)) + t)) {
                assert_eq!(radix.find(number).and_then(value), Some(number));
            }
        }
    }
}
