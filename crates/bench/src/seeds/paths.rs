//! The same file opened by all, the same path asked for by all, and long paths whose beginning all
//! have in common.

use super::Family;
use super::session::Session;
use crate::activity::{Activity, Repeat, must, path};
use crate::chart::Chart;
use crate::target::Client;
use std::ffi::CString;

/// The test.
pub struct Paths;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sameness {
    /// All open and close one file.
    OpenOne,
    /// All ask for one path.
    StatOne,
    /// Each asks for its own file; the directories on the way are the same.
    StatDeep,
}

const ALL: [Sameness; 3] = [Sameness::OpenOne, Sameness::StatOne, Sameness::StatDeep];

/// Elements of the long path, the file included.
const DEPTH: usize = 8;

/// `/1/2/...`, so many directories deep.
pub fn directories(depth: usize) -> String {
    (1..=depth).map(|n| format!("/element-{n}")).collect()
}

/// Makes them.
///
/// # Errors
/// The target refuses.
pub fn make_directories(client: &dyn Client, depth: usize) -> Result<(), String> {
    (1..=depth).try_for_each(|depth| client.mkdir(&path(directories(depth))))
}

impl Sameness {
    fn file(self, task: usize) -> CString {
        path(match self {
            Sameness::OpenOne | Sameness::StatOne => "/one".to_owned(),
            Sameness::StatDeep => format!("{}/file-{task}", directories(DEPTH - 1)),
        })
    }
}

impl Activity for Sameness {
    fn name(&self) -> String {
        match self {
            Sameness::OpenOne => "open/close, one file".to_owned(),
            Sameness::StatOne => "stat, one path".to_owned(),
            Sameness::StatDeep => format!("stat, depth {DEPTH}, common directories"),
        }
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        if *self == Sameness::StatDeep {
            make_directories(client, DEPTH - 1)?;
        }
        (0..tasks).try_for_each(|task| {
            client.close(client.open(&self.file(task), libc::O_CREAT | libc::O_RDWR)?)
        })
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let file = self.file(task);
        Ok(match self {
            Sameness::OpenOne => {
                Box::new(move || client.close(client.open(&file, libc::O_RDONLY)?))
            }
            Sameness::StatOne | Sameness::StatDeep => {
                Box::new(move || must(client.stat(&file), || format!("stat {file:?}")))
            }
        })
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        let (place, files) = match self {
            Sameness::OpenOne | Sameness::StatOne => ("/".to_owned(), 1),
            Sameness::StatDeep => (directories(DEPTH - 1), done.len()),
        };
        let found = client.list(&path(place))?;
        must(found == files, || format!("{}: {found} files", self.name()))
    }
}

impl Family for Paths {
    fn name(&self) -> &'static str {
        "paths"
    }

    fn about(&self) -> String {
        format!(
            "All tasks open and close one file, ask for one path, or each for a file of its own \
             {DEPTH} elements deep,\nwhose directories they have in common."
        )
    }

    fn workloads(&self) -> Vec<String> {
        ALL.iter().map(Activity::name).collect()
    }

    fn activities(&self) -> Vec<Box<dyn Activity>> {
        ALL.iter()
            .map(|&one| Box::new(one) as Box<dyn Activity>)
            .collect()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let tasks = session.tasks();
        let grid = session.rates(self.name(), &self.activities(), &tasks)?;
        println!("{}", session.table_of_rates(self.name(), &grid, &tasks));
        let files = ["one-file", "one-path", "deep"];
        for (workload, file) in self.workloads().iter().zip(files) {
            if !session.options().wants(self.name(), workload) {
                continue;
            }
            let mut chart = Chart::new(workload, "operations per second");
            for name in session.names() {
                let point = |&tasks| {
                    (
                        tasks,
                        grid.median(workload, &name, tasks).map(|cell| cell.0),
                    )
                };
                chart.curve(&name, tasks.iter().map(point).collect());
            }
            session.draw(&format!("paths-{file}"), &chart)?;
            session.ask_to_scale(&grid, workload);
        }
        Ok(())
    }
}
