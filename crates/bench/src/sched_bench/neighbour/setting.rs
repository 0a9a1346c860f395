//! Weights and ceilings of tenants, by the program `hearth`.

use crate::seeds::contender::program;
use std::path::Path;
use std::process::Command;

/// Gives a user of the mount a weight.
///
/// # Errors
/// What the program says.
pub fn weight(mount: &Path, uid: u32, weight: u32) -> Result<(), String> {
    hearth_sched(
        mount,
        &["weight", &format!("user:{uid}"), &weight.to_string()],
    )
}

/// Holds a user of the mount to so many operations a second.
///
/// # Errors
/// What the program says.
pub fn operations(mount: &Path, uid: u32, limit: u32) -> Result<(), String> {
    let who = format!("user:{uid}");
    hearth_sched(mount, &["limit", &who, "--iops", &limit.to_string()])
}

fn hearth_sched(mount: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program());
    command.arg("sched").args(words).arg(mount);
    let output = command.output();
    let output = output.map_err(|error| format!("hearth sched: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said
        .lines()
        .next()
        .unwrap_or("hearth sched failed")
        .to_owned())
}
