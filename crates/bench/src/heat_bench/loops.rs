//! Instructions of one operation with heat and without, by valgrind.
//!
//! How much is recorded one by one, and how much sampled, depends on how many operations come
//! between two folds. Under valgrind they would be a hundredth of what they are, so each loop is
//! timed first, as it runs by itself, and then counted for as many turns as it does between two
//! folds of a core that is pressed, and with one fold, after as many turns that are not counted;
//! the volume's clock goes from fold to fold as it would.

use super::counts::{Count, verdict};
use super::stage::Told;
use crate::cpu_time::of_thread;
use crate::instructions::totals;
use crate::pair::{Pair, Side};
use crate::patience::patiently;
use crate::pinned::{allowed_cores, pin};
use crate::row::Row;
use hearth::{Credentials, Errno, Fd, Process, Volume};
use std::time::Duration;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "heat-loops";

const WITH: &str = "with";
const WITHOUT: &str = "without";
/// The function that is counted, as callgrind demangles it.
const COUNTED: &str = "hearth_bench::heat_bench::loops::counted";
/// Operations between two looks at the clock.
const TURNS: usize = 1_024;
/// Operations before those that are timed; more than are.
const WARM: usize = 100_000;
/// Between two folds of a volume that has much to fold.
const FOLDS: Duration = Duration::from_millis(100);
/// Runs of each side if they find too much, for no two volumes hash alike; the median decides.
const MOST: usize = 3;
/// Times that the loops are timed: the quickest tells of the loop, the others of the machine.
const TIMED: usize = 3;
/// Most that one run may take.
const COUNTS: Duration = Duration::from_secs(1200);
const KEEPS: &str = "create+write 1 B+close";
/// Removes what the one before has made.
const REMOVES: &str = "unlink, of these files";
/// Files that a loop goes round, and names of those that it makes: each volume hashes names its
/// own way, and where one name lies is a hundredth of a create.
const FILES: usize = 64;
const PAGE: usize = 4_096;

