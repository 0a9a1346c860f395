//! Counting the instructions of one function under valgrind's callgrind.
//!
//! Under valgrind a thread has no restartable-sequence area and its clock is a system call, so a
//! count is some instructions off what the processor executes; it is the same every time.

mod locked;

use crate::valgrind::missing;
use locked::Images;
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

/// What one call of a counted function took.
#[derive(Clone, Copy, Debug)]
pub struct CallCounts {
    pub instructions: u64,
    /// Instructions that lock a cache line, and full barriers.
    pub locked: u64,
}

/// Counts as [`totals`] does, and tells which of the instructions lock.
pub fn counts_of(
    program: &Path,
    function: &str,
    args: &[String],
    calls: usize,
) -> Result<Vec<CallCounts>, String> {
    let by_instruction = [
        "--dump-instr=yes",
        "--compress-strings=no",
        "--compress-pos=no",
    ];
    let files = run(program, function, args, &by_instruction)?;
    let mut images = Images::default();
    let counts = (1..=calls).map(|n| {
        let text = files.read(n)?;
        Ok(CallCounts {
            instructions: files.total(n)?,
            locked: images.locked_in(&text)?,
        })
    });
    counts.collect()
}

/// Counts as [`totals`] does, in `program`, another build of this one.
pub fn totals_of(
    program: &Path,
    function: &str,
    args: &[String],
    calls: usize,
) -> Result<Vec<u64>, String> {
    let files = run(program, function, args, &[])?;
    (1..=calls).map(|n| files.total(n)).collect()
}

/// Runs `program` under callgrind, which writes one file for each call of `function`.
fn run(
    program: &Path,
    function: &str,
    args: &[String],
    options: &[&str],
) -> Result<Scratch, String> {
    let dir = Scratch::new()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .args(options)
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--dump-after={function}"))
        .arg(format!("--callgrind-out-file={}", dir.file().display()))
        .arg(program)
        .args(args)
        .env("GLIBC_TUNABLES", TUNABLES)
        .output();
    let output = output.map_err(missing)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind: {}: {}", output.status, said.trim()));
    }
    Ok(dir)
}

/// The sum in one file of callgrind: its line `totals:` or `summary:`.
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

    /// What callgrind names its files after.
    fn file(&self) -> PathBuf {
        self.0.join("out")
    }

    /// The text of the file of call number `n`, from 1 on.
    fn read(&self, n: usize) -> Result<String, String> {
        let path = self.0.join(format!("out.{n}"));
        std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// The instructions of call number `n`.
    fn total(&self, n: usize) -> Result<u64, String> {
        sum(&self.read(n)?).ok_or_else(|| format!("call {n}: no sum in callgrind's file"))
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
