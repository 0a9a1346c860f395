//! One run of the whole benchmark.

use super::ask::{self, Ask};
use super::contender::Contender;
use super::counted::Counted;
use super::grid::Grid;
use super::options::SeedOptions;
use super::{Family, rates_table, room};
use crate::activity::{Activity, Job};
use crate::backed::back;
use crate::chart::Chart;
use crate::measure::{Effort, PhaseTime, Rate, prepare, rate, times};
use crate::pinned::allowed_cores;
use crate::row::Row;
use crate::target::Fresh;
use std::time::Duration;

/// Targets when none are named.
const USUAL: [&str; 5] = ["lib", "lib-shared", "mount", "tmpfs", "ext4"];
/// The same for a first look.
const QUICK: [&str; 4] = ["lib", "lib-shared", "mount", "tmpfs"];

/// Tasks that take turns on the cores; what they keep of what two do is asked.
pub const CROWD: usize = 16;

/// What was measured: on which target, with how many tasks.
type Measured<'a> = ((&'a str, usize), Rate);

/// What the turns of one run gave, on which target and for which cell.
pub type Turns<'a, C, T> = ((&'a str, C), Vec<T>);

/// The targets, how much is measured, and what has come of it so far.
pub struct Session {
    options: SeedOptions,
    effort: Effort,
    contenders: Vec<Contender>,
    counted: Counted,
    /// The rates of the family that was measured last, by processor time.
    by_cpu: Grid,
    rows: Vec<Row>,
    asks: Vec<Ask>,
}

