//! Huge tables of descriptors that are destroyed at once on every core: what the seed did with
//! sockets.
//!
//! An anonymous object is a file that was made and removed while it is open: its last descriptor
//! destroys it, as with a socket.

use super::session::Session;
use super::{Family, boxed};
use crate::contender::Contender;
use crate::measure::apart;
use crate::pinned::allowed_cores;
use crate::row::SECONDS;
use crate::runner;
use crate::script::NEW;
use crate::stats::Grid;
use crate::table::{Table, percent};
use crate::target::Client;
use crate::workload::{Place, Ready, Task, Workload, must, of_files, path};
use crate::workloads::SOCKET;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Opens so many, then ends.
pub struct Sockets {
    /// How many each task opens.
    pub descriptors: usize,
}

const WORKLOAD: &str = "sockets";
const PHASES: [&str; 2] = ["setup", "teardown"];

/// How many of `wanted` descriptors a task of `contender` may have, if it has some of its own.
fn allowed(contender: &Contender, wanted: usize) -> Result<Option<usize>, String> {
    if !contender.has_processes() {
        return Ok(None);
    }
    let fresh = contender.fresh()?;
    let allowed = AtomicUsize::new(0);
    // Apart, for a client of a directory moves the thread that makes it there.
    apart(fresh.target(), &|client| {
        // One more than it opens: its way into the directory.
        allowed.store(client.allow_open(wanted + 1)?, Relaxed);
        Ok(())
    })?;
    Ok(Some(allowed.into_inner().saturating_sub(1)))
}

impl Workload for Sockets {
    fn name(&self) -> String {
        WORKLOAD.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.to_vec()
    }

    fn memory(&self, tasks: usize) -> u64 {
        of_files(tasks * self.descriptors)
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        client.allow_open(self.descriptors + 1)?;
        (0..tasks).try_for_each(|task| client.mkdir(&path(format!("/task-{task}"))))
    }

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, (task, _tasks): Place) -> Ready<'c> {
        client.allow_open(self.descriptors + 1)?;
        Ok(Box::new(Holder {
            client: Some(client),
            task,
            descriptors: self.descriptors,
        }))
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        (0..done.len()).try_for_each(|task| {
            let left = client.list(&path(format!("/task-{task}")))?;
            must(left == 0, || format!("task {task}: {left} files are left"))
        })
    }
}

struct Holder<'c> {
    client: Option<Box<dyn Client + 'c>>,
    task: usize,
    descriptors: usize,
}

impl Task for Holder<'_> {
    fn run(&mut self, phase: usize) -> Result<u64, String> {
        let client = self.client.take().ok_or("the task has ended before")?;
        if PHASES[phase] == "teardown" {
            client.end();
            return Ok(self.descriptors as u64);
        }
        let name = path(format!("/task-{}/anonymous", self.task));
        for _ in 0..self.descriptors {
            client.open(&name, NEW)?;
            client.unlink(&name)?;
        }
        self.client = Some(client);
        Ok(self.descriptors as u64)
    }
}

pub const FAMILY: Family = Family {
    name: "teardown",
    about: || {
        "Each task opens 50,000 anonymous files (5,000 in a first look), or as many as it may on \
         all targets, then\nall end at once. Seconds until the last one is done. Only targets \
         whose tasks have descriptors of their own."
            .to_owned()
    },
    scripts: Vec::new,
    others: || vec![WORKLOAD],
    also_counted: || boxed([&SOCKET]),
    run,
};

