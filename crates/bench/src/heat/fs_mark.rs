//! fs_mark: every task makes files of one byte in a directory of its own and keeps them, round
//! after round. In process, as the program does it; and the program itself on two mounts.

use super::HeatCase;
use super::sides::{How, Measured, block, is_control};
use crate::cpu_time::of_process;
use crate::daemons::hearth;
use crate::failure::Context;
use crate::fs_mark::{self, Round};
use crate::random::Random;
use crate::report::Report;
use crate::stats::{Pair, Side};
use crate::target::{Client, Sharing};
use crate::watchdog::beat;
use crate::workload::{Place, Ready, Task, Workload, must, path};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Tasks, each with a root of its own, as in the seed.
const TASKS: usize = 8;
/// Files of a task in a round.
const EACH: usize = 12_500;
/// Rounds: lines of the table.
const ROUNDS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];

/// One run of the shape of fs_mark.
struct Shape {
    /// Files of a task in a round.
    each: usize,
    /// Nanoseconds outside the calls that are measured, of all tasks, by round. Relaxed: sums that
    /// are read when the tasks have been joined.
    overhead: [AtomicU64; ROUNDS.len()],
}

impl Shape {
    /// With one of `part` parts of the program's files.
    fn new(part: usize) -> Shape {
        Shape {
            each: EACH / part,
            overhead: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Workload for Shape {
    fn name(&self) -> String {
        "fs_mark".to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        ROUNDS.to_vec()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        (0..tasks).try_for_each(|task| client.mkdir(&path(format!("/{task}"))))
    }

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, (task, _tasks): Place) -> Ready<'c> {
        Ok(Box::new(FileMaker {
            job: self,
            client,
            task,
            random: Random::new(task as u64),
        }))
    }

    /// Microseconds of overhead, and files of a task, in each round.
    fn figures(&self) -> Vec<Vec<f64>> {
        // Relaxed: the tasks have been joined.
        let micros = |nanos: &AtomicU64| (nanos.load(Ordering::Relaxed) / 1000) as f64;
        self.overhead
            .iter()
            .map(|nanos| vec![micros(nanos), self.each as f64])
            .collect()
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        for task in 0..done.len() {
            let mut files = 0;
            for round in 0..ROUNDS.len() {
                files += client.list(&path(format!("/{task}/{round:02x}")))?;
            }
            let due = self.each * ROUNDS.len();
            must(files == due, || {
                format!("root {task}: {files} files of {due}")
            })?;
        }
        Ok(())
    }
}

struct FileMaker<'c> {
    job: &'c Shape,
    client: Box<dyn Client + 'c>,
    task: usize,
    random: Random,
}

impl FileMaker<'_> {
    /// 16 characters of the round and 24 random ones.
    fn name(&mut self, round: usize) -> String {
        let mut name = format!("/{}/{round:02x}/{round:~<16x}", self.task);
        for _ in 0..24 {
            let digit = self.random.below(36) as u32;
            name.extend(char::from_digit(digit, 36).map(|c| c.to_ascii_uppercase()));
        }
        name
    }
}

impl Task for FileMaker<'_> {
    fn run(&mut self, round: usize) -> Result<u64, String> {
        let begin = Instant::now();
        let mut measured = 0;
        for _ in 0..self.job.each {
            let name = path(self.name(round));
            // As the program: nearly always it is there.
            let _ = self
                .client
                .mkdir(&path(format!("/{}/{round:02x}", self.task)));
            let flags = libc::O_CREAT | libc::O_RDWR | libc::O_TRUNC;
            let calls = Instant::now();
            let file = self.client.open(&name, flags)?;
            self.client.write_next(file, b"x")?;
            self.client.close(file)?;
            measured += calls.elapsed().as_nanos() as u64;
        }
        let overhead = (begin.elapsed().as_nanos() as u64).saturating_sub(measured);
        self.job.overhead[round].fetch_add(overhead, Ordering::Relaxed);
        Ok(self.job.each as u64)
    }
}

/// All rounds, by as many tasks as in the seed.
pub fn all(part: usize) -> Vec<HeatCase> {
    let row = |round| (format!("fs_mark, round {round}"), ("files_per_s", "1/s"));
    vec![HeatCase {
        rows: ROUNDS.map(row).into(),
        tasks: &[TASKS],
        how: How {
            sharing: Sharing::Processes,
            stays: false,
            is_elastic: false,
        },
        make: Box::new(move |_| Box::new(Shape::new(part))),
    }]
}

/// One line of the seed's table.
#[derive(Default)]
struct Line {
    /// Files so far.
    count: u64,
    /// Percent of the volume.
    used: Pair,
    /// Files per second.
    speed: Pair,
    /// Microseconds, of all tasks.
    overhead: Pair,
}

