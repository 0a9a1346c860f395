//! Calls of the disk that fail under a whole volume: of the log, the engine and the segments.

use super::found;
use super::run::{Failed, Run};
use super::script::Step;
use hearth::Errno;
use hearth_model::{OBSERVER, Op, Stamp, Tree};
use hearth_store::disk::simulated::{Counts, Dice, Fault};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Faults of each script.
pub const EACH: u64 = 12;
/// How long a volume may take to go on when there is room again, on a machine that is idle.
const GOES_ON: Duration = Duration::from_secs(1);

/// What the store says when an error has made it read-only.
const WAY_OUT: &str = "mount again";

/// What fails.
#[derive(Clone, Debug)]
enum Trouble {
    /// One step of the disk.
    Step(u64, Fault),
    /// One read, with `EIO`.
    Read(u64),
    /// The disk is full during these steps of the script.
    Full(Range<usize>),
}

/// Runs a script with one fault after the other.
pub fn faults(seed: u64, steps: &[Step]) -> Result<u64, String> {
    let steps = &without_synchronous(steps)[..];
    let (begun, ended) = counts(seed, steps)?;
    let mut dice = Dice(seed ^ 0x6661_756c_7473);
    for _ in 0..EACH {
        let within =
            |dice: &mut Dice, from: u64, to: u64| from + dice.below(to.max(from + 1) - from);
        let trouble = match dice.below(8) {
            0 => {
                let from = dice.below(steps.len().max(1) as u64) as usize;
                Trouble::Full(from..from + 1 + dice.below(12) as usize)
            }
            1 | 2 => Trouble::Read(within(&mut dice, begun.reads, ended.reads)),
            kind => {
                let fault = if kind < 5 {
                    Fault::NoSpace
                } else {
                    Fault::Device
                };
                Trouble::Step(within(&mut dice, begun.steps, ended.steps), fault)
            }
        };
        troubled(seed, steps, &trouble, &mut dice).map_err(|why| format!("{trouble:?}: {why}"))?;
    }
    Ok(EACH)
}

/// A write that cannot be made durable has happened, and returns an error all the same: the model
/// has no such call.
fn without_synchronous(steps: &[Step]) -> Vec<Step> {
    let mut steps = steps.to_vec();
    for step in &mut steps {
        if let Step::Call(_, Op::Open { flags, .. }) = step {
            *flags &= !(libc::O_SYNC | libc::O_DSYNC);
        }
    }
    steps
}

/// What the disk has done when a script begins and when it ends.
fn counts(seed: u64, steps: &[Step]) -> Result<(Counts, Counts), String> {
    let mut run = Run::new(seed)?;
    let begun = run.disk.counts();
    for step in steps {
        run.step(step).map_err(|why| why.to_string())?;
    }
    Ok((begun, run.disk.counts()))
}

/// A script under way on a disk with a fault.
struct Site<'a> {
    run: Run,
    trouble: &'a Trouble,
    /// The first error that a call returned.
    refused: Option<Errno>,
    /// A listing has failed, perhaps after it had moved the time of access.
    is_undecided: bool,
}

fn troubled(seed: u64, steps: &[Step], trouble: &Trouble, dice: &mut Dice) -> Result<(), String> {
    let run = Run::new(seed)?;
    match trouble {
        Trouble::Step(step, fault) => run.disk.fail_at(*step, *fault),
        Trouble::Read(read) => run.disk.fail_read_at(*read),
        Trouble::Full(_) => {}
    }
    let mut site = Site {
        run,
        trouble,
        refused: None,
        is_undecided: false,
    };
    for (number, step) in steps.iter().enumerate() {
        let at = |why| format!("step {number}: {why}");
        if !site.step(number, step).map_err(at)? {
            break;
        }
    }
    if site.is_undecided {
        return Ok(());
    }
    site.end()?;
    let Site { run, .. } = site;
    let disk = run.disk.crashed(dice.below(u64::MAX));
    found::check(&run.history, &disk, run.promised, dice)
        .map_err(|why| format!("after a crash: {why}"))
}

