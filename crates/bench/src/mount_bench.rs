//! `hearth-bench mount`: Hearth mounted, against tmpfs, ext4 and a peer on the same core.
//!
//! The peer is the example `fuser_peer` of `hearth-fuse`: the same volume behind the crate `fuser`.
//! Two groups: nothing cached by the kernel (timeouts of 0, no page cache), and the defaults. Every
//! run has a fresh mount, served by a process of its own.

use crate::activity::Activity;
use crate::compare::{Contestant, compare, table};
use crate::git_checkout::Checkout;
use crate::measure::Effort;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::patience::beat;
use crate::row::{Row, median, write_json};
use crate::uring_switch::switched_on;
use crate::workload::Workload;
use std::path::PathBuf;
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

    let uncached = uncached();
    let mut rows = compare("mount", &uncached, &workloads, &tasks, effort)?;
    println!("Nothing cached\n\n{}", table(&rows, &["fuser"]));

    let defaults = defaults();
    let cached = compare("mount", &defaults, &workloads, &tasks, effort)?;
    println!("Defaults\n\n{}", table(&cached, &["tmpfs"]));
    rows.extend(cached);

    if options.wants("git checkout") {
        let git = checkouts(&defaults, effort)?;
        println!("Checkout of 7,000 files\n\n{}", table(&git, &["tmpfs"]));
        rows.extend(git);
    }
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    let missed = missed(&rows);
    match missed.is_empty() {
        true => println!("every requirement is met"),
        false => return Err(format!("not met:\n  {}", missed.join("\n  "))),
    }
    Ok(())
}

type Each<'a> = Contestant<'a, Mounted>;

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

fn hearth<'a>(name: &'a str, options: String) -> Each<'a> {
    let make = move || {
        let needs_switch = options.contains("transport=uring");
        let _on = needs_switch.then(switched_on).transpose()?;
        Mounted::served(name, &|mountpoint| {
            let mut daemon = Command::new(program());
            daemon
                .args(["mount", "-f", "-o", &options, "memory:"])
                .arg(mountpoint);
            daemon
        })
    };
    Contestant {
        name,
        make: Box::new(make),
    }
}

/// The program `hearth`: `HEARTH_BIN`, or the one beside this program.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("HEARTH_BIN").map_or_else(|| beside("hearth"), PathBuf::from)
}

fn example(name: &str) -> Option<PathBuf> {
    Some(beside(&format!("examples/{name}"))).filter(|path| path.is_file())
}

fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(&own).join(name)
}

fn checkouts(contestants: &[Each<'_>], effort: Effort) -> Result<Vec<Row>, String> {
    let checkout = Checkout::new(DIRECTORIES)?;
    let runs = effort.runs.min(5);
    let mut samples = vec![Vec::new(); contestants.len()];
    for _ in 0..runs {
        for (contestant, samples) in contestants.iter().zip(&mut samples) {
            let mounted = (contestant.make)()?;
            let seconds = checkout.run(&mounted.directory().join("clone"));
            samples.push(seconds.map_err(|what| format!("{}: {what}", contestant.name))?);
            beat();
        }
    }
    let row = |(contestant, mut samples): (&Each<'_>, Vec<f64>)| {
        let (value, ci95) = median(&mut samples);
        Row {
            bench: "mount",
            workload: "git checkout".into(),
            target: contestant.name.to_owned(),
            tasks: 1,
            metric: "seconds",
            value,
            unit: "s",
            runs,
            ci95,
        }
    };
    Ok(contestants.iter().zip(samples).map(row).collect())
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
];

const fn needs(target: &'static str, base: &'static str, share: f64, rows: Rows) -> Requirement {
    Requirement {
        target,
        base,
        share,
        rows,
    }
}

/// Every row that does not meet its requirement.
fn missed(rows: &[Row]) -> Vec<String> {
    let mut missed = Vec::new();
    for need in REQUIREMENTS {
        for row in rows
            .iter()
            .filter(|row| row.target == need.target && need.covers(row))
        {
            let is_base = |r: &&Row| {
                r.target == need.base && r.workload == row.workload && r.tasks == row.tasks
            };
            let Some(base) = rows.iter().find(is_base) else {
                continue;
            };
            let ratio = row.value / base.value;
            let is_met = match need.rows {
                Rows::Checkout => ratio <= need.share,
                _ => ratio >= need.share,
            };
            if !is_met {
                missed.push(format!(
                    "{} x{}: {} is {ratio:.2} of {}, wanted {}",
                    row.workload, row.tasks, need.target, need.base, need.share
                ));
            }
        }
    }
    missed
}

impl Requirement {
    fn covers(&self, row: &Row) -> bool {
        let named = |wanted: &dyn Fn(Workload) -> bool| {
            Workload::ALL
                .into_iter()
                .any(|w| w.name() == row.workload && wanted(w))
        };
        match self.rows {
            Rows::Metadata => named(&Workload::is_metadata),
            Rows::Data => named(&|w| !w.is_metadata()),
            Rows::One(one) => named(&|w| w == one),
            Rows::Checkout => row.workload == "git checkout",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, workload: &str, value: f64) -> Row {
        Row {
            bench: "mount",
            workload: workload.into(),
            target: target.into(),
            tasks: 1,
            metric: "ops_per_s",
            value,
            unit: "1/s",
            runs: 1,
            ci95: 0.0,
        }
    }

    #[test]
    fn a_row_that_is_too_slow_is_named() {
        let rows = [
            row("mount-uring", "stat", 60.0),
            row("tmpfs", "stat", 100.0),
        ];
        assert_eq!(missed(&rows).len(), 1);
        let rows = [
            row("mount-uring", "stat", 70.0),
            row("tmpfs", "stat", 100.0),
        ];
        assert_eq!(missed(&rows), Vec::<String>::new());
    }

    #[test]
    fn a_checkout_may_take_four_times_as_long() {
        let of = |seconds| {
            [
                row("mount-uring", "git checkout", seconds),
                row("tmpfs", "git checkout", 1.0),
            ]
        };
        assert!(missed(&of(3.9)).is_empty());
        assert_eq!(missed(&of(4.1)).len(), 1);
    }
}
