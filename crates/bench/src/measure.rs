//! Running workloads on a target.

use crate::cpu_time::of_thread;
use crate::failure::{caught, joined};
use crate::pinned::{allowed_cores, pin};
use crate::target::{Client, Target};
use crate::watchdog::beat;
use crate::workload::{Task, Workload};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// The result of a workload that is repeated for a while.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Repetitions per second of all tasks together.
    pub per_second: f64,
    /// Seconds from the first task's begin to the last one's end.
    pub seconds: f64,
    /// Repetitions per second of processor time. Time that others take on a shared machine does not
    /// count.
    pub per_cpu_second: f64,
}

/// The result of one phase, with what follows it if something does.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseTime {
    /// Seconds from the begin of the first task to the end of the last one, or of what follows.
    pub seconds: f64,
    /// Operations of all tasks together.
    pub operations: u64,
    /// Seconds of processor time of the tasks, and of what follows.
    pub cpu: f64,
    /// The mean over the cores that have tasks of the seconds from the begin of a core's first task
    /// to the end of its last one; what follows is not in it. A core that is delayed for a moment
    /// does not add to the times of the others here.
    pub core_seconds: f64,
}

impl Rate {
    /// That of several runs together; of at least one.
    pub fn together(runs: &[Rate]) -> Rate {
        let sum = |of: fn(&Rate) -> f64| runs.iter().map(of).sum::<f64>();
        let operations = sum(|run| run.per_second * run.seconds);
        let seconds = sum(|run| run.seconds);
        Rate {
            per_second: operations / seconds,
            seconds,
            per_cpu_second: operations
                / sum(|run| run.per_second * run.seconds / run.per_cpu_second),
        }
    }
}

/// Repeats `workload` with `tasks` tasks for about `length`. Task number n is pinned to the n-th
/// core, counted from the core number `first`; with more tasks than cores, they go round.
pub fn rate(
    target: &dyn Target,
    workload: &dyn Workload,
    tasks: usize,
    length: Duration,
    first: usize,
) -> Result<Rate, String> {
    let window = RunWindow {
        start: Barrier::new(tasks),
        opened: OnceLock::new(),
        length,
    };
    let runs = side_by_side_from(first, tasks, |task| {
        repeat(target, workload, (task, tasks), &window)
    })?;
    let done: Vec<u64> = runs.iter().map(|run| run.warm + run.operations).collect();
    apart(target, &|client| workload.check(client, &done))?;
    let together = PhaseTime::of(&runs, tasks);
    Ok(Rate {
        per_second: together.operations as f64 / together.seconds,
        seconds: together.seconds,
        per_cpu_second: together.operations as f64 / together.cpu,
    })
}

/// Makes what the workload needs, from a thread of its own.
pub fn prepare(target: &dyn Target, workload: &dyn Workload, tasks: usize) -> Result<(), String> {
    apart(target, &|client| workload.prepare(client, tasks))
}

/// One run of `workload` from its preparation to its check, the first task on the core number
/// `first`; returns one time per phase.
pub fn times(
    target: &dyn Target,
    workload: &dyn Workload,
    tasks: usize,
    first: usize,
) -> Result<Vec<PhaseTime>, String> {
    prepare(target, workload, tasks)?;
    phases(target, workload, (tasks, first), None)
}

/// What follows each phase and is a part of it: it begins behind the barrier at which the last task
/// has ended, on a thread of its own, and gets the processor time that the tasks took of a core.
pub type After<'a> = &'a (dyn Fn(Duration) + Sync);

/// All phases of a prepared workload, and its check.
pub fn phases(
    target: &dyn Target,
    workload: &dyn Workload,
    (tasks, first): (usize, usize),
    after: Option<After<'_>>,
) -> Result<Vec<PhaseTime>, String> {
    let names = workload.phases();
    let threads = tasks + usize::from(after.is_some());
    let meeting = Meeting {
        begin: Barrier::new(threads),
        end: after.map(|_| Barrier::new(threads)),
        nanos: AtomicU64::new(0),
    };
    let runs = side_by_side_from(first, threads, |task| match after {
        Some(after) if task == tasks => Ok(names
            .iter()
            .map(|_| meeting.follow(tasks, after))
            .collect::<Vec<_>>()),
        _ => phases_of(target, workload, (task, tasks), &meeting),
    })?;
    let last = |runs: &Vec<TaskRun>| runs.last().map_or(0, |run| run.operations);
    let done: Vec<u64> = runs[..tasks].iter().map(last).collect();
    apart(target, &|client| workload.check(client, &done))?;
    let of_phase = |phase: usize| {
        let runs: Vec<TaskRun> = runs.iter().map(|runs| runs[phase]).collect();
        PhaseTime::of(&runs, tasks)
    };
    Ok((0..names.len()).map(of_phase).collect())
}

