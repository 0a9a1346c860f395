//! Background: what the volume's own work costs its users meanwhile, and how long it takes.
//!
//! Users work as fast as they can, on all cores. Meanwhile heat ages, quotas are checked against
//! every file, and half of the memory is given back to the home, each by itself and all together.

mod chores;
mod foreground;

use crate::ask::Ask;
use crate::cpu_time::{CpuTime, of_process};
use crate::daemons::{UNCACHED, hearth};
use crate::failure::{Context, joined};
use crate::histogram::Histogram;
use crate::measure::apart;
use crate::options::Options;
use crate::pinned::{allowed_cores, pin};
use crate::report::Report;
use crate::row::{OPS_PER_CPU_SECOND, OPS_PER_SECOND};
use crate::stats::{Metric, Samples, ratios};
use crate::table::{Table, short};
use crate::target::{Fresh, Library};
use crate::watchdog::beat;
use chores::{Chores, Course, Passes};
use hearth::Volume;
use hearth::backend::TestBackend;
use hearth_testing::threads::SetOnDrop;
use std::time::Duration;

/// Least share of the throughput alone, most growth of p99, most seconds of a pass.
const THROUGHPUT: f64 = 0.97;
const P99: f64 = 1.2;
const PASS: f64 = 60.0;

const NOTHING: Chores = Chores {
    ageing: false,
    check: false,
    reclaim: false,
};
const AGEING: Chores = Chores {
    ageing: true,
    ..NOTHING
};
const CHECK: Chores = Chores {
    check: true,
    ..NOTHING
};
const RECLAIM: Chores = Chores {
    reclaim: true,
    ..NOTHING
};

#[derive(Clone, Copy)]
struct WindowPlan {
    /// Files that nobody uses.
    idle: usize,
    window: Duration,
    rounds: usize,
}

/// One target, and what it can be made to do.
struct Subject {
    name: &'static str,
    target: Box<dyn Fresh>,
    daemon: Option<u32>,
    chores: Vec<(&'static str, Chores)>,
}

/// What a window comes to: operations per second by the clock, and by processor time of the users,
/// the chores and the daemon; and how long they took.
const FIGURES: [Metric; 3] = [OPS_PER_SECOND, OPS_PER_CPU_SECOND, ("p99_us", "us")];
const CHECK_S: Metric = ("check_s", "s");
const RECLAIM_S: Metric = ("reclaim_s", "s");

/// The figures of one window, and what the chores took in it.
struct ChoreWindow([f64; 3], Passes);

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    // As long as the passes take, so that windows with and without them are alike.
    let (idle, millis, rounds) = options.pick((4_000, 500, 3), (40_000, 6_000, 10));
    let window = Duration::from_millis(millis);
    let amount = WindowPlan {
        idle,
        window,
        rounds,
    };
    println!(
        "background: {} idle files, windows of {:.1} s or until all is done, {} of each, between \
         two of none\n",
        amount.idle,
        amount.window.as_secs_f64(),
        amount.rounds
    );
    for subject in [library()?, mount()?] {
        measure(&subject, amount, report).context(subject.name)?;
    }
    Ok(())
}

/// The library over a home that takes objects back, which the memory home does not.
fn library() -> Result<Subject, String> {
    let builder = Volume::builder().backend(TestBackend::new());
    let volume = builder.hot_track(true).background(true).build().text()?;
    hearth_control::install(&volume).text()?;
    Ok(Subject {
        name: "lib",
        target: Box::new(Library::from(volume)),
        daemon: None,
        chores: vec![
            ("alone", NOTHING),
            ("ageing", AGEING),
            ("quota check", CHECK),
            ("reclaim", RECLAIM),
            (
                "all",
                Chores {
                    ageing: true,
                    check: true,
                    reclaim: true,
                },
            ),
        ],
    })
}

fn mount() -> Result<Subject, String> {
    let mount = hearth(&format!("transport=auto,hot_track,{UNCACHED}"))?;
    Ok(Subject {
        name: "mount",
        daemon: mount.daemon(),
        target: Box::new(mount),
        chores: vec![
            ("alone", NOTHING),
            ("ageing", AGEING),
            ("quota check", CHECK),
            (
                "all",
                Chores {
                    ageing: true,
                    ..CHECK
                },
            ),
        ],
    })
}