impl Session {
    /// Brings the targets up.
    ///
    /// # Errors
    /// A target that was named cannot be had, or there is too little room.
    pub fn new(options: SeedOptions) -> Result<Session, String> {
        let quick = options.common.quick;
        room::memory(quick)?;
        let mut contenders = Vec::new();
        for name in &options.targets {
            contenders.push(Contender::new(name)?);
        }
        if options.targets.is_empty() {
            let usual = if quick { &QUICK[..] } else { &USUAL[..] };
            for name in usual {
                match Contender::new(name) {
                    Ok(contender) => contenders.push(contender),
                    Err(what) => println!("without {name}: {what}"),
                }
            }
        }
        let effort = Effort {
            run: Duration::from_millis(if quick { 25 } else { 200 }),
            runs: options
                .common
                .rounds
                .map_or(if quick { 3 } else { 5 }, |n| n as u32),
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
            options,
            effort,
            contenders,
            counted: Counted::default(),
            by_cpu: Grid::default(),
            rows: Vec::new(),
            asks: Vec::new(),
        })
    }

    /// Counts instructions, allocations and shared lines of the wanted activities.
    ///
    /// # Errors
    /// Counting was possible and failed.
    pub fn count(&mut self, families: &[&dyn Family]) -> Result<(), String> {
        if self.options.no_count {
            return Ok(());
        }
        self.counted = Counted::count(families, &self.options)?;
        self.rows.extend(self.counted.rows());
        Ok(())
    }

    /// What was asked for on the command line.
    pub fn options(&self) -> &SeedOptions {
        &self.options
    }

    /// Whether this is a first look.
    pub fn is_quick(&self) -> bool {
        self.options.common.quick
    }

    /// Length and number of runs.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Numbers of tasks of a curve. More tasks than cores take turns.
    pub fn tasks(&self) -> Vec<usize> {
        match self.is_quick() {
            true => vec![1, 2, CROWD],
            false => vec![1, 2, 4, 8, CROWD],
        }
    }

    /// The targets.
    pub fn contenders(&self) -> &[Contender] {
        &self.contenders
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        let name = |contender: &Contender| contender.name.clone();
        self.contenders.iter().map(name).collect()
    }

    /// What the others are compared with: tmpfs, else the first directory, else the first target.
    pub fn baseline(&self) -> &str {
        let named = self.contenders.iter().find(|one| one.name == "tmpfs");
        let directory = || self.contenders.iter().find(|one| !one.is_library());
        named
            .or_else(directory)
            .or(self.contenders.first())
            .map_or("", |one| &*one.name)
    }

    /// Rates by workload and number of tasks, with the counted facts beside them, and below where
    /// in the source most lines are shared: what stops scaling next.
    pub fn table_of_rates(&self, bench: &str, grid: &Grid, tasks: &[usize]) -> String {
        let (names, base) = (self.names(), self.baseline());
        let text = rates_table::text(bench, grid, &names, base, tasks, &self.counted);
        text + &self.places(bench)
    }

    /// The counted facts in a table of their own, for a family that prints no rates.
    pub fn table_of_facts(&self, bench: &str) -> String {
        self.counted.table(bench) + &self.places(bench)
    }

    fn places(&self, bench: &str) -> String {
        let places = self.counted.places(bench);
        if places.is_empty() {
            return String::new();
        }
        let lines = places.lines().map(|line| format!("- {line}\n"));
        let heading = "\nMost of the shared lines of two tasks on the library:\n\n".to_owned();
        heading + &lines.collect::<String>()
    }

    /// Asks that two tasks on two cores do 1.8 times what one does, and that 16 keep 0.9 of that,
    /// on the library.
    pub fn ask_to_scale(&mut self, grid: &Grid, workload: &str) {
        self.ask_of_two(grid, workload);
        self.ask_of_a_crowd(grid, workload);
    }

    /// The first of these.
    pub fn ask_of_two(&mut self, grid: &Grid, workload: &str) {
        let is_measured = allowed_cores().len() > 1;
        for name in self.libraries() {
            let (mut ratios, mut by_cpu) = (Vec::new(), Vec::new());
            if is_measured {
                ratios = grid.ratios(workload, (&name, 2), (&name, 1));
                by_cpu = self.ratios_by_cpu(workload, &name, 2, 1);
            }
            let what = format!("{name}, {workload}: 2 tasks / 1");
            self.ask(Ask::at_least(what, 1.8, &ratios).by_cpu(&by_cpu));
        }
    }

    /// The second, where there are two cores.
    pub fn ask_of_a_crowd(&mut self, grid: &Grid, workload: &str) {
        if allowed_cores().len() != 2 {
            return;
        }
        for name in self.libraries() {
            let ratios = grid.ratios(workload, (&name, CROWD), (&name, 2));
            if !ratios.is_empty() {
                let by_cpu = self.ratios_by_cpu(workload, &name, CROWD, 2);
                let what = format!("{name}, {workload}: {CROWD} tasks / 2");
                self.ask(Ask::at_least(what, 0.9, &ratios).by_cpu(&by_cpu));
            }
        }
    }

    fn libraries(&self) -> Vec<String> {
        let libraries = self.contenders.iter().filter(|one| one.is_library());
        libraries.map(|one| one.name.clone()).collect()
    }

    /// As many cores work: so many times what `base` tasks do in a second of processor time.
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
        self.ask(ask.by_cpu(&by_cpu));
    }

    /// Prints the heading of a family.
    pub fn heading(&self, family: &dyn Family) {
        println!("\n## {}\n\n{}\n", family.name(), family.about());
    }

    /// Operations per second of the wanted ones of `activities` on every target, for every number
    /// of tasks; everything alternates, and the rows are kept.
    ///
    /// # Errors
    /// A target refuses, or did something else.
    pub fn rates(
        &mut self,
        bench: &'static str,
        activities: &[Box<dyn Activity>],
        tasks: &[usize],
    ) -> Result<Grid, String> {
        let (mut grid, mut by_cpu) = (Grid::default(), Grid::default());
        for activity in activities {
            let name = activity.name();
            if !self.options.wants(bench, &name) {
                continue;
            }
            for round in 0..self.effort.runs {
                for ((target, tasks), rate) in self.round(&**activity, tasks, round)? {
                    grid.push(&name, target, tasks, rate.per_second);
                    by_cpu.push(&name, target, tasks, rate.per_cpu_second);
                }
            }
            eprintln!("measured: {bench}, {name}");
        }
        self.rows.extend(grid.rows(bench, "ops_per_s", "1/s"));
        self.rows.extend(by_cpu.rows(bench, "ops_per_cpu_s", "1/s"));
        self.by_cpu = by_cpu;
        Ok(grid)
    }

    /// The rates by processor time of what is asked next.
    pub fn by_cpu(&mut self, rates: Grid) {
        self.by_cpu = rates;
    }

    /// One run of `activity` on every target for every number of tasks.
    fn round(
        &self,
        activity: &dyn Activity,
        tasks: &[usize],
        round: u32,
    ) -> Result<Vec<Measured<'_>>, String> {
        let name = activity.name();
        let turns = self.in_turns(tasks, round, |contender, tasks, first| {
            let named = |what| format!("{}, {name} x{tasks}: {what}", contender.name);
            let fresh = contender.fresh().map_err(named)?;
            let target = fresh.target();
            prepare(target, activity, tasks).map_err(named)?;
            let length = contender.turn(self.effort.run);
            rate(target, activity, tasks, length, first).map_err(named)
        })?;
        let together = |(key, turns): (_, Vec<Rate>)| (key, Rate::together(&turns));
        Ok(turns.into_iter().map(together).collect())
    }

    /// One run of every cell on every target; a cell says with how many tasks, and `run` is told
    /// as well which core comes first.
    ///
    /// A run on the library is made of short ones, with all cells in turn: what else happens on
    /// the machine lasts longer than they do, and happens to all. Nor is it always the same core
    /// that one task has.
    ///
    /// # Errors
    /// What `run` answers.
    pub fn in_turns<C: Copy, T>(
        &self,
        cells: &[C],
        round: u32,
        run: impl Fn(&Contender, C, usize) -> Result<T, String>,
    ) -> Result<Vec<Turns<'_, C, T>>, String> {
        let mut all = Vec::new();
        for contender in &self.contenders {
            let empty = |&cell| ((&*contender.name, cell), Vec::new());
            let mut turns: Vec<Turns<'_, C, T>> = cells.iter().map(empty).collect();
            for turn in 0..contender.turns() {
                let mut cells: Vec<_> = turns.iter_mut().collect();
                // What the one before leaves behind is not always left to the same one.
                if turn % 2 == 1 {
                    cells.reverse();
                }
                for ((_, cell), runs) in cells {
                    runs.push(run(contender, *cell, (round + turn) as usize)?);
                }
            }
            all.extend(turns);
        }
        Ok(all)
    }

    /// Runs a job once on a fresh target, the first task on the core number `first`.
    ///
    /// # Errors
    /// The target refuses, or did something else.
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

    /// Keeps rows.
    pub fn keep(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    /// Keeps what was asked for and what came of it.
    pub fn ask(&mut self, ask: Ask) {
        self.asks.push(ask);
    }

    /// Draws a chart, beside the rows if they are kept in a file, else in `target/seeds`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn draw(&self, name: &str, chart: &Chart) -> Result<(), String> {
        let rows = self.options.common.json.as_deref();
        let path = chart.draw(name, rows, "target/seeds")?;
        println!("Drawn: {}\n", path.display());
        Ok(())
    }

    /// The rows so far.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Prints the asks.
    ///
    /// # Errors
    /// One is not met, and this is not just a first look.
    pub fn verdict(&self) -> Result<(), String> {
        if self.asks.is_empty() {
            return Ok(());
        }
        println!("\n## What it must show\n\n{}", ask::table(&self.asks));
        let missed = self.asks.iter().filter(|ask| ask.is_met() == Some(false));
        match missed.count() {
            0 => Ok(()),
            missed if self.is_quick() => {
                println!("{missed} of {} not met in this first look", self.asks.len());
                Ok(())
            }
            missed => Err(format!("{missed} of {} asks are not met", self.asks.len())),
        }
    }
}
