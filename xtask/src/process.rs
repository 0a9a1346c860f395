//! Running other programs and saying so.

use std::path::PathBuf;
use std::process::Command;

/// Cargo, the one that started us, in the root of the repository.
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(crate::place::root())
        .env("CARGO_INCREMENTAL", "0");
    command
}

/// Set for the verbs that the tests run, whose programs they have built already, with the features
/// of all crates.
pub const IS_BUILT: &str = "HEARTH_IS_BUILT";

/// Builds the program `hearth`, unless it is.
///
/// # Errors
/// It does not build.
pub fn build_program() -> Result<(), String> {
    let is_built = std::env::var_os(IS_BUILT).is_some();
    match is_built && crate::place::target().join("debug/hearth").is_file() {
        true => Ok(()),
        false => run(cargo().args(["build", "--package", "hearth-cli"])),
    }
}

/// Prints the command and runs it.
///
/// # Errors
/// One line that names the command when it cannot start or does not end with success.
pub fn run(command: &mut Command) -> Result<(), String> {
    let line = line(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}")),
        Err(error) => Err(format!("`{line}` cannot be started: {error}")),
    }
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let mut words = vec![name(command)];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

fn name(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    program.file_name().map_or_else(
        || program.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The program's place in `PATH` (or the administrator's directories), if it is installed.
pub fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// Whether this process is the superuser.
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|ids| ids.split_whitespace().nth(1)?.parse::<u32>().ok())
        == Some(0)
}
