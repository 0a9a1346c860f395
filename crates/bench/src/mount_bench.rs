//! `hearth-bench mount`: Hearth mounted, against tmpfs, ext4 and a peer on the same core.
//!
//! The peer is the example `fuser_peer` of `hearth-fuse`: the same volume behind the crate `fuser`.
//! Two groups: nothing cached by the kernel (timeouts of 0, no page cache), and the defaults. Every
//! run has a fresh mount, served by a process of its own. What is asked is decided by the ratios of
//! runs that were made one after the other; a cell in whose interval it lies is measured again.

use crate::activity::Activity;
use crate::cell::{Cell, Standing};
use crate::compare::{Contestant, compare, rounds, table};
use crate::daemons::{Each, example, hearth};
use crate::git_checkout::Checkout;
use crate::measure::Effort;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::patience::beat;
use crate::row::{PER_SECOND, Row, write_json};
use crate::sessions::{self, Computing};
use crate::workload::Workload;
use std::process::{Command, Stdio};

/// Directories of 100 files that are checked out.
const DIRECTORIES: usize = 70;
/// Options of a mount that lets the kernel keep nothing.
pub const UNCACHED: &str =
    "entry_timeout=0,attr_timeout=0,negative_timeout=0,no_writeback,direct_io";
/// Options that do without telling the daemon of opens, for whoever needs no locks between the
/// mount and the library.
const NO_OPEN: &str = "no_open,no_opendir,no_flush";

/// Runs the benchmark and prints its tables.
///
/// # Errors
/// A target cannot be mounted or refuses, or a requirement is not met.
pub fn run(options: &Options) -> Result<(), String> {
    let effort = Effort::new(options.quick);
    let tasks = [1, 2];
    let workloads: Vec<Workload> = Workload::ALL
        .into_iter()
        .filter(|w| options.wants(&w.name()))
        .collect();

    // A first look decides nothing.
    let is_decided = |cell: &Cell| options.quick || asks(cell).all(|ask| ask.1.is_decided());
    let mut rows = Vec::new();
    let mut keep = |cells: &[Cell], measure, base| {
        let of_these = cells.iter().flat_map(|cell| cell.rows("mount", measure));
        let of_these: Vec<Row> = of_these.collect();
        println!("{}", table(&of_these, &[base]));
        rows.extend(of_these);
    };

    let mut cells = compare(&uncached(), &workloads, &tasks, effort, is_decided)?;
    println!("Nothing cached\n");
    keep(&cells, PER_SECOND, "fuser");

    let defaults = defaults();
    let cached = compare(&defaults, &workloads, &tasks, effort, is_decided)?;
    println!("Defaults\n");
    keep(&cached, PER_SECOND, "tmpfs");
    cells.extend(cached);

    if options.wants(CHECKOUT) {
        let repository = Checkout::new(DIRECTORIES)?;
        let run = |contestant: &Each<'_>| checkout(&repository, contestant);
        let beside = |contestant: &Each<'_>| {
            let _programs = Computing::start()?;
            checkout(&repository, contestant)
        };
        let runs = effort.runs.min(5);
        let cell = |name: &str, all: &[Each<'_>], run| {
            rounds((name.to_owned(), 1), all, runs, run, &is_decided)
        };
        let sessions = sessions::contestants();
        println!("Checkout of 7,000 files\n");
        let git = cell(CHECKOUT, &defaults, &run)?;
        keep(std::slice::from_ref(&git), SECONDS, "tmpfs");
        println!("Checkout of 7,000 files, the daemon in a session of its own\n");
        let apart = [
            cell(sessions::APART, &sessions, &run)?,
            cell(sessions::BESIDE, &sessions, &beside)?,
        ];
        keep(&apart, SECONDS, "tmpfs");
        cells.push(git);
        cells.extend(apart);
    }
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    verdict(&cells, options.quick)
}

/// Prints how everything stands. A first look decides nothing.
fn verdict(cells: &[Cell], is_quick: bool) -> Result<(), String> {
    let of = |standing| {
        let asks = cells.iter().flat_map(asks);
        let lines = asks.filter(|ask| ask.1 == standing).map(|ask| ask.0);
        lines.collect::<Vec<_>>()
    };
    println!("{} requirements are met", of(Standing::Met).len());
    let mut failed = Vec::new();
    for (standing, words) in [
        (Standing::Likely, "met by the median, not by its interval"),
        (
            Standing::Unlikely,
            "not met by the median, undecided by its interval",
        ),
        (Standing::Missed, "missed"),
    ] {
        let lines = of(standing);
        if lines.is_empty() {
            continue;
        }
        println!("{words}:\n  {}", lines.join("\n  "));
        if standing != Standing::Likely {
            failed.push(format!("{} {words}", lines.len()));
        }
    }
    match failed.is_empty() || is_quick {
        true => Ok(()),
        false => Err(format!("of what is asked, {}", failed.join("; "))),
    }
}

fn uncached<'a>() -> Vec<Each<'a>> {
    let mut all = vec![
        hearth(
            "mount-uring-uncached",
            format!("transport=uring,{UNCACHED}"),
        ),
        hearth("mount-dev-uncached", format!("transport=dev,{UNCACHED}")),
    ];
    match example("fuser_peer") {
        Some(program) => {
            let make = move || {
                Mounted::served("fuser", &|mountpoint| {
                    let mut daemon = Command::new(&program);
                    daemon.arg(mountpoint).args(["-o", UNCACHED]);
                    // It complains of every end that it did not bring about itself.
                    daemon.stderr(Stdio::null());
                    daemon
                })
            };
            all.push(Contestant {
                name: "fuser",
                make: Box::new(make),
            });
        }
        None => eprintln!("no example fuser_peer beside this program: measured without the peer"),
    }
    all
}

