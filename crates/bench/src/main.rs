//! The program `hearth-bench`.

use hearth_bench::allocations::Counting;
use hearth_bench::options::Options;
use hearth_bench::{
    freeing, heat_bench, instructions, instrumented, latency, library_bench, lock_price, memory,
    mount_bench, mounted, quota_bench, record, sched_bench, seeds,
};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const USAGE: &str = "\
hearth-bench VERB [--quick] [--json FILE] [--only NAME] [--rounds N]

  lib        the library in process against system calls on tmpfs
  mount      Hearth mounted, over both transports, against tmpfs, ext4 and a peer
  locks      what the lock profile costs, on, off and compiled out; --record keeps it
  memory     bytes per file, lookups and listings of a million files; --record keeps it
  seeds      the tests of the seed patch sets on the library, a mount, tmpfs, ext4 or any
             directory (--target NAME or DIR, several by commas; --no-count); --record keeps
             what it prints, its rows and its pictures in docs/benchmarks
  freeing    price of deferred freeing, and the memory that waits beside readers; --record keeps it
  latency    how long a stat takes beside 10,000 renames a second; --record keeps it
  instructions [--record]  instructions of a warm operation against those recorded
  sched      the scheduler: yields, SDET (--rounds N), chat, neighbours, work in the background
  quota      quotas on against off: the library, far from the limits and near; fs_mark on mounts
  heat       what heat costs, on against off: fs_mark, FFSB, compilebench and others
  conflicts  which commuting operations share a cache line (--verbose lists every case)
";

/// Verbs whose results are committed: what they print and their rows.
const RECORDED: [&str; 5] = ["seeds", "locks", "memory", "freeing", "latency"];

/// The allocator of the program `hearth`, counting.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = args
        .split_first()
        .map_or(("", &[][..]), |(verb, rest)| (&**verb, rest));
    if verb == "conflicts" {
        return finish(verb, instrumented::run(rest));
    }
    let apart = match verb {
        lock_price::WORK => Some(lock_price::run_work(rest)),
        memory::FILL => Some(memory::run_fill(rest)),
        freeing::LOOP => Some(freeing::run_loop()),
        quota_bench::LOOPS => Some(quota_bench::run_loops()),
        heat_bench::LOOPS => Some(heat_bench::run_loops(rest)),
        heat_bench::ROW => Some(heat_bench::run_row(rest)),
        sched_bench::yields::counted::LOOPS => Some(sched_bench::yields::counted::run_loops()),
        instructions::LOOPS => Some(instructions::loops::run()),
        "instructions" => Some(instructions::run(rest)),
        seeds::thread_perf::CHILD => Some(seeds::thread_perf::run_child(rest)),
        seeds::counted::BUILD => Some(instrumented::build().map(drop)),
        seeds::counted::LOOPS => Some(seeds::counted::run_loops(rest)),
        _ => None,
    };
    if let Some(done) = apart {
        return finish(verb, done);
    }
    if RECORDED.contains(&verb) && rest.iter().any(|arg| arg == record::RECORD) {
        return finish(verb, record::run(verb, rest));
    }
    if ["seeds", "heat"].contains(&verb) {
        keep_memory();
    }
    if verb == "seeds" {
        ready_to_measure();
        return finish(verb, seeds::run(rest));
    }
    let run = match verb {
        "lib" => library_bench::run,
        "mount" => mount_bench::run,
        "locks" => lock_price::run,
        "memory" => memory::run,
        "sched" => sched_bench::run,
        "freeing" => freeing::run,
        "latency" => latency::run,
        "quota" => quota_bench::run,
        "heat" => heat_bench::run,
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match Options::parse(rest) {
        Ok(options) => {
            ready_to_measure();
            finish(verb, run(&options))
        }
        Err(what) => {
            eprint!("hearth-bench {verb}: {what}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Begins again with an allocator that keeps the memory it has, as a kernel keeps its free pages:
/// else every run on the library pays for memory that the run before gave back.
fn keep_memory() {
    const SETTING: &str = "MIMALLOC_PURGE_DELAY";
    if let (None, Ok(program)) = (std::env::var_os(SETTING), std::env::current_exe()) {
        // It comes back only if it could not begin.
        let _ = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(SETTING, "-1")
            .exec();
    }
}

fn ready_to_measure() {
    // Others use the machine as well. SAFETY: no pointer; a refusal changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    mounted::watch();
}

fn finish(verb: &str, done: Result<(), String>) -> ExitCode {
    mounted::let_watch_end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("hearth-bench {verb}: {what}");
            ExitCode::FAILURE
        }
    }
}
