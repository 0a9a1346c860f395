//! file-ops-test: open and close, or create and remove, each task its own file, in one working
//! directory or each in its own.

use super::Family;
use super::ask::Ask;
use super::grid::Grid;
use super::session::Session;
use crate::activity::{Activity, Repeat, must, path};
use crate::chart::Chart;
use crate::table::Table;
use crate::target::Client;
use std::ffi::CString;

/// The test.
pub struct FileOps;

/// One of its four modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Create and remove instead of open and close.
    pub is_creating: bool,
    /// Each task has a working directory of its own.
    pub is_apart: bool,
}

/// The modes, in the order of the columns, with the short names of the seed.
pub const MODES: [(Mode, &str); 4] = [
    (Mode::new(false, false), "oc same"),
    (Mode::new(false, true), "oc diff"),
    (Mode::new(true, false), "cu same"),
    (Mode::new(true, true), "cu diff"),
];

impl Mode {
    const fn new(is_creating: bool, is_apart: bool) -> Mode {
        Mode {
            is_creating,
            is_apart,
        }
    }

    fn directory(self, task: usize) -> CString {
        match self.is_apart {
            true => path(format!("/dir-{task}")),
            false => path("/shared"),
        }
    }
}

impl Activity for Mode {
    fn name(&self) -> String {
        let what = if self.is_creating {
            "creat/unlink"
        } else {
            "open/close"
        };
        let place = if self.is_apart { "different" } else { "same" };
        format!("{what}, {place} cwd")
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        match self.is_apart {
            true => (0..tasks).try_for_each(|task| client.mkdir(&self.directory(task))),
            false => client.mkdir(&self.directory(0)),
        }
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        client.chdir(&self.directory(task))?;
        let own = path(format!("silly-{task}"));
        let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_RDWR;
        if self.is_creating {
            return Ok(Box::new(move || {
                client.close(client.open(&own, flags)?)?;
                client.unlink(&own)
            }));
        }
        client.close(client.open(&own, flags)?)?;
        Ok(Box::new(move || {
            client.close(client.open(&own, libc::O_RDWR)?)
        }))
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        let directories = if self.is_apart { done.len() } else { 1 };
        let mut files = 0;
        for n in 0..directories {
            files += client.list(&self.directory(n))?;
        }
        let left = if self.is_creating { 0 } else { done.len() };
        must(files == left, || {
            format!("{}: {files} files are left of {left}", self.name())
        })
    }
}

impl Family for FileOps {
    fn name(&self) -> &'static str {
        "file-ops"
    }

    fn about(&self) -> String {
        "Each task opens and closes its own file (oc), or creates, closes and removes it (cu), in \
         one working\ndirectory (same) or in its own (diff). Percent of what one task does on the \
         baseline; the sum of all\ntasks, so that N tasks on as many cores would ideally do N \
         times 100."
            .to_owned()
    }

    fn workloads(&self) -> Vec<String> {
        MODES.iter().map(|(mode, _)| mode.name()).collect()
    }

    fn activities(&self) -> Vec<Box<dyn Activity>> {
        MODES
            .iter()
            .map(|&(mode, _)| Box::new(mode) as Box<dyn Activity>)
            .collect()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let tasks = session.tasks();
        let grid = session.rates(self.name(), &self.activities(), &tasks)?;
        let names = session.names();
        let base = session.baseline().to_owned();
        for name in names
            .iter()
            .filter(|&name| *name != base || names.len() == 1)
        {
            println!("{}", seed_table(&grid, &base, name, &tasks));
        }
        println!("{}", session.table_of_rates(self.name(), &grid, &tasks));
        for (mode, short) in MODES {
            let workload = mode.name();
            if !session.options().wants(self.name(), &workload) {
                continue;
            }
            let mut chart = Chart::new(workload.clone(), format!("% of one task on {base}"));
            for name in &names {
                let points = tasks
                    .iter()
                    .map(|&tasks| (tasks, percent(&grid, &workload, &base, (name, tasks))));
                chart.curve(name.clone(), points.collect());
            }
            session.draw(&format!("file-ops-{}", short.replace(' ', "-")), &chart)?;
            session.ask_to_scale(&grid, &workload);
        }
        Ok(())
    }
}

/// The table of the seed: the baseline and one other target, mode by mode.
fn seed_table(grid: &Grid, base: &str, name: &str, tasks: &[usize]) -> String {
    let mut heading = vec!["tasks".to_owned()];
    for (_, short) in MODES {
        heading.extend([format!("{short} {base}"), format!("{short} {name}")]);
    }
    let mut table = Table::new(heading);
    for &tasks in tasks {
        let mut line = vec![tasks.to_string()];
        for (mode, _) in MODES {
            for target in [base, name] {
                let percent = percent(grid, &mode.name(), base, (target, tasks));
                line.push(percent.map_or(String::new(), |percent| format!("{percent:.1}")));
            }
        }
        table.row(line);
    }
    table.text()
}

/// What a target does, in percent of what one task does on the baseline.
fn percent(grid: &Grid, workload: &str, base: &str, cell: (&str, usize)) -> Option<f64> {
    let ratios = grid.ratios(workload, cell, (base, 1));
    Ask::at_least("", 0.0, &ratios)
        .got
        .map(|ratio| ratio * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_laid_out_as_the_seed_s() {
        let mut grid = Grid::default();
        for (mode, _) in MODES {
            grid.push(&mode.name(), "tmpfs", 1, 2.0);
            grid.push(&mode.name(), "tmpfs", 2, 1.5);
            grid.push(&mode.name(), "lib", 1, 10.0);
        }
        let text = seed_table(&grid, "tmpfs", "lib", &[1, 2]);
        let cells = |line: usize| -> Vec<String> {
            let line = text.lines().nth(line).unwrap().trim_matches('|');
            line.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(
            cells(0),
            [
                "tasks",
                "oc same tmpfs",
                "oc same lib",
                "oc diff tmpfs",
                "oc diff lib",
                "cu same tmpfs",
                "cu same lib",
                "cu diff tmpfs",
                "cu diff lib"
            ]
        );
        let one = ["1", "100.0", "500.0", "100.0", "500.0", "100.0", "500.0"];
        assert_eq!(&cells(2)[..7], one);
        // What was not measured is left empty.
        assert_eq!(&cells(3)[..3], ["2", "75.0", ""]);
    }
}
