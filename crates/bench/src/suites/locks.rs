//! `hearth-bench locks`: what the lock profile costs, on and off.
//!
//! On against off is time: slices of the same work alternate within one thread, a ratio for each
//! neighbouring pair, counted in the thread's own processor time so that other programs do not
//! count. Off against compiled out is instructions, which valgrind counts the same every time: two
//! builds of this program do the same work.

use crate::ask::Ask;
use crate::callgrind::{counted, totals_of};
use crate::cells;
use crate::cpu_time::of_thread;
use crate::failure::Context;
use crate::loops::{self, LoopFixture, Operation};
use crate::options::Options;
use crate::pinned::pin_first;
use crate::report::Report;
use crate::stats::{Pair, Side};
use crate::table::{Table, short, width};
use crate::valgrind;
use crate::watchdog::beat;
use hearth::{Clock, Errno, Time, Volume};
use hearth_sync::profile::{self, Sampling};
use std::ops::Range;
use std::path::PathBuf;

/// The verb by which this program does the work that valgrind counts.
pub const WORK: &str = "locks-work";
/// The build without the profile.
const UNPROFILED: &str = "HEARTH_BENCH_UNPROFILED";
/// What on may cost, and what off may.
const ON_MAX: f64 = 1.03;
const OFF_MAX: f64 = 1.005;
/// Processor time of one slice.
const SLICE_NS: u64 = 10_000_000;
/// Operations that are counted, and those before.
const MANY: usize = 8_000;
const FEW: usize = 2_000;
/// Many: where a name lies in its table is more than the profile may cost.
const FILES: usize = 256;

const WORKLOADS: [(&str, Operation<FILES>); 5] = [
    ("open/close", loops::open_close),
    ("stat", loops::stat),
    ("create/unlink", loops::create_unlink),
    ("read 4 KiB", loops::read_page),
    ("write 4 KiB", loops::write_page),
];

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let (pairs, counts) = options.pick((30, 3), (200, 7));
    let unprofiled = unprofiled();
    if let Err(why) = &unprofiled {
        eprintln!("hearth-bench locks: {why}; the column 'off / compiled out' stays empty");
    }
    let program = std::env::current_exe().text()?;
    let heading = [
        "operation",
        "on / off",
        "instructions, off",
        "off / compiled out",
    ];
    let mut table = Table::new(heading);
    for (name, operation) in WORKLOADS
        .into_iter()
        .filter(|(name, _)| options.wants(name))
    {
        beat();
        let ratios = on_against_off(operation, pairs)?;
        let (on, half) = report.add((name, "lib", 1), ("time_on_over_off", "1"), &ratios);
        report.asks.push(Ask::at_most(
            format!("{name}: time, on / off"),
            ON_MAX,
            &[on],
        ));
        let mut cells = cells![name, format!("{on:.3} ±{}", width(half, 3)), "-", "-"];
        if let Ok(without) = &unprofiled {
            let metric = ("instructions_per_op", "1");
            let mut sides = [Vec::new(), Vec::new()];
            for _ in 0..counts {
                for (program, counts) in [&program, without].into_iter().zip(&mut sides) {
                    beat();
                    let args = [WORK, name].map(str::to_owned);
                    let total = totals_of(program, &args, 1)?[0];
                    counts.push(total as f64 / MANY as f64);
                }
            }
            let (off, _) = report.add((name, "lib", 1), metric, &sides[0]);
            let (out, _) = report.add((name, "lib-unprofiled", 1), metric, &sides[1]);
            let ratio = off / out;
            report.add_exact((name, "lib", 1), ("instructions_off_over_out", "1"), ratio);
            let what = format!("{name}: instructions, off / compiled out");
            report.asks.push(Ask::at_most(what, OFF_MAX, &[ratio]));
            cells[2] = short(off);
            cells[3] = format!("{ratio:.4}");
        }
        table.row(cells);
    }
    println!("{}", table.text());
    Ok(())
}

/// The process that valgrind looks at: `args` are a workload.
pub fn run_work(args: &[String]) -> Result<(), String> {
    let named = |(name, _): &&(&str, _)| args.first().is_some_and(|arg| arg == name);
    let (name, operation) = WORKLOADS.iter().find(named).ok_or("which workload?")?;
    let on = fixture().context(name)?;
    let run = |turns: Range<usize>| turns.into_iter().try_for_each(|turn| operation(&on, turn));
    run(0..FEW).context(name)?;
    counted(&mut || run(FEW..FEW + MANY).context(name))
}

/// The time stands still: what is counted must not depend on it, and valgrind has no clock that
/// every library finds.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Time {
        Time { sec: 1, nsec: 0 }
    }
}

fn fixture() -> Result<LoopFixture<FILES>, Errno> {
    LoopFixture::new(&Volume::builder().clock(Stopped).build()?, loops::PAGE)
}

/// The ratios of neighbouring slices.
fn on_against_off(operation: Operation<FILES>, pairs: u32) -> Result<Vec<f64>, String> {
    pin_first()?;
    let on = fixture().text()?;
    let mut turn = 0;
    // Processor time of one operation in nanoseconds, over `length` of it.
    let mut time_of = |length| {
        let (begin, mut steps) = (of_thread(), 0);
        loop {
            (turn..turn + 256).try_for_each(|turn| operation(&on, turn))?;
            (turn, steps) = (turn + 256, steps + 256);
            let passed = (of_thread() - begin).as_nanos() as u64;
            if passed >= length {
                return Ok::<f64, Errno>(passed as f64 / f64::from(steps));
            }
        }
    };
    let mut slice = |side| {
        if side == Side::With && !profile::start(Sampling::Adaptive) {
            return Err("this build has no lock profile".to_owned());
        }
        // Warm: on, the thread finds out how busy it is, which takes it some draws.
        let time = time_of(SLICE_NS / 2).and_then(|_| time_of(SLICE_NS));
        profile::stop();
        time.text()
    };
    slice(Side::Without)?;
    let mut times = Pair::default();
    for pair in 0..pairs {
        for side in Side::both(pair) {
            times.push(side, slice(side)?);
        }
    }
    Ok(times.ratios())
}

/// The program without the profile, if it and valgrind are there.
fn unprofiled() -> Result<PathBuf, String> {
    valgrind::look()?;
    let program = std::env::var_os(UNPROFILED).map(PathBuf::from);
    let program = program.filter(|program| program.is_file());
    program.ok_or_else(|| format!("{UNPROFILED} names no program; use 'cargo xtask bench locks'"))
}
