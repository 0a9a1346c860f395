//! Cookies of 31 bits for directories whose filesystem has longer ones: `docs/design/host.md`,
//! "Positions in a directory".
//!
//! Such a position is that of the next name in the order of the directory. On ext4, and where a
//! filesystem above passes its positions on, it is 31 bits of a hash, and below them 32 of a second
//! one for names that have the first in common.

use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::HashMap;

/// The largest cookie that every program can hold.
const NARROW: u64 = i32::MAX as u64;
/// The end of a directory, as ext4 says it.
pub const END: u64 = i64::MAX as u64;
/// Positions within names of one hash that are remembered for one open directory.
const REMEMBERED: usize = 65_536;
/// Those of all open directories together: some 10 MiB.
const REMEMBERED_BY_ALL: usize = 262_144;
/// Numbers above a hash that are tried for a position within.
const TRIED: u64 = 16;

/// How many positions all open directories remember. Relaxed: it is a bound, and nothing else goes
/// by it.
#[derive(Debug, Default)]
pub struct Remembered(AtomicUsize);

/// What stands for which position of one open directory.
#[derive(Debug)]
pub struct Cookies {
    /// Positions are those of an order, so that they can be shortened.
    ordered: bool,
    /// Numbers that stand for a position within names of one hash.
    within: HashMap<u64, u64>,
    /// Counts those of `within` with all others.
    all: Arc<Remembered>,
}

impl Remembered {
    /// Counts one more, if there are fewer than `most`.
    fn take(&self, most: usize) -> bool {
        let more = |count| (count < most).then_some(count + 1);
        self.0.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}

impl Cookies {
    /// Of a directory that was opened just now.
    pub fn new(all: &Arc<Remembered>) -> Cookies {
        Cookies {
            ordered: false,
            within: HashMap::new(),
            all: Arc::clone(all),
        }
    }

    /// Whether positions are shortened from now on.
    pub fn set_ordered(&mut self, ordered: bool) {
        self.ordered = ordered;
    }

    /// Whether positions are shortened.
    pub fn shortens(&self) -> bool {
        self.ordered
    }

    /// Whether a position is the end of the directory.
    pub fn is_end(&self, position: u64) -> bool {
        self.ordered && position == END
    }

    /// Whether positions have the form of those that can be shortened: all are longer, and each
    /// lies behind the one before.
    pub fn have_form(positions: impl IntoIterator<Item = u64>) -> bool {
        let mut before = NARROW;
        positions.into_iter().all(|position| {
            let is_behind = position > before && position <= END;
            before = position;
            is_behind
        })
    }

    /// Where a directory in order begins to look for what is shown as [`Cookies::shown`] of this
    /// position, if it is not the position itself and the name before has another hash.
    pub fn shortened(at: u64, next: u64) -> Option<u64> {
        (!is_of_hash(next) && at >> 32 != next >> 32).then_some(next >> 32 << 32)
    }

    /// The cookie that is shown for the position `next`, behind a name that lies at `at`.
    pub fn shown(&mut self, at: u64, next: u64) -> u64 {
        if !self.ordered || next <= NARROW {
            return next;
        }
        if next == END {
            return NARROW;
        }
        let hash = next >> 32;
        if at >> 32 != hash {
            return match self.within.get(&hash) {
                Some(&other) if other != next => next,
                Some(_) => hash,
                None => {
                    if is_of_hash(at) {
                        self.remember(hash, next, 2);
                    }
                    hash
                }
            };
        }
        let free = (hash + 1..=hash + TRIED).find(|number| {
            let known = self.within.get(number);
            *number < NARROW && known.is_none_or(|&position| position == next)
        });
        match free {
            Some(number) if self.remember(number, next, 1) => number,
            _ => next,
        }
    }

