//! Listing a directory: bucket after bucket, each as it was at one version, its entries in cookie
//! order.

use super::{Directory, Entry};
use crate::name::NameHash;
use hearth_sync::epoch::Guard;

/// Entries that are sorted without branches. A bucket rarely has more.
const FEW: usize = 8;

impl Directory {
    /// Passes the entries after `cookie` to `f` in cookie order until `f` returns false. Returns
    /// whether the directory was complete; if not, it must be loaded, and the listing goes on where
    /// it stopped.
    pub fn list<'g>(
        &'g self,
        cookie: u64,
        g: &'g Guard,
        mut f: impl FnMut(&'g Entry) -> bool,
    ) -> bool {
        let mut found = BucketEntries::new();
        // A cookie here, of the first entry that is wanted.
        let mut position = cookie.saturating_add(1);
        while position < 1 << NameHash::COOKIE_BITS {
            let live = self.live(NameHash::position_of(position), g);
            if !self.is_complete() {
                return false;
            }
            let Some((table, _)) = live else {
                return self.is_new();
            };
            // A successor that is being filled has only what has moved there.
            let head = self.table.load(g);
            let is_filled = head.is_some_and(|head| std::ptr::eq(head, table));
            let first = table.index_of(position);
            // Until one of the buckets has moved to another table.
            for (index, bucket) in table.buckets().iter().enumerate().skip(first) {
                found.clear();
                let start = bucket.seq.read_begin();
                bucket.for_each(g, |entry| {
                    if entry.cookie() >= position && !entry.is_negative() {
                        found.push(entry);
                    }
                });
                // Read before the count is checked: eviction drops entries inside a write section.
                let is_complete = self.is_complete();
                if bucket.is_moved() || bucket.seq.read_retry(start) {
                    break;
                }
                if !is_complete {
                    return false;
                }
                if !found.in_order().iter().all(|entry| f(entry)) {
                    return true;
                }
                position = table.end_of(index);
                if !is_filled {
                    break;
                }
            }
        }
        true
    }

    /// Whether an entry is in memory, checked without a lock.
    pub fn has_entries(&self, g: &Guard) -> bool {
        let mut found = false;
        self.list(0, g, |_| {
            found = true;
            false
        });
        found
    }
}

/// The entries that were found in one bucket, in an array as long as they are few: a vector would
/// ask for its room at each.
struct BucketEntries<'g> {
    /// The first ones; behind them is what earlier buckets left.
    few: [&'g Entry; FEW],
    count: usize,
    /// All of them, if there are more.
    many: Vec<&'g Entry>,
}

/// Stands where no entry was found yet.
static NO_ENTRY: Entry = Entry::nothing();

impl<'g> BucketEntries<'g> {
    fn new() -> BucketEntries<'g> {
        BucketEntries {
            few: [&NO_ENTRY; FEW],
            count: 0,
            many: Vec::new(),
        }
    }

    #[inline]
    fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    fn push(&mut self, entry: &'g Entry) {
        match self.few.get_mut(self.count) {
            Some(place) => *place = entry,
            None => self.push_many(entry),
        }
        self.count += 1;
    }

    #[cold]
    #[inline(never)]
    fn push_many(&mut self, entry: &'g Entry) {
        if self.count == FEW {
            self.many.clear();
            self.many.extend(self.few);
        }
        self.many.push(entry);
    }

    /// The entries in the order of their cookies.
    #[inline]
    fn in_order(&mut self) -> &[&'g Entry] {
        if self.count > FEW {
            return self.many_in_order();
        }
        let few = &mut self.few[..self.count];
        sort_few(few);
        few
    }

    #[cold]
    #[inline(never)]
    fn many_in_order(&mut self) -> &[&'g Entry] {
        self.many.sort_unstable_by_key(|entry| entry.cookie());
        &self.many
    }
}

/// Sorts by selection of the largest: their order is random, so a sort that branches on each
/// comparison mispredicts every other one. This one moves two pointers either way.
#[inline]
fn sort_few(found: &mut [&Entry]) {
    for end in (1..found.len()).rev() {
        let mut largest = found[0];
        for at in 0..end {
            let next = found[at + 1];
            let is_larger = next.cookie() >= largest.cookie();
            found[at] = if is_larger { largest } else { next };
            largest = if is_larger { next } else { largest };
        }
        found[end] = largest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Kind, Target};
    use crate::hashed::NameKeys;
    use ahash::RandomState;

    #[test]
    fn entries_come_in_the_order_of_their_cookies_few_or_many() {
        let to = Target {
            ino: 7,
            generation: 1,
            kind: Kind::File,
        };
        let keys = NameKeys::from(&RandomState::with_seeds(1, 2, 3, 4));
        let name = keys.hashed(b"name");
        for count in 0..3 * FEW as u64 {
            // Every order that a step through a ring makes, and equal cookies.
            for step in [1, 5, 7, 11, 13] {
                let cookie = |n: u64| n * step % 25 / 2;
                let entries: Vec<_> = (0..count)
                    .map(|n| Entry::new(&name, cookie(n), to))
                    .collect();
                let mut cookies: Vec<_> = (0..count).map(cookie).collect();
                cookies.sort_unstable();
                // One after the other, as of buckets: what the first left is not seen again.
                let mut found = BucketEntries::new();
                for kept in [entries.len(), 1, entries.len()] {
                    found.clear();
                    let some = &entries[..kept.min(entries.len())];
                    some.iter().for_each(|entry| found.push(entry));
                    let seen: Vec<_> = found.in_order().iter().map(|e| e.cookie()).collect();
                    match some.len() == entries.len() {
                        true => assert_eq!(seen, cookies, "{count}"),
                        false => assert_eq!(seen, [cookie(0)]),
                    }
                }
            }
        }
    }
}
