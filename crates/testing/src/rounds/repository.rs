//! git with everything synced: commits that a later one was built on are there and sound.

use super::Workload;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// A repository, and the commits that git said it had made.
#[derive(Default)]
pub struct Repository {
    commits: Vec<String>,
    next: u64,
}

impl Repository {
    fn git(at: &Path, args: &[&str]) -> Result<String, String> {
        let mut git = Command::new("timeout");
        git.args(["-s", "KILL", "120", "git"])
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .args(["-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"])
            .args([
                "-c",
                "gc.auto=0",
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@a",
            ])
            .args(["-c", "safe.directory=*"])
            .args(args)
            .current_dir(at);
        crate::disk::said(&mut git)
    }

    fn run(&mut self, at: &Path, end: &AtomicBool) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        if !at.join("whole").exists() {
            Repository::git(at, &["init", "-q"])?;
            std::fs::write(at.join("whole"), "").map_err(failed)?;
            // git syncs no file of a new repository, and `syncfs` does not reach every filesystem.
            sync_all(at).map_err(failed)?;
        }
        // What a process that was killed has left.
        for lock in ["index.lock", "HEAD.lock", "refs/heads/master.lock"] {
            let _ = std::fs::remove_file(at.join(".git").join(lock));
        }
        while !end.load(Ordering::Relaxed) {
            self.next += 1;
            let text = format!("{}\n", self.next).repeat(self.next as usize % 500);
            let file = at.join(format!("f{}", self.next % 50));
            std::fs::write(file, text).map_err(failed)?;
            Repository::git(at, &["add", "-A"])?;
            Repository::git(at, &["commit", "-q", "--allow-empty", "-m", "x"])?;
            let commit = Repository::git(at, &["rev-parse", "HEAD"])?;
            self.commits.push(commit.trim().to_owned());
        }
        Ok(())
    }
}

impl Workload for Repository {
    fn name(&self) -> &'static str {
        "repository"
    }

    fn work(&mut self, at: &Path, end: &AtomicBool) {
        // The failure of the service is what ends it.
        let _ = self.run(at, end);
    }

    fn check(&mut self, at: &Path) -> Result<(), String> {
        // git renames a reference and syncs nothing after that: only the next commit's syncs make
        // sure of it. What is lost so is no longer asked for.
        let Some(sure) = self.commits.iter().rev().nth(1).cloned() else {
            return Ok(());
        };
        Repository::git(at, &["merge-base", "--is-ancestor", &sure, "HEAD"])
            .map_err(|what| format!("commit {sure}, before the last, is not in HEAD: {what}"))?;
        Repository::git(at, &["fsck", "--strict", "--full"])?;
        if let Some(last) = self.commits.pop() {
            let head = Repository::git(at, &["rev-parse", "HEAD"])?;
            self.commits.extend((head.trim() == last).then_some(last));
        }
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        self.commits.len() as u64
    }
}

/// Syncs everything in and below a directory.
fn sync_all(at: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(at)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => sync_all(&entry.path())?,
            kind if kind.is_file() => std::fs::File::open(entry.path())?.sync_all()?,
            _ => (),
        }
    }
    std::fs::File::open(at)?.sync_all()
}