fn measure(subject: &Subject, amount: WindowPlan, report: &mut Report) -> Result<(), String> {
    let cores = allowed_cores();
    let target = subject.target.target();
    apart(target, &|client| {
        foreground::fill(client, cores.len(), amount.idle)
    })?;
    let (mut with, mut beside) = (Samples::default(), Samples::default());
    let push = |samples: &mut Samples, at: usize, figures: [f64; 3]| {
        let cell = (subject.chores[at].0, subject.name, cores.len());
        let all = FIGURES.into_iter().zip(figures);
        all.for_each(|(metric, figure)| samples.push(metric, cell, figure));
    };
    // The first round warms up.
    for round in 0..=amount.rounds {
        // There and back again, so that none always follows the same one.
        let mut order: Vec<usize> = (1..subject.chores.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut before = window(subject, NOTHING, &cores, amount.window)?.0;
        for at in order {
            let (name, chores) = subject.chores[at];
            let ChoreWindow(figures, passes) = window(subject, chores, &cores, amount.window)?;
            if chores.reclaim {
                apart(target, &|client| foreground::recall(client, amount.idle))?;
            }
            let after = window(subject, NOTHING, &cores, amount.window)?.0;
            if round > 0 {
                push(&mut with, at, figures);
                push(
                    &mut beside,
                    at,
                    [0, 1, 2].map(|n| (before[n] + after[n]) / 2.0),
                );
                // Those without chores are compared with the next of their kind.
                push(&mut with, 0, before);
                push(&mut beside, 0, after);
                for (metric, all) in [(CHECK_S, passes.checks), (RECLAIM_S, passes.reclaims)] {
                    let cell = (name, subject.name, cores.len());
                    all.into_iter()
                        .for_each(|took| with.push(metric, cell, took));
                }
            }
            before = after;
        }
    }
    tell(subject, &with, &beside, report);
    Ok(())
}

/// Users on all cores, and the chores on whichever is free, until all of these are done.
fn window(
    subject: &Subject,
    chores: Chores,
    cores: &[usize],
    length: Duration,
) -> Result<ChoreWindow, String> {
    beat();
    let target = subject.target.target();
    let used = || CpuTime::of_this_program().total() + subject.daemon.map_or(0.0, of_process);
    let before = used();
    let course = &Course::default();
    std::thread::scope(|scope| {
        let end = SetOnDrop(&course.ended);
        let chores = scope.spawn(move || {
            let client = target.client();
            let passes = chores::run(&*client, chores, course);
            client.end();
            passes
        });
        let users: Vec<_> = cores
            .iter()
            .enumerate()
            .map(|(task, &core)| {
                scope.spawn(move || {
                    pin(core).context(format_args!("core {core}"))?;
                    let client = target.client();
                    let done = foreground::work(&*client, task, length, &course.passed);
                    client.end();
                    done
                })
            })
            .collect();
        let all: Vec<_> = users.into_iter().map(|user| joined(user.join())).collect();
        drop(end);
        let passes = joined(chores.join())?;
        let (mut latency, mut per_second) = (Histogram::new(), 0.0);
        for done in all {
            let done = done?;
            per_second += done.latency.count() as f64 / done.seconds;
            latency.absorb(&done.latency);
        }
        let per_cpu_second = latency.count() as f64 / (used() - before);
        let p99_us = latency.percentile(0.99) as f64 / 1e3;
        Ok(ChoreWindow([per_second, per_cpu_second, p99_us], passes))
    })
}

/// `beside` are the windows without chores that each window `with` them is compared with.
fn tell(subject: &Subject, with: &Samples, beside: &Samples, report: &mut Report) {
    let mut table = Table::new([
        subject.name,
        "op/s",
        "/ alone",
        "by CPU time",
        "p99 us",
        "/ alone",
        "check, s",
        "reclaim, s",
    ]);
    let cores = allowed_cores().len();
    for (name, _) in &subject.chores {
        let of =
            |samples: &Samples, metric| samples.of(metric).runs(name, subject.name, cores).to_vec();
        let runs = |metric| of(with, metric);
        let [rate, by_cpu, p99] = FIGURES.map(|metric| ratios(&runs(metric), &of(beside, metric)));
        let columns = [
            (FIGURES[0], runs(FIGURES[0])),
            (("ops_ratio", "1"), rate.clone()),
            (("ops_per_cpu_ratio", "1"), by_cpu.clone()),
            (FIGURES[2], runs(FIGURES[2])),
            (("p99_ratio", "1"), p99.clone()),
            (CHECK_S, runs(CHECK_S)),
            (RECLAIM_S, runs(RECLAIM_S)),
        ];
        let workload = format!("background {name}");
        let mut cell = |(metric, runs): (Metric, Vec<f64>)| match runs.is_empty() {
            true => String::new(),
            false => match report.add((&workload, subject.name, cores), metric, &runs) {
                (value, _) if metric == FIGURES[0] => short(value),
                (value, _) => format!("{value:.2}"),
            },
        };
        let line = [(*name).to_owned()];
        table.row(line.into_iter().chain(columns.map(&mut cell)));
        if *name == "all" {
            let what = |of: &str| format!("background, {}: {of}", subject.name);
            let asks = &mut report.asks;
            let throughput = what("throughput with all / alone");
            asks.push(Ask::at_least(throughput, THROUGHPUT, &rate).by_cpu(&by_cpu));
            asks.push(Ask::at_most(what("p99 with all / alone"), P99, &p99));
            let checks = runs(CHECK_S);
            asks.push(Ask::at_most(what("seconds of a full check"), PASS, &checks));
            let reclaims = runs(RECLAIM_S);
            if !reclaims.is_empty() {
                let what = what("seconds until half of the memory is given back");
                asks.push(Ask::at_most(what, PASS, &reclaims));
            }
        }
    }
    println!("{}", table.text());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_work_beside_every_chore_and_every_pass_ends() {
        let amount = WindowPlan {
            idle: 300,
            window: Duration::from_millis(30),
            rounds: 1,
        };
        let mut report = Report::new("sched", Options::default());
        let subject = library().unwrap();
        measure(&subject, amount, &mut report).unwrap();
        let value = |chores: &str, metric| {
            let name = format!("background {chores}");
            let is_it = |row: &&crate::row::Row| row.workload == name && row.metric == metric;
            report.rows.iter().find(is_it).map(|row| row.value)
        };
        for (chores, _) in &subject.chores {
            assert!(value(chores, "ops_per_s").unwrap() > 0.0, "{chores}");
            assert!(value(chores, "p99_us").unwrap() > 0.0, "{chores}");
        }
        // Two windows without chores, one after the other.
        assert!(value("alone", "ops_ratio").unwrap() > 0.0);
        assert!(value("quota check", "check_s").is_some());
        assert!(value("reclaim", "reclaim_s").is_some());
        assert_eq!(value("ageing", "check_s"), None);
        assert_eq!(report.asks.len(), 4);
    }
}
