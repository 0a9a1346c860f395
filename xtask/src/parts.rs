//! The parts of a run of the tests: programs that `cargo test` builds, and commands of cargo.

use crate::process;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One thing that runs by itself and whose output is shown as one block.
pub struct Part {
    /// What it is called in the list of the slowest.
    pub name: String,
    /// What runs.
    pub command: Command,
    /// What runs a single test of it, but for the name of the test, or with `{}` for that.
    pub again: String,
    /// Whether nothing else may run beside it.
    pub alone: bool,
    /// Its place in [`LONG`], or [`LAST`]: what is taken first where two run at a time.
    pub rank: usize,
}

/// Test programs that measure time or fill the machine: package and target. A part that is not
/// named here may run beside one other.
const ALONE: &[(&str, &str)] = &[
    ("hearth-sync", "hearth_sync"),
    ("hearth-sync", "profile"),
    ("hearth-sched", "*"),
    ("hearth-bench", "hearth_bench"),
    ("hearth-bench", "soak"),
    ("hearth-bench", "soak_heat"),
    ("hearth-bench", "sched"),
    ("hearth-conflicts", "conflicts"),
    ("hearth", "background"),
    ("hearth", "lock_profile"),
    ("hearth-fuse", "parked"),
    ("hearth-cli", "memory_back"),
    ("hearth-cli", "sched"),
    ("hearth-cli", "sched_weights"),
    ("hearth-cli", "stress"),
    ("hearth-cli", "kill"),
    ("hearth-cli", "locks"),
];

/// Test programs that run for minutes, the longest first. One that is taken last runs when there is
/// nothing left to run beside it.
const LONG: &[(&str, &str)] = &[
    ("hearth-cli", "suite"),
    ("hearth-bench", "instructions"),
    ("hearth-cli", "host_cases"),
    ("hearth-cli", "store_cases"),
    ("hearth-cli", "pjdfstest"),
];

/// The rank of what is not long.
pub const LAST: usize = LONG.len();

/// Builds all test programs of the workspace and names them.
///
/// # Errors
/// The build fails; cargo has said why.
pub fn build() -> Result<Vec<Part>, String> {
    let mut build = process::cargo();
    build.args(["test", "--workspace", "--no-run"]);
    programs(build)
}

/// Builds the test program of a target that needs a feature.
///
/// # Errors
/// The build fails; cargo has said why.
pub fn build_with(package: &str, feature: &str, target: &str) -> Result<Vec<Part>, String> {
    let mut build = process::cargo();
    build.args(["test", "--no-run", "--package", package]);
    // Nothing is built that the feature has no use for, as the stores of the library.
    build.args([
        "--no-default-features",
        "--features",
        feature,
        "--test",
        target,
    ]);
    let mut parts = programs(build)?;
    for part in &mut parts {
        part.name = format!("{} with {feature}", part.name);
        part.again = format!(
            "cargo test --package {package} --no-default-features --features {feature} --test \
             {target}"
        );
    }
    Ok(parts)
}

/// The examples of the documentation, which cargo compiles and runs itself.
pub fn documentation() -> Part {
    let mut command = process::cargo();
    command.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
    Part {
        name: "examples of the documentation".into(),
        again: process::line(&command),
        command,
        alone: false,
        rank: LAST,
    }
}

/// Builds the conflict checker, whose tests run alone: what they find built takes them no time.
pub fn conflict_checker() -> Part {
    let mut command = Command::new(crate::place::target().join("debug/hearth-bench"));
    command.arg("seeds-build").env("CARGO_INCREMENTAL", "0");
    Part {
        name: "building the conflict checker".into(),
        again: process::line(&command),
        command,
        alone: false,
        rank: LAST,
    }
}

/// A verb of this program, in a process of its own.
pub fn chore(verb: &str) -> Part {
    let me = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut command = Command::new(me);
    command.arg(verb).env(process::IS_BUILT, "1");
    Part {
        name: verb.to_owned(),
        again: format!("cargo xtask {verb}"),
        command,
        alone: true,
        rank: LAST,
    }
}

fn programs(mut build: Command) -> Result<Vec<Part>, String> {
    build.arg("--message-format=json-render-diagnostics");
    let line = process::line(&build);
    println!("$ {line}");
    let output = build.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("`{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` ended with {}", output.status));
    }
    named(&String::from_utf8_lossy(&output.stdout))
        .ok_or(format!("`{line}` named no program of tests"))
}

