//! SDET: scripts of N users at once, on the mount and on what it is compared with.
//!
//! A script is one user's work: real commands over a home tree of the user's own, the same ones for
//! all, in an order of the user's own (`docs/benchmarks/sdet.txt`). The value is scripts per hour.

mod crowd;
mod figures;
mod home;
mod lock_table;
mod script;

use super::Report;
use crate::options::Options;
use crate::patience::beat;
use crate::seeds::contender::Contender;
use crate::seeds::grid::Grid;
use crowd::{Crowd, Took};
use script::Multiset;
use std::path::Path;

/// The name in rows.
const WORKLOAD: &str = "sdet";
/// What is compared: the mount first, then what it is measured by.
const TARGETS: [&str; 3] = ["mount", "tmpfs", "ext4"];
/// Scripts at once.
const COUNTS: [usize; 22] = [
    1, 2, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 175, 200, 250,
];
/// Scripts at once while locks are watched, as in the seed.
const LOCKS_AT: usize = 175;

/// What a run is made of.
struct Plan {
    set: Multiset,
    counts: Vec<usize>,
    /// How often everything is measured.
    rounds: usize,
    locks_at: usize,
}

/// Scripts per hour, and per second of processor time.
#[derive(Default)]
struct Rates {
    per_hour: Grid,
    per_cpu: Grid,
}

/// Runs the benchmark.
///
/// # Errors
/// There is no mount, or a script fails.
pub fn run(options: &Options) -> Result<Report, String> {
    let plan = Plan::new(options)?;
    let contenders = contenders()?;
    println!(
        "sdet: scripts of {} commands each, medians of {} rounds; ext4 is one on a loop device\n",
        plan.set.steps(),
        plan.rounds
    );
    announce(&plan, &contenders)?;
    let mut rates = Rates::default();
    for round in 0..plan.rounds {
        for &count in &plan.counts {
            // Who goes first changes, so that nobody always has what the one before left.
            for turn in 0..contenders.len() * repeats(count) {
                let contender = &contenders[(round + turn) % contenders.len()];
                let took = one(contender, &plan.set, count)?;
                rates.add(&contender.name, count, took);
            }
        }
        eprintln!("measured: sdet, round {} of {}", round + 1, plan.rounds);
    }
    let report = figures::report(&plan, &contenders, &rates, options.json.as_deref())?;
    if let Some(mount) = contenders.iter().find(|one| one.daemon().is_some()) {
        let directory = mount.directory().unwrap_or(Path::new("/"));
        let crowd = Crowd::new(directory, &plan.set, plan.locks_at)?;
        let profile = lock_table::record(directory, || crowd.run(mount.daemon()).map(drop))?;
        println!(
            "Locks of the daemon at {} scripts\n\n{profile}",
            plan.locks_at
        );
    }
    Ok(report)
}

impl Plan {
    fn new(options: &Options) -> Result<Plan, String> {
        let quick = options.quick;
        let mut set = Multiset::published(quick)?;
        let missing = set.leave_out(script::is_installed);
        if !missing.is_empty() {
            println!(
                "without {}: not installed ('cargo xtask install-tools' installs them); figures of \
                 another script do not compare",
                missing.join(", ")
            );
        }
        let counts = match quick {
            true => vec![1, 4, 16],
            false => COUNTS.to_vec(),
        };
        Ok(Plan {
            set,
            locks_at: if quick { 16 } else { LOCKS_AT },
            counts,
            rounds: options.rounds.unwrap_or(if quick { 2 } else { 3 }),
        })
    }
}

impl Rates {
    fn add(&mut self, target: &str, count: usize, took: Took) {
        let scripts = count as f64;
        let per_hour = scripts * 3600.0 / took.seconds;
        self.per_hour.push(WORKLOAD, target, count, per_hour);
        self.per_cpu
            .push(WORKLOAD, target, count, scripts / took.cpu);
    }
}

/// The mount must be there; what it is compared with may be missing.
fn contenders() -> Result<Vec<Contender>, String> {
    let mut all = vec![Contender::new(TARGETS[0])?];
    for name in &TARGETS[1..] {
        match Contender::new(name) {
            Ok(contender) => all.push(contender),
            Err(what) => println!("without {name}: {what}"),
        }
    }
    Ok(all)
}

/// One script on each, which also brings the programs into the kernel's cache; then how long
/// everything will take.
fn announce(plan: &Plan, contenders: &[Contender]) -> Result<(), String> {
    let cores = crate::pinned::allowed_cores().len();
    let scripts = |&count: &usize| count.max(cores) * repeats(count);
    let scripts: usize = plan.counts.iter().map(scripts).sum();
    let mut seconds = 0.0;
    for contender in contenders {
        one(contender, &plan.set, cores)?;
        let took = one(contender, &plan.set, cores)?;
        // Making the homes and removing them takes about a third of a run more.
        seconds += 1.3 * took.seconds * scripts as f64 / cores as f64;
    }
    let minutes = (seconds * plan.rounds as f64 / 60.0).ceil();
    println!("this takes about {minutes} min\n");
    Ok(())
}

/// Runs of a cell in a round: one script alone is over in a third of a second.
fn repeats(count: usize) -> usize {
    (8 / count).clamp(1, 4)
}

fn one(contender: &Contender, set: &Multiset, count: usize) -> Result<Took, String> {
    let named = |what| format!("{}, {count} scripts: {what}", contender.name);
    let place = contender.directory().ok_or("not a directory");
    let place = place.map_err(|what| named(what.to_owned()))?;
    beat();
    let crowd = Crowd::new(place, set, count).map_err(named)?;
    crowd.run(contender.daemon()).map_err(named)
}
