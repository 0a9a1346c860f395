//! Both sides on one volume: heat is switched between short runs, and now and then it stays off
//! under both names, which shows what a difference of nothing comes to.

use super::fixture::Fixture;
use crate::measure::PhaseTime;
use crate::pinned::allowed_cores;
use crate::random::Random;
use crate::stats::{Pair, Side, hodges_lehmann};
use crate::target::Sharing;
use crate::workload::Workload;
use std::time::Duration;

/// Runs of a side in a block. In a block the sides stand as off, on, on, off, or the other way
/// round: what goes on steadily meanwhile is the same on both.
const RUNS: usize = 2;

/// How many times as fast with heat, between the ends of a 95 % interval.
pub type Effect = [f64; 3];

/// Of what each run took per operation: an estimate over the logarithms of the blocks.
fn effect(elapsed: &Pair) -> Effect {
    let mean_log = |runs: &[f64]| runs.iter().map(|run| run.ln()).sum::<f64>() / runs.len() as f64;
    let blocks = |side| elapsed.all(side).chunks_exact(RUNS).map(mean_log);
    let pairs = blocks(Side::Without).zip(blocks(Side::With));
    let faster: Vec<f64> = pairs.map(|(without, with)| without - with).collect();
    let [low, ratio, high] = hodges_lehmann(&faster).map(f64::exp);
    match faster.len() {
        // One block says nothing of how far it is off.
        1 => [0.0, ratio, f64::INFINITY],
        _ => [low, ratio, high],
    }
}

#[derive(Clone, Copy)]
pub struct Amount {
    /// Volumes, one after the other.
    pub volumes: usize,
    /// Blocks of four runs on each.
    pub blocks: usize,
    /// Of so many blocks one is a control.
    pub control: usize,
    /// What a run takes of a core, where the job can be as long as wanted.
    pub run: Duration,
    /// One of so many parts of the work, where a job has a given size.
    pub part: usize,
}

#[derive(Clone, Copy)]
pub struct How {
    /// Whether tasks are processes or threads of one.
    pub sharing: Sharing,
    /// A run leaves the volume as it found it, so that it is prepared once. Else each run is
    /// prepared, and all is removed after it.
    pub stays: bool,
    /// It can be as long as wanted.
    pub is_elastic: bool,
}

/// What one phase came to on both sides.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Operations per second.
    pub speed: Pair,
    /// Processor seconds per operation: folding is in it.
    pub cpu: Pair,
    /// From the first task's begin until the background is done.
    pub seconds: Pair,
    /// Processor seconds per operation of the controls: both sides are off.
    pub control: Pair,
    /// Percent of the volume that is used afterwards.
    pub used: Pair,
    /// What the job counts of itself, see [`Workload::figures`].
    pub figures: Vec<Pair>,
}

impl Measured {
    fn push(&mut self, side: Side, elapsed: &PhaseTime) {
        let operations = elapsed.operations.max(1) as f64;
        self.speed.push(side, operations / elapsed.seconds);
        self.cpu.push(side, elapsed.cpu / operations);
        self.seconds.push(side, elapsed.seconds);
    }

    /// How many times as fast with heat, by processor time.
    pub fn effect(&self) -> Effect {
        effect(&self.cpu)
    }

    /// How many times as fast off is against off, if there were controls.
    pub fn off_against_off(&self) -> Option<Effect> {
        let is_there = !self.control.all(Side::With).is_empty();
        is_there.then(|| effect(&self.control))
    }
}

/// The order of the sides in a block: the outer ones are alike, and so are the inner ones.
pub fn block(random: &mut Random) -> [Side; 2 * RUNS] {
    let [outer, inner] = Side::both(random.below(2) as u32);
    [outer, inner, inner, outer]
}

/// Whether the block with this number is a control, of which there is one among `every`.
pub fn is_control(number: usize, every: usize) -> bool {
    (number + 1).is_multiple_of(every)
}

