//! `hearth-bench seeds`: the tests that the patch sets of 2005 and 2010 were judged by, on the
//! library, a mount and directories of the host side by side.
//!
//! A [`Family`] is one such test. It tells the [`Session`] what to run, and prints its own table;
//! the session alternates the runs, keeps the rows and the asks, and draws.

pub mod ask;
pub mod chinner;
pub mod contender;
pub mod counted;
pub mod file_ops;
pub mod fxmark;
pub mod git;
pub mod grid;
pub mod options;
pub mod paths;
pub mod rates_table;
pub mod room;
pub mod session;
pub mod single;
pub mod teardown;
pub mod thread_perf;
pub mod tiobench;

use crate::activity::Activity;
use crate::row::write_json;
use options::SeedOptions;
use session::Session;

/// One of the tests.
pub trait Family: Sync {
    /// Its name: the `bench` of its rows, and what `--only` takes.
    fn name(&self) -> &'static str;

    /// One line: what is done, and what its figures mean.
    fn about(&self) -> String;

    /// Names of its workloads, which `--only` takes as well.
    fn workloads(&self) -> Vec<String>;

    /// Those of them that repeat one operation.
    fn activities(&self) -> Vec<Box<dyn Activity>> {
        Vec::new()
    }

    /// Those whose instructions, allocations and shared lines are counted on the library: they, and
    /// what a job does an operation at a time, up to [`counted::OPERATIONS`] of them.
    fn counted(&self) -> Vec<Box<dyn Activity>> {
        self.activities()
    }

    /// Measures what is wanted and prints it.
    ///
    /// # Errors
    /// A target refuses, or did something else than was asked.
    fn run(&self, session: &mut Session) -> Result<(), String>;
}

/// All tests, in the order of the report.
pub fn families() -> Vec<Box<dyn Family>> {
    vec![
        Box::new(single::Single),
        Box::new(file_ops::FileOps),
        Box::new(paths::Paths),
        Box::new(thread_perf::ThreadPerf),
        Box::new(teardown::Teardown),
        Box::new(git::Git),
        Box::new(fxmark::FxMark),
        Box::new(tiobench::TioBench),
        Box::new(chinner::Chinner),
    ]
}

/// Runs the benchmark and prints its tables.
///
/// # Errors
/// Bad arguments, a target that refuses, or, unless it is a quick look, an ask that is not met.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = SeedOptions::parse(args)?;
    let families = families();
    let chosen: Vec<&dyn Family> = families
        .iter()
        .map(|family| &**family)
        .filter(|family| options.wants_family(*family))
        .collect();
    if chosen.is_empty() {
        let names: Vec<String> = families
            .iter()
            .flat_map(|family| std::iter::once(family.name().to_owned()).chain(family.workloads()))
            .collect();
        return Err(format!(
            "unknown workload '{}'; there are: {}",
            options.common.only.unwrap_or_default(),
            names.join(", ")
        ));
    }
    let mut session = Session::new(options)?;
    session.count(&chosen)?;
    let mut failed = Vec::new();
    for family in chosen {
        session.heading(family);
        // The others are measured all the same.
        if let Err(what) = family.run(&mut session) {
            println!("Not measured: {what}\n");
            failed.push(format!("{}: {what}", family.name()));
        }
    }
    let json = session.options().common.json.clone();
    if let Some(path) = json {
        write_json(&path, session.rows())?;
    }
    let verdict = session.verdict();
    match failed.is_empty() {
        true => verdict,
        false => Err(failed.join("; ")),
    }
}