/// A name for tables and one operation, given the number of the turn.
type Loop = (&'static str, fn(&World, usize) -> Result<(), Errno>);

/// What is counted.
const ALL: [Loop; 10] = [
    ("open+close", |world, turn| {
        let fd = world.process.open(world.file(turn), libc::O_RDONLY, 0)?;
        world.process.close(fd)
    }),
    ("stat", |world, turn| {
        world.process.stat(world.file(turn)).map(drop)
    }),
    ("create+close+unlink", |world, turn| {
        let name = world.free(turn);
        world.process.close(world.make(name)?)?;
        world.process.unlink(name)
    }),
    ("create+write 4 KiB+close+unlink", |world, turn| {
        let name = world.free(turn);
        let fd = world.make(name)?;
        world.process.write(fd, &[7; PAGE])?;
        world.process.close(fd)?;
        world.process.unlink(name)
    }),
    (KEEPS, |world, turn| {
        let name = format!("/new-{turn}");
        let fd = world.make(&name)?;
        world.process.write(fd, b"x")?;
        world.process.close(fd)
    }),
    (REMOVES, |world, turn| {
        world.process.unlink(format!("/new-{turn}"))
    }),
    ("pread 4 KiB", |world, turn| {
        let mut page = [0; PAGE];
        let at = (turn % FILES * PAGE) as u64;
        let got = world.process.pread(world.open, &mut page, at)?;
        if got == PAGE && page[0] == 7 {
            Ok(())
        } else {
            Err(Errno::EIO)
        }
    }),
    ("pwrite 4 KiB", |world, turn| {
        let at = (turn % FILES * PAGE) as u64;
        world.process.pwrite(world.open, &[7; PAGE], at).map(drop)
    }),
    ("pread 64 B", |world, turn| {
        let at = (turn % FILES * PAGE) as u64;
        let got = world.process.pread(world.open, &mut [0; 64], at)?;
        if got == 64 { Ok(()) } else { Err(Errno::EIO) }
    }),
    ("open+read 4 KiB+close, 64 files", |world, turn| {
        let fd = world.process.open(world.file(turn), libc::O_RDONLY, 0)?;
        let got = world.process.read(fd, &mut [0; PAGE])?;
        world.process.close(fd)?;
        if got == PAGE { Ok(()) } else { Err(Errno::EIO) }
    }),
];

struct World {
    volume: Volume,
    clock: Told,
    process: Process,
    names: Vec<String>,
    free: Vec<String>,
    open: Fd,
}

impl World {
    fn of(side: Side) -> Result<World, Errno> {
        let clock = Told::new();
        let volume = Volume::builder()
            .hot_track(side == Side::With)
            .workers(0)
            .clock(clock.clone())
            .build()?;
        let process = volume.process(Credentials::root());
        let names: Vec<String> = (0..FILES).map(|n| format!("/file-{n}")).collect();
        for name in &names {
            let fd = process.open(name, libc::O_CREAT | libc::O_RDWR, 0o644)?;
            process.write(fd, &[7; PAGE])?;
            process.close(fd)?;
        }
        let open = process.open("/pages", libc::O_CREAT | libc::O_RDWR, 0o644)?;
        process.pwrite(open, &[7; FILES * PAGE], 0)?;
        Ok(World {
            volume,
            clock,
            process,
            names,
            free: (0..FILES).map(|n| format!("/free-{n}")).collect(),
            open,
        })
    }

    fn file(&self, turn: usize) -> &str {
        &self.names[turn % FILES]
    }

    /// Of a file that is not there.
    fn free(&self, turn: usize) -> &str {
        &self.free[turn % FILES]
    }

    /// Turns before those that are timed or counted: memory and names are there, and so is the
    /// load.
    fn warm(&self, (name, operation): Loop, turns: usize) -> Result<(), Errno> {
        if name == REMOVES {
            return Ok(());
        }
        (0..turns).try_for_each(|turn| operation(self, turn))?;
        if name == KEEPS {
            (0..turns).try_for_each(|turn| self.process.unlink(format!("/new-{turn}")))?;
        }
        self.fold();
        Ok(())
    }

    fn fold(&self) {
        self.clock.pass(FOLDS);
        self.volume.run_background_once();
    }

    fn make(&self, name: &str) -> Result<Fd, Errno> {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        self.process.open(name, flags, 0o644)
    }
}

/// Counts everything on both sides and prints it; answers what is too much.
///
/// # Errors
/// valgrind is missing, or its answer is not what was asked for.
pub fn count(rows: &mut Vec<Row>) -> Result<Vec<String>, String> {
    let times = times().map_err(|errno| format!("timing the loops: {errno}"))?;
    let count = |((name, _), &turns): (&Loop, &usize)| Count {
        name: (*name).to_owned(),
        operations: turns as u64,
        pair: Pair::default(),
    };
    let mut counts: Vec<Count> = ALL.iter().zip(&times).map(count).collect();
    for _ in 0..MOST {
        count_once(&times, &mut counts)?;
        if !counts.iter().any(Count::is_too_much) {
            break;
        }
    }
    Ok(verdict("between folds", &counts, rows))
}

/// One more run of each side.
fn count_once(times: &[usize; ALL.len()], counts: &mut [Count]) -> Result<(), String> {
    let count = |side: &str| {
        let args = [LOOPS, side].map(str::to_owned).into_iter();
        let args: Vec<String> = args.chain(times.iter().map(usize::to_string)).collect();
        totals(COUNTED, &args, ALL.len())
    };
    // Side by side: instructions do not mind.
    let (without, with) = patiently(COUNTS, || {
        std::thread::scope(|scope| {
            let with = scope.spawn(|| count(WITH));
            (count(WITHOUT), with.join())
        })
    });
    let with = with.map_err(|_| "counting with heat panicked")??;
    let without = without?;
    for (count, (with, without)) in counts.iter_mut().zip(with.into_iter().zip(without)) {
        let turns = count.operations as f64;
        count.pair.push(Side::With, with as f64 / turns);
        count.pair.push(Side::Without, without as f64 / turns);
    }
    Ok(())
}

/// How often each loop turns between two folds, without heat and with the core to itself.
fn times() -> Result<[usize; ALL.len()], Errno> {
    let mut most = [0; ALL.len()];
    for _ in 0..TIMED {
        for (most, times) in most.iter_mut().zip(times_once()?) {
            *most = times.max(*most);
        }
    }
    Ok(most)
}

fn times_once() -> Result<[usize; ALL.len()], Errno> {
    let world = World::of(Side::Without)?;
    let mut times = [0; ALL.len()];
    let mut made = 0;
    for (times, (name, operation)) in times.iter_mut().zip(ALL) {
        world.warm((name, operation), WARM)?;
        // By processor time: others use the machine as well.
        let begin = of_thread();
        while of_thread() - begin < FOLDS && (name != REMOVES || *times < made) {
            // So that the clock is not what is timed.
            let next = match name {
                REMOVES => made.min(*times + TURNS),
                _ => *times + TURNS,
            };
            (*times..next).try_for_each(|turn| operation(&world, turn))?;
            *times = next;
        }
        if name == KEEPS {
            made = *times;
        }
    }
    Ok(times)
}

/// What valgrind counts: all of them on one side, each as often as `args` say.
///
/// # Errors
/// The library refuses, or there is no side, or not as many numbers as loops.
pub fn run(args: &[String]) -> Result<(), String> {
    let side = match args.first().map(|side| &**side) {
        Some(WITH) => Side::With,
        Some(WITHOUT) => Side::Without,
        _ => return Err(format!("{LOOPS} takes {WITH} or {WITHOUT}: {args:?}")),
    };
    let times: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    if times.len() != ALL.len() {
        return Err(format!("{LOOPS} takes {} numbers: {args:?}", ALL.len()));
    }
    // Counters split when a second core uses them.
    let core = *allowed_cores().first().ok_or("no core may be used")?;
    pin(core).map_err(|error| format!("core {core}: {error}"))?;
    let world = World::of(side).map_err(|errno| format!("preparing: {errno}"))?;
    for ((name, operation), &times) in ALL.iter().zip(&times) {
        let failed = |errno: Errno| format!("{name}: {errno}");
        world.warm((*name, *operation), times).map_err(failed)?;
        counted(&world, *operation, times).map_err(failed)?;
    }
    Ok(())
}

/// Callgrind knows this function by its name.
#[inline(never)]
fn counted(
    world: &World,
    operation: fn(&World, usize) -> Result<(), Errno>,
    times: usize,
) -> Result<(), Errno> {
    (0..times).try_for_each(|turn| operation(world, turn))?;
    world.fold();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_leaves_what_it_found_and_is_recorded() {
        for side in Side::both(0) {
            let world = World::of(side).unwrap();
            let files = world.volume.inodes_in_memory();
            for (name, operation) in ALL {
                (0..2 * FILES).for_each(|turn| operation(&world, turn).expect(name));
                let made = if name == KEEPS { 2 * FILES } else { 0 };
                assert_eq!(world.volume.inodes_in_memory(), files + made, "{name}");
                assert_eq!(world.process.open_fds(), [world.open], "{name}");
            }
            world.volume.run_background_once();
            let recorded = world.volume.heat().gauges().files;
            assert_eq!(recorded > 0, side == Side::With);
        }
    }
}
