//! Which signals ask a program to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// SIGTERM, SIGINT, and SIGHUP of a terminal that closes: whoever was started with `nohup` outlives
/// his terminal.
pub fn of_an_end() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let outlives = ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0);
    let mut signals = vec![SIGTERM, SIGINT];
    signals.extend((!outlives).then_some(SIGHUP));
    signals
}
