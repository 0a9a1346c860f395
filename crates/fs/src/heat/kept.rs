//! Heat that outlives the volume, as values.
//!
//! Each group of a shard (`place.rs`) is one setting, and so is each group of tenants: what changed
//! in a group is written with its group, a few KiB, and no other. A group has at most [`MOST`]
//! records, the hottest, so that what a volume reads when it is opened has a bound that no number
//! of files changes: 131,072 records, or fewer with `hot-mem-high-thresh`, of some 70 bytes each.
//!
//! Times are ages at the wall-clock time of the value. Decayed counts are as of their own age,
//! under the half-lives of the value.

use super::record::{FileId, KnownHeat, WHOLE};
use super::score::{Counts, Decayed, HalfLifeChange, HalfLives, Millis, Score};
use super::tenants::HeatTenant;
use crate::settings::bytes::{Bytes, BytesBuf};
use crate::settings::words::Undecodable;

/// Most records of files and ranges of a group.
pub(super) const MOST: usize = 128;
/// The version of the form. In the first one no row said what of its counts was estimated.
const VERSION: u64 = 2;

/// A moment, and what times and counts mean at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    /// The clock of the records.
    pub now: Millis,
    /// The wall clock in milliseconds since 1970.
    pub wall: u64,
    pub lives: HalfLives,
}

/// One value: a group of records as it was kept.
#[derive(Debug)]
pub(crate) struct KeptHeat {
    wall: u64,
    lives: HalfLives,
    pub(super) rows: Vec<(KeptOf, Row)>,
}

/// The file, range or tenant of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptOf {
    /// A range of a file; the file with [`WHOLE`].
    Range(FileId, u64),
    Tenant(HeatTenant),
}

/// Heat with ages instead of times.
#[derive(Debug)]
pub(super) struct Row {
    total: Counts,
    loads: u64,
    read_age: Option<u64>,
    write_age: Option<u64>,
    /// The score, as if its clock had begun then.
    score: Score,
    age: u64,
}

/// The value of a group.
pub(super) fn encode<'r>(
    at: &Moment,
    rows: impl Iterator<Item = (KeptOf, &'r KnownHeat)>,
) -> Box<[u8]> {
    let mut value = BytesBuf::default();
    value.put(VERSION);
    value.put(at.wall);
    value.put(at.lives.short as u64);
    value.put(at.lives.long as u64);
    for (of, known) in rows {
        match of {
            KeptOf::Range((ino, generation), range) => {
                value.put(ino);
                value.put(u64::from(generation));
                value.put_some((range != WHOLE).then_some(range));
            }
            KeptOf::Tenant(tenant) => {
                let (kind, id) = tenant.parts();
                value.put(kind);
                value.put(u64::from(id));
            }
        }
        put_row(&mut value, known, at.now);
    }
    value.finish()
}

fn put_row(value: &mut BytesBuf, known: &KnownHeat, now: Millis) {
    let age = |then: Millis| now.saturating_sub(then);
    let total = &known.total;
    value.put(total.reads);
    value.put(total.read_bytes);
    value.put(total.writes);
    value.put(total.written_bytes);
    value.put(total.estimated);
    value.put(known.loads);
    value.put_some(known.last_read.map(age));
    value.put_some(known.last_write.map(age));
    let (short, long, temperature, at) = known.score.parts();
    value.put(age(at));
    value.put_fraction(temperature);
    for decayed in [short, long] {
        value.put_fraction(decayed.reads);
        value.put_fraction(decayed.writes);
        value.put_fraction(decayed.bytes);
    }
}

impl KeptHeat {
    /// A value of files.
    pub(super) fn of_files(value: &[u8]) -> Result<KeptHeat, Undecodable> {
        KeptHeat::read(value, |bytes| {
            let ino = bytes.take()?;
            let generation = u32::try_from(bytes.take()?).map_err(|_| Undecodable)?;
            let range = bytes.take_some()?.unwrap_or(WHOLE);
            // Zero is no inode.
            match ino {
                0 => Err(Undecodable),
                ino => Ok(KeptOf::Range((ino, generation), range)),
            }
        })
    }

    /// A value of tenants.
    pub(super) fn of_tenants(value: &[u8]) -> Result<KeptHeat, Undecodable> {
        KeptHeat::read(value, |bytes| {
            let (kind, id) = (bytes.take()?, bytes.take()?);
            let id = u32::try_from(id).map_err(|_| Undecodable)?;
            let tenant = HeatTenant::of_parts(kind, id).ok_or(Undecodable)?;
            Ok(KeptOf::Tenant(tenant))
        })
    }

