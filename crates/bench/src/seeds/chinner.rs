//! Chinner's test: every thread makes a fixed number of empty files in a directory of its own,
//! walks them, changes their modes and removes them (the script around fs_mark with which he
//! measured XFS: create, `find -ctime`, chmod, `rm -rf`).
//!
//! The number of files per thread is fixed, so N threads do N times the work of one: ideally in the
//! same time.

use super::Family;
use super::session::{MANY_TASKS, Session};
use crate::contender::Contender;
use crate::measure::PhaseTime;
use crate::pinned::allowed_cores;
use crate::report::with_interval;
use crate::script::OPERATIONS;
use crate::stats::{Grid, Metric, Samples};
use crate::table::Table;
use crate::target::{Client, walk};
use crate::workload::{Place, Ready, Task, Workload, must, of_files, path};
use std::ffi::CString;

const PHASES: [&str; 4] = ["create", "walk", "chmod", "unlink"];
const WORKLOAD: &str = "create/walk/chmod/unlink";
/// Files in one directory; a thread has as many directories as it needs.
const IN_DIRECTORY: usize = 1_000;
/// Times that a thread does all of it before it counts: afterwards the memory is there, as it is
/// for a kernel, and so is what is made on first use.
const WARM: usize = 2;
/// Permissions after the change.
const MODE: u16 = 0o600;

/// One kind of run: threads, and times the usual number of files for each. Every number of threads
/// with the usual number; and on two cores, where it is asked what many tasks keep, two threads
/// with as many files in all as that has. With fewer they would be compared for the sizes of their
/// caches.
fn cells(tasks: &[usize]) -> Vec<(usize, usize)> {
    let usual = tasks.iter().map(|&threads| (threads, 1));
    let is_asked = tasks.contains(&MANY_TASKS) && allowed_cores().len() == 2;
    usual
        .chain(is_asked.then_some((2, MANY_TASKS / 2)))
        .collect()
}

/// Files per second, by the clock and by processor time: with the usual number of files, and with
/// as many in all as many tasks have.
const USUAL: [Metric; 2] = [("files_per_s", "1/s"), ("files_per_cpu_s", "1/s")];
const AS_MANY: [Metric; 2] = [
    ("files_per_s_as_many", "1/s"),
    ("files_per_cpu_s_as_many", "1/s"),
];

/// Adds the files per second of each phase, over the mean time of a core; nothing if there were no
/// turns.
fn push(
    rates: &mut Samples,
    [by_clock, by_cpu]: [Metric; 2],
    (name, threads): (&str, usize),
    turns: &[Vec<PhaseTime>],
) {
    for (n, phase) in PHASES.iter().enumerate().filter(|_| !turns.is_empty()) {
        let time = PhaseTime::together(turns.iter().map(|phases| phases[n]));
        let (cell, files) = ((*phase, name, threads), time.operations as f64);
        rates.push(by_clock, cell, files / time.core_seconds);
        rates.push(by_cpu, cell, files / time.cpu);
    }
}

pub const FAMILY: Family = Family {
    name: "chinner",
    about: || {
        format!(
            "Each thread makes, walks, chmods and unlinks its own empty files, a fixed number of \
             them ({} on the\nlibrary, {} elsewhere; in a first look {} and {}), {IN_DIRECTORY} in \
             a directory, after it has done so {WARM} times.\nFiles per second of all threads, \
             over the mean time of a core. What {MANY_TASKS} threads keep is asked of two \
             that\nhave as many files in all, {} times as many each.",
            each(true, false),
            each(false, false),
            each(true, true),
            each(false, true),
            MANY_TASKS / 2
        )
    },
    scripts: Vec::new,
    others: || vec![WORKLOAD],
    also_counted: || {
        PHASES
            .map(|phase| Box::new(OneByOne(phase)) as Box<dyn Workload>)
            .into()
    },
    run,
};

fn run(session: &mut Session) -> Result<(), String> {
    let quick = session.options.quick;
    let tasks = if quick { vec![1, 2] } else { session.tasks() };
    let mut rates = Samples::default();
    for round in 0..session.effort.runs {
        let run = |contender: &Contender, (threads, times): (usize, usize), first| {
            if times > 1 && !contender.is_library() {
                return Ok(None);
            }
            let job = FileTree {
                each: times * each(contender.is_library(), quick),
            };
            let done = session.job(contender, contender.fresh(), &job, (threads, first));
            done.map(Some)
        };
        let all = session
            .effort
            .in_turns(&session.contenders, &cells(&tasks), round, run)?;
        for (contender, (threads, times), turns) in all {
            let turns: Vec<Vec<PhaseTime>> = turns.into_iter().flatten().collect();
            let cell = (&*contender.name, threads);
            if times == 1 {
                push(&mut rates, USUAL, cell, &turns);
            }
            if times > 1 || threads == MANY_TASKS {
                push(&mut rates, AS_MANY, cell, &turns);
            }
        }
    }
    println!("{}", table(rates.of(USUAL[0]), &session.names(), &tasks));
    session.print_facts();
    session.report.add_samples(&rates);
    let as_many = session.with_cpu(&rates, AS_MANY);
    for phase in PHASES {
        session.ask_of_many(&as_many, phase);
    }
    let grid = session.with_cpu(&rates, USUAL);
    for phase in PHASES {
        let title = (phase, "files per second");
        session.draw(&format!("chinner-{phase}"), title, (&grid, phase), &tasks)?;
        session.ask_of_two(&grid, phase);
    }
    Ok(())
}

