//! CPUs: which may exist, which are there, and staying on one.

use std::fs;

/// Every CPU that may ever be there; the kernel wants a queue for each.
pub(crate) fn possible() -> Vec<usize> {
    list("/sys/devices/system/cpu/possible")
}

/// The CPUs that are there now.
pub(crate) fn online() -> Vec<usize> {
    list("/sys/devices/system/cpu/online")
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

/// Nanoseconds that [`take_short_turns`] asks for: the shortest that the kernel grants.
const TURN: u64 = 100_000;

/// Has the kernel give the calling thread the processor for shorter turns and sooner (a custom
/// slice, Linux 6.12). A request takes some microseconds, and who waits for it shares the processor
/// with programs that would compute for milliseconds. Its share stays what it is. Elsewhere nothing
/// changes.
pub(crate) fn take_short_turns() {
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: a sched_attr is plain numbers, for which zeros are valid; both calls get the address
    // of one that outlives them and, in the third argument or inside, its true size.
    unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) == 0
            && attr.sched_policy == libc::SCHED_OTHER as u32
        {
            attr.sched_runtime = TURN;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0);
        }
    }
}

fn list(path: &str) -> Vec<usize> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let cpus = parse(text.trim());
    if cpus.is_empty() { vec![0] } else { cpus }
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

    /// A kernel that knows no turns of one's own leaves them as they were.
    #[test]
    fn a_thread_that_takes_short_turns_stays_what_it_was_otherwise() {
        let attr = || {
            // SAFETY: as in `take_short_turns`.
            unsafe {
                let mut attr: libc::sched_attr = std::mem::zeroed();
                let size = size_of::<libc::sched_attr>();
                let done = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0);
                assert_eq!(done, 0);
                (attr.sched_policy, attr.sched_nice, attr.sched_runtime)
            }
        };
        std::thread::spawn(move || {
            let (policy, nice, turn) = attr();
            take_short_turns();
            let now = attr();
            assert_eq!((now.0, now.1), (policy, nice));
            assert!([turn, TURN].contains(&now.2), "{now:?}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn lists_of_cpus_have_ranges_and_single_numbers() {
        assert_eq!(parse("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("0"), [0]);
        assert!(parse("").is_empty());
    }
}
