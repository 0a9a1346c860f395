//! The daemon's lock profile while something runs, by `hearth locks`.

use crate::seeds::contender::program;
use std::path::Path;
use std::process::Command;

/// Runs `work` with the lock profile of the volume at `mount` on; answers the profile's table.
///
/// # Errors
/// The profile cannot be switched, or the work fails.
pub fn record(mount: &Path, work: impl FnOnce() -> Result<(), String>) -> Result<String, String> {
    let switch = mount.join(".hearth/locks");
    let turn = |word: &str| {
        let written = std::fs::write(&switch, word);
        written.map_err(|error| format!("{}: {error}", switch.display()))
    };
    turn("on")?;
    let worked = work();
    turn("off")?;
    worked?;
    let mut locks = Command::new(program());
    let output = locks.arg("locks").arg(mount).output();
    let output = output.map_err(|error| format!("hearth locks: {error}"))?;
    let said = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    let said = String::from_utf8_lossy(&said).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!("hearth locks: {}", said.trim())),
    }
}
