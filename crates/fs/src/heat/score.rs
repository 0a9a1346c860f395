//! The score of a record: decayed counts and a temperature. The formulas and their bounds are in
//! `docs/design/heat.md`.

use super::key::Access;
use std::f64::consts::LN_2;

/// Milliseconds of a monotonic clock.
pub(crate) type Millis = u64;

/// Accesses that raise the temperature half of the way to its maximum.
const HALFWAY: f64 = 16.0;

/// Largest access in bytes that counts as one for the temperature; a larger one counts as several,
/// because a kernel brings the same bytes in requests of many sizes.
const LARGE: f64 = 65536.0;

/// The half-lives of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HalfLives {
    /// Half-life of rates and temperature in milliseconds; not 0.
    pub short: f64,
    /// Half-life of the long counts in milliseconds; not 0.
    pub long: f64,
}

impl HalfLives {
    pub fn from_millis(short: Millis, long: Millis) -> HalfLives {
        HalfLives {
            short: short.max(1) as f64,
            long: long.max(1) as f64,
        }
    }

    /// Both in whole seconds.
    pub fn seconds(&self) -> [u64; 2] {
        [self.short, self.long].map(|millis| (millis / 1000.0) as u64)
    }
}

/// A change of half-lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfLifeChange {
    pub now: Millis,
    pub old: HalfLives,
    pub new: HalfLives,
}

/// Counts of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// Those of `reads` and `writes` that nobody saw: samples stand for them.
    pub estimated: u64,
}

impl Counts {
    /// Those of an access of `bytes` that stands for `n`.
    pub fn sampled(access: Access, n: u64, bytes: u64) -> Counts {
        let estimated = n - 1;
        let sum = bytes.wrapping_mul(n);
        match access {
            Access::Read => Counts {
                reads: n,
                read_bytes: sum,
                estimated,
                ..Counts::default()
            },
            Access::Write => Counts {
                writes: n,
                written_bytes: sum,
                estimated,
                ..Counts::default()
            },
        }
    }

    pub fn is_empty(&self) -> bool {
        self.reads == 0 && self.writes == 0
    }

    /// Adds, saturating.
    pub fn add(&mut self, other: &Counts) {
        self.reads = self.reads.saturating_add(other.reads);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.writes = self.writes.saturating_add(other.writes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.estimated = self.estimated.saturating_add(other.estimated);
    }

    /// The difference to an earlier value `seen`.
    pub fn since(&self, seen: &Counts) -> Counts {
        Counts {
            reads: self.reads.saturating_sub(seen.reads),
            read_bytes: self.read_bytes.saturating_sub(seen.read_bytes),
            writes: self.writes.saturating_sub(seen.writes),
            written_bytes: self.written_bytes.saturating_sub(seen.written_bytes),
            estimated: self.estimated.saturating_sub(seen.estimated),
        }
    }
}

/// Decayed counts, valid at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Decayed {
    pub reads: f64,
    pub writes: f64,
    pub bytes: f64,
}

impl Decayed {
    fn cool(&mut self, factor: f64) {
        self.reads *= factor;
        self.writes *= factor;
        self.bytes *= factor;
    }

    fn heat(&mut self, counts: &Counts) {
        self.reads += counts.reads as f64;
        self.writes += counts.writes as f64;
        self.bytes += counts.read_bytes.saturating_add(counts.written_bytes) as f64;
    }

    /// Reads plus writes.
    pub fn accesses(&self) -> f64 {
        self.reads + self.writes
    }
}

/// The score of a file, a range or a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Score {
    pub short: Decayed,
    pub long: Decayed,
    /// From 0, never accessed, towards 1.
    temperature: f64,
    /// The time of the values above.
    at: Millis,
}

impl Score {
    /// The score at `now`; a `now` in the past changes nothing.
    pub fn at(&self, now: Millis, lives: &HalfLives) -> Score {
        let passed = now.saturating_sub(self.at) as f64;
        if passed == 0.0 {
            return *self;
        }
        if self.temperature == 0.0 && self.long.accesses() == 0.0 {
            // Never accessed.
            return Score { at: now, ..*self };
        }
        let mut cooled = *self;
        let factor = (-passed / lives.short).exp2();
        cooled.short.cool(factor);
        cooled.temperature *= factor;
        cooled.long.cool((-passed / lives.long).exp2());
        cooled.at = now;
        cooled
    }

