//! The runner: workload x target x tasks, round by round, so that the cells that are compared
//! alternate.

use crate::contender::Contender;
use crate::measure::{Rate, prepare, rate};
use crate::row::{OPS_PER_CPU_SECOND, OPS_PER_SECOND};
use crate::stats::Samples;
use crate::watchdog::beat;
use crate::workload::Workload;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Length of one run.
    pub run: Duration,
    /// Runs of each cell.
    pub runs: u32,
    /// The number of short runs on the library that make one run; together they last twice as long.
    /// Other activity on the machine lasts longer than a short run, so it affects all cells. 1
    /// turns this off.
    pub library_turns: u32,
}

/// The short runs that make one run of a cell on a target.
pub type Turns<'a, C, T> = (&'a Contender, C, Vec<T>);

/// The largest multiple of the usual number of rounds in which a cell is measured.
const MOST: usize = 3;

impl Effort {
    /// The number of short runs on the library that make one run.
    pub fn turns(&self, contender: &Contender) -> u32 {
        if contender.is_library() {
            self.library_turns
        } else {
            1
        }
    }

    /// The length of one short run.
    pub fn turn(&self, contender: &Contender) -> Duration {
        match self.turns(contender) {
            1 => self.run,
            turns => 2 * self.run / turns,
        }
    }

    /// Runs `runs` rounds of `round`, and repeats them until the grid `is_decided`, at most
    /// `MOST` times in all.
    pub fn rounds<G>(
        &self,
        grid: &mut G,
        mut round: impl FnMut(&mut G, u32) -> Result<(), String>,
        is_decided: impl Fn(&G) -> bool,
    ) -> Result<(), String> {
        // The grid is tested after all rounds: a test after each round would stop at a favourable
        // one.
        for _ in 0..MOST {
            (0..self.runs).try_for_each(|number| round(grid, number))?;
            if is_decided(grid) {
                break;
            }
        }
        Ok(())
    }

    /// Does one run of every cell on every target. A cell says how many tasks there are. `run` gets
    /// the number of the first core, which changes, so that a single task changes its core.
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
                // The order alternates, so that a cell does not always inherit the state that the
                // same other cell leaves behind.
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

    /// Operations per second of a workload on every target for every number of tasks.
    pub fn rates(
        &self,
        contenders: &[Contender],
        workload: &dyn Workload,
        tasks: &[usize],
        rates: &mut Samples,
        is_decided: impl Fn(&Samples) -> bool,
    ) -> Result<(), String> {
        let name = workload.name();
        let round = |rates: &mut Samples, round| {
            let all = self.in_turns(contenders, tasks, round, |contender, tasks, first| {
                let named = |what| format!("{}, {name} x{tasks}: {what}", contender.name);
                let fresh = contender.fresh().map_err(named)?;
                prepare(fresh.target(), workload, tasks).map_err(named)?;
                let length = self.turn(contender);
                rate(fresh.target(), workload, tasks, length, first).map_err(named)
            })?;
            for (contender, tasks, turns) in all {
                let rate = Rate::together(&turns);
                let cell = (&*name, &*contender.name, tasks);
                rates.push(OPS_PER_SECOND, cell, rate.per_second);
                rates.push(OPS_PER_CPU_SECOND, cell, rate.per_cpu_second);
            }
            Ok(())
        };
        self.rounds(rates, round, is_decided)?;
        eprintln!("measured: {name}");
        Ok(())
    }
}

/// Runs every job on every target, round by round. None of the targets is always first, or always
/// behind the same. `run` gets the number of the round.
pub fn rounds<J, T>(
    rounds: usize,
    jobs: &[J],
    targets: &[T],
    mut run: impl FnMut(&J, &T, usize) -> Result<(), String>,
) -> Result<(), String> {
    for round in 0..rounds {
        for job in jobs {
            for n in 0..targets.len() {
                beat();
                run(job, &targets[(n + round) % targets.len()], round)?;
            }
        }
        eprintln!("measured: round {} of {rounds}", round + 1);
    }
    Ok(())
}
