//! Two sides of one comparison: with something, and without it.

use crate::row::{Row, median, middle};

/// With what is measured, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It is on.
    With,
    /// It is off.
    Without,
}

impl Side {
    /// Both; who goes first changes, so that neither always finds the machine warm.
    pub fn both(run: u32) -> [Side; 2] {
        match run % 2 {
            0 => [Side::Without, Side::With],
            _ => [Side::With, Side::Without],
        }
    }

    /// Its name as a target of rows.
    pub fn target(self, what: &str) -> String {
        match self {
            Side::With => format!("{what}, on"),
            Side::Without => format!("{what}, off"),
        }
    }
}

/// What each side came to in each run; run number n of both were made one after the other.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    with: Vec<f64>,
    without: Vec<f64>,
}

impl Pair {
    /// Adds the next run of a side.
    pub fn push(&mut self, side: Side, value: f64) {
        match side {
            Side::With => self.with.push(value),
            Side::Without => self.without.push(value),
        }
    }

    /// All of a side, in the order of the runs.
    pub fn all(&self, side: Side) -> &[f64] {
        match side {
            Side::With => &self.with,
            Side::Without => &self.without,
        }
    }

    /// Whether there was no run.
    pub fn is_empty(&self) -> bool {
        self.with.is_empty() && self.without.is_empty()
    }

    /// The median of a side and half its interval.
    pub fn of(&self, side: Side) -> (f64, f64) {
        median(&mut self.all(side).to_vec())
    }

    /// The median of with/without over the runs, and half its interval.
    pub fn ratio(&self) -> (f64, f64) {
        let runs = self.with.iter().zip(&self.without);
        middle(
            &mut runs
                .map(|(with, without)| with / without)
                .collect::<Vec<_>>(),
        )
    }

    /// The same the other way round: of times, how many times as fast.
    pub fn inverse(&self) -> (f64, f64) {
        let runs = self.with.iter().zip(&self.without);
        middle(
            &mut runs
                .map(|(with, without)| without / with)
                .collect::<Vec<_>>(),
        )
    }

    /// Each run times `factor`.
    pub fn scaled(&self, factor: f64) -> Pair {
        let scaled = |runs: &[f64]| runs.iter().map(|run| run * factor).collect();
        Pair {
            with: scaled(&self.with),
            without: scaled(&self.without),
        }
    }

    /// Each run divided by what the same run came to in `other`.
    pub fn over(&self, other: &Pair) -> Pair {
        let over = |side| {
            let runs = self.all(side).iter().zip(other.all(side));
            runs.map(|(run, other)| run / other).collect()
        };
        Pair {
            with: over(Side::With),
            without: over(Side::Without),
        }
    }

    /// One row for each side.
    pub fn rows(
        &self,
        bench: &'static str,
        workload: &str,
        what: &str,
        tasks: usize,
        (metric, unit): (&'static str, &'static str),
    ) -> impl Iterator<Item = Row> {
        [Side::Without, Side::With].into_iter().map(move |side| {
            let (value, ci95) = self.of(side);
            Row {
                bench,
                workload: workload.to_owned(),
                target: side.target(what),
                tasks: tasks as u32,
                metric,
                value,
                unit,
                runs: self.with.len() as u32,
                ci95,
            }
        })
    }
}

/// How two sides relate, by two measures, as (median of the ratios, half its interval).
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// By the clock.
    pub by_clock: (f64, f64),
    /// By the processor time of all that took part.
    pub by_cpu: (f64, f64),
}

impl Verdict {
    /// The measure that decides: the one whose runs differ less. The clock of a machine that others
    /// use errs, and so does the time of a processor that others use.
    pub fn surer(&self) -> (f64, f64) {
        match self.by_clock.1 < self.by_cpu.1 {
            true => self.by_clock,
            false => self.by_cpu,
        }
    }

    /// Whether the whole interval is at `enough` or above.
    pub fn is_surely(&self, enough: f64) -> bool {
        let (ratio, half) = self.surer();
        ratio - half >= enough
    }

    /// Whether less than `enough` was measured, and the interval does not reach it either.
    pub fn is_below(&self, enough: f64) -> bool {
        let (ratio, half) = self.surer();
        ratio + half < enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surer_measure_decides_and_its_interval_is_heard() {
        let verdict = Verdict {
            by_clock: (1.2, 0.3),
            by_cpu: (0.95, 0.02),
        };
        assert_eq!(verdict.surer(), (0.95, 0.02));
        assert!(verdict.is_below(0.99) && !verdict.is_below(0.96));
        assert!(verdict.is_surely(0.92) && !verdict.is_surely(0.94));
    }

    #[test]
    fn ratios_are_of_the_same_run() {
        let mut pair = Pair::default();
        for (without, with) in [(1.0, 2.0), (10.0, 10.0), (100.0, 50.0)] {
            pair.push(Side::Without, without);
            pair.push(Side::With, with);
        }
        assert_eq!((pair.ratio().0, pair.inverse().0), (1.0, 1.0));
        assert_eq!(
            (pair.of(Side::With).0, pair.of(Side::Without).0),
            (10.0, 10.0)
        );
        assert_eq!(pair.over(&pair).of(Side::With), (1.0, 0.0));
        assert_eq!(pair.scaled(3.0).of(Side::Without).0, 30.0);
        let rows: Vec<Row> = pair.rows("heat", "w", "lib", 2, ("seconds", "s")).collect();
        assert_eq!(
            (&*rows[0].target, &*rows[1].target),
            ("lib, off", "lib, on")
        );
    }
}
