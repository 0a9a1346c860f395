//! Background: what the volume's own work costs its users meanwhile, and how long it takes.
//!
//! Users work as fast as they can, on all cores. Meanwhile heat ages, quotas are checked against
//! every file, and half of the memory is given back to the home, each by itself and all together.

mod chores;
mod foreground;

use crate::ask::Ask;
use crate::cpu_time::{CpuTime, of_process};
use crate::daemons::{UNCACHED, hearth};
use crate::histogram::Histogram;
use crate::measure::apart;
use crate::options::Options;
use crate::pinned::{allowed_cores, pin};
use crate::report::Report;
use crate::stats::ratios;
use crate::table::{Table, short};
use crate::target::{Fresh, Library};
use crate::watchdog::beat;
use chores::{Chores, Course, Passes};
use hearth::Volume;
use hearth::backend::TestBackend;
use std::sync::atomic::Ordering;
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

#[derive(Clone, Default)]
struct ChoreWindow {
    per_second: f64,
    /// Operations in a second of processor time, of the users, the chores and the daemon.
    per_cpu_second: f64,
    p99_us: f64,
    passes: Passes,
}

impl ChoreWindow {
    /// Between two windows, of which one is before and one is after another.
    fn mean(&self, other: &ChoreWindow) -> ChoreWindow {
        let half = |one: f64, other: f64| (one + other) / 2.0;
        ChoreWindow {
            per_second: half(self.per_second, other.per_second),
            per_cpu_second: half(self.per_cpu_second, other.per_cpu_second),
            p99_us: half(self.p99_us, other.p99_us),
            passes: Passes::default(),
        }
    }
}

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let amount = match options.quick {
        true => WindowPlan {
            idle: 4_000,
            window: Duration::from_millis(500),
            rounds: 3,
        },
        false => WindowPlan {
            idle: 40_000,
            // As long as the passes take, so that windows with and without them are alike.
            window: Duration::from_secs(6),
            rounds: 10,
        },
    };
    println!(
        "background: {} idle files, windows of {:.1} s or until all is done, {} of each, between \
         two of none\n",
        amount.idle,
        amount.window.as_secs_f64(),
        amount.rounds
    );
    for subject in [library()?, mount()?] {
        let said = measure(&subject, amount, report);
        said.map_err(|what| format!("{}: {what}", subject.name))?;
    }
    Ok(())
}

/// The library over a home that takes objects back, which the memory home does not.
fn library() -> Result<Subject, String> {
    let builder = Volume::builder().backend(TestBackend::new());
    let volume = builder.hot_track(true).background(true).build();
    let volume = volume.map_err(|errno| errno.to_string())?;
    hearth_control::install(&volume).map_err(|error| error.to_string())?;
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
    let mut windows: Vec<Vec<ChoreWindow>> = subject.chores.iter().map(|_| Vec::new()).collect();
    let mut beside: Vec<Vec<ChoreWindow>> = subject.chores.iter().map(|_| Vec::new()).collect();
    // The first round warms up.
    for round in 0..=amount.rounds {
        // There and back again, so that none always follows the same one.
        let mut order: Vec<usize> = (1..windows.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut before = window(subject, NOTHING, &cores, amount.window)?;
        for at in order {
            let chores = subject.chores[at].1;
            let with = window(subject, chores, &cores, amount.window)?;
            if chores.reclaim {
                apart(target, &|client| foreground::recall(client, amount.idle))?;
            }
            let after = window(subject, NOTHING, &cores, amount.window)?;
            if round > 0 {
                beside[at].push(before.mean(&after));
                windows[at].push(with);
                windows[0].push(before);
                beside[0].push(after.clone());
            }
            before = after;
        }
    }
    tell(subject, &windows, &beside, report);
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
                    pin(core).map_err(|error| format!("core {core}: {error}"))?;
                    let client = target.client();
                    let done = foreground::work(&*client, task, length, &course.passed);
                    client.end();
                    done
                })
            })
            .collect();
        let (mut latency, mut per_second, mut done_in_all) = (Histogram::new(), 0.0, 0);
        let mut failed = None;
        for user in users {
            match user
                .join()
                .map_err(|_| "a user panicked".to_owned())
                .flatten()
            {
                Ok(done) => {
                    per_second += done.latency.count() as f64 / done.seconds;
                    done_in_all += done.latency.count();
                    latency.absorb(&done.latency);
                }
                Err(what) => failed = Some(what),
            }
        }
        // Relaxed: see `Course`.
        course.ended.store(true, Ordering::Relaxed);
        let passes = chores.join().map_err(|_| "the chores panicked".to_owned());
        let passes = passes.flatten()?;
        match failed {
            Some(what) => Err(what),
            None => Ok(ChoreWindow {
                per_second,
                per_cpu_second: done_in_all as f64 / (used() - before),
                p99_us: latency.percentile(0.99) as f64 / 1e3,
                passes,
            }),
        }
    })
}

