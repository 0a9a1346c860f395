//! The conflict checker. `hearth-bench conflicts` builds it with the compiler's ThreadSanitizer
//! pass.

use hearth_bench::pinned::allowed_cores;
use hearth_bench::row::{self, Row};
use hearth_bench::seeds::counted::SHARED_LINES;
use hearth_bench::{record, valgrind};
use hearth_conflicts::cores::Cores;
use hearth_conflicts::fixture::WITH_HEAT;
use hearth_conflicts::matrix::Matrix;
use hearth_conflicts::plan::{Extent, Plan};
use hearth_conflicts::report::PlaceConflicts;
use hearth_conflicts::source::Source;
use hearth_conflicts::verdict::{Sum, by_case};
use hearth_conflicts::{
    allow_list, hot, lackey_check, report, run_plan, self_check, shared_lines, steps,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// The allocator of the program `hearth`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sizes of the directories in which the lines of a lookup are counted.
const FILES: [usize; 3] = [2_000, 20_000, 200_000];

const USAGE: &str = "\
conflicts [--quick | --sample N] [--only PART] [--jobs N] [--verbose] [--json FILE] [--html FILE] \
[--svg FILE] [--record] [--heat] [--check lackey [--every N]] [--self-check]";

/// The lackey check takes one of this many commuting cases, and more of those in conflict.
const EVERY: usize = 18;

#[derive(Default)]
struct Options {
    is_quick: bool,
    sample: Option<usize>,
    is_record: bool,
    is_verbose: bool,
    only: Option<String>,
    json: Option<PathBuf>,
    html: Option<PathBuf>,
    svg: Option<PathBuf>,
    /// The program to trace.
    traced: Option<PathBuf>,
    is_lackey: bool,
    every: Option<usize>,
    /// Worker processes.
    jobs: Option<usize>,
    is_self_check: bool,
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
            "--traced" => options.traced = Some(file()?.into()),
            "--check" => match &*file()? {
                "lackey" => options.is_lackey = true,
                other => return Err(format!("unknown check '{other}': there is lackey")),
            },
            "--sample" => options.sample = Some(number(&file()?)?),
            "--every" => options.every = Some(number(&file()?)?),
            "--jobs" => options.jobs = Some(number(&file()?)?),
            "--record" => options.is_record = true,
            "--self-check" => options.is_self_check = true,
            // Relaxed: no worker yet.
            "--heat" => WITH_HEAT.store(true, Relaxed),
            other => return Err(format!("unknown argument '{other}'; {USAGE}")),
        }
    }
    Ok(options)
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or(format!("'{text}' is no number from 1 up"))
}

impl Options {
    fn extent(&self) -> Extent {
        match (self.is_quick, self.sample) {
            (true, _) => Extent::QUICK,
            (false, Some(cases)) => Extent::sample(cases),
            (false, None) => Extent::WHOLE,
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let (start, commit) = (Instant::now(), record::commit());
    self_check::check(&Cores::start()?)?;
    let rules = allow_list::parse(&read(&page())?)
        .map_err(|what| format!("{}: {what}", page().display()))?;
    let mut source = Source::of_this_program()?;
    let workers = options.jobs.unwrap_or(allowed_cores().len());
    self_check::check_run(workers, &rules, &mut source)?;
    if options.is_self_check {
        println!("the runner sees what it is there to see");
        return Ok(());
    }
    if options.is_lackey {
        return run_lackey_check(options, workers);
    }
    let mut ask = |extent: Extent| {
        let plan = Plan::new(extent, options.only.as_deref());
        if plan.cases.is_empty() {
            return Err("no case that commutes has this in its text".to_owned());
        }
        let verdicts = run_plan::verdicts(workers, &plan, extent, &rules, &mut source)?;
        Ok((plan.tally, verdicts))
    };
    let extent = options.extent();
    // First, as in a quick run: a run compared with it has the same memory layout.
    let quick = match options.is_record {
        true => Some(Sum::of(&by_case(&ask(Extent::QUICK)?.1))),
        false => None,
    };
    let (tally, verdicts) = ask(extent)?;
    let mut rows = report::rows(tally, &verdicts);
    let cases = extent.cases as f64;
    rows.push(report::row("all", "sampled_one_of", cases, "1"));
    rows.extend(quick.iter().flat_map(|&sum| report::shares("quick", sum)));
    let costs = hot::measure(&Cores::start()?);
    rows.extend(costs.rows());
    let matrix = Matrix::of(&by_case(&verdicts));
    let shown = if options.is_verbose { usize::MAX } else { 4 };
    let places = report::places(&verdicts, &mut source);
    let summary = format!(
        "{}\n{}\n{}",
        report::sums(tally, &verdicts),
        costs.text(),
        matrix.text(),
    );
    let text = format!("{summary}{}", report::conflicts(&places, shown));
    println!("{text}\n{:.1} s", start.elapsed().as_secs_f64());
    for files in FILES {
        let steps = steps::count(files)?;
        let (lines, most) = (steps.lines, steps.most);
        println!("stat among {files}: {lines:.2} cache lines, {most} at most");
        rows.extend(steps.rows());
    }
    if options.is_record {
        let page = report::page(extent, &commit, &summary, &places);
        keep(extent, &commit, &rows, &places)?;
        write(&record_folder().join("conflicts.md"), &page)?;
        write(&record_folder().join("conflicts.svg"), &matrix.svg())?;
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
    costs.check()
}

/// Writes the data that is committed: the rows, and every place with its cases.
fn keep(
    extent: Extent,
    commit: &str,
    rows: &[Row],
    places: &[PlaceConflicts],
) -> Result<(), String> {
    let command = report::command(extent);
    let lines: String = rows.iter().map(|row| row.json() + "\n").collect();
    record::keep_rows(
        &record_folder().join("conflicts.json"),
        &command,
        commit,
        &lines,
    )?;
    let lines: String = places.iter().map(|place| place.json() + "\n").collect();
    let file = record_folder().join("conflicts-places.jsonl");
    record::keep_rows(&file, &command, commit, &lines)
}

fn record_folder() -> PathBuf {
    workspace().join("docs/benchmarks")
}

/// Compares the recorder's verdicts with those of a trace of every load and store.
fn run_lackey_check(options: &Options, workers: usize) -> Result<(), String> {
    // The recorder takes minutes, and is useless without valgrind.
    valgrind::look()?;
    let program = options.traced.as_ref();
    let program = program.ok_or("--check lackey is a verb of `cargo xtask conflicts`")?;
    let start = Instant::now();
    let plan = Plan::new(Extent::WHOLE, options.only.as_deref());
    let every = options.every.unwrap_or(EVERY);
    let agreement = lackey_check::compare(workers, program, &plan.cases, every)?;
    println!("{}", agreement.text(plan.tally.commute));
    println!("{:.1} s", start.elapsed().as_secs_f64());
    if let Some(path) = &options.json {
        row::write_json(path, &agreement.rows())?;
    }
    match agreement.share() >= lackey_check::LEAST {
        true => Ok(()),
        false => Err(format!(
            "the two agree on less than {:.1} %",
            lackey_check::LEAST * 100.0
        )),
    }
}

/// Returns the page that holds the allow-list.
fn page() -> PathBuf {
    workspace().join("docs/design/conflicts.md")
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
