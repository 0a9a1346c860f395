//! A system call that `rustix` does not have. The only home of `unsafe` in this crate.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Has the kernel begin to write what is dirty in `range` of a file, and waits for none of it:
/// `sync_file_range(2)` with `SYNC_FILE_RANGE_WRITE` alone. Nothing is durable by it. An error is
/// left out because the next sync of the same descriptor has it: only the flags that wait take it.
pub fn start_writeback(file: &File, range: Range<u64>) {
    let (Ok(at), Ok(len)) = (
        i64::try_from(range.start),
        i64::try_from(range.end.saturating_sub(range.start)),
    ) else {
        return;
    };
    // SAFETY: the call takes numbers alone, and the descriptor is open for as long as `file`.
    unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, libc::SYNC_FILE_RANGE_WRITE) };
}
