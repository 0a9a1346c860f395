//! By which policy the kernel schedules the threads of a daemon.
//!
//! A request is answered on the CPU of its client. The kernel that then wakes the client finds that
//! CPU busy with the serving thread, and takes another one that sleeps, unless it counts the busy
//! one as idle: it does where everything that runs there has the policy `SCHED_IDLE`. A client that
//! stays needs no other CPU woken, which may cost more than the reply (`docs/design/fuse.md`,
//! "Where the client wakes").

mod lease;
mod monitor;
mod phase;
mod thread;

use crate::placement::cpu;
use hearth_sync::primitive::thread::{self as threads, JoinHandle};
use lease::Files;
use std::io;

pub(crate) use monitor::IdleMonitor;
pub(crate) use thread::ServingThread;

/// `sched_policy=auto|other|idle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedPolicy {
    /// `SCHED_IDLE` for the threads that serve, while they have many requests and no other thread
    /// keeps them from running. A [`Session`](crate::Session) sees to that.
    #[default]
    Auto,
    /// As it was started.
    Other,
    /// `SCHED_IDLE` for all threads, for a daemon that shares its group of the kernel's scheduler
    /// with no program that computes: it would hardly run beside one.
    Idle,
}

impl SchedPolicy {
    /// Whether the kernel allows it; nothing has changed afterwards.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn check(self) -> io::Result<()> {
        match self {
            SchedPolicy::Auto | SchedPolicy::Other => Ok(()),
            SchedPolicy::Idle => {
                let probe = threads::spawn(|| cpu::be_idle(0)).join();
                probe.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            }
        }
    }

    /// Applies `idle` to all threads of this process, and so to those that they start from now on.
    ///
    /// # Errors
    /// The kernel's error; some of the threads may have the policy then.
    pub fn apply(self) -> io::Result<()> {
        if self != SchedPolicy::Idle {
            return Ok(());
        }
        // A thread that did not have it yet may have started another one meanwhile.
        loop {
            let mut is_new = false;
            for thread in std::fs::read_dir("/proc/self/task")? {
                let id = thread?.file_name();
                let Some(id) = id.to_str().and_then(|id| id.parse().ok()) else {
                    continue;
                };
                if cpu::is_idle(id) {
                    continue;
                }
                is_new = true;
                match cpu::be_idle(id) {
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    result => result?,
                }
            }
            if !is_new {
                return Ok(());
            }
        }
    }

    /// What there is instead where `auto` cannot be had: on one CPU, for a process that has
    /// another policy than the usual one, where the kernel does not count how long threads wait,
    /// and without the right to leave `SCHED_IDLE` again (`CAP_SYS_NICE`, or `RLIMIT_NICE`;
    /// setpriority(2)).
    pub(crate) fn where_possible(self) -> SchedPolicy {
        match self {
            SchedPolicy::Auto if !may_come_and_go() => SchedPolicy::Other,
            policy => policy,
        }
    }

    /// How options call it.
    pub fn word(self) -> &'static str {
        match self {
            SchedPolicy::Auto => "auto",
            SchedPolicy::Other => "other",
            SchedPolicy::Idle => "idle",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<SchedPolicy> {
        let all = [SchedPolicy::Auto, SchedPolicy::Other, SchedPolicy::Idle];
        all.into_iter().find(|policy| policy.word() == word)
    }
}

fn may_come_and_go() -> bool {
    let cpus = threads::available_parallelism().map_or(1, usize::from);
    if cpus < 2 || !cpu::is_other(0) || Files::of(cpu::this_thread()).is_err() {
        return false;
    }
    let probe = || cpu::be_idle(0).and_then(|()| cpu::be_other(0));
    let probe = threads::Builder::new().spawn(probe).map(JoinHandle::join);
    matches!(probe, Ok(Ok(Ok(()))))
}

/// The usual policy for this thread: before it starts another one, which would take the policy
/// over, and in that one, if the first was given it meanwhile.
pub(crate) fn be_usual() {
    if cpu::is_idle(0) {
        // A thread that got the policy may leave it: that was tried before.
        let _ = cpu::be_other(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_ask_whether_it_is_allowed_changes_nothing() {
        for policy in [SchedPolicy::Auto, SchedPolicy::Other, SchedPolicy::Idle] {
            policy.check().unwrap();
            policy.where_possible();
            assert!(!cpu::is_idle(0));
            assert_eq!(SchedPolicy::parse(policy.word()), Some(policy));
        }
    }
}
