//! Chinner's test: every thread makes a fixed number of empty files in a directory of its own,
//! walks them, changes their modes and removes them (the script around fs_mark with which he
//! measured XFS: create, `find -ctime`, chmod, `rm -rf`).
//!
//! The number of files per thread is fixed, so N threads do N times the work of one: ideally in the
//! same time.

use super::Family;
use super::counted::OPERATIONS;
use super::grid::Grid;
use super::session::Session;
use crate::activity::{Activity, Job, Phased, Repeat, must, of_files, path};
use crate::chart::Chart;
use crate::measure::PhaseTime;
use crate::row::percent;
use crate::table::{Table, short};
use crate::target::Client;
use std::ffi::CString;

/// The test.
pub struct Chinner;

const PHASES: [&str; 4] = ["create", "walk", "chmod", "unlink"];
const WORKLOAD: &str = "create/walk/chmod/unlink";
/// Files in one directory; a thread has as many directories as it needs.
const IN_DIRECTORY: usize = 1_000;
/// Times that a thread does all of it before it counts: afterwards the memory is there, as it is
/// for a kernel, and so is what is made on first use.
const WARM: usize = 2;
/// Permissions after the change.
const MODE: u16 = 0o600;

/// Files per second, by phase.
#[derive(Default)]
struct Rates {
    /// Over the mean time of a core.
    by_core: Grid,
    by_cpu: Grid,
}

impl Rates {
    fn push(&mut self, name: &str, threads: usize, turns: &[Vec<PhaseTime>]) {
        for (n, phase) in PHASES.iter().enumerate() {
            let time = PhaseTime::together(turns.iter().map(|phases| phases[n]));
            let files = time.operations as f64;
            self.by_core
                .push(phase, name, threads, files / time.per_core);
            self.by_cpu.push(phase, name, threads, files / time.cpu);
        }
    }
}

/// So many files for each thread.
pub struct Files {
    each: usize,
}

fn top(task: usize) -> CString {
    path(format!("/thread-{task}"))
}

fn file(task: usize, n: usize) -> CString {
    path(format!("/thread-{task}/{}/file-{n}", n / IN_DIRECTORY))
}

/// Makes file number `n`, and its directory if it is the first one there.
fn create(client: &dyn Client, task: usize, n: usize) -> Result<(), String> {
    if n.is_multiple_of(IN_DIRECTORY) {
        client.mkdir(&path(format!("/thread-{task}/{}", n / IN_DIRECTORY)))?;
    }
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    client.close(client.open(&file(task, n), flags)?)
}

fn look(client: &dyn Client, file: &CString) -> Result<(), String> {
    let about = client.about(file)?;
    must(!about.is_dir && about.size == 0, || format!("{file:?}"))
}

impl Job for Files {
    fn name(&self) -> String {
        WORKLOAD.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.to_vec()
    }

    fn memory(&self, tasks: usize) -> u64 {
        of_files(tasks * self.each, 0)
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        (0..tasks).try_for_each(|task| client.mkdir(&top(task)))
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        let mut thread = Thread {
            job: self,
            client,
            task,
        };
        for _ in 0..WARM {
            for phase in 0..PHASES.len() {
                thread.phase(phase)?;
            }
            thread.client.mkdir(&top(task))?;
        }
        Ok(Box::new(thread))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        let left = client.list(c"/")?;
        must(left == 0, || {
            format!("{left} of {tasks} directories are left")
        })
    }
}

struct Thread<'c> {
    job: &'c Files,
    client: Box<dyn Client + 'c>,
    task: usize,
}

impl Thread<'_> {
    /// Calls `f` with every file below `dir`, as `find` finds them, and `after` with every
    /// directory once it is through with it.
    fn walk(
        &self,
        dir: &CString,
        f: &mut dyn FnMut(CString) -> Result<(), String>,
        after: &mut dyn FnMut(&CString) -> Result<(), String>,
    ) -> Result<(), String> {
        for entry in self.client.entries(dir)? {
            let below = path([dir.to_bytes(), b"/", &entry.name].concat());
            if entry.is_dir {
                self.walk(&below, f, after)?;
            } else {
                f(below)?;
            }
        }
        after(dir)
    }
}

impl Phased for Thread<'_> {
    fn phase(&mut self, phase: usize) -> Result<u64, String> {
        let (client, top) = (&self.client, top(self.task));
        let mut files = 0;
        let mut keep = |_: &CString| Ok(());
        match PHASES[phase] {
            "create" => {
                (0..self.job.each).try_for_each(|n| create(&**client, self.task, n))?;
                files = self.job.each;
            }
            "walk" => {
                let mut seen = |file: CString| {
                    files += 1;
                    look(&**client, &file)
                };
                self.walk(&top, &mut seen, &mut keep)?;
            }
            "chmod" => {
                for n in 0..self.job.each {
                    client.chmod(&file(self.task, n), MODE)?;
                }
                files = self.job.each;
            }
            _ => {
                let changed = client.about(&file(self.task, self.job.each - 1))?.mode;
                must(changed == MODE, || format!("mode {changed:o}"))?;
                let mut remove = |file: CString| {
                    files += 1;
                    client.unlink(&file)
                };
                self.walk(&top, &mut remove, &mut |dir| client.rmdir(dir))?;
            }
        }
        must(files == self.job.each, || {
            format!("{}: {files} files", PHASES[phase])
        })?;
        Ok(files as u64)
    }
}