    /// The position that a cookie stands for.
    pub fn position(&self, cookie: u64) -> u64 {
        if !self.ordered || cookie > NARROW {
            return cookie;
        }
        match self.within.get(&cookie) {
            Some(&position) => position,
            None if cookie == NARROW => END,
            None => cookie << 32,
        }
    }

    /// Remembers what a number stands for, while less than the room divided by `part` is taken.
    fn remember(&mut self, number: u64, position: u64, part: usize) -> bool {
        let fits = self.within.contains_key(&number)
            || self.within.len() < REMEMBERED / part && self.all.take(REMEMBERED_BY_ALL / part);
        if fits {
            self.within.insert(number, position);
        }
        fits
    }
}

impl Drop for Cookies {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.within.len(), Relaxed);
    }
}

/// Whether a position is that of a hash and of no name: what is found there may lie anywhere
/// behind, and have the hash of the next name.
fn is_of_hash(position: u64) -> bool {
    position as u32 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_testing::random::Random;

    /// A directory in the order of its positions, the first of which is 0.
    struct Ext4(Vec<u64>);

    impl Ext4 {
        /// Names of few hashes, so that many have the same one. A directory of one block has its
        /// dots among them.
        fn new(random: &mut Random, names: usize, hashes: u64) -> Ext4 {
            let base = random.below(NARROW - 2 * hashes - 32) + 1;
            let mut all = match random.below(2) {
                0 => vec![0, 1 << 32],
                _ => vec![base << 32 | 3, base << 32 | 7],
            };
            while all.len() < names {
                let hash = base + random.below(hashes);
                all.push(hash << 32 | random.below(1 << 32));
            }
            all.sort_unstable();
            all.dedup();
            Ext4(all)
        }

        /// The names at and behind a position, each with the position where it is looked for and
        /// with the next one, as `getdents(2)` tells it.
        fn read(&self, position: u64) -> Vec<(u64, u64, u64)> {
            let behind = self.0.iter().copied().filter(|&name| name >= position);
            let names: Vec<u64> = behind.collect();
            let next = |n: usize| names.get(n + 1).copied().unwrap_or(END);
            let from = |n: usize| if n == 0 { position } else { names[n] };
            (0..names.len())
                .map(|n| (from(n), names[n], next(n)))
                .collect()
        }
    }

    /// Whether a position has more bits than every program can hold.
    fn is_wide(position: u64) -> bool {
        position > NARROW
    }

    fn ordered() -> Cookies {
        of(&Arc::default())
    }

    fn of(all: &Arc<Remembered>) -> Cookies {
        let mut cookies = Cookies::new(all);
        cookies.set_ordered(true);
        cookies
    }

    #[test]
    fn a_listing_that_stops_anywhere_shows_each_name_once_and_in_31_bits() {
        let (mut random, mut wide) = (Random(7), 0);
        for round in 0..200 {
            let hashes = [10_000, 1_000, 200][round % 3];
            let directory = Ext4::new(&mut random, 100, hashes);
            let (mut cookies, mut cookie, mut seen) = (ordered(), 0, Vec::new());
            while cookie != NARROW {
                let entries = directory.read(cookies.position(cookie));
                let most = 1 + random.below(4) as usize;
                for (at, name, next) in entries.into_iter().take(most) {
                    seen.push(name);
                    cookie = cookies.shown(at, next);
                    assert_eq!(cookies.position(cookie).max(next), next);
                    wide += u32::from(is_wide(cookie) && hashes == 10_000);
                }
            }
            assert_eq!(seen, directory.0, "round {round}");
        }
        assert!(wide < 5, "{wide} of 67 directories with some pairs");
    }

    /// Once, the cookie of the first name meant its hash, and so the name itself.
    #[test]
    fn the_first_name_of_a_directory_may_have_the_hash_of_the_second() {
        let (first, second) = (9 << 32 | 4, 9 << 32 | 6);
        // From the start, or from where a name was that is gone.
        for from in [0, 8 << 32] {
            let mut cookies = ordered();
            let cookie = cookies.shown(from, second);
            assert!(cookie <= NARROW, "{cookie}");
            assert_eq!(cookies.position(cookie), second);
            let exact = cookies.shown(first, second);
            assert_eq!(cookies.position(exact), second);
        }
    }

    #[test]
    fn what_is_first_of_its_hash_holds_in_another_descriptor() {
        let mut cookies = ordered();
        let (first, second, third) = (5 << 32 | 9, 7 << 32 | 1, 7 << 32 | 4);
        assert_eq!(cookies.shown(1 << 32 | 1, first), 5);
        assert_eq!(cookies.shown(first, second), 7);
        let within = cookies.shown(second, third);
        assert_eq!(within, 8);
        assert_eq!(cookies.shown(second, third), within, "again");
        assert_eq!(cookies.shown(third, END), NARROW);
        let others = ordered();
        for cookie in [5, 7, NARROW] {
            assert_eq!(others.position(cookie), cookies.position(cookie));
        }
        assert_eq!(
            (others.position(5), others.position(NARROW)),
            (5 << 32, END)
        );
        assert_eq!((cookies.position(within), cookies.position(0)), (third, 0));
        // A name that comes to have the hash for which `within` stands keeps its long position.
        let later = 8 << 32 | 3;
        assert_eq!(cookies.shown(third, later), later);
        assert_eq!(cookies.position(later), later);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_no_hash_is_left_alone() {
        let mut cookies = ordered();
        for n in 0..REMEMBERED as u64 + 5 {
            let hash = (100 * (n + 1)) << 32;
            let shown = cookies.shown(hash, hash | 1);
            assert_eq!(is_wide(shown), n >= REMEMBERED as u64);
            assert_eq!(cookies.position(shown), hash | 1);
        }
        assert_eq!(cookies.within.len(), REMEMBERED);
        let mut plain = Cookies::new(&Arc::default());
        for position in [0, 3, NARROW, 9 << 32 | 7, END] {
            assert_eq!(plain.shown(0, position), position);
            assert_eq!(plain.position(position), position);
        }
    }

    #[test]
    fn all_open_directories_together_remember_no_more_than_that() {
        let all = Arc::default();
        let fill = |cookies: &mut Cookies| {
            let pairs = (1..=REMEMBERED as u64).map(|n| (100 * n) << 32);
            let wide = pairs.filter(|&hash| is_wide(cookies.shown(hash, hash | 1)));
            wide.count()
        };
        let mut open: Vec<Cookies> = (0..5).map(|_| of(&all)).collect();
        let wide: Vec<usize> = open.iter_mut().map(fill).collect();
        assert_eq!(wide, [0, 0, 0, 0, REMEMBERED]);
        // What is shown once stays, and a closed directory gives its room back.
        assert_eq!(fill(&mut open[0]), 0);
        drop(open.remove(1));
        assert_eq!(fill(&mut open[3]), 0);
        drop(open);
        assert_eq!(all.0.load(Relaxed), 0);
    }

    #[test]
    fn only_long_positions_in_order_have_the_form() {
        let form = |positions: &[u64]| Cookies::have_form(positions.iter().copied());
        assert!(form(&[1 << 32, 1 << 32 | 7, 9 << 32 | 3, END]));
        // Of tmpfs and of a merged directory, of another order, with short ones, with all bits.
        for other in [
            &[1, 2, 3][..],
            &[9 << 32, 8 << 32],
            &[5, 9 << 32],
            &[9 << 32, END + 1],
        ] {
            assert!(!form(other), "{other:?}");
        }
        assert_eq!(Cookies::shortened(0, 9 << 32 | 3), Some(9 << 32));
        assert_eq!(Cookies::shortened(9 << 32 | 2, 9 << 32 | 3), None);
        assert_eq!(Cookies::shortened(0, 9 << 32), None);
    }
}
