//! tiobench: threads that write and read a file each, in order and at random.
//!
//! As tiotest does it: each of the 1, 2, 4, 8 threads has a file of its own, all files together
//! have one size; the phases are write, random write, read, random read; blocks of 4 KiB, one
//! `pwrite` or `pread` each; 4,000 random operations in all, at uniform block-aligned places; the
//! time of a phase includes the `fsync` of a write and the close. The size is fixed instead of
//! twice the memory, because what is compared is in memory.

use super::session::Session;
use super::{Family, boxed};
use crate::histogram::Histogram;
use crate::measure::PhaseTime;
use crate::random::Random;
use crate::runner;
use crate::stats::{Metric, Samples};
use crate::table::{Table, percent};
use crate::target::Client;
use crate::workload::{Place, Ready, Task, Workload, must, path};
use crate::workloads::TIOBENCH;
use std::ffi::CString;
use std::sync::Mutex;
use std::time::Instant;

/// Bytes of a block.
const BLOCK: usize = 4096;
/// Random operations of all threads together.
const RANDOM: usize = 4_000;
/// Threads.
const THREADS: [usize; 4] = [1, 2, 4, 8];
const PHASES: [&str; 4] = ["write", "random write", "read", "random read"];
/// What is reported of a phase, in the order of tiobench's columns: metric, heading, digits.
const COLUMNS: [(Metric, &str, usize); 7] = [
    (("rate", "MB/s"), "MB/s", 0),
    (("cpu", "%"), "CPU %", 0),
    (("latency", "ms"), "avg ms", 5),
    (("latency_max", "ms"), "max ms", 3),
    (("above_2_s", "%"), "> 2 s %", 4),
    (("above_10_s", "%"), "> 10 s %", 4),
    (("cpu_efficiency", "MB/s/%"), "MB/s per CPU %", 2),
];
const WORKLOAD: &str = "tiobench";

/// The columns of one run of a phase.
fn columns(time: &PhaseTime, latencies: &Histogram) -> [f64; 7] {
    let rate = (time.operations as usize * BLOCK) as f64 / 1e6 / time.seconds;
    let cpu = time.cpu / time.seconds * 100.0;
    let part = |count: u64| count as f64 / latencies.count() as f64 * 100.0;
    [
        rate,
        cpu,
        latencies.mean() / 1e6,
        latencies.most() as f64 / 1e6,
        part(latencies.above(2_000_000_000)),
        part(latencies.above(10_000_000_000)),
        rate / cpu,
    ]
}

pub const FAMILY: Family = Family {
    name: WORKLOAD,
    about: || {
        "Threads with a file each, blocks of 4 KiB, 64 MiB in all (16 in a first look), 4,000 \
         random operations in\nall; fsync and close are in the time. CPU is that of the threads, \
         100 % is one core; a mount's daemon is\nnot in it."
            .to_owned()
    },
    scripts: Vec::new,
    others: || vec![WORKLOAD],
    also_counted: || boxed(&TIOBENCH),
    run,
};

fn run(session: &mut Session) -> Result<(), String> {
    let blocks = session.options.pick(16 << 20, 64 << 20) / BLOCK;
    let mut samples = Samples::default();
    let (runs, on) = (session.effort.runs as usize, &session.contenders);
    runner::rounds(runs, &THREADS, on, |&threads, contender, _| {
        let job = Tio::new(blocks);
        let fresh = contender.fresh_for_threads();
        let phases = session.job(contender, fresh, &job, (threads, 0))?;
        for ((phase, time), seen) in PHASES.iter().zip(phases).zip(&job.latencies) {
            let seen = seen.lock().map_err(|_| "a thread panicked")?;
            for ((metric, ..), value) in COLUMNS.iter().zip(columns(&time, &seen)) {
                samples.push(*metric, (phase, &contender.name, threads), value);
            }
        }
        Ok(())
    })?;
    for phase in PHASES {
        println!("{}", table(phase, &samples, &session.names()));
        let picture = format!("tiobench-{}", phase.replace(' ', "-"));
        let rates = samples.of(COLUMNS[0].0);
        session.draw(&picture, (phase, "MB/s"), (rates, phase), &THREADS)?;
    }
    session.print_facts();
    session.report.add_samples(&samples);
    // What could not be measured has no row.
    session
        .report
        .rows
        .retain(|row| row.bench != WORKLOAD || row.value.is_finite());
    Ok(())
}

/// The report of a phase: a line for every target and number of threads.
fn table(phase: &str, samples: &Samples, targets: &[String]) -> String {
    let names = COLUMNS.map(|(_, name, _)| name);
    let mut table = Table::new([phase, "threads"].into_iter().chain(names));
    for target in targets {
        for threads in THREADS {
            let cell = |(metric, _, digits): (Metric, &str, usize)| {
                let cell = samples.of(metric).median(phase, target, threads);
                match cell.filter(|cell| cell.0.is_finite()) {
                    None => String::new(),
                    Some((value, half)) if metric == COLUMNS[0].0 => {
                        format!("{value:.0} ±{}", percent(value, half))
                    }
                    Some((value, _)) => format!("{value:.digits$}"),
                }
            };
            let line = [target.clone(), threads.to_string()];
            table.row(line.into_iter().chain(COLUMNS.map(cell)));
        }
    }
    table.text()
}

