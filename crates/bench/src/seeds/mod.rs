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

use crate::activity::Activity;
use crate::options::Options;
use crate::report::Report;
use crate::script::Script;
use session::Session;

pub trait Family: Sync {
    /// Its name: the `bench` of its rows, and what `--only` takes.
    fn name(&self) -> &'static str;
    /// What is done, and what its figures mean.
    fn about(&self) -> String;
    /// Names of its workloads, which `--only` takes as well.
    fn workloads(&self) -> Vec<String> {
        self.activities()
            .iter()
            .map(|script| script.name.to_owned())
            .collect()
    }
    /// Those of them that repeat one operation.
    fn activities(&self) -> Vec<&'static Script> {
        Vec::new()
    }
    /// Those whose instructions, allocations and shared lines are counted on the library: they, and
    /// what a job does an operation at a time, up to `script::OPERATIONS` of them.
    fn counted(&self) -> Vec<Box<dyn Activity>> {
        boxed(self.activities())
    }
    /// Measures what is wanted and prints it.
    fn run(&self, session: &mut Session) -> Result<(), String>;
}

fn boxed(scripts: impl IntoIterator<Item = &'static Script>) -> Vec<Box<dyn Activity>> {
    let boxed = |script| Box::new(script) as Box<dyn Activity>;
    scripts.into_iter().map(boxed).collect()
}

/// All tests, in the order of the report.
pub fn families() -> [&'static dyn Family; 9] {
    [
        &rates::Single,
        &rates::FileOps,
        &rates::Paths,
        &thread_perf::ThreadPerf,
        &teardown::Teardown,
        &git::Git,
        &fxmark::FxMark,
        &tiobench::TioBench,
        &chinner::Chinner,
    ]
}

/// Whether the workload of the family is wanted. `--only` with the name of a family means that one
/// alone, although it may be a part of another's workload.
fn wants(options: &Options, family: &str, workload: &str) -> bool {
    match options.only.as_deref() {
        Some(only) if families().iter().any(|one| one.name() == only) => family == only,
        _ => options.wants(workload),
    }
}

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let families = families();
    let is_chosen = |family: &&&dyn Family| {
        let wants = |workload: &String| wants(options, family.name(), workload);
        options.only.is_none() || family.workloads().iter().any(wants)
    };
    let chosen: Vec<&dyn Family> = families.iter().filter(is_chosen).copied().collect();
    if chosen.is_empty() {
        let name = |family: &&dyn Family| std::iter::once(family.name().to_owned());
        let named = |family| name(family).chain(family.workloads());
        let names: Vec<String> = families.iter().flat_map(named).collect();
        let only = options.only.clone().unwrap_or_default();
        return Err(format!(
            "unknown workload '{only}'; there are: {}",
            names.join(", ")
        ));
    }
    let mut session = Session::new(options, report)?;
    session.count(&chosen)?;
    let mut failed = Vec::new();
    for family in chosen {
        session.report.bench = family.name();
        println!("\n## {}\n\n{}\n", family.name(), family.about());
        // The others are measured all the same.
        if let Err(what) = family.run(&mut session) {
            println!("Not measured: {what}\n");
            failed.push(format!("{}: {what}", family.name()));
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
