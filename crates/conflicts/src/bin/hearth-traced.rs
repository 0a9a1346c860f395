//! Runs cases of the conflict checker with marks around their windows, for a memory trace from
//! outside: `hearth-traced FILE`, one case a line as hexadecimal numbers. It is built without the
//! ThreadSanitizer pass; `hearth-bench conflicts --check lackey` runs it under valgrind.

use hearth_conflicts::case::Case;
use hearth_conflicts::commute::Errnos;
use hearth_conflicts::cores::Cores;
use hearth_conflicts::lackey_trace::{LEAN, parse_cases};
use hearth_conflicts::marks::{self, Marking};
use hearth_conflicts::run::{batches, run};
use std::process::ExitCode;

/// The allocator of the program `hearth`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("hearth-traced: give it the file with the cases");
        return ExitCode::from(2);
    };
    match traced(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("hearth-traced: {what}");
            ExitCode::FAILURE
        }
    }
}

fn traced(path: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let cases: Vec<(Case, [Errnos; 2])> = parse_cases(&text)?;
    let cores = Cores::start()?;
    println!("marks {:x}", marks::address());
    let mut each = batches(&cases, LEAN).into_iter();
    each.try_for_each(|batch| run(&cores, &batch, Marking, |_, _| {}))
}
