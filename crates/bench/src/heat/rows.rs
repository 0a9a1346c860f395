//! Instructions of every workload that the timed table has, with heat and without, by valgrind.
//!
//! A clock cannot tell a hundredth on a machine that others use; a count can. One task does the
//! very job of the timed row on the same fixture, as much of it as takes a core from one fold to
//! the next, and the fold is counted as well. How many tasks there are changes nothing that is
//! counted: none waits for another, and each core records for itself.
//!
//! Under valgrind all takes a hundred times as long. So the job is timed first as it runs by
//! itself, and the program that is counted gets these times as arguments; its clock advances by
//! them.

use super::fixture::{Around, Fixture};
use super::sides::{Amount, large_enough};
use super::{ALL, HeatCase, InstructionCount, keep_counts};
use crate::callgrind::{counted, totals};
use crate::failure::Context;
use crate::measure::side_by_side;
use crate::pinned::{allowed_cores, pin_first};
use crate::report::Report;
use crate::stats::{Pair, Side};
use crate::watchdog::patiently;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The verb by which this program runs under valgrind.
pub const ROW: &str = "heat-row";

/// Both sides on one volume, so that all names lie where they lie; what grows steadily from run to
/// run is the same on both.
const ORDER: [Side; 4] = [Side::With, Side::Without, Side::Without, Side::With];
/// Runs that are not counted, of what can be as long as wanted: a volume begins with an allowance
/// of records one by one, and has spent it soon. Work of a given size spends it in one.
const WARM: usize = 4;
/// Most that counting may take.
const COUNTS: Duration = Duration::from_secs(7200);
/// The resolution of the manual clock.
const LEAST: Duration = Duration::from_millis(1);

/// How much of a workload is counted, and what it takes of a core by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sizes {
    /// Of how many parts of given work it is one.
    part: usize,
    /// Of elastic work.
    size: usize,
    prepare: Duration,
    clear: Duration,
    phases: Vec<Phase>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phase {
    takes: Duration,
    operations: u64,
}

/// All workloads of the timed table.
fn workloads(part: usize) -> Vec<HeatCase> {
    ALL.iter().flat_map(|all| all(part)).collect()
}

/// Counts everything on both sides and prints it.
pub fn count(amount: Amount, report: &mut Report) -> Result<(), String> {
    let workloads = workloads(amount.part);
    let size = |workload| Sizes::of(workload, amount);
    let sizes: Vec<Sizes> = workloads.iter().map(size).collect::<Result<_, _>>()?;
    let next = AtomicUsize::new(0);
    let counted = Mutex::new(Vec::new());
    let count_some = |_| -> Result<(), String> {
        loop {
            // Relaxed: only that each is another counts.
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(sizes) = sizes.get(number) else {
                return Ok(());
            };
            let calls = ORDER.len() * sizes.phases.len();
            let found = totals(&sizes.args(number), calls)?;
            eprintln!("counted: {}", workloads[number].rows[0].0);
            counted.lock().text()?.push((number, found));
        }
    };
    // Side by side: instructions do not mind.
    patiently(COUNTS, || side_by_side(allowed_cores().len(), count_some))?;
    let mut counted = counted.into_inner().text()?;
    counted.sort_unstable();
    let mut counts = Vec::new();
    for ((workload, sizes), (_, found)) in workloads.iter().zip(&sizes).zip(&counted) {
        let names = workload.rows.iter().map(|(name, _)| &**name);
        counts.extend(shared_out(names, &sizes.phases, found));
    }
    keep_counts("operations", &counts, report);
    Ok(())
}

/// What the counts of the runs, each with all its phases, are of each phase.
fn shared_out<'a>(
    names: impl Iterator<Item = &'a str>,
    phases: &[Phase],
    found: &[u64],
) -> Vec<InstructionCount> {
    let one = |(at, (name, phase)): (usize, (&str, &Phase))| {
        let mut pair = Pair::default();
        for (side, run) in ORDER.into_iter().zip(found.chunks_exact(phases.len())) {
            pair.push(side, run[at] as f64 / phase.operations.max(1) as f64);
        }
        InstructionCount {
            name: name.to_owned(),
            operations: phase.operations,
            pair,
        }
    };
    names.zip(phases).enumerate().map(one).collect()
}

impl Sizes {
    /// Times a workload without heat.
    fn of(workload: &HeatCase, amount: Amount) -> Result<Sizes, String> {
        let fixture = Fixture::new(workload.how.sharing)?;
        let timed = |f: &dyn Fn() -> Result<(), String>| {
            let begin = Instant::now();
            f().map(|()| begin.elapsed().max(LEAST))
        };
        let mut size = 1;
        if workload.how.stays {
            fixture.prepare(&*(workload.make)(size), 1, None)?;
        }
        if workload.how.is_elastic {
            size = large_enough(&fixture, &*workload.make, (workload.how, 1), amount.run)?;
        }
        let job = (workload.make)(size);
        let prepare = match workload.how.stays {
            true => LEAST,
            false => timed(&|| fixture.prepare(&*job, 1, None))?,
        };
        let elapsed = fixture.run(&*job, 1)?;
        let phases = elapsed.iter().map(|elapsed| Phase {
            takes: Duration::from_secs_f64(elapsed.cpu).max(LEAST),
            operations: elapsed.operations,
        });
        Ok(Sizes {
            part: amount.part,
            size,
            prepare,
            phases: phases.collect(),
            clear: timed(&|| fixture.clear(None))?,
        })
    }

