//! Listing a directory: bucket after bucket, each as it was at one version, its entries in cookie
//! order.

use super::bucket::{Bucket, INLINE};
use super::{Directory, Entry};
use crate::name::NameHash;
use hearth_sync::epoch::Guard;
use hearth_sync::rcu::TagSlot;
use std::hint::select_unpredictable;

/// Entries that are gathered before they are passed on, of as many buckets as have them. Gathering
/// is a loop of its own, which keeps all that it needs in registers.
const GATHERED: usize = 32;

/// Stands where no entry was found yet.
static NO_ENTRY: Entry = Entry::nothing();

impl Directory {
    /// Passes the entries after `cookie` to `f` in cookie order, some at a time, until `f` returns
    /// false. Returns whether the directory was complete; if not, it must be loaded, and the
    /// listing goes on where it stopped.
    // Always inlined: then what `f` does with each entry is part of the loop.
    #[inline(always)]
    pub fn list<'g>(
        &'g self,
        cookie: u64,
        g: &'g Guard,
        f: impl FnMut(&[&'g Entry]) -> bool,
    ) -> bool {
        self.list_by(usize::MAX, cookie, g, f)
    }

    /// [`Directory::list`] that reads at most so many buckets before it passes on what they have.
    #[inline(always)]
    fn list_by<'g>(
        &'g self,
        at_once: usize,
        cookie: u64,
        g: &'g Guard,
        mut f: impl FnMut(&[&'g Entry]) -> bool,
    ) -> bool {
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
            let mut buckets = table.buckets_from_cookie(position);
            if !is_filled {
                buckets = buckets.split_at(1).0;
            }
            let of_each = table.cookies_of_each();
            let mut some = [&NO_ENTRY; GATHERED];
            let mut many = Vec::new();
            // Until one of the buckets has moved to another table.
            while !buckets.is_empty() {
                let next = &buckets[..at_once.min(buckets.len())];
                let (found, passed) = match gather(next, &mut some, g) {
                    (_, 0) => match gather_one(&buckets[0], &mut some, &mut many, g) {
                        Some(found) => (found, 1),
                        None => break,
                    },
                    (count, passed) => (&some[..count], passed),
                };
                let is_before = |entry: &&&Entry| entry.cookie() < position;
                let before = found.iter().take_while(is_before).count();
                if !f(&found[before..]) {
                    return true;
                }
                position = (position & !(of_each - 1)) + passed as u64 * of_each;
                buckets = &buckets[passed..];
            }
        }
        true
    }

    /// Whether an entry is in memory, checked without a lock.
    pub fn has_entries(&self, g: &Guard) -> bool {
        let mut found = false;
        // By one: what is changed in the other buckets does not concern it.
        self.list_by(1, 0, g, |entries| {
            found = !entries.is_empty();
            !found
        });
        found
    }
}

/// Puts the entries of the first buckets into `found`, those of each in the order of their cookies,
/// until there may be no room for another bucket. Returns how many entries there are, and of how
/// many buckets; none if the first one is being changed, has moved or has overflow lines.
#[inline(never)]
fn gather<'g>(
    buckets: &'g [Bucket],
    found: &mut [&'g Entry; GATHERED],
    g: &'g Guard,
) -> (usize, usize) {
    let (mut count, mut passed) = (0, 0);
    for bucket in buckets {
        let room = found.get_mut(count..);
        let Some(room) = room.and_then(|room| room.first_chunk_mut::<INLINE>()) else {
            break;
        };
        let start = bucket.seq.peek();
        let Some(slots) = bucket.only_line() else {
            break;
        };
        let mut more = 0;
        let mut take = |slot: &'g TagSlot<Entry>| {
            if let Some((_, entry)) = slot.load(g)
                && !entry.is_negative()
            {
                room[more] = entry;
                more += 1;
            }
        };
        // Most buckets have nothing in the last ones, which are looked at together.
        let (near, far) = slots.split_at(INLINE - 2);
        near.iter().for_each(&mut take);
        if !TagSlot::are_empty(far) {
            far.iter().for_each(&mut take);
        }
        if bucket.seq.has_moved_since(start) {
            break;
        }
        sort_few(&mut room[..more]);
        count += more;
        passed += 1;
    }
    // Buckets move in their order: where this one has not, no other one had when it was read.
    match buckets.first() {
        Some(first) if !first.is_moved() => (count, passed),
        _ => (0, 0),
    }
}

/// The entries of one bucket in the order of their cookies, however many there are: in `some`, or
/// in `many` where that has no room. `None` if it has moved, or was changed meanwhile.
#[cold]
#[inline(never)]
fn gather_one<'f, 'g>(
    bucket: &'g Bucket,
    some: &'f mut [&'g Entry; GATHERED],
    many: &'f mut Vec<&'g Entry>,
    g: &'g Guard,
) -> Option<&'f [&'g Entry]> {
    // Waits while it is being changed.
    let start = bucket.seq.read_begin();
    let mut count = 0;
    many.clear();
    bucket.for_each(g, |entry| {
        if entry.is_negative() {
            return;
        }
        if count == GATHERED {
            many.extend_from_slice(&some[..]);
        }
        match some.get_mut(count) {
            Some(place) => *place = entry,
            None => many.push(entry),
        }
        count += 1;
    });
    let found = match some.get_mut(..count) {
        Some(some) => some,
        None => &mut many[..],
    };
    if bucket.is_moved() || bucket.seq.read_retry(start) {
        return None;
    }
    found.sort_unstable_by_key(|entry| entry.cookie());
    Some(found)
}

/// Sorts them. Their order is random, so a sort that branches on each comparison mispredicts every
/// other one: they go through a network without branches.
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
        [a, b, c, d] => {
            order(a, b);
            order(c, d);
            order(a, c);
            order(b, d);
            order(b, c);
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

/// Sorts more than four by insertion.
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
    fn entries_of_a_bucket_are_sorted_whatever_their_order() {
        let to = Target {
            ino: 7,
            generation: 1,
            kind: Kind::File,
        };
        let keys = NameKeys::from(&RandomState::with_seeds(1, 2, 3, 4));
        let name = keys.hashed(b"name");
        for count in 0..=INLINE {
            // Each row of so many cookies below `count`: every order, and equal ones.
            for mut row in 0..count.pow(count as u32) {
                let cookies: Vec<_> = (0..count)
                    .map(|_| {
                        let cookie = row % count;
                        row /= count;
                        cookie as u64
                    })
                    .collect();
                let entries: Vec<_> = cookies.iter().map(|&c| Entry::new(&name, c, to)).collect();
                let mut found: Vec<_> = entries.iter().map(|entry| &**entry).collect();
                sort_few(&mut found);
                let seen: Vec<_> = found.iter().map(|entry| entry.cookie()).collect();
                let mut sorted = cookies.clone();
                sorted.sort_unstable();
                assert_eq!(seen, sorted, "{cookies:?}");
            }
        }
    }
}
