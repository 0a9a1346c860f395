//! Counting the instructions of one function under valgrind's callgrind.
//!
//! Under valgrind a thread has no restartable-sequence area and its clock is a system call, so a
//! count is some instructions off what the processor executes; it is the same every time.

use crate::valgrind::missing;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The C library picks its copying functions by the processor; these choices every x86-64 has.
const TUNABLES: &str =
    "glibc.cpu.hwcaps=-AVX_Usable,-AVX2_Usable,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM";

/// An error in a build without optimisation, whose counts mean nothing.
pub fn only_in_release(verb: &str) -> Result<(), String> {
    match cfg!(debug_assertions) {
        true => Err(format!(
            "counts mean the release profile: cargo xtask bench {verb}"
        )),
        false => Ok(()),
    }
}

/// Runs this program with `args` under callgrind; returns the instructions of each of the `calls`
/// calls that it makes of `function`, which is named as callgrind demangles it.
pub fn totals(function: &str, args: &[String], calls: usize) -> Result<Vec<u64>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    totals_of(&program, function, args, calls)
}

/// Counts as [`totals`] does, in `program`, another build of this one.
pub fn totals_of(
    program: &Path,
    function: &str,
    args: &[String],
    calls: usize,
) -> Result<Vec<u64>, String> {
    let dir = Scratch::new()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--dump-after={function}"))
        .arg(format!(
            "--callgrind-out-file={}",
            dir.0.join("out").display()
        ))
        .arg(program)
        .args(args)
        .env("GLIBC_TUNABLES", TUNABLES)
        .output();
    let output = output.map_err(missing)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind: {}: {}", output.status, said.trim()));
    }
    (1..=calls)
        .map(|n| total(&dir.0.join(format!("out.{n}"))))
        .collect()
}

/// The sum in one file of callgrind: its line `totals:` or `summary:`.
fn total(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    sum(&text).ok_or_else(|| format!("{}: no sum in it", path.display()))
}

fn sum(text: &str) -> Option<u64> {
    let number = |line: &str| {
        let number = line
            .strip_prefix("totals: ")
            .or(line.strip_prefix("summary: "))?;
        number.trim().parse().ok()
    };
    text.lines().find_map(number)
}

/// A directory that goes away with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, String> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only that each is another counts.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("hearth-test-{}-callgrind-{number}", std::process::id());
        let place = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        Ok(Scratch(place))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_file_is_found() {
        let text = "# callgrind format\nevents: Ir\nfn=(1) x\n12 3\n\ntotals: 4711\n";
        assert_eq!(sum(text), Some(4711));
        assert_eq!(sum("events: Ir\n"), None);
    }
}
