//! Checkouts of a repository of many small files.

use crate::children::{Crew, output};
use crate::failure::Context;
use crate::pinned::allowed_cores;
use hearth_testing::place::Place;
use std::fs::File;
use std::hint::spin_loop;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Files in each directory of the repository.
pub const FILES: usize = 100;

/// A repository to check out from.
pub struct Checkout {
    repository: Place,
    directories: usize,
}

impl Checkout {
    /// Makes a repository of so many directories in the temporary directory.
    pub fn new(directories: usize) -> Result<Checkout, String> {
        let checkout = Checkout {
            repository: Place::new("repository").text()?,
            directories,
        };
        checkout.fill().at(checkout.path())?;
        let author = [
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@example.org",
        ];
        checkout.git(&["init", "--quiet"])?;
        checkout.git(&["add", "--all"])?;
        let commit = ["-c", "gc.auto=0", "commit", "--quiet", "--message", "files"];
        checkout.git(&[&author[..], &commit].concat())?;
        Ok(checkout)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.repository.path()
    }

    /// Clones to `clone` and checks out; returns the seconds of the checkout.
    pub fn run(&self, clone: &Path) -> Result<f64, String> {
        let mut command = git();
        command.args(["clone", "--quiet", "--shared", "--no-checkout"]);
        output(command.arg(self.path()).arg(clone))?;
        let start = Instant::now();
        let checkout = ["checkout", "--quiet", "--force"];
        output(git().arg("-C").arg(clone).args(checkout))?;
        let seconds = start.elapsed().as_secs_f64();
        let last = clone.join(format!("dir-{}/file-{}", self.directories - 1, FILES - 1));
        if last.is_file() {
            Ok(seconds)
        } else {
            Err(format!("{}: missing", last.display()))
        }
    }

    fn fill(&self) -> std::io::Result<()> {
        for dir in 0..self.directories {
            let path = self.path().join(format!("dir-{dir}"));
            std::fs::create_dir_all(&path)?;
            for file in 0..FILES {
                let lines = 20 + (dir * 31 + file * 17) % 80;
                let text: String = (0..lines)
                    .map(|line| format!("{dir} {file} line {line} of many\n"))
                    .collect();
                std::fs::write(path.join(format!("file-{file}")), text)?;
            }
        }
        Ok(())
    }

    fn git(&self, args: &[&str]) -> Result<String, String> {
        output(git().arg("-C").arg(self.path()).args(args))
    }
}

/// git without anybody's settings.
pub fn git() -> Command {
    let mut git = Command::new("git");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    git
}

/// Seconds of 10,000 opens in `directory`, with 0.1 ms of computing before each.
pub fn compute_and_open(directory: &Path) -> Result<f64, String> {
    let file = directory.join("file");
    let failed = |error| format!("{}: {error}", file.display());
    File::create(&file).map_err(failed)?;
    let began = Instant::now();
    for _ in 0..10_000 {
        let computed = Instant::now() + Duration::from_micros(100);
        while Instant::now() < computed {
            spin_loop();
        }
        File::open(&file).map_err(failed)?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// A program on every core that computes, each in a session of its own.
pub fn compute_on_all_cores() -> Result<Crew, String> {
    let mut all = Crew(Vec::new());
    for _ in allowed_cores() {
        let mut program = Command::new("setsid");
        program.args(["sh", "-c", "while :; do :; done"]);
        all.0.push(program.spawn().context("setsid")?);
    }
    Ok(all)
}
