//! A volume whose heat is switched between runs, and the time of what runs on it.
//!
//! Nothing but the run takes time: the volume has no thread of its own, and what its background
//! would do is done, and timed, when the tasks of a phase are done. The volume's clock goes only
//! while heat is on, by what the run took of a core: what is recorded one by one between two folds,
//! and what is sampled, is that of a core at full speed that tracks heat all the time.

use crate::failure::{Context, joined};
use crate::measure::{PhaseTime, apart, phases};
use crate::target::{Client, Library, Sharing, Target, clear};
use crate::workload::Workload;
use hearth::{Clock, Time, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A clock that advances by hand.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// One that has gone for a while.
    pub fn new() -> ManualClock {
        ManualClock(Arc::new(AtomicU64::new(1_000_000)))
    }

    pub fn pass(&self, time: Duration) {
        // A millisecond is the least it shows.
        self.0.fetch_add((time.as_millis() as u64).max(1), Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_nanos(1_700_000_000_000_000_000)
    }

    fn monotonic(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Runs what it is given, which returns its operations.
pub type Around<'a> =
    dyn Fn(&mut dyn FnMut() -> Result<u64, String>) -> Result<u64, String> + Sync + 'a;

/// A volume and its clock.
pub struct Fixture {
    library: Library,
    clock: ManualClock,
}

impl Fixture {
    /// An empty volume; heat is off.
    pub fn new(sharing: Sharing) -> Result<Fixture, String> {
        let clock = ManualClock::new();
        let volume = Volume::builder()
            .workers(0)
            .clock(clock.clone())
            .build()
            .text()?;
        Ok(Fixture {
            library: Library::of(volume, sharing)?,
            clock,
        })
    }

    #[cfg(test)]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Tracks heat from now on, or no longer.
    pub fn switch(&self, on: bool) {
        self.library.volume().heat().switch(on);
    }

    /// Percent of the volume that is used.
    pub fn used_percent(&self) -> f64 {
        let root = self.library.volume().process(hearth::Credentials::root());
        root.statfs("/").map_or(0.0, |room| {
            (room.blocks - room.bfree) as f64 / room.blocks.max(1) as f64 * 100.0
        })
    }

    /// Makes what the workload needs; `time` is what that takes, or it is asked of the clock.
    pub fn prepare(
        &self,
        workload: &dyn Workload,
        tasks: usize,
        time: Option<Duration>,
    ) -> Result<(), String> {
        self.aside(time, &|client| workload.prepare(client, tasks))
    }

    /// Removes everything, as `prepare` makes it.
    pub fn clear(&self, time: Option<Duration>) -> Result<(), String> {
        self.aside(time, &|client| clear(client))
    }

    /// Does what is not measured.
    fn aside(
        &self,
        time: Option<Duration>,
        f: &(dyn Fn(&dyn Client) -> Result<(), String> + Sync),
    ) -> Result<(), String> {
        let begin = Instant::now();
        apart(&self.library, f)?;
        self.catch_up(time.unwrap_or_else(|| begin.elapsed()));
        Ok(())
    }

    /// Does what the background would do after `time`.
    fn catch_up(&self, time: Duration) {
        let volume = self.library.volume();
        if volume.heat().is_on() {
            self.clock.pass(time);
        }
        volume.run_background_once();
    }

    /// Runs all phases of a prepared workload; the background is a part of each.
    pub fn run(&self, workload: &dyn Workload, tasks: usize) -> Result<Vec<PhaseTime>, String> {
        let after = &|time| self.catch_up(time);
        phases(&self.library, workload, (tasks, 0), Some(after))
    }

    /// Runs all phases of a prepared workload by one task, where it is known what each takes of a
    /// core, and hands each, with the background that follows it, to `around`; returns the
    /// operations.
    pub fn run_timed(
        &self,
        workload: &dyn Workload,
        times: &[Duration],
        around: &Around<'_>,
    ) -> Result<Vec<u64>, String> {
        let work = || {
            let mut task = workload.task(self.library.client(), (0, 1))?;
            let run = |(phase, &time): (usize, &Duration)| {
                around(&mut || {
                    let operations = task.run(phase)?;
                    self.catch_up(time);
                    Ok(operations)
                })
            };
            times.iter().enumerate().map(run).collect()
        };
        let done: Vec<u64> = joined(std::thread::scope(|scope| scope.spawn(work).join()))?;
        apart(&self.library, &|client| {
            workload.check(client, &done[done.len() - 1..])
        })?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::THREAD_PERF;

    #[test]
    fn what_is_recorded_in_a_run_is_folded_in_it_and_time_goes_while_heat_is_on() {
        let fixture = Fixture::new(Sharing::Processes).unwrap();
        let job = THREAD_PERF[0].0.times(100);
        let inodes = || fixture.library().volume().inodes_in_memory();
        let at_first = inodes();
        fixture.prepare(&job, 2, None).unwrap();
        let files = || fixture.library().volume().heat().gauges().files;
        let at = || fixture.clock.monotonic();
        let before = at();
        fixture.run(&job, 2).unwrap();
        assert_eq!((files(), at()), (0, before), "off");
        fixture.switch(true);
        let took = fixture.run(&job, 2).unwrap();
        assert_eq!((took.len(), took[0].operations), (1, 200));
        assert!(took[0].cpu > 0.0 && took[0].seconds > 0.0, "{took:?}");
        assert_eq!(files(), 4, "two files of each task");
        assert!(at() > before);
        fixture.clear(None).unwrap();
        assert_eq!(inodes(), at_first);
    }

    #[test]
    fn the_clock_advances_by_the_given_time_and_each_phase_is_handed_out_with_its_fold() {
        let fixture = Fixture::new(Sharing::Processes).unwrap();
        let job = THREAD_PERF[0].0.times(100);
        let heat = || fixture.library().volume().heat().gauges();
        let at = fixture.clock.monotonic();
        fixture.switch(true);
        let time = Some(Duration::from_millis(700));
        fixture.prepare(&job, 1, time).unwrap();
        assert_eq!(fixture.clock.monotonic(), at + 700);
        let around: &Around<'_> = &|phase| {
            let folds = heat().drains;
            let operations = phase();
            assert_eq!(heat().drains, folds + 1);
            operations
        };
        let times = [Duration::from_millis(50)];
        assert_eq!(fixture.run_timed(&job, &times, around).unwrap(), [100]);
        assert_eq!(
            (fixture.clock.monotonic(), heat().files),
            (at + 750, 2),
            "the file that is read and the one that is written"
        );
        fixture.clear(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(fixture.clock.monotonic(), at + 770);
    }
}