/// A phase, a file at a time, for who counts what one operation does.
struct Phase(&'static str);

impl Activity for Phase {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        (0..tasks).try_for_each(|task| client.mkdir(&top(task)))
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let mut numbers = 0..OPERATIONS;
        let mut next = move || numbers.next().ok_or("there are no more files");
        if self.0 == "create" {
            return Ok(Box::new(move || create(client, task, next()?)));
        }
        (0..OPERATIONS).try_for_each(|n| create(client, task, n))?;
        let mut found = Found {
            client,
            directories: (0..OPERATIONS.div_ceil(IN_DIRECTORY))
                .map(|n| path(format!("/thread-{task}/{n}")))
                .collect(),
            files: Vec::new(),
            through: None,
        };
        let again: Box<dyn Repeat + 'c> = match self.0 {
            "chmod" => Box::new(move || client.chmod(&file(task, next()?), MODE)),
            "walk" => Box::new(move || look(client, &found.file(|_| Ok(()))?)),
            _ => Box::new(move || client.unlink(&found.file(|dir| client.rmdir(dir))?)),
        };
        Ok(again)
    }
}

/// The files of a thread, directory by directory, as each is listed.
struct Found<'c> {
    client: &'c dyn Client,
    /// Those to come, the last one first.
    directories: Vec<CString>,
    files: Vec<CString>,
    /// The one whose files these are.
    through: Option<CString>,
}

impl Found<'_> {
    /// The next one; `after` gets every directory once it is through with it.
    fn file(&mut self, after: impl Fn(&CString) -> Result<(), String>) -> Result<CString, String> {
        loop {
            if let Some(file) = self.files.pop() {
                return Ok(file);
            }
            self.through.take().iter().try_for_each(&after)?;
            let directory = self.directories.pop().ok_or("there are no more files")?;
            let entries = self.client.entries(&directory)?;
            let below = |name: &[u8]| path([directory.to_bytes(), b"/", name].concat());
            self.files = entries.iter().map(|entry| below(&entry.name)).collect();
            self.through = Some(directory);
        }
    }
}

impl Family for Chinner {
    fn name(&self) -> &'static str {
        "chinner"
    }

    fn about(&self) -> String {
        format!(
            "Each thread makes, walks, chmods and unlinks its own empty files, a fixed number of \
             them ({} on the\nlibrary, {} elsewhere; in a first look {} and {}), {IN_DIRECTORY} in \
             a directory, after it has done so {WARM} times.\nFiles per second of all threads, \
             over the mean time of a core.",
            each(true, false),
            each(false, false),
            each(true, true),
            each(false, true)
        )
    }

    fn workloads(&self) -> Vec<String> {
        vec![WORKLOAD.to_owned()]
    }

    fn activities(&self) -> Vec<Box<dyn Activity>> {
        PHASES
            .map(|phase| Box::new(Phase(phase)) as Box<dyn Activity>)
            .into()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let tasks = if session.is_quick() {
            vec![1, 2]
        } else {
            session.tasks()
        };
        let mut rates = Rates::default();
        for round in 0..session.effort().runs {
            let all = session.in_turns(&tasks, round, |contender, tasks, first| {
                let each = each(contender.is_library(), session.is_quick());
                session.job(
                    contender,
                    contender.fresh(),
                    &Files { each },
                    (tasks, first),
                )
            })?;
            for ((name, tasks), turns) in all {
                rates.push(name, tasks, &turns);
            }
        }
        let grid = rates.by_core;
        println!("{}", table(&grid, &session.names(), &tasks));
        println!("{}", session.table_of_facts(self.name()));
        session.keep(grid.rows(self.name(), "files_per_s", "1/s"));
        session.keep(rates.by_cpu.rows(self.name(), "files_per_cpu_s", "1/s"));
        session.by_cpu(rates.by_cpu);
        for phase in PHASES {
            let mut chart = Chart::new(phase, "files per second");
            for name in session.names() {
                let median = |n| grid.median(phase, &name, n).map(|cell| cell.0);
                chart.curve(&name, tasks.iter().map(|&n| (n, median(n))).collect());
            }
            session.draw(&format!("chinner-{phase}"), &chart)?;
            session.ask_of_a_crowd(&grid, phase);
            session.ask_of_two(&grid, phase);
        }
        Ok(())
    }
}

/// Files of each thread.
fn each(is_library: bool, quick: bool) -> usize {
    match (is_library, quick) {
        (true, true) => 4_000,
        (true, false) => 50_000,
        (false, true) => 200,
        (false, false) => 2_000,
    }
}

fn table(grid: &Grid, targets: &[String], tasks: &[usize]) -> String {
    let mut heading = vec!["files per second".to_owned(), "threads".to_owned()];
    heading.extend(PHASES.map(str::to_owned));
    let mut table = Table::new(heading);
    for target in targets {
        for &tasks in tasks {
            let cell = |phase| {
                let cell = grid.median(phase, target, tasks);
                cell.map_or(String::new(), |(value, ci95)| {
                    format!("{} ±{}", short(value), percent(value, ci95))
                })
            };
            let line = [target.clone(), tasks.to_string()];
            table.row(line.into_iter().chain(PHASES.map(cell)));
        }
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::times;
    use crate::target::{Library, Sharing};

    #[test]
    fn every_phase_is_about_every_file() {
        for each in [1, 1_000, 1_001] {
            let target = Library::new(Sharing::Processes).unwrap();
            let job = Files { each };
            let phases = times(&target, &job, 2, 0).unwrap();
            let done: Vec<u64> = phases.iter().map(|phase| phase.operations).collect();
            assert_eq!(done, [2 * each as u64; 4]);
        }
    }
}
