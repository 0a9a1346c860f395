//! Noisy neighbour: what a tenant with a request every 10 ms feels of one with 64 greedy streams,
//! and how two greedy tenants share by their weights.
//!
//! Nothing is cached by the kernel, so that each operation is a request to the daemon.

mod load;
mod setting;

use super::Report;
use crate::mount_bench::UNCACHED;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::patience::beat;
use crate::row::{Row, median};
use crate::seeds::ask::Ask;
use crate::seeds::contender::hearth;
use crate::table::{Table, short};
use load::{Greedy, Served, Wants};
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
/// What is told of latencies.
const QUANTILES: [(&str, f64); 3] = [("p50_us", 0.5), ("p99_us", 0.99), ("max_us", 1.0)];

/// How long, and how often.
#[derive(Clone, Copy)]
struct Effort {
    length: Duration,
    rounds: usize,
}

/// Runs the benchmark.
///
/// # Errors
/// There is no mount, or a request fails.
pub fn run(options: &Options) -> Result<Report, String> {
    // SAFETY: the call takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return Err("a tenant is a user, and only root can be several: run it as root".into());
    }
    let effort = match options.quick {
        true => Effort {
            length: Duration::from_secs(1),
            rounds: 3,
        },
        false => Effort {
            length: Duration::from_secs(10),
            rounds: 5,
        },
    };
    println!(
        "neighbour: windows of {} s, {} of each, alternating; nothing cached\n",
        effort.length.as_secs(),
        effort.rounds
    );
    let mut report = Report::default();
    let mount = hearth(&format!("transport=auto,{UNCACHED}"))?;
    let targets = [("mount", mount), ("tmpfs", Mounted::tmpfs()?)];
    quiet(&targets, effort, &mut report)?;
    shares(&targets[0].1, effort, &mut report)?;
    ceiling(&targets[0].1, effort, &mut report)?;
    Ok(report)
}

