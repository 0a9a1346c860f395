//! Running activities and jobs on a target.

use crate::activity::{Activity, Job, Repeat};
use crate::cpu_time::of_thread;
use crate::pinned::{allowed_cores, pin};
use crate::target::{Client, Target};
use crate::watchdog::beat;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// The result of a run of an activity.
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

/// The result of one phase of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseTime {
    /// Seconds from the moment that all may begin until the last task is done.
    pub seconds: f64,
    /// Operations of all tasks together.
    pub operations: u64,
    /// Seconds of processor time of the tasks meanwhile.
    pub cpu: f64,
    /// The mean of the cores' times in seconds, each from the begin of the core's first task to the
    /// end of its last one. A core that is delayed for a moment does not add to the times of the
    /// others here.
    pub per_core: f64,
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

/// Runs `activity` with `tasks` tasks for about `length`. Task number n is pinned to the n-th core,
/// counted from the core number `first`; with more tasks than cores, they go round.
pub fn rate(
    target: &dyn Target,
    activity: &dyn Activity,
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
        repeat(target, activity, (task, tasks), &window)
    })?;
    let done: Vec<u64> = runs.iter().map(|run| run.warm + run.operations).collect();
    apart(target, &|client| activity.check(client, &done))?;
    let together = PhaseTime::of(&runs);
    Ok(Rate {
        per_second: together.operations as f64 / together.seconds,
        seconds: together.seconds,
        per_cpu_second: together.operations as f64 / together.cpu,
    })
}

/// Makes what the activity needs, from a thread of its own.
pub fn prepare(target: &dyn Target, activity: &dyn Activity, tasks: usize) -> Result<(), String> {
    apart(target, &|client| activity.prepare(client, tasks))
}

/// One run of `job` from its preparation to its check, the first task on the core number `first`;
/// returns one time per phase.
pub fn times(
    target: &dyn Target,
    job: &dyn Job,
    tasks: usize,
    first: usize,
) -> Result<Vec<PhaseTime>, String> {
    apart(target, &|client| job.prepare(client, tasks))?;
    let start = Barrier::new(tasks);
    let phases = |task| phases(target, job, (task, tasks), &start);
    let runs = side_by_side_from(first, tasks, phases)?;
    apart(target, &|client| job.check(client, tasks))?;
    let of_phase = |phase: usize| {
        let runs: Vec<TaskRun> = runs.iter().map(|runs| runs[phase]).collect();
        PhaseTime::of(&runs)
    };
    Ok((0..job.phases().len()).map(of_phase).collect())
}

/// Runs `f` with a client, in a thread of its own.
pub fn apart(
    target: &dyn Target,
    f: &(dyn Fn(&dyn Client) -> Result<(), String> + Sync),
) -> Result<(), String> {
    let done = std::thread::scope(|scope| scope.spawn(|| f(&*target.client())).join());
    done.map_err(|_| "a preparation or check panicked".to_owned())?
}

/// The least number of repetitions that warm a task up. After them, everything that is made on
/// first use exists.
const WARM: u32 = 2;
/// The warm-up takes one part in this many of the run's length, in processor time, so that many
/// tasks on one core begin as warm as one does.
const WARM_PART: u32 = 20;

/// The time window in which all tasks of an activity run.
struct RunWindow {
    start: Barrier,
    /// When the first task began; it ends for all of them `length` later, so that tasks which take
    /// turns on a core do not run on alone.
    opened: OnceLock<Instant>,
    length: Duration,
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

impl PhaseTime {
    /// That of several runs together.
    pub fn together(runs: impl IntoIterator<Item = PhaseTime>) -> PhaseTime {
        let add = |sum: PhaseTime, run: PhaseTime| PhaseTime {
            seconds: sum.seconds + run.seconds,
            operations: sum.operations + run.operations,
            cpu: sum.cpu + run.cpu,
            per_core: sum.per_core + run.per_core,
        };
        runs.into_iter().fold(PhaseTime::default(), add)
    }

