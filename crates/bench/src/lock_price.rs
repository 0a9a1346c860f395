//! `hearth-bench locks`: what the lock profile costs, on and off.
//!
//! On against off is time: slices of the same work alternate within one thread, a ratio for each
//! neighbouring pair, counted in the thread's own processor time so that other programs do not
//! count. Off against compiled out is instructions, which valgrind counts the same every time: two
//! builds of this program do the same work.

use crate::cpu_time::of_thread;
use crate::options::Options;
use crate::patience::beat;
use crate::pinned::{allowed_cores, pin};
use crate::row::{Row, median, width, write_json};
use crate::table::{Table, short};
use hearth::{Clock, Credentials, Errno, Process, Time, Volume};
use hearth_sync::profile::{self, Sampling};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The verb by which this program does the work that valgrind counts.
pub const WORK: &str = "locks-work";
/// The build without the profile.
const UNPROFILED: &str = "HEARTH_BENCH_UNPROFILED";
/// What on may cost, and what off may.
const ON_MAX: f64 = 1.03;
const OFF_MAX: f64 = 1.005;
/// Processor time of one slice.
const SLICE_NS: u64 = 10_000_000;
/// Operations that are counted, on top of [`FEW`].
const MANY: u64 = 8_000;
const FEW: u64 = 2_000;

const WORKLOADS: [&str; 5] = [
    "open/close",
    "stat",
    "create/unlink",
    "read 4 KiB",
    "write 4 KiB",
];

/// Runs the benchmark and prints its table.
///
/// # Errors
/// The library refuses, or the profile costs more than it may.
pub fn run(options: &Options) -> Result<(), String> {
    let wanted = |name: &&str| {
        options
            .only
            .as_ref()
            .is_none_or(|only| name.contains(&**only))
    };
    let pairs = if options.quick { 30 } else { 200 };
    let unprofiled = unprofiled();
    if let Err(why) = &unprofiled {
        eprintln!("hearth-bench locks: {why}; the column 'off / compiled out' stays empty");
    }
    let mut rows = Vec::new();
    let heading = [
        "operation",
        "on / off",
        "instructions, off",
        "off / compiled out",
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    let mut dear = Vec::new();
    for workload in WORKLOADS.into_iter().filter(wanted) {
        beat();
        let mut row = |target: &str, metric, value, unit, runs, ci95| {
            rows.push(Row {
                bench: "locks",
                workload: workload.to_owned(),
                target: target.to_owned(),
                tasks: 1,
                metric,
                value,
                unit,
                runs,
                ci95,
            });
        };
        let (on, spread) = on_against_off(workload, pairs)?;
        row("lib", "time_on_over_off", on, "1", pairs, spread);
        if on > ON_MAX {
            dear.push(format!("{workload}: on costs {:.1} %", 100.0 * (on - 1.0)));
        }
        let mut cells = [
            format!("{on:.3} ±{}", width(spread, 3)),
            "-".into(),
            "-".into(),
        ];
        if let Ok(without) = &unprofiled {
            let (off, out) = instructions(workload, without, if options.quick { 3 } else { 7 })?;
            row("lib", "instructions_per_op", off.0, "1", off.2, off.1);
            row(
                "lib-unprofiled",
                "instructions_per_op",
                out.0,
                "1",
                out.2,
                out.1,
            );
            let ratio = off.0 / out.0;
            row("lib", "instructions_off_over_out", ratio, "1", off.2, 0.0);
            if ratio > OFF_MAX {
                let percent = 100.0 * (ratio - 1.0);
                dear.push(format!("{workload}: off costs {percent:.2} % instructions"));
            }
            cells[1] = short(off.0);
            cells[2] = format!("{ratio:.4}");
        }
        let [on, off, out] = cells;
        table.row([workload.to_owned(), on, off, out]);
    }
    println!("{}", table.text());
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    if dear.is_empty() {
        return Ok(());
    }
    Err(format!("more than it may: {}", dear.join("; ")))
}

/// The process that valgrind looks at: `args` are a workload and how often it is done.
///
/// # Errors
/// The library refuses.
pub fn run_work(args: &[String]) -> Result<(), String> {
    let [workload, count] = args else {
        return Err("a workload and a number".to_owned());
    };
    let count: u64 = count.parse().map_err(|_| "a workload and a number")?;
    let mut work = Work::new(workload)?;
    (0..count).try_for_each(|_| work.step())
}

/// The median of the ratios of neighbouring slices, and its spread.
fn on_against_off(workload: &str, pairs: u32) -> Result<(f64, f64), String> {
    if let Some(&core) = allowed_cores().first() {
        pin(core).map_err(|error| format!("core {core}: {error}"))?;
    }
    let mut work = Work::new(workload)?;
    let mut slice = |on: bool| {
        if on && !profile::start(Sampling::Adaptive) {
            return Err("this build has no lock profile".to_owned());
        }
        // Warm: on, the thread finds out how busy it is, which takes it some draws.
        let time = work
            .time_of(SLICE_NS / 2)
            .and_then(|_| work.time_of(SLICE_NS));
        profile::stop();
        time
    };
    slice(false)?;
    let mut ratios = Vec::new();
    for pair in 0..pairs {
        // Who comes first changes, so that what the machine does over time falls on both.
        let first_on = pair % 2 == 0;
        let (first, second) = (slice(first_on)?, slice(!first_on)?);
        ratios.push(if first_on {
            first / second
        } else {
            second / first
        });
    }
    Ok(median(&mut ratios))
}

/// Instructions for one operation with the profile off, and without one: median, spread, runs.
type Counted = (f64, f64, u32);

fn instructions(workload: &str, without: &Path, runs: u32) -> Result<(Counted, Counted), String> {
    let with = std::env::current_exe().map_err(|error| error.to_string())?;
    let (mut off, mut out) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        for (program, counts) in [(&*with, &mut off), (without, &mut out)] {
            beat();
            let few = counted(program, workload, FEW)?;
            let many = counted(program, workload, FEW + MANY)?;
            counts.push((many - few) / MANY as f64);
        }
    }
    let of = |counts: &mut Vec<f64>| {
        let (value, spread) = median(counts);
        (value, spread, runs)
    };
    Ok((of(&mut off), of(&mut out)))
}

