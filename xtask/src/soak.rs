//! `cargo xtask soak`: the randomised suites again and again, each round with another seed.

use crate::{install, process};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Package and test target.
const SUITES: &[(&str, &str)] = &[
    ("hearth-cli", "fsx"),
    ("hearth-cli", "stress"),
    ("hearth-cli", "shells"),
    ("hearth-cli", "sqlite"),
    ("hearth-cli", "kill"),
];

/// Runs rounds until the time is over; the first failure ends it and names the seed.
pub fn run(args: &[String]) -> Result<(), String> {
    let minutes: u64 = match args {
        [] => 60,
        [minutes] => minutes
            .parse()
            .map_err(|_| format!("'{minutes}' is not a number of minutes"))?,
        _ => return Err("at most one argument, the minutes".into()),
    };
    install::everything()?;
    let end = Instant::now() + Duration::from_secs(minutes * 60);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut seed = clock.map_or(1, |since| since.as_secs() % 1_000_000);
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

fn round(seed: u64) -> Result<(), String> {
    let again = |what: String| format!("{what}; again: HEARTH_SEED={seed}");
    let mut model = process::cargo();
    model
        .args(["test", "--package", "hearth", "--tests"])
        .env("HEARTH_SEED", seed.to_string())
        .env("PROPTEST_RNG_SEED", seed.to_string());
    process::run(&mut model).map_err(again)?;
    for (package, suite) in SUITES {
        let mut test = process::cargo();
        test.args(["test", "--package", package, "--test", suite])
            .env("HEARTH_SEED", seed.to_string());
        process::run(&mut test).map_err(again)?;
    }
    Ok(())
}