    /// The score at `now` of decayed counts and a temperature in degrees that are `age` old.
    pub fn restored(
        (short, long, degrees): (Decayed, Decayed, f64),
        age: Millis,
        now: Millis,
        lives: &HalfLives,
    ) -> Score {
        let then = Score {
            short,
            long,
            temperature: (degrees / 100.0).clamp(0.0, 1.0),
            at: 0,
        };
        then.cooled(age, now, lives)
    }

    /// The short and the long counts, the temperature from 0 to 1, and their time.
    pub fn parts(&self) -> (Decayed, Decayed, f64, Millis) {
        (self.short, self.long, self.temperature, self.at)
    }

    /// The score of [`Score::parts`], at time 0.
    pub fn of_parts(short: Decayed, long: Decayed, temperature: f64) -> Score {
        Score {
            short,
            long,
            temperature: temperature.min(1.0),
            at: 0,
        }
    }

    /// This score, which is of time 0, when it is `age` old, as of `now`.
    pub fn cooled(&self, age: Millis, now: Millis, lives: &HalfLives) -> Score {
        Score {
            at: now,
            ..self.at(age, lives)
        }
    }

    /// Adds `counts`, which happened at `now`.
    pub fn touch(&mut self, counts: &Counts, now: Millis, lives: &HalfLives) {
        *self = self.at(now, lives);
        self.short.heat(counts);
        self.long.heat(counts);
        let n = temperature_accesses(counts.reads, counts.read_bytes)
            + temperature_accesses(counts.writes, counts.written_bytes);
        self.temperature = 1.0 - (1.0 - self.temperature) * (-n / HALFWAY).exp2();
    }

    /// Changes the half-lives: scales the counts so that rates and temperature stay the same.
    pub fn rescale(&mut self, change: &HalfLifeChange) {
        *self = self.at(change.now, &change.old);
        self.short.cool(change.new.short / change.old.short);
        self.long.cool(change.new.long / change.old.long);
    }

    /// Bucket of the map, 0 to 255.
    pub fn bucket(&self) -> u8 {
        (self.temperature * 255.999) as u8
    }

    /// Temperature as people see it, 0.0 to 100.0.
    pub fn degrees(&self) -> f64 {
        self.temperature * 100.0
    }
}

/// The number of accesses that count for the temperature: at least `accesses`, and one for each
/// [`LARGE`] bytes.
fn temperature_accesses(accesses: u64, bytes: u64) -> f64 {
    (accesses as f64).max(bytes as f64 / LARGE)
}

/// Events per second of a decayed count with half-life `half_life` in milliseconds.
pub(crate) fn per_second(count: f64, half_life: f64) -> f64 {
    count * LN_2 * 1000.0 / half_life
}