/// Runs jobs of `make` in blocks; returns each phase.
pub fn job(
    make: &dyn Fn(usize) -> Box<dyn Workload>,
    how: How,
    tasks: usize,
    amount: Amount,
) -> Result<Vec<Measured>, String> {
    let mut measured = vec![Measured::default(); make(1).phases().len()];
    let mut random = Random::new(tasks as u64);
    let mut size = 1;
    for volume in 0..amount.volumes {
        let fixture = Fixture::new(how.sharing)?;
        if how.stays {
            fixture.prepare(&*make(size), tasks, None)?;
        }
        // What is recorded one by one at first, and memory that is new, is not compared.
        fixture.switch(true);
        if how.is_elastic && volume == 0 {
            size = large_enough(&fixture, make, (how, tasks), amount.run)?;
        }
        for _ in 0..2 {
            run(&fixture, &*make(size), (how, tasks))?;
            end(&fixture, how)?;
        }
        for number in 0..amount.blocks {
            let is_control = is_control(number, amount.control);
            for side in block(&mut random) {
                fixture.switch(side == Side::With && !is_control);
                let job = make(size);
                let elapsed = run(&fixture, &*job, (how, tasks))?;
                let figures = job.figures();
                for (phase, (one, elapsed)) in measured.iter_mut().zip(&elapsed).enumerate() {
                    if is_control {
                        let operations = elapsed.operations.max(1) as f64;
                        one.control.push(side, elapsed.cpu / operations);
                        continue;
                    }
                    one.push(side, elapsed);
                    one.used.push(side, fixture.used_percent());
                    let figures = figures.get(phase).into_iter().flatten();
                    for (n, &figure) in figures.enumerate() {
                        one.figures
                            .resize_with(one.figures.len().max(n + 1), Pair::default);
                        one.figures[n].push(side, figure);
                    }
                }
                end(&fixture, how)?;
            }
        }
    }
    Ok(measured)
}

fn run(
    fixture: &Fixture,
    job: &dyn Workload,
    (how, tasks): (How, usize),
) -> Result<Vec<PhaseTime>, String> {
    if !how.stays {
        fixture.prepare(job, tasks, None)?;
    }
    fixture.run(job, tasks)
}

/// What follows a run that was looked at.
fn end(fixture: &Fixture, how: How) -> Result<(), String> {
    if how.stays {
        Ok(())
    } else {
        fixture.clear(None)
    }
}

/// How large a job takes `time` of a core.
pub fn large_enough(
    fixture: &Fixture,
    make: &dyn Fn(usize) -> Box<dyn Workload>,
    (how, tasks): (How, usize),
    time: Duration,
) -> Result<usize, String> {
    let cores = allowed_cores().len().min(tasks).max(1) as f64;
    let mut size = 1;
    loop {
        let elapsed = run(fixture, &*make(size), (how, tasks))?;
        end(fixture, how)?;
        let core = elapsed.iter().map(|elapsed| elapsed.cpu).sum::<f64>() / cores;
        if core > time.as_secs_f64() / 4.0 {
            return Ok((size as f64 * time.as_secs_f64() / core).ceil() as usize);
        }
        size *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::FILE_OPS;

    #[test]
    fn blocks_are_alike_and_controls_are_kept_apart() {
        let mut random = Random::new(1);
        let mut firsts = [0; 2];
        for _ in 0..100 {
            let [a, b, c, d] = block(&mut random);
            assert!(a == d && b == c && a != b);
            firsts[usize::from(a == Side::With)] += 1;
        }
        assert!(firsts.iter().all(|&first| first > 20), "{firsts:?}");
        let run = Duration::from_millis(2);
        let little = Amount {
            volumes: 2,
            blocks: 3,
            control: 3,
            run,
            part: 1,
        };
        let how = How {
            sharing: Sharing::Processes,
            stays: true,
            is_elastic: true,
        };
        let script = &FILE_OPS[1].0;
        let make = |times| Box::new(script.times(times)) as Box<dyn Workload>;
        let measured = &job(&make, how, 2, little).unwrap()[0];
        for side in [Side::With, Side::Without] {
            assert_eq!(measured.cpu.all(side).len(), 2 * 2 * RUNS);
            assert_eq!(measured.control.all(side).len(), 2 * RUNS);
        }
        assert!(measured.effect()[1] > 0.0);
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_truth() {
        let mut random = Random::new(7);
        let held = (0..2000).filter(|_| {
            let samples: Vec<f64> = (0..32).map(|_| random.normal()).collect();
            let [low, _, high] = hodges_lehmann(&samples);
            low <= 0.0 && high >= 0.0
        });
        let held = held.count();
        assert!((1860..=1940).contains(&held), "{held} of 2000");
    }

    #[test]
    fn blocks_are_compared_and_not_runs() {
        let mut elapsed = Pair::default();
        // The machine slows down by a tenth from run to run; on costs a twentieth.
        let mut slow = 1.0;
        for number in 0..8 {
            let [outer, inner] = Side::both(number);
            for side in [outer, inner, inner, outer] {
                elapsed.push(
                    side,
                    if side == Side::With {
                        slow * 1.05
                    } else {
                        slow
                    },
                );
                slow *= 1.1;
            }
        }
        let [low, ratio, high] = effect(&elapsed);
        assert!(
            (ratio - 1.0 / 1.05).abs() < 1e-9 && high - low < 1e-9,
            "{ratio}"
        );
    }
}
