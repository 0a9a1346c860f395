//! SDET: scripts of N users at once, on the mount and on what it is compared with.
//!
//! A script is one user's work: real commands over a home tree of the user's own, the same ones for
//! all, in an order of the user's own (`docs/benchmarks/sdet.txt`). The value is scripts per hour.

mod home;
mod script;
mod users;

use crate::ask::Ask;
use crate::children::Spent;
use crate::contender::Contender;
use crate::daemons::run_hearth;
use crate::failure::Context;
use crate::options::Options;
use crate::pinned::allowed_cores;
use crate::report::{Report, chart};
use crate::runner;
use crate::stats::{Grid, Metric, Samples};
use crate::table::{Table, percent};
use crate::watchdog::beat;
use script::Multiset;
use std::path::Path;
use users::Users;

const WORKLOAD: &str = "sdet";
const PER_HOUR: Metric = ("scripts_per_hour", "1/h");
const PER_CPU: Metric = ("scripts_per_cpu_s", "1/s");
/// What is compared: the mount first, then what it is measured by.
const TARGETS: [&str; 3] = ["mount", "tmpfs", "ext4"];
/// Scripts at once.
const COUNTS: [usize; 22] = [
    1, 2, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 175, 200, 250,
];
/// Scripts at once while locks are watched, as in the seed.
const LOCKS_AT: usize = 175;

/// How much of its best a target keeps with the most scripts, at least, of what it has to.
const KEPT: f64 = 0.98;

/// Runs the benchmark: scripts per hour, and per second of processor time.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
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
    let counts = options.pick(&[1, 4, 16][..], &COUNTS);
    let rounds = options.rounds_or(2, 3);
    let contenders = Contender::all(&TARGETS, 1)?;
    println!(
        "sdet: scripts of {} commands each, medians of {rounds} rounds; ext4 is one on a loop \
         device\n",
        set.steps()
    );
    announce(&set, counts, rounds, &contenders)?;
    let mut rates = Samples::default();
    let repeated = |&count: &usize| std::iter::repeat_n(count, repeats(count));
    let runs: Vec<usize> = counts.iter().flat_map(repeated).collect();
    runner::rounds(rounds, &runs, &contenders, |&count, contender, _| {
        let elapsed = one(contender, &set, count)?;
        let (cell, scripts) = ((WORKLOAD, &*contender.name, count), count as f64);
        rates.push(PER_HOUR, cell, scripts * 3600.0 / elapsed.seconds);
        rates.push(
            PER_CPU,
            cell,
            scripts / (elapsed.cpu.total() + elapsed.served),
        );
        Ok(())
    })?;
    println!("{}", table(counts, &rates));
    let by_clock = rates.of(PER_HOUR);
    let targets = by_clock.targets(WORKLOAD, counts[0]);
    let title = ("SDET", "scripts per hour");
    let chart = chart(title, (by_clock, WORKLOAD), &targets, counts);
    report.draw("sdet", &chart)?;
    report.add_samples(&rates);
    report.asks.push(ask(counts, &rates));
    if let Some(mount) = contenders.iter().find(|one| one.daemon().is_some()) {
        let directory = mount.directory().unwrap_or(Path::new("/"));
        let count = if quick { 16 } else { LOCKS_AT };
        let users = Users::new(directory, &set, count)?;
        let profile = lock_profile(directory, || users.run(mount.daemon()).map(drop))?;
        println!("Locks of the daemon at {count} scripts\n\n{profile}");
    }
    Ok(())
}

/// One script on each, which also brings the programs into the kernel's cache; then how long
/// everything will take.
fn announce(
    set: &Multiset,
    counts: &[usize],
    rounds: usize,
    contenders: &[Contender],
) -> Result<(), String> {
    let cores = allowed_cores().len();
    let scripts = |&count: &usize| count.max(cores) * repeats(count);
    let scripts: usize = counts.iter().map(scripts).sum();
    let mut seconds = 0.0;
    for contender in contenders {
        one(contender, set, cores)?;
        // Making the homes and removing them takes about a third of a run more.
        seconds += 1.3 * one(contender, set, cores)?.seconds * scripts as f64 / cores as f64;
    }
    let minutes = (seconds * rounds as f64 / 60.0).ceil();
    println!("this takes about {minutes} min\n");
    Ok(())
}

/// Runs of a cell in a round: one script alone is over in a third of a second.
fn repeats(count: usize) -> usize {
    (8 / count).clamp(1, 4)
}

fn one(contender: &Contender, set: &Multiset, count: usize) -> Result<Spent, String> {
    let named = |what| format!("{}, {count} scripts: {what}", contender.name);
    let place = contender
        .directory()
        .ok_or_else(|| named("not a directory".to_owned()))?;
    beat();
    let users = Users::new(place, set, count).map_err(named)?;
    users.run(contender.daemon()).map_err(named)
}

