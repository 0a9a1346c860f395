//! The program `hearth-bench`.

use hearth_bench::allocations::Counting;
use hearth_bench::cli;
use std::process::ExitCode;

/// The allocator of the program `hearth`, counting.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // As the program `hearth` does.
    hearth::yield_between_operations(true);
    cli::run(&args)
}
