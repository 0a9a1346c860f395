//! Which signals ask a program to end.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// SIGTERM, SIGINT, and SIGHUP of a terminal that closes: whoever was started with `nohup` outlives
/// his terminal.
pub fn of_an_end() -> Vec<i32> {
    let mut signals = vec![SIGTERM, SIGINT];
    signals.extend((!ignored()(SIGHUP)).then_some(SIGHUP));
    signals
}

/// Tells what this process ignores: before it has handlers, what it was started to ignore.
pub fn ignored() -> impl Fn(i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    move |signal| ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
