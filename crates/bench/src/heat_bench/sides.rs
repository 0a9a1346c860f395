//! The two sides: a volume that tracks heat, and one that does not.

use crate::activity::{Activity, Job};
use crate::measure::{PhaseTime, prepare, rate, times};
use crate::row::{Row, median};
use crate::target::{Library, Sharing};
use std::time::Duration;

/// With heat or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Heat is tracked.
    With,
    /// It is not.
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

    /// A fresh volume.
    ///
    /// # Errors
    /// The library refuses.
    pub fn library(self, sharing: Sharing) -> Result<Library, String> {
        Library::tracking(sharing, self == Side::With)
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

    /// The median of a side and half its interval.
    pub fn of(&self, side: Side) -> (f64, f64) {
        match side {
            Side::With => median(&mut self.with.clone()),
            Side::Without => median(&mut self.without.clone()),
        }
    }

    /// The median of with/without over the runs, and half its interval.
    pub fn ratio(&self) -> (f64, f64) {
        let runs = self.with.iter().zip(&self.without);
        median(
            &mut runs
                .map(|(with, without)| with / without)
                .collect::<Vec<_>>(),
        )
    }

    /// The same the other way round: of times, how many times as fast.
    pub fn inverse(&self) -> (f64, f64) {
        let runs = self.with.iter().zip(&self.without);
        median(
            &mut runs
                .map(|(with, without)| without / with)
                .collect::<Vec<_>>(),
        )
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

/// What one phase, or one activity, came to on both sides.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Operations per second.
    pub speed: Pair,
    /// Processor seconds of the whole program per operation: folding is in it.
    pub cpu: Pair,
    /// From the first task's begin to the last one's end.
    pub seconds: Pair,
}

impl Measured {
    fn push(&mut self, side: Side, time: &PhaseTime) {
        let operations = time.operations.max(1) as f64;
        self.speed.push(side, operations / time.seconds);
        self.cpu.push(side, time.program / operations);
        self.seconds.push(side, time.seconds);
    }

    /// How many times as fast with heat: by the clock, and by processor time.
    pub fn ratios(&self) -> (f64, f64) {
        (self.speed.ratio().0, self.cpu.inverse().0)
    }
}

/// Is shown each run of a job.
pub type After<'a, J> = dyn FnMut(Side, &J, &Library, &[PhaseTime]) + 'a;

/// Runs a job on fresh volumes of both sides in turns; answers each phase. `after` is shown what
/// each run came to.
///
/// # Errors
/// The library refuses, or did something else.
pub fn job<J: Job>(
    make: &dyn Fn() -> J,
    sharing: Sharing,
    tasks: usize,
    runs: u32,
    after: &mut After<'_, J>,
) -> Result<Vec<Measured>, String> {
    let mut measured = vec![Measured::default(); make().phases().len()];
    for run in 0..runs {
        for side in Side::both(run) {
            let library = side.library(sharing)?;
            let job = make();
            let phases = times(&library, &job, tasks)?;
            for (measured, time) in measured.iter_mut().zip(&phases) {
                measured.push(side, time);
            }
            after(side, &job, &library, &phases);
        }
    }
    Ok(measured)
}

/// Repeats an activity for `length` on fresh volumes of both sides in turns.
///
/// # Errors
/// The library refuses, or did something else.
pub fn activity(
    activity: &dyn Activity,
    tasks: usize,
    runs: u32,
    length: Duration,
) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for run in 0..runs {
        for side in Side::both(run) {
            let library = side.library(Sharing::Processes)?;
            prepare(&library, activity, tasks)?;
            let rate = rate(&library, activity, tasks, length)?;
            measured.push(
                side,
                &PhaseTime {
                    seconds: rate.seconds,
                    operations: (rate.per_second * rate.seconds).round() as u64,
                    cpu: rate.cpu,
                    program: rate.program,
                },
            );
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let rows: Vec<Row> = pair.rows("heat", "w", "lib", 2, ("seconds", "s")).collect();
        assert_eq!(
            (&*rows[0].target, &*rows[1].target),
            ("lib, off", "lib, on")
        );
    }

    #[test]
    fn a_side_is_what_it_says() {
        for side in Side::both(0) {
            let library = side.library(Sharing::Processes).unwrap();
            assert_eq!(library.volume().heat().is_on(), side == Side::With);
        }
        assert_ne!(Side::both(0), Side::both(1));
    }
}
