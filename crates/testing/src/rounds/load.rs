//! A program that only makes work.

use super::Workload;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Gets the directory and a number.
type MakeCommand = dyn Fn(&Path, u64) -> Command + Send;

/// Starts a program again and again; it checks itself what it reads.
pub struct Load {
    name: &'static str,
    command: Box<MakeCommand>,
    started: u64,
}

impl Load {
    /// `command` gets the directory and how often it was started before.
    pub fn new(
        name: &'static str,
        command: impl Fn(&Path, u64) -> Command + Send + 'static,
    ) -> Load {
        Load {
            name,
            command: Box::new(command),
            started: 0,
        }
    }
}

impl Workload for Load {
    fn name(&self) -> &'static str {
        self.name
    }

    fn work(&mut self, at: &Path, end: &AtomicBool) {
        while !end.load(Ordering::Relaxed) {
            let mut command = (self.command)(at, self.started);
            self.started += 1;
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let Ok(mut child) = command.stderr(Stdio::null()).spawn() else {
                return;
            };
            while !end.load(Ordering::Relaxed) && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
            // One that has ended needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn check(&mut self, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        0
    }
}
