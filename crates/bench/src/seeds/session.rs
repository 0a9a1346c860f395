//! One run of the whole benchmark.

use super::counted::{Fact, Facts};
use super::{Family, wants};
use crate::activity::Job;
use crate::ask::Ask;
use crate::backed::back;
use crate::contender::{self, Contender};
use crate::measure::{PhaseTime, times};
use crate::options::Options;
use crate::pinned::allowed_cores;
use crate::report::{self, Report};
use crate::room;
use crate::runner::{Effort, Rates};
use crate::script::Script;
use crate::stats::Grid;
use crate::target::Fresh;
use std::time::Duration;

/// Targets when none are named; a first look leaves out the last one.
const USUAL: [&str; 5] = ["lib", "lib-shared", "mount", "tmpfs", "ext4"];
/// Tasks that take turns on the cores; what they keep of what two do is asked.
pub const MANY_TASKS: usize = 16;
/// The targets, how much is measured, and what has come of it so far.
pub struct Session<'r> {
    pub options: Options,
    pub effort: Effort,
    pub contenders: Vec<Contender>,
    counted: Facts,
    /// The rates by processor time of what is asked next.
    pub by_cpu: Grid,
    pub report: &'r mut Report,
}

impl Session<'_> {
    /// Brings the targets up.
    pub fn new<'r>(options: &Options, report: &'r mut Report) -> Result<Session<'r>, String> {
        let quick = options.quick;
        room::memory(quick)?;
        let contenders = match options.targets.is_empty() {
            true => Contender::all(if quick { &USUAL[..4] } else { &USUAL }, 0)?,
            false => {
                let named: Vec<&str> = options.targets.iter().map(|name| &**name).collect();
                Contender::all(&named, named.len())?
            }
        };
        let effort = Effort {
            run: Duration::from_millis(if quick { 25 } else { 200 }),
            runs: options.rounds.unwrap_or(if quick { 3 } else { 5 }) as u32,
            library_turns: 8,
        };
        let cores = allowed_cores().len();
        println!(
            "{cores} cores, runs of {} ms, {} of each, alternating; medians. On the library a run \
             is twice as long,\nin eight turns: all numbers of tasks take turns with each other.",
            effort.run.as_millis(),
            effort.runs
        );
        if cores < 4 {
            println!(
                "This machine has few cores: what happens with more is not shown by throughput \
                 here. Beside it\nstand the counted facts, which do not depend on the machine."
            );
        }
        Ok(Session {
            options: options.clone(),
            effort,
            contenders,
            counted: Facts::default(),
            by_cpu: Grid::default(),
            report,
        })
    }

    /// Counts instructions, allocations and shared lines of the wanted activities.
    pub fn count(&mut self, families: &[&dyn Family]) -> Result<(), String> {
        if !self.options.no_count {
            self.counted = Facts::count(families, &self.options)?;
            self.report.rows.extend(self.counted.rows());
        }
        Ok(())
    }

    /// Whether the workload of the family that is measured is wanted.
    pub fn wants(&self, workload: &str) -> bool {
        wants(&self.options, self.report.bench, workload)
    }

    /// Numbers of tasks of a curve. More tasks than cores take turns.
    pub fn tasks(&self) -> Vec<usize> {
        match self.options.quick {
            true => vec![1, 2, MANY_TASKS],
            false => vec![1, 2, 4, 8, MANY_TASKS],
        }
    }

    /// Names of the targets.
    pub fn names(&self) -> Vec<String> {
        contender::names(&self.contenders)
    }

    /// What the others are compared with: tmpfs, else the first directory, else the first target.
    pub fn baseline(&self) -> &str {
        let named = self.contenders.iter().find(|one| one.name == "tmpfs");
        let directory = || self.contenders.iter().find(|one| !one.is_library());
        let base = named.or_else(directory).or(self.contenders.first());
        base.map_or("", |one| &*one.name)
    }

    /// Operations per second of the wanted scripts on every target, for every number of tasks;
    /// keeps the rows.
    pub fn rates(&mut self, scripts: &[&'static Script], tasks: &[usize]) -> Result<Grid, String> {
        let mut rates = Rates::default();
        for script in scripts.iter().filter(|script| self.wants(script.name)) {
            self.effort
                .rates(&self.contenders, script, tasks, &mut rates, |_| true)?;
        }
        self.report.add_grid(&rates.by_clock, ("ops_per_s", "1/s"));
        self.report
            .add_grid(&rates.by_cpu, ("ops_per_cpu_s", "1/s"));
        self.by_cpu = rates.by_cpu;
        Ok(rates.by_clock)
    }

    /// Prints rates with the counted facts beside them, and below where in the source most lines
    /// are shared: what stops scaling next.
    pub fn print_rates(&self, grid: &Grid) {
        let (names, base) = (self.names(), self.baseline());
        let headings = Fact::ALL.map(Fact::heading);
        let facts = |workload: &str| self.counted.cells(self.report.bench, workload).into();
        let more = (&headings[..], &facts as &dyn Fn(&str) -> Vec<String>);
        let text = report::table("operations per second", grid, &names, &[base], more);
        println!("{text}{}", self.counted.places_text(self.report.bench));
    }

    /// Prints the counted facts in a table of their own, for a family that prints no rates.
    pub fn print_facts(&self) {
        let bench = self.report.bench;
        println!(
            "{}{}",
            self.counted.table(bench),
            self.counted.places_text(bench)
        );
    }

    /// Draws the medians of a workload on all targets.
    pub fn draw(
        &self,
        name: &str,
        title: (&str, &str),
        workload: (&Grid, &str),
        tasks: &[usize],
    ) -> Result<(), String> {
        self.report
            .draw(name, &report::chart(title, workload, &self.names(), tasks))
    }

    /// Asks that two tasks on two cores do 1.8 times what one does, on the library.
    pub fn ask_of_two(&mut self, grid: &Grid, workload: &str) {
        let is_measured = allowed_cores().len() > 1;
        for name in self.libraries() {
            let (mut ratios, mut by_cpu) = (Vec::new(), Vec::new());
            if is_measured {
                ratios = grid.ratios(workload, (&name, 2), (&name, 1));
                by_cpu = self.ratios_by_cpu(workload, &name, 2, 1);
            }
            let what = format!("{name}, {workload}: 2 tasks / 1");
            self.report
                .asks
                .push(Ask::at_least(what, 1.8, &ratios).by_cpu(&by_cpu));
        }
    }

    /// Asks that 16 tasks keep 0.9 of what two do, where there are two cores, on the library.
    pub fn ask_of_many(&mut self, grid: &Grid, workload: &str) {
        if allowed_cores().len() != 2 {
            return;
        }
        for name in self.libraries() {
            let ratios = grid.ratios(workload, (&name, MANY_TASKS), (&name, 2));
            if !ratios.is_empty() {
                let by_cpu = self.ratios_by_cpu(workload, &name, MANY_TASKS, 2);
                let what = format!("{name}, {workload}: {MANY_TASKS} tasks / 2");
                self.report
                    .asks
                    .push(Ask::at_least(what, 0.9, &ratios).by_cpu(&by_cpu));
            }
        }
    }

    /// Names of the targets in process.
    pub fn libraries(&self) -> Vec<String> {
        let libraries = self.contenders.iter().filter(|one| one.is_library());
        libraries.map(|one| one.name.clone()).collect()
    }

    /// The ratio of `tasks` to `base` by processor time, scaled by the number of cores at work.
    fn ratios_by_cpu(&self, workload: &str, name: &str, tasks: usize, base: usize) -> Vec<f64> {
        let cores = allowed_cores().len();
        let share = tasks.min(cores) as f64 / base.min(cores) as f64;
        let ratios = self.by_cpu.ratios(workload, (name, tasks), (name, base));
        ratios.iter().map(|ratio| ratio * share).collect()
    }

    /// Asks for a ratio of two targets with one task.
    pub fn ask_against(&mut self, grid: &Grid, workload: &str, pair: [&str; 2], least: f64) {
        let [name, base] = pair.map(|target| (target, 1));
        let what = format!("{} / {}, {workload}", pair[0], pair[1]);
        let by_cpu = self.by_cpu.ratios(workload, name, base);
        let ask = Ask::at_least(what, least, &grid.ratios(workload, name, base));
        self.report.asks.push(ask.by_cpu(&by_cpu));
    }

    /// Runs a job once on a fresh target, the first task on the core number `first`.
    pub fn job(
        &self,
        contender: &Contender,
        fresh: Result<Box<dyn Fresh>, String>,
        job: &dyn Job,
        (tasks, first): (usize, usize),
    ) -> Result<Vec<PhaseTime>, String> {
        let named = |what| format!("{}, {} x{tasks}: {what}", contender.name, job.name());
        let fresh = fresh.map_err(named)?;
        back(job.memory(tasks));
        times(fresh.target(), job, tasks, first).map_err(named)
    }
}
