//! `hearth-bench seeds`: the tests that the patch sets of 2005 and 2010 were measured by, on the
//! library, a mount and directories of the host side by side.
//!
//! A [`Family`] is one such test. It tells the [`Session`] what to run, and prints its own table;
//! the session alternates the runs, keeps the rows and the asks, and draws.

mod chinner;
pub mod counted;
mod fxmark;
mod git;
mod rates;
pub mod session;
pub mod teardown;
pub mod thread_perf;
mod tiobench;

use crate::options::Options;
use crate::report::Report;
use crate::script::Script;
use crate::workload::Workload;
use session::Session;

/// One test.
#[derive(Clone, Copy)]
pub struct Family {
    /// The `bench` of its rows, and what `--only` takes.
    pub name: &'static str,
    /// What is done, and what its figures mean.
    pub about: fn() -> String,
    /// Its workloads that repeat one operation.
    pub scripts: fn() -> Vec<&'static Script>,
    /// Names of its workloads that do something else.
    pub others: fn() -> Vec<&'static str>,
    /// What is counted beside the scripts on the library: instructions, allocations and shared
    /// lines of what a workload does an operation at a time, up to `script::OPERATIONS` of them.
    pub also_counted: fn() -> Vec<Box<dyn Workload>>,
    /// Measures what is wanted and prints it.
    pub run: fn(&mut Session) -> Result<(), String>,
}

impl Family {
    /// Names of its workloads, which `--only` takes as well.
    pub fn workloads(&self) -> Vec<&'static str> {
        let scripts = (self.scripts)().into_iter().map(|script| script.name);
        scripts.chain((self.others)()).collect()
    }

    /// All whose operations are counted: the scripts, and what is counted beside them.
    pub fn all_counted(&self) -> Vec<Box<dyn Workload>> {
        let mut all = boxed((self.scripts)());
        all.extend((self.also_counted)());
        all
    }
}

fn boxed(scripts: impl IntoIterator<Item = &'static Script>) -> Vec<Box<dyn Workload>> {
    let boxed = |script: &'static Script| Box::new(script.repeated()) as Box<dyn Workload>;
    scripts.into_iter().map(boxed).collect()
}

/// All tests, in the order of the report.
pub const FAMILIES: [Family; 9] = [
    rates::ONE_TASK,
    rates::DIRECTORIES,
    rates::COMMON,
    thread_perf::FAMILY,
    teardown::FAMILY,
    git::FAMILY,
    fxmark::FAMILY,
    tiobench::FAMILY,
    chinner::FAMILY,
];

/// Whether the workload of the family is wanted. `--only` with the name of a family means that one
/// alone, although it may be a part of another's workload.
fn wants(options: &Options, family: &str, workload: &str) -> bool {
    match options.only.as_deref() {
        Some(only) if FAMILIES.iter().any(|one| one.name == only) => family == only,
        _ => options.wants(workload),
    }
}

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let is_chosen = |family: &Family| {
        let wants = |workload: &&str| wants(options, family.name, workload);
        options.only.is_none() || family.workloads().iter().any(wants)
    };
    let chosen: Vec<Family> = FAMILIES.into_iter().filter(is_chosen).collect();
    if let ([], Some(only)) = (&chosen[..], &options.only) {
        let named = |family: &Family| [&[family.name], &family.workloads()[..]].concat();
        let names = FAMILIES
            .iter()
            .flat_map(named)
            .collect::<Vec<_>>()
            .join(", ");
        return Err(format!("unknown workload '{only}'; there are: {names}"));
    }
    let mut session = Session::new(options, report)?;
    session.count(&chosen)?;
    let mut failed = Vec::new();
    for family in chosen {
        session.report.bench = family.name;
        println!("\n## {}\n\n{}\n", family.name, (family.about)());
        // The others are measured all the same.
        if let Err(what) = (family.run)(&mut session) {
            println!("Not measured: {what}\n");
            failed.push(format!("{}: {what}", family.name));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => session.report.finish().and(Err(failed.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_takes_a_family_or_a_part_of_a_workload() {
        let wants = |only: &str, family: &str, workload: &str| {
            let options = Options {
                only: Some(only.to_owned()),
                ..Options::default()
            };
            super::wants(&options, family, workload)
        };
        assert!(wants("single", "single", "stat") && wants("creat", "file-ops", "creat/unlink"));
        assert!(!wants("single", "thread_perf", "dirsingle") && !wants("send", "paths", "stat"));
    }
}
