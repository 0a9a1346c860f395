//! The conflict runner. Built with the compiler's ThreadSanitizer pass by `hearth-bench conflicts`.

use hearth_bench::conflicts::case::Case;
use hearth_bench::conflicts::run::{Cores, commuting};
use hearth_bench::conflicts::source::Source;
use hearth_bench::conflicts::{report, self_check};
use hearth_bench::row;
use hearth_bench::seeds::counted::{SHARED_LINES, shared_lines};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// The allocator of the program `hearth`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("hearth-conflicts: {what}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut json: Option<PathBuf> = None;
    let (mut quick, mut verbose) = (false, false);
    let mut only: Option<String> = None;
    let mut args = std::env::args().skip(1);
    if std::env::args().nth(1).as_deref() == Some(SHARED_LINES) {
        return shared_lines::run(&args.skip(1).collect::<Vec<_>>());
    }
    while let Some(arg) = args.next() {
        match &*arg {
            "--quick" => quick = true,
            "--verbose" => verbose = true,
            "--json" => json = Some(args.next().ok_or("--json needs a file")?.into()),
            "--only" => only = Some(args.next().ok_or("--only needs a part of a case's name")?),
            other => return Err(format!("unknown argument '{other}'")),
        }
    }
    let start = Instant::now();
    let cores = Cores::start()?;
    self_check::check(&cores)?;
    let mut cases = Case::all(quick);
    if let Some(part) = &only {
        cases.retain(|case| case.to_string().contains(&**part));
    }
    let tried = cases.len();
    let cases: Vec<Case> = cases.into_iter().filter_map(commuting).collect();
    println!(
        "{tried} cases, {} commute ({:.1} s)",
        cases.len(),
        start.elapsed().as_secs_f64()
    );
    let verdicts: Vec<_> = cases.into_iter().map(|case| cores.measure(case)).collect();
    let mut source = Source::of_this_program()?;
    println!("{}", report::text(&verdicts, &mut source, verbose));
    println!("{:.1} s", start.elapsed().as_secs_f64());
    match json {
        Some(path) => row::write_json(&path, &report::rows(&verdicts)),
        None => Ok(()),
    }
}
