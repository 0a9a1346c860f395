//! `hearth-bench store`: volumes that keep what they are given beside ext4, JuiceFS and a volume in
//! memory, all on one disk and in one run.
//!
//! The disk is an ext4 on a loop device of its own, whose statistics say what an acknowledged sync
//! costs it; a second one takes 4 ms for each flush. What is not there (a program that cannot be
//! installed, a source that this version does not know) is named and left out.

mod disk;
mod files;
mod jobs;
mod latencies;
mod library;
mod site;
mod space;
mod targets;

pub use files::{MAKE, OPEN, run as files, run_make, run_open};
pub use library::run as library;

use crate::ask::Ask;
use crate::failure::Context;
use crate::options::Options;
use crate::report::{self, Report};
use crate::row::OPS_PER_SECOND;
use crate::stats::Samples;
use crate::watchdog::{beat, patiently};
use disk::Disk;
use jobs::Chore;
use site::Site;
use std::time::Duration;
use targets::Target;

/// How long one job may take on one target.
const PATIENCE: Duration = Duration::from_secs(900);

/// A requirement: a job, a number of tasks, what it is compared with, and the least ratio.
type Threshold = (&'static str, usize, &'static str, f64);

const CHEAP: &[Threshold] = &[
    ("create", 1, "juicefs", 10.0),
    ("stat", 1, "juicefs", 10.0),
    ("open+read", 1, "juicefs", 10.0),
    ("rename", 1, "juicefs", 10.0),
    ("unlink", 1, "juicefs", 10.0),
    ("list", 1, "juicefs", 10.0),
    ("create", 1, "memory", 0.9),
    ("stat", 1, "memory", 0.9),
    ("open+read", 1, "memory", 0.9),
    ("rename", 1, "memory", 0.9),
    ("unlink", 1, "memory", 0.9),
    ("list", 1, "memory", 0.9),
    ("create+fsync 4 KiB", 1, "ext4", 1.0),
    ("create+fsync 4 KiB", 16, "ext4", 1.5),
    ("sqlite, synchronous=full", 1, "ext4", 0.5),
    ("write 256 MiB + fsync", 1, "ext4", 0.6),
    ("cold read 256 MiB", 1, "ext4", 0.7),
    ("4,000 overwrites + fsync", 1, "ext4", 1.0),
];

const SLOW: &[Threshold] = &[
    ("create+fsync 4 KiB", 1, "ext4", 1.5),
    ("create+fsync 4 KiB", 16, "ext4", 2.0),
    ("sqlite, synchronous=full", 1, "ext4", 0.9),
];

/// What an acknowledged sync may cost the disk, by tasks: flushes, and writes.
const COSTS: [(usize, f64, f64); 2] = [(1, 1.0, 2.0), (16, 0.125, f64::INFINITY)];

/// All jobs on a disk whose flushes are cheap.
pub fn cheap(options: &Options, report: &mut Report) -> Result<(), String> {
    let disk = Disk::cheap(options)?;
    let grids = run(&disk, options, jobs::ALL)?;
    report.bench = "store";
    show("flushes are cheap", &grids, report);
    ask(&grids, CHEAP, report);
    ask_costs(&grids, report);
    ask_latencies(&grids, report);
    Ok(())
}

/// The jobs that sync, on a disk that takes 4 ms for each flush.
pub fn slow(options: &Options, report: &mut Report) -> Result<(), String> {
    let disk = Disk::slow(options)?;
    let grids = run(&disk, options, jobs::SYNCS)?;
    report.bench = "store-slow";
    show("a flush takes 4 ms", &grids, report);
    ask(&grids, SLOW, report);
    Ok(())
}

/// Bytes on disk of an idle file, and bytes written for each byte given.
pub fn space(options: &Options, report: &mut Report) -> Result<(), String> {
    let mut grids = Samples::default();
    report.bench = "store-space";
    for &make in targets::ALL {
        // A disk each: what one leaves behind is not to be the others' load.
        let disk = Disk::small(options)?;
        let Some(mut target) = targets::offered(make, disk.path()) else {
            continue;
        };
        let (idle, factor) =
            space::measure(&mut target, &disk, options.quick).context(target.name)?;
        for (workload, metric, value) in [
            ("idle file of 100 bytes", space::PER_FILE, idle),
            ("churn at 80 % full", space::FACTOR, factor),
        ] {
            grids.push(metric, (workload, target.name, 1), value);
        }
        eprintln!("measured: space, {}", target.name);
    }
    show("space", &grids, report);
    println!("ext4 has 256 bytes more for each file, in tables made before.\n");
    Ok(())
}

