//! `hearth-bench lib`: the library in process against system calls on the kernel's tmpfs.
//! `hearth-bench mount`: Hearth mounted, against tmpfs, ext4 and a peer on the same core.
//!
//! Mounts are measured in two groups: nothing cached by the kernel (timeouts of 0, no page cache),
//! and the defaults. Every run has a fresh mount, served by a process of its own. What is asked is
//! decided by the ratios of runs that were made one after the other; a workload in whose interval
//! it lies is measured again.

use crate::ask::Ask;
use crate::contender::{Contender, names};
use crate::git_checkout::{Checkout, compute_and_open, compute_on_all_cores};
use crate::mounted::Mounted;
use crate::options::Options;
use crate::pinned::allowed_cores;
use crate::report::{Report, table};
use crate::row::{OPS_PER_SECOND, SECONDS};
use crate::runner::Effort;
use crate::script::Script;
use crate::stats::Metric;
use crate::stats::{Grid, Samples};
use crate::watchdog::beat;
use crate::workloads::BASIC;
use std::path::Path;
use std::time::Duration;

/// Numbers of tasks.
pub const TASKS: [usize; 2] = [1, 2];
/// Directories of 100 files that are checked out.
const DIRECTORIES: usize = 70;

const CHECKOUT: &str = "git checkout";
const CHECKOUT_UNCACHED: &str = "git checkout, nothing cached";
const CHECKOUT_APART: &str = "git checkout, daemon in its own session";
/// While a program computes on every core.
const CHECKOUT_BESIDE: &str = "git checkout beside programs that compute";
/// A client that computes by itself before each open.
const BETWEEN: &str = "10,000 opens, each after 0.1 ms of computing";