    fn read(
        value: &[u8],
        take_whose: impl Fn(&mut Bytes<'_>) -> Result<KeptOf, Undecodable>,
    ) -> Result<KeptHeat, Undecodable> {
        let mut bytes = Bytes(value);
        let version = bytes.take()?;
        if !(1..=VERSION).contains(&version) {
            return Err(Undecodable);
        }
        let wall = bytes.take()?;
        let lives = HalfLives::from_millis(bytes.take()?, bytes.take()?);
        let mut rows = Vec::new();
        while !bytes.is_empty() {
            rows.push((take_whose(&mut bytes)?, take_row(&mut bytes, version)?));
        }
        Ok(KeptHeat { wall, lives, rows })
    }

    /// A row of this value as it is at `at`.
    pub(super) fn known(&self, row: &Row, at: &Moment) -> KnownHeat {
        // A wall clock that went back lets no time pass.
        let passed = at.wall.saturating_sub(self.wall);
        let then = |age: u64| at.now.saturating_sub(age.saturating_add(passed));
        let mut score = row
            .score
            .cooled(row.age.saturating_add(passed), at.now, &self.lives);
        score.rescale(&HalfLifeChange {
            now: at.now,
            old: self.lives,
            new: at.lives,
        });
        KnownHeat {
            total: row.total,
            loads: row.loads,
            last_read: row.read_age.map(then),
            last_write: row.write_age.map(then),
            score,
        }
    }
}

fn take_row(bytes: &mut Bytes<'_>, version: u64) -> Result<Row, Undecodable> {
    let total = Counts {
        reads: bytes.take()?,
        read_bytes: bytes.take()?,
        writes: bytes.take()?,
        written_bytes: bytes.take()?,
        estimated: if version > 1 { bytes.take()? } else { 0 },
    };
    let loads = bytes.take()?;
    let (read_age, write_age) = (bytes.take_some()?, bytes.take_some()?);
    let age = bytes.take()?;
    let temperature = bytes.take_fraction()?;
    let mut decayed = || {
        Ok(Decayed {
            reads: bytes.take_fraction()?,
            writes: bytes.take_fraction()?,
            bytes: bytes.take_fraction()?,
        })
    };
    let (short, long) = (decayed()?, decayed()?);
    Ok(Row {
        total,
        loads,
        read_age,
        write_age,
        score: Score::of_parts(short, long, temperature),
        age,
    })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const HOUR: Millis = 3_600_000;

    fn known(at: Millis, lives: &HalfLives) -> KnownHeat {
        let total = Counts {
            reads: 9,
            read_bytes: 1 << 40,
            ..Counts::default()
        };
        let mut score = Score::default();
        score.touch(&total, at, lives);
        KnownHeat {
            total,
            loads: 3,
            last_read: Some(at),
            last_write: None,
            score,
        }
    }

    #[test]
    fn a_row_is_as_it_was_but_for_the_time_since_also_after_a_restart_of_the_clock() {
        let lives = HalfLives::from_millis(HOUR, 24 * HOUR);
        let before = Moment {
            now: 1000 * HOUR,
            wall: 5_000_000 * HOUR,
            lives,
        };
        let record = known(before.now - HOUR, &lives);
        let file = KeptOf::Range((7, 3), 1 << 40);
        let value = encode(&before, [(file, &record)].into_iter());
        let kept = KeptHeat::of_files(&value).expect("as it was written");
        // An hour later by the wall; the other clock began again meanwhile.
        let after = Moment {
            now: 200 * HOUR,
            wall: before.wall + HOUR,
            lives,
        };
        let (of, row) = &kept.rows[0];
        let back = kept.known(row, &after);
        assert_eq!((*of, back.total, back.loads), (file, record.total, 3));
        assert_eq!((back.last_read, back.last_write), (Some(198 * HOUR), None));
        let expected = record.score.at(before.now + HOUR, &lives);
        assert!((back.score.degrees() - expected.degrees()).abs() < 1e-3);
        assert!((back.score.long.reads - expected.long.reads).abs() < 1e-3);
    }

    /// As the version before the present one wrote it: without what was estimated.
    #[test]
    fn what_version_1_has_kept_is_read_as_exact() {
        let mut value = BytesBuf::default();
        // Version, wall clock, half-lives; inode, generation, and no range: the file.
        for number in [1, 5 * HOUR, HOUR, 24 * HOUR, 7, 3] {
            value.put(number);
        }
        value.put_some(None);
        // Reads and their bytes, writes and theirs, loads; ages of accesses and of the score.
        for number in [9, 1 << 40, 2, 8192, 3] {
            value.put(number);
        }
        value.put_some(Some(HOUR));
        value.put_some(None);
        value.put(0);
        for fraction in [0.5, 9.0, 2.0, 4096.0, 8.0, 1.0, 1024.0] {
            value.put_fraction(fraction);
        }
        let mut value = value.finish().into_vec();
        let kept = KeptHeat::of_files(&value).expect("version 1");
        let [(of, row)] = &kept.rows[..] else {
            panic!("{kept:?}");
        };
        let at = Moment {
            now: 100 * HOUR,
            wall: 5 * HOUR,
            lives: HalfLives::from_millis(HOUR, 24 * HOUR),
        };
        let known = kept.known(row, &at);
        let total = Counts {
            reads: 9,
            read_bytes: 1 << 40,
            writes: 2,
            written_bytes: 8192,
            estimated: 0,
        };
        assert_eq!((*of, known.total), (KeptOf::Range((7, 3), WHOLE), total));
        assert_eq!((known.loads, known.last_read), (3, Some(99 * HOUR)));
        assert!((known.score.degrees() - 50.0).abs() < 1e-3);
        // Of the present version the same bytes are something else, and of none later.
        value[0] = VERSION as u8;
        assert!(KeptHeat::of_files(&value).is_err());
        value[0] = VERSION as u8 + 1;
        assert!(KeptHeat::of_files(&value).is_err());
    }

    #[test]
    fn every_cut_off_value_is_refused_or_ends_with_a_whole_row() {
        let lives = HalfLives::from_millis(HOUR, 24 * HOUR);
        let at = Moment {
            now: HOUR,
            wall: HOUR,
            lives,
        };
        let record = known(0, &lives);
        let tenants = [HeatTenant::User(0), HeatTenant::Project(u32::MAX)];
        let rows = tenants.map(|tenant| (KeptOf::Tenant(tenant), &record));
        let value = encode(&at, rows.into_iter());
        let whole = (0..=value.len()).filter_map(|len| KeptHeat::of_tenants(&value[..len]).ok());
        let rows: Vec<usize> = whole.map(|kept| kept.rows.len()).collect();
        assert_eq!(rows, [0, 1, 2]);
    }
}