fn defaults<'a>() -> Vec<Each<'a>> {
    vec![
        hearth("mount-uring", "transport=uring".into()),
        hearth("mount-dev", "transport=dev".into()),
        hearth("mount-uring-no-open", format!("transport=uring,{NO_OPEN}")),
        Contestant {
            name: "tmpfs",
            make: Box::new(Mounted::tmpfs),
        },
        Contestant {
            name: "ext4",
            make: Box::new(Mounted::ext4),
        },
    ]
}

const CHECKOUT: &str = "git checkout";
const SECONDS: (&str, &str) = ("seconds", "s");

/// Seconds of a checkout on a fresh mount.
fn checkout(repository: &Checkout, contestant: &Each<'_>) -> Result<f64, String> {
    let mounted = (contestant.make)()?;
    let seconds = repository.run(&mounted.directory().join("clone"));
    beat();
    seconds.map_err(|what| format!("{}: {what}", contestant.name))
}

/// Target, against which other, at least this share of it (at most, for seconds).
struct Requirement {
    target: &'static str,
    base: &'static str,
    share: f64,
    rows: Rows,
}

enum Rows {
    Metadata,
    Data,
    One(Workload),
    Checkout,
}

const REQUIREMENTS: &[Requirement] = &[
    needs("mount-uring-uncached", "fuser", 1.3, Rows::Metadata),
    needs("mount-dev-uncached", "fuser", 1.0, Rows::Metadata),
    needs("mount-uring-uncached", "fuser", 1.0, Rows::Data),
    needs("mount-dev-uncached", "fuser", 1.0, Rows::Data),
    needs("mount-uring", "tmpfs", 0.7, Rows::One(Workload::Stat)),
    needs("mount-uring", "tmpfs", 1.0, Rows::One(Workload::Missing)),
    needs(
        "mount-uring",
        "tmpfs",
        0.4,
        Rows::One(Workload::Write(4 << 10)),
    ),
    needs(
        "mount-uring-no-open",
        "tmpfs",
        0.5,
        Rows::One(Workload::OpenClose),
    ),
    needs("mount-uring", "tmpfs", 4.0, Rows::Checkout),
    // The default where the kernel's FUSE has no io_uring, or has it switched off.
    needs("mount-dev", "tmpfs", 4.0, Rows::Checkout),
    // As `hearth mount` starts its daemon.
    needs("uring-session", "tmpfs", 4.0, Rows::Checkout),
    needs("dev-session", "tmpfs", 4.0, Rows::Checkout),
];

const fn needs(target: &'static str, base: &'static str, share: f64, rows: Rows) -> Requirement {
    Requirement {
        target,
        base,
        share,
        rows,
    }
}

/// What is asked of a cell, in words, and how that stands.
fn asks(cell: &Cell) -> impl Iterator<Item = (String, Standing)> {
    let asked = |need: &'static Requirement| {
        if !need.covers(&cell.workload) {
            return None;
        }
        let ratio = cell.ratio(need.target, need.base)?;
        let standing = match need.rows {
            Rows::Checkout => Standing::at_most(ratio, need.share),
            _ => Standing::at_least(ratio, need.share),
        };
        let text = format!(
            "{} x{}: {} is {:.2} of {} ({:.2} to {:.2}), wanted {}",
            cell.workload,
            cell.tasks,
            need.target,
            ratio[1],
            need.base,
            ratio[0],
            ratio[2],
            need.share
        );
        Some((text, standing))
    };
    REQUIREMENTS.iter().filter_map(asked)
}

impl Requirement {
    fn covers(&self, workload: &str) -> bool {
        let named = |wanted: &dyn Fn(Workload) -> bool| {
            Workload::ALL
                .into_iter()
                .any(|w| w.name() == workload && wanted(w))
        };
        match self.rows {
            Rows::Metadata => named(&Workload::is_metadata),
            Rows::Data => named(&|w| !w.is_metadata()),
            Rows::One(one) => named(&|w| w == one),
            Rows::Checkout => [CHECKOUT, sessions::APART].contains(&workload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a target and of another one that always comes to 100.
    fn standings(workload: &str, names: [&str; 2], rounds: &[f64]) -> Vec<Standing> {
        let mut cell = Cell::new(workload.into(), 1, names.into_iter());
        for &round in rounds {
            cell.push(0, round);
            cell.push(1, 100.0);
        }
        asks(&cell).map(|ask| ask.1).collect()
    }

    #[test]
    fn a_row_that_is_too_slow_is_missed_and_one_that_may_be_is_open() {
        let of = |rounds| standings("stat", ["mount-uring", "tmpfs"], rounds);
        assert_eq!(of(&[60.0, 61.0, 62.0]), [Standing::Missed]);
        assert_eq!(of(&[60.0, 71.0, 80.0]), [Standing::Likely]);
        assert_eq!(of(&[71.0, 72.0, 73.0]), [Standing::Met]);
    }

    #[test]
    fn a_checkout_may_take_four_times_as_long() {
        let of = |rounds| standings("git checkout", ["mount-dev", "tmpfs"], rounds);
        assert_eq!(of(&[380.0, 385.0, 390.0]), [Standing::Met]);
        assert_eq!(of(&[380.0, 385.0, 420.0]), [Standing::Likely]);
        assert_eq!(of(&[410.0, 415.0, 420.0]), [Standing::Missed]);
    }

    #[test]
    fn every_row_without_caches_is_asked_for_on_both_transports() {
        for workload in Workload::ALL {
            for target in ["mount-uring-uncached", "mount-dev-uncached"] {
                let asks = standings(&workload.name(), [target, "fuser"], &[200.0]);
                assert_eq!(asks, [Standing::Met], "{}", workload.name());
            }
        }
    }
}
