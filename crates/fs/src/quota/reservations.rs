//! Block reservations, as in delayed allocation: blocks charged in advance for pages that a program
//! may write through a shared mapping.
//!
//! They are charged to the inode's account like use. `docs/design/quota.md` says which operations
//! reserve and which take a reservation.

use hearth_sync::lock::{Lock, LockGuard};
use hearth_sync::lock_class;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

lock_class!(pub(crate) ReservationsLock = "quota.reservations", 75);

/// The reservations of a volume, in shards by inode number.
pub(crate) struct Reservations {
    shards: [Lock<ReservationsLock, ReservationShard>; 16],
}

/// By inode number.
type ReservationShard = HashMap<u64, InodePages>;

#[derive(Default)]
struct InodePages {
    /// Charged writers: open files whose writes are charged before they are acknowledged.
    writers: u32,
    pages: BTreeSet<u64>,
}

/// The reservations of one inode, and the lock of its shard.
pub(crate) struct InodeReservations<'a> {
    ino: u64,
    shard: LockGuard<'a, ReservationsLock, ReservationShard>,
}

impl Reservations {
    /// No reservations.
    pub fn new() -> Reservations {
        Reservations {
            shards: std::array::from_fn(|_| Lock::new(HashMap::new())),
        }
    }

    /// Whether any inode has reserved pages.
    pub fn any(&self) -> bool {
        let has_pages =
            |shard: &ReservationShard| shard.values().any(|reserved| !reserved.pages.is_empty());
        self.shards.iter().any(|shard| has_pages(&shard.lock()))
    }

    /// The reservations of one inode.
    pub fn of(&self, ino: u64) -> InodeReservations<'_> {
        InodeReservations {
            ino,
            shard: self.shards[ino as usize % self.shards.len()].lock(),
        }
    }
}

impl InodeReservations<'_> {
    /// Adds a charged writer.
    pub fn add_writer(&mut self) {
        self.shard.entry(self.ino).or_default().writers += 1;
    }

    /// Removes a charged writer. After the last one, returns how many reserved pages were left.
    pub fn remove_writer(&mut self) -> Option<u64> {
        let reserved = self.shard.get_mut(&self.ino).expect(COUNTED);
        reserved.writers -= 1;
        if reserved.writers > 0 {
            return None;
        }
        let reserved = self.shard.remove(&self.ino);
        reserved.map(|reserved| reserved.pages.len() as u64)
    }

    /// Whether the inode has a charged writer.
    pub fn has_writers(&self) -> bool {
        self.shard.contains_key(&self.ino)
    }

    /// Number of reserved pages.
    pub fn count(&self) -> u64 {
        self.pages().map_or(0, |pages| pages.len() as u64)
    }

    /// Whether `page` is reserved.
    pub fn has(&self, page: u64) -> bool {
        self.pages().is_some_and(|pages| pages.contains(&page))
    }

    /// The reserved pages in `range`.
    pub fn within(&self, range: Range<u64>) -> Vec<u64> {
        let pages = self.pages();
        pages.map_or(Vec::new(), |pages| pages.range(range).copied().collect())
    }

    /// Reserves `pages`, which have been charged.
    pub fn add(&mut self, pages: Vec<u64>) {
        let reserved = self.shard.get_mut(&self.ino).expect(COUNTED);
        reserved.pages.extend(pages);
    }

    /// Takes the reservations of `pages`.
    pub fn remove(&mut self, pages: &[u64]) {
        if let Some(reserved) = self.shard.get_mut(&self.ino) {
            for page in pages {
                reserved.pages.remove(page);
            }
        }
    }

    fn pages(&self) -> Option<&BTreeSet<u64>> {
        self.shard.get(&self.ino).map(|reserved| &reserved.pages)
    }
}

const COUNTED: &str = "an inode with reservations has a charged writer";
