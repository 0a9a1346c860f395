//! Facts that are counted, not timed: they are the same on a busy machine and on one with few
//! cores.

mod instructions;

pub use instructions::{LOOPS, run_loops};

use super::options::SeedOptions;
use super::{Family, families};
use crate::activity::Activity;
use crate::allocations;
use crate::instrumented;
use crate::measure::prepare;
use crate::row::Row;
use crate::table::Table;
use crate::target::{Library, Sharing, Target};
use std::process::Command;

/// The verb that builds the instrumented program and does nothing else.
pub const BUILD: &str = "seeds-build";
/// The argument by which the instrumented program counts shared lines.
pub const SHARED_LINES: &str = "shared-lines";

/// No fact takes more operations of a task, its first ones included, which do not count.
pub const OPERATIONS: usize = 2048;

/// What is counted of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Instructions, by one task, under valgrind.
    Instructions,
    /// Allocations, by one task.
    Allocations,
    /// Lines of 64 bytes that one task writes and another one, doing the same, touches.
    SharedLines,
}

impl Fact {
    /// All of them.
    pub const ALL: [Fact; 3] = [Fact::Instructions, Fact::Allocations, Fact::SharedLines];

    /// Its name in rows.
    pub fn metric(self) -> &'static str {
        match self {
            Fact::Instructions => "instructions_per_op",
            Fact::Allocations => "allocations_per_op",
            Fact::SharedLines => "shared_lines_written_per_op",
        }
    }

    /// Its name over a column.
    pub fn heading(self) -> &'static str {
        match self {
            Fact::Instructions => "instructions",
            Fact::Allocations => "allocations",
            Fact::SharedLines => "shared lines",
        }
    }
}

/// An activity of a family.
pub struct Wanted {
    /// Name of the family.
    pub family: &'static str,
    /// What is done.
    pub activity: Box<dyn Activity>,
}

