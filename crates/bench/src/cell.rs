//! One workload with one number of tasks on several targets, round by round.

use crate::row::{Row, interval, median};

/// What each target came to in each round.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What was done.
    pub workload: String,
    /// Threads or processes that did it at once.
    pub tasks: usize,
    samples: Vec<(String, Vec<f64>)>,
}

/// How the ratio of two targets stands to what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As asked, with its whole interval.
    Met,
    /// The median is as asked, not the whole interval.
    Likely,
    /// The median is not as asked, but not the whole interval misses it.
    Unlikely,
    /// The whole interval misses it.
    Missed,
    /// One of the two was not measured.
    Unmeasured,
}

impl Cell {
    /// Without a round so far.
    pub fn new<'a>(workload: String, tasks: usize, targets: impl Iterator<Item = &'a str>) -> Cell {
        Cell {
            workload,
            tasks,
            samples: targets.map(|name| (name.to_owned(), Vec::new())).collect(),
        }
    }

    /// Adds the next round of the target with this place.
    pub fn push(&mut self, target: usize, value: f64) {
        self.samples[target].1.push(value);
    }

    /// Whether this target was to be measured.
    pub fn has(&self, target: &str) -> bool {
        self.samples.iter().any(|(own, _)| own == target)
    }

    /// The median of `target` / `base` in the same round between the ends of its interval; none if
    /// either was not measured.
    pub fn ratio(&self, target: &str, base: &str) -> Option<[f64; 3]> {
        let of = |name: &str| self.samples.iter().find(|(own, _)| own == name);
        let rounds = of(target)?.1.iter().zip(&of(base)?.1);
        let mut ratios: Vec<f64> = rounds.map(|(target, base)| target / base).collect();
        (!ratios.is_empty()).then(|| interval(&mut ratios))
    }

    /// One row for each target: the median of its rounds.
    pub fn rows(
        &self,
        bench: &'static str,
        (metric, unit): (&'static str, &'static str),
    ) -> impl Iterator<Item = Row> {
        self.samples.iter().map(move |(target, samples)| {
            let (value, ci95) = median(&mut samples.clone());
            Row {
                bench,
                workload: self.workload.clone(),
                target: target.clone(),
                tasks: self.tasks as u32,
                metric,
                value,
                unit,
                runs: samples.len() as u32,
                ci95,
            }
        })
    }
}

impl Standing {
    /// Of a ratio that is to be `wanted` or more.
    pub fn at_least([low, median, high]: [f64; 3], wanted: f64) -> Standing {
        match () {
            () if low >= wanted => Standing::Met,
            () if high < wanted => Standing::Missed,
            () if median >= wanted => Standing::Likely,
            () => Standing::Unlikely,
        }
    }

    /// Of a ratio that is to be `wanted` or less.
    pub fn at_most([low, median, high]: [f64; 3], wanted: f64) -> Standing {
        Standing::at_least([-high, -median, -low], -wanted)
    }

    /// Whether more rounds would not change it.
    pub fn is_decided(self) -> bool {
        !matches!(self, Standing::Likely | Standing::Unlikely)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_those_of_the_same_round() {
        let mut cell = Cell::new("stat".into(), 2, ["a", "b"].into_iter());
        assert_eq!(cell.ratio("a", "b"), None);
        for (a, b) in [(1.0, 2.0), (30.0, 10.0), (100.0, 100.0)] {
            cell.push(0, a);
            cell.push(1, b);
        }
        assert_eq!(cell.ratio("a", "b"), Some([0.5, 1.0, 3.0]));
        assert_eq!(cell.ratio("a", "c"), None);
        let rows: Vec<Row> = cell.rows("mount", ("ops_per_s", "1/s")).collect();
        assert_eq!((&*rows[0].target, rows[0].value), ("a", 30.0));
        assert_eq!(rows[0].runs, 3);
        assert_eq!((&*rows[1].target, rows[1].value), ("b", 10.0));
    }

    #[test]
    fn the_interval_says_whether_it_is_decided() {
        let least = |ratio| Standing::at_least(ratio, 1.0);
        assert_eq!(least([1.1, 1.2, 1.3]), Standing::Met);
        assert_eq!(least([0.8, 1.2, 1.3]), Standing::Likely);
        assert_eq!(least([0.8, 0.9, 1.3]), Standing::Unlikely);
        assert_eq!(least([0.7, 0.8, 0.9]), Standing::Missed);
        let most = |ratio| Standing::at_most(ratio, 4.0);
        assert_eq!(most([3.0, 3.5, 4.0]), Standing::Met);
        assert_eq!(most([3.0, 3.5, 4.1]), Standing::Likely);
        assert_eq!(most([3.0, 4.1, 4.2]), Standing::Unlikely);
        assert_eq!(most([4.1, 4.5, 4.6]), Standing::Missed);
    }
}
