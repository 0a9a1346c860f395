//! A volume whose heat is switched between runs, and the time of what runs on it.
//!
//! Nothing but the run takes time: the volume has no thread of its own, and what its background
//! would do is done, and timed, when the tasks of a phase are done. The volume's clock goes only
//! while heat is on, by what the run took of a core: what is recorded one by one between two folds,
//! and what is sampled, is that of a core at full speed that tracks heat all the time.

use crate::activity::Job;
use crate::cpu_time::of_thread;
use crate::measure::{apart, side_by_side};
use crate::pinned::allowed_cores;
use crate::target::{Client, Library, Sharing, Target};
use hearth::{Clock, Time, Volume};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseCost {
    /// Operations of all tasks.
    pub operations: u64,
    /// From the first task's begin until the background is done.
    pub seconds: f64,
    /// Processor seconds of the tasks and of the background.
    pub cpu: f64,
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
        let volume = Volume::builder().workers(0).clock(clock.clone()).build();
        let volume = volume.map_err(|errno| errno.to_string())?;
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

    /// Makes what the job needs.
    pub fn prepare(&self, job: &dyn Job, tasks: usize) -> Result<(), String> {
        self.aside(None, &|client| job.prepare(client, tasks))
    }

    /// Makes what one task of the job needs, in a known time.
    pub fn prepare_timed(&self, job: &dyn Job, time: Duration) -> Result<(), String> {
        self.aside(Some(time), &|client| job.prepare(client, 1))
    }

    pub fn clear(&self) -> Result<(), String> {
        self.aside(None, &|client| clear(client, b""))
    }

    /// Removes everything, in a known time.
    pub fn clear_timed(&self, time: Duration) -> Result<(), String> {
        self.aside(Some(time), &|client| clear(client, b""))
    }

    /// Does what is not measured; `time` is what it takes, or it is asked of the clock.
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

    /// Runs all phases of a prepared job; returns what each came to.
    pub fn run(&self, job: &dyn Job, tasks: usize) -> Result<Vec<PhaseCost>, String> {
        let phases: Vec<Meeting> = job.phases().iter().map(|_| Meeting::new(tasks)).collect();
        let parts = side_by_side(tasks + 1, |task| {
            if task < tasks {
                self.work(job, (task, tasks), &phases)
            } else {
                Ok(self.look_after(tasks, &phases))
            }
        })?;
        apart(&self.library, &|client| job.check(client, tasks))?;
        Ok((0..phases.len()).map(|n| together(&parts, n)).collect())
    }

    /// Runs all phases of a prepared job by one task, where it is known what each takes of a core,
    /// and hands each, with the background that follows it, to `around`; returns the operations.
    pub fn run_timed(
        &self,
        job: &dyn Job,
        times: &[Duration],
        around: &Around<'_>,
    ) -> Result<Vec<u64>, String> {
        let work = || {
            let mut task = job.task(self.library.client(), (0, 1))?;
            let run = |(phase, &time): (usize, &Duration)| {
                around(&mut || {
                    let operations = task.phase(phase)?;
                    self.catch_up(time);
                    Ok(operations)
                })
            };
            times.iter().enumerate().map(run).collect()
        };
        let done = std::thread::scope(|scope| scope.spawn(work).join());
        let done = done.map_err(|_| "a task panicked".to_owned())?;
        apart(&self.library, &|client| job.check(client, 1))?;
        done
    }

    fn work(
        &self,
        job: &dyn Job,
        (task, tasks): (usize, usize),
        phases: &[Meeting],
    ) -> Result<Vec<Timed>, String> {
        let mut ready = job.task(self.library.client(), (task, tasks));
        let mut parts = Vec::new();
        for (n, phase) in phases.iter().enumerate() {
            phase.begin.wait();
            // A task that failed goes on to meet the others.
            if let Ok(task) = &mut ready {
                let part = Timed::time(|| task.phase(n));
                // Relaxed: the barrier passes it on.
                let nanos = (part.cpu * 1e9) as u64;
                phase.nanos.fetch_add(nanos, Relaxed);
                match part.done {
                    Ok(operations) => parts.push(part.with(operations)),
                    Err(what) => ready = Err(what),
                }
            }
            phase.end.wait();
        }
        ready.map(|_| parts)
    }

    /// The background, phase by phase.
    fn look_after(&self, tasks: usize, phases: &[Meeting]) -> Vec<Timed> {
        let cores = allowed_cores().len().min(tasks).max(1) as u32;
        let look_after = |phase: &Meeting| {
            phase.begin.wait();
            phase.end.wait();
            let time = Duration::from_nanos(phase.nanos.load(Relaxed)) / cores;
            Timed::time(|| self.catch_up(time)).with(0)
        };
        phases.iter().map(look_after).collect()
    }
}

