//! Where the demonstration plays: a temporary directory, in which commands run as a person would
//! type them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The directory, and the search path that finds `hearth`. Dropping it unmounts and removes all.
pub struct Stage {
    directory: PathBuf,
    path: OsString,
    scenes: usize,
    began: Instant,
}

impl Stage {
    /// An empty stage, on which `hearth` is the program in `programs`.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(programs: &Path) -> Result<Stage, String> {
        let name = format!("hearth-demo-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let known = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&known));
        let path = std::env::join_paths(all).map_err(|error| format!("PATH: {error}"))?;
        Ok(Stage {
            directory,
            path,
            scenes: 0,
            began: Instant::now(),
        })
    }

    /// Where commands run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Says what comes.
    pub fn scene(&mut self, what: &str) {
        self.scenes += 1;
        println!("\n== {}. {what}", self.scenes);
    }

    /// Shows a command and runs it.
    ///
    /// # Errors
    /// It fails; one that begins with `!` has to.
    pub fn shell(&self, line: &str) -> Result<(), String> {
        self.in_directory(".", line)
    }

    /// Shows commands and runs them one after the other.
    ///
    /// # Errors
    /// Those of [`Stage::shell`].
    pub fn all(&self, lines: &[&str]) -> Result<(), String> {
        lines.iter().try_for_each(|line| self.shell(line))
    }

    /// Runs commands without showing them.
    ///
    /// # Errors
    /// One of them fails.
    pub fn quietly(&self, lines: &[&str]) -> Result<(), String> {
        lines.iter().try_for_each(|line| self.run(".", line))
    }

    /// [`Stage::shell`] in a directory of the stage.
    ///
    /// # Errors
    /// Those of [`Stage::shell`].
    pub fn in_directory(&self, directory: &str, line: &str) -> Result<(), String> {
        println!("$ {}", line.trim_start_matches("! "));
        self.run(directory, line)
    }

    fn run(&self, directory: &str, line: &str) -> Result<(), String> {
        let (fails, line) = match line.strip_prefix("! ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let status = self.command(directory, line).status();
        let status = status.map_err(|error| format!("`{line}` cannot be started: {error}"))?;
        match status.success() == fails {
            true => Err(format!("`{line}` ended with {status}")),
            false => Ok(()),
        }
    }

    /// A command in a directory of the stage. Errors are shown where they belong, in the output.
    pub fn command(&self, directory: &str, line: &str) -> Command {
        let mut shell = Command::new("bash");
        shell
            .args(["-euc", &format!("exec 2>&1; {line}")])
            .current_dir(self.directory.join(directory))
            .env("PATH", &self.path)
            .env("STATE_DIRECTORY", self.directory.join("state"));
        shell
    }

    /// Ends well: nothing is mounted any more.
    ///
    /// # Errors
    /// Something is.
    pub fn end(self) -> Result<(), String> {
        match self.mounts()[..] {
            [] => {
                let seconds = self.began.elapsed().as_secs();
                println!(
                    "\nThat was the demonstration, {seconds} s; nothing is left mounted. \
                     README.md goes on from here."
                );
                Ok(())
            }
            ref left => Err(format!("still mounted: {left:?}")),
        }
    }

    /// What is mounted below, the last one first.
    fn mounts(&self) -> Vec<PathBuf> {
        let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let points = table.lines().filter_map(|line| line.split(' ').nth(1));
        let below = points
            .map(PathBuf::from)
            .filter(|point| point.starts_with(&self.directory));
        let mut below: Vec<PathBuf> = below.collect();
        below.reverse();
        below
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for point in self.mounts() {
            let line = format!("hearth umount --lazy '{0}'", point.display());
            let unmounted = self.command(".", &line).status();
            if !unmounted.is_ok_and(|status| status.success()) {
                eprintln!("still mounted: {}", point.display());
                return;
            }
        }
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!("{}: {error}", self.directory.display());
        }
    }
}
