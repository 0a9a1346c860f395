//! A portion of heat that is being kept: how far it is, and what it has found.

use super::kept::{self, KeptOf, MOST, Moment};
use super::place::{GROUPS, group_of};
use super::record::{FileId, KnownHeat};
use crate::settings::key::{HEAT_FILES, key};

/// Takes a group: its key, and its value if it has records.
pub(super) type Keep<'a> = dyn FnMut(Box<[u8]>, Option<Box<[u8]>>) + 'a;

/// How far a pass over what changed is.
#[derive(Default)]
pub(super) struct KeepCursor {
    /// The shard, or behind the last one the tenants.
    pub part: usize,
    pub scan: Option<Scan>,
}

/// A scan of one shard.
pub(super) struct Scan {
    /// The groups that are collected, as bits.
    pub groups: u64,
    /// [`Shard::moves`](super::shard::Shard::moves) when it began.
    pub moves: u64,
    /// The next slot.
    pub at: usize,
    /// By group.
    found: Vec<Vec<(KeptOf, KnownHeat)>>,
}

impl Scan {
    /// A scan for these groups of a shard that has moved its records so often.
    pub fn new(groups: u64, moves: u64) -> Scan {
        let found = if groups == 0 { 0 } else { GROUPS };
        Scan {
            groups,
            moves,
            at: 0,
            found: (0..found).map(|_| Vec::new()).collect(),
        }
    }

    /// Collects a record, if its group is wanted.
    pub fn add(&mut self, (file, range): (FileId, u64), known: KnownHeat, at: &Moment) {
        let group = group_of(file, range);
        if self.groups & 1 << group == 0 {
            return;
        }
        let found = &mut self.found[group as usize];
        found.push((KeptOf::Range(file, range), known));
        if found.len() >= 2 * MOST {
            keep_hottest(found, at);
        }
    }

    /// Keeps what was found.
    pub fn keep(&mut self, shard: usize, set: &mut Keep<'_>, at: &Moment) {
        for (group, found) in self.found.iter_mut().enumerate() {
            if self.groups & 1 << group == 0 {
                continue;
            }
            keep_hottest(found, at);
            let rows = found.iter().map(|(of, known)| (*of, known));
            let value = (!found.is_empty()).then(|| kept::encode(at, rows));
            set(key(HEAT_FILES, format_args!("{shard}/{group}")), value);
        }
    }
}

impl Scan {
    /// The files of the records that were kept.
    pub fn files(&self) -> impl Iterator<Item = FileId> {
        let found = self.found.iter().flatten();
        found.filter_map(|(of, _)| match of {
            KeptOf::Range(file, _) => Some(*file),
            KeptOf::Tenant(_) => None,
        })
    }
}

/// Keeps the hottest [`MOST`].
fn keep_hottest(found: &mut Vec<(KeptOf, KnownHeat)>, at: &Moment) {
    if found.len() <= MOST {
        return;
    }
    let warmth = |known: &KnownHeat| {
        let score = known.score.at(at.now, &at.lives);
        (score.degrees(), score.long.accesses())
    };
    found.select_nth_unstable_by(MOST, |(_, a), (_, b)| {
        let (a, b) = (warmth(a), warmth(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    found.truncate(MOST);
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::heat::record::WHOLE;
    use crate::heat::score::{Counts, HalfLives};
    use crate::heat::shard::Shard;
    use crate::log::ChangeLog;

    #[test]
    fn a_group_keeps_its_hottest_records_however_many_it_has() {
        let lives = HalfLives::from_millis(3_600_000, 86_400_000);
        let at = Moment {
            now: 1000,
            wall: 1000,
            lives,
        };
        let mut shard = Shard::new();
        let files = (1u64..).filter(|&ino| group_of((ino, 0), WHOLE) == 5);
        let mut files: Vec<u64> = files.take(5 * MOST).collect();
        // The later the hotter, in another order.
        for (heat, &ino) in files.iter().enumerate().rev() {
            let counts = Counts {
                reads: 1 + heat as u64,
                ..Counts::default()
            };
            shard.touch_file((ino, 0), &counts, 1000, &lives);
        }
        assert_eq!(shard.take_changed(), 1 << 5);
        let mut scan = Scan::new(1 << 5, 0);
        shard.each_slot(0..usize::MAX, |record| {
            scan.add(record.of(), record.known(), &at);
        });
        let log = ChangeLog::new(0, crate::owed::LogBounds::of(0), Box::new(|_| 100));
        scan.keep(3, &mut |key, value| log.set(key, value), &at);
        let cut = log.cut(|| true).expect("taken");
        let [crate::backend::Record::Setting { key, value, .. }] = &cut.records[..] else {
            panic!("one group");
        };
        assert_eq!(&**key, b"heat/files/3/5");
        let kept = kept::KeptHeat::of_files(value.as_ref().expect("has records"));
        let inos = kept
            .expect("is read")
            .rows
            .into_iter()
            .map(|(of, _)| match of {
                KeptOf::Range((ino, 0), WHOLE) => ino,
                of => panic!("{of:?}"),
            });
        let mut inos: Vec<u64> = inos.collect();
        inos.sort_unstable();
        let mut hottest = files.split_off(4 * MOST);
        hottest.sort_unstable();
        assert_eq!(inos, hottest);
    }
}