fn run(disk: &Disk, options: &Options, jobs: &[Chore]) -> Result<Samples, String> {
    let offered = |make: &targets::MakeTarget| targets::offered(*make, disk.path());
    let mut targets: Vec<Target> = targets::ALL.iter().filter_map(offered).collect();
    let rounds = options.rounds_or(1, 5);
    let part = options.pick(8, 1) * if disk.is_slow() { 4 } else { 1 };
    let mut grids = Samples::default();
    for round in 0..rounds {
        let roots = targets.iter().map(|target| target.fresh(round));
        let roots: Vec<_> = roots.collect::<Result<_, String>>()?;
        for job in jobs {
            let mut turns: Vec<_> = targets.iter_mut().zip(&roots).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for (target, root) in turns {
                beat();
                disk.settle();
                if job.is_cold {
                    target.chill()?;
                }
                let site = Site { root, part };
                let before = disk.counts()?;
                let done = patiently(PATIENCE, || (job.run)(&site));
                let value = match done {
                    Ok(value) => value,
                    // What a peer cannot do is not what is asked here.
                    Err(what) if target.name == targets::PEER => {
                        println!("without {}, {}: {what}", target.name, job.name);
                        continue;
                    }
                    Err(what) => return Err(format!("{}, {}: {what}", target.name, job.name)),
                };
                let after = disk.counts()?.since(before);
                target.settle()?;
                let cell = (job.name, target.name, job.tasks);
                grids.push(job.metric, cell, value);
                if let (Some(syncs), Some(_)) = (job.syncs, &target.kept) {
                    let each = |count: u64| count as f64 / syncs(part) as f64;
                    grids.push(jobs::FLUSHES, cell, each(after.flushes));
                    grids.push(jobs::WRITES, cell, each(after.writes));
                }
            }
            eprintln!("measured: {} ({} of {rounds})", job.name, round + 1);
        }
        for root in roots {
            // What stays is on a disk that goes.
            let _ = std::fs::remove_dir_all(root);
        }
    }
    Ok(grids)
}

/// A table for each metric, what survives a power cut, and the rows.
fn show(title: &str, grids: &Samples, report: &mut Report) {
    for (metric, grid) in grids.iter() {
        let names = grid.known(targets::NAMES.iter().map(|(name, _)| *name));
        let survives = |_: &str| {
            let kept = targets::NAMES.iter().filter(|(name, note)| {
                names.iter().any(|there| there == name) && note.starts_with("all")
            });
            vec![kept.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")]
        };
        let columns: &[&str] = &["survives a power cut once synced"];
        let corner = format!("{}, {} ({title})", metric.0, metric.1);
        let more = Some((columns, &survives as &dyn Fn(&str) -> Vec<String>));
        println!(
            "{}",
            report::table([&corner, "tasks"], grid, &names, &["ext4"], more)
        );
    }
    report.add_samples(grids);
    println!("After a power cut there is, of what fsync acknowledged:");
    for (name, note) in targets::NAMES {
        println!("- {name}: {note}");
        let kept = f64::from(u8::from(note.starts_with("all")));
        report.add_exact(("fsync", name, 1), ("survives_power_cut", "1"), kept);
    }
    println!();
}

fn ask(samples: &Samples, wanted: &[Threshold], report: &mut Report) {
    for &(job, tasks, base, least) in wanted {
        for metric in [OPS_PER_SECOND, jobs::MIB_PER_SECOND] {
            let grid = samples.of(metric);
            let ratios = grid.ratios(job, ("store", tasks), (base, tasks));
            if !ratios.is_empty() {
                let what = format!("{job} x{tasks}: store / {base}");
                report.asks.push(Ask::at_least(what, least, &ratios));
            }
        }
    }
    let seconds = samples.of(jobs::SECONDS);
    let checkouts = seconds.ratios(jobs::CHECKOUT, ("store", 1), ("memory", 1));
    ask_at_most(
        "git checkout, time: store / memory",
        1.15,
        &checkouts,
        report,
    );
}

fn ask_costs(samples: &Samples, report: &mut Report) {
    for (tasks, flushes, writes) in COSTS {
        for (metric, most) in [(jobs::FLUSHES, flushes), (jobs::WRITES, writes)] {
            let runs = samples.of(metric).runs(jobs::CREATE_SYNC, "store", tasks);
            if most.is_finite() {
                let what = format!("{} x{tasks}: {}", jobs::CREATE_SYNC, metric.1);
                // A commit in the background may fall into a run.
                ask_at_most(&what, most * 1.05, runs, report);
            }
        }
    }
}

fn ask_latencies(samples: &Samples, report: &mut Report) {
    let of = |metric, job| samples.of(metric).runs(job, "store", 1);
    let alone = of(latencies::P99, latencies::ALONE);
    let ratios = crate::stats::ratios(of(latencies::P99, latencies::BESIDE), alone);
    let what = "p99 of a small fsync beside 1 GiB of dirty data / alone";
    ask_at_most(what, 3.0, &ratios, report);
    let creates = of(latencies::P999, latencies::CREATES);
    let what = "p99.9 of create while flushing, in microseconds";
    ask_at_most(what, 5_000.0, creates, report);
}

/// Asks it of what was measured.
fn ask_at_most(what: &str, most: f64, samples: &[f64], report: &mut Report) {
    if !samples.is_empty() {
        report.asks.push(Ask::at_most(what, most, samples));
    }
}
