//! fs_mark: every task makes files of one byte in a directory of its own and keeps them, round
//! after round. In process, as the program does it; and the program itself on two mounts.

use super::random::Random;
use super::sides::{self, Amount, How, Measured};
use crate::activity::{Job, Phased, must, path};
use crate::pair::{Pair, Side};
use crate::row::Row;
use crate::target::{Client, Library, Sharing};
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
pub struct Shape {
    /// Files of a task in a round.
    each: usize,
    /// Nanoseconds outside the calls that are measured, of all tasks, by round. Relaxed: sums that
    /// are read when the tasks have been joined.
    overhead: [AtomicU64; ROUNDS.len()],
}

impl Shape {
    /// With one of `part` parts of the program's files.
    pub fn new(part: usize) -> Shape {
        Shape {
            each: EACH / part,
            overhead: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Job for Shape {
    fn name(&self) -> String {
        "fs_mark".to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        ROUNDS.to_vec()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        (0..tasks).try_for_each(|task| client.mkdir(&path(format!("/{task}"))))
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        Ok(Box::new(Task {
            job: self,
            client,
            task,
            random: Random::new(task as u64),
        }))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        for task in 0..tasks {
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

struct Task<'c> {
    job: &'c Shape,
    client: Box<dyn Client + 'c>,
    task: usize,
    random: Random,
}

impl Task<'_> {
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

impl Phased for Task<'_> {
    fn phase(&mut self, round: usize) -> Result<u64, String> {
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

/// Prints the seed's table of the library; answers what was measured of each round.
///
/// # Errors
/// The library refuses, or did something else.
pub fn compare(amount: Amount, rows: &mut Vec<Row>) -> Result<Vec<(String, Measured)>, String> {
    let each = EACH / amount.part;
    let how = How {
        sharing: Sharing::Processes,
        tasks: TASKS,
        stays: false,
        is_elastic: false,
    };
    let mut used = vec![Pair::default(); ROUNDS.len()];
    let mut overhead = vec![Pair::default(); ROUNDS.len()];
    let measured = sides::job(
        &|_| Shape::new(amount.part),
        how,
        amount,
        &mut |side, job, library, _| {
            for round in 0..ROUNDS.len() {
                let micros = job.overhead[round].load(Ordering::Relaxed) / 1000;
                overhead[round].push(side, micros as f64);
                used[round].push(side, used_percent(library));
            }
        },
    )?;
    let lines = measured.iter().zip(used.iter().zip(&overhead)).enumerate();
    let table: Vec<Line> = lines
        .map(|(round, (one, (used, overhead)))| Line {
            count: (TASKS * each * (round + 1)) as u64,
            used: used.clone(),
            speed: one.speed.clone(),
            overhead: overhead.clone(),
        })
        .collect();
    println!("{}", seed_table(&table));
    let name = |round: usize| format!("fs_mark, round {}", ROUNDS[round]);
    for (round, one) in measured.iter().enumerate() {
        let metric = ("files_per_s", "1/s");
        rows.extend(one.speed.rows("heat", &name(round), "lib", TASKS, metric));
    }
    eprintln!("measured: fs_mark");
    let named = measured.into_iter().enumerate();
    Ok(named.map(|(round, one)| (name(round), one)).collect())
}

/// One line of the seed's table.
pub struct Line {
    /// Files so far.
    pub count: u64,
    /// Percent of the volume.
    pub used: Pair,
    /// Files per second.
    pub speed: Pair,
    /// Microseconds, of all tasks.
    pub overhead: Pair,
}

/// The table in the seed's layout.
pub fn seed_table(lines: &[Line]) -> String {
    let mut text = String::from(
        "```text\n  Count     Size    FSUse%          Files/sec           ratio    App Overhead\n",
    );
    text.push_str(
        "                   w/     w/o      w/        w/o      w/ / w/o      w/         w/o\n",
    );
    for line in lines {
        let of = |pair: &Pair| [Side::With, Side::Without].map(|side| pair.of(side).0);
        let (used, speed, overhead) = (of(&line.used), of(&line.speed), of(&line.overhead));
        let _ = writeln!(
            text,
            "{:8}     1 {:6.0} {:6.0} {:10.1} {:10.1} {:12.3} {:10.0} {:11.0}",
            line.count,
            used[0],
            used[1],
            speed[0],
            speed[1],
            line.speed.ratio().0,
            overhead[0],
            overhead[1]
        );
    }
    text.push_str("```\n");
    text
}

fn used_percent(library: &Library) -> f64 {
    let root = library.volume().process(hearth::Credentials::root());
    root.statfs("/").map_or(0.0, |room| {
        (room.blocks - room.bfree) as f64 / room.blocks.max(1) as f64 * 100.0
    })
}
