//! The table of inodes: by the number that the kernel uses, and by what they are on the host.

use crate::closer::Closer;
use crate::identity::Identity;
use crate::node::{HeldDescriptor, Node, Place};
use hearth::{Errno, Kind, ROOT, Result};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use hearth_sync::primitive::thread::Thread;
use hearth_sync::primitive::{Arc, OnceLock};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

lock_class! {
    NodesLock = "host.nodes", 802;
    NumbersLock = "host.numbers", 804;
}

const SHARDS: usize = 64;

/// All inodes that the kernel refers to.
///
/// Lock order: a shard of `by_id`, then one of `by_number`. The reference count of a node is
/// changed under its shard of `by_id` alone, so that a lookup that comes with the last FORGET
/// either revives the node or makes another one.
#[derive(Debug)]
pub struct Nodes {
    by_id: Vec<Lock<NodesLock, HashMap<Identity, Counted>>>,
    by_number: Vec<Lock<NumbersLock, HashMap<u64, Arc<Node>>>>,
    hasher: RandomState,
    /// The last number that was given out. Relaxed: only that no two are equal counts.
    last: AtomicU64,
    root: Arc<Node>,
    /// Inodes of a shard from which on the shrinker is woken. Relaxed: the bound is approximate.
    full: AtomicUsize,
    /// The thread that is woken then.
    shrinker: OnceLock<Thread>,
    /// Inodes that are held without a name.
    held: AtomicUsize,
    /// Closes what the kernel has given back, which it does by a thread that serves requests.
    pub closer: Closer,
}

/// An inode that the kernel does not refer to any more.
pub struct GivenBack {
    pub node: Arc<Node>,
    /// It had lost its last name through the mount, so it is gone.
    pub is_nameless: bool,
}

#[derive(Debug)]
struct Counted {
    node: Arc<Node>,
    /// References of the kernel.
    lookups: u64,
}

impl Nodes {
    /// Parts of the table; see [`Nodes::unused`].
    pub const PARTS: usize = SHARDS;

    /// Bytes of an inode with its share of the tables and of what the allocator cannot use: 150,000
    /// of them made a daemon grow by 697 bytes each.
    pub const BYTES: u64 = 704;

    /// The root alone, which stays.
    pub fn new(root: Identity) -> Nodes {
        Nodes {
            by_id: (0..SHARDS).map(|_| Lock::new(HashMap::new())).collect(),
            by_number: (0..SHARDS).map(|_| Lock::new(HashMap::new())).collect(),
            hasher: RandomState::new(),
            last: AtomicU64::new(ROOT),
            root: Arc::new(Node::new(ROOT, root, Kind::Directory, None)),
            full: AtomicUsize::new(usize::MAX),
            shrinker: OnceLock::new(),
            held: AtomicUsize::new(0),
            closer: Closer::default(),
        }
    }

    /// From now on `shrinker` is woken when there are more than about `most` inodes.
    pub fn bound(&self, most: usize, shrinker: Thread) {
        if self.shrinker.set(shrinker).is_ok() {
            self.full.store(most.div_ceil(SHARDS), Relaxed);
        }
    }

    /// The root.
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// The inode of a number.
    ///
    /// # Errors
    /// `ESTALE` for one that the kernel has given back.
    pub fn get(&self, number: u64) -> Result<Arc<Node>> {
        if number == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let shard = self.of_number(number).lock();
        let node = shard.get(&number).cloned().ok_or(Errno::ESTALE)?;
        drop(shard);
        node.mark_used();
        Ok(node)
    }

    /// Takes a reference on an inode, which was found at `place`.
    pub fn take(&self, id: Identity, kind: Kind, place: Option<Place>) -> Arc<Node> {
        if id == self.root.id {
            return Arc::clone(&self.root);
        }
        let mut shard = self.of_id(&id).lock();
        if let Some(counted) = shard.get_mut(&id) {
            counted.lookups += 1;
            let node = Arc::clone(&counted.node);
            drop(shard);
            node.mark_used();
            if let Some(place) = place {
                node.set_place(place);
            }
            return node;
        }
        // Relaxed: see `last`.
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let node = Arc::new(Node::new(number, id, kind, place));
        let counted = Counted {
            node: Arc::clone(&node),
            lookups: 1,
        };
        shard.insert(id, counted);
        let in_table = Arc::clone(&node);
        self.of_number(number).lock().insert(number, in_table);
        let is_full = shard.len() > self.full.load(Relaxed);
        drop(shard);
        if let (true, Some(shrinker)) = (is_full, self.shrinker.get()) {
            shrinker.unpark();
        }
        node
    }

