//! Building `hearth-conflicts` with the compiler's ThreadSanitizer pass, and running it.

use crate::failure::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only platform whose target name is known here; the pass needs one to leave build scripts
/// alone.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// `-Zexternal-clangrt` keeps the real runtime out. std is linked as it comes, without the pass:
/// hence the last flag.
const FLAGS: &str = concat!(
    "-Zsanitizer=thread -Zexternal-clangrt ",
    "-Cunsafe-allow-abi-mismatch=sanitizer ",
    // Names of functions with their types.
    "-Csymbol-mangling-version=v0 ",
    // Pages are copied by loads and stores that the pass sees.
    "--cfg recorded"
);

/// Builds the runner in a target directory of its own.
///
/// # Errors
/// One line that says what failed.
pub fn build() -> Result<PathBuf, String> {
    let target = target_dir().join("conflicts");
    let mut build = release_build("hearth-conflicts");
    build
        .args(["--features", "recorder", "--target", TARGET])
        .env("CARGO_TARGET_DIR", &target)
        // Functions stay apart, so that an access is told with the one that makes it.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        // The pass is not a stable flag; the compiler is the ordinary one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    succeed(build, "the conflict runner")?;
    Ok(target.join(TARGET).join("release/hearth-conflicts"))
}

/// Builds and runs it with `args`.
///
/// # Errors
/// One line that says what failed.
pub fn run(args: &[String]) -> Result<(), String> {
    let program = build()?;
    let mut runner = Command::new(&program);
    runner.args(args);
    if args.iter().any(|arg| arg == "--check") {
        runner.arg("--traced").arg(build_traced()?);
    }
    let status = runner.status().at(&program)?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("hearth-conflicts: {status}"))
    }
}

/// Builds the program that a memory trace runs, as programs are built that no tool watches.
fn build_traced() -> Result<PathBuf, String> {
    succeed(release_build("hearth-traced"), "the program to trace")?;
    Ok(target_dir().join("release/hearth-traced"))
}

/// Cargo, told to build a program of the checker with the release profile.
fn release_build(program: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(workspace())
        .args(["build", "--quiet", "--release"])
        .args(["--package", "hearth-conflicts", "--bin", program])
        .env("CARGO_INCREMENTAL", "0");
    build
}

fn succeed(mut build: Command, what: &str) -> Result<(), String> {
    let status = build.status().context("cargo")?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("building {what}: {status}")),
    }
}

fn target_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace().join(target)
}

fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
