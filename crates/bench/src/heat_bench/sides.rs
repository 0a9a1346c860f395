//! Both sides on one volume: heat is switched between short runs, and now and then it stays off
//! under both names, which shows what a difference of nothing comes to.

use super::effect::{Effect, RUNS};
use super::random::Random;
use super::stage::{Stage, Took};
use crate::activity::{Activity, Job, Phased};
use crate::pair::{Pair, Side};
use crate::target::{Client, Library, Sharing};
use std::time::Duration;

/// How often, and how long.
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

/// How a job is run.
#[derive(Clone, Copy)]
pub struct How {
    /// Whose are the descriptors.
    pub sharing: Sharing,
    /// Tasks.
    pub tasks: usize,
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
    /// As `cpu`, of the controls: both sides are off.
    pub control: Pair,
}

impl Measured {
    fn push(&mut self, side: Side, took: &Took) {
        let operations = took.operations.max(1) as f64;
        self.speed.push(side, operations / took.seconds);
        self.cpu.push(side, took.cpu / operations);
        self.seconds.push(side, took.seconds);
    }

    /// How many times as fast with heat, by processor time.
    pub fn effect(&self) -> Effect {
        Effect::of(&self.cpu)
    }

    /// The same of off against off, if there were controls.
    pub fn off_against_off(&self) -> Option<Effect> {
        (!self.control.is_empty()).then(|| Effect::of(&self.control))
    }
}

/// Is shown each run of a job that is compared.
pub type After<'a, J> = dyn FnMut(Side, &J, &Library, &[Took]) + 'a;

/// The order of the sides in a block: the outer ones are alike, and so are the inner ones.
pub fn block(random: &mut Random) -> [Side; 2 * RUNS] {
    let [outer, inner] = Side::both(random.below(2) as u32);
    [outer, inner, inner, outer]
}

/// Runs a job of `make`, as large as it is told, in blocks; answers each phase.
///
/// # Errors
/// The library refuses, or did something else.
pub fn job<J: Job>(
    make: &dyn Fn(usize) -> J,
    how: How,
    amount: Amount,
    after: &mut After<'_, J>,
) -> Result<Vec<Measured>, String> {
    let mut measured = vec![Measured::default(); make(1).phases().len()];
    let mut random = Random::new(how.tasks as u64);
    let mut size = 1;
    for volume in 0..amount.volumes {
        let stage = Stage::new(how.sharing)?;
        if how.stays {
            stage.prepare(&make(size), how.tasks)?;
        }
        // What is recorded one by one at first, and memory that is new, is not compared.
        stage.switch(true);
        if how.is_elastic && volume == 0 {
            size = large_enough(&stage, make, how, amount.run)?;
        }
        for _ in 0..2 {
            run(&stage, &make(size), how)?;
            end(&stage, how)?;
        }
        for number in 0..amount.blocks {
            let is_control = (number + 1) % amount.control == 0;
            for side in block(&mut random) {
                stage.switch(side == Side::With && !is_control);
                let job = make(size);
                let took = run(&stage, &job, how)?;
                for (measured, took) in measured.iter_mut().zip(&took) {
                    match is_control {
                        true => {
                            let operations = took.operations.max(1) as f64;
                            measured.control.push(side, took.cpu / operations);
                        }
                        false => measured.push(side, took),
                    }
                }
                if !is_control {
                    after(side, &job, stage.library(), &took);
                }
                end(&stage, how)?;
            }
        }
    }
    Ok(measured)
}

/// Repeats an activity in blocks.
///
/// # Errors
/// The library refuses, or did something else.
pub fn activity(activity: &dyn Activity, tasks: usize, amount: Amount) -> Result<Measured, String> {
    let how = How {
        sharing: Sharing::Processes,
        tasks,
        stays: true,
        is_elastic: true,
    };
    let make = |times| Repeated { activity, times };
    let mut measured = job(&make, how, amount, &mut |_, _, _, _| {})?;
    Ok(measured.swap_remove(0))
}

fn run<J: Job>(stage: &Stage, job: &J, how: How) -> Result<Vec<Took>, String> {
    if !how.stays {
        stage.prepare(job, how.tasks)?;
    }
    stage.run(job, how.tasks)
}

/// What follows a run that was looked at.
fn end(stage: &Stage, how: How) -> Result<(), String> {
    if how.stays { Ok(()) } else { stage.clear() }
}

/// How large a job takes `time` of a core.
///
/// # Errors
/// The library refuses, or did something else.
pub fn large_enough<J: Job>(
    stage: &Stage,
    make: &dyn Fn(usize) -> J,
    how: How,
    time: Duration,
) -> Result<usize, String> {
    let cores = crate::pinned::allowed_cores().len().min(how.tasks).max(1) as f64;
    let mut size = 1;
    loop {
        let took = run(stage, &make(size), how)?;
        end(stage, how)?;
        let core = took.iter().map(|took| took.cpu).sum::<f64>() / cores;
        if core > time.as_secs_f64() / 4.0 {
            return Ok((size as f64 * time.as_secs_f64() / core).ceil() as usize);
        }
        size *= 2;
    }
}

/// An activity, so many times by each task.
pub struct Repeated<'a> {
    /// What is repeated.
    pub activity: &'a dyn Activity,
    /// How often.
    pub times: usize,
}

impl Job for Repeated<'_> {
    fn name(&self) -> String {
        self.activity.name()
    }

    fn phases(&self) -> Vec<&'static str> {
        vec!["repeat"]
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        self.activity.prepare(client, tasks)
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        Ok(Box::new(Repeating {
            repeated: self,
            client,
            place: (task, tasks),
        }))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        self.activity.check(client, &vec![self.times as u64; tasks])
    }
}

struct Repeating<'c> {
    repeated: &'c Repeated<'c>,
    client: Box<dyn Client + 'c>,
    place: (usize, usize),
}

impl Phased for Repeating<'_> {
    fn phase(&mut self, _phase: usize) -> Result<u64, String> {
        let Repeated { activity, times } = *self.repeated;
        let (task, tasks) = self.place;
        // That it begins is in the time: a few calls of many thousand.
        let mut task = activity.task(&*self.client, task, tasks)?;
        let times = u32::try_from(times).map_err(|_| format!("{times} repetitions"))?;
        task.repeat(times)?;
        Ok(times.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::file_ops::MODES;

    const LITTLE: Amount = Amount {
        volumes: 2,
        blocks: 3,
        control: 3,
        run: Duration::from_millis(2),
        part: 1,
    };

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
        let measured = activity(&MODES[1].0, 2, LITTLE).unwrap();
        for side in [Side::With, Side::Without] {
            assert_eq!(measured.cpu.all(side).len(), 2 * 2 * RUNS);
            assert_eq!(measured.control.all(side).len(), 2 * RUNS);
        }
        assert!(measured.effect().ratio > 0.0);
    }

    #[test]
    fn heat_is_on_in_the_runs_that_say_so() {
        let make = |times| Repeated {
            activity: &MODES[2].0,
            times,
        };
        let how = How {
            sharing: Sharing::Processes,
            tasks: 1,
            stays: false,
            is_elastic: true,
        };
        let mut seen = 0;
        let mut after = |side, _: &Repeated<'_>, library: &Library, took: &[Took]| {
            assert_eq!(library.volume().heat().is_on(), side == Side::With);
            assert_eq!(took.len(), 1);
            seen += 1;
        };
        job(&make, how, LITTLE, &mut after).unwrap();
        assert_eq!(seen, 2 * 2 * 2 * RUNS, "controls are not shown");
    }
}
