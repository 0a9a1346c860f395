//! A portion of heat that is being kept: how far it is, and what it has found.

use super::kept::{self, KeptOf, MOST, Moment};
use super::place::{GROUPS, group_of};
use super::record::{FileId, KnownHeat};
use crate::log::ChangeLog;
use crate::settings::key::{HEAT_FILES, key};

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
    pub fn keep(mut self, shard: usize, log: &ChangeLog, at: &Moment) {
        for (group, found) in self.found.iter_mut().enumerate() {
            if self.groups & 1 << group == 0 {
                continue;
            }
            keep_hottest(found, at);
            let rows = found.iter().map(|(of, known)| (*of, known));
            let value = (!found.is_empty()).then(|| kept::encode(at, rows));
            log.set(key(HEAT_FILES, format_args!("{shard}/{group}")), value);
        }
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