/// Rows of which something is asked.
enum Rows {
    /// Names and attributes, or bytes.
    Metadata,
    Data,
    One(&'static str),
    /// Seconds: at most as many times those of the base.
    Checkouts,
}

/// Targets, against which other, at least this share of it (at most, for seconds), in which rows.
type Need = (&'static [&'static str], &'static str, f64, Rows);

const OF_LIB: &[Need] = &[(
    &["lib", "lib-shared", "lib-lowest"],
    "tmpfs",
    1.0,
    Rows::Metadata,
)];

const OF_MOUNT: &[Need] = &[
    (&["mount-uring-uncached"], "fuser", 1.3, Rows::Metadata),
    (&["mount-dev-uncached"], "fuser", 1.0, Rows::Metadata),
    (
        &["mount-uring-uncached", "mount-dev-uncached"],
        "fuser",
        1.0,
        Rows::Data,
    ),
    (
        &["mount-uring", "mount-dev"],
        "tmpfs",
        0.7,
        Rows::One("stat"),
    ),
    (
        &["mount-uring", "mount-dev"],
        "tmpfs",
        1.0,
        Rows::One("stat, missing"),
    ),
    (
        &["mount-uring", "mount-dev"],
        "tmpfs",
        0.4,
        Rows::One("write 4 KiB"),
    ),
    (
        &["mount-uring-no-open", "mount-dev-no-open"],
        "tmpfs",
        0.5,
        Rows::One("open/close"),
    ),
    // `dev` is the default where the kernel's FUSE has no io_uring, or has it switched off. The
    // sessions are as `hearth mount` starts its daemon.
    (&["mount-uring", "mount-dev"], "tmpfs", 4.0, Rows::Checkouts),
    (
        &["uring-session", "dev-session"],
        "tmpfs",
        4.0,
        Rows::Checkouts,
    ),
];

/// How often and how long everything is measured.
pub fn effort(options: &Options) -> Result<Effort, String> {
    let cores = allowed_cores().len();
    match TASKS.iter().find(|&&tasks| tasks > cores) {
        Some(tasks) => Err(format!(
            "{tasks} tasks need as many cores, there are {cores}"
        )),
        None => Ok(Effort {
            run: Duration::from_millis(options.pick(60, 300)),
            runs: options.pick(3, 7),
            library_turns: 1,
        }),
    }
}

/// The library: each task a process, or threads of one with either policy of descriptors.
pub fn library(options: &Options, report: &mut Report) -> Result<(), String> {
    let mut contenders = Contender::all(&["lib", "lib-shared", "lib-lowest"], 3)?;
    contenders.push(Contender::mount("tmpfs", Mounted::tmpfs));
    let effort = effort(options)?;
    rates(&contenders, effort, report, (OF_LIB, "tmpfs"))
}

/// Mounts.
pub fn mounts(options: &Options, report: &mut Report) -> Result<(), String> {
    let effort = effort(options)?;
    let uncached = Contender::uncached_mounts();
    if !uncached.iter().any(|one| one.name == "fuser") {
        eprintln!("no example fuser_peer beside this program: measured without the peer");
    }
    println!("Nothing cached\n");
    rates(&uncached, effort, report, (OF_MOUNT, "fuser"))?;
    println!("Defaults\n");
    let defaults = Contender::default_mounts();
    rates(&defaults, effort, report, (OF_MOUNT, "tmpfs"))?;
    if !options.wants(CHECKOUT) {
        return Ok(());
    }
    let repository = Checkout::new(DIRECTORIES)?;
    let checkout = |directory: &Path| repository.run(&directory.join("clone"));
    let beside = |directory: &Path| {
        let _programs = compute_on_all_cores()?;
        checkout(directory)
    };
    let effort = Effort {
        runs: effort.runs.min(5),
        ..effort
    };
    println!("Checkout of 7,000 files\n");
    seconds(&defaults, effort, report, "tmpfs", &[(CHECKOUT, &checkout)])?;
    println!("Checkout of 7,000 files, nothing cached\n");
    seconds(
        &uncached,
        effort,
        report,
        "fuser",
        &[(CHECKOUT_UNCACHED, &checkout)],
    )?;
    println!("The daemon in a session of its own\n");
    let all: [(_, &CheckoutRun<'_>); 3] = [
        (CHECKOUT_APART, &checkout),
        (CHECKOUT_BESIDE, &beside),
        (BETWEEN, &compute_and_open),
    ];
    seconds(&Contender::session_mounts(), effort, report, "tmpfs", &all)
}

/// Measures the wanted workloads on all contenders and prints the table with ratios to `base`.
fn rates(
    contenders: &[Contender],
    effort: Effort,
    report: &mut Report,
    (needs, base): (&[Need], &str),
) -> Result<(), String> {
    let mut rates = Samples::default();
    let wanted = |script: &&Script| report.options.wants(script.name);
    for script in BASIC.iter().filter(wanted) {
        let is_decided =
            |rates: &Samples| is_decided(report, needs, rates.of(OPS_PER_SECOND), script.name);
        let workload = script.repeated();
        effort.rates(contenders, &workload, &TASKS, &mut rates, is_decided)?;
    }
    let grid = rates.of(OPS_PER_SECOND);
    keep(contenders, report, grid, OPS_PER_SECOND, (needs, base));
    Ok(())
}

/// Seconds of something in a fresh directory.
type CheckoutRun<'a> = dyn Fn(&Path) -> Result<f64, String> + 'a;

/// Measures the seconds of each run on fresh mounts.
fn seconds(
    contenders: &[Contender],
    effort: Effort,
    report: &mut Report,
    base: &str,
    runs: &[(&'static str, &CheckoutRun<'_>)],
) -> Result<(), String> {
    let mut grid = Grid::default();
    for (name, run) in runs {
        let round = |grid: &mut Grid, _| {
            contenders.iter().try_for_each(|contender| {
                let named = |what| format!("{}: {what}", contender.name);
                let mount = contender.fresh_mount().map_err(named)?;
                let seconds = run(mount.directory()).map_err(named)?;
                beat();
                grid.push(name, &contender.name, 1, seconds);
                Ok(())
            })
        };
        effort.rounds(&mut grid, round, |grid| {
            is_decided(report, OF_MOUNT, grid, name)
        })?;
    }
    keep(contenders, report, &grid, SECONDS, (OF_MOUNT, base));
    Ok(())
}

/// Keeps the rows and the asks of a grid and prints its table.
fn keep(
    contenders: &[Contender],
    report: &mut Report,
    grid: &Grid,
    metric: Metric,
    (needs, base): (&[Need], &str),
) {
    report.add_grid(grid, metric);
    let corner = match metric {
        SECONDS => "seconds, less is better",
        _ => "operations per second",
    };
    let text = table([corner, "tasks"], grid, &names(contenders), &[base], None);
    println!("{text}");
    for workload in grid.workloads() {
        report.asks.extend(asks(needs, grid, &workload));
    }
}

/// Whether more rounds would change how the asks stand. A first look decides nothing.
fn is_decided(report: &Report, needs: &[Need], grid: &Grid, workload: &str) -> bool {
    report.options.quick || !asks(needs, grid, workload).iter().any(Ask::is_open)
}

/// What is asked of a workload.
fn asks(needs: &[Need], grid: &Grid, workload: &str) -> Vec<Ask> {
    let mut asks = Vec::new();
    for (targets, base, share, rows) in needs.iter().filter(|need| need.3.cover(workload)) {
        for tasks in grid.tasks(workload) {
            let there = grid.targets(workload, tasks);
            for target in targets
                .iter()
                .filter(|one| there.iter().any(|own| own == **one))
            {
                let ratios = grid.ratios(workload, (target, tasks), (base, tasks));
                let what = format!("{workload} x{tasks}: {target} / {base}");
                let ask = match rows {
                    Rows::Checkouts => Ask::at_most(what, *share, &ratios),
                    _ => Ask::at_least(what, *share, &ratios),
                };
                asks.push(ask.strict(&ratios));
            }
        }
    }
    asks
}

impl Rows {
    fn cover(&self, workload: &str) -> bool {
        let named = |script: &&Script| script.name == workload;
        match *self {
            Rows::Metadata => BASIC
                .iter()
                .find(named)
                .is_some_and(|one| !one.moves_bytes()),
            Rows::Data => BASIC.iter().find(named).is_some_and(Script::moves_bytes),
            Rows::One(one) => one == workload,
            Rows::Checkouts => [CHECKOUT, CHECKOUT_APART].contains(&workload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Standing;

    /// Rounds of a target and of another one that always comes to 100.
    fn standings(needs: &[Need], workload: &str, names: [&str; 2], rounds: &[f64]) -> Vec<Ask> {
        let mut grid = Grid::default();
        for &round in rounds {
            grid.push(workload, names[0], 1, round);
            grid.push(workload, names[1], 1, 100.0);
        }
        asks(needs, &grid, workload)
    }

    fn standing(workload: &str, target: &str, base: &str, rounds: &[f64]) -> Standing {
        let asks = standings(OF_MOUNT, workload, [target, base], rounds);
        assert_eq!(asks.len(), 1, "{workload}, {target}");
        asks[0].standing()
    }

    #[test]
    fn a_row_that_is_too_slow_is_missed_and_one_that_may_be_is_measured_again() {
        for (rounds, due, is_open) in [
            ([60.0, 61.0, 62.0], Standing::Missed, false),
            ([60.0, 71.0, 80.0], Standing::Met, true),
            ([71.0, 72.0, 73.0], Standing::Met, false),
        ] {
            let asks = standings(OF_MOUNT, "stat", ["mount-uring", "tmpfs"], &rounds);
            assert_eq!((asks[0].standing(), asks[0].is_open()), (due, is_open));
        }
        let checkout = |seconds| standing(CHECKOUT, "mount-dev", "tmpfs", &[seconds]);
        assert_eq!(
            (checkout(400.0), checkout(401.0)),
            (Standing::Met, Standing::Missed)
        );
    }

    #[test]
    fn what_is_asked_of_one_transport_is_asked_of_the_other() {
        for workload in ["stat", "stat, missing", "write 4 KiB", "git checkout"] {
            for target in ["mount-uring", "mount-dev"] {
                assert_eq!(standing(workload, target, "tmpfs", &[100.0]), Standing::Met);
            }
        }
        for script in &BASIC {
            for target in ["mount-uring-uncached", "mount-dev-uncached"] {
                assert_eq!(
                    standing(script.name, target, "fuser", &[200.0]),
                    Standing::Met
                );
            }
            for target in ["lib", "lib-shared", "lib-lowest"] {
                let asks = standings(OF_LIB, script.name, [target, "tmpfs"], &[99.0]);
                assert_eq!(asks.iter().any(Ask::is_missed), !script.moves_bytes());
            }
        }
    }

    #[test]
    fn an_ask_without_the_other_target_fails_the_run() {
        let mut grid = Grid::default();
        grid.push("stat", "mount-uring-uncached", 1, 100.0);
        let asks = asks(OF_MOUNT, &grid, "stat");
        assert!(asks.len() == 1 && asks[0].is_missed() && asks[0].what.contains("fuser"));
    }
}