/// The programs that cargo's messages name; `None` if there are none, so that a run without tests
/// does not pass.
fn named(messages: &str) -> Option<Vec<Part>> {
    let parts: Vec<Part> = messages.lines().filter_map(program).collect();
    (!parts.is_empty()).then_some(parts)
}

/// The program that one of cargo's messages says it has built, if it is one of tests.
fn program(message: &str) -> Option<Part> {
    let executable = PathBuf::from(field(message, "executable")?);
    // The target says as well whether it may be tested.
    let (_, profile) = message.split_once("\"profile\":{")?;
    if !profile.split('}').next()?.contains("\"test\":true") {
        return None;
    }
    let manifest = PathBuf::from(field(message, "manifest_path")?);
    let package = crate::crates::parse(&std::fs::read_to_string(&manifest).ok()?).0;
    let (_, target) = message.split_once("\"target\":")?;
    let (kind, name) = (first_of(target, "kind")?, field(target, "name")?);
    let flag = match kind.as_str() {
        "test" => format!("--test {name}"),
        "bin" => format!("--bin {name}"),
        "example" => format!("--example {name}"),
        _ => "--lib".to_owned(),
    };
    let dir = manifest.parent()?;
    let is_it = |&(p, t): &(&str, &str)| p == package && (t == "*" || t == name);
    Some(Part {
        name: format!("{package} {flag}"),
        alone: ALONE.iter().any(is_it),
        rank: LONG.iter().position(is_it).unwrap_or(LAST),
        again: format!("cargo test --package {package} {flag}"),
        command: in_package(&executable, dir),
    })
}

/// A program, as cargo starts it.
fn in_package(executable: &Path, dir: &Path) -> Command {
    let mut command = Command::new(executable);
    command
        .current_dir(dir)
        .env("CARGO_MANIFEST_DIR", dir)
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null());
    if std::env::var_os("CARGO").is_none() {
        command.env("CARGO", "cargo");
    }
    command
}

/// The value of the first field of that name, if it is a text.
fn field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

/// The first text in the first list of that name.
fn first_of(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":[\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::root;

    fn message(kind: &str, name: &str, tests: bool) -> String {
        let manifest = root().join("xtask/Cargo.toml");
        let manifest = manifest.display();
        let target = format!("{{\"kind\":[\"{kind}\"],\"name\":\"{name}\",\"test\":true}}");
        format!(
            "{{\"manifest_path\":\"{manifest}\",\"target\":{target},\
             \"profile\":{{\"test\":{tests}}},\"executable\":\"/t/{name}-83\"}}"
        )
    }

    #[test]
    fn a_program_of_tests_is_run_in_its_package_and_can_be_run_again() {
        let part = program(&message("test", "mount", true)).expect("a part");
        assert_eq!(part.again, "cargo test --package xtask --test mount");
        assert_eq!(part.command.get_current_dir(), Some(&*root().join("xtask")));
        assert_eq!(part.command.get_program(), "/t/mount-83");
        let unit = program(&message("lib", "hearth", true)).expect("a part");
        assert_eq!(unit.again, "cargo test --package xtask --lib");
    }

    #[test]
    fn what_is_no_program_of_tests_is_left_out() {
        assert!(program(&message("bin", "hearth", false)).is_none());
        let finished = "{\"reason\":\"build-finished\",\"success\":true}";
        assert!(program(finished).is_none() && named(finished).is_none());
    }

    /// A name that has changed would be run beside others, and fail now and then, or too late.
    #[test]
    fn each_program_that_runs_alone_or_long_is_there() {
        for (package, target) in ALONE.iter().chain(LONG) {
            let member = crate::crates::members();
            let member = member.into_iter().find(|member| member.name == *package);
            let dir = member.unwrap_or_else(|| panic!("no {package}")).dir;
            let library = target.replace('_', "-") == *package;
            let file = dir.join("tests").join(format!("{target}.rs"));
            let folder = dir.join("tests").join(target).join("main.rs");
            let is_there = *target == "*" || library || file.is_file() || folder.is_file();
            assert!(is_there, "{package} has no test {target}");
        }
    }
}