impl Site<'_> {
    /// Whether the fault has been met.
    fn is_met(&self) -> bool {
        matches!(self.trouble, Trouble::Full(_)) || self.run.disk.counts().faults > 0
    }

    /// An error has made the volume read-only, perhaps in the background, so that no call has heard
    /// of it yet.
    fn is_latched(&self) -> bool {
        self.is_met()
            && self.refused != Some(Errno::ENOSPC)
            && self.run.library.volume().read_only()
    }

    /// Makes a step; false if the script cannot go on, because a call did a part of what it should.
    fn step(&mut self, number: usize, step: &Step) -> Result<bool, String> {
        if let Trouble::Full(when) = self.trouble {
            self.run.disk.set_full(when.contains(&number));
            if number == when.end {
                self.goes_on()?;
            }
        }
        match self.run.step(step) {
            Ok(()) if self.is_latched() && matches!(step, Step::Sync) => {
                Err("a sync of a volume that is read-only after an error".to_owned())
            }
            Ok(()) => Ok(true),
            Err(Failed::Refused(what, errno)) => {
                if !self.is_met() {
                    return Err(format!("{what}: {errno} before anything failed"));
                }
                self.refused(what, errno)?;
                if matches!(self.trouble, Trouble::Read(_)) && is_list(step) {
                    self.is_undecided = true;
                    return Ok(false);
                }
                self.again(step)
            }
            Err(Failed::Otherwise(_))
                if matches!(self.trouble, Trouble::Read(_)) && self.is_met() =>
            {
                Ok(false)
            }
            // A volume that is read-only moves no times of access.
            Err(Failed::Otherwise(_)) if self.is_latched() && is_stat(step) => Ok(false),
            Err(Failed::Otherwise(what)) => Err(what),
        }
    }

    /// A call has returned an error of the disk.
    fn refused(&mut self, what: &str, errno: Errno) -> Result<(), String> {
        let of_fault = match self.trouble {
            Trouble::Step(_, Fault::Device) | Trouble::Read(_) => Errno::EIO,
            _ => Errno::ENOSPC,
        };
        self.refused.get_or_insert(errno);
        let lines = self.run.store.lines();
        let is_ended = lines.iter().any(|line| line.contains(WAY_OUT));
        match errno == of_fault || (errno == Errno::EROFS && is_ended) {
            true => Ok(()),
            false => Err(format!("{what}: {errno} and not {of_fault}; {lines:#?}")),
        }
    }

    /// After a single lack of room the same call works.
    fn again(&mut self, step: &Step) -> Result<bool, String> {
        if matches!(self.trouble, Trouble::Step(_, Fault::NoSpace)) {
            let done = self.run.step(step);
            done.map_err(|why| format!("once more, with room: {why}"))?;
        }
        Ok(true)
    }

    /// There is room again: the volume works within [`GOES_ON`], as it is.
    fn goes_on(&mut self) -> Result<(), String> {
        let (begun, waited) = (Instant::now(), waited_for_a_core());
        let done = self.run.step(&Step::Sync);
        done.map_err(|why| format!("a sync with room again: {why}"))?;
        let took = begun.elapsed();
        let waited = waited_for_a_core() - waited;
        match took < GOES_ON + waited {
            true => Ok(()),
            false => Err(format!(
                "it took {took:?} to go on, {waited:?} of it for a core"
            )),
        }
    }

    /// Looks at the volume as it is behind the script.
    fn end(&mut self) -> Result<(), String> {
        if let Trouble::Full(_) = self.trouble {
            self.run.disk.set_full(false);
            self.goes_on()?;
        }
        if !self.is_met() {
            return Ok(());
        }
        let lines = self.run.store.lines();
        let is_device = matches!(
            self.trouble,
            Trouble::Step(_, Fault::Device) | Trouble::Read(_)
        );
        // A read that failed may have been tried once more.
        let must_tell = matches!(self.trouble, Trouble::Step(_, Fault::Device));
        if must_tell && self.refused.is_none() && lines.is_empty() {
            return Err("nobody was told".to_owned());
        }
        if self.is_latched() && !lines.iter().any(|line| line.contains(WAY_OUT)) {
            return Err(format!("the way out was not told: {lines:?}"));
        }
        if is_device && self.refused.is_some() {
            return Ok(());
        }
        self.compare()
    }

    /// Everything can be read as the model has it.
    fn compare(&mut self) -> Result<(), String> {
        let (mut found, _) = Tree::read(&mut self.run.library, OBSERVER)?;
        let mut expected = self.run.history.model.snapshot();
        for tree in [&mut expected, &mut found] {
            for entry in tree.entries.values_mut() {
                // A volume that is read-only moves none.
                entry.attr.atime = Stamp::Now;
            }
        }
        expected.difference(&found).map_or(Ok(()), Err)
    }
}

fn is_stat(step: &Step) -> bool {
    let Step::Call(_, op) = step else {
        return false;
    };
    matches!(op, Op::Stat { .. } | Op::StatFd { .. } | Op::StatX { .. })
}

fn is_list(step: &Step) -> bool {
    matches!(step, Step::Call(_, Op::List { .. } | Op::ListFd { .. }))
}

/// How long this thread was ready and had no core. The volume has no thread of its own that a sync
/// waits for.
fn waited_for_a_core() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let waited = stat
        .split(' ')
        .nth(1)
        .expect("run time, waiting time, turns");
    Duration::from_nanos(waited.parse().unwrap())
}
