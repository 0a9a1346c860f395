//! The two sides: a volume that tracks heat, and one that does not.

use crate::activity::{Activity, Job};
use crate::measure::{PhaseTime, prepare, rate, times};
use crate::pair::{Pair, Side, Verdict};
use crate::target::{Library, Sharing};
use std::time::Duration;

/// A fresh volume of a side.
fn library(side: Side, sharing: Sharing) -> Result<Library, String> {
    Library::tracking(sharing, side == Side::With)
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

    /// How many times as fast with heat.
    pub fn verdict(&self) -> Verdict {
        Verdict {
            by_clock: self.speed.ratio(),
            by_cpu: self.cpu.inverse(),
        }
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
            let library = library(side, sharing)?;
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
            let library = library(side, Sharing::Processes)?;
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
    fn a_side_is_what_it_says() {
        for side in Side::both(0) {
            let library = library(side, Sharing::Processes).unwrap();
            assert_eq!(library.volume().heat().is_on(), side == Side::With);
        }
        assert_ne!(Side::both(0), Side::both(1));
    }
}
