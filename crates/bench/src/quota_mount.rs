//! The part of `hearth-bench quota` that runs fs_mark on mounts: quotas on against off.
//!
//! Off is a mount with `-o noquota`; on, everything belongs to one user, one group and one project
//! with limits that nobody reaches, so that files under a limit pass each write on. Runs of the two
//! alternate, each on a fresh mount.

use crate::cpu_time::{CpuTime, of_process};
use crate::mount_bench::program;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::pair::Side;
use crate::patience::beat;
use crate::quota_sides::{Measured, TASKS, table};
use crate::row::Row;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Who runs it.
const USER: u32 = 1000;
/// The least share of the speed without quotas that is enough.
const ENOUGH: f64 = 0.99;
/// Bytes of each file, and what that is called.
const SIZES: [(u32, &str); 2] = [(0, "fs_mark -s 0"), (4096, "fs_mark -s 4096")];

/// The rows, and what is too slow. Nothing where mounts or fs_mark are not to be had.
///
/// # Errors
/// A mount does not come up, or fs_mark fails.
pub fn run(options: &Options) -> Result<(Vec<Row>, Vec<String>), String> {
    if let Some(why) = missing() {
        eprintln!("hearth-bench quota: {why}: measured without mounts");
        return Ok((Vec::new(), Vec::new()));
    }
    let (runs, each) = if options.quick { (3, 100) } else { (15, 2_000) };
    let mut table = table("16 tasks on a mount");
    let (mut rows, mut slow) = (Vec::new(), Vec::new());
    for (size, name) in SIZES {
        let measured = compare(size, runs, each).map_err(|what| format!("{name}: {what}"))?;
        slow.extend(measured.show(name, ENOUGH, "mount", &mut table, &mut rows));
    }
    println!("{}", table.text());
    Ok((rows, slow))
}

fn missing() -> Option<&'static str> {
    // SAFETY: no pointer.
    if unsafe { libc::geteuid() } != 0 {
        return Some("only root mounts");
    }
    let fs_mark = Command::new("fs_mark")
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    fs_mark.is_err().then_some("fs_mark is missing")
}

fn compare(size: u32, runs: u32, each: u32) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for run in 0..runs {
        for side in Side::both(run) {
            let (speed, cpu) = measure(side == Side::With, size, each)?;
            measured.speed.push(side, speed);
            measured.cpu.push(side, cpu);
            beat();
        }
    }
    Ok(measured)
}

/// Files per second as fs_mark says, and processor microseconds per file.
fn measure(on: bool, size: u32, each: u32) -> Result<(f64, f64), String> {
    let mounted = Mounted::served("quota", &|mountpoint| {
        let mut daemon = Command::new(program());
        daemon.args(["mount", "-f", "memory:"]).arg(mountpoint);
        if !on {
            daemon.args(["-o", "noquota"]);
        }
        daemon
    })?;
    let top = mounted.directory();
    let place = top.join("p");
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    std::fs::create_dir(&place).map_err(failed)?;
    chown(&place, Some(USER), Some(USER)).map_err(failed)?;
    if on {
        limit(top, &place)?;
    }
    let daemon = mounted.daemon().ok_or("it has no daemon")?;
    let before = (CpuTime::of_children().total(), of_process(daemon));
    // It makes files beside its log.
    let logs = top.with_file_name("logs");
    std::fs::create_dir(&logs).map_err(failed)?;
    chown(&logs, Some(USER), Some(USER)).map_err(failed)?;
    let speed = fs_mark(&place, &logs.join("log"), size, each)?;
    let cpu = CpuTime::of_children().total() - before.0 + of_process(daemon) - before.1;
    Ok((speed, cpu * 1e6 / f64::from(TASKS * each)))
}

fn limit(top: &Path, place: &Path) -> Result<(), String> {
    let quota = |words: &[&str], path: &Path, more: &[&str]| {
        let mut hearth = Command::new(program());
        hearth.arg("quota").args(words).arg(path).args(more);
        let done = hearth.stdout(Stdio::null()).status();
        match done {
            Ok(status) if status.success() => Ok(()),
            done => Err(format!("hearth quota {words:?}: {done:?}")),
        }
    };
    quota(&["project"], place, &["7"])?;
    for who in ["user:1000", "group:1000", "project:7"] {
        let limits = ["set", who, "--hard", "100GiB", "--inodes-hard", "100000000"];
        quota(&limits, top, &[])?;
    }
    Ok(())
}

/// The shape of the run that started all this: no sync, many files, a directory for each thread.
fn fs_mark(place: &Path, log: &Path, size: u32, each: u32) -> Result<f64, String> {
    let mut fs_mark = Command::new("fs_mark");
    fs_mark.args(["-D", "100", "-S", "0", "-L", "1", "-l"]);
    fs_mark.arg(log);
    fs_mark.args(["-n", &each.to_string(), "-s", &size.to_string()]);
    for task in 0..TASKS {
        fs_mark.arg("-d").arg(task.to_string());
    }
    let output = fs_mark.current_dir(place).uid(USER).gid(USER).output();
    let output = output.map_err(|error| format!("fs_mark: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The last line is: FSUse%, Count, Size, Files/sec, App Overhead.
    let line: Vec<&str> = text
        .lines()
        .last()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let count = (TASKS * each).to_string();
    match line[..] {
        [_, files, _, speed, _] if output.status.success() && files == count => {
            speed.parse().map_err(|_| format!("fs_mark: {text}"))
        }
        _ => Err(format!(
            "fs_mark ended with {}:\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
