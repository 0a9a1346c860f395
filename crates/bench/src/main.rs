//! The program `hearth-bench`.

use std::process::ExitCode;

/// The allocator of the program `hearth`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = args.split_first().map_or(("", &[][..]), |(verb, rest)| (&**verb, rest));
    let done = match verb {
        "conflicts" => hearth_bench::conflicts::instrumented::run(rest),
        _ => {
            eprintln!("usage: hearth-bench conflicts [--quick] [--json FILE]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("hearth-bench {verb}: {what}");
            ExitCode::FAILURE
        }
    }
}
