//! The release: built, packed, and shown to run where there is nothing else.

use super::{components, folder, package, stage, trial, version};
use crate::{place, process, python};
use std::path::Path;
use std::process::Command;

/// Glibc, since musl's functions on memory are several times slower. A target that is named keeps
/// the flag away from what runs while compiling.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-C target-feature=+crt-static";

/// Makes everything in `target/dist/release`.
///
/// # Errors
/// The first step that fails.
pub fn make() -> Result<(), String> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked", "--package", "hearth-cli"]);
    process::run(build.args(["--target", TARGET]).env("RUSTFLAGS", FLAGS))?;
    let program = place::target().join(TARGET).join("release/hearth");
    is_static(&program)?;
    let folder = folder("release");
    let package = package::make(&folder, &program, false)?;
    if process::is_root() {
        trial::of(&package)?;
        runs_alone(&folder)?;
    } else {
        println!("not root: the package and the program alone are not tried");
    }
    let name = tarball(&folder)?;
    components::list(&folder, &name)?;
    python::release_wheel(&folder)?;
    sums(&folder)?;
    println!("\nin {}:", place::shown(&folder));
    process::run(Command::new("cat").arg(folder.join("SHA256SUMS")))
}

/// Refuses a program that needs a loader.
fn is_static(program: &Path) -> Result<(), String> {
    let headers = stage::output(Command::new("readelf").args(["-lW"]).arg(program))?;
    match headers.contains("INTERP") {
        true => Err(format!("{}: is not static", program.display())),
        false => Ok(()),
    }
}

/// The image of the Dockerfile has the program and nothing else. There it says its version, and
/// that there is no such user: the names of users are asked of nobody.
fn runs_alone(folder: &Path) -> Result<(), String> {
    let image = folder.join("image");
    std::fs::create_dir_all(&image).map_err(|error| format!("{}: {error}", image.display()))?;
    let hearth = folder.join("hearth/files/bin/hearth");
    process::run(Command::new("cp").arg(hearth).arg(image.join("hearth")))?;
    let inside = |words: &[&str]| {
        let mut chroot = Command::new("chroot");
        chroot.arg(&image).arg("/hearth").args(words);
        chroot
    };
    process::run(&mut inside(&["version"]))?;
    let wrong = inside(&["quota", "set", "user:nobody", "--hard", "1M", "/"]).output();
    let wrong = wrong.map_err(|error| format!("chroot: {error}"))?;
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    if !said.contains("no user 'nobody' on this machine") {
        return Err(format!(
            "looking up a user where there is none: {}: {said}",
            wrong.status
        ));
    }
    std::fs::remove_dir_all(&image).map_err(|error| format!("{}: {error}", image.display()))
}

/// Packs what the package has, for other systems; returns the name without its ending.
fn tarball(folder: &Path) -> Result<String, String> {
    let name = format!("hearth-{}-x86_64-linux", version()?);
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

/// SHA-256 of each file that is given away.
fn sums(folder: &Path) -> Result<(), String> {
    let sums = "sha256sum *.deb *.tar.gz *.json *.whl > SHA256SUMS
                sha256sum --check --quiet SHA256SUMS";
    let mut shell = Command::new("sh");
    process::run(shell.args(["-ec", sums]).current_dir(folder))
}
