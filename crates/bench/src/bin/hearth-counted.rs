//! The program `hearth-counted`: what `hearth-bench` counts under valgrind, and nothing else. The
//! tests build it: most of a release build is the optimisation of the whole program.

use hearth_bench::allocations::Counting;
use hearth_bench::cli;
use std::process::ExitCode;

/// The allocator of the program `hearth`, counting.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    hearth::yield_between_operations(true);
    cli::counted::run(&args)
}