    fn of(runs: &[TaskRun]) -> PhaseTime {
        let begin = runs.iter().map(|run| run.begin).min();
        let end = runs.iter().map(|run| run.end).max();
        PhaseTime {
            seconds: begin
                .zip(end)
                .map_or(0.0, |(begin, end)| (end - begin).as_secs_f64()),
            operations: runs.iter().map(|run| run.operations).sum(),
            cpu: runs.iter().map(|run| run.cpu.as_secs_f64()).sum(),
            per_core: per_core(runs, allowed_cores().len()),
        }
    }
}

/// The mean of the times that the `cores` took for their tasks, which go round.
fn per_core(runs: &[TaskRun], cores: usize) -> f64 {
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
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<T, String>>| {
            thread.join().map_err(|_| "a task panicked".to_owned())?
        };
        threads.into_iter().map(join).collect()
    })
}

fn repeat(
    target: &dyn Target,
    activity: &dyn Activity,
    (task, tasks): (usize, usize),
    window: &RunWindow,
) -> Result<TaskRun, String> {
    let client = target.client();
    let ready = activity.task(&*client, task, tasks).and_then(|mut task| {
        let warm = warm_up(&mut *task, window.length / WARM_PART)?;
        Ok((task, warm))
    });
    // Every task gets here, so that none waits for one that failed.
    window.start.wait();
    let (mut task, warm) = ready?;
    let stride = task.stride();
    let (cpu, begin) = (of_thread(), Instant::now());
    let deadline = *window.opened.get_or_init(|| begin) + window.length;
    let mut operations = 0;
    loop {
        task.repeat(stride)?;
        operations += u64::from(stride);
        let end = Instant::now();
        if end >= deadline {
            return Ok(TaskRun {
                begin,
                end,
                warm,
                operations,
                cpu: of_thread() - cpu,
            });
        }
    }
}

/// Warms a task up for `time`. Returns the number of repetitions.
fn warm_up(task: &mut dyn Repeat, time: Duration) -> Result<u64, String> {
    let (begin, stride) = (of_thread(), task.stride());
    task.repeat(WARM)?;
    let mut done = u64::from(WARM);
    while of_thread() - begin < time {
        task.repeat(stride)?;
        done += u64::from(stride);
    }
    Ok(done)
}

fn phases(
    target: &dyn Target,
    job: &dyn Job,
    (task, tasks): (usize, usize),
    start: &Barrier,
) -> Result<Vec<TaskRun>, String> {
    let mut ready = job.task(target.client(), (task, tasks));
    let mut runs = Vec::new();
    for phase in 0..job.phases().len() {
        start.wait();
        // A task that failed goes on to meet the others.
        let Ok(task) = &mut ready else { continue };
        let (cpu, begin) = (of_thread(), Instant::now());
        match task.phase(phase) {
            Ok(operations) => runs.push(TaskRun {
                begin,
                end: Instant::now(),
                warm: 0,
                operations,
                cpu: of_thread() - cpu,
            }),
            Err(what) => ready = Err(what),
        }
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
        assert_eq!(per_core(&two, 2), 3.0, "one waits for none");
        assert_eq!(per_core(&two, 1), 4.0, "they took turns");
        let three = [run(0, 2), run(1, 4), run(2, 6)];
        assert_eq!(
            per_core(&three, 2),
            4.5,
            "6 of the first core, 3 of the other"
        );
        assert_eq!(
            per_core(&two[..1], 2),
            2.0,
            "a core without a task counts not"
        );
        let of_three = PhaseTime::of(&three);
        assert_eq!((of_three.seconds, of_three.operations), (6.0, 3));
        let twice = PhaseTime::together([of_three, of_three]);
        assert_eq!((twice.per_core, twice.operations), (9.0, 6));
    }
}