/// Runs `f` with a client, in a thread of its own.
pub fn apart(
    target: &dyn Target,
    f: &(dyn Fn(&dyn Client) -> Result<(), String> + Sync),
) -> Result<(), String> {
    std::thread::scope(|scope| scope.spawn(|| f(&*target.client())).join())
        .map_err(|_| "a preparation or check panicked".to_owned())?
}

/// The least number of operations that warm a task up. After them, everything that is made on first
/// use exists.
const WARM: u32 = 2;
/// The warm-up takes one part in this many of the run's length, in processor time, so that many
/// tasks on one core begin as warm as one does.
const WARM_PART: u32 = 20;

/// The time window in which all tasks of a repeated workload run.
struct RunWindow {
    start: Barrier,
    /// When the first task began; it ends for all of them `length` later, so that tasks which take
    /// turns on a core do not run on alone.
    opened: OnceLock<Instant>,
    length: Duration,
}

/// Where the tasks of a phase meet.
struct Meeting {
    begin: Barrier,
    /// If something follows: it waits there for the tasks.
    end: Option<Barrier>,
    /// Processor time of the tasks. Relaxed: the barrier `end` passes it on.
    nanos: AtomicU64,
}

#[derive(Clone, Copy)]
struct TaskRun {
    begin: Instant,
    end: Instant,
    /// Operations before that.
    warm: u64,
    operations: u64,
    cpu: Duration,
}

impl TaskRun {
    /// Times `f`, which gets the time of its begin and returns its operations.
    fn of(f: impl FnOnce(Instant) -> Result<u64, String>) -> Result<TaskRun, String> {
        let (cpu, begin) = (of_thread(), Instant::now());
        let operations = f(begin)?;
        Ok(TaskRun {
            begin,
            end: Instant::now(),
            warm: 0,
            operations,
            cpu: of_thread() - cpu,
        })
    }
}

impl Meeting {
    /// What follows a phase of so many tasks.
    fn follow(&self, tasks: usize, after: After<'_>) -> TaskRun {
        let cores = allowed_cores().len().min(tasks).max(1) as u32;
        self.begin.wait();
        self.wait_for_end();
        let time = Duration::from_nanos(self.nanos.swap(0, Relaxed)) / cores;
        TaskRun::of(|_| {
            after(time);
            Ok(0)
        })
        .expect("it returns no error")
    }

    /// Where nothing follows, nobody waits for the end.
    fn wait_for_end(&self) {
        if let Some(end) = &self.end {
            end.wait();
        }
    }
}

impl PhaseTime {
    /// That of several runs together.
    pub fn together(runs: impl IntoIterator<Item = PhaseTime>) -> PhaseTime {
        let add = |sum: PhaseTime, run: PhaseTime| PhaseTime {
            seconds: sum.seconds + run.seconds,
            operations: sum.operations + run.operations,
            cpu: sum.cpu + run.cpu,
            core_seconds: sum.core_seconds + run.core_seconds,
        };
        runs.into_iter().fold(PhaseTime::default(), add)
    }

    /// The first `tasks` of the runs are of tasks; what is behind them followed.
    fn of(runs: &[TaskRun], tasks: usize) -> PhaseTime {
        let begin = runs.iter().map(|run| run.begin).min();
        let end = runs.iter().map(|run| run.end).max();
        PhaseTime {
            seconds: begin
                .zip(end)
                .map_or(0.0, |(begin, end)| (end - begin).as_secs_f64()),
            operations: runs.iter().map(|run| run.operations).sum(),
            cpu: runs.iter().map(|run| run.cpu.as_secs_f64()).sum(),
            core_seconds: core_seconds(&runs[..tasks], allowed_cores().len()),
        }
    }
}

/// The mean of the times that the `cores` took for their tasks, which go round.
fn core_seconds(runs: &[TaskRun], cores: usize) -> f64 {
    let cores = cores.min(runs.len()).max(1);
    let took = |core: usize| {
        let own = || runs.iter().skip(core).step_by(cores);
        let begin = own().map(|run| run.begin).min();
        let end = own().map(|run| run.end).max();
        let both = begin.zip(end);
        both.map_or(0.0, |(begin, end)| (end - begin).as_secs_f64())
    };
    (0..cores).map(took).sum::<f64>() / cores as f64
}

