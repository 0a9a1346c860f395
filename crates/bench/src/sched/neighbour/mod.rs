//! Noisy neighbour: what a tenant with a request every 10 ms feels of one with 64 greedy streams,
//! and how two greedy tenants share by their weights.
//!
//! Nothing is cached by the kernel, so that each operation is a request to the daemon.

mod load;

use crate::ask::Ask;
use crate::cells;
use crate::daemons::{UNCACHED, hearth, run_hearth};
use crate::failure::Context;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::report::Report;
use crate::row::OPS_PER_SECOND;
use crate::stats::{Metric, Samples, ratios};
use crate::table::{Table, short};
use crate::watchdog::beat;
use load::{Greedy, Served, Wants};
use std::path::Path;
use std::time::Duration;

/// The quiet tenant, and two greedy ones.
const QUIET: u32 = 20_000;
const GREEDY: [u32; 2] = [20_001, 20_002];
/// Streams of a greedy tenant beside the quiet one.
const STREAMS: usize = 64;
/// Operations a second that a tenant is held to.
const CEILING: u32 = 1_000;
/// Most that the quiet tenant's p99 may grow by.
const GROWS: f64 = 2.0;
/// Percentiles that are reported.
const QUANTILES: [(Metric, f64); 3] = [
    (("p50_us", "us"), 0.5),
    (("p99_us", "us"), 0.99),
    (("max_us", "us"), 1.0),
];

#[derive(Clone, Copy)]
struct LoadPlan {
    length: Duration,
    rounds: usize,
}

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("a tenant is a user, and only root can be several: run it as root".into());
    }
    let (seconds, rounds) = options.pick((1, 3), (10, 5));
    println!("neighbour: windows of {seconds} s, {rounds} of each, alternating; nothing cached\n");
    let windows = LoadPlan {
        length: Duration::from_secs(seconds),
        rounds,
    };
    let mount = hearth(&format!("transport=auto,{UNCACHED}"))?;
    let targets = [("mount", mount), ("tmpfs", Mounted::tmpfs()?)];
    quiet(&targets, windows, report)?;
    shares(&targets[0].1, windows, report)?;
    ceiling(&targets[0].1, windows, report)
}

/// The quiet tenant alone and beside the greedy one. What it feels on tmpfs is the machine's part.
fn quiet(
    targets: &[(&str, Mounted)],
    windows: LoadPlan,
    report: &mut Report,
) -> Result<(), String> {
    let greedy = |nice| {
        [Greedy {
            uid: GREEDY[0],
            streams: STREAMS,
            nice,
            wants: Wants::Pages,
        }]
    };
    // The second one is the daemon's order of requests by itself: where the kernel has to choose
    // between programs, the streams wait.
    let (equal, nice) = (greedy(false), greedy(true));
    let situations = [
        ("alone", &equal[..0]),
        ("beside 64 streams", &equal[..]),
        ("beside 64 streams at nice 19", &nice[..]),
    ];
    let mut table = Table::new([
        "one request every 10 ms",
        "",
        "p50 us",
        "p99 us",
        "max us",
        "streams, op/s",
    ]);
    for (target, place) in targets {
        let mut samples = Samples::default();
        for _ in 0..windows.rounds {
            for (situation, greedy) in &situations {
                let served = one(place, greedy, Some(QUIET), windows)?;
                let cell = (*situation, *target, 1);
                for (metric, part) in QUANTILES {
                    let quantile = served.quiet.percentile(part) as f64 / 1e3;
                    samples.push(metric, cell, quantile);
                }
                let rates = served.rates.into_iter();
                rates.for_each(|rate| samples.push(OPS_PER_SECOND, cell, rate));
            }
        }
        let runs = |metric, situation| samples.of(metric).runs(situation, target, 1);
        for (situation, _) in &situations {
            let mut line = vec![situation.to_string(), target.to_string()];
            let cell = (*situation, *target);
            for (metric, _) in QUANTILES {
                let value = keep(report, cell, metric, runs(metric, situation));
                line.push(format!("{value:.1}"));
            }
            let rates = runs(OPS_PER_SECOND, situation);
            if !rates.is_empty() {
                line.push(short(keep(report, cell, OPS_PER_SECOND, rates)));
            }
            table.row(line);
        }
        if *target == "mount" {
            let p99 = |situation| runs(QUANTILES[1].0, situation);
            for (situation, _) in &situations[1..] {
                let grows = ratios(p99(situation), p99(situations[0].0));
                let what = format!("neighbour: p99 of the quiet tenant, {situation} / alone");
                report.asks.push(Ask::at_most(what, GROWS, &grows));
            }
        }
    }
    println!("{}", table.text());
    Ok(())
}