/// Does `work` with the lock profile of the volume at `mount` on; returns the profile's table.
fn lock_profile(mount: &Path, work: impl FnOnce() -> Result<(), String>) -> Result<String, String> {
    let switch = mount.join(".hearth/locks");
    let turn = |word: &str| std::fs::write(&switch, word).at(&switch);
    turn("on")?;
    let worked = work();
    turn("off")?;
    worked?;
    run_hearth(&["locks"], mount, &[])
}

/// Each target, and the ratio of the first one to each of the others, by the clock and by processor
/// time.
fn table(counts: &[usize], rates: &Samples) -> String {
    let [by_clock, by_cpu] = [PER_HOUR, PER_CPU].map(|metric| rates.of(metric));
    let names = by_clock.targets(WORKLOAD, counts[0]);
    let mut heading = vec!["scripts".to_owned()];
    for (n, name) in names.iter().enumerate() {
        heading.extend([format!("{name}, scripts/h"), "±".to_owned()]);
        if n > 0 {
            heading.extend([format!("{} / {name}", names[0]), "by CPU time".to_owned()]);
        }
    }
    let mut table = Table::new(heading);
    for &count in counts {
        let mut line = vec![count.to_string()];
        for (n, name) in names.iter().enumerate() {
            let Some((value, half)) = by_clock.median(WORKLOAD, name, count) else {
                continue;
            };
            line.extend([format!("{value:.1}"), percent(value, half)]);
            for grid in [by_clock, by_cpu].iter().filter(|_| n > 0) {
                let [own, other] = [&names[0], name].map(|name| rate(grid, name, count));
                let ratio = own.zip(other).map(|(own, other)| own / other);
                line.push(ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
            }
        }
        table.row(line);
    }
    table.text()
}

/// What the mount keeps of its best rate with the most scripts, by what tmpfs keeps if it is less.
fn ask(counts: &[usize], rates: &Samples) -> Ask {
    let most = counts.iter().copied().max().unwrap_or(1);
    let what = format!("sdet at {most}: share of the peak kept, by that of tmpfs if it is lower");
    let by = |grid: &Grid| {
        let other = kept(counts, grid, "tmpfs").unwrap_or(1.0);
        kept(counts, grid, "mount").map(|own| own / other.min(1.0))
    };
    let ask = Ask::at_least(what, KEPT, by(rates.of(PER_HOUR)).as_slice());
    ask.by_cpu(by(rates.of(PER_CPU)).as_slice())
}

fn kept(counts: &[usize], rates: &Grid, name: &str) -> Option<f64> {
    let all: Option<Vec<f64>> = counts.iter().map(|&n| rate(rates, name, n)).collect();
    let all = all?;
    Some(all.last()? / all.iter().copied().fold(0.0, f64::max))
}

fn rate(rates: &Grid, name: &str, count: usize) -> Option<f64> {
    rates.median(WORKLOAD, name, count).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    const COUNTS: [usize; 3] = [1, 10, 250];

    fn push(rates: &mut Samples, metric: Metric, mount: [f64; 3], tmpfs: [f64; 3]) {
        for (n, &count) in COUNTS.iter().enumerate() {
            rates.push(metric, (WORKLOAD, "mount", count), mount[n]);
            rates.push(metric, (WORKLOAD, "tmpfs", count), tmpfs[n]);
        }
    }

    #[test]
    fn what_is_kept_is_judged_by_the_lower_of_the_peak_and_tmpfs() {
        let kept = |mount, tmpfs| {
            let mut rates = Samples::default();
            push(&mut rates, PER_HOUR, mount, tmpfs);
            ask(&COUNTS, &rates).got.unwrap()
        };
        assert_eq!(kept([1.0, 4.0, 3.0], [1.0, 2.0, 2.0]), 0.75);
        assert_eq!(kept([1.0, 4.0, 3.0], [1.0, 4.0, 2.0]), 1.5);
    }

    #[test]
    fn the_table_has_the_ratio_at_each_number_of_scripts() {
        let mut rates = Samples::default();
        push(&mut rates, PER_HOUR, [1.0; 3], [2.0, 4.0, 5.0]);
        push(&mut rates, PER_CPU, [3.0; 3], [4.0; 3]);
        let text = table(&COUNTS, &rates);
        assert!(text.contains("mount / tmpfs"), "{text}");
        for (line, ratio) in [(2, "0.50"), (3, "0.25"), (4, "0.20")] {
            assert_eq!(cells_of(&text, line)[5..], [ratio, "0.75"]);
        }
    }
}