struct Tio {
    /// Blocks of all files together.
    blocks: usize,
    /// Latencies of each phase, of all threads.
    latencies: [Mutex<Histogram>; 4],
}

impl Tio {
    fn new(blocks: usize) -> Tio {
        Tio {
            blocks,
            latencies: Default::default(),
        }
    }
}

fn file(task: usize) -> CString {
    path(format!("/tiotest-{task}"))
}

impl Workload for Tio {
    fn name(&self) -> String {
        WORKLOAD.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.to_vec()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        (0..tasks).try_for_each(|task| {
            let handle = client.open(&file(task), libc::O_CREAT | libc::O_RDWR)?;
            client.truncate(handle, (self.blocks / tasks * BLOCK) as u64)?;
            client.close(handle)
        })
    }

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, (task, tasks): Place) -> Ready<'c> {
        Ok(Box::new(TioThread {
            job: self,
            client,
            file: file(task),
            blocks: self.blocks / tasks,
            at_random: RANDOM / tasks,
            random: Random::new(task as u64),
            block: vec![task as u8 + 1; BLOCK],
        }))
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        let tasks = done.len();
        let blocks = self.blocks / tasks;
        for task in 0..tasks {
            let size = client.about(&file(task))?.size;
            must(size == (blocks * BLOCK) as u64, || {
                format!("{size} bytes, thread {task}")
            })?;
        }
        let count = |seen: &Mutex<Histogram>| seen.lock().map_or(0, |seen| seen.count() as usize);
        let counts = self.latencies.each_ref().map(count);
        let (in_order, at_random) = (blocks * tasks, RANDOM / tasks * tasks);
        must(counts == [in_order, at_random, in_order, at_random], || {
            format!("{counts:?} operations were timed")
        })
    }
}

struct TioThread<'c> {
    job: &'c Tio,
    client: Box<dyn Client + 'c>,
    file: CString,
    blocks: usize,
    at_random: usize,
    random: Random,
    block: Vec<u8>,
}

impl Task for TioThread<'_> {
    fn run(&mut self, phase: usize) -> Result<u64, String> {
        let (is_random, writes) = (phase % 2 == 1, phase < 2);
        let file = self.client.open(&self.file, libc::O_RDWR)?;
        let times = if is_random {
            self.at_random
        } else {
            self.blocks
        };
        let mut latencies = Histogram::new();
        let byte = self.block[0];
        for n in 0..times {
            let block = if is_random {
                self.random.below(self.blocks as u64)
            } else {
                n as u64
            };
            let at = block * BLOCK as u64;
            let begin = Instant::now();
            let done = match writes {
                true => self.client.write(file, &self.block, at)?,
                false => self.client.read(file, &mut self.block, at)?,
            };
            latencies.add(begin.elapsed().as_nanos() as u64);
            must(done == BLOCK && self.block[BLOCK - 1] == byte, || {
                format!("{} at {at}", PHASES[phase])
            })?;
        }
        if writes {
            self.client.sync(file)?;
        }
        self.client.close(file)?;
        let all = self.job.latencies[phase].lock();
        all.map_err(|_| "a thread panicked")?.absorb(&latencies);
        Ok(times as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::times;
    use crate::target::{Library, Sharing};

    #[test]
    fn every_thread_does_its_part_of_every_phase() {
        let target = Library::new(Sharing::Lowest).unwrap();
        let phases = times(&target, &Tio::new(256), 4, 0).unwrap();
        let done: Vec<u64> = phases.iter().map(|phase| phase.operations).collect();
        assert_eq!(done, [256, 4_000, 256, 4_000]);
    }

    #[test]
    fn the_columns_are_those_of_the_report() {
        let time = PhaseTime {
            seconds: 2.0,
            operations: 1_000,
            cpu: 1.5,
            core_seconds: 2.0,
        };
        let mut latencies = Histogram::new();
        (0..9).for_each(|_| latencies.add(1_000_000));
        latencies.add(3_000_000_000);
        let [rate, cpu, mean, most, above_2, above_10, efficiency] = columns(&time, &latencies);
        assert!((rate - 2.048).abs() < 1e-9 && (cpu - 75.0).abs() < 1e-9);
        assert!((mean - 300.9).abs() < 1e-9 && (most - 3000.0).abs() < 1e-9);
        assert_eq!((above_2, above_10), (10.0, 0.0));
        assert!((efficiency - 2.048 / 75.0).abs() < 1e-12);
    }
}