/// The inverse of [`per_second`].
pub(crate) fn count_of(per_second: f64, half_life: f64) -> f64 {
    per_second * half_life / (LN_2 * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Millis = 3_600_000;

    fn lives() -> HalfLives {
        HalfLives::from_millis(HOUR, 24 * HOUR)
    }

    fn reads(n: u64) -> Counts {
        Counts {
            reads: n,
            read_bytes: n * 4096,
            ..Counts::default()
        }
    }

    fn touched(n: u64, at: Millis) -> Score {
        let mut score = Score::default();
        score.touch(&reads(n), at, &lives());
        score
    }

    #[test]
    fn other_half_lives_change_no_rate_and_no_temperature() {
        let mut score = touched(1000, 0);
        let change = HalfLifeChange {
            now: HOUR,
            old: lives(),
            new: HalfLives::from_millis(HOUR / 60, HOUR),
        };
        let before = score.at(HOUR, &change.old);
        score.rescale(&change);
        let rate = |score: &Score, lives: &HalfLives| {
            [
                per_second(score.short.reads, lives.short),
                per_second(score.long.reads, lives.long),
                score.temperature,
            ]
        };
        let (old, new) = (rate(&before, &change.old), rate(&score, &change.new));
        for (old, new) in old.into_iter().zip(new) {
            assert!((old / new - 1.0).abs() < 1e-9, "{old} {new}");
        }
        let minute_later = score.at(HOUR + HOUR / 60, &change.new);
        assert!((minute_later.short.reads / score.short.reads - 0.5).abs() < 1e-9);
    }

    #[test]
    fn never_touched_is_zero() {
        let never = Score::default();
        assert_eq!((never.bucket(), never.degrees()), (0, 0.0));
        assert_eq!(never.at(100 * HOUR, &lives()).degrees(), 0.0);
    }

    #[test]
    fn one_half_life_halves_rate_and_temperature() {
        let then = touched(1000, 5 * HOUR);
        let later = then.at(6 * HOUR, &lives());
        let (a, b) = (then.short.reads, later.short.reads);
        assert!((a / 2.0 - b).abs() < 1e-9 * a, "{a} {b}");
        assert!((then.degrees() / 2.0 - later.degrees()).abs() < 1e-9);
        let day = then.at(29 * HOUR, &lives());
        assert!((day.long.reads - 500.0).abs() < 1e-6);
    }

    #[test]
    fn a_steady_rate_is_reported_exactly() {
        let mut score = Score::default();
        for second in 0..20 * 3600 {
            score.touch(&reads(7), second * 1000, &lives());
        }
        let rate = per_second(score.short.reads, lives().short);
        assert!((rate - 7.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn every_bucket_is_reached() {
        let mut seen = [false; 256];
        seen[0] = true;
        let hot = touched(1 << 20, 0);
        for minute in 0..16 * 60 * 60 {
            seen[hot.at(minute * 1000, &lives()).bucket() as usize] = true;
        }
        let missing: Vec<usize> = (0..256).filter(|&b| !seen[b]).collect();
        assert!(missing.is_empty(), "buckets {missing:?} are out of reach");
    }

    #[test]
    fn a_trickle_outranks_a_burst_of_the_same_count_and_greater_age() {
        let burst = touched(600, 0).at(HOUR, &lives());
        let mut trickle = Score::default();
        for second in 0..600 {
            trickle.touch(&reads(1), second * 6000, &lives());
        }
        let trickle = trickle.at(HOUR, &lives());
        assert!(trickle.short.reads > burst.short.reads);
        assert!(trickle.degrees() > burst.degrees());
    }

    #[test]
    fn counts_do_not_wrap() {
        let mut counts = reads(1);
        counts.reads = u64::MAX;
        counts.add(&reads(4097));
        assert_eq!(counts.reads, u64::MAX);
        let mut score = touched(1 << 50, 0);
        score.touch(&reads(1 << 50), 0, &lives());
        assert_eq!(score.short.reads, (1u64 << 51) as f64);
        assert_eq!(score.bucket(), 255);
    }

    #[test]
    fn the_same_bytes_are_as_warm_in_requests_of_any_large_size() {
        let in_pieces = |pieces| {
            let mut score = Score::default();
            let counts = Counts {
                reads: pieces,
                read_bytes: 1 << 20,
                ..Counts::default()
            };
            score.touch(&counts, 0, &lives());
            score.degrees()
        };
        assert_eq!([1, 4, 8, 16].map(in_pieces), [50.0; 4], "16 times 64 KiB");
        assert!(in_pieces(256) > 99.0, "pages one by one");
    }

    proptest! {
        #[test]
        fn more_accesses_never_cool(n in 0u64..5000, more in 1u64..5000, wait in 0u64..HOUR) {
            let (less, more) = (touched(n, 0), touched(n + more, 0));
            let (less, more) = (less.at(wait, &lives()), more.at(wait, &lives()));
            prop_assert!(more.degrees() >= less.degrees());
            prop_assert!(more.short.reads > less.short.reads);
        }

        #[test]
        fn a_clock_that_goes_backwards_does_nothing(n in 1u64..5000, back in 0u64..HOUR) {
            let then = touched(n, HOUR);
            prop_assert_eq!(then.at(HOUR - back, &lives()), then);
            let mut again = then;
            again.touch(&reads(1), HOUR - back, &lives());
            prop_assert!(again.degrees() >= then.degrees());
        }

        #[test]
        fn two_steps_of_cooling_are_one(n in 1u64..5000, a in 0u64..HOUR, b in 0u64..HOUR) {
            let once = touched(n, 0).at(a + b, &lives());
            let twice = touched(n, 0).at(a, &lives()).at(a + b, &lives());
            prop_assert!((once.degrees() - twice.degrees()).abs() < 1e-9);
        }
    }
}
