//! Numbers to places, found without a lock and grown without a stop.
//!
//! A tree whose nodes have [`BLOCK`](super::BLOCK) slots each; its leaves are the places of as many
//! objects in a row. The root knows how many levels there are, so that small numbers are found in
//! few steps; a number that is too large for the tree puts a new root on top, with the old one as
//! its first child. Nodes and leaves are never removed while the tree lives.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::held::{Object, Word};
use super::numbers::BLOCK_BITS;
use super::place::Place;
use super::slabs::Slabs;
use crate::primitive::atomic::{AtomicPtr, Ordering};

/// A tree of places.
pub(super) struct Radix<T> {
    /// A node or a leaf, with the number of levels above the leaves in the low bits of the address.
    root: AtomicPtr<Node>,
    /// Where the leaves are.
    slabs: Slabs,
    _places: PhantomData<*mut Object<T>>,
}

// SAFETY: the tree hands out places, whose words are atomic; objects are put there and taken out by
// the user, who states the bounds.
unsafe impl<T> Send for Radix<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for Radix<T> {}

const FAN: usize = 1 << BLOCK_BITS;

/// An inner node points to nodes or leaves.
///
/// Every slot has a cache line of its own: whoever looks a number up does not notice that others
/// make what lies beside it.
struct Node([OwnLine; FAN]);

#[repr(align(64))]
struct OwnLine(AtomicPtr<Node>);

/// The bits of a root's address that hold its height; nodes and leaves are aligned beyond them.
const HEIGHT: usize = align_of::<Node>() - 1;

impl<T> Radix<T> {
    pub(super) fn new() -> Radix<T> {
        let slabs = Slabs::new();
        Radix {
            root: AtomicPtr::new(join(new_leaf::<T>(&slabs), 0)),
            slabs,
            _places: PhantomData,
        }
    }

    /// The place of `number`, if the tree reaches there.
    #[inline]
    pub(super) fn find(&self, number: u64) -> Option<Place<'_, T>> {
        // Acquire: pairs with the Release in `grow`; the nodes below are complete.
        let (mut node, height) = split(self.root.load(Ordering::Acquire));
        if !covers(height, number) {
            return None;
        }
        let mut level = height;
        while level > 0 {
            // SAFETY: roots and inner slots point to nodes that live as long as the tree.
            let slot = &unsafe { &*node }.0[index(number, level)].0;
            // Acquire: pairs with the Release in `child`.
            node = slot.load(Ordering::Acquire);
            if node.is_null() {
                return None;
            }
            level -= 1;
        }
        // SAFETY: at level 0 it is a leaf.
        Some(unsafe { place(node, index(number, 0)) })
    }

    /// The place of `number`; the tree grows there if it must.
    pub(super) fn reach(&self, number: u64) -> Place<'_, T> {
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
            node = self.child(&unsafe { &*node }.0[index(number, level)].0, level - 1);
        }
        // SAFETY: at level 0 it is a leaf.
        unsafe { place(node, index(number, 0)) }
    }

    /// Shows the place of every number from `from` on that means something, in the order of the
    /// numbers, until `see` returns false.
    pub(super) fn scan(&self, from: u64, mut see: impl FnMut(Place<'_, T>) -> bool) {
        // Acquire: pairs with the Release in `grow`.
        let (root, height) = split(self.root.load(Ordering::Acquire));
        if covers(height, from) {
            // SAFETY: the root has this height and lives as long as the tree.
            unsafe { scan_node(root, height, from, &mut see) };
        }
    }

    /// The child in `slot`, made now unless another thread was faster.
    fn child(&self, slot: &AtomicPtr<Node>, level: u32) -> *mut Node {
        // Acquire: pairs with the Release below.
        let found = slot.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        let new = match level {
            0 => new_leaf::<T>(&self.slabs),
            _ => Node::new(),
        };
        // Release: pairs with the Acquire loads of inner slots. Acquire on failure: the other
        // thread's node is about to be used.
        match slot.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire) {
            Ok(_) => new,
            Err(theirs) => {
                if level > 0 {
                    // SAFETY: the exchange failed, so nobody else has seen the node.
                    drop(unsafe { Box::from_raw(new) });
                }
                // A leaf too many lies idle until the tree goes: it takes addresses, not memory.
                theirs
            }
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
        unsafe { free::<T>(root, height) };
    }
}

