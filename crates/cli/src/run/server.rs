//! What serves the directory of a program: a daemon that ends with its standard input.

use super::args::ServerArgs;
use crate::failure::{Failure, reason};
use crate::{host, serve};
use hearth::Source;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The word of a server that has mounted.
const READY: &str = "ready\n";

/// A server that runs.
pub struct Server {
    process: Child,
    /// Ends with this.
    input: ChildStdin,
}

impl Server {
    /// Starts a server of `directory` and returns when it has mounted.
    pub fn start(directory: &Path, options: &[String]) -> Result<Server, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("run-server");
        for options in options {
            command.arg("-o").arg(options);
        }
        command.arg("--").arg(directory);
        // The terminal's signals are for the program.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let refused = |why: &str| Failure::at(directory, format!("its server: {why}"));
        let mut process = command.spawn().map_err(|error| refused(&reason(&error)))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(refused("no pipes"));
        };
        let mut word = String::new();
        let read = BufReader::new(output).read_line(&mut word);
        read.map_err(|error| refused(&reason(&error)))?;
        if word == READY {
            return Ok(Server { process, input });
        }
        let _ = process.wait();
        // It has said why.
        Err(Failure {
            line: String::new(),
            status: super::NOT_RUN,
        })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends it, and returns when it has ended.
    pub fn end(self) -> Result<(), Failure> {
        let Server { mut process, input } = self;
        drop(input);
        let ended = process.wait();
        ended.map_err(|error| Failure::refused(format!("the server: {}", reason(&error))))?;
        Ok(())
    }
}

/// Serves until standard input ends.
pub fn run(args: &ServerArgs) -> Result<(), Failure> {
    let directory = &args.directory;
    let source = Source::Host(directory.clone());
    let mut options = serve::source_options(&source, &args.options)?;
    options.covers = true;
    hearth::yield_between_operations(true);
    let volume = serve::volume(&source, &options, directory)?;
    let (session, vfs) = host::start(directory, &volume, directory, options)?;
    // The runner may have ended.
    let _ = std::io::stdout().write_all(READY.as_bytes());
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // Whoever was in the namespace is gone. If not, the mount ends with this process.
    let unmounted = session.unmount();
    if unmounted.is_ok() {
        session.wait();
    }
    let closed = volume.close();
    let kept = vfs.end_quotas();
    unmounted.map_err(|error| Failure::at(directory, error))?;
    closed.map_err(|error| Failure::at(directory, error))?;
    kept.map_err(|error| Failure::at(directory, reason(&error)))
}
