//! What users do meanwhile.

use crate::histogram::Histogram;
use crate::target::Client;
use crate::workload::path;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Files that a task works with; all others lie idle.
const WARM: usize = 200;
/// Of them, those it has open.
const OPEN: usize = 32;
const PAGE: usize = 4096;
/// Files of a directory that lies idle.
const FILES: usize = 500;

#[derive(Clone, Debug, Default)]
pub struct Done {
    /// How long each operation took, in nanoseconds.
    pub latency: Histogram,
    /// From the first to the last.
    pub seconds: f64,
}

/// Makes the files of `tasks` tasks, and `idle` files of a page each that nobody uses.
pub fn fill(client: &dyn Client, tasks: usize, idle: usize) -> Result<(), String> {
    let make = |name: CString| {
        let file = client.open(&name, libc::O_CREAT | libc::O_RDWR)?;
        client.write(file, &[7; PAGE], 0)?;
        client.close(file)
    };
    for task in 0..tasks {
        client.mkdir(&path(format!("/task-{task}")))?;
        (0..WARM).try_for_each(|n| make(warm(task, n)))?;
    }
    for n in 0..idle {
        if n % FILES == 0 {
            client.mkdir(&path(format!("/idle-{}", n / FILES)))?;
            crate::watchdog::beat();
        }
        make(idle_file(n))?;
    }
    Ok(())
}

/// Reads all idle files, so that they are in memory again.
pub fn recall(client: &dyn Client, idle: usize) -> Result<(), String> {
    let mut page = [0; PAGE];
    for n in 0..idle {
        let file = client.open(&idle_file(n), libc::O_RDONLY)?;
        client.read(file, &mut page, 0)?;
        client.close(file)?;
    }
    Ok(())
}

/// Works for `length` and until `passed`: a stat, a read, a write, a create and unlink in turn,
/// each timed.
pub fn work(
    client: &dyn Client,
    task: usize,
    length: Duration,
    passed: &AtomicBool,
) -> Result<Done, String> {
    let names: Vec<CString> = (0..WARM).map(|n| warm(task, n)).collect();
    let scratch = path(format!("/task-{task}/scratch"));
    let open = |name: &CString| client.open(name, libc::O_RDWR);
    let files: Result<Vec<i32>, String> = names[..OPEN].iter().map(open).collect();
    let files = files?;
    let mut page = [7; PAGE];
    let mut done = Done::default();
    let begin = Instant::now();
    let mut turn = 0;
    loop {
        // Not the same file for the same operation all the time.
        let at = turn / 4 * 7;
        let asked = Instant::now();
        // Relaxed: nothing but the end itself is passed on.
        if asked.duration_since(begin) >= length && passed.load(Ordering::Relaxed) {
            break;
        }
        match turn % 4 {
            0 if client.stat(&names[at % WARM]) => {}
            0 => return Err(format!("{:?} is gone", names[at % WARM])),
            1 => client.read(files[at % OPEN], &mut page, 0).map(drop)?,
            2 => client.write(files[at % OPEN], &page, 0).map(drop)?,
            _ => {
                let file = client.open(&scratch, libc::O_CREAT | libc::O_RDWR)?;
                client.close(file)?;
                client.unlink(&scratch)?;
            }
        }
        done.latency.add(asked.elapsed().as_nanos() as u64);
        turn += 1;
    }
    done.seconds = begin.elapsed().as_secs_f64();
    files.into_iter().try_for_each(|file| client.close(file))?;
    Ok(done)
}

fn warm(task: usize, n: usize) -> CString {
    path(format!("/task-{task}/{n}"))
}

fn idle_file(n: usize) -> CString {
    path(format!("/idle-{}/{n}", n / FILES))
}
