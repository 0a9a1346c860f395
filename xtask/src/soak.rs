//! `cargo xtask soak`: all operations on all threads for long, or the randomised suites again and
//! again, each round with another seed, or a million power cuts under a whole volume, or a crowd on
//! a directory of the host, or the races of the filesystem under ever new schedules.

use crate::{install, process};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Test program of `hearth-cli`, and the part of it that is random; empty for all.
///
/// The rules of quotas are not random, but Linux is asked for them here only.
const SUITES: &[(&str, &str)] = &[
    ("suite", "fsx::"),
    ("stress", ""),
    ("suite", "shells::"),
    ("suite", "sqlite::"),
    ("kill", ""),
    ("quota_writeback", ""),
    ("quota_races", ""),
    ("suite", "model::"),
    ("suite", "quota_rules::"),
    ("store_kill", ""),
    ("store_cases", ""),
    ("host_cases", "crowd::"),
    ("host_cases", "programs::"),
];

/// Operations of fsx on each mount.
const OPERATIONS: u64 = 100_000;
/// Seconds of each crowd and of PostgreSQL on a host volume.
const HOST_SECONDS: u64 = 60;
/// Races to the limits of quotas in each round.
const QUOTA_ROUNDS: u64 = 2_000;
/// Suites on a mount, by processes, over each transport: for what was acknowledged, and for what
/// was refused; and of volumes in directories that are killed or lose their power.
const MOUNT_ROUNDS: [(&str, u64); 4] = [
    ("quota_writeback", 200),
    ("quota_races", 500),
    ("store_kill", 200),
    ("store_cases", 200),
];

/// Power cuts of `soak cuts`, and of each script.
const CUTS: u64 = 1_000_000;
const CUTS_OF_A_SCRIPT: u64 = 110;
/// Scripts of whole volumes in each round of the suites.
const VOLUME_SCRIPTS: u64 = 500;

/// `soak [MINUTES]`, or one of `soak suites`, `cuts`, `crowd` and `schedules`.
pub fn run(args: &[String]) -> Result<(), String> {
    match args {
        [first] if first == "cuts" => cuts(CUTS / CUTS_OF_A_SCRIPT + 1, first_seed() * 10_000),
        [first, rest @ ..] if first == "suites" => {
            let minutes = minutes(rest, 60)?;
            install::everything()?;
            rounds(minutes, round)
        }
        [first, rest @ ..] if first == "schedules" => rounds(minutes(rest, 60)?, schedules),
        [first, rest @ ..] if first == "crowd" => crowd(minutes(rest, 60)?),
        _ => operations(minutes(args, 10)?),
    }
}

fn minutes(args: &[String], default: u64) -> Result<u64, String> {
    match args {
        [] => Ok(default),
        [minutes] => minutes
            .parse()
            .map_err(|_| format!("'{minutes}' is not a number of minutes")),
        _ => Err("at most one of suites, cuts, crowd and schedules, and the minutes".into()),
    }
}

/// Every operation on every thread; nothing may be left at the end.
fn operations(minutes: u64) -> Result<(), String> {
    let seed = first_seed();
    println!("{minutes} minutes, HEARTH_SEED={seed}");
    let mut test = process::cargo();
    test.args(["test", "--package", "hearth-bench"])
        .args(["--test", "soak", "--test", "soak_heat"])
        .args(["--", "--nocapture"])
        .env("HEARTH_SOAK_SECONDS", (minutes * 60).to_string())
        .env("HEARTH_SEED", seed.to_string());
    process::run(&mut test)
        .map_err(|what| format!("{what}; again: HEARTH_SEED={seed} HEARTH_SOAK_SECONDS=..."))
}

