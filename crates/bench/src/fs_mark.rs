//! The program fs_mark.

use crate::failure::Context;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// One round as fs_mark prints it.
pub struct Round {
    /// Percent of the volume that is used.
    pub used: f64,
    /// Files so far.
    pub count: u64,
    pub per_second: f64,
    /// Microseconds outside the calls that are measured.
    pub overhead: f64,
}

/// Why it cannot be run.
pub fn missing() -> Option<&'static str> {
    let mut fs_mark = Command::new("fs_mark");
    let started = fs_mark
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    started
        .is_err()
        .then_some("fs_mark is missing; cargo xtask install-tools installs it")
}

/// Runs it with `args` in `place`: tasks, each with a directory of its own, files of each, rounds.
pub fn run(
    place: &Path,
    args: &[&str],
    (tasks, files, rounds): (usize, usize, usize),
    user: Option<u32>,
) -> Result<Vec<Round>, String> {
    let mut command = Command::new("fs_mark");
    command.args(args).args(["-n", &files.to_string()]);
    for task in 0..tasks {
        // From where it stands: it takes no path of more than 40 bytes.
        command.arg("-d").arg(task.to_string());
    }
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    // It writes its log where it stands.
    let output = command.current_dir(place).output().context("fs_mark")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Vec<Round> = text.lines().filter_map(round).collect();
    match output.status.success() && found.len() == rounds {
        true => Ok(found),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or(text.trim());
            Err(format!("fs_mark: {}: {said}", output.status))
        }
    }
}

/// A line of figures: FSUse%, Count, Size, Files/sec, App Overhead.
fn round(line: &str) -> Option<Round> {
    let mut words = line.split_whitespace();
    let mut next = || words.next()?.parse::<f64>().ok();
    let (used, count, _size) = (next()?, next()?, next()?);
    Some(Round {
        used,
        count: count as u64,
        per_second: next()?,
        overhead: next()?,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_of_figures_is_read_and_others_are_not() {
        let line = "    83          400            1      34143.0              944";
        let round = super::round(line).unwrap();
        assert_eq!((round.used, round.count), (83.0, 400));
        assert_eq!((round.per_second, round.overhead), (34143.0, 944.0));
        assert!(super::round("FSUse%        Count         Size    Files/sec").is_none());
        assert!(super::round("#  fs_mark  -D  100").is_none());
    }
}
