//! How much the kernel keeps of what programs have written and this daemon does not have yet.
//!
//! With a writeback cache the kernel passes pages on in one queue, the oldest first, and an fsync
//! of another file waits behind all of them. Its usual bound for a mount is a hundredth of what may
//! be dirty on the machine, which grows with its memory: 43 MiB on one of 24 GiB.

use std::fs;

/// The bound, in bytes. Some requests of the largest size, so that the kernel goes on while the
/// daemon handles one.
pub(super) const MOST: u64 = 8 << 20;

/// Lowers the bound of mount `number` to [`MOST`]. Without the right, or on a kernel that has no
/// such file (before Linux 6.2), it stays.
pub(super) fn bound(number: u32) {
    let path = format!("/sys/class/bdi/0:{number}/max_bytes");
    let now = fs::read_to_string(&path).map(|text| text.trim().parse::<u64>());
    if let Ok(Ok(now)) = now
        && now > MOST
    {
        // Only latencies are better with it.
        let _ = fs::write(&path, MOST.to_string());
    }
}
