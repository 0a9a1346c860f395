//! The scheduling policy of a daemon's threads.
//!
//! A request is answered on the CPU of its client. When the kernel then wakes the client, that CPU
//! is busy with the serving thread, so the kernel takes another CPU that sleeps. It leaves the
//! client there if it counts the busy CPU as idle, which it does if everything that runs there has
//! the policy `SCHED_IDLE`. If the client stays, no other CPU has to be woken, which may cost more
//! than the reply (`docs/design/fuse.md`, "Where the client wakes").

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
    /// The policy that the program was started with.
    Other,
    /// `SCHED_IDLE` for all threads. Only for a daemon whose scheduler group in the kernel has no
    /// program that computes: beside one the daemon would hardly run.
    Idle,
}

impl SchedPolicy {
    /// Checks that the kernel allows this policy. Changes nothing.
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
        // A thread that did not have the policy yet may have started another thread meanwhile.
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

    /// Returns the policy, or `Other` for an `Auto` that is not possible. It is not possible on one
    /// CPU, for a process whose policy is not the usual one, if the kernel does not count how long
    /// threads wait, and without the right to leave `SCHED_IDLE` again (`CAP_SYS_NICE`, or
    /// `RLIMIT_NICE`; setpriority(2)).
    pub(crate) fn where_possible(self) -> SchedPolicy {
        match self {
            SchedPolicy::Auto if !may_come_and_go() => SchedPolicy::Other,
            policy => policy,
        }
    }

    /// The value of the option `sched_policy`.
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

/// Gives this thread the usual policy. A thread calls it before it starts another thread, which
/// would inherit the policy. The new thread calls it as well, because the first one may have been
/// given the policy meanwhile.
pub(crate) fn be_usual() {
    if cpu::is_idle(0) {
        // A thread that got the policy may leave it: the monitor has tried that before.
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