/// Files of each thread.
fn each(is_library: bool, quick: bool) -> usize {
    match (is_library, quick) {
        (true, true) => 4_000,
        (true, false) => 40_000,
        (false, true) => 200,
        (false, false) => 2_000,
    }
}

fn table(grid: &Grid, targets: &[String], tasks: &[usize]) -> String {
    let mut table = Table::new(["files per second", "threads"].into_iter().chain(PHASES));
    for target in targets {
        for &tasks in tasks {
            let cell = |phase| with_interval(grid.median(phase, target, tasks));
            let line = [target.clone(), tasks.to_string()];
            table.row(line.into_iter().chain(PHASES.map(cell)));
        }
    }
    table.text()
}

/// A number of files for each thread.
struct FileTree {
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

impl Workload for FileTree {
    fn name(&self) -> String {
        WORKLOAD.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.to_vec()
    }

    fn memory(&self, tasks: usize) -> u64 {
        of_files(tasks * self.each)
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        (0..tasks).try_for_each(|task| client.mkdir(&top(task)))
    }

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, (task, _tasks): Place) -> Ready<'c> {
        let mut owner = Owner {
            each: self.each,
            client,
            task,
        };
        for _ in 0..WARM {
            (0..PHASES.len()).try_for_each(|phase| owner.run(phase).map(drop))?;
            owner.client.mkdir(&top(task))?;
        }
        Ok(Box::new(owner))
    }

    fn check(&self, client: &dyn Client, _done: &[u64]) -> Result<(), String> {
        let left = client.list(c"/")?;
        must(left == 0, || format!("{left} directories are left"))
    }
}

struct Owner<'c> {
    each: usize,
    client: Box<dyn Client + 'c>,
    task: usize,
}

impl Task for Owner<'_> {
    fn run(&mut self, phase: usize) -> Result<u64, String> {
        let (client, top, mut files) = (&*self.client, top(self.task), 0);
        match PHASES[phase] {
            "create" => {
                (0..self.each).try_for_each(|n| create(client, self.task, n))?;
                files = self.each;
            }
            "walk" => {
                let mut see = |file: CString| {
                    files += 1;
                    look(client, &file)
                };
                walk(client, &top, &mut see, &|_| Ok(()))?;
            }
            "chmod" => {
                (0..self.each).try_for_each(|n| client.chmod(&file(self.task, n), MODE))?;
                files = self.each;
            }
            _ => {
                let changed = client.about(&file(self.task, self.each - 1))?.mode;
                must(changed == MODE, || format!("mode {changed:o}"))?;
                let mut remove = |file: CString| {
                    files += 1;
                    client.unlink(&file)
                };
                walk(client, &top, &mut remove, &|directory| {
                    client.rmdir(directory)
                })?;
            }
        }
        must(files == self.each, || {
            format!("{}: {files} files", PHASES[phase])
        })?;
        Ok(files as u64)
    }
}

/// A phase, a file at a time, for counts of one operation.
struct OneByOne(&'static str);

impl Workload for OneByOne {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        FileTree { each: OPERATIONS }.prepare(client, tasks)
    }

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, (task, _tasks): Place) -> Ready<'c> {
        let mut numbers = 0..OPERATIONS;
        let mut next = move || numbers.next().ok_or("there are no more files");
        if self.0 == "create" {
            return Ok(Box::new(move || create(&*client, task, next()?)));
        }
        (0..OPERATIONS).try_for_each(|n| create(&*client, task, n))?;
        let mut found = Found::new(task);
        Ok(match self.0 {
            "chmod" => Box::new(move || client.chmod(&file(task, next()?), MODE)),
            "walk" => Box::new(move || look(&*client, &found.file(&*client, |_| Ok(()))?)),
            _ => Box::new(move || {
                let file = found.file(&*client, |directory| client.rmdir(directory))?;
                client.unlink(&file)
            }),
        })
    }
}

/// The files of a thread, directory by directory, as each is listed. The directories are known, so
/// that what is counted does not depend on the order in which a listing has them.
struct Found {
    /// Those to come, the last one first.
    directories: Vec<CString>,
    files: Vec<CString>,
    /// The one whose files these are.
    through: Option<CString>,
}

impl Found {
    fn new(task: usize) -> Found {
        let directories = 0..OPERATIONS.div_ceil(IN_DIRECTORY);
        Found {
            directories: directories
                .map(|n| path(format!("/thread-{task}/{n}")))
                .collect(),
            files: Vec::new(),
            through: None,
        }
    }

    /// The next one; `after` gets every directory once it is through with it.
    fn file(
        &mut self,
        client: &dyn Client,
        after: impl Fn(&CString) -> Result<(), String>,
    ) -> Result<CString, String> {
        loop {
            if let Some(file) = self.files.pop() {
                return Ok(file);
            }
            self.through.take().iter().try_for_each(&after)?;
            let directory = self.directories.pop().ok_or("there are no more files")?;
            let entries = client.entries(&directory)?;
            let below = |name: &[u8]| path([directory.to_bytes(), b"/", name].concat());
            self.files = entries.iter().map(|entry| below(entry.name)).collect();
            self.through = Some(directory);
        }
    }
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
            let phases = times(&target, &FileTree { each }, 2, 0).unwrap();
            let done: Vec<u64> = phases.iter().map(|phase| phase.operations).collect();
            assert_eq!(done, [2 * each as u64; 4]);
        }
    }
}
