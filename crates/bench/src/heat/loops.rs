//! Instructions of one operation with heat and without, by valgrind.
//!
//! How much is recorded one by one, and how much sampled, depends on how many operations come
//! between two folds. Under valgrind they would be a hundredth of what they are, so each loop is
//! timed first, as it runs by itself, and then counted for as many turns as it does between two
//! folds of a core that is pressed, and with one fold, after a quarter of as many turns in a
//! quarter of the time that are not counted: what comes is then expected at the rate at which it
//! comes. The volume's clock goes from fold to fold as it would. Without heat a turn takes the
//! same, however many there are, unless it makes or removes files, which leave something to be
//! done later: of others, fewer are counted there.

use super::fixture::ManualClock;
use super::{InstructionCount, keep_counts};
use crate::callgrind::{counted, totals};
use crate::cpu_time::of_thread;
use crate::failure::Context;
use crate::loops::{self, LoopFixture, Operation, PAGE};
use crate::pinned::pin_first;
use crate::report::Report;
use crate::stats::{Pair, Side};
use crate::watchdog::patiently;
use hearth::{Errno, Volume};
use std::ops::Deref;
use std::time::Duration;

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "heat-loops";

const WITH: &str = "with";
const WITHOUT: &str = "without";
/// Operations between two looks at the clock.
const TURNS: usize = 1_024;
/// Operations before those that are timed; more than are.
const WARM: usize = 100_000;
/// Between two folds of a volume that has much to fold.
const FOLDS: Duration = Duration::from_millis(100);
/// The part of the turns, and of the time between two folds, that comes before what is counted.
const WARM_PART: usize = 4;
/// Runs of each side if they find too much, for no two volumes hash alike; the median decides.
const MOST: usize = 3;
/// Times that the loops are timed: the quickest tells of the loop, the others of the machine.
const TIMED: usize = 3;
/// Turns that are enough without heat: the collector works hundreds of times in them.
const ENOUGH: usize = 1 << 15;
/// Most that one run may take.
const COUNTS: Duration = Duration::from_secs(1200);
/// The life of a file.
pub const LIFE: &str = "create+write 4 KiB+close+unlink";
const MAKES: &str = "create+close+unlink";
const KEEPS: &str = "create+write 1 B+close";
/// Removes what the one before has made.
const REMOVES: &str = "unlink, of these files";
/// What makes or removes files.
const CHANGES: [&str; 4] = [MAKES, LIFE, KEEPS, REMOVES];
/// Files that a loop goes round, and names of those that it makes.
const FILES: usize = 64;

/// What is counted.
const ALL: [(&str, Operation<FILES>); 10] = [
    ("open+close", loops::open_close),
    ("stat", loops::stat),
    (MAKES, loops::create_unlink),
    (LIFE, |on, turn| {
        let name = on.free(turn);
        let fd = on.make(name)?;
        on.process.write(fd, &[7; PAGE])?;
        on.process.close(fd)?;
        on.process.unlink(name)
    }),
    (KEEPS, |on, turn| {
        let fd = on.make(&format!("/kept-{turn}"))?;
        on.process.write(fd, b"x")?;
        on.process.close(fd)
    }),
    (REMOVES, |on, turn| {
        on.process.unlink(format!("/kept-{turn}"))
    }),
    ("pread 4 KiB", loops::read_page),
    ("pwrite 4 KiB", loops::write_page),
    ("pread 64 B", |on, turn| {
        let at = (turn % FILES * PAGE) as u64;
        let got = on.process.pread(on.open, &mut [0; 64], at)?;
        if got == 64 { Ok(()) } else { Err(Errno::EIO) }
    }),
    ("open+read 4 KiB+close, 64 files", loops::open_read_close),
];

/// A volume whose heat is folded when it is told.
struct Folding {
    volume: Volume,
    clock: ManualClock,
    fixture: LoopFixture<FILES>,
}

impl Deref for Folding {
    type Target = LoopFixture<FILES>;

    fn deref(&self) -> &LoopFixture<FILES> {
        &self.fixture
    }
}

impl Folding {
    fn of(side: Side) -> Result<Folding, Errno> {
        let clock = ManualClock::new();
        let volume = Volume::builder()
            .hot_track(side == Side::With)
            .workers(0)
            .clock(clock.clone())
            .build()?;
        let fixture = LoopFixture::new(&volume, PAGE)?;
        Ok(Folding {
            volume,
            clock,
            fixture,
        })
    }

