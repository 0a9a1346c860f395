//! What a program waits in that takes too long.

use super::watchdog::kill;
use rustix::thread::gettid;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Looks once at all that this suite has started, when a program has run for too long.
pub struct Lookout {
    end: Sender<()>,
    thread: JoinHandle<String>,
}

impl Lookout {
    /// Looks after `patience`. What this thread has started last is killed `more` later: most
    /// programs have ended by a limit of their own then.
    pub fn start(patience: Duration, more: Duration) -> Lookout {
        let (end, ended) = channel();
        let children = format!("/proc/self/task/{}/children", gettid());
        let thread = std::thread::spawn(move || {
            let is_over = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if !is_over(patience) {
                return String::new();
            }
            let seen = everybody();
            if is_over(more) {
                let children = std::fs::read_to_string(children).unwrap_or_default();
                let last = children.split_whitespace().next_back();
                if let Some(pid) = last.and_then(|pid| pid.parse().ok()) {
                    kill(pid);
                }
            }
            seen
        });
        Lookout { end, thread }
    }

    /// The program has ended: what was seen, which is nothing if that was in time.
    pub fn end(self) -> String {
        drop(self.end);
        self.thread.join().expect("the lookout looks")
    }
}

/// What each thread of a process waits in, as far as the kernel tells, a line each.
pub fn threads_of(pid: u32) -> String {
    let mut text = String::new();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    for thread in threads.into_iter().flatten().flatten() {
        let of = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let (name, syscall, status, stack) = (of("comm"), of("syscall"), of("status"), of("stack"));
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        let frames: Vec<_> = stack.lines().map(|line| line.trim()).collect();
        let _ = writeln!(
            text,
            "{pid} {}: {}; syscall {}; {}",
            name.trim(),
            state.unwrap_or_default().trim(),
            syscall.trim(),
            frames.join(" ")
        );
    }
    text
}

/// This process's descendants, and the daemons of its mounts.
fn everybody() -> String {
    let processes = std::fs::read_dir("/proc").expect("the processes are listed");
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parents: HashMap<u32, u32> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let above = |pid: &u32| parents.get(pid).copied();
    let me = std::process::id();
    let mount = format!("{}/hearth-test-{me}-", std::env::temp_dir().display());
    let is_ours = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let daemon = String::from_utf8_lossy(&line).contains(&mount);
        daemon || std::iter::successors(above(pid), above).any(|ancestor| ancestor == me)
    };
    let ours = parents.keys().filter(|pid| is_ours(pid));
    ours.map(|&pid| threads_of(pid)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may have any in it.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}
