//! The part of `hearth-bench quota` that runs fs_mark on mounts: quotas on against off.
//!
//! Off is a mount with `-o noquota`; on, everything belongs to one user, one group and one project
//! with limits that nobody reaches, so that files under a limit pass each write on. Both mounts
//! stand beside each other and their runs alternate, short ones, so that what others do to the
//! machine meets both; after a few runs two fresh mounts take their place.

use crate::cpu_time::{CpuTime, of_process};
use crate::daemons::program;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::pair::Side;
use crate::patience::beat;
use crate::quota_sides::{Measured, TASKS, table};
use crate::row::Row;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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
    let effort = match options.quick {
        true => Effort {
            mounts: 1,
            runs: 3,
            files: 100,
        },
        false => Effort {
            mounts: 20,
            runs: 10,
            files: 250,
        },
    };
    let mut table = table("16 tasks on a mount");
    let (mut rows, mut slow) = (Vec::new(), Vec::new());
    for (size, name) in SIZES {
        let measured = compare(size, effort).map_err(|what| format!("{name}: {what}"))?;
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

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    /// Pairs of mounts.
    mounts: u32,
    /// Runs of each side on such a pair.
    runs: u32,
    /// Files that each task makes in a run.
    files: u32,
}

fn compare(size: u32, effort: Effort) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for _ in 0..effort.mounts {
        let [off, on] = [Place::new(false)?, Place::new(true)?];
        for run in 0..effort.runs {
            for side in Side::both(run) {
                let place = if side == Side::With { &on } else { &off };
                let (speed, cpu) = place.measure(run, size, effort.files)?;
                measured.speed.push(side, speed);
                measured.cpu.push(side, cpu);
                beat();
            }
        }
    }
    Ok(measured)
}

/// A mount, and a directory of the user there.
struct Place {
    mounted: Mounted,
    directory: PathBuf,
}

impl Place {
    fn new(on: bool) -> Result<Place, String> {
        let mounted = Mounted::served("quota", &|mountpoint| {
            let mut daemon = Command::new(program());
            daemon.args(["mount", "-f", "memory:"]).arg(mountpoint);
            if !on {
                daemon.args(["-o", "noquota"]);
            }
            daemon
        })?;
        let directory = mounted.directory().join("p");
        given(&directory)?;
        if on {
            limit(mounted.directory(), &directory)?;
        }
        Ok(Place { mounted, directory })
    }

    /// Files per second as fs_mark says, and processor microseconds per file.
    fn measure(&self, run: u32, size: u32, files: u32) -> Result<(f64, f64), String> {
        let place = self.directory.join(run.to_string());
        given(&place)?;
        // It makes files beside its log.
        let logs = self.mounted.directory().with_file_name("logs");
        if run == 0 {
            given(&logs)?;
        }
        let daemon = self.mounted.daemon().ok_or("it has no daemon")?;
        let before = (CpuTime::of_children().total(), of_process(daemon));
        let speed = fs_mark(&place, &logs.join("log"), size, files)?;
        let cpu = CpuTime::of_children().total() - before.0 + of_process(daemon) - before.1;
        Ok((speed, cpu * 1e6 / f64::from(TASKS * files)))
    }
}

/// Makes a directory of the user.
fn given(place: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    std::fs::create_dir(place).map_err(failed)?;
    chown(place, Some(USER), Some(USER)).map_err(failed)
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

/// The shape of the run that started all this: no sync, many files, 10,000 directories for each
/// thread, of which fs_mark makes and uses one at a time, by the clock.
fn fs_mark(place: &Path, log: &Path, size: u32, each: u32) -> Result<f64, String> {
    let mut fs_mark = Command::new("fs_mark");
    fs_mark.args(["-D", "10000", "-S", "0", "-L", "1", "-l"]);
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
