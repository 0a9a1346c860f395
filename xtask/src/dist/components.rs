//! The list of components (SBOM), in CycloneDX's format.

use super::stage;
use crate::{install, place, process};
use std::path::Path;
use std::process::Command;

/// Writes `NAME.cdx.json` into `folder`: every crate in the program with version, licence, sum.
///
/// # Errors
/// The tool cannot be installed, or fails.
pub fn list(folder: &Path, name: &str) -> Result<(), String> {
    install::lister()?;
    // The tool leaves a file beside each manifest, so it works on a copy.
    let copy = folder.join("components");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    for part in ["Cargo.toml", "Cargo.lock", "crates", "xtask"] {
        let from = place::root().join(part);
        process::run(Command::new("cp").arg("-a").arg(from).arg(&copy))?;
    }
    let mut lister = Command::new(place::tools().join("bin/cargo-cyclonedx"));
    lister.args(["cyclonedx", "--format", "json", "--spec-version", "1.5"]);
    lister.args(["--no-build-deps", "--target", "x86_64-unknown-linux-gnu"]);
    process::run(lister.current_dir(&copy))?;
    let made = stage::only(&copy.join("crates/cli"), ".json")?;
    let list = folder.join(format!("{name}.cdx.json"));
    // Where it was made is nobody's concern.
    let text = super::read(&made)?.replace(&*copy.to_string_lossy(), "");
    std::fs::write(&list, text).map_err(|error| format!("{}: {error}", list.display()))?;
    std::fs::remove_dir_all(&copy).map_err(|error| format!("{}: {error}", copy.display()))
}
