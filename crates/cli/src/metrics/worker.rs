//! The process that looks into mounts.
//!
//! A call on a mount whose daemon is stopped may be one that not even SIGKILL ends: the kernel
//! waits for a request that the daemon has taken, as it has every one over a ring. The process of
//! such a call lives on, with all its descriptors, until the daemon answers or the mount is gone.
//! So mounts are looked into by a process that has nothing else: the one that prints, or listens,
//! ends when it is asked to and takes its port along.
//!
//! It is asked by a newline on its standard input, and answers a word, a length, and so many bytes.
//! It ends when nobody can ask any more, also in the middle of an answer: whoever has started it
//! may be killed at any time.

use super::args::WorkArgs;
use super::collector::Collector;
use crate::failure::{Failure, reason};
use crate::inquiry;
use crate::patience;
use hearth_sync::primitive::thread;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result as IoResult, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PAGE: &str = "page";
const FAILURE: &str = "failure";

/// The other process, as it is seen from here.
pub struct Worker {
    work: WorkArgs,
    running: Option<Running>,
}

struct Running {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// One that is started when it is first needed.
    pub fn new(work: WorkArgs) -> Worker {
        Worker {
            work,
            running: None,
        }
    }

    /// The page of now. A worker that was killed is started again.
    ///
    /// # Errors
    /// What the worker says, or that there is none.
    pub fn collect(&mut self) -> Result<String, Failure> {
        let lost = match self.ask() {
            Ok(answer) => return answer.map_err(Failure::refused),
            Err(error) => error,
        };
        self.running = None;
        match self.ask() {
            Ok(answer) => answer.map_err(Failure::refused),
            Err(_) => Err(Failure::refused(format!(
                "no process that looks into mounts: {}; see 'ulimit -u' and the free memory",
                reason(&lost)
            ))),
        }
    }

    fn ask(&mut self) -> IoResult<Result<String, String>> {
        if self.running.is_none() {
            self.running = Some(Running::start(&self.work)?);
        }
        match &mut self.running {
            Some(running) => running.ask(),
            None => Err(Error::from(ErrorKind::NotConnected)),
        }
    }
}

impl Running {
    fn start(work: &WorkArgs) -> IoResult<Running> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("metrics-worker")
            .arg(format!("--tenants={}", work.tenants))
            .arg(format!("--timeout={}ms", work.timeout.as_millis()))
            .args(work.once.then_some("--once"))
            .arg("--")
            .args(&work.mounts)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It may outlive this process, whose log ends with it.
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (questions, answers) = pipes.ok_or(ErrorKind::BrokenPipe)?;
        Ok(Running {
            child,
            questions,
            answers: BufReader::new(answers),
        })
    }

    fn ask(&mut self) -> IoResult<Result<String, String>> {
        self.questions.write_all(b"\n")?;
        let mut head = String::new();
        self.answers.read_line(&mut head)?;
        let (word, length) = head.trim_end().split_once(' ').unwrap_or_default();
        let length: usize = length.parse().map_err(|_| ErrorKind::UnexpectedEof)?;
        let mut text = vec![0; length];
        self.answers.read_exact(&mut text)?;
        let text = String::from_utf8(text).map_err(|_| ErrorKind::InvalidData)?;
        Ok(if word == PAGE { Ok(text) } else { Err(text) })
    }
}

impl Drop for Running {
    /// Nothing is left of it when the program ends, but for what waits in the kernel for a mount.
    fn drop(&mut self) {
        inquiry::kill(&mut self.child);
    }
}

/// `hearth metrics-worker`: answers until nobody asks any more.
pub fn work(args: &WorkArgs) -> Result<(), Failure> {
    // The asker has patience of its own.
    patience::end();
    let watch = thread::Builder::new().name("hearth-asker".to_owned());
    watch
        .spawn(end_with_asker)
        .map_err(|error| Failure::refused(format!("no thread: {}", reason(&error))))?;
    let mut collector = Collector::new(args);
    let (mut questions, mut answers) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut question = String::new();
    while questions.read_line(&mut question).is_ok_and(|len| len > 0) {
        question.clear();
        let (word, text) = match collector.collect() {
            Ok(page) => (PAGE, page),
            Err(failure) => (FAILURE, failure.line),
        };
        let head = format!("{word} {}\n", text.len());
        let written = answers.write_all(head.as_bytes());
        let written = written.and_then(|()| answers.write_all(text.as_bytes()));
        if written.and_then(|()| answers.flush()).is_err() {
            break;
        }
    }
    Ok(())
}

/// Ends this process when the other end of its standard input is closed.
fn end_with_asker() {
    let questions = std::io::stdin();
    loop {
        // Of nothing but the end of it.
        let mut fds = [PollFd::new(&questions, PollFlags::empty())];
        let polled = poll(&mut fds, None);
        if polled.is_ok() && !fds[0].revents().is_empty() {
            std::process::exit(0);
        }
    }
}
