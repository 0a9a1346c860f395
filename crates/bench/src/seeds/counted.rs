//! Facts that are counted, not timed: they are the same on a busy machine and on one with few
//! cores.

use super::{Family, families, wants};
use crate::activity::{Activity, Repeat};
use crate::allocations;
use crate::callgrind;
use crate::daemons::output;
use crate::instrumented;
use crate::measure::prepare;
use crate::options::Options;
use crate::pinned::{allowed_cores, pin_first};
use crate::row::Row;
use crate::table::Table;
use crate::target::{Library, Sharing, Target};
use std::process::Command;

/// The verb that builds the instrumented program and does nothing else.
pub const BUILD: &str = "seeds-build";
/// The argument by which the instrumented program counts shared lines.
pub const SHARED_LINES: &str = "shared-lines";

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "seeds-loops";
/// The function that is counted, as callgrind demangles it.
const COUNTED: &str = "hearth_bench::seeds::counted::in_window";
/// Strides of repetitions of which instructions, and allocations, are counted; as many before them
/// do not count. Together they are no more than `script::OPERATIONS`.
const STRIDES: u32 = 32;
const OF_ALLOCATIONS: u32 = 16;

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
    pub const ALL: [Fact; 3] = [Fact::Instructions, Fact::Allocations, Fact::SharedLines];

    pub fn metric(self) -> &'static str {
        match self {
            Fact::Instructions => "instructions_per_op",
            Fact::Allocations => "allocations_per_op",
            Fact::SharedLines => "shared_lines_written_per_op",
        }
    }

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
    pub family: &'static str,
    pub activity: Box<dyn Activity>,
}

/// The facts of activities on the library.
#[derive(Debug, Default)]
pub struct Facts {
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

impl Facts {
    /// Counts for the wanted activities of these families. What cannot be counted here is said and
    /// left out.
    pub fn count(families: &[&dyn Family], options: &Options) -> Result<Facts, String> {
        let wanted = wanted(families, options);
        let mut counted = Facts::default();
        if wanted.is_empty() {
            return Ok(counted);
        }
        for one in &wanted {
            counted.add(one, Fact::Allocations, allocations_of(&*one.activity)?);
        }
        match instructions(&wanted, options) {
            Ok(values) => {
                for (one, value) in wanted.iter().zip(values) {
                    counted.add(one, Fact::Instructions, value);
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
    pub fn of(&self, family: &str, workload: &str, fact: Fact) -> Option<f64> {
        self.facts
            .iter()
            .find(|(f, w, of, _)| *f == family && w == workload && *of == fact)
            .map(|&(_, _, _, value)| value)
    }

    pub fn rows(&self) -> Vec<Row> {
        let row = |(family, workload, fact, value): &(&'static str, String, Fact, f64)| {
            let tasks = if *fact == Fact::SharedLines { 2 } else { 1 };
            Row::exact(
                family,
                (workload, "lib", tasks),
                (fact.metric(), "1"),
                *value,
            )
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
        let mut table = Table::new(heading.chain(Fact::ALL.map(Fact::heading)));
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
fn wanted(families: &[&dyn Family], options: &Options) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for family in families {
        let family: &dyn Family = *family;
        let activities = family.counted().into_iter();
        let of_this = activities.map(|activity| Wanted {
            family: family.name(),
            activity,
        });
        wanted.extend(of_this.filter(|one| wants(options, one.family, &one.activity.name())));
    }
    wanted
}

/// The activities of all families that the options want.
fn wanted_of_all(options: &Options) -> Vec<Wanted> {
    wanted(&families(), options)
}

/// The activities that these arguments of `hearth-bench seeds` name, in order.
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
    let totals = callgrind::totals(COUNTED, &args, wanted.len())?;
    let values = wanted.iter().zip(totals).map(|(one, total)| {
        let times = on_library(&*one.activity, |task| Ok(task.stride() * STRIDES))?;
        Ok(total as f64 / f64::from(times))
    });
    values.collect()
}

/// Runs every wanted activity; callgrind counts what `in_window` does.
pub fn run_loops(args: &[String]) -> Result<(), String> {
    pin_first()?;
    for one in wanted_of_args(args)? {
        on_library(&*one.activity, |task| {
            let times = task.stride() * STRIDES;
            task.repeat(times)?;
            in_window(task, times)
        })?;
    }
    Ok(())
}

/// Callgrind knows this function by its name.
#[inline(never)]
fn in_window(task: &mut dyn Repeat, times: u32) -> Result<(), String> {
    task.repeat(times)
}

/// Calls `f` with a task that has the library to itself.
fn on_library<T>(
    activity: &dyn Activity,
    f: impl FnOnce(&mut dyn Repeat) -> Result<T, String>,
) -> Result<T, String> {
    let named = |what| format!("{}: {what}", activity.name());
    let library = Library::new(Sharing::Processes)?;
    prepare(&library, activity, 1).map_err(named)?;
    let client = library.client();
    let mut task = activity.task(&*client, 0, 1).map_err(named)?;
    f(&mut *task).map_err(named)
}

/// Allocations of one operation, over many.
fn allocations_of(activity: &dyn Activity) -> Result<f64, String> {
    on_library(activity, |task| {
        let times = task.stride() * OF_ALLOCATIONS;
        task.repeat(times)?;
        let before = allocations::of_this_thread();
        task.repeat(times)?;
        let count = allocations::of_this_thread() - before;
        Ok(count as f64 / f64::from(times))
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
        for one in wanted_of_all(&Options::default()) {
            let name = one.activity.name();
            on_library(&*one.activity, |task| {
                let times = task.stride() * 2 * STRIDES.max(OF_ALLOCATIONS);
                assert!(times as usize <= crate::script::OPERATIONS, "{name}");
                task.repeat(times)
            })
            .unwrap();
        }
    }
}
