//! CPUs: which may exist, which are there, staying on one, and by which policy threads share them.

use std::{fs, io};

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// Every CPU that may ever be there. The kernel wants a queue for each, and handles no request
/// before it has them all.
///
/// # Errors
/// That of reading the list, as where a container has no `/sys`: nothing else tells.
pub(crate) fn possible() -> io::Result<Vec<usize>> {
    let text = fs::read_to_string(POSSIBLE);
    let text =
        text.map_err(|error| io::Error::new(error.kind(), format!("{POSSIBLE}: {error}")))?;
    match parse(text.trim()) {
        none if none.is_empty() => Err(io::Error::other(format!("{POSSIBLE}: no list of CPUs"))),
        cpus => Ok(cpus),
    }
}

/// The CPUs that are there now; those that this thread may use, where nothing tells.
pub(crate) fn online() -> Vec<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match parse(text.trim()) {
        none if none.is_empty() => allowed(),
        cpus => cpus,
    }
}

/// The CPUs that the calling thread may use.
fn allowed() -> Vec<usize> {
    // SAFETY: an all-zero cpu_set_t is an empty set, sched_getaffinity writes at most the given
    // size, and CPU_ISSET stays inside it because of the range.
    let cpus: Vec<usize> = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        let all = 0..libc::CPU_SETSIZE as usize;
        all.filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    };
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Keeps the calling thread on one CPU. Where that is not allowed (a cpuset without it) the thread
/// stays free: slower, not wrong.
pub(crate) fn pin(cpu: usize) {
    if cpu >= libc::CPU_SETSIZE as usize {
        return;
    }
    // SAFETY: an all-zero cpu_set_t is an empty set, CPU_SET stays inside it because of the check
    // above, and sched_setaffinity reads exactly the given size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// The kernel's number of the calling thread.
pub(crate) fn this_thread() -> libc::pid_t {
    // SAFETY: it takes nothing.
    unsafe { libc::gettid() }
}

/// Whether a thread has the policy `SCHED_IDLE`; 0 is the calling one.
pub(crate) fn is_idle(thread: libc::pid_t) -> bool {
    // SAFETY: it takes a number.
    unsafe { libc::sched_getscheduler(thread) == libc::SCHED_IDLE }
}

/// Whether a thread has the usual policy; 0 is the calling one.
pub(crate) fn is_other(thread: libc::pid_t) -> bool {
    // SAFETY: it takes a number.
    let policy = unsafe { libc::sched_getscheduler(thread) };
    policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_OTHER
}

/// `SCHED_IDLE` for a thread, and those that it starts from now on; 0 is the calling one.
pub(crate) fn be_idle(thread: libc::pid_t) -> io::Result<()> {
    set_policy(thread, libc::SCHED_IDLE)
}

/// The usual policy for a thread, and those that it starts from now on; 0 is the calling one.
pub(crate) fn be_other(thread: libc::pid_t) -> io::Result<()> {
    set_policy(thread, libc::SCHED_OTHER)
}

fn set_policy(thread: libc::pid_t, policy: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: it reads the parameters, of which these policies need none.
    match unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `0-3,8` is 0, 1, 2, 3, 8.
fn parse(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_have_ranges_and_single_numbers() {
        assert_eq!(parse("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("0"), [0]);
        assert!(parse("").is_empty());
    }

    #[test]
    fn what_this_thread_may_use_is_there_and_may_be_there() {
        let (allowed, online) = (allowed(), online());
        assert!(allowed.iter().all(|cpu| online.contains(cpu)));
        let possible = possible().expect("/sys is there");
        assert!(online.iter().all(|cpu| possible.contains(cpu)));
    }
}
