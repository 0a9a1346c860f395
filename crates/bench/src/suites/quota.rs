//! `hearth-bench quota`: what quotas cost, on against off: in the library, far from the limits and
//! in the last hundredth of the room, and by fs_mark on mounts.
//!
//! Off is a volume that tells no owners apart and knows only its own size (`-o noquota`); on, every
//! create and write is charged to a user, a group and a project with limits. One user works on all
//! tasks. Runs of the two alternate, many short ones so that what others do to the machine meets
//! both: in the library each on a fresh volume, on mounts several on a pair that stand beside each
//! other.

use crate::ask::Ask;
use crate::callgrind::{counted, totals};
use crate::cells;
use crate::cpu_time::{CpuTime, of_process, of_thread};
use crate::daemons::{hearth, run_hearth};
use crate::failure::Context;
use crate::fs_mark;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::report::Report;
use crate::stats::{Pair, Side, interval};
use crate::table::{Table, short};
use crate::watchdog::beat;
use hearth::{Credentials, Errno, LimitChange, LimitUpdate, Process, QuotaId, Volume};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::Instant;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "quota-loops";
/// Threads that work at once, as in the run of the patch set that started all this.
const TASKS: usize = 16;
/// Inodes of the volume whose last hundredth is measured.
const ROOM: u64 = 400_000;
/// How often a run makes its last hundredth, and removes it again: once is ten milliseconds.
const TURNS: usize = 16;
/// Operations that are counted under valgrind.
const TIMES: usize = 8_192;
const PAGE: usize = 4_096;
/// More instructions than without quotas that are let pass.
const TOO_MANY: f64 = 1.02;
/// What is measured, and the least share of the speed without quotas that is enough.
const WORKLOADS: [(Load, &str, f64); 3] = [
    (Load::Create, "create", 0.97),
    (Load::Write, "write 4 KiB", 0.97),
    (Load::Last, "create, last 1 % of the room", 0.5),
];
/// Bytes of each file of fs_mark, what that is called, and the share that is enough.
const SIZES: [(u32, &str, f64); 2] = [(0, "fs_mark -s 0", 0.99), (4096, "fs_mark -s 4096", 0.99)];
/// Owner of everything on the mounts.
const USER: u32 = 1000;

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Create,
    Write,
    /// Creates in the last hundredth of the room.
    Last,
}

/// Operations per second, and processor microseconds per operation, of both sides of a workload.
#[derive(Default)]
struct Sides {
    speed: Pair,
    cpu: Pair,
}

impl Sides {
    fn push(&mut self, side: Side, (speed, cpu): (f64, f64)) {
        self.speed.push(side, speed);
        self.cpu.push(side, cpu);
        beat();
    }

    /// Adds a line to the table, rows for both sides, and the ask. The measure that decides is the
    /// one whose runs differ less: the clock of a machine that others use errs, and so does the
    /// time of a processor that others use.
    fn show(
        &self,
        (name, enough): (&str, f64),
        what: &str,
        table: &mut Table,
        report: &mut Report,
    ) {
        let cell = (name, what, TASKS);
        report.add_pair(cell, ("ops_per_s", "1/s"), &self.speed);
        report.add_pair(cell, ("cpu_us_per_op", "us"), &self.cpu);
        let by_clock = interval(&self.speed.ratios());
        // Of times, how many times as fast.
        let by_cpu = interval(
            &self
                .cpu
                .ratios()
                .iter()
                .map(|ratio| 1.0 / ratio)
                .collect::<Vec<_>>(),
        );
        let half = |[low, _, high]: [f64; 3]| (high - low) / 2.0;
        let shown = |ratio: [f64; 3]| format!("{:.3} ±{:.3}", ratio[1], half(ratio));
        let of = |side| short(self.speed.of(side));
        let (off, on) = (of(Side::Without), of(Side::With));
        table.row(cells![name, off, on, shown(by_clock), shown(by_cpu)]);
        let surer = if half(by_clock) < half(by_cpu) {
            by_clock
        } else {
            by_cpu
        };
        let what = format!("{name}: share of the speed without quotas");
        report.asks.push(Ask::surely_at_least(what, enough, surer));
    }
}

