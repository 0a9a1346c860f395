//! `hearth-bench quota`: what quotas cost in the library, on against off, far from the limits and
//! in the last hundredth of the room; and on mounts, see `quota_mount`.
//!
//! Off is a volume that tells no owners apart and knows only its own size; on, every create and
//! write is charged to a user, a group and a project with limits. One user works on all tasks, as
//! `fs_mark` does. Runs of the two alternate, many short ones so that what others do to the machine
//! meets both, each on a fresh volume.

use crate::cpu_time::of_thread;
use crate::instructions::totals;
use crate::options::Options;
use crate::pair::Side;
use crate::patience::beat;
use crate::quota_mount;
use crate::quota_sides::{Measured, TASKS, table};
use crate::row::{Row, write_json};
use crate::table::Table;
use hearth::{Credentials, Errno, LimitChange, LimitUpdate, Process, QuotaId, Volume};
use std::sync::Barrier;
use std::time::Instant;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "quota-loops";

/// The parts, as `--only` names them.
const PARTS: [&str; 3] = ["library", "instructions", "mount"];
/// Inodes of the volume whose last hundredth is measured.
const ROOM: u64 = 400_000;
/// How often a run makes its last hundredth, and removes it again: once is ten milliseconds.
const TURNS: usize = 16;
/// Operations that are counted under valgrind.
const TIMES: usize = 8_192;
const PAGE: usize = 4_096;
/// What is measured, and the least share of the speed without quotas that is enough.
const WORKLOADS: [(Workload, &str, f64); 3] = [
    (Workload::Create, "create", 0.97),
    (Workload::Write, "write 4 KiB", 0.97),
    (Workload::Last, "create, last 1 % of the room", 0.5),
];
/// More instructions than without quotas that are let pass.
const TOO_MANY: f64 = 1.02;

#[derive(Clone, Copy, PartialEq)]
enum Workload {
    Create,
    Write,
    Last,
}

/// Runs the benchmark and prints its tables.
///
/// # Errors
/// The library refuses, quotas cost more than they may, or there is no such part.
pub fn run(options: &Options) -> Result<(), String> {
    options.check_part(&PARTS)?;
    let mut rows = Vec::new();
    let mut slow = Vec::new();
    if options.wants_part("library") {
        slow.extend(library(options.quick, &mut rows)?);
    }
    // Without optimisation there is nothing to count, unless it is asked for.
    let counts = cfg!(not(debug_assertions)) || options.only.is_some();
    if counts && options.wants_part("instructions") {
        slow.extend(instructions(&mut rows)?);
    }
    if options.wants_part("mount") {
        let (mounts, slow_mounts) = quota_mount::run(options)?;
        rows.extend(mounts);
        slow.extend(slow_mounts);
    }
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    match slow.is_empty() {
        true => Ok(()),
        false => Err(slow.join("; ")),
    }
}

/// The speed of the library; what is too slow.
fn library(quick: bool, rows: &mut Vec<Row>) -> Result<Vec<String>, String> {
    let each = if quick { 500 } else { 4_000 };
    let mut table = table("16 tasks, one user");
    let mut slow = Vec::new();
    for (workload, name, enough) in WORKLOADS {
        let runs = match (quick, workload) {
            (true, _) => 3,
            // Most of such a run goes to filling the room.
            (false, Workload::Last) => 41,
            (false, _) => 151,
        };
        let measured = compare(workload, runs, each).map_err(|e| format!("{name}: {e}"))?;
        slow.extend(measured.show(name, enough, "lib", &mut table, rows));
    }
    println!("{}", table.text());
    Ok(slow)
}

fn compare(workload: Workload, runs: u32, each: usize) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for run in 0..runs {
        for side in Side::both(run) {
            let done = measure(workload, side == Side::With, each);
            let (speed, cpu) = done.map_err(|errno| errno.to_string())?;
            measured.speed.push(side, speed);
            measured.cpu.push(side, cpu);
        }
        beat();
    }
    Ok(measured)
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
            QuotaId::user(1000),
            QuotaId::group(1000),
            QuotaId::project(7),
        ] {
            quota.set(who, &limits).map_err(refused)?;
        }
    }
    let user = volume.process(Credentials::user(1000, 1000));
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
fn measure(workload: Workload, on: bool, each: usize) -> Result<(f64, f64), Errno> {
    // In the last hundredth everybody takes an equal part of it; the directories are there already.
    let last = (ROOM / 100 / u64::from(TASKS)) as usize;
    let room = match workload {
        Workload::Last => ROOM + 2 * u64::from(TASKS),
        _ => 4 * ROOM,
    };
    let (_volume, user) = volume(on, room)?;
    let each = if workload == Workload::Last {
        last
    } else {
        each
    };
    if workload == Workload::Last {
        let before = ROOM - u64::from(TASKS) * last as u64;
        (0..before).try_for_each(|n| create(&user, &format!("/p/{}/old{n}", n % 16)))?;
    }
    let turns = if workload == Workload::Last { TURNS } else { 1 };
    let (mut seconds, mut cpu) = (0.0, 0.0);
    for _ in 0..turns {
        let times = turn(workload, &user, each)?;
        // From the first that begins to the last that ends, by their own clocks.
        let begin = times.iter().map(|t| t.0).min().ok_or(Errno::EINVAL)?;
        let end = times.iter().map(|t| t.1).max().ok_or(Errno::EINVAL)?;
        seconds += (end - begin).as_secs_f64();
        cpu += times.iter().map(|t| t.2).sum::<f64>();
    }
    let of_a_task = match workload {
        Workload::Write => each / 2,
        _ => each * turns,
    };
    let done = of_a_task as f64 * f64::from(TASKS);
    Ok((done / seconds, cpu * 1e6 / done))
}

