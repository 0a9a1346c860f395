//! A concurrent map for read-mostly side tables.
//!
//! A wrapper of papaya: reads take no lock and write nothing, as a side table on a read path
//! requires. Two threads that update it slow each other down by its memory reclamation, so tables
//! that operations update are built on [`crate::rcu`] instead.

use std::borrow::Borrow;
use std::hash::Hash;

/// A concurrent map for read-mostly side tables.
pub struct ConcurrentMap<K, V> {
    map: papaya::HashMap<K, V>,
}

impl<K: Hash + Eq, V> ConcurrentMap<K, V> {
    /// An empty map.
    pub fn new() -> ConcurrentMap<K, V> {
        ConcurrentMap {
            map: papaya::HashMap::new(),
        }
    }

    /// Applies `read` to the value of `key`; `None` if there is none. Writes nothing.
    #[inline]
    pub fn get_with<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.pin().get(key).map(read)
    }

    /// True if `key` has a value.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.pin().contains_key(key)
    }

    /// Sets the value of `key`; true if it replaced another.
    pub fn insert(&self, key: K, value: V) -> bool {
        self.map.pin().insert(key, value).is_some()
    }

    /// Sets the value of `key` unless it has one; true if it had none.
    pub fn insert_new(&self, key: K, value: V) -> bool {
        self.map.pin().try_insert(key, value).is_ok()
    }

    /// Removes `key`; true if it was there.
    pub fn remove<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.pin().remove(key).is_some()
    }

    /// Calls `see` for every entry, in no particular order.
    ///
    /// Entries that are added or removed meanwhile may be missed.
    pub fn for_each(&self, mut see: impl FnMut(&K, &V)) {
        for (key, value) in &self.map.pin() {
            see(key, value);
        }
    }

    /// The number of entries; exact while no thread updates the map.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

impl<K: Hash + Eq, V> Default for ConcurrentMap<K, V> {
    fn default() -> ConcurrentMap<K, V> {
        ConcurrentMap::new()
    }
}

impl<K, V> std::fmt::Debug for ConcurrentMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConcurrentMap").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::primitive::rounds;

    #[test]
    fn an_entry_is_found_until_it_is_removed() {
        let map = ConcurrentMap::new();
        assert!(!map.insert("a".to_owned(), 1));
        assert!(map.insert("a".to_owned(), 2));
        assert!(!map.insert_new("a".to_owned(), 3));
        assert_eq!(map.get_with("a", |&value| value), Some(2));
        assert_eq!(map.len(), 1);
        assert!(map.remove("a"));
        assert!(!map.remove("a"));
        assert_eq!(map.get_with("a", |&value| value), None);
        assert!(map.is_empty());
    }

    #[test]
    fn concurrent_inserts_are_not_lost() {
        let (map, each) = (ConcurrentMap::new(), rounds(1_000));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let map = &map;
                scope.spawn(move || {
                    for i in 0..each {
                        map.insert(thread * each + i, i);
                    }
                });
            }
        });
        assert_eq!(map.len() as u64, 4 * each);
        let mut sum = 0;
        map.for_each(|_, &value| sum += value);
        assert_eq!(sum, 4 * (0..each).sum::<u64>());
    }
}
