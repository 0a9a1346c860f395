//! `hearth-bench mount`: Hearth mounted, against tmpfs, ext4 and a peer on the same core.
//!
//! The peer is the example `fuser_peer` of `hearth-fuse`: the same volume behind the crate `fuser`.
//! Two groups: nothing cached by the kernel (timeouts of 0, no page cache), and the defaults. Every
//! run has a fresh mount, served by a process of its own. What is asked is decided by the ratios of
//! runs that were made one after the other; a cell in whose interval it lies is measured again.

mod requirement;

use crate::activity::Activity;
use crate::cell::Cell;
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
use requirement::{asks, verdict};
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

    let uncached = uncached();
    if !uncached.iter().any(|one| one.name == "fuser") {
        eprintln!("no example fuser_peer beside this program: measured without the peer");
    }
    let mut cells = compare(&uncached, &workloads, &tasks, effort, is_decided)?;
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
        let between = |contestant: &Each<'_>| {
            let mounted = (contestant.make)()?;
            let seconds = sessions::compute_and_open(mounted.directory());
            beat();
            seconds.map_err(|what| format!("{}: {what}", contestant.name))
        };
        let runs = effort.runs.min(5);
        let cell = |name: &str, all: &[Each<'_>], run| {
            rounds((name.to_owned(), 1), all, runs, run, &is_decided)
        };
        let sessions = sessions::contestants();
        println!("Checkout of 7,000 files\n");
        let git = cell(CHECKOUT, &defaults, &run)?;
        keep(std::slice::from_ref(&git), SECONDS, "tmpfs");
        println!("Checkout of 7,000 files, nothing cached\n");
        let bare = cell(CHECKOUT_UNCACHED, &uncached, &run)?;
        keep(std::slice::from_ref(&bare), SECONDS, "fuser");
        println!("The daemon in a session of its own\n");
        let apart = [
            cell(sessions::APART, &sessions, &run)?,
            cell(sessions::BESIDE, &sessions, &beside)?,
            cell(sessions::BETWEEN, &sessions, &between)?,
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

fn uncached<'a>() -> Vec<Each<'a>> {
    let mut all = vec![
        hearth(
            "mount-uring-uncached",
            format!("transport=uring,{UNCACHED}"),
        ),
        hearth("mount-dev-uncached", format!("transport=dev,{UNCACHED}")),
    ];
    all.extend(peer("fuser", UNCACHED));
    all
}

fn defaults<'a>() -> Vec<Each<'a>> {
    let mut all = vec![
        hearth("mount-uring", "transport=uring".into()),
        hearth("mount-dev", "transport=dev".into()),
        hearth("mount-uring-no-open", format!("transport=uring,{NO_OPEN}")),
        hearth("mount-dev-no-open", format!("transport=dev,{NO_OPEN}")),
        Contestant {
            name: "tmpfs",
            make: Box::new(Mounted::tmpfs),
        },
        Contestant {
            name: "ext4",
            make: Box::new(Mounted::ext4),
        },
    ];
    all.extend(peer("fuser-defaults", ""));
    all
}

/// The peer with these options, if it was built.
fn peer<'a>(name: &'a str, options: &'a str) -> Option<Each<'a>> {
    let program = example("fuser_peer")?;
    let make = move || {
        Mounted::served(name, &|mountpoint| {
            let mut daemon = Command::new(&program);
            daemon.arg(mountpoint);
            if !options.is_empty() {
                daemon.args(["-o", options]);
            }
            // It complains of every end that it did not bring about itself.
            daemon.stderr(Stdio::null());
            daemon
        })
    };
    Some(Contestant {
        name,
        make: Box::new(make),
    })
}

const CHECKOUT: &str = "git checkout";
/// The same where the kernel keeps nothing; nothing is asked of it.
const CHECKOUT_UNCACHED: &str = "git checkout, nothing cached";
const SECONDS: (&str, &str) = ("seconds", "s");

/// Seconds of a checkout on a fresh mount.
fn checkout(repository: &Checkout, contestant: &Each<'_>) -> Result<f64, String> {
    let mounted = (contestant.make)()?;
    let seconds = repository.run(&mounted.directory().join("clone"));
    beat();
    seconds.map_err(|what| format!("{}: {what}", contestant.name))
}