/// Where the tasks of a phase meet.
struct Meeting {
    begin: Barrier,
    end: Barrier,
    /// Processor time of its tasks.
    nanos: AtomicU64,
}

impl Meeting {
    fn new(tasks: usize) -> Meeting {
        Meeting {
            begin: Barrier::new(tasks + 1),
            end: Barrier::new(tasks + 1),
            nanos: AtomicU64::new(0),
        }
    }
}

/// What one thread did of a phase.
struct Timed<T = u64> {
    begin: Instant,
    end: Instant,
    cpu: f64,
    done: T,
}

impl<T> Timed<T> {
    fn time(f: impl FnOnce() -> T) -> Timed<T> {
        let (begin, cpu) = (Instant::now(), of_thread());
        let done = f();
        Timed {
            begin,
            cpu: (of_thread() - cpu).as_secs_f64(),
            end: Instant::now(),
            done,
        }
    }

    fn with<U>(&self, done: U) -> Timed<U> {
        Timed {
            begin: self.begin,
            end: self.end,
            cpu: self.cpu,
            done,
        }
    }
}

fn together(parts: &[Vec<Timed>], phase: usize) -> PhaseCost {
    let parts = || parts.iter().map(|parts| &parts[phase]);
    let begin = parts().map(|part| part.begin).min();
    let end = parts().map(|part| part.end).max();
    PhaseCost {
        operations: parts().map(|part| part.done).sum(),
        seconds: begin
            .zip(end)
            .map_or(0.0, |(begin, end)| (end - begin).as_secs_f64()),
        cpu: parts().map(|part| part.cpu).sum(),
    }
}

/// Removes what is below a directory.
fn clear(client: &dyn Client, directory: &[u8]) -> Result<(), String> {
    let listed = if directory.is_empty() {
        b"/"
    } else {
        directory
    };
    for entry in client.entries(&crate::activity::path(listed))?.iter() {
        let name = [directory, b"/", entry.name].concat();
        let path = crate::activity::path(&*name);
        if entry.is_dir {
            clear(client, &name)?;
            client.rmdir(&path)?;
        } else {
            client.unlink(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Times;
    use crate::workloads::THREAD_PERF;

    const READ_WRITE: Times = Times {
        script: &THREAD_PERF[0].0,
        times: 100,
    };

    #[test]
    fn what_is_recorded_in_a_run_is_folded_in_it_and_time_goes_while_heat_is_on() {
        let fixture = Fixture::new(Sharing::Processes).unwrap();
        let job = READ_WRITE;
        let inodes = || fixture.library().volume().inodes_in_memory();
        let at_first = inodes();
        fixture.prepare(&job, 2).unwrap();
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
        fixture.clear().unwrap();
        assert_eq!(inodes(), at_first);
    }

    #[test]
    fn the_clock_advances_by_the_given_time_and_each_phase_is_handed_out_with_its_fold() {
        let fixture = Fixture::new(Sharing::Processes).unwrap();
        let job = READ_WRITE;
        let heat = || fixture.library().volume().heat().gauges();
        let at = fixture.clock.monotonic();
        fixture.switch(true);
        fixture
            .prepare_timed(&job, Duration::from_millis(700))
            .unwrap();
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
        fixture.clear_timed(Duration::from_millis(20)).unwrap();
        assert_eq!(fixture.clock.monotonic(), at + 770);
    }
}