/// The table in the seed's layout, of the library.
pub fn table(tasks: usize, rounds: &[Measured]) -> String {
    let line = |(round, one): (usize, &Measured)| Line {
        count: (tasks * (round + 1)) as u64 * one.figures[1].of(Side::With) as u64,
        used: one.used.clone(),
        speed: one.speed.clone(),
        overhead: one.figures[0].clone(),
    };
    seed_table(&rounds.iter().enumerate().map(line).collect::<Vec<_>>())
}

fn seed_table(lines: &[Line]) -> String {
    let mut text = String::from(
        "```text\n  Count     Size    FSUse%          Files/sec           ratio    App Overhead\n",
    );
    text.push_str(
        "                   w/     w/o      w/        w/o      w/ / w/o      w/         w/o\n",
    );
    for line in lines {
        let of = |pair: &Pair| [Side::With, Side::Without].map(|side| pair.of(side));
        let (used, speed, overhead) = (of(&line.used), of(&line.speed), of(&line.overhead));
        let _ = writeln!(
            text,
            "{:8}     1 {:6.0} {:6.0} {:10.1} {:10.1} {:12.3} {:10.0} {:11.0}",
            line.count,
            used[0],
            used[1],
            speed[0],
            speed[1],
            line.speed.ratio(),
            overhead[0],
            overhead[1]
        );
    }
    text.push_str("```\n");
    text
}

/// Tasks of the program, each with a root of its own.
const ROOTS: usize = 4;

/// Runs the program fs_mark on a mount whose heat is switched between its runs, and prints the
/// seed's table. What it costs is the processor time of the daemon per file, from the file's making
/// to its removal.
pub fn on_a_mount(blocks: usize, quick: bool, report: &mut Report) -> Result<(), String> {
    let (each, rounds) = if quick { (250, 2) } else { (1_000, 4) };
    if let Some(why) = fs_mark::missing() {
        return Err(why.to_owned());
    }
    let mounted = hearth("transport=dev")?;
    let daemon = mounted.daemon().ok_or("the mount has no daemon")?;
    let base = mounted.directory().join("run");
    let switch = mounted.directory().join(".hearth/sys/fs/hot-track");
    let mut random = Random::new(ROOTS as u64);
    let mut lines: Vec<Line> = (0..rounds).map(|_| Line::default()).collect();
    let mut measured = Measured::default();
    let files = (ROOTS * each * rounds) as f64;
    for number in 0..blocks {
        let is_control = is_control(number, 3);
        for side in block(&mut random) {
            beat();
            let word = if side == Side::With && !is_control {
                "1"
            } else {
                "0"
            };
            let failed = |error| format!("{}: {error}", switch.display());
            std::fs::write(&switch, word).map_err(failed)?;
            let said = std::fs::read_to_string(&switch).map_err(failed)?;
            if said.trim() != word {
                return Err(format!("{} says {said} after {word}", switch.display()));
            }
            let before = of_process(daemon);
            let begin = Instant::now();
            for root in 0..ROOTS {
                let made = base.join(root.to_string());
                std::fs::create_dir_all(&made).at(&made)?;
            }
            let args = ["-D", "100", "-S", "0", "-s", "1", "-L", &rounds.to_string()];
            let got = fs_mark::run(&base, &args, (ROOTS, each, rounds), None)?;
            // What the removals of these files cost is this side's.
            std::fs::remove_dir_all(&base).at(&base)?;
            let cpu = (of_process(daemon) - before) / files;
            if is_control {
                measured.control.push(side, cpu);
                continue;
            }
            measured.cpu.push(side, cpu);
            measured.seconds.push(side, begin.elapsed().as_secs_f64());
            let seconds: f64 = got.iter().map(|round| 1.0 / round.per_second).sum();
            measured.speed.push(side, rounds as f64 / seconds);
            for (line, round) in lines.iter_mut().zip(&got) {
                let Round {
                    used,
                    count,
                    per_second,
                    overhead,
                } = *round;
                line.count = count;
                line.used.push(side, used);
                line.speed.push(side, per_second);
                line.overhead.push(side, overhead);
            }
        }
    }
    println!("{}", seed_table(&lines));
    let (name, metric) = ("fs_mark on a mount", ("files_per_s", "1/s"));
    report.add_pair((name, "mount", ROOTS), metric, &measured.speed);
    for (round, line) in lines.iter().enumerate() {
        let name = format!("{name}, round {}", round + 1);
        report.add_pair((&name, "mount", ROOTS), metric, &line.speed);
    }
    measured.keep(name, report);
    Ok(())
}
