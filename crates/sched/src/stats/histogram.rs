//! A histogram of times.

/// Parts of an octave.
const PARTS: u32 = 4;
const OCTAVES: u32 = 40;
const CELLS: usize = (OCTAVES * PARTS) as usize;

/// A histogram of times with four cells per octave of nanoseconds: a quantile is at most a quarter
/// too high. It covers 18 minutes; longer times count in the last cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    cells: Box<[u64; CELLS]>,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// Returns an empty histogram.
    pub fn new() -> Histogram {
        Histogram {
            cells: Box::new([0; CELLS]),
            sum_ns: 0,
            max_ns: 0,
        }
    }

    /// Counts a time.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.cells[cell(ns)] += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts a time `times` times.
    #[inline]
    pub fn add_many(&mut self, ns: u64, times: u64) {
        if times > 0 {
            self.cells[cell(ns)] += times;
            self.sum_ns += ns * times;
            self.max_ns = self.max_ns.max(ns);
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (own, others) in self.cells.iter_mut().zip(other.cells.iter()) {
            *own += others;
        }
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns how many times were counted.
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// Returns their sum, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the longest, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the time that `share` (0 to 1) of the times do not exceed, in nanoseconds; 0 without
    /// any.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (share * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.cells.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return upper(at).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// Returns the upper limit in nanoseconds and the count of each cell that is not empty.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let cells = self.cells.iter().enumerate();
        let some = cells.filter(|&(_, &count)| count > 0);
        some.map(|(at, &count)| (upper(at), count))
    }
}

#[inline]
fn cell(ns: u64) -> usize {
    if ns < u64::from(PARTS) {
        return ns as usize;
    }
    let octave = ns.ilog2();
    let part = (ns >> (octave - PARTS.ilog2())) as u32 - PARTS;
    let at = (octave - PARTS.ilog2() + 1) * PARTS + part;
    (at as usize).min(CELLS - 1)
}

/// Returns the largest time of a cell.
fn upper(at: usize) -> u64 {
    let at = at as u32;
    if at < PARTS {
        return u64::from(at);
    }
    let (shift, part) = (at / PARTS - 1, at % PARTS);
    (u64::from(PARTS + part + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_cell_that_is_at_most_a_quarter_wide() {
        for ns in (0..5000).chain((0..40).map(|shift| (1u64 << shift) + 1)) {
            let top = upper(cell(ns));
            assert!(
                ns <= top && top <= ns + ns / 4,
                "{ns} in a cell up to {top}"
            );
        }
    }

    #[test]
    fn quantiles_follow_the_counts() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile_ns(0.5), 0);
        for _ in 0..98 {
            histogram.add(100);
        }
        histogram.add(10_000);
        histogram.add(u64::MAX >> 1);
        assert_eq!(histogram.count(), 100);
        assert!((100..=125).contains(&histogram.quantile_ns(0.5)));
        assert!((10_000..=12_500).contains(&histogram.quantile_ns(0.99)));
        assert_eq!(histogram.max_ns(), u64::MAX >> 1);
    }

    #[test]
    fn merging_adds_up() {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        a.add(5);
        b.add(5);
        b.add(7);
        a.merge(&b);
        assert_eq!((a.count(), a.sum_ns(), a.max_ns()), (3, 17, 7));
    }
}