/// Runs `f` once for every task, each in a thread pinned to its core.
pub fn side_by_side<T: Send>(
    tasks: usize,
    f: impl Fn(usize) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    side_by_side_from(0, tasks, f)
}

/// Runs `f` for every task, the first one on the core number `first`.
fn side_by_side_from<T: Send>(
    first: usize,
    tasks: usize,
    f: impl Fn(usize) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    beat();
    let cores = allowed_cores();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks)
            .map(|task| {
                let (f, core) = (&f, cores[(first + task) % cores.len()]);
                scope.spawn(move || {
                    // A thread that may not be pinned still runs: the core is one of ours.
                    let _ = pin(core);
                    f(task)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| joined(thread.join()))
            .collect()
    })
}

fn repeat(
    target: &dyn Target,
    workload: &dyn Workload,
    place: (usize, usize),
    window: &RunWindow,
) -> Result<TaskRun, String> {
    let ready = caught(|| {
        let mut task = workload.task(target.client(), place)?;
        let warm = warm_up(&mut *task, window.length / WARM_PART)?;
        Ok((task, warm))
    });
    // Every task gets here, so that none waits for one that failed.
    window.start.wait();
    let (mut task, warm) = ready?;
    let run = TaskRun::of(|begin| {
        let deadline = *window.opened.get_or_init(|| begin) + window.length;
        let mut operations = 0;
        loop {
            operations += task.run(0)?;
            if Instant::now() >= deadline {
                return Ok(operations);
            }
        }
    });
    run.map(|run| TaskRun { warm, ..run })
}

/// Warms a task up for `time`. Returns the number of operations.
fn warm_up(task: &mut dyn Task, time: Duration) -> Result<u64, String> {
    let (begin, mut done) = (of_thread(), 0);
    for _ in 0..WARM {
        task.once()?;
        done += 1;
    }
    while of_thread() - begin < time {
        done += task.run(0)?;
    }
    Ok(done)
}

fn phases_of(
    target: &dyn Target,
    workload: &dyn Workload,
    place: (usize, usize),
    meeting: &Meeting,
) -> Result<Vec<TaskRun>, String> {
    let mut ready = caught(|| workload.task(target.client(), place));
    let mut runs = Vec::new();
    for phase in 0..workload.phases().len() {
        meeting.begin.wait();
        // A task that failed goes on to meet the others.
        if let Ok(task) = &mut ready {
            match caught(|| TaskRun::of(|_| task.run(phase))) {
                Ok(run) => {
                    meeting.nanos.fetch_add(run.cpu.as_nanos() as u64, Relaxed);
                    runs.push(run);
                }
                Err(what) => ready = Err(what),
            }
        }
        meeting.wait_for_end();
    }
    ready.map(|_| runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_together_count_by_their_length() {
        let run = |per_second, seconds, per_cpu_second| Rate {
            per_second,
            seconds,
            per_cpu_second,
        };
        let both = Rate::together(&[run(10.0, 1.0, 5.0), run(20.0, 2.0, 10.0)]);
        let expected = (50.0 / 3.0, 3.0, 50.0 / 6.0);
        let got = (both.per_second, both.seconds, both.per_cpu_second);
        assert_eq!(got, expected);
    }

    #[test]
    fn a_core_s_time_is_that_of_its_own_tasks() {
        let start = Instant::now();
        let run = |begin: u64, end: u64| TaskRun {
            begin: start + Duration::from_secs(begin),
            end: start + Duration::from_secs(end),
            warm: 0,
            operations: 1,
            cpu: Duration::ZERO,
        };
        let two = [run(0, 2), run(0, 4)];
        assert_eq!(core_seconds(&two, 2), 3.0, "one waits for none");
        assert_eq!(core_seconds(&two, 1), 4.0, "they took turns");
        let three = [run(0, 2), run(1, 4), run(2, 6)];
        assert_eq!(
            core_seconds(&three, 2),
            4.5,
            "6 of the first core, 3 of the other"
        );
        assert_eq!(
            core_seconds(&two[..1], 2),
            2.0,
            "a core without a task counts not"
        );
        let of_three = PhaseTime::of(&three, 3);
        assert_eq!((of_three.seconds, of_three.operations), (6.0, 3));
        let followed = PhaseTime::of(&three, 2);
        let one_core = allowed_cores().len() == 1;
        assert_eq!(followed.core_seconds, if one_core { 4.0 } else { 2.5 });
        assert_eq!(followed.seconds, 6.0, "what follows is a part of it");
        let twice = PhaseTime::together([of_three, of_three]);
        let due = (2.0 * of_three.core_seconds, 6);
        assert_eq!((twice.core_seconds, twice.operations), due);
    }
}