fn table(what: &str) -> Table {
    Table::new([what, "off", "on", "on/off", "by processor time"])
}

/// The speed of the library.
pub fn library(options: &Options, report: &mut Report) -> Result<(), String> {
    let each = options.pick(500, 4_000);
    let mut table = table("16 tasks, one user");
    for (load, name, enough) in WORKLOADS {
        // Most of a run of the last ones goes to filling the room.
        let runs = options.pick(3, if load == Load::Last { 41 } else { 151 });
        let mut sides = Sides::default();
        for side in (0..runs).flat_map(Side::both) {
            let done = measure(load, side == Side::With, each);
            sides.push(side, done.context(name)?);
        }
        sides.show((name, enough), "lib", &mut table, report);
    }
    println!("{}", table.text());
    Ok(())
}

/// A volume and a user of it, whose directories are a project where quotas are on.
fn volume(on: bool, inodes: u64) -> Result<(Volume, Process), Errno> {
    let volume = Volume::builder()
        .quotas(on)
        .size(8 << 30)
        .inodes(4 * ROOM)
        .build()?;
    let root = volume.process(Credentials::root());
    root.umask(0);
    root.mkdir("/p", 0o777)?;
    if on {
        let quota = volume.quota();
        let refused = |error: hearth::QuotaError| error.errno();
        quota.set_project_tree("/p", 7).map_err(refused)?;
        let limits = LimitChange {
            bytes_hard: LimitUpdate::To(4 << 30),
            inodes_hard: LimitUpdate::To(inodes),
            ..LimitChange::default()
        };
        for who in [
            QuotaId::user(USER),
            QuotaId::group(USER),
            QuotaId::project(7),
        ] {
            quota.set(who, &limits).map_err(refused)?;
        }
    }
    let user = volume.process(Credentials::user(USER, USER));
    for task in 0..TASKS {
        user.mkdir(format!("/p/{task}"), 0o755)?;
    }
    Ok((volume, user))
}

fn create(user: &Process, name: &str) -> Result<(), Errno> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let fd = user.open(name, flags, 0o644)?;
    user.close(fd)
}

/// Operations per second, and processor microseconds per operation.
fn measure(load: Load, on: bool, each: usize) -> Result<(f64, f64), Errno> {
    let is_last = load == Load::Last;
    // In the last hundredth everybody takes an equal part of it; the directories are there already.
    let last = ROOM as usize / 100 / TASKS;
    let (room, each, turns) = match is_last {
        true => (ROOM + 2 * TASKS as u64, last, TURNS),
        false => (4 * ROOM, each, 1),
    };
    let (_volume, user) = volume(on, room)?;
    if is_last {
        let before = ROOM as usize - TASKS * last;
        (0..before).try_for_each(|n| create(&user, &format!("/p/{}/old{n}", n % 16)))?;
    }
    let (mut seconds, mut cpu) = (0.0, 0.0);
    for _ in 0..turns {
        let times = turn(load, &user, each)?;
        // From the first that begins to the last that ends, by their own clocks.
        let begin = times.iter().map(|t| t.0).min().ok_or(Errno::EINVAL)?;
        let end = times.iter().map(|t| t.1).max().ok_or(Errno::EINVAL)?;
        seconds += (end - begin).as_secs_f64();
        cpu += times.iter().map(|t| t.2).sum::<f64>();
    }
    let of_a_task = if load == Load::Write {
        each / 2
    } else {
        each * turns
    };
    let done = (of_a_task * TASKS) as f64;
    Ok((done / seconds, cpu * 1e6 / done))
}

