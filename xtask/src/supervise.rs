//! A command whose lines are read while it runs, and that is ended when it takes too long.
//!
//! A test that waits for ever would otherwise take the results of all others with it.

use crate::process;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a part may run, beside what `HEARTH_SECONDS` makes its tests longer. The longest takes
/// ten minutes, and fifteen where other programs are busy: it builds with one unit of code.
const PATIENCE: Duration = Duration::from_secs(35 * 60);

/// How long a killed process is waited for: one that waits in the kernel does not end.
const ENDING: Duration = Duration::from_secs(20);

/// How often the end of a program is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How the directories of tests begin whose mounts are ended; the number of the process follows.
const MARKERS: [&str; 3] = ["hearth-test-", "hearth-fuse-", "hearth-demo-"];

/// How long a part may run.
pub fn patience() -> Duration {
    let asked = std::env::var("HEARTH_SECONDS").ok();
    PATIENCE + Duration::from_secs(asked.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Runs a command and hands over each line of its two streams; returns how it ended. One that takes
/// longer than `patience` is killed; what it waited in is handed over as well.
pub fn output(
    mut command: Command,
    filter: &[String],
    patience: Duration,
    mut line: impl FnMut(&str),
) -> std::io::Result<ExitStatus> {
    let begun = Instant::now();
    command.args(filter);
    // One pipe for both streams: cargo names the programs on the second, they speak on the first.
    let (read, write) = std::io::pipe()?;
    command.stdout(write.try_clone()?);
    command.stderr(write);
    let mut child = command.spawn()?;
    // The command holds the pipe's other end: without this drop the reader would never end.
    drop(command);
    let lines = lines_of(read);
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(text) => line(&text),
            // A program that a test left behind may hold the pipe open for ever.
            Err(error) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(status);
                }
                if error == RecvTimeoutError::Disconnected {
                    thread::sleep(LOOK);
                }
            }
        }
        if begun.elapsed() > patience {
            end(&mut child).lines().for_each(line);
            let seconds = patience.as_secs();
            let what = format!("ended, because it took longer than {seconds} s");
            return Err(std::io::Error::other(what));
        }
    }
}

/// The lines of a pipe, as a thread reads them.
fn lines_of(pipe: PipeReader) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for text in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&text).into_owned();
            if send.send(text).is_err() {
                return;
            }
        }
    });
    lines
}

/// Returns what each thread of `child` and of its descendants waited in, and kills them.
fn end(child: &mut Child) -> String {
    let family = family(child.id());
    let mut text = String::from("takes too long; what its threads wait in:\n");
    for &pid in &family {
        text.push_str(&threads_of(pid));
    }
    // The program first: it should not go on when what it waits for has ended.
    for pid in &family {
        let mut kill = Command::new("kill");
        if let Err(what) = process::run(kill.args(["-9", &pid.to_string()])) {
            println!("{what}");
        }
    }
    abort_mounts(&family);
    let killed = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && killed.elapsed() < ENDING {
        thread::sleep(Duration::from_millis(50));
    }
    text
}

/// Ends the connections of the mounts of test programs, whose daemons may be nobody's children.
fn abort_mounts(programs: &[u32]) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let directory = std::env::temp_dir();
    let is_theirs = |place: &str| {
        let name = place.strip_prefix(&*directory.to_string_lossy())?;
        let name = name.trim_start_matches('/');
        let number = MARKERS
            .iter()
            .find_map(|marker| name.strip_prefix(marker))?;
        let number = number.split(|c: char| !c.is_ascii_digit()).next()?;
        programs.contains(&number.parse().ok()?).then_some(())
    };
    for place in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        if is_theirs(place).is_some() {
            let mut umount = Command::new("umount");
            if let Err(what) = process::run(umount.args(["-f", "-l", place])) {
                println!("{what}");
            }
        }
    }
}

/// A process and all that it started, parents first.
fn family(first: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = vec![first];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        all.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    all
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may have any in it.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

/// What each thread of a process waits in, as far as the kernel tells, a line each.
fn threads_of(pid: u32) -> String {
    let mut text = String::new();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    for thread in threads.into_iter().flatten().flatten() {
        let of = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let (name, syscall, stack) = (of("comm"), of("syscall"), of("stack"));
        let frames: Vec<_> = stack.lines().map(str::trim).collect();
        let _ = writeln!(
            text,
            "{pid} {}: syscall {}; {}",
            name.trim(),
            syscall.trim(),
            frames.join(" ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_told_and_ended_with_what_it_started() {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let begun = Instant::now();
        while family(child.id()).len() < 2 && begun.elapsed() < ENDING {
            thread::sleep(Duration::from_millis(5));
        }
        let sleeper = *family(child.id()).last().unwrap();
        assert_ne!(sleeper, child.id());
        let text = end(&mut child);
        let status = child.try_wait().unwrap();
        assert!(status.is_some_and(|status| !status.success()));
        for pid in [sleeper, child.id()] {
            assert!(text.contains(&format!("\n{pid} s")), "{text}");
        }
        // An orphan is a zombie until its new parent has taken note.
        let state = || std::fs::read_to_string(format!("/proc/{sleeper}/stat"));
        let is_gone = || state().map_or(true, |state| state.contains(") Z"));
        let killed = Instant::now();
        while !is_gone() && killed.elapsed() < ENDING {
            thread::sleep(LOOK);
        }
        assert!(is_gone(), "{:?}", state());
    }

    #[test]
    fn a_part_that_waits_for_ever_is_ended_with_what_it_had_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 600"]);
        let mut said = Vec::new();
        let ended = output(command, &[], Duration::from_millis(100), |text| {
            said.push(text.to_owned());
        });
        assert!(ended.unwrap_err().to_string().contains("took longer"));
        assert_eq!(said[0], "begun");
        assert!(said[1].contains("takes too long"), "{said:?}");
    }
}
