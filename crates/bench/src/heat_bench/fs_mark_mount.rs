//! The program fs_mark on a mount whose heat is switched between its runs. What it costs is the
//! processor time of the daemon per file, from the file's making to its removal.

use super::fs_mark::{Line, seed_table};
use super::random::Random;
use super::sides::{Measured, block};
use crate::cpu_time::of_process;
use crate::mounted::Mounted;
use crate::pair::{Pair, Side};
use crate::patience::beat;
use crate::row::Row;
use crate::seeds::contender::program;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Tasks, each with a root of its own.
const ROOTS: usize = 4;
/// Of so many blocks one is a control.
const CONTROL: usize = 3;

/// One round as fs_mark prints it.
struct Round {
    used: f64,
    count: u64,
    per_second: f64,
    overhead: f64,
}

/// Runs it with heat on and off in turns and prints the seed's table.
///
/// # Errors
/// There is no fs_mark or it cannot be mounted: says what to do.
pub fn compare(
    blocks: usize,
    quick: bool,
    rows: &mut Vec<Row>,
) -> Result<(String, Measured), String> {
    let (each, rounds) = if quick { (250, 2) } else { (1_000, 4) };
    let mounted = mount()?;
    let daemon = mounted.daemon().ok_or("the mount has no daemon")?;
    let base = mounted.directory().join("run");
    let switch = mounted.directory().join(".hearth/sys/fs/hot-track");
    let mut random = Random::new(ROOTS as u64);
    let mut lines: Vec<Line> = Vec::new();
    let mut measured = Measured::default();
    let files = (ROOTS * each * rounds) as f64;
    for number in 0..blocks {
        let is_control = (number + 1) % CONTROL == 0;
        for side in block(&mut random) {
            beat();
            let word = if side == Side::With && !is_control {
                "1"
            } else {
                "0"
            };
            let failed = |error| format!("{}: {error}", switch.display());
            std::fs::write(&switch, word).map_err(failed)?;
            let said = std::fs::read_to_string(&switch).map_err(failed)?;
            if said.trim() != word {
                return Err(format!("{} says {said} after {word}", switch.display()));
            }
            let before = of_process(daemon);
            let begin = Instant::now();
            let got = fs_mark(&base, each, rounds)?;
            // What the removals of these files cost is this side's.
            std::fs::remove_dir_all(&base).map_err(|e| format!("{}: {e}", base.display()))?;
            let cpu = (of_process(daemon) - before) / files;
            if is_control {
                measured.control.push(side, cpu);
                continue;
            }
            measured.cpu.push(side, cpu);
            measured.seconds.push(side, begin.elapsed().as_secs_f64());
            let seconds: f64 = got.iter().map(|round| 1.0 / round.per_second).sum();
            measured.speed.push(side, rounds as f64 / seconds);
            if lines.is_empty() {
                lines = got.iter().map(|round| empty(round.count)).collect();
            }
            for (line, round) in lines.iter_mut().zip(&got) {
                line.used.push(side, round.used);
                line.speed.push(side, round.per_second);
                line.overhead.push(side, round.overhead);
            }
        }
    }
    println!("{}", seed_table(&lines));
    eprintln!("measured: fs_mark on a mount");
    let name = "fs_mark on a mount";
    let metric = ("files_per_s", "1/s");
    rows.extend(measured.speed.rows("heat", name, "mount", ROOTS, metric));
    for (round, line) in lines.iter().enumerate() {
        let name = format!("{name}, round {}", round + 1);
        rows.extend(line.speed.rows("heat", &name, "mount", ROOTS, metric));
    }
    Ok((name.to_owned(), measured))
}

fn empty(count: u64) -> Line {
    Line {
        count,
        used: Pair::default(),
        speed: Pair::default(),
        overhead: Pair::default(),
    }
}

fn mount() -> Result<Mounted, String> {
    let program = program();
    let served = Mounted::served("heat", &|mountpoint| {
        let mut daemon = Command::new(&program);
        daemon.args(["mount", "-f", "-o", "transport=dev", "memory:"]);
        daemon.arg(mountpoint);
        daemon
    });
    served.map_err(|what| format!("{what}; it needs /dev/fuse and {}", program.display()))
}

fn fs_mark(base: &Path, each: usize, rounds: usize) -> Result<Vec<Round>, String> {
    let mut command = Command::new("fs_mark");
    command.args(["-D", "100", "-S", "0", "-s", "1"]);
    command.args(["-n", &each.to_string(), "-L", &rounds.to_string()]);
    for root in 0..ROOTS {
        let root = root.to_string();
        let made = base.join(&root);
        std::fs::create_dir_all(&made).map_err(|e| format!("{}: {e}", made.display()))?;
        // From where it stands: it takes no path of more than 40 bytes.
        command.arg("-d").arg(root);
    }
    // It writes its log where it stands.
    let output = command
        .current_dir(base)
        .output()
        .map_err(|error| format!("fs_mark: {error}; cargo xtask install-tools installs it"))?;
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
    use super::*;

    #[test]
    fn a_line_of_figures_is_read_and_others_are_not() {
        let line = "    83          400            1      34143.0              944";
        let round = round(line).unwrap();
        assert_eq!((round.used, round.count), (83.0, 400));
        assert_eq!((round.per_second, round.overhead), (34143.0, 944.0));
        assert!(super::round("FSUse%        Count         Size    Files/sec").is_none());
        assert!(super::round("#  fs_mark  -D  100").is_none());
    }
}
