//! One run of the whole benchmark.

use super::counted::{FACTS, Facts};
use super::{Family, wants};
use crate::ask::Ask;
use crate::backed::back;
use crate::contender::{self, Contender};
use crate::measure::{PhaseTime, times};
use crate::options::Options;
use crate::pinned::allowed_cores;
use crate::report::{self, Report};
use crate::room;
use crate::row::{OPS_PER_CPU_SECOND, OPS_PER_SECOND};
use crate::runner::Effort;
use crate::script::Script;
use crate::stats::{Grid, Metric, Samples};
use crate::target::Fresh;
use crate::workload::Workload;
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
    by_cpu: Grid,
    pub report: &'r mut Report,
}

impl Session<'_> {
    /// Brings the targets up.
    pub fn new<'r>(options: &Options, report: &'r mut Report) -> Result<Session<'r>, String> {
        room::memory(options.quick)?;
        let contenders = match options.targets.is_empty() {
            true => Contender::all(options.pick(&USUAL[..4], &USUAL), 0)?,
            false => {
                let named: Vec<&str> = options.targets.iter().map(|name| &**name).collect();
                Contender::all(&named, named.len())?
            }
        };
        let effort = Effort {
            run: Duration::from_millis(options.pick(25, 200)),
            runs: options.rounds_or(3, 5) as u32,
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

    /// Counts instructions, allocations and shared lines of the wanted workloads.
    pub fn count(&mut self, families: &[Family]) -> Result<(), String> {
        if !self.options.no_count {
            self.counted = Facts::count(families, &self.options)?;
            self.report.rows.extend_from_slice(&self.counted.rows);
        }
        Ok(())
    }

    /// Whether the workload of the family that is measured is wanted.
    pub fn wants(&self, workload: &str) -> bool {
        wants(&self.options, self.report.bench, workload)
    }

    /// Numbers of tasks of a curve. More tasks than cores take turns.
    pub fn tasks(&self) -> Vec<usize> {
        let tasks: &[usize] = &[1, 2, 4, 8, MANY_TASKS];
        self.options.pick(&[1, 2, MANY_TASKS][..], tasks).to_vec()
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
        let mut rates = Samples::default();
        for script in scripts.iter().filter(|script| self.wants(script.name)) {
            self.effort.rates(
                &self.contenders,
                &script.repeated(),
                tasks,
                &mut rates,
                |_| true,
            )?;
        }
        self.report.add_samples(&rates);
        Ok(self.with_cpu(&rates, [OPS_PER_SECOND, OPS_PER_CPU_SECOND]))
    }

    /// The rates by the clock; those by processor time stand beside what is asked next.
    pub fn with_cpu(&mut self, rates: &Samples, [by_clock, by_cpu]: [Metric; 2]) -> Grid {
        self.by_cpu = rates.of(by_cpu).clone();
        rates.of(by_clock).clone()
    }

    /// Prints rates with the counted facts beside them, and below where in the source most lines
    /// are shared: what stops scaling next.
    pub fn print_rates(&self, grid: &Grid) {
        let (names, base) = (self.names(), self.baseline());
        let headings = FACTS.map(|fact| fact.heading);
        let facts = |workload: &str| self.counted.cells(self.report.bench, workload).into();
        let more = Some((&headings[..], &facts as &dyn Fn(&str) -> Vec<String>));
        let text = report::table(
            ["operations per second", "tasks"],
            grid,
            &names,
            &[base],
            more,
        );
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
            let what = format!("{name}, {workload}: 2 tasks / 1");
            match is_measured {
                true => self.ask_to_keep(grid, (workload, &name), (2, 1), (&what, 1.8)),
                false => self.report.asks.push(Ask::at_least(what, 1.8, &[])),
            }
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
                let what = format!("{name}, {workload}: {MANY_TASKS} tasks / 2");
                self.ask_to_keep(grid, (workload, &name), (MANY_TASKS, 2), (&what, 0.9));
            }
        }
    }

    /// Names of the targets in process.
    pub fn libraries(&self) -> Vec<String> {
        let libraries = self.contenders.iter().filter(|one| one.is_library());
        libraries.map(|one| one.name.clone()).collect()
    }

    /// Asks that so many tasks do at least `least` times what others do; by processor time that is
    /// scaled by the number of cores at work.
    fn ask_to_keep(
        &mut self,
        grid: &Grid,
        (workload, name): (&str, &str),
        (tasks, base): (usize, usize),
        (what, least): (&str, f64),
    ) {
        let cores = allowed_cores().len();
        let share = tasks.min(cores) as f64 / base.min(cores) as f64;
        let ratios = |grid: &Grid| grid.ratios(workload, (name, tasks), (name, base));
        let by_cpu = ratios(&self.by_cpu).into_iter().map(|ratio| ratio * share);
        let ask = Ask::at_least(what, least, &ratios(grid));
        self.report
            .asks
            .push(ask.by_cpu(&by_cpu.collect::<Vec<_>>()));
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
        job: &dyn Workload,
        (tasks, first): (usize, usize),
    ) -> Result<Vec<PhaseTime>, String> {
        let named = |what| format!("{}, {} x{tasks}: {what}", contender.name, job.name());
        let fresh = fresh.map_err(named)?;
        back(job.memory(tasks));
        times(fresh.target(), job, tasks, first).map_err(named)
    }
}