/// How two greedy tenants divide what is served, by their weights.
fn shares(mount: &Mounted, windows: LoadPlan, report: &mut Report) -> Result<(), String> {
    let greedy = GREEDY.map(|uid| {
        let wants = Wants::Copies;
        Greedy {
            uid,
            streams: STREAMS / 2,
            nice: false,
            wants,
        }
    });
    let mut table = Table::new(["weights", "first, op/s", "second, op/s", "first / second"]);
    for (weights, least, most) in [([100, 100], 0.95, 1.05), ([300, 100], 2.85, 3.15)] {
        let shown = format!("{} to {}", weights[0], weights[1]);
        let what = format!("neighbour: served at weights {shown}");
        let weigh = |(uid, weight): (&u32, u32)| {
            let words = [
                "sched",
                "weight",
                &format!("user:{uid}"),
                &weight.to_string(),
            ];
            run_hearth(&words, mount.directory(), &[]).map(drop)
        };
        if let Err(said) = GREEDY.iter().zip(weights).try_for_each(weigh) {
            println!("weights {shown}: not measured: {said}\n");
            report.asks.push(Ask::within(what, least, most, &[]));
            continue;
        }
        let mut rates: [Vec<f64>; 2] = Default::default();
        for _ in 0..windows.rounds {
            let served = one(mount, &greedy, None, windows)?.rates;
            rates
                .iter_mut()
                .zip(served)
                .for_each(|(rates, rate)| rates.push(rate));
        }
        let [first, second] = ["first", "second"].map(|which| format!("weights {shown}, {which}"));
        let metric = OPS_PER_SECOND;
        let first = keep(report, (&first, "mount"), metric, &rates[0]);
        let second = keep(report, (&second, "mount"), metric, &rates[1]);
        let ratios = ratios(&rates[0], &rates[1]);
        let cell = (&*format!("weights {shown}"), "mount");
        let ratio = keep(report, cell, ("ratio", "1"), &ratios);
        table.row(cells![
            shown,
            short(first),
            short(second),
            format!("{ratio:.2}")
        ]);
        report.asks.push(Ask::within(what, least, most, &ratios));
    }
    if !table.is_empty() {
        println!("{}", table.text());
    }
    Ok(())
}

/// A tenant that wants much more than its ceiling lets it have.
fn ceiling(mount: &Mounted, windows: LoadPlan, report: &mut Report) -> Result<(), String> {
    let what = format!("neighbour: operations a second under a ceiling of {CEILING}");
    let (least, most) = (0.99 * f64::from(CEILING), 1.01 * f64::from(CEILING));
    let mut rates = Vec::new();
    let (who, limit) = (format!("user:{}", GREEDY[0]), CEILING.to_string());
    let words = ["sched", "limit", &who, "--iops", &limit];
    match run_hearth(&words, mount.directory(), &[]) {
        Err(said) => println!("a ceiling: not measured: {said}\n"),
        Ok(_) => {
            let wants = Wants::Pages;
            let greedy = [Greedy {
                uid: GREEDY[0],
                streams: 8,
                nice: false,
                wants,
            }];
            for _ in 0..windows.rounds {
                rates.extend(one(mount, &greedy, None, windows)?.rates);
            }
            let cell = ("ceiling of 1000", "mount");
            let rate = keep(report, cell, OPS_PER_SECOND, &rates);
            println!("A ceiling of {CEILING} operations a second: {rate:.1} served\n");
        }
    }
    report.asks.push(Ask::within(what, least, most, &rates));
    Ok(())
}

fn one(
    place: &Mounted,
    greedy: &[Greedy],
    quiet: Option<u32>,
    windows: LoadPlan,
) -> Result<Served, String> {
    beat();
    let directory: &Path = place.directory();
    load::run(directory, greedy, quiet, windows.length).at(directory)
}

fn keep(
    report: &mut Report,
    (situation, target): (&str, &str),
    metric: Metric,
    runs: &[f64],
) -> f64 {
    report
        .add((&format!("neighbour {situation}"), target, 1), metric, runs)
        .0
}