fn run(session: &mut Session) -> Result<(), String> {
    let wanted = session.options.pick(5_000, 50_000);
    let mut tasks = vec![1, allowed_cores().len()];
    tasks.dedup();
    let mut grid = Grid::default();
    let (mut able, mut descriptors) = (Vec::new(), wanted);
    for contender in &session.contenders {
        match allowed(contender, wanted) {
            Ok(Some(most)) => {
                able.push(contender);
                descriptors = descriptors.min(most);
            }
            Ok(None) => {}
            Err(what) => println!("without {}: {what}", contender.name),
        }
    }
    if descriptors < wanted {
        println!(
            "{descriptors} instead of {wanted}, on all targets: no more are allowed; \
             `ulimit -n` raises the limit.\n"
        );
    }
    let job = Sockets { descriptors };
    let runs = session.effort.runs as usize;
    runner::rounds(runs, &tasks, &able, |&tasks, contender, round| {
        let times = session.job(contender, contender.fresh(), &job, (tasks, round))?;
        for (phase, time) in PHASES.iter().zip(times) {
            let cell = cell(phase, descriptors);
            grid.push(&cell, &contender.name, tasks, time.seconds);
        }
        Ok(())
    })?;
    println!("{}", table(&grid, &session.names(), descriptors));
    session.print_facts();
    session.report.add_grid(&grid, SECONDS);
    for phase in PHASES {
        let cell = cell(phase, descriptors);
        let picture = format!("teardown-{phase}");
        session.draw(&picture, (&cell, "seconds"), (&grid, &cell), &tasks)?;
    }
    Ok(())
}

/// What a phase is called in rows and pictures: seconds are of so many.
fn cell(phase: &str, descriptors: usize) -> String {
    format!("{phase} of {descriptors} descriptors a task")
}

fn table(grid: &Grid, targets: &[String], descriptors: usize) -> String {
    let first = format!("{descriptors} sockets a task");
    let mut table = Table::new([
        &*first,
        "tasks",
        "setup s",
        "us each",
        "teardown s",
        "us each",
    ]);
    let cells = PHASES.map(|phase| cell(phase, descriptors));
    for target in targets {
        for tasks in grid.tasks(&cells[0]) {
            let mut line = vec![target.clone(), tasks.to_string()];
            for cell in &cells {
                if let Some((seconds, half)) = grid.median(cell, target, tasks) {
                    // All tasks work at once: each descriptor takes its own task so long.
                    let each = seconds * 1e6 / descriptors as f64;
                    line.push(format!("{seconds:.4} ±{}", percent(seconds, half)));
                    line.push(format!("{each:.2}"));
                }
            }
            if line.len() > 2 {
                table.row(line);
            }
        }
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    #[test]
    fn targets_that_were_not_measured_have_no_line() {
        let mut grid = Grid::default();
        for (phase, seconds) in [("setup", 0.5), ("teardown", 0.05)] {
            grid.push(&cell(phase, 50_000), "lib", 1, seconds);
        }
        let targets = ["lib".to_owned(), "lib-shared".to_owned()];
        let text = table(&grid, &targets, 50_000);
        assert_eq!(text.lines().count(), 3);
        let wanted = ["lib", "1", "0.5000 ±-", "10.00", "0.0500 ±-", "1.00"];
        assert_eq!(cells_of(&text, 2), wanted);
    }

    #[test]
    fn a_directory_gives_as_many_descriptors_as_are_allowed_and_the_library_all() {
        let allowed = |name: &str, wanted| allowed(&Contender::new(name).unwrap(), wanted);
        assert_eq!(allowed("lib", 10), Ok(Some(10)));
        assert_eq!(allowed("lib-shared", 10), Ok(None));
        let place = std::env::temp_dir();
        let place = place.to_str().unwrap();
        // More than any kernel allows. The caller's working directory stays: pictures have
        // relative names.
        let here = std::env::current_dir().unwrap();
        let most = allowed(place, 1 << 31).unwrap().unwrap();
        assert_eq!(std::env::current_dir().unwrap(), here);
        assert!((10..1 << 31).contains(&most), "{most}");
        // What is allowed can be had.
        let fresh = Contender::new(place).unwrap().fresh().unwrap();
        let job = Sockets {
            descriptors: most.min(5_000),
        };
        let phases = crate::measure::times(fresh.target(), &job, 1, 0).unwrap();
        assert_eq!(phases[0].operations, job.descriptors as u64);
    }
}