/// Has every task do its work once; when each began and ended, and the processor time it took. What
/// the last hundredth was filled with goes again, which is not measured.
fn turn(load: Load, user: &Process, each: usize) -> Result<Vec<(Instant, Instant, f64)>, Errno> {
    let barrier = Barrier::new(TASKS);
    let task = |task, user: Process| {
        let names: Vec<String> = (0..each).map(|n| format!("/p/{task}/f{n}")).collect();
        barrier.wait();
        let (begin, cpu) = (Instant::now(), of_thread());
        let done = work(load, &user, &names);
        let (end, cpu) = (Instant::now(), (of_thread() - cpu).as_secs_f64());
        // Nobody frees room before all have filled it.
        barrier.wait();
        done?;
        if load == Load::Last {
            names.iter().try_for_each(|name| user.unlink(name))?;
        }
        Ok((begin, end, cpu))
    };
    std::thread::scope(|scope| {
        let task = &task;
        let spawn = |n| {
            let user = user.fork();
            scope.spawn(move || task(n, user))
        };
        let workers: Vec<_> = (0..TASKS).map(spawn).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|done| done.map_err(|_| Errno::EIO)?).collect()
    })
}

/// What one task does with its names.
fn work(load: Load, user: &Process, names: &[String]) -> Result<(), Errno> {
    if load != Load::Write {
        return names.iter().try_for_each(|name| create(user, name));
    }
    let fd = user.open(&*names[0], libc::O_CREAT | libc::O_WRONLY, 0o644)?;
    let write = |n| user.pwrite(fd, &[7; PAGE], (n * PAGE) as u64).map(drop);
    (0..names.len() / 2).try_for_each(write)
}

/// Instructions of a create and of a write of a new page.
pub fn instructions(options: &Options, report: &mut Report) -> Result<(), String> {
    // Without optimisation there is nothing to count, unless it is asked for.
    if cfg!(debug_assertions) && options.only.is_none() {
        return Ok(());
    }
    let counts = totals(&[LOOPS.to_owned()], 4)?;
    let mut table = Table::new(["instructions per operation", "off", "on", "on/off"]);
    for (name, counts) in ["create", "write 4 KiB"].into_iter().zip(counts.chunks(2)) {
        let [off, on] = [counts[0], counts[1]].map(|count| count as f64 / TIMES as f64);
        let ratio = on / off;
        table.row(cells![
            name,
            format!("{off:.0}"),
            format!("{on:.0}"),
            format!("{ratio:.3}")
        ]);
        for (side, value) in [(Side::Without, off), (Side::With, on)] {
            let cell = (name, &*side.target("lib"), 1);
            report.add_exact(cell, ("instructions_per_op", "1"), value);
        }
        let what = format!("{name}: instructions, on / off");
        report.asks.push(Ask::at_most(what, TOO_MANY, &[ratio]));
    }
    println!("{}", table.text());
    Ok(())
}

/// What valgrind counts: creates off and on, then writes off and on.
pub fn run_loops() -> Result<(), String> {
    // The operations of the warm-up go before.
    let count = |operation: &dyn Fn(usize) -> Result<(), Errno>| {
        (0..TIMES).try_for_each(operation).text()?;
        counted(&mut || (TIMES..2 * TIMES).try_for_each(operation).text())
    };
    let users = [volume(false, 4 * ROOM), volume(true, 4 * ROOM)];
    for user in &users {
        let (_, user) = user.as_ref().text()?;
        let names: Vec<String> = (0..2 * TIMES).map(|n| format!("/p/0/f{n}")).collect();
        count(&|n| create(user, &names[n]))?;
    }
    for user in &users {
        let (_, user) = user.as_ref().text()?;
        let fd = user
            .open("/p/0/pages", libc::O_CREAT | libc::O_WRONLY, 0o644)
            .text()?;
        count(&|n| user.pwrite(fd, &[7; PAGE], (n * PAGE) as u64).map(drop))?;
    }
    Ok(())
}