/// Places of as many numbers as a leaf has, each meaning nothing.
fn new_leaf<T>(slabs: &Slabs) -> *mut Node {
    let leaf = slabs.take(FAN * size_of::<Object<T>>()).cast::<Object<T>>();
    // Zeros are null words; under a model checker a word is more than a pointer.
    if cfg!(any(feature = "loom", feature = "shuttle")) {
        for at in 0..FAN {
            // SAFETY: the memory is ours and has room for that many places.
            unsafe { Object::word_of(leaf.add(at)).write(Word::new(ptr::null_mut())) };
        }
    }
    leaf.as_ptr().cast()
}

/// # Safety
///
/// `leaf` is a leaf of a tree of `T` that lives as long as `'a`, and `at` is below [`FAN`].
#[inline]
unsafe fn place<'a, T>(leaf: *mut Node, at: usize) -> Place<'a, T> {
    // SAFETY: leaves have FAN places with initialised words.
    unsafe { Place::new(NonNull::new_unchecked(leaf.cast::<Object<T>>().add(at))) }
}

/// # Safety
///
/// `node` is a node of `level` in a tree of `T` that lives for the length of the call.
unsafe fn scan_node<T>(
    node: *mut Node,
    level: u32,
    from: u64,
    see: &mut impl FnMut(Place<'_, T>) -> bool,
) -> bool {
    let first = index(from, level);
    for at in first..FAN {
        let go_on = if level == 0 {
            // SAFETY: at level 0 it is a leaf.
            let place: Place<'_, T> = unsafe { place(node, at) };
            place.load().is_null() || see(place)
        } else {
            // SAFETY: above level 0 it is a node.
            let slot = unsafe { &(*node).0[at].0 };
            // Acquire: pairs with the Release in `child`.
            let below = slot.load(Ordering::Acquire);
            // Only the first child on the way is entered in the middle.
            let from = if at == first { from } else { 0 };
            // SAFETY: inner slots point to what lies a level below.
            below.is_null() || unsafe { scan_node(below, level - 1, from, see) }
        };
        if !go_on {
            return false;
        }
    }
    true
}

/// # Safety
///
/// `node` is a node of `level` in a tree of `T`, and nobody uses it any more.
unsafe fn free<T>(node: *mut Node, level: u32) {
    if level == 0 {
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
        let below = slot.load(Ordering::Relaxed);
        if !below.is_null() {
            // SAFETY: an inner slot points to what lies a level below, which it owns.
            unsafe { free::<T>(below, level - 1) };
        }
    }
}

/// Levels above the leaves in a tree that has every number.
const TALLEST: u32 = (u64::BITS - 1) / BLOCK_BITS;
const _: () = assert!(TALLEST as usize <= HEIGHT);

/// `level` is at most [`TALLEST`].
#[inline]
fn index(number: u64, level: u32) -> usize {
    (number >> (level * BLOCK_BITS)) as usize % FAN
}

#[inline]
fn covers(height: u32, number: u64) -> bool {
    height == TALLEST || number >> ((height + 1) * BLOCK_BITS) == 0
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
    use crate::object::held::Body;

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

    fn put(place: Place<'_, u64>, number: u64) -> bool {
        place.fill(Body::held(number, 1, number)).is_ok()
    }

    fn value(place: Place<'_, u64>) -> Option<u64> {
        // SAFETY: objects that these tests put are never ended.
        unsafe { place.load().as_ref() }.map(|object| **object)
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let radix = Radix::<u64>::new();
        for number in NUMBERS {
            assert_eq!(radix.find(number).and_then(value), None, "{number}");
            assert!(put(radix.reach(number), number));
        }
        for number in NUMBERS {
            let place = radix.find(number).expect("it was reached");
            assert_eq!(value(place), Some(number));
            assert!(!put(place, 3));
        }
        assert!(radix.find(5).is_some_and(|place| place.load().is_null()));
        assert!(radix.find(1 << 50).is_none());
    }

    #[test]
    fn a_scan_sees_numbers_in_order_from_where_it_starts() {
        let radix = Radix::<u64>::new();
        for number in NUMBERS {
            assert!(put(radix.reach(number), number));
        }
        for from in 0..NUMBERS.len() {
            let mut seen = Vec::new();
            radix.scan(NUMBERS[from], |place| {
                seen.extend(value(place));
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
    fn threads_that_grow_the_tree_lose_nothing() {
        for _ in 0..20 {
            let radix = Radix::<u64>::new();
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let radix = &radix;
                    scope.spawn(move || {
                        for bits in 0..15 {
                            let number = (1 << (4 * bits)) + thread;
                            assert!(put(radix.reach(number), number));
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
