//! The test `malloc`: 500 times a block of every size from 1 to 299 bytes.

use super::{PROCESSES, THREADS, sides};
use crate::pinned::{allowed_cores, pin};
use crate::seeds::grid::Grid;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::Instant;

/// Its name in the original.
pub const NAME: &str = "malloc";
/// The verb by which this program is one of the processes.
pub const CHILD: &str = "seeds-malloc";

const TIMES: usize = 500;
const SIZES: std::ops::Range<usize> = 1..300;

/// One repeat by threads and by processes.
///
/// # Errors
/// A child process cannot be started or fails.
pub fn both(tasks: usize, repeat: u32, grid: &mut Grid) -> Result<(), String> {
    for side in sides(repeat) {
        let seconds = match side {
            THREADS => by_threads(tasks),
            PROCESSES => by_processes(tasks)?,
            _ => continue,
        };
        grid.push(NAME, &format!("allocator-{side}"), tasks, seconds);
    }
    Ok(())
}

/// What each task does.
fn work() {
    for _ in 0..TIMES {
        let blocks: Vec<Vec<u8>> = SIZES.map(Vec::with_capacity).collect();
        std::hint::black_box(blocks);
    }
}

/// Seconds from the first thread's begin to the last one's end.
fn by_threads(tasks: usize) -> f64 {
    let cores = allowed_cores();
    let start = Barrier::new(tasks);
    let task = |number: usize| {
        let _ = pin(cores[number % cores.len()]);
        start.wait();
        let begin = Instant::now();
        work();
        (begin, Instant::now())
    };
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks).map(|n| scope.spawn(move || task(n))).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    let begin = times.iter().map(|times| times.0).min();
    let end = times.iter().map(|times| times.1).max();
    begin
        .zip(end)
        .map_or(f64::NAN, |(begin, end)| (end - begin).as_secs_f64())
}

/// The same by children of this program. Each tells when it began and ended by the clock that all
/// processes have in common.
fn by_processes(tasks: usize) -> Result<f64, String> {
    let cores = allowed_cores();
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut children = Vec::new();
    for task in 0..tasks {
        let mut command = Command::new(&program);
        command.args([CHILD, &cores[task % cores.len()].to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        children.push(child);
    }
    let failed = |error: std::io::Error| format!("a child process: {error}");
    for child in &mut children {
        let out = child.stdout.as_mut().ok_or("a child has no output")?;
        out.read_exact(&mut [0; 1]).map_err(failed)?;
    }
    for child in &mut children {
        let into = child.stdin.as_mut().ok_or("a child has no input")?;
        into.write_all(b"g").map_err(failed)?;
    }
    let times = children
        .into_iter()
        .map(times_of)
        .collect::<Result<Vec<_>, String>>()?;
    let begin = times
        .iter()
        .map(|times| times.0)
        .fold(f64::INFINITY, f64::min);
    let end = times.iter().map(|times| times.1).fold(0.0, f64::max);
    Ok(end - begin)
}

fn times_of(child: Child) -> Result<(f64, f64), String> {
    let output = child.wait_with_output();
    let output = output.map_err(|error| format!("a child process: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut times = text.split_whitespace().map(str::parse::<f64>);
    match (times.next(), times.next()) {
        (Some(Ok(begin)), Some(Ok(end))) => Ok((begin, end)),
        _ => Err(format!(
            "a child process ended with {}: {text}",
            output.status
        )),
    }
}

/// One of the processes: says that it is ready, waits for a byte, works, and prints when it began
/// and ended.
///
/// # Errors
/// The parent is gone, or the argument is no core.
pub fn run_child(args: &[String]) -> Result<(), String> {
    let core: usize = args
        .first()
        .and_then(|core| core.parse().ok())
        .ok_or("which core?")?;
    let _ = pin(core);
    let failed = |error: std::io::Error| error.to_string();
    let mut out = std::io::stdout();
    out.write_all(b"\n")
        .and_then(|()| out.flush())
        .map_err(failed)?;
    std::io::stdin().read_exact(&mut [0; 1]).map_err(failed)?;
    let begin = monotonic();
    work();
    let end = monotonic();
    writeln!(out, "{begin:.9} {end:.9}").map_err(failed)
}

/// Seconds on the clock that all processes have in common.
fn monotonic() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives throughout the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_some_time() {
        let seconds = by_threads(2);
        assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
    }

    #[test]
    fn a_child_that_is_not_told_a_core_says_so() {
        assert!(run_child(&[]).unwrap_err().contains("core"));
    }
}