/// fs_mark on mounts. Nothing where mounts or fs_mark are not to be had.
pub fn mounts(options: &Options, report: &mut Report) -> Result<(), String> {
    let missing = match rustix::process::geteuid().is_root() {
        true => fs_mark::missing(),
        false => Some("only root mounts"),
    };
    if let Some(why) = missing {
        eprintln!("hearth-bench quota: {why}: measured without mounts");
        return Ok(());
    }
    // Pairs of mounts, runs of each side on such a pair, files of each task in a run.
    let (mounts, runs, files) = options.pick((1, 3, 100), (20, 10, 250));
    let mut table = table("16 tasks on a mount");
    for (size, name, enough) in SIZES {
        let mut sides = Sides::default();
        for _ in 0..mounts {
            let [off, on] = [UserMount::new(false)?, UserMount::new(true)?];
            for run in 0..runs {
                for side in Side::both(run) {
                    let mount = if side == Side::With { &on } else { &off };
                    sides.push(side, mount.measure(run, size, files)?);
                }
            }
        }
        sides.show((name, enough), "mount", &mut table, report);
    }
    println!("{}", table.text());
    Ok(())
}

/// A mount, and a directory of the user there.
struct UserMount {
    mounted: Mounted,
    directory: PathBuf,
}

impl UserMount {
    fn new(on: bool) -> Result<UserMount, String> {
        let mounted = hearth(if on {
            "transport=auto"
        } else {
            "transport=auto,noquota"
        })?;
        let directory = mounted.directory().join("p");
        given(&directory)?;
        if on {
            // Limits that nobody reaches, so that files under a limit pass each write on.
            run_hearth(&["quota", "project"], &directory, &["7"])?;
            for who in ["user:1000", "group:1000", "project:7"] {
                let limits = ["--hard", "100GiB", "--inodes-hard", "100000000"];
                let words = [&["quota", "set", who][..], &limits].concat();
                run_hearth(&words, mounted.directory(), &[])?;
            }
        }
        Ok(UserMount { mounted, directory })
    }

    /// Files per second as fs_mark says, and processor microseconds per file.
    fn measure(&self, run: u32, size: u32, files: usize) -> Result<(f64, f64), String> {
        let place = self.directory.join(run.to_string());
        given(&place)?;
        // It makes files beside its log.
        let logs = self.mounted.directory().with_file_name("logs");
        if run == 0 {
            given(&logs)?;
        }
        let daemon = self.mounted.daemon().ok_or("it has no daemon")?;
        let before = (CpuTime::of_children().total(), of_process(daemon));
        // No sync, and 10,000 directories for each thread, of which fs_mark makes and uses one at a
        // time, by the clock.
        let log = logs.join("log");
        let (size, log) = (size.to_string(), log.to_string_lossy());
        let args = ["-D", "10000", "-S", "0", "-L", "1", "-s", &size, "-l", &log];
        let round = fs_mark::run(&place, &args, (TASKS, files, 1), Some(USER))?.remove(0);
        let all = TASKS * files;
        if round.count != all as u64 {
            return Err(format!("fs_mark made {} files of {all}", round.count));
        }
        let cpu = CpuTime::of_children().total() - before.0 + of_process(daemon) - before.1;
        Ok((round.per_second, cpu * 1e6 / all as f64))
    }
}

/// Makes a directory of the user.
fn given(place: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    std::fs::create_dir(place).map_err(failed)?;
    chown(place, Some(USER), Some(USER)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_what_it_says() {
        for on in [false, true] {
            let (volume, user) = volume(on, 1_000).unwrap();
            create(&user, "/p/3/f").unwrap();
            let who = volume.quota().get(QuotaId::project(7));
            assert_eq!(who.is_ok_and(|record| record.inodes.used == 18), on);
        }
    }

    #[test]
    fn the_last_hundredth_ends_at_the_limit() {
        let (_, user) = volume(true, 20).unwrap();
        let made = (0..20).take_while(|n| create(&user, &format!("/p/0/{n}")).is_ok());
        assert!(made.count() < 20);
    }

    #[test]
    fn every_workload_measures_something() {
        for load in [Load::Create, Load::Write] {
            let (speed, cpu) = measure(load, true, 100).unwrap();
            assert!(speed > 0.0 && cpu >= 0.0);
        }
    }
}