    /// Turns before those that are timed or counted, in the time `took`: memory and names are
    /// there, and so is the load.
    fn warm(
        &self,
        (name, operation): (&str, Operation<FILES>),
        turns: usize,
        took: Duration,
    ) -> Result<(), Errno> {
        if name == REMOVES {
            return Ok(());
        }
        (0..turns).try_for_each(|turn| operation(self, turn))?;
        if name == KEEPS {
            (0..turns).try_for_each(|turn| self.process.unlink(format!("/kept-{turn}")))?;
        }
        self.fold(took);
        Ok(())
    }

    fn fold(&self, took: Duration) {
        self.clock.pass(took);
        self.volume.run_background_once();
    }
}

/// Counts everything on both sides and prints it.
pub fn count(report: &mut Report) -> Result<(), String> {
    let times = times().context("timing the loops")?;
    let count = |((name, _), &turns): (&(&str, Operation<FILES>), &usize)| InstructionCount {
        name: (*name).to_owned(),
        operations: turns as u64,
        pair: Pair::default(),
    };
    let mut counts: Vec<InstructionCount> = ALL.iter().zip(&times).map(count).collect();
    for _ in 0..MOST {
        count_once(&times, &mut counts)?;
        if counts
            .iter()
            .all(|count| count.pair.ratio() <= super::most_times(&count.name))
        {
            break;
        }
    }
    keep_counts("between folds", &counts, report);
    Ok(())
}

/// One more run of each side.
fn count_once(times: &[usize; ALL.len()], counts: &mut [InstructionCount]) -> Result<(), String> {
    let count = |side: &str| {
        let args = [LOOPS, side].map(str::to_owned).into_iter();
        let args: Vec<String> = args.chain(times.iter().map(usize::to_string)).collect();
        totals(&args, ALL.len())
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
    for (at, count) in counts.iter_mut().enumerate() {
        for (side, found) in [(Side::With, &with), (Side::Without, &without)] {
            let turns = turns(&count.name, times[at], side) as f64;
            count.pair.push(side, found[at] as f64 / turns);
        }
    }
    Ok(())
}

/// How often a loop is turned on a side, which turns `times` between two folds.
fn turns(name: &str, times: usize, side: Side) -> usize {
    match side {
        Side::Without if !CHANGES.contains(&name) => times.min(ENOUGH),
        _ => times,
    }
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
    let folding = Folding::of(Side::Without)?;
    let mut times = [0; ALL.len()];
    let mut made = 0;
    for (times, (name, operation)) in times.iter_mut().zip(ALL) {
        folding.warm((name, operation), WARM, FOLDS)?;
        // By processor time: others use the machine as well.
        let begin = of_thread();
        while of_thread() - begin < FOLDS && (name != REMOVES || *times < made) {
            // So that the clock is not what is timed.
            let next = match name {
                REMOVES => made.min(*times + TURNS),
                _ => *times + TURNS,
            };
            (*times..next).try_for_each(|turn| operation(&folding, turn))?;
            *times = next;
        }
        if name == KEEPS {
            made = *times;
        }
    }
    Ok(times)
}

/// What valgrind counts: all of them on one side, each as often as `args` say.
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
    pin_first()?;
    let folding = Folding::of(side).context("preparing")?;
    for ((name, operation), &times) in ALL.iter().zip(&times) {
        let failed = |errno: Errno| format!("{name}: {errno}");
        let times = turns(name, times, side);
        let warm = FOLDS / WARM_PART as u32;
        folding
            .warm((*name, *operation), times / WARM_PART, warm)
            .map_err(failed)?;
        counted(&mut || {
            (0..times)
                .try_for_each(|turn| operation(&folding, turn))
                .map_err(failed)?;
            folding.fold(FOLDS);
            Ok(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_turns_are_counted_only_where_each_takes_the_same() {
        let many = 3 * ENOUGH;
        assert_eq!(turns("stat", many, Side::With), many);
        assert_eq!(turns("stat", many, Side::Without), ENOUGH);
        assert_eq!(turns("stat", 9, Side::Without), 9);
        for name in CHANGES {
            assert!(ALL.iter().any(|(one, _)| *one == name), "{name}");
            assert_eq!(turns(name, many, Side::Without), many);
        }
    }

    #[test]
    fn every_loop_leaves_what_it_found_and_is_recorded() {
        for side in Side::both(0) {
            let folding = Folding::of(side).unwrap();
            let files = folding.volume.inodes_in_memory();
            for (name, operation) in ALL {
                (0..2 * FILES).for_each(|turn| operation(&folding, turn).expect(name));
                let made = if name == KEEPS { 2 * FILES } else { 0 };
                assert_eq!(folding.volume.inodes_in_memory(), files + made, "{name}");
                assert_eq!(folding.process.open_fds(), [folding.open], "{name}");
            }
            folding.volume.run_background_once();
            let recorded = folding.volume.heat().gauges().files;
            assert_eq!(recorded > 0, side == Side::With);
        }
    }
}
