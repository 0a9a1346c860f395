//! The runner: workload x target x tasks, round by round, so that all that is compared alternates.

use crate::activity::Activity;
use crate::contender::Contender;
use crate::measure::{Rate, prepare, rate};
use crate::stats::Grid;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Length of one run.
    pub run: Duration,
    /// Runs of each cell.
    pub runs: u32,
    /// Short runs on the library that make one, twice as long together: what else happens on the
    /// machine lasts longer than they do, and happens to all cells. 1: no such turns.
    pub library_turns: u32,
}

/// Operations per second.
#[derive(Default)]
pub struct Rates {
    /// By the clock.
    pub by_clock: Grid,
    /// By processor time.
    pub by_cpu: Grid,
}

/// The short runs that make one run of a cell on a target.
pub type Turns<'a, C, T> = (&'a Contender, C, Vec<T>);

/// How many times the usual number of rounds a cell is measured at most.
const MOST: usize = 3;

impl Effort {
    /// Short runs on the library that make one run.
    pub fn turns(&self, contender: &Contender) -> u32 {
        if contender.is_library() {
            self.library_turns
        } else {
            1
        }
    }

    /// The length of one of them.
    pub fn turn(&self, contender: &Contender) -> Duration {
        match self.turns(contender) {
            1 => self.run,
            turns => 2 * self.run / turns,
        }
    }

    /// Rounds of `round`; again until the grid `is_decided`, but at most `MOST` times.
    pub fn rounds<G>(
        &self,
        grid: &mut G,
        mut round: impl FnMut(&mut G, u32) -> Result<(), String>,
        is_decided: impl Fn(&G) -> bool,
    ) -> Result<(), String> {
        // Not after every round: testing after each round would stop at a favourable one.
        for _ in 0..MOST {
            (0..self.runs).try_for_each(|number| round(grid, number))?;
            if is_decided(grid) {
                break;
            }
        }
        Ok(())
    }

    /// One run of every cell on every target; a cell says how many tasks there are, and `run` gets
    /// the number of the first core. It is not always the same core that one task has.
    pub fn in_turns<'a, C: Copy, T>(
        &self,
        contenders: &'a [Contender],
        cells: &[C],
        round: u32,
        mut run: impl FnMut(&'a Contender, C, usize) -> Result<T, String>,
    ) -> Result<Vec<Turns<'a, C, T>>, String> {
        let mut all = Vec::new();
        for contender in contenders {
            let mut turns: Vec<_> = cells
                .iter()
                .map(|&cell| (contender, cell, Vec::new()))
                .collect();
            for turn in 0..self.turns(contender) {
                let mut cells: Vec<_> = turns.iter_mut().collect();
                // What the one before leaves behind is not always left to the same one.
                if turn % 2 == 1 {
                    cells.reverse();
                }
                for (_, cell, runs) in cells {
                    runs.push(run(contender, *cell, (round + turn) as usize)?);
                }
            }
            all.extend(turns);
        }
        Ok(all)
    }

    /// Operations per second of an activity on every target for every number of tasks.
    pub fn rates(
        &self,
        contenders: &[Contender],
        activity: &dyn Activity,
        tasks: &[usize],
        rates: &mut Rates,
        is_decided: impl Fn(&Rates) -> bool,
    ) -> Result<(), String> {
        let name = activity.name();
        let round = |rates: &mut Rates, round| {
            let all = self.in_turns(contenders, tasks, round, |contender, tasks, first| {
                let named = |what| format!("{}, {name} x{tasks}: {what}", contender.name);
                let fresh = contender.fresh().map_err(named)?;
                prepare(fresh.target(), activity, tasks).map_err(named)?;
                let length = self.turn(contender);
                rate(fresh.target(), activity, tasks, length, first).map_err(named)
            })?;
            for (contender, tasks, turns) in all {
                let rate = Rate::together(&turns);
                rates
                    .by_clock
                    .push(&name, &contender.name, tasks, rate.per_second);
                rates
                    .by_cpu
                    .push(&name, &contender.name, tasks, rate.per_cpu_second);
            }
            Ok(())
        };
        self.rounds(rates, round, is_decided)?;
        eprintln!("measured: {name}");
        Ok(())
    }
}
