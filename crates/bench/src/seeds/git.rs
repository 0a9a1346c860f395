//! Parallel `git status` and `git diff`, one for each of N trees that are cached.

use super::Family;
use super::session::Session;
use crate::children::{at_once, output};
use crate::contender::Contender;
use crate::failure::Context;
use crate::git_checkout::{Checkout, FILES, git};
use crate::runner;
use crate::stats::{Metric, Samples};
use crate::table::Table;
use crate::target::Subdirectory;
use crate::watchdog::beat;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const COMMANDS: [(&str, &[&str]); 2] = [
    ("git status", &["status", "--porcelain"]),
    ("git diff", &["diff"]),
];
const METRICS: [Metric; 4] = [
    ("seconds", "s"),
    ("user_seconds", "s"),
    ("system_seconds", "s"),
    ("daemon_seconds", "s"),
];

pub const FAMILY: Family = Family {
    name: "git",
    about: || {
        "One git for each of N trees, all at once: it asks for the attributes of every file. \
         Seconds; user and system\nare those of git and of the kernel for it, daemon those of the \
         process that serves a mount. Only targets that\nother programs can use."
            .to_owned()
    },
    scripts: Vec::new,
    others: || COMMANDS.map(|(name, _)| name).into(),
    also_counted: Vec::new,
    run,
};

fn run(session: &mut Session) -> Result<(), String> {
    if output(git().arg("--version")).is_err() {
        println!("Not measured: git is not installed.\n");
        return Ok(());
    }
    let options = &session.options;
    let (directories, counts) = options.pick((5, &[1, 2][..]), (70, &[1, 2, 4, 8]));
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
    let commands = COMMANDS.iter().filter(|(name, _)| session.wants(name));
    let of_each = |command| counts.iter().map(move |&count| (command, count));
    let jobs: Vec<(&(&str, &[&str]), usize)> = commands.flat_map(of_each).collect();
    let mut samples = Samples::default();
    let runs = session.effort.runs as usize;
    runner::rounds(
        runs,
        &jobs,
        &clones,
        |&((name, args), count), (on, trees), _| {
            let elapsed = trees.all_at_once(args, count, on.daemon())?;
            for (metric, seconds) in METRICS.into_iter().zip(elapsed) {
                samples.push(metric, (name, &on.name, count), seconds);
            }
            Ok(())
        },
    )?;
    drop(clones);
    println!(
        "{} files a tree.\n\n{}",
        directories * FILES,
        table(&samples)
    );
    session.report.add_samples(&samples);
    let seconds = samples.of(METRICS[0]);
    for workload in seconds.workloads() {
        let title = format!("{workload} on N trees at once");
        let picture = workload.replace(' ', "-");
        session.draw(&picture, (&title, "seconds"), (seconds, &workload), counts)?;
    }
    Ok(())
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
            checkout.run(&tree).context(&contender.name)?;
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
        let refresh = |tree| output(git().arg("-C").arg(tree).args(args)).map(drop);
        self.trees.iter().try_for_each(refresh)
    }

    /// Real, user, system and the daemon's seconds of one git for each of so many trees.
    fn all_at_once(
        &self,
        args: &[&str],
        trees: usize,
        daemon: Option<u32>,
    ) -> Result<[f64; 4], String> {
        let program = |tree| {
            let mut program = git();
            program
                .arg("-C")
                .arg(tree)
                .args(args)
                .stdout(Stdio::piped());
            program
        };
        let (outputs, spent) = at_once(self.trees[..trees].iter().map(program), daemon)?;
        for output in outputs {
            // In a tree that nobody has changed there is nothing to say.
            if !output.status.success() || !output.stdout.is_empty() {
                let said = String::from_utf8_lossy(&output.stdout);
                let first = said.lines().next().unwrap_or_default();
                return Err(format!("git {}: {}: {first}", args[0], output.status));
            }
        }
        let cpu = spent.cpu;
        Ok([spent.seconds, cpu.user, cpu.system, spent.served])
    }
}

fn table(samples: &Samples) -> String {
    let mut table = Table::new(["seconds", "trees", "on", "real", "user", "sys", "daemon"]);
    for (key, _) in samples.of(METRICS[0]).cells() {
        let (workload, target, tasks) = (&key.workload, &key.target, key.tasks);
        let seconds = METRICS.map(|metric| {
            let cell = samples.of(metric).median(workload, target, tasks);
            cell.map_or(String::new(), |(seconds, _)| format!("{seconds:.3}"))
        });
        let line = [workload.clone(), tasks.to_string(), target.clone()];
        table.row(line.into_iter().chain(seconds));
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
