//! Two tenants of one volume: how long the quiet one waits, alone and beside a greedy one.

use super::stage::Stage;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PREPARE: &[&str] = &[
    "mkdir shared && hearth mount ./shared",
    "mkdir shared/greedy shared/quiet",
    "hearth quota project ./shared/greedy 8 && hearth quota project ./shared/quiet 9",
];

/// Programs of the greedy tenant.
const GREEDY: usize = 16;

/// How long each measurement takes.
const TIME: Duration = Duration::from_millis(2500);

/// The quiet one does something this often.
const PAUSE: Duration = Duration::from_millis(2);

/// Mounts a volume in memory, measures three times, and shows who waited for what.
///
/// # Errors
/// What a command or a file of the volume said.
pub fn show(stage: &Stage) -> Result<(), String> {
    stage.all(PREPARE)?;
    let shared = stage.directory().join("shared");
    println!("what a small file of the quiet tenant takes (made, written, read, removed):");
    println!("{:44} {:>8} {:>8} {:>8}", "", "p50", "p99", "most");
    measured(&shared, "alone", 0)?;
    let crowded = format!("beside {GREEDY} threads of the greedy tenant");
    measured(&shared, &crowded, GREEDY)?;
    stage.shell("hearth sched limit project:8 --iops 2k ./shared")?;
    measured(&shared, "beside them, with that limit", GREEDY)?;
    stage.shell("hearth sched ./shared | sed -n '/weight/,$p'")?;
    beside(&shared, GREEDY, || {
        stage.shell("hearth locks ./shared --for 1s --sort wait | head -n 7")
    })?;
    stage.shell("hearth umount ./shared")
}

/// One line of the table.
fn measured(shared: &Path, what: &str, greedy: usize) -> Result<(), String> {
    let times = beside(shared, greedy, || quiet(&shared.join("quiet/file")));
    let mut times = times.map_err(|error| format!("{}: {error}", shared.display()))?;
    times.sort_unstable();
    let at = |part: usize| micros(times[(times.len() - 1) * part / 100]);
    println!("{what:44} {:>8} {:>8} {:>8}", at(50), at(99), at(100));
    Ok(())
}

/// Runs something beside threads of the greedy tenant.
fn beside<T>(shared: &Path, greedy: usize, run: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    std::thread::scope(|scope| {
        for thread in 0..greedy {
            let path = shared.join(format!("greedy/{thread}"));
            // Relaxed: nothing is passed on with it.
            scope.spawn(move || while !is_over.load(Ordering::Relaxed) && file(&path).is_ok() {});
        }
        let done = run();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

fn quiet(path: &Path) -> std::io::Result<Vec<Duration>> {
    let end = Instant::now() + TIME;
    let mut times = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        file(path)?;
        times.push(begin.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(times)
}

fn file(path: &Path) -> std::io::Result<()> {
    fs::write(path, [1; 4096])?;
    fs::read(path)?;
    fs::remove_file(path)
}

fn micros(time: Duration) -> String {
    match time.as_micros() {
        short @ ..10_000 => format!("{short} us"),
        long => format!("{} ms", long / 1000),
    }
}