/// The quiet tenant alone and beside the greedy one. What it feels on tmpfs is the machine's part.
fn quiet(targets: &[(&str, Mounted)], effort: Effort, report: &mut Report) -> Result<(), String> {
    let noise = |nice| {
        [Greedy {
            uid: GREEDY[0],
            streams: STREAMS,
            nice,
            wants: Wants::Pages,
        }]
    };
    // The second one is the daemon's order of requests by itself: where the kernel has to choose
    // between programs, the streams wait.
    let (equal, nice) = (noise(false), noise(true));
    let situations = [
        ("alone", &equal[..0]),
        ("beside 64 streams", &equal[..]),
        ("beside 64 streams at nice 19", &nice[..]),
    ];
    let heading = [
        "one request every 10 ms",
        "",
        "p50 us",
        "p99 us",
        "max us",
        "streams, op/s",
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    for (target, place) in targets {
        let mut served: [Vec<Served>; 3] = Default::default();
        for _ in 0..effort.rounds {
            for ((_, noise), served) in situations.iter().zip(&mut served) {
                served.push(one(place, noise, Some(QUIET), effort.length)?);
            }
        }
        for ((situation, _), served) in situations.iter().zip(&served) {
            let mut line = vec![situation.to_string(), target.to_string()];
            for (metric, part) in QUANTILES {
                let row = row(situation, target, metric, "us", &quantiles(served, part));
                line.push(format!("{:.1}", row.value));
                report.rows.push(row);
            }
            if !served[0].rates.is_empty() {
                let rates: Vec<f64> = served.iter().map(|served| served.rates[0]).collect();
                let row = row(situation, target, "ops_per_s", "1/s", &rates);
                line.push(short(row.value));
                report.rows.push(row);
            }
            table.row(line);
        }
        if *target == "mount" {
            let alone = quantiles(&served[0], 0.99);
            for ((situation, _), served) in situations.iter().zip(&served).skip(1) {
                let beside = quantiles(served, 0.99);
                let grows: Vec<f64> = beside.iter().zip(&alone).map(|(b, a)| b / a).collect();
                let what = format!("neighbour: p99 of the quiet tenant, {situation} / alone");
                report.asks.push(Ask::at_most(what, GROWS, &grows));
            }
        }
    }
    println!("{}", table.text());
    Ok(())
}

/// How two greedy tenants divide what is served, by their weights.
fn shares(mount: &Mounted, effort: Effort, report: &mut Report) -> Result<(), String> {
    let greedy = GREEDY.map(|uid| Greedy {
        uid,
        streams: STREAMS / 2,
        nice: false,
        wants: Wants::Copies,
    });
    let heading = ["weights", "first, op/s", "second, op/s", "first / second"];
    let mut table = Table::new(heading.map(str::to_owned));
    for (weights, least, most) in [([100, 100], 0.95, 1.05), ([300, 100], 2.85, 3.15)] {
        let shown = format!("{} to {}", weights[0], weights[1]);
        let what = format!("neighbour: served at weights {shown}");
        let mut told = GREEDY.iter().zip(weights);
        if let Err(what_it_said) =
            told.try_for_each(|(&uid, weight)| setting::weight(mount.directory(), uid, weight))
        {
            println!("weights {shown}: not measured: {what_it_said}\n");
            report.asks.push(Ask::within(what, least, most, &[]));
            continue;
        }
        let (mut rates, mut ratios): ([Vec<f64>; 2], Vec<f64>) = Default::default();
        for _ in 0..effort.rounds {
            let served = one(mount, &greedy, None, effort.length)?.rates;
            rates[0].push(served[0]);
            rates[1].push(served[1]);
            ratios.push(served[0] / served[1]);
        }
        let mut line = vec![shown.clone()];
        for (which, rates) in ["first", "second"].iter().zip(&rates) {
            let situation = format!("weights {shown}, {which}");
            let row = row(&situation, "mount", "ops_per_s", "1/s", rates);
            line.push(short(row.value));
            report.rows.push(row);
        }
        let ratio = row(&format!("weights {shown}"), "mount", "ratio", "1", &ratios);
        line.push(format!("{:.2}", ratio.value));
        table.row(line);
        report.rows.push(ratio);
        report.asks.push(Ask::within(what, least, most, &ratios));
    }
    if !table.is_empty() {
        println!("{}", table.text());
    }
    Ok(())
}

/// A tenant that wants much more than its ceiling lets it have.
fn ceiling(mount: &Mounted, effort: Effort, report: &mut Report) -> Result<(), String> {
    let what = format!("neighbour: operations a second under a ceiling of {CEILING}");
    let (least, most) = (0.99 * f64::from(CEILING), 1.01 * f64::from(CEILING));
    if let Err(said) = setting::operations(mount.directory(), GREEDY[0], CEILING) {
        println!("a ceiling: not measured: {said}\n");
        report.asks.push(Ask::within(what, least, most, &[]));
        return Ok(());
    }
    let greedy = [Greedy {
        uid: GREEDY[0],
        streams: 8,
        nice: false,
        wants: Wants::Pages,
    }];
    let mut rates = Vec::new();
    for _ in 0..effort.rounds {
        rates.extend(one(mount, &greedy, None, effort.length)?.rates);
    }
    let row = row("ceiling of 1000", "mount", "ops_per_s", "1/s", &rates);
    println!(
        "A ceiling of {CEILING} operations a second: {:.1} served\n",
        row.value
    );
    report.rows.push(row);
    report.asks.push(Ask::within(what, least, most, &rates));
    Ok(())
}

fn one(
    place: &Mounted,
    greedy: &[Greedy],
    quiet: Option<u32>,
    length: Duration,
) -> Result<Served, String> {
    beat();
    let directory = place.directory();
    let served = load::run(directory, greedy, quiet, length);
    served.map_err(|error| format!("{}: {error}", directory.display()))
}

/// Of each run, in microseconds.
fn quantiles(served: &[Served], part: f64) -> Vec<f64> {
    let quantile = |served: &Served| served.quiet.percentile(part) as f64 / 1e3;
    served.iter().map(quantile).collect()
}

fn row(
    situation: &str,
    target: &str,
    metric: &'static str,
    unit: &'static str,
    samples: &[f64],
) -> Row {
    let (value, ci95) = median(&mut samples.to_vec());
    Row {
        bench: "sched",
        workload: format!("neighbour {situation}"),
        target: target.to_owned(),
        tasks: 1,
        metric,
        value,
        unit,
        runs: samples.len() as u32,
        ci95,
    }
}