/// `beside` are the windows without chores that each window of `windows` is compared with; the
/// first ones are without chores themselves, and compared with the next of their kind.
fn tell(
    subject: &Subject,
    windows: &[Vec<ChoreWindow>],
    beside: &[Vec<ChoreWindow>],
    report: &mut Report,
) {
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
    for (n, (name, _)) in subject.chores.iter().enumerate() {
        let mut keep = |metric, samples: &[f64]| -> Option<f64> {
            let cell = (
                &*format!("background {name}"),
                subject.name,
                allowed_cores().len(),
            );
            (!samples.is_empty()).then(|| report.add(cell, metric, samples).0)
        };
        let shown = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        let all = |windows: &[ChoreWindow], f: fn(&ChoreWindow) -> f64| -> Vec<f64> {
            windows.iter().map(f).collect()
        };
        let beside = |f: fn(&ChoreWindow) -> f64| ratios(&all(&windows[n], f), &all(&beside[n], f));
        let rate = beside(|window| window.per_second);
        let by_cpu = beside(|window| window.per_cpu_second);
        let p99 = beside(|window| window.p99_us);
        let checks: Vec<f64> = passes(&windows[n], |passes| &passes.checks);
        let reclaims: Vec<f64> = passes(&windows[n], |passes| &passes.reclaims);
        let rates = all(&windows[n], |window| window.per_second);
        let p99s = all(&windows[n], |window| window.p99_us);
        table.row([
            (*name).to_owned(),
            keep(("ops_per_s", "1/s"), &rates).map_or(String::new(), short),
            shown(keep(("ops_ratio", "1"), &rate)),
            shown(keep(("ops_per_cpu_ratio", "1"), &by_cpu)),
            shown(keep(("p99_us", "us"), &p99s)),
            shown(keep(("p99_ratio", "1"), &p99)),
            shown(keep(("check_s", "s"), &checks)),
            shown(keep(("reclaim_s", "s"), &reclaims)),
        ]);
        if *name == "all" {
            let what = |of: &str| format!("background, {}: {of}", subject.name);
            let asks = &mut report.asks;
            let throughput = what("throughput with all / alone");
            asks.push(Ask::at_least(throughput, THROUGHPUT, &rate).by_cpu(&by_cpu));
            asks.push(Ask::at_most(what("p99 with all / alone"), P99, &p99));
            asks.push(Ask::at_most(what("seconds of a full check"), PASS, &checks));
            if !reclaims.is_empty() {
                let what = what("seconds until half of the memory is given back");
                asks.push(Ask::at_most(what, PASS, &reclaims));
            }
        }
    }
    println!("{}", table.text());
}

fn passes(windows: &[ChoreWindow], of: fn(&Passes) -> &Vec<f64>) -> Vec<f64> {
    windows
        .iter()
        .flat_map(|window| of(&window.passes))
        .copied()
        .collect()
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