    /// Takes one more reference on an inode.
    ///
    /// # Errors
    /// `ESTALE` if the kernel has given it back meanwhile.
    pub fn take_again(&self, node: &Node) -> Result<()> {
        if node.number == ROOT {
            return Ok(());
        }
        let mut shard = self.of_id(&node.id).lock();
        let counted = shard.get_mut(&node.id).ok_or(Errno::ESTALE)?;
        counted.lookups += 1;
        Ok(())
    }

    /// The inode if the kernel refers to it.
    pub fn known(&self, id: &Identity) -> Option<Arc<Node>> {
        if *id == self.root.id {
            return Some(Arc::clone(&self.root));
        }
        let shard = self.of_id(id).lock();
        shard.get(id).map(|counted| Arc::clone(&counted.node))
    }

    /// Gives back references. Returns the inode if they were the last.
    pub fn give_back(&self, number: u64, count: u64) -> Option<GivenBack> {
        let shard = self.of_number(number).lock();
        let node = shard.get(&number).cloned()?;
        drop(shard);
        let mut shard = self.of_id(&node.id).lock();
        let counted = shard.get_mut(&node.id)?;
        counted.lookups = counted.lookups.saturating_sub(count);
        if counted.lookups > 0 {
            return None;
        }
        let gone = shard.remove(&node.id);
        let in_table = self.of_number(number).lock().remove(&number);
        drop(shard);
        // Outside the locks: a node may hold the last reference to its directory.
        let held = self.let_go(&node);
        let is_nameless = held.is_some();
        if let Some((fd, place)) = held {
            self.closer.close(fd, place);
        }
        drop((gone, in_table));
        Some(GivenBack { node, is_nameless })
    }

    /// An inode that has lost its last name is held from now on ([`Node::hold`]).
    pub fn note_held(&self) {
        // Relaxed: only whether there are any counts, for whoever is refused room.
        self.held.fetch_add(1, Relaxed);
    }

    /// Gives up what is held of an inode: it has a name, or the kernel has given it back, and its
    /// room would be kept.
    pub fn let_go(&self, node: &Node) -> Option<HeldDescriptor> {
        let held = node.take_held();
        if held.is_some() {
            // Relaxed: see `note_held`.
            self.held.fetch_sub(1, Relaxed);
        }
        held
    }

    /// Whether inodes without a name are held, which the kernel may be about to give back.
    pub fn has_held(&self) -> bool {
        // Relaxed: see `note_held`.
        self.held.load(Relaxed) > 0
    }

    /// All inodes that the kernel refers to, but for the root.
    pub fn all(&self) -> Vec<Arc<Node>> {
        let shards = self.by_number.iter();
        let of = |shard: &Lock<NumbersLock, HashMap<u64, Arc<Node>>>| {
            shard.lock().values().cloned().collect::<Vec<_>>()
        };
        shards.flat_map(of).collect()
    }

    /// Numbers of inodes in a part of the table that are not open and were not used since the last
    /// call for this part (the clock algorithm: a used one is passed over once). `part` is taken
    /// modulo [`Nodes::PARTS`].
    pub fn unused(&self, part: usize) -> Vec<u64> {
        let shard = self.by_number[part % SHARDS].lock();
        let unused = shard
            .values()
            .filter(|node| !node.take_used() && !node.is_open());
        unused.map(|node| node.number).collect()
    }

    /// How many inodes the kernel refers to, the root beside.
    pub fn len(&self) -> u64 {
        let shards = self.by_id.iter();
        1 + shards.map(|shard| shard.lock().len() as u64).sum::<u64>()
    }

    /// An inode that `is_it` knows. Visits all of them.
    pub fn find(&self, is_it: impl Fn(&Identity) -> bool) -> Option<Arc<Node>> {
        self.by_id.iter().find_map(|shard| {
            let shard = shard.lock();
            let found = shard.iter().find(|(id, _)| is_it(id));
            found.map(|(_, counted)| Arc::clone(&counted.node))
        })
    }

    /// Whether the kernel refers to the inode.
    pub fn has(&self, number: u64) -> bool {
        number == ROOT || self.of_number(number).lock().contains_key(&number)
    }

    /// Gives back all references.
    pub fn clear(&self) {
        for shard in &self.by_id {
            let gone = std::mem::take(&mut *shard.lock());
            for counted in gone.values() {
                let number = counted.node.number;
                let in_table = self.of_number(number).lock().remove(&number);
                drop(in_table);
                drop(self.let_go(&counted.node));
            }
        }
    }

    fn of_id(&self, id: &Identity) -> &Lock<NodesLock, HashMap<Identity, Counted>> {
        &self.by_id[self.hasher.hash_one(id) as usize % SHARDS]
    }

    fn of_number(&self, number: u64) -> &Lock<NumbersLock, HashMap<u64, Arc<Node>>> {
        &self.by_number[number as usize % SHARDS]
    }
}
