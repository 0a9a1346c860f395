//! The program `hearth`; everything it does is in the library beside it.

use std::process::ExitCode;

/// A daemon frees on one thread what another allocated (nodes retired by one core and dropped by
/// the next): mimalloc gives such blocks back to their owner without a lock, where the system's
/// allocator takes the lock of the owner's arena. Version 3 of it, because a page of a thread that
/// is idle goes to who frees in it: of 920 MiB of files that were written on one core and removed
/// on another, 79 stayed with the daemon, and 930 with version 2.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A daemon is started as `/proc/self/exe`, which is no name to look for.
    let _ = rustix::thread::set_name(c"hearth");
    hearth_cli::run(std::env::args_os(), collect)
}

/// Has the allocator give back what it keeps: what is due by its own delay, or with `all` every
/// page that is free.
fn collect(all: bool) {
    // SAFETY: no pointer; it may be called at any time on any thread that may allocate.
    unsafe { libmimalloc_sys::mi_collect(all) }
}
