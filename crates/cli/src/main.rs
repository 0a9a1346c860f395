//! The program `hearth`; everything it does is in the library beside it.

use std::process::ExitCode;

/// A daemon frees on one thread what another allocated (nodes retired by one core and dropped by
/// the next): mimalloc gives such blocks back to their owner without a lock, where the system's
/// allocator takes the lock of the owner's arena.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hearth_cli::run(std::env::args_os())
}