/// Instructions of a whole run.
fn counted(program: &Path, workload: &str, count: u64) -> Result<f64, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([WORK, workload, &count.to_string()]);
    let output = valgrind
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let number = text
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, number)| number.trim().parse().ok());
    match number {
        Some(number) if output.status.success() => Ok(number),
        _ => {
            let last = text.lines().last().unwrap_or_default();
            Err(format!("valgrind {} {WORK}: {last}", program.display()))
        }
    }
}

/// The program without the profile, if it and valgrind are there.
fn unprofiled() -> Result<PathBuf, String> {
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    if !has_valgrind {
        return Err("valgrind is missing; 'cargo xtask install-tools' installs it".to_owned());
    }
    let program = std::env::var_os(UNPROFILED).map(PathBuf::from);
    program
        .filter(|program| program.is_file())
        .ok_or_else(|| format!("{UNPROFILED} names no program; use 'cargo xtask bench locks'"))
}

/// One operation, over and over, on a volume of its own.
struct Work {
    process: Process,
    workload: usize,
    /// Many, made and to be made: names hash to another place in every process, and where one lies
    /// is more than the profile may cost.
    files: Vec<String>,
    new: Vec<String>,
    file: i32,
    buffer: Vec<u8>,
    turn: u64,
}

/// Always the same: what is counted must not depend on the time, and valgrind has no clock that
/// every library finds.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Time {
        Time { sec: 1, nsec: 0 }
    }
}

impl Work {
    fn new(workload: &str) -> Result<Work, String> {
        let known = WORKLOADS.iter().position(|name| *name == workload);
        let workload = known.ok_or_else(|| format!("no workload '{workload}'"))?;
        let names = |kind| (0..FILES).map(move |number| format!("/dir/{kind}-{number}"));
        let files: Vec<String> = names("file").collect();
        let make = || {
            let process = Volume::builder()
                .clock(Stopped)
                .build()?
                .process(Credentials::root());
            process.mkdir("/dir", 0o755)?;
            for path in &files {
                let file = process.open(path, libc::O_CREAT | libc::O_RDWR, 0o644)?;
                process.write(file, &[7; 4 * BLOCK])?;
                process.close(file)?;
            }
            let file = process.open(&files[7], libc::O_RDWR, 0)?;
            Ok((process, file))
        };
        let (process, file) = make().map_err(|errno: Errno| errno.to_string())?;
        Ok(Work {
            process,
            workload,
            files,
            new: names("new").collect(),
            file,
            buffer: vec![9; BLOCK],
            turn: 0,
        })
    }

    fn step(&mut self) -> Result<(), String> {
        self.operation().map_err(|errno| errno.to_string())
    }

    #[inline]
    fn operation(&mut self) -> Result<(), Errno> {
        let at = self.turn % 4 * BLOCK as u64;
        let turn = self.turn as usize % FILES;
        self.turn += 1;
        match self.workload {
            0 => {
                let file = self.process.open(&self.files[turn], libc::O_RDONLY, 0)?;
                self.process.close(file)
            }
            1 => self.process.stat(&self.files[turn]).map(drop),
            2 => {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
                let name = &self.new[turn];
                let file = self.process.open(name, flags, 0o644)?;
                self.process.close(file)?;
                self.process.unlink(name)
            }
            3 => self
                .process
                .pread(self.file, &mut self.buffer, at)
                .map(drop),
            _ => self.process.pwrite(self.file, &self.buffer, at).map(drop),
        }
    }

    /// Processor time of one operation in nanoseconds, over `length` of it.
    fn time_of(&mut self, length: u64) -> Result<f64, String> {
        let (begin, mut steps) = (of_thread(), 0);
        loop {
            for _ in 0..256 {
                self.step()?;
            }
            steps += 256;
            let passed = (of_thread() - begin).as_nanos() as u64;
            if passed >= length {
                return Ok(passed as f64 / f64::from(steps));
            }
        }
    }
}

const BLOCK: usize = 4096;
const FILES: usize = 256;
