//! The program fs_mark on a mount that tracks heat and on one that does not.

use super::fs_mark::{Line, seed_table};
use super::sides::Measured;
use crate::cpu_time::of_process;
use crate::mounted::Mounted;
use crate::pair::{Pair, Side};
use crate::row::Row;
use crate::seeds::contender::program;
use std::path::Path;
use std::process::Command;

/// Tasks, each with a root of its own.
const ROOTS: usize = 4;

/// One round as fs_mark prints it.
struct Round {
    used: f64,
    count: u64,
    per_second: f64,
    overhead: f64,
}

/// Runs it on both mounts in turns and prints the seed's table.
///
/// # Errors
/// There is no fs_mark or it cannot be mounted: says what to do.
pub fn compare(quick: bool, rows: &mut Vec<Row>) -> Result<Vec<(String, Measured)>, String> {
    let (runs, each, rounds) = if quick { (3, 250, 2) } else { (25, 1_000, 4) };
    let mounts = [
        mount(Side::With, "hot_track")?,
        mount(Side::Without, "no_hot_track")?,
    ];
    let mut lines: Vec<Line> = Vec::new();
    let mut measured = vec![Measured::default(); rounds];
    for run in 0..runs {
        for side in Side::both(run) {
            let at = &mounts[usize::from(side == Side::Without)];
            let base = at.directory().join(format!("run-{run}"));
            let daemon = at.daemon().ok_or("the mount has no daemon")?;
            let before = of_process(daemon);
            let got = fs_mark(&base, each, rounds)?;
            let cpu = of_process(daemon) - before;
            if lines.is_empty() {
                lines = got.iter().map(|round| empty(round.count)).collect();
            }
            let files = (ROOTS * each) as f64;
            for ((line, one), round) in lines.iter_mut().zip(&mut measured).zip(&got) {
                line.used.push(side, round.used);
                line.speed.push(side, round.per_second);
                line.overhead.push(side, round.overhead);
                one.speed.push(side, round.per_second);
                one.seconds.push(side, files / round.per_second);
                // The daemon's, of all rounds together.
                one.cpu.push(side, cpu / (files * rounds as f64));
            }
            std::fs::remove_dir_all(&base).map_err(|e| format!("{}: {e}", base.display()))?;
        }
    }
    println!("{}", seed_table(&lines));
    eprintln!("measured: fs_mark on a mount");
    let name = |round: usize| format!("fs_mark on a mount, round {}", round + 1);
    for (round, one) in measured.iter().enumerate() {
        let metric = ("files_per_s", "1/s");
        rows.extend(one.speed.rows("heat", &name(round), "mount", ROOTS, metric));
    }
    let named = measured.into_iter().enumerate();
    Ok(named.map(|(round, one)| (name(round), one)).collect())
}

fn empty(count: u64) -> Line {
    Line {
        count,
        used: Pair::default(),
        speed: Pair::default(),
        overhead: Pair::default(),
    }
}

fn mount(side: Side, option: &str) -> Result<Mounted, String> {
    let program = program();
    let options = format!("transport=dev,{option}");
    let served = Mounted::served("heat", &|mountpoint| {
        let mut daemon = Command::new(&program);
        daemon.args(["mount", "-f", "-o", &options, "memory:"]);
        daemon.arg(mountpoint);
        daemon
    });
    let needs = |what| format!("{what}; it needs /dev/fuse and {}", program.display());
    let mounted = served.map_err(needs)?;
    let switch = mounted.directory().join(".hearth/sys/fs/hot-track");
    let said =
        std::fs::read_to_string(&switch).map_err(|e| format!("{}: {e}", switch.display()))?;
    let due = if side == Side::With { "1" } else { "0" };
    match said.trim() == due {
        true => Ok(mounted),
        false => Err(format!(
            "mounted with {option}, {} says {said}",
            switch.display()
        )),
    }
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