/// Power cuts and faults under whole volumes, and a flip of every byte of a store.
fn cuts(scripts: u64, seed: u64) -> Result<(), String> {
    let mut test = process::cargo();
    test.args(["test", "--package", "hearth"])
        .args(["--test", "cuts", "--test", "stores"])
        .args(["--", "--nocapture"])
        .env("HEARTH_SEED", seed.to_string())
        .env("HEARTH_ROUNDS", scripts.to_string())
        .env(
            "HEARTH_FLIPS",
            if scripts > VOLUME_SCRIPTS {
                "all"
            } else {
                "100"
            },
        );
    process::run(&mut test)
        .map_err(|what| format!("{what}; again: HEARTH_SEED={seed} HEARTH_ROUNDS={scripts}"))
}

/// A crowd that changes a tree behind and through a mount at once.
fn crowd(minutes: u64) -> Result<(), String> {
    install::everything()?;
    let seed = first_seed();
    println!("{minutes} minutes, HEARTH_SEED={seed}");
    let mut test = process::cargo();
    test.args(["test", "--package", "hearth-cli", "--test", "host_cases"])
        .args(["crowd::", "--", "--nocapture"])
        .env("HEARTH_SECONDS", (minutes * 60).to_string())
        .env("HEARTH_SEED", seed.to_string());
    process::run(&mut test).map_err(|what| {
        let seconds = minutes * 60;
        format!("{what}; again: HEARTH_SEED={seed} HEARTH_SECONDS={seconds}")
    })
}

/// The races of the filesystem, under the schedules of a seed.
fn schedules(seed: u64) -> Result<(), String> {
    let mut test = process::cargo();
    test.args(["test", "--package", "hearth", "--features", "shuttle"])
        .args(["--test", "shuttle"])
        .env("HEARTH_SHUTTLE_SEED", seed.to_string());
    process::run(&mut test).map_err(|what| format!("{what}; again: HEARTH_SHUTTLE_SEED={seed}"))
}

/// Runs rounds until the time is over; the first failure ends it and names the seed.
fn rounds(minutes: u64, round: impl Fn(u64) -> Result<(), String>) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let mut seed = first_seed();
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < end {
        seed += 1;
        rounds += 1;
        println!("round {rounds}, HEARTH_SEED={seed}");
        round(seed)?;
    }
    println!("{rounds} rounds without a failure");
    Ok(())
}

fn first_seed() -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    clock.map_or(1, |since| since.as_secs() % 1_000_000)
}

fn round(seed: u64) -> Result<(), String> {
    let again =
        |what: String| format!("{what}; again: HEARTH_SEED={seed} PROPTEST_RNG_SEED={seed}");
    let mut model = process::cargo();
    model
        .args(["test", "--package", "hearth", "--package", "hearth-model"])
        .arg("--tests")
        .env("HEARTH_SEED", seed.to_string())
        .env("PROPTEST_RNG_SEED", seed.to_string());
    process::run(&mut model).map_err(again)?;
    schedules(seed)?;
    cuts(VOLUME_SCRIPTS, seed * VOLUME_SCRIPTS)?;
    // Each of its rounds takes the next seed: far apart, so that no two runs have the same.
    let mut quota = process::cargo();
    quota
        .args(["test", "--package", "hearth", "--test", "quota_rounds"])
        .env("HEARTH_SEED", (seed * QUOTA_ROUNDS).to_string())
        .env("HEARTH_ROUNDS", QUOTA_ROUNDS.to_string());
    process::run(&mut quota).map_err(again)?;
    for (suite, part) in SUITES {
        let mut test = process::cargo();
        test.args(["test", "--package", "hearth-cli", "--test", suite, part])
            .env("HEARTH_SEED", seed.to_string())
            .env("HEARTH_SECONDS", HOST_SECONDS.to_string())
            .env("HEARTH_OPERATIONS", OPERATIONS.to_string())
            .env("HEARTH_LINUX", "1");
        if let Some((_, rounds)) = MOUNT_ROUNDS.iter().find(|(name, _)| name == suite) {
            test.env("HEARTH_SEED", (seed * rounds).to_string())
                .env("HEARTH_ROUNDS", rounds.to_string());
        }
        process::run(&mut test).map_err(again)?;
    }
    Ok(())
}
