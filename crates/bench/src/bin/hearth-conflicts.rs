//! The conflict runner. Built with the compiler's ThreadSanitizer pass by `hearth-bench conflicts`.

use hearth_bench::conflicts::matrix::Matrix;
use hearth_bench::conflicts::plan::Plan;
use hearth_bench::conflicts::source::Source;
use hearth_bench::conflicts::window::Cores;
use hearth_bench::conflicts::{allow_list, judge, report, self_check, steps};
use hearth_bench::row;
use hearth_bench::seeds::counted::{SHARED_LINES, shared_lines};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The allocator of the program `hearth`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Directories in which the lines of a lookup are counted.
const FILES: [usize; 3] = [2_000, 20_000, 200_000];

const USAGE: &str = "\
conflicts [--quick] [--only PART] [--verbose] [--json FILE] [--html FILE] [--svg FILE]";

#[derive(Default)]
struct Options {
    is_quick: bool,
    is_verbose: bool,
    only: Option<String>,
    json: Option<PathBuf>,
    html: Option<PathBuf>,
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((verb, rest)) if verb == SHARED_LINES => shared_lines::run(rest),
        _ => options().and_then(|options| run(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("hearth-conflicts: {what}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut file = || args.next().ok_or(format!("{arg} needs a value; {USAGE}"));
        match &*arg {
            "--quick" => options.is_quick = true,
            "--verbose" => options.is_verbose = true,
            "--only" => options.only = Some(file()?),
            "--json" => options.json = Some(file()?.into()),
            "--html" => options.html = Some(file()?.into()),
            "--svg" => options.svg = Some(file()?.into()),
            other => return Err(format!("unknown argument '{other}'; {USAGE}")),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<(), String> {
    let start = Instant::now();
    let cores = Cores::start()?;
    self_check::check(&cores)?;
    let rules = allow_list::parse(&read(&page())?)
        .map_err(|what| format!("{}: {what}", page().display()))?;
    let plan = Plan::new(options.is_quick, options.only.as_deref());
    if plan.cases.is_empty() {
        return Err("no case that commutes has this in its text; see --verbose".into());
    }
    let mut source = Source::of_this_program()?;
    let verdicts = judge::judge(&cores, &plan, options.is_quick, &rules, &mut source)?;
    let matrix = Matrix::of(&verdicts);
    let shown = if options.is_verbose { usize::MAX } else { 4 };
    let text = format!(
        "{}\n{}{}",
        report::sums(plan.tally, &verdicts),
        matrix.text(),
        report::conflicts(&verdicts, &mut source, shown)
    );
    println!("{text}\n{:.1} s", start.elapsed().as_secs_f64());
    let mut rows = report::rows(plan.tally, &verdicts);
    for files in FILES {
        let steps = steps::count(files)?;
        let (lines, most) = (steps.lines, steps.most);
        println!("stat among {files}: {lines:.2} cache lines, {most} at most");
        rows.extend(steps.rows());
    }
    if let Some(path) = &options.json {
        row::write_json(path, &rows)?;
    }
    if let Some(path) = &options.html {
        write(path, &matrix.html(&text))?;
    }
    if let Some(path) = &options.svg {
        write(path, &matrix.svg())?;
    }
    Ok(())
}

/// The page that holds the allow-list.
fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/conflicts.md")
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
