//! Facts that are counted, not timed: they are the same on a busy machine and on one with few
//! cores.

use super::{FAMILIES, Family, wants};
use crate::allocations;
use crate::callgrind;
use crate::children::output;
use crate::instrumented;
use crate::measure::prepare;
use crate::options::Options;
use crate::pinned::{allowed_cores, pin_first};
use crate::row::Row;
use crate::table::Table;
use crate::target::{Library, Sharing, Target};
use crate::workload::{Task, Workload};
use std::process::Command;

/// The verb that builds the instrumented program and does nothing else.
pub const BUILD: &str = "seeds-build";
/// The argument by which the instrumented program counts shared lines.
pub const SHARED_LINES: &str = "shared-lines";

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "seeds-loops";
/// Runs of a task of which instructions, and allocations, are counted; as many before them do not
/// count. Together they are no more than `script::OPERATIONS`.
const RUNS: u32 = 32;
const OF_ALLOCATIONS: u32 = 16;

/// What is counted of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    metric: &'static str,
    pub heading: &'static str,
    /// Tasks that do it.
    tasks: usize,
    /// Digits behind the point.
    digits: usize,
}

/// Instructions by one task, under valgrind.
const INSTRUCTIONS: Fact = Fact {
    metric: "instructions_per_op",
    heading: "instructions",
    tasks: 1,
    digits: 0,
};
const ALLOCATIONS: Fact = Fact {
    metric: "allocations_per_op",
    heading: "allocations",
    tasks: 1,
    digits: 2,
};
/// Lines of 64 bytes that one task writes and another one, doing the same, touches.
const SHARED: Fact = Fact {
    metric: "shared_lines_written_per_op",
    heading: "shared lines",
    tasks: 2,
    digits: 2,
};
pub const FACTS: [Fact; 3] = [INSTRUCTIONS, ALLOCATIONS, SHARED];

/// A workload of a family.
pub struct Wanted {
    pub family: &'static str,
    pub workload: Box<dyn Workload>,
}

/// The facts of workloads on the library.
#[derive(Debug, Default)]
pub struct Facts {
    /// A row for each fact, by the family.
    pub rows: Vec<Row>,
    /// Family, workload, and the place in the source that most lines are shared at.
    places: Vec<(&'static str, String, String)>,
}

/// What the instrumented program says of a workload.
#[derive(Debug, PartialEq)]
struct Shared {
    family: String,
    workload: String,
    value: f64,
    place: Option<String>,
}

impl Facts {
    /// Counts for the wanted workloads of these families. What cannot be counted here is said and
    /// left out.
    pub fn count(families: &[Family], options: &Options) -> Result<Facts, String> {
        let wanted = wanted(families, options);
        let mut counted = Facts::default();
        if wanted.is_empty() {
            return Ok(counted);
        }
        for one in &wanted {
            counted.add(one, ALLOCATIONS, allocations_of(&*one.workload)?);
        }
        match instructions(&wanted, options) {
            Ok(values) => {
                for (one, value) in wanted.iter().zip(values) {
                    counted.add(one, INSTRUCTIONS, value);
                }
            }
            Err(what) => println!("Without instructions: {what}"),
        }
        match shared_lines(options) {
            Ok(values) => wanted.iter().for_each(|one| counted.share(one, &values)),
            Err(what) => println!("Without shared lines: {what}"),
        }
        Ok(counted)
    }

    /// The fact of one operation; `None` if it was not counted.
    fn of(&self, family: &str, workload: &str, fact: Fact) -> Option<f64> {
        let mut rows = self.rows.iter().filter(|row| row.bench == family);
        let is_it = |row: &&Row| row.workload == workload && row.metric == fact.metric;
        rows.find(is_it).map(|row| row.value)
    }

    /// A line for each workload of a family; empty if nothing was counted.
    pub fn table(&self, family: &str) -> String {
        let heading = ["one operation on lib"].into_iter();
        let mut table = Table::new(heading.chain(FACTS.map(|fact| fact.heading)));
        let of_family = |row: &&Row| row.bench == family && row.metric == ALLOCATIONS.metric;
        for Row { workload, .. } in self.rows.iter().filter(of_family) {
            let cells = self.cells(family, workload);
            table.row([workload.clone()].into_iter().chain(cells));
        }
        match table.is_empty() {
            true => String::new(),
            false => table.text(),
        }
    }

    /// What stands in the columns of the facts; nothing for what was not counted.
    pub fn cells(&self, family: &str, workload: &str) -> [String; 3] {
        FACTS.map(|fact| {
            let value = self.of(family, workload, fact);
            value.map_or(String::new(), |value| format!("{value:.*}", fact.digits))
        })
    }

    /// Where in the source the lines of a family's workloads are shared; empty if nothing was
    /// counted.
    pub fn places_text(&self, family: &str) -> String {
        let of_family = self.places.iter().filter(|(of, _, _)| *of == family);
        let line = |(_, workload, place): &(_, String, String)| format!("- {workload}: {place}\n");
        let lines: String = of_family.map(line).collect();
        match lines.is_empty() {
            true => lines,
            false => format!("\nMost of the shared lines of two tasks on the library:\n\n{lines}"),
        }
    }

    fn share(&mut self, one: &Wanted, values: &[Shared]) {
        let name = one.workload.name();
        let is_it = |shared: &&Shared| shared.family == one.family && shared.workload == name;
        let Some(shared) = values.iter().find(is_it) else {
            return;
        };
        self.add(one, SHARED, shared.value);
        if let Some(place) = &shared.place {
            self.places.push((one.family, name, place.clone()));
        }
    }

