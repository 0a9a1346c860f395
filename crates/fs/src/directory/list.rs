//! Listing a directory: bucket after bucket, each as it was at one version, its entries in cookie
//! order.

use super::bucket::Bucket;
use super::{Directory, Entry};
use crate::name::NameHash;
use hearth_sync::epoch::Guard;
use std::hint::select_unpredictable;

/// Entries that a bucket rarely has more of.
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
            // Asked once for all buckets below: an eviction marks each as moved before it ends.
            if !self.is_complete() {
                return false;
            }
            let Some((table, _)) = live else {
                return self.is_new();
            };
            // A successor that is being filled has only what has moved there.
            let head = self.table.load(g);
            let is_filled = head.is_some_and(|head| std::ptr::eq(head, table));
            let most = if is_filled { usize::MAX } else { 1 };
            let last_of_each = table.cookies_of_each() - 1;
            // Until one of the buckets has moved to another table.
            for bucket in table.buckets_from_cookie(position).iter().take(most) {
                let start = bucket.seq.peek();
                let mut count = 0;
                bucket.for_each(g, |entry| {
                    if entry.cookie() >= position && !entry.is_negative() {
                        found.put(count, entry);
                        count += 1;
                    }
                });
                if bucket.is_moved() || bucket.seq.has_moved_since(start) {
                    wait_for(bucket);
                    break;
                }
                for entry in found.in_order(count) {
                    if !f(entry) {
                        return true;
                    }
                }
                position = (position | last_of_each) + 1;
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

/// Waits while the bucket is being changed.
#[cold]
#[inline(never)]
fn wait_for(bucket: &Bucket) {
    let _waited_for = bucket.seq.read_begin();
}

/// The entries that were found in one bucket, in an array as long as they are few: a vector would
/// ask for its room at each. Who has found them counts them: that stays in a register.
struct BucketEntries<'g> {
    /// The first ones; behind them is what earlier buckets left.
    few: [&'g Entry; FEW],
    /// All of them, if there are more.
    many: Vec<&'g Entry>,
}

/// Stands where no entry was found yet.
static NO_ENTRY: Entry = Entry::nothing();

impl<'g> BucketEntries<'g> {
    fn new() -> BucketEntries<'g> {
        BucketEntries {
            few: [&NO_ENTRY; FEW],
            many: Vec::new(),
        }
    }

    /// Puts one more beside the `count` that are there.
    #[inline]
    fn put(&mut self, count: usize, entry: &'g Entry) {
        match self.few.get_mut(count) {
            Some(place) => *place = entry,
            None => self.put_many(count, entry),
        }
    }

    #[cold]
    #[inline(never)]
    fn put_many(&mut self, count: usize, entry: &'g Entry) {
        if count == FEW {
            self.many.clear();
            self.many.extend(self.few);
        }
        self.many.push(entry);
    }

    /// The `count` entries in the order of their cookies.
    #[inline]
    fn in_order(&mut self, count: usize) -> &[&'g Entry] {
        if count > FEW {
            return self.many_in_order();
        }
        let few = &mut self.few[..count];
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

/// Sorts them. Their order is random, so a sort that branches on each comparison mispredicts every
/// other one: two or three, as mostly, go through a network without branches.
#[inline(always)]
fn sort_few(found: &mut [&Entry]) {
    match found {
        [] | [_] => {}
        [a, b] => order(a, b),
        [a, b, c] => {
            order(b, c);
            order(a, c);
            order(a, b);
        }
        more => sort_more(more),
    }
}

/// Exchanges the two unless they are in order.
#[inline(always)]
fn order<'g>(one: &mut &'g Entry, other: &mut &'g Entry) {
    let (a, b) = (*one, *other);
    let is_less = b.cookie() < a.cookie();
    *one = select_unpredictable(is_less, b, a);
    *other = select_unpredictable(is_less, a, b);
}

/// Sorts more than three by insertion.
#[inline(never)]
fn sort_more(found: &mut [&Entry]) {
    for end in 1..found.len() {
        for at in (0..end).rev() {
            if let [a, b, ..] = &mut found[at..] {
                order(a, b);
            }
        }
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
                    let some = &entries[..kept.min(entries.len())];
                    (0..).zip(some).for_each(|(n, entry)| found.put(n, entry));
                    let sorted = found.in_order(some.len());
                    let seen: Vec<_> = sorted.iter().map(|e| e.cookie()).collect();
                    match some.len() == entries.len() {
                        true => assert_eq!(seen, cookies, "{count}"),
                        false => assert_eq!(seen, [cookie(0)]),
                    }
                }
            }
        }
    }
}