/// The facts of activities on the library.
#[derive(Debug, Default)]
pub struct Counted {
    facts: Vec<(&'static str, String, Fact, f64)>,
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

impl Counted {
    /// Counts for the wanted activities of these families. What cannot be counted here is said and
    /// left out.
    ///
    /// # Errors
    /// The library refuses an activity.
    pub fn count(families: &[&dyn Family], options: &SeedOptions) -> Result<Counted, String> {
        let wanted = wanted(families, options);
        let mut counted = Counted::default();
        if wanted.is_empty() {
            return Ok(counted);
        }
        for one in &wanted {
            let value = allocations_of(&*one.activity)?;
            counted.add(one, Fact::Allocations, value);
        }
        match instructions::count(&wanted, options) {
            Ok(values) => {
                for (one, value) in wanted.iter().zip(values) {
                    counted.add(one, Fact::Instructions, value);
                }
            }
            Err(what) => println!("Without instructions: {what}"),
        }
        match shared_lines(options) {
            Ok(values) => {
                for one in &wanted {
                    counted.share(one, &values);
                }
            }
            Err(what) => println!("Without shared lines: {what}"),
        }
        Ok(counted)
    }

    /// The fact of one operation; `None` if it was not counted.
    pub fn of(&self, family: &str, workload: &str, fact: Fact) -> Option<f64> {
        self.facts
            .iter()
            .find(|(f, w, of, _)| *f == family && w == workload && *of == fact)
            .map(|&(_, _, _, value)| value)
    }

    /// One row for each.
    pub fn rows(&self) -> Vec<Row> {
        let row = |(family, workload, fact, value): &(&'static str, String, Fact, f64)| Row {
            bench: family,
            workload: workload.clone(),
            target: "lib".to_owned(),
            tasks: if *fact == Fact::SharedLines { 2 } else { 1 },
            metric: fact.metric(),
            value: *value,
            unit: "1",
            runs: 1,
            ci95: 0.0,
        };
        self.facts.iter().map(row).collect()
    }

    /// A line for each workload of a family; empty if nothing was counted.
    pub fn table(&self, family: &str) -> String {
        let mut workloads: Vec<&String> = Vec::new();
        for (of, workload, ..) in &self.facts {
            if *of == family && !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        if workloads.is_empty() {
            return String::new();
        }
        let heading = ["one operation on lib"].into_iter();
        let heading = heading.chain(Fact::ALL.map(Fact::heading));
        let mut table = Table::new(heading.map(str::to_owned));
        for workload in workloads {
            let cells = self.cells(family, workload);
            table.row([workload.clone()].into_iter().chain(cells));
        }
        table.text()
    }

    /// What stands in the columns of the facts; nothing for what was not counted.
    pub fn cells(&self, family: &str, workload: &str) -> [String; 3] {
        Fact::ALL.map(|fact| match (self.of(family, workload, fact), fact) {
            (None, _) => String::new(),
            (Some(value), Fact::Instructions) => format!("{value:.0}"),
            (Some(value), _) => format!("{value:.2}"),
        })
    }

    /// Where the lines of a family's workloads are shared, one line for each.
    pub fn places(&self, family: &str) -> String {
        let of_family = self.places.iter().filter(|(of, _, _)| *of == family);
        let line = |(_, workload, place): &(_, String, String)| format!("{workload}: {place}\n");
        of_family.map(line).collect()
    }

    fn share(&mut self, one: &Wanted, values: &[Shared]) {
        let name = one.activity.name();
        let is_it = |shared: &&Shared| shared.family == one.family && shared.workload == name;
        let Some(shared) = values.iter().find(is_it) else {
            return;
        };
        self.add(one, Fact::SharedLines, shared.value);
        if let Some(place) = &shared.place {
            self.places.push((one.family, name, place.clone()));
        }
    }

    fn add(&mut self, one: &Wanted, fact: Fact, value: f64) {
        let name = one.activity.name();
        self.facts.push((one.family, name, fact, value));
    }
}

/// The activities that the options want, in order.
fn wanted(families: &[&dyn Family], options: &SeedOptions) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for family in families {
        let family: &dyn Family = *family;
        let activities = family.counted().into_iter();
        let of_this = activities.map(|activity| Wanted {
            family: family.name(),
            activity,
        });
        wanted.extend(of_this.filter(|one| options.wants(one.family, &one.activity.name())));
    }
    wanted
}

/// The same, for a program of which only the counting is wanted.
fn wanted_of_all(options: &SeedOptions) -> Vec<Wanted> {
    let families = families();
    let all: Vec<&dyn Family> = families.iter().map(|family| &**family).collect();
    wanted(&all, options)
}

/// The activities that these arguments of `hearth-bench seeds` name, in order.
///
/// # Errors
/// The arguments are wrong.
pub fn wanted_of_args(args: &[String]) -> Result<Vec<Wanted>, String> {
    Ok(wanted_of_all(&SeedOptions::parse(args)?))
}

/// Repetitions of which allocations are counted, in strides.
const STRIDES: u32 = 16;

/// Allocations of one operation, over many.
fn allocations_of(activity: &dyn Activity) -> Result<f64, String> {
    let named = |what| format!("{}: {what}", activity.name());
    let library = Library::new(Sharing::Processes)?;
    prepare(&library, activity, 1).map_err(named)?;
    let client = library.client();
    let mut task = activity.task(&*client, 0, 1).map_err(named)?;
    let times = task.stride() * STRIDES;
    task.repeat(times).map_err(named)?;
    let before = allocations::of_this_thread();
    task.repeat(times).map_err(named)?;
    let count = allocations::of_this_thread() - before;
    Ok(count as f64 / f64::from(times))
}

/// Runs the instrumented program.
fn shared_lines(options: &SeedOptions) -> Result<Vec<Shared>, String> {
    if crate::pinned::allowed_cores().len() < 2 {
        return Err("there is no second core".to_owned());
    }
    let program = instrumented::build()?;
    let mut command = Command::new(&program);
    command.arg(SHARED_LINES);
    if let Some(only) = &options.common.only {
        command.args(["--only", only]);
    }
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", program.display(), said.trim()));
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(parse).collect()
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
        let mut counted = Counted::default();
        let one = wanted_of_all(&SeedOptions::default()).remove(0);
        counted.add(&one, Fact::SharedLines, 1.5);
        let name = one.activity.name();
        assert_eq!(counted.of(one.family, &name, Fact::SharedLines), Some(1.5));
        assert_eq!(counted.of(one.family, &name, Fact::Instructions), None);
        let row = &counted.rows()[0];
        assert_eq!((row.tasks, row.metric), (2, "shared_lines_written_per_op"));
        let table = counted.table(one.family);
        let line = table.lines().nth(2).expect("a line for the workload");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells[1..5], [&*name, "", "", "1.50"]);
        assert_eq!(counted.table("git"), "");
    }

    /// What uses up files has enough of them for every fact.
    #[test]
    fn every_activity_can_be_repeated_as_often_as_a_fact_needs() {
        let strides = (2 * instructions::STRIDES).max(2 * STRIDES);
        for one in wanted_of_all(&SeedOptions::default()) {
            let library = Library::new(Sharing::Processes).unwrap();
            prepare(&library, &*one.activity, 1).unwrap();
            let client = library.client();
            let mut task = one.activity.task(&*client, 0, 1).unwrap();
            let times = task.stride() * strides;
            assert!(times as usize <= OPERATIONS, "{}", one.activity.name());
            task.repeat(times).unwrap();
        }
    }
}
