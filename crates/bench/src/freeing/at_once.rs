//! Building `hearth-bench` with an epoch that frees at once.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds it in a target directory of its own.
///
/// # Errors
/// One line that says what failed.
pub fn build() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = root.join(target).join("at-once");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--release", "--package", "hearth-bench"])
        .args(["--bin", "hearth-bench"])
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTFLAGS", "--cfg hearth_free_at_once")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!("building the program that frees at once: {status}"));
    }
    Ok(target.join("release/hearth-bench"))
}
