//! Programs that a benchmark runs, alone and several at once.

use crate::cpu_time::{CpuTime, of_process};
use crate::failure::Context;
use crate::watchdog::beat;
pub use hearth_testing::disk::said as output;
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Instant;

/// This program itself, to do `verb` in a process of its own.
pub fn own(verb: &str) -> Result<Command, String> {
    let mut own = Command::new(std::env::current_exe().text()?);
    own.arg(verb);
    Ok(own)
}

/// Does `verb` in a process of its own; returns what it prints.
pub fn own_output<A: AsRef<str>>(verb: &str, args: &[A]) -> Result<String, String> {
    output(own(verb)?.args(args.iter().map(AsRef::as_ref)))
}

/// What programs took that ran at once.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// From before the first one is started until after the last one has ended.
    pub seconds: f64,
    /// Processor time of the programs.
    pub cpu: CpuTime,
    /// Processor seconds of the daemon that serves them.
    pub served: f64,
}

/// Runs programs at once to their ends, whatever these are; what they print is kept.
pub fn at_once(
    programs: impl IntoIterator<Item = Command>,
    daemon: Option<u32>,
) -> Result<(Vec<Output>, Spent), String> {
    let served = || daemon.map_or(0.0, of_process);
    let (cpu, served_before, begin) = (CpuTime::of_children(), served(), Instant::now());
    // At the first error all that still run end with it.
    let (mut running, mut names) = (Crew(Vec::new()), Vec::new());
    for mut program in programs {
        let name = program.get_program().to_string_lossy().into_owned();
        running.0.push(program.spawn().context(&name)?);
        names.push(name);
    }
    let mut outputs = Vec::new();
    for (child, name) in running.0.iter_mut().zip(&names) {
        outputs.push(output_of(child).context(name)?);
        beat();
    }
    let spent = Spent {
        seconds: begin.elapsed().as_secs_f64(),
        cpu: CpuTime::of_children() - cpu,
        served: served() - served_before,
    };
    Ok((outputs, spent))
}

/// As [`Child::wait_with_output`], but the child stays with its owner.
fn output_of(child: &mut Child) -> std::io::Result<Output> {
    drop(child.stdin.take());
    let (stdout, stderr) = match (child.stdout.take(), child.stderr.take()) {
        // Each may be full while the other one is read.
        (Some(stdout), Some(stderr)) => std::thread::scope(|scope| {
            let stderr = scope.spawn(|| all_of(Some(stderr)));
            let stdout = all_of(Some(stdout));
            let panicked = |_| Err(Error::other("a thread panicked"));
            (stdout, stderr.join().unwrap_or_else(panicked))
        }),
        (stdout, stderr) => (all_of(stdout), all_of(stderr)),
    };
    Ok(Output {
        stdout: stdout?,
        stderr: stderr?,
        status: child.wait()?,
    })
}

/// What comes out of a pipe, if there is one.
fn all_of(pipe: Option<impl Read>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map(|mut pipe| pipe.read_to_end(&mut bytes))
        .transpose()?;
    Ok(bytes)
}

/// Programs that end with this value, if they have not before.
pub struct Crew(pub Vec<Child>);

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended needs no end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Processes that wait for the sign to begin at once.
pub struct Waiting {
    crew: Crew,
    says: Vec<BufReader<ChildStdout>>,
}

impl Waiting {
    /// Starts them, and waits until all are ready: each calls [`ready`].
    pub fn start(programs: impl IntoIterator<Item = Command>) -> Result<Waiting, String> {
        let mut waiting = Waiting {
            crew: Crew(Vec::new()),
            says: Vec::new(),
        };
        for mut program in programs {
            let program = program.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = program.spawn().context("a child process")?;
            waiting.says.extend(child.stdout.take().map(BufReader::new));
            waiting.crew.0.push(child);
        }
        let ready = waiting.lines()?;
        match ready.iter().find(|line| *line != READY) {
            Some(other) => Err(format!("a child process says '{other}', not '{READY}'")),
            None => Ok(waiting),
        }
    }

    /// Gives the sign; returns the line that each prints when it is done.
    pub fn go(&mut self) -> Result<Vec<String>, String> {
        // The end of its input is the sign.
        self.crew
            .0
            .iter_mut()
            .for_each(|child| drop(child.stdin.take()));
        self.lines()
    }

    /// Waits for their ends, which have to be good ones.
    pub fn end(mut self) -> Result<(), String> {
        self.crew.0.iter_mut().try_for_each(|child| {
            match child.wait().context("a child process")? {
                status if status.success() => Ok(()),
                status => Err(format!("a child process ended with {status}")),
            }
        })
    }

    fn lines(&mut self) -> Result<Vec<String>, String> {
        let line = |says: &mut BufReader<ChildStdout>| {
            let mut line = String::new();
            says.read_line(&mut line).context("a child process")?;
            Ok(line.trim().to_owned())
        };
        self.says.iter_mut().map(line).collect()
    }
}

/// What a process says that is ready to begin.
const READY: &str = "ready";

/// Says that this process is ready, and waits for the sign.
pub fn ready() -> Result<(), String> {
    println!("{READY}");
    std::io::stdout().flush().text()?;
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .text()
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn both_outputs_are_kept_however_much_is_printed() {
        let much = "head -c 300000 /dev/zero";
        let mut program = shell(&format!("{much} >&2; {much}; exit 3"));
        program.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (outputs, spent) = at_once([program], None).unwrap();
        let [output] = &outputs[..] else {
            panic!("{} outputs", outputs.len());
        };
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (300_000, 300_000)
        );
        assert_eq!(output.status.code(), Some(3));
        assert!(spent.seconds > 0.0);
    }

    #[test]
    fn at_an_error_the_program_is_named_and_the_others_are_gone() {
        let place = hearth_testing::place::Place::new("children").unwrap();
        let pid = place.path().join("pid");
        let first = shell(&format!("echo $$ > {}; exec sleep 600", pid.display()));
        let missing = std::iter::from_fn(|| {
            // The first one runs by then.
            while std::fs::read(&pid).is_ok_and(|text| text.is_empty()) || !pid.exists() {
                std::thread::yield_now();
            }
            Some(Command::new("/no/such/program"))
        });
        let said = at_once([first].into_iter().chain(missing.take(1)), None).unwrap_err();
        assert!(said.starts_with("/no/such/program: "), "{said}");
        let pid = std::fs::read_to_string(&pid).unwrap();
        let process = std::path::Path::new("/proc").join(pid.trim());
        assert!(!process.exists(), "it was killed and waited for");
    }
}
