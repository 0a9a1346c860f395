//! The Debian package, by debhelper.

use super::{folder, stage};
use crate::{place, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether a package is made, or tried, with this program.
pub fn needs(program: &str) -> bool {
    ["debootstrap", "dh", "lintian", "dpkg-buildpackage"].contains(&program)
}

/// Makes the package around the program that the tests have built; returns its file.
///
/// # Errors
/// There is no program, or those of [`make`].
pub fn of_tests() -> Result<PathBuf, String> {
    let program = place::target().join("debug/hearth");
    if !program.is_file() {
        return Err("no program is built; use `cargo build --package hearth-cli`".to_owned());
    }
    make(&folder("dev"), &program, true)
}

/// Makes the package of a program in `folder`, beside its tree `hearth`; a quick one is packed
/// loosely. Returns its file.
///
/// # Errors
/// A step fails, or lintian finds an error.
pub fn make(folder: &Path, program: &Path, is_quick: bool) -> Result<PathBuf, String> {
    // Another version would stay beside it.
    let _ = std::fs::remove_dir_all(folder);
    let whole = folder.join("hearth");
    stage::make(&whole, program)?;
    let mut build = Command::new("dpkg-buildpackage");
    build.args([
        "--build=binary",
        "--no-sign",
        "--no-check-builddeps",
        "--no-pre-clean",
    ]);
    if is_quick {
        build.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip");
        build.env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    }
    process::run(build.current_dir(&whole))?;
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error", "--allow-root"]);
    process::run(lintian.arg(stage::only(folder, ".changes")?))?;
    stage::only(folder, ".deb")
}
