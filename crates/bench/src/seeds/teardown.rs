//! Huge tables of descriptors that are destroyed at once on every core: what the seed did with
//! sockets.
//!
//! An anonymous object is a file that was made and removed while it is open: its last descriptor
//! destroys it, as with a socket.

use super::Family;
use super::contender::Contender;
use super::grid::Grid;
use super::session::Session;
use crate::activity::{Job, Phased, must, path};
use crate::chart::Chart;
use crate::pinned::allowed_cores;
use crate::row::percent;
use crate::table::Table;
use crate::target::Client;

/// The test.
pub struct Teardown;

/// Opens so many, then ends.
pub struct Sockets {
    /// How many each task opens.
    pub descriptors: usize,
}

const PHASES: [&str; 2] = ["setup", "teardown"];

impl Sockets {
    /// Whether a task of `contender` has descriptors of its own, as many as the test needs.
    ///
    /// # Errors
    /// The machine does not let it have so many: its cells stay empty.
    fn allowed(&self, contender: &Contender) -> Result<bool, String> {
        if !contender.has_processes() {
            return Ok(false);
        }
        let fresh = contender.fresh()?;
        let client = fresh.target().client();
        client.allow_open(self.descriptors + 1).map(|()| true)
    }
}

impl Job for Sockets {
    fn name(&self) -> String {
        WORKLOAD.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.to_vec()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        // One more than it opens: its way into the directory.
        client.allow_open(self.descriptors + 1)?;
        (0..tasks).try_for_each(|task| client.mkdir(&path(format!("/task-{task}"))))
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        client.allow_open(self.descriptors + 1)?;
        Ok(Box::new(Holder {
            client: Some(client),
            directory: format!("/task-{task}"),
            descriptors: self.descriptors,
        }))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        for task in 0..tasks {
            let left = client.list(&path(format!("/task-{task}")))?;
            must(left == 0, || format!("task {task}: {left} files are left"))?;
        }
        Ok(())
    }
}

struct Holder<'c> {
    client: Option<Box<dyn Client + 'c>>,
    directory: String,
    descriptors: usize,
}

impl Phased for Holder<'_> {
    fn phase(&mut self, phase: usize) -> Result<u64, String> {
        let client = self.client.take().ok_or("the task has ended before")?;
        if PHASES[phase] == "teardown" {
            client.end();
            return Ok(self.descriptors as u64);
        }
        let name = path(format!("{}/anonymous", self.directory));
        for _ in 0..self.descriptors {
            client.open(&name, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR)?;
            client.unlink(&name)?;
        }
        self.client = Some(client);
        Ok(self.descriptors as u64)
    }
}

const WORKLOAD: &str = "sockets";

impl Family for Teardown {
    fn name(&self) -> &'static str {
        "teardown"
    }

    fn about(&self) -> String {
        "Each task opens 50,000 anonymous files (5,000 in a first look), then all end at once. \
         Seconds until the\nlast one is done. Only targets whose tasks have descriptors of their \
         own."
            .to_owned()
    }

    fn workloads(&self) -> Vec<String> {
        vec![WORKLOAD.to_owned()]
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let job = Sockets {
            descriptors: if session.is_quick() { 5_000 } else { 50_000 },
        };
        let mut tasks = vec![1, allowed_cores().len()];
        tasks.dedup();
        let mut grid = Grid::default();
        let mut able = Vec::new();
        for contender in session.contenders() {
            match job.allowed(contender) {
                Ok(true) => able.push(contender),
                Ok(false) => {}
                Err(what) => println!("without {}: {what}", contender.name),
            }
        }
        for round in 0..session.effort().runs as usize {
            for &tasks in &tasks {
                for &contender in &able {
                    let fresh = contender.fresh();
                    let phases = session.job(contender, fresh, &job, (tasks, round))?;
                    for (phase, time) in PHASES.iter().zip(phases) {
                        grid.push(phase, &contender.name, tasks, time.seconds);
                    }
                }
            }
        }
        println!(
            "{}",
            table(&grid, &session.names(), &tasks, job.descriptors)
        );
        let rows = grid.rows(self.name(), "seconds", "s");
        session.keep(rows);
        for phase in PHASES {
            let title = format!("{} of {} descriptors a task", phase, job.descriptors);
            let mut chart = Chart::new(title, "seconds");
            for name in session.names() {
                let point = |&tasks| (tasks, grid.median(phase, &name, tasks).map(|cell| cell.0));
                chart.curve(&name, tasks.iter().map(point).collect());
            }
            session.draw(&format!("teardown-{phase}"), &chart)?;
        }
        Ok(())
    }
}

fn table(grid: &Grid, targets: &[String], tasks: &[usize], descriptors: usize) -> String {
    let heading = [
        "sockets",
        "tasks",
        "setup s",
        "us each",
        "teardown s",
        "us each",
    ];
    let mut table = Table::new(heading.map(str::to_owned));
    for target in targets {
        for &tasks in tasks {
            let mut line = vec![target.clone(), tasks.to_string()];
            for phase in PHASES {
                let Some((seconds, ci95)) = grid.median(phase, target, tasks) else {
                    continue;
                };
                // All tasks work at once: each descriptor takes its own task so long.
                let each = seconds * 1e6 / descriptors as f64;
                line.push(format!("{seconds:.4} ±{}", percent(seconds, ci95)));
                line.push(format!("{each:.2}"));
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

    #[test]
    fn targets_that_were_not_measured_have_no_line() {
        let mut grid = Grid::default();
        grid.push("setup", "lib", 1, 0.5);
        grid.push("teardown", "lib", 1, 0.05);
        let targets = ["lib".to_owned(), "lib-shared".to_owned()];
        let text = table(&grid, &targets, &[1], 50_000);
        assert_eq!(text.lines().count(), 3);
        let line: Vec<&str> = text
            .lines()
            .nth(2)
            .unwrap()
            .split('|')
            .map(str::trim)
            .collect();
        let wanted = ["lib", "1", "0.5000 ±-", "10.00", "0.0500 ±-", "1.00"];
        assert_eq!(line[1..7], wanted);
    }

    #[test]
    fn who_may_not_have_so_many_descriptors_is_named_with_the_remedy() {
        let allowed = |descriptors, name| {
            let contender = Contender::new(name).unwrap();
            Sockets { descriptors }.allowed(&contender)
        };
        assert_eq!(allowed(10, "lib"), Ok(true));
        assert_eq!(allowed(10, "lib-shared"), Ok(false));
        let place = std::env::temp_dir();
        // More than any kernel allows.
        let refused = allowed(1 << 31, place.to_str().unwrap()).unwrap_err();
        assert!(refused.contains("ulimit -n"), "{refused}");
    }
}
