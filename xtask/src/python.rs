//! The Python tests: a wheel, a fresh virtual environment, and pytest.

use crate::parts::{self, Part};
use crate::{place, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest minor version of Python 3 that the wheel is for.
const MINOR_MIN: u32 = 11;

/// What the tests are made with, with versions.
const REQUIREMENTS: &str = "crates/python/tests/requirements.txt";

/// Another version of one of them, in a folder of its own in the environment.
const OLDEST: (&str, &str) = (
    "crates/python/tests/requirements-oldest-grafana.txt",
    "oldest-grafana",
);

/// What `cargo xtask test` runs beside the test programs.
pub fn part() -> Part {
    let part = parts::chore("python");
    Part {
        name: "Python".to_owned(),
        again: format!("{} {{}}", part.again),
        alone: false,
        ..part
    }
}

/// `cargo xtask python`: makes a virtual environment with the wheel in it, and runs pytest with
/// arguments of its own. Paths are relative to its folder.
///
/// # Errors
/// What is missing or fails, in one line; the programs have said why.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let folder = place::target().join("python");
    let python = environment(&folder.join("venv"))?;
    install_wheel(&python, &folder.join("wheels"), "dev")?;
    let mut pytest = Command::new(&python);
    // From there, so that the package that is tested is the one that was installed.
    pytest
        .current_dir(place::root().join("crates/python/tests"))
        .args(["-m", "pytest", "--cargo"])
        .args(arguments);
    process::run(&mut pytest)
}

/// `cargo xtask bench python`: calls from Python against those of os and of fsspec on a tmpfs.
///
/// # Errors
/// What is missing or fails.
pub fn bench(arguments: &[String]) -> Result<(), String> {
    let folder = place::target().join("python");
    let python = environment(&folder.join("venv"))?;
    install_wheel(&python, &folder.join("wheels"), "release")?;
    let mut bench = Command::new(&python);
    bench
        .current_dir(place::root())
        .arg("crates/python/bench/bench.py")
        .args(["--commit", &commit()])
        .args(arguments);
    process::run(&mut bench)
}

/// Builds the wheel that is given away, sees that it can be installed and imported, and puts it
/// into `folder`.
///
/// # Errors
/// What is missing or fails.
pub fn release_wheel(folder: &Path) -> Result<(), String> {
    let work = folder.join("python");
    let python = environment(&work.join("venv"))?;
    let wheels = work.join("wheels");
    install_wheel(&python, &wheels, "release")?;
    process::run(Command::new(&python).args(["-c", "import hearth_fs"]))?;
    process::run(
        Command::new("cp")
            .arg("-r")
            .arg(wheels.join("."))
            .arg(folder),
    )?;
    std::fs::remove_dir_all(&work).map_err(|error| format!("{work:?}: {error}"))
}

/// The commit that is checked out, as people write it.
fn commit() -> String {
    let mut git = Command::new("git");
    let git = git.current_dir(place::root());
    let output = git.args(["rev-parse", "--short", "HEAD"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or("unknown".into())
}

/// The Python of a new virtual environment with the requirements.
fn environment(folder: &Path) -> Result<PathBuf, String> {
    let system = process::installed("python3").ok_or("there is no python3: install it")?;
    let version = version(&system)?;
    if version < (3, MINOR_MIN) {
        let (major, minor) = version;
        return Err(format!(
            "python3 is {major}.{minor}: 3.{MINOR_MIN} or later is needed"
        ));
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| format!("{folder:?}: {error}"))?;
    }
    let make = || {
        let mut make = Command::new(&system);
        process::run(make.args(["-m", "venv"]).arg(folder))
    };
    // Debian has pip for virtual environments in a package of its own.
    make().or_else(|what| {
        if process::installed("apt-get").is_none() || !process::is_root() {
            return Err(format!("{what}: install python3-venv"));
        }
        let mut install = Command::new("apt-get");
        process::run(install.args(["-qq", "-y", "install", "python3-venv"]))?;
        make()
    })?;
    let python = folder.join("bin/python");
    pip(&python, &["--requirement", REQUIREMENTS])?;
    let (list, place) = OLDEST;
    let place = folder.join(place).display().to_string();
    pip(
        &python,
        &["--no-deps", "--target", &place, "--requirement", list],
    )?;
    Ok(python)
}

/// Builds the wheel and installs it.
fn install_wheel(python: &Path, folder: &Path, profile: &str) -> Result<(), String> {
    // One wheel, so that its name need not be known.
    let _ = std::fs::remove_dir_all(folder);
    let mut build = Command::new(python.with_file_name("maturin"));
    build
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .args([
            "--manifest-path",
            "crates/python/Cargo.toml",
            "--interpreter",
        ])
        .arg(python)
        .arg("--out")
        .arg(folder)
        .current_dir(place::root())
        .env("CARGO_INCREMENTAL", "0");
    if profile == "dev" {
        build.args(["--features", "shared"]);
    }
    process::run(&mut build)?;
    let found = std::fs::read_dir(folder).map_err(|error| format!("{folder:?}: {error}"))?;
    let wheels: Vec<String> = found
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .collect();
    match &wheels[..] {
        [wheel] => pip(python, &["--no-deps", wheel]),
        _ => Err(format!("{folder:?} holds {} wheels", wheels.len())),
    }
}

fn pip(python: &Path, what: &[&str]) -> Result<(), String> {
    let mut install = Command::new(python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            // What is imported is compiled then; most of it never is.
            "--no-compile",
        ])
        .args(what)
        .current_dir(place::root());
    process::run(&mut install)
}

/// Major and minor version of a Python.
fn version(python: &Path) -> Result<(u32, u32), String> {
    let program = "import sys; print(*sys.version_info[:2])";
    let output = Command::new(python).args(["-c", program]).output();
    let output = output.map_err(|error| format!("{}: {error}", python.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers
        .next()
        .zip(numbers.next())
        .ok_or(format!("{} does not run", python.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_requirement_is_of_one_version() {
        let read = |list: &str| std::fs::read_to_string(place::root().join(list)).expect("a list");
        let text = read(REQUIREMENTS) + &read(OLDEST.0);
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        assert!(lines().count() > 5);
        for line in lines() {
            assert!(line.contains("=="), "{line}");
        }
        for needed in ["maturin", "pytest", "fsspec"] {
            assert!(lines().any(|line| line.starts_with(needed)), "{needed}");
        }
    }

    #[test]
    fn a_version_is_read_and_what_is_no_python_is_said() {
        let python = process::installed("python3").expect("python3");
        assert_eq!(version(&python).expect("a version").0, 3);
        let said = version(Path::new("/bin/true")).expect_err("no version");
        assert_eq!(said, "/bin/true does not run");
    }
}
