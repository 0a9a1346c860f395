//! The release: built, packed, and shown to run where there is nothing else.

use super::{artefacts, components, folder, package, trial};
use crate::{place, process, python};
use std::path::Path;
use std::process::Command;

/// Glibc, since musl's functions on memory are several times slower. A target that is named keeps
/// the flag away from what runs while compiling.
const FLAGS: &str = "-C target-feature=+crt-static";

/// Makes everything in `target/dist/release`.
///
/// # Errors
/// The first step that fails.
pub fn make() -> Result<(), String> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked", "--package", "hearth-cli"]);
    process::run(
        build
            .args(["--target", artefacts::TARGET])
            .env("RUSTFLAGS", FLAGS),
    )?;
    let program = place::target()
        .join(artefacts::TARGET)
        .join("release/hearth");
    let folder = folder("release");
    let package = package::make(&folder, &program, false)?;
    match process::is_root() {
        true => trial::of(&package)?,
        false => println!("not root: the package is not tried"),
    }
    let name = tarball(&folder)?;
    components::list(&folder, &name)?;
    python::release_wheel(&folder)?;
    tidy(&folder)?;
    artefacts::sums(&folder)?;
    artefacts::check(&folder)?;
    println!("\nin {}:", place::shown(&folder));
    process::run(Command::new("cat").arg(folder.join("SHA256SUMS")))
}

/// Packs what the package has, for other systems; returns the name without its ending.
fn tarball(folder: &Path) -> Result<String, String> {
    let name = artefacts::name()?;
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "-czf",
    ]);
    tar.arg(folder.join(format!("{name}.tar.gz")));
    tar.arg(format!("--transform=s,^files,{name},"));
    process::run(tar.arg("-C").arg(folder.join("hearth")).arg("files"))?;
    Ok(name)
}

/// Takes away what was for making the package.
fn tidy(folder: &Path) -> Result<(), String> {
    let remove = "rm -rf hearth *.buildinfo *.changes";
    process::run(Command::new("sh").args(["-ec", remove]).current_dir(folder))
}