/// Has every task do its work once; when each began and ended, and the processor time it took. What
/// the last hundredth was filled with goes again, which is not measured.
fn turn(
    workload: Workload,
    user: &Process,
    each: usize,
) -> Result<Vec<(Instant, Instant, f64)>, Errno> {
    let barrier = Barrier::new(TASKS as usize);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..TASKS)
            .map(|task| {
                let (user, barrier) = (user.fork(), &barrier);
                scope.spawn(move || {
                    let names: Vec<String> = (0..each).map(|n| format!("/p/{task}/f{n}")).collect();
                    let page = [7; PAGE];
                    barrier.wait();
                    let (begin, cpu) = (Instant::now(), of_thread());
                    let done = work(workload, &user, &names, &page);
                    let (end, cpu) = (Instant::now(), (of_thread() - cpu).as_secs_f64());
                    // Whoever has room meanwhile has more of it than the last hundredth.
                    barrier.wait();
                    done?;
                    if workload == Workload::Last {
                        names.iter().try_for_each(|name| user.unlink(name))?;
                    }
                    Ok::<_, Errno>((begin, end, cpu))
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|done| done.map_err(|_| Errno::EIO)?).collect()
    })
}

/// What one task does with its names.
fn work(workload: Workload, user: &Process, names: &[String], page: &[u8]) -> Result<(), Errno> {
    if workload != Workload::Write {
        return names.iter().try_for_each(|name| create(user, name));
    }
    let fd = user.open(&*names[0], libc::O_CREAT | libc::O_WRONLY, 0o644)?;
    (0..names.len() / 2).try_for_each(|n| user.pwrite(fd, page, (n * PAGE) as u64).map(drop))
}

/// Instructions of a create and of a write of a new page, and whether they are too many.
fn instructions(rows: &mut Vec<Row>) -> Result<Vec<String>, String> {
    let counted = "hearth_bench::quota_bench::counted";
    let counts = totals(counted, &[LOOPS.to_owned()], 4)?;
    let mut table =
        Table::new(["instructions per operation", "off", "on", "on/off"].map(str::to_owned));
    let mut many = Vec::new();
    for (name, counts) in ["create", "write 4 KiB"].into_iter().zip(counts.chunks(2)) {
        let [off, on] = [counts[0], counts[1]].map(|count| count as f64 / TIMES as f64);
        table.row([
            name.to_owned(),
            format!("{off:.0}"),
            format!("{on:.0}"),
            format!("{:.3}", on / off),
        ]);
        if on > off * TOO_MANY {
            many.push(format!("{name}: {on:.0} instructions instead of {off:.0}"));
        }
        for (side, value) in [(Side::Without, off), (Side::With, on)] {
            rows.push(Row {
                bench: "quota",
                workload: name.to_owned(),
                target: side.target("lib"),
                tasks: 1,
                metric: "instructions_per_op",
                value,
                unit: "1",
                runs: 1,
                ci95: 0.0,
            });
        }
    }
    println!("{}", table.text());
    Ok(many)
}

/// What valgrind counts: creates off and on, then writes off and on.
///
/// # Errors
/// The library refuses.
pub fn run_loops() -> Result<(), String> {
    let failed = |errno: Errno| errno.to_string();
    let worlds = [false, true].map(|on| volume(on, 4 * ROOM).map(|(_, user)| user));
    for user in &worlds {
        let user = user.as_ref().map_err(|errno| errno.to_string())?;
        let names: Vec<String> = (0..2 * TIMES).map(|n| format!("/p/0/f{n}")).collect();
        let make = |n: usize| create(user, &names[n]);
        (0..TIMES).try_for_each(make).map_err(failed)?;
        counted(TIMES, &make).map_err(failed)?;
    }
    for user in &worlds {
        let user = user.as_ref().map_err(|errno| errno.to_string())?;
        let fd = user
            .open("/p/0/pages", libc::O_CREAT | libc::O_WRONLY, 0o644)
            .map_err(failed)?;
        let write = |n: usize| user.pwrite(fd, &[7; PAGE], (n * PAGE) as u64).map(drop);
        (0..TIMES).try_for_each(write).map_err(failed)?;
        counted(TIMES, &write).map_err(failed)?;
    }
    Ok(())
}

/// Callgrind knows this function by its name. The operations of the warm-up went before.
#[inline(never)]
fn counted(from: usize, operation: &dyn Fn(usize) -> Result<(), Errno>) -> Result<(), Errno> {
    (from..from + TIMES).try_for_each(operation)
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
    fn a_part_that_does_not_exist_is_named() {
        let options = Options {
            only: Some("mounts".to_owned()),
            ..Options::default()
        };
        let refused = run(&options).unwrap_err();
        assert_eq!(
            refused,
            "unknown part 'mounts'; there are: library, instructions, mount"
        );
    }

    #[test]
    fn the_last_hundredth_ends_at_the_limit() {
        let (_, user) = volume(true, 20).unwrap();
        let made = (0..20).take_while(|n| create(&user, &format!("/p/0/{n}")).is_ok());
        assert!(made.count() < 20);
    }

    #[test]
    fn every_workload_measures_something() {
        for workload in [Workload::Create, Workload::Write] {
            let (speed, cpu) = measure(workload, true, 100).unwrap();
            assert!(speed > 0.0 && cpu >= 0.0);
        }
    }
}
