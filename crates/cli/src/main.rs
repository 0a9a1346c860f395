//! The program `hearth`; everything it does is in the library beside it.

use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use std::process::ExitCode;

/// A daemon frees on one thread what another allocated (nodes retired by one core and dropped by
/// the next): mimalloc gives such blocks back to their owner without a lock, where the system's
/// allocator takes the lock of the owner's arena. Version 3 of it, because a page of a thread that
/// is idle goes to who frees in it: of 920 MiB of files that were written on one core and removed
/// on another, 79 stayed with the daemon, and 930 with version 2.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whether nobody has given a standard output. Relaxed: it is set before there is a thread.
static LACKS_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Rust's own start puts `/dev/null` where there is no standard output, and what is printed is lost
/// without an error. So it is looked for before that.
// SAFETY: the loader calls what this section points to, once, and a function is all that is there.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let is_open = rustix::io::fcntl_getfd(rustix::stdio::stdout()).is_ok();
    LACKS_OUTPUT.store(!is_open, Relaxed);
}

fn main() -> ExitCode {
    // A daemon is started as `/proc/self/exe`, which is no name to look for.
    let _ = rustix::thread::set_name(c"hearth");
    hearth_cli::run(std::env::args_os(), collect, LACKS_OUTPUT.load(Relaxed))
}

/// Has the allocator give back what it keeps: what is due by its own delay, or with `all` every
/// page that is free.
fn collect(all: bool) {
    // SAFETY: no pointer; it may be called at any time on any thread that may allocate.
    unsafe { libmimalloc_sys::mi_collect(all) }
}