    fn add(&mut self, one: &Wanted, fact: Fact, value: f64) {
        let cell = (&*one.workload.name(), "lib", fact.tasks);
        let row = Row::exact(one.family, cell, (fact.metric, "1"), value);
        self.rows.push(row);
    }
}

/// The workloads that the options want, in order.
fn wanted(families: &[Family], options: &Options) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for family in families {
        let of_this = family.all_counted().into_iter().map(|workload| Wanted {
            family: family.name,
            workload,
        });
        wanted.extend(of_this.filter(|one| wants(options, one.family, &one.workload.name())));
    }
    wanted
}

/// The workloads of all families that the options want.
fn wanted_of_all(options: &Options) -> Vec<Wanted> {
    wanted(&FAMILIES, options)
}

/// The workloads that these arguments of `hearth-bench seeds` name, in order.
pub fn wanted_of_args(args: &[String]) -> Result<Vec<Wanted>, String> {
    Ok(wanted_of_all(&Options::parse("seeds", args)?))
}

/// Instructions of one operation of each of `wanted`, by valgrind.
fn instructions(wanted: &[Wanted], options: &Options) -> Result<Vec<f64>, String> {
    callgrind::only_in_release("seeds")?;
    let mut args = vec![LOOPS.to_owned()];
    args.extend(
        options
            .only
            .iter()
            .flat_map(|only| ["--only".to_owned(), only.clone()]),
    );
    let totals = callgrind::totals(&args, wanted.len())?;
    let values = wanted.iter().zip(totals).map(|(one, total)| {
        let times = on_library(&*one.workload, |task| repeat(task, RUNS))?;
        Ok(total as f64 / times as f64)
    });
    values.collect()
}

/// Runs every wanted workload, for callgrind to count.
pub fn run_loops(args: &[String]) -> Result<(), String> {
    pin_first()?;
    for one in wanted_of_args(args)? {
        on_library(&*one.workload, |task| {
            repeat(task, RUNS)?;
            callgrind::counted(&mut || repeat(task, RUNS).map(drop))
        })?;
    }
    Ok(())
}

/// Returns the operations of so many runs.
fn repeat(task: &mut dyn Task, runs: u32) -> Result<u64, String> {
    (0..runs).map(|_| task.run(0)).sum()
}

/// Calls `f` with a task that has the library to itself.
fn on_library<T>(
    workload: &dyn Workload,
    f: impl FnOnce(&mut dyn Task) -> Result<T, String>,
) -> Result<T, String> {
    let named = |what| format!("{}: {what}", workload.name());
    let library = Library::new(Sharing::Processes)?;
    prepare(&library, workload, 1).map_err(named)?;
    let mut task = workload.task(library.client(), (0, 1)).map_err(named)?;
    f(&mut *task).map_err(named)
}

/// Allocations of one operation, over many.
fn allocations_of(workload: &dyn Workload) -> Result<f64, String> {
    on_library(workload, |task| {
        repeat(task, OF_ALLOCATIONS)?;
        let before = allocations::of_this_thread();
        let times = repeat(task, OF_ALLOCATIONS)?;
        let count = allocations::of_this_thread() - before;
        Ok(count as f64 / times as f64)
    })
}

/// Runs the instrumented program.
fn shared_lines(options: &Options) -> Result<Vec<Shared>, String> {
    if allowed_cores().len() < 2 {
        return Err("there is no second core".to_owned());
    }
    let mut command = Command::new(instrumented::build()?);
    command.arg(SHARED_LINES);
    if let Some(only) = &options.only {
        command.args(["--only", only]);
    }
    output(&mut command)?.lines().map(parse).collect()
}

fn parse(line: &str) -> Result<Shared, String> {
    let wrong = || format!("shared lines: not what was asked for: {line}");
    let json: serde_json::Value = serde_json::from_str(line).map_err(|_| wrong())?;
    let text = |name: &str| json[name].as_str().map(str::to_owned).ok_or_else(wrong);
    let value = json["value"].as_f64().ok_or_else(wrong)?;
    Ok(Shared {
        family: text("bench")?,
        workload: text("workload")?,
        value,
        place: text("where").ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_instrumented_program_is_read() {
        let line = r#"{"bench":"file-ops","workload":"open/close","value":0.5,"where":null}"#;
        let wanted = Shared {
            family: "file-ops".into(),
            workload: "open/close".into(),
            value: 0.5,
            place: None,
        };
        assert_eq!(parse(line).unwrap(), wanted);
        assert!(parse("panicked").unwrap_err().contains("panicked"));
    }

    #[test]
    fn what_was_counted_is_found_and_becomes_a_row() {
        let mut counted = Facts::default();
        let one = wanted_of_all(&Options::default()).remove(0);
        counted.add(&one, ALLOCATIONS, 0.0);
        counted.add(&one, SHARED, 1.5);
        let name = one.workload.name();
        assert_eq!(counted.of(one.family, &name, SHARED), Some(1.5));
        assert_eq!(counted.of(one.family, &name, INSTRUCTIONS), None);
        let row = &counted.rows[1];
        assert_eq!((row.tasks, row.metric), (2, "shared_lines_written_per_op"));
        let table = counted.table(one.family);
        let line = table.lines().nth(2).expect("a line for the workload");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells[1..5], [&*name, "", "0.00", "1.50"]);
        assert_eq!(counted.table("git"), "");
    }

    /// What uses up files has enough of them for every fact.
    #[test]
    fn every_workload_can_be_repeated_as_often_as_a_fact_needs() {
        for one in wanted_of_all(&Options::default()) {
            let name = one.workload.name();
            on_library(&*one.workload, |task| {
                let times = repeat(task, 2 * RUNS.max(OF_ALLOCATIONS))?;
                assert!(times as usize <= crate::script::OPERATIONS, "{name}");
                Ok(())
            })
            .unwrap();
        }
    }
}
