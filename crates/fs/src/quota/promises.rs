//! Blocks set aside for pages that a program may write through a mapping, and for whom: the open
//! files that may.
//!
//! Charged to the inode's account like use; `docs/design/quota.md` says who promises and who takes.

use hearth_sync::lock::{Lock, LockGuard};
use hearth_sync::lock_class;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

lock_class!(pub(crate) PromisesLock = "quota.promises", 75);

/// The promises of a volume, in parts by inode number.
pub(crate) struct Promises {
    parts: [Lock<PromisesLock, Part>; 16],
}

/// By inode.
type Part = HashMap<u64, Promise>;

#[derive(Default)]
struct Promise {
    /// Charged writers: open files.
    writers: u32,
    pages: BTreeSet<u64>,
}

/// The promises of one inode, and the lock of its part.
pub(crate) struct Promised<'a> {
    ino: u64,
    part: LockGuard<'a, PromisesLock, Part>,
}

impl Promises {
    /// None.
    pub fn new() -> Promises {
        Promises {
            parts: std::array::from_fn(|_| Lock::new(HashMap::new())),
        }
    }

    /// Whether any inode has some.
    pub fn any(&self) -> bool {
        let has_pages = |part: &Part| part.values().any(|promise| !promise.pages.is_empty());
        self.parts.iter().any(|part| has_pages(&part.lock()))
    }

    /// Those of one inode.
    pub fn of(&self, ino: u64) -> Promised<'_> {
        Promised {
            ino,
            part: self.parts[ino as usize % self.parts.len()].lock(),
        }
    }
}

impl Promised<'_> {
    /// One more charged writer.
    pub fn add_writer(&mut self) {
        self.part.entry(self.ino).or_default().writers += 1;
    }

    /// One less; after the last one, the number of pages that were promised and not taken.
    pub fn remove_writer(&mut self) -> Option<u64> {
        let promise = self.part.get_mut(&self.ino).expect(COUNTED);
        promise.writers -= 1;
        if promise.writers > 0 {
            return None;
        }
        let promise = self.part.remove(&self.ino);
        promise.map(|promise| promise.pages.len() as u64)
    }

    /// Whether anybody may write.
    pub fn has_writers(&self) -> bool {
        self.part.contains_key(&self.ino)
    }

    /// How many pages are promised.
    pub fn count(&self) -> u64 {
        self.pages().map_or(0, |pages| pages.len() as u64)
    }

    /// Whether this page is.
    pub fn has(&self, page: u64) -> bool {
        self.pages().is_some_and(|pages| pages.contains(&page))
    }

    /// Which of these are.
    pub fn within(&self, range: Range<u64>) -> Vec<u64> {
        let pages = self.pages();
        pages.map_or(Vec::new(), |pages| pages.range(range).copied().collect())
    }

    /// These have been charged.
    pub fn add(&mut self, pages: Vec<u64>) {
        let promise = self.part.get_mut(&self.ino).expect(COUNTED);
        promise.pages.extend(pages);
    }

    /// These have got what was promised.
    pub fn remove(&mut self, pages: &[u64]) {
        if let Some(promise) = self.part.get_mut(&self.ino) {
            for page in pages {
                promise.pages.remove(page);
            }
        }
    }

    fn pages(&self) -> Option<&BTreeSet<u64>> {
        self.part.get(&self.ino).map(|promise| &promise.pages)
    }
}

const COUNTED: &str = "whoever promises is counted as a writer";
