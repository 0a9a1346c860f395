//! The program `hearth-live`: what `hearth-bench` has to measure with an allocator that counts.

use hearth_bench::allocations::Counting;
use hearth_bench::suites::freeing;
use std::process::ExitCode;

/// The allocator of the program `hearth`, counting.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc, true> = Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((verb, rest)) if verb == "garbage" => freeing::run_garbage(rest),
        _ => Err("a part of hearth-bench; the verb is garbage".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("hearth-live: {what}");
            ExitCode::FAILURE
        }
    }
}
