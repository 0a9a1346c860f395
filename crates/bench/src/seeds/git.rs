//! Parallel `git status` and `git diff`, one for each of N trees that are cached.

use super::Family;
use super::session::Session;
use crate::contender::Contender;
use crate::cpu_time::{CpuTime, of_process};
use crate::git_checkout::{Checkout, FILES, finish, git};
use crate::stats::Grid;
use crate::table::Table;
use crate::target::Subdirectory;
use crate::watchdog::beat;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

pub struct Git;

const COMMANDS: [(&str, &[&str]); 2] = [
    ("git status", &["status", "--porcelain"]),
    ("git diff", &["diff"]),
];
const METRICS: [&str; 4] = [
    "seconds",
    "user_seconds",
    "system_seconds",
    "daemon_seconds",
];

impl Family for Git {
    fn name(&self) -> &'static str {
        "git"
    }

    fn about(&self) -> String {
        "One git for each of N trees, all at once: it asks for the attributes of every file. \
         Seconds; user and system\nare those of git and of the kernel for it, daemon those of the \
         process that serves a mount. Only targets that\nother programs can use."
            .to_owned()
    }

    fn workloads(&self) -> Vec<String> {
        COMMANDS.map(|(name, _)| name.to_owned()).into()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        if finish(git().arg("--version")).is_err() {
            println!("Not measured: git is not installed.\n");
            return Ok(());
        }
        let (directories, counts) = match session.options.quick {
            true => (5, &[1, 2][..]),
            false => (70, &[1, 2, 4, 8][..]),
        };
        let checkout = Checkout::new(directories)?;
        let mut clones = Vec::new();
        for contender in &session.contenders {
            if let Some(directory) = contender.directory() {
                let most = counts.iter().copied().max().unwrap_or(1);
                let trees = Trees::new(contender, directory, &checkout, most)?;
                clones.push((contender, trees));
            }
        }
        // git looks into files whose times are those of its index: it is written anew, later.
        std::thread::sleep(Duration::from_millis(1_100));
        for (_, trees) in &clones {
            trees.refresh()?;
        }
        let mut grids: [Grid; 4] = Default::default();
        for (name, args) in COMMANDS.into_iter().filter(|(name, _)| session.wants(name)) {
            for _ in 0..session.effort.runs {
                for &count in counts {
                    for (contender, trees) in &clones {
                        let elapsed = trees.all_at_once(args, count, contender.daemon())?;
                        for (grid, seconds) in grids.iter_mut().zip(elapsed) {
                            grid.push(name, &contender.name, count, seconds);
                        }
                        beat();
                    }
                }
            }
        }
        drop(clones);
        println!("{} files a tree.\n\n{}", directories * FILES, table(&grids));
        for (metric, grid) in METRICS.into_iter().zip(&grids) {
            session.report.add_grid(grid, (metric, "s"));
        }
        for workload in grids[0].workloads() {
            let title = format!("{workload} on N trees at once");
            let picture = workload.replace(' ', "-");
            session.draw(
                &picture,
                (&title, "seconds"),
                (&grids[0], &workload),
                counts,
            )?;
        }
        Ok(())
    }
}

/// The trees on one target.
struct Trees {
    trees: Vec<PathBuf>,
    _directory: Subdirectory,
}

impl Trees {
    fn new(
        contender: &Contender,
        directory: &Path,
        checkout: &Checkout,
        trees: usize,
    ) -> Result<Trees, String> {
        let directory = Subdirectory::new(directory, false)?;
        let mut paths = Vec::new();
        for n in 0..trees {
            let tree = directory.path().join(format!("tree-{n}"));
            let cloned = checkout.run(&tree);
            cloned.map_err(|what| format!("{}: {what}", contender.name))?;
            paths.push(tree);
            beat();
        }
        Ok(Trees {
            trees: paths,
            _directory: directory,
        })
    }

    fn refresh(&self) -> Result<(), String> {
        let args = [
            "update-index",
            "-q",
            "--really-refresh",
            "--force-write-index",
        ];
        let refresh = |tree| finish(git().arg("-C").arg(tree).args(args));
        self.trees.iter().try_for_each(refresh)
    }

    /// Real, user, system and the daemon's seconds of one git for each of so many trees.
    fn all_at_once(
        &self,
        args: &[&str],
        trees: usize,
        daemon: Option<u32>,
    ) -> Result<[f64; 4], String> {
        let before = (CpuTime::of_children(), daemon.map(of_process));
        let begin = Instant::now();
        let mut running = Vec::new();
        for tree in &self.trees[..trees] {
            let mut command = git();
            command.arg("-C").arg(tree).args(args);
            command.stdout(Stdio::piped());
            running.push(command.spawn().map_err(|error| format!("git: {error}"))?);
        }
        for child in running {
            let output = child
                .wait_with_output()
                .map_err(|error| format!("git: {error}"))?;
            // In a tree that nobody has changed there is nothing to say.
            if !output.status.success() || !output.stdout.is_empty() {
                let said = String::from_utf8_lossy(&output.stdout);
                let first = said.lines().next().unwrap_or_default();
                return Err(format!("git {}: {}: {first}", args[0], output.status));
            }
        }
        let real = begin.elapsed().as_secs_f64();
        let cpu = CpuTime::of_children() - before.0;
        let served = daemon.map_or(0.0, |daemon| of_process(daemon) - before.1.unwrap_or(0.0));
        Ok([real, cpu.user, cpu.system, served])
    }
}

fn table(grids: &[Grid; 4]) -> String {
    let mut table = Table::new(["seconds", "trees", "on", "real", "user", "sys", "daemon"]);
    for (key, _) in grids[0].cells() {
        let mut line = vec![
            key.workload.clone(),
            key.tasks.to_string(),
            key.target.clone(),
        ];
        for grid in grids {
            let cell = grid.median(&key.workload, &key.target, key.tasks);
            line.push(cell.map_or(String::new(), |(seconds, _)| format!("{seconds:.3}")));
        }
        table.row(line);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_finds_trees_unchanged_and_says_when_one_is_not() {
        let checkout = Checkout::new(1).unwrap();
        let contender = Contender::new(&std::env::temp_dir().to_string_lossy()).unwrap();
        let directory = contender.directory().unwrap();
        let place = Trees::new(&contender, directory, &checkout, 2).unwrap();
        place.refresh().unwrap();
        for (_, args) in COMMANDS {
            let [real, ..] = place.all_at_once(args, 2, None).unwrap();
            assert!(real > 0.0);
        }
        std::fs::write(place.trees[1].join("dir-0/file-0"), "changed").unwrap();
        assert!(place.all_at_once(COMMANDS[0].1, 1, None).is_ok());
        for (_, args) in COMMANDS {
            let said = place.all_at_once(args, 2, None).unwrap_err();
            assert!(said.starts_with(&format!("git {}", args[0])), "{said}");
        }
    }
}