    /// Arguments of the program that is counted.
    fn args(&self, number: usize) -> Vec<String> {
        let mut args = vec![ROW.to_owned()];
        let micros = |time: Duration| time.as_micros() as u64;
        let mut numbers = vec![number as u64, self.part as u64, self.size as u64];
        numbers.extend([self.prepare, self.clear].map(micros));
        for phase in &self.phases {
            numbers.extend([micros(phase.takes), phase.operations]);
        }
        args.extend(numbers.iter().map(u64::to_string));
        args
    }

    /// The sizes and the number of the workload, from the arguments behind the verb.
    fn parse(args: &[String]) -> Option<(usize, Sizes)> {
        let numbers: Result<Vec<u64>, _> = args.iter().map(|arg| arg.parse::<u64>()).collect();
        let numbers = numbers.ok()?;
        let (&[number, part, size, prepare, clear], phases) = numbers.split_first_chunk()?;
        let phase = |of: &[u64; 2]| Phase {
            takes: Duration::from_micros(of[0]),
            operations: of[1],
        };
        let (phases, rest) = phases.as_chunks();
        let sizes = Sizes {
            part: part as usize,
            size: size as usize,
            prepare: Duration::from_micros(prepare),
            clear: Duration::from_micros(clear),
            phases: phases.iter().map(phase).collect(),
        };
        (part > 0 && rest.is_empty()).then_some((number as usize, sizes))
    }

    /// Runs it once as it is not counted, and then as `around` counts it, on both sides.
    fn run(&self, workload: &HeatCase, around: &Around<'_>) -> Result<(), String> {
        let fixture = Fixture::new(workload.how.sharing)?;
        let job = (workload.make)(self.size);
        if workload.how.stays {
            fixture.prepare(&*job, 1, Some(self.prepare))?;
        }
        let warm = if workload.how.is_elastic { WARM } else { 1 };
        for _ in 0..warm {
            self.run_once(&fixture, workload, (Side::With, &|phase| phase()))?;
        }
        for side in ORDER {
            self.run_once(&fixture, workload, (side, around))?;
        }
        Ok(())
    }

    fn run_once(
        &self,
        fixture: &Fixture,
        workload: &HeatCase,
        (side, around): (Side, &Around<'_>),
    ) -> Result<(), String> {
        fixture.switch(side == Side::With);
        let job = (workload.make)(self.size);
        if !workload.how.stays {
            fixture.prepare(&*job, 1, Some(self.prepare))?;
        }
        let times: Vec<Duration> = self.phases.iter().map(|phase| phase.takes).collect();
        let done = fixture.run_timed(&*job, &times, around)?;
        if !workload.how.stays {
            fixture.clear(Some(self.clear))?;
        }
        let due: Vec<u64> = self.phases.iter().map(|phase| phase.operations).collect();
        match done == due {
            true => Ok(()),
            false => Err(format!(
                "{}: {done:?} operations of {due:?}",
                workload.rows[0].0
            )),
        }
    }
}

/// What valgrind counts: one workload.
pub fn run(args: &[String]) -> Result<(), String> {
    let wrong = || format!("{ROW} takes the numbers of a workload: {args:?}");
    let (number, sizes) = Sizes::parse(args).ok_or_else(wrong)?;
    let workloads = workloads(sizes.part);
    let workload = workloads.get(number).ok_or_else(wrong)?;
    pin_first()?;
    sizes.run(workload, &|phase| {
        let mut operations = 0;
        counted(&mut || phase().map(|done| operations = done))?;
        Ok(operations)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::tests::little;

    #[test]
    fn every_workload_is_counted_with_heat_and_without_and_does_the_same_on_both() {
        let workloads = workloads(256);
        let rows: usize = workloads.iter().map(|workload| workload.rows.len()).sum();
        assert_eq!(rows, 5 + 11 + 4 + 12 + 8);
        for workload in &workloads {
            let sizes = Sizes::of(
                workload,
                Amount {
                    part: 256,
                    ..little()
                },
            )
            .unwrap();
            assert_eq!(sizes.phases.len(), workload.rows.len());
            let seen = AtomicUsize::new(0);
            let around: &Around<'_> = &|phase| {
                seen.fetch_add(1, Ordering::Relaxed);
                phase()
            };
            sizes.run(workload, around).unwrap();
            assert_eq!(seen.into_inner(), ORDER.len() * workload.rows.len());
        }
    }

    #[test]
    fn the_arguments_of_the_counted_program_are_what_was_timed() {
        let phase = Phase {
            takes: Duration::from_millis(100),
            operations: 9,
        };
        let sizes = Sizes {
            part: 4,
            size: 1000,
            prepare: Duration::from_micros(1234),
            clear: Duration::from_millis(2),
            phases: vec![phase; 2],
        };
        let args = sizes.args(3);
        assert_eq!(Sizes::parse(&args[1..]), Some((3, sizes)));
        assert_eq!(Sizes::parse(&args[1..args.len() - 1]), None);
        assert_eq!(Sizes::parse(&args), None, "the verb is no number");
        assert!(run(&["0".to_owned()]).unwrap_err().contains(ROW));
    }

    #[test]
    fn counts_go_to_the_phase_and_the_side_that_they_are_of() {
        let phase = |operations| Phase {
            takes: LEAST,
            operations,
        };
        let found = [20, 300, 10, 100, 12, 110, 22, 310];
        let counts = shared_out(["a", "b"].into_iter(), &[phase(2), phase(10)], &found);
        let of = |at: usize, side| counts[at].pair.all(side).to_vec();
        assert_eq!(
            (of(0, Side::With), of(0, Side::Without)),
            (vec![10.0, 11.0], vec![5.0, 6.0])
        );
        assert_eq!(of(1, Side::With), [30.0, 31.0]);
        assert_eq!(of(1, Side::Without), [10.0, 11.0]);
    }
}
