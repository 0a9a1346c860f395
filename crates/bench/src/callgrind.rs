//! Counting the instructions of one function under valgrind's callgrind.
//!
//! Under valgrind a thread has no restartable-sequence area and its clock is a system call, so a
//! count is some instructions off what the processor executes; it is the same every time.

mod locked;

use crate::failure::Context;
use crate::valgrind::missing;
use hearth_testing::place::Place;
use locked::Images;
use std::path::Path;
use std::process::Command;

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

/// What callgrind counts, which knows this function by its name.
#[inline(never)]
pub fn counted(work: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
    work()
}

/// [`counted`], as callgrind demangles it.
const COUNTED: &str = "hearth_bench::callgrind::counted";

/// Runs this program with `args` under callgrind; returns the instructions of each of the `calls`
/// calls that it makes of [`counted`].
pub fn totals(args: &[String], calls: usize) -> Result<Vec<u64>, String> {
    totals_of(&std::env::current_exe().text()?, args, calls)
}

/// What one call of a counted function took.
#[derive(Clone, Copy, Debug)]
pub struct CallCounts {
    pub instructions: u64,
    /// Instructions that lock a cache line, and full barriers.
    pub locked: u64,
}

/// Counts as [`totals`] does, and tells which of the instructions lock.
pub fn counts_of(program: &Path, args: &[String], calls: usize) -> Result<Vec<CallCounts>, String> {
    let by_instruction = [
        "--dump-instr=yes",
        "--compress-strings=no",
        "--compress-pos=no",
    ];
    let files = run(program, args, &by_instruction)?;
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
pub fn totals_of(program: &Path, args: &[String], calls: usize) -> Result<Vec<u64>, String> {
    let files = run(program, args, &[])?;
    (1..=calls).map(|n| files.total(n)).collect()
}

/// Runs `program` under callgrind, which writes one file for each call of [`counted`].
fn run(program: &Path, args: &[String], options: &[&str]) -> Result<Counts, String> {
    let place = Place::new("callgrind").text()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .args(options)
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--dump-after={COUNTED}"))
        .arg(format!(
            "--callgrind-out-file={}",
            place.path().join("out").display()
        ))
        .arg(program)
        .args(args)
        .env("GLIBC_TUNABLES", TUNABLES)
        .output()
        .map_err(missing)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind: {}: {}", output.status, said.trim()));
    }
    Ok(Counts(place))
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

/// The files that callgrind has written.
struct Counts(Place);

impl Counts {
    /// The text of the file of call number `n`, from 1 on.
    fn read(&self, n: usize) -> Result<String, String> {
        let path = self.0.path().join(format!("out.{n}"));
        std::fs::read_to_string(&path).at(&path)
    }

    /// The instructions of call number `n`.
    fn total(&self, n: usize) -> Result<u64, String> {
        sum(&self.read(n)?).ok_or_else(|| format!("call {n}: no sum in callgrind's file"))
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
