//! The verbs of `hearth-bench`.

pub mod counted;

use crate::options::Options;
use crate::report::Report;
use crate::suites::{basic, freeing, latency, locks, memory, quota, requests};
use crate::{heat, host, instrumented, mounted, record, sched, seeds, store};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// A verb that measures. Its parts are what `--only` names; the only part of some is the whole, and
/// `--only` names workloads.
struct Suite {
    verb: &'static str,
    about: &'static str,
    parts: &'static [(&'static str, Part)],
    /// Its results are committed with `--record`.
    is_recorded: bool,
}

/// Measures, and puts rows and asks into the report.
type Part = fn(&Options, &mut Report) -> Result<(), String>;

/// A verb by which this program runs itself, in another process or under valgrind.
type InnerVerb = (&'static str, fn(&[String]) -> Result<(), String>);

/// The name of a part that is a whole suite.
const WHOLE: &str = "";

const SUITES: [Suite; 13] = [
    Suite {
        verb: "lib",
        about: "the library in process against system calls on tmpfs",
        parts: &[(WHOLE, basic::library)],
        is_recorded: false,
    },
    Suite {
        verb: "mount",
        about: "Hearth mounted, over both transports, against tmpfs, ext4 and a peer",
        parts: &[(WHOLE, basic::mounts)],
        is_recorded: false,
    },
    Suite {
        verb: "locks",
        about: "what the lock profile costs, on, off and compiled out",
        parts: &[(WHOLE, locks::run)],
        is_recorded: true,
    },
    Suite {
        verb: "memory",
        about: "bytes per file, lookups and listings of a million files",
        parts: &[(WHOLE, memory::run)],
        is_recorded: true,
    },
    Suite {
        verb: "seeds",
        about: "the tests of the seed patch sets on the library, a mount, tmpfs, ext4 or any\n\
                directory (--target NAME or DIR, several by commas; --no-count)",
        parts: &[(WHOLE, seeds::run)],
        is_recorded: true,
    },
    Suite {
        verb: "freeing",
        about: "the memory that waits beside readers, since freeing is deferred",
        parts: &[(WHOLE, freeing::run)],
        is_recorded: true,
    },
    Suite {
        verb: "latency",
        about: "how long a stat takes beside 10,000 renames a second",
        parts: &[(WHOLE, latency::run)],
        is_recorded: true,
    },
    Suite {
        verb: "requests",
        about: "many small calls on tmpfs, on a FUSE server that does nothing, and on mounts",
        parts: &[(WHOLE, requests::run)],
        is_recorded: false,
    },
    Suite {
        verb: "sched",
        about: "the scheduler: yields, SDET, chat, neighbours, work in the background",
        parts: &[
            ("yield", sched::yields::run),
            ("yield-instructions", sched::yields::counted::check),
            ("sdet", sched::sdet::run),
            ("chat", sched::chat::run),
            ("neighbour", sched::neighbour::run),
            ("background", sched::background::run),
        ],
        is_recorded: false,
    },
    Suite {
        verb: "quota",
        about: "quotas on against off: the library, far from the limits and near; fs_mark on\n\
                mounts",
        parts: &[
            ("library", quota::library),
            ("instructions", quota::instructions),
            ("mount", quota::mounts),
        ],
        is_recorded: false,
    },
    Suite {
        verb: "store",
        about: "volumes on a disk beside ext4, JuiceFS and memory (--target DIR: on its disk)",
        parts: &[
            ("jobs", store::cheap),
            ("slow", store::slow),
            ("space", store::space),
            ("library", store::library),
            ("files", store::files),
        ],
        is_recorded: false,
    },
    Suite {
        verb: "host",
        about: "a directory that is there: directly, through Hearth, in hearth run, and through\n\
                bindfs, fuse-overlayfs and mergerfs",
        parts: &[(WHOLE, host::run)],
        is_recorded: false,
    },
    Suite {
        verb: "heat",
        about: "what heat costs, on against off: fs_mark, FFSB, compilebench and others",
        parts: &[
            ("fs_mark", heat::files),
            ("fs_mark-mount", heat::files_on_a_mount),
            ("ffsb", heat::profiles),
            ("compilebench", heat::build),
            ("file-ops", heat::plain),
            ("thread_perf", heat::threads_and_processes),
            ("rows", heat::row_instructions),
            ("instructions", heat::instructions),
        ],
        is_recorded: false,
    },
];

const INNER: [InnerVerb; 12] = [
    ("conflicts", instrumented::run),
    (locks::WORK, locks::run_work),
    (memory::FILL, memory::run_fill),
    (quota::LOOPS, |_| quota::run_loops()),
    (requests::DIRECT, requests::run_direct),
    (heat::LOOPS, heat::run_loops),
    (heat::ROW, heat::run_row),
    (sched::yields::counted::LOOPS, |_| {
        sched::yields::counted::run_loops()
    }),
    (seeds::thread_perf::CHILD, seeds::thread_perf::run_child),
    (seeds::counted::LOOPS, seeds::counted::run_loops),
    (store::MAKE, store::run_make),
    (store::OPEN, store::run_open),
];

/// Runs a verb with its arguments.
pub fn run(args: &[String]) -> ExitCode {
    let (verb, rest) = args
        .split_first()
        .map_or(("", &[][..]), |(verb, rest)| (&**verb, rest));
    if verb == seeds::counted::BUILD {
        return finish(verb, instrumented::build().map(drop));
    }
    if let Some((_, inner)) = INNER.iter().find(|(name, _)| *name == verb) {
        return finish(verb, inner(rest));
    }
    let Some(suite) = SUITES.iter().find(|suite| suite.verb == verb) else {
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    if suite.is_recorded && rest.iter().any(|arg| arg == record::RECORD) {
        return finish(verb, record::run(verb, rest));
    }
    match Options::parse(verb, rest) {
        Ok(options) => {
            if ["seeds", "heat"].contains(&verb) {
                keep_memory();
            }
            ready_to_measure();
            finish(verb, suite.run(options))
        }
        Err(what) => {
            eprintln!("hearth-bench {verb}: {what}");
            ExitCode::from(2)
        }
    }
}

impl Suite {
    /// Runs the wanted parts, prints what they must show, and writes the rows.
    fn run(&self, options: Options) -> Result<(), String> {
        let names: Vec<&str> = self.parts.iter().map(|(name, _)| *name).collect();
        let is_whole = names == [WHOLE];
        if !is_whole {
            options.check_part(&names)?;
        }
        let mut report = Report::new(self.verb, options.clone());
        for (name, part) in self.parts {
            if is_whole || options.wants_part(name) {
                let named = |what| {
                    if is_whole {
                        what
                    } else {
                        format!("{name}: {what}")
                    }
                };
                part(&options, &mut report).map_err(named)?;
                // After each part: what comes later may be cut short.
                report.write()?;
            }
        }
        heat::summary(&report);
        report.finish()
    }
}

fn usage() -> String {
    let mut text =
        "hearth-bench VERB [--quick] [--json FILE] [--only NAME] [--rounds N]\n".to_owned();
    let mut line = |verb: &str, about: &str, is_recorded| {
        let record = if is_recorded {
            "; --record keeps it"
        } else {
            ""
        };
        let about = about.replace('\n', &format!("\n{:13}", ""));
        text += &format!("  {verb:10} {about}{record}\n");
    };
    for suite in &SUITES {
        line(suite.verb, suite.about, suite.is_recorded);
    }
    line(
        "conflicts",
        "which commuting operations share a cache line (--verbose)",
        false,
    );
    text
}

/// Begins again with an allocator that keeps the memory it has, as a kernel keeps its free pages:
/// else every run on the library pays for memory that the run before gave back.
fn keep_memory() {
    const SETTING: &str = "MIMALLOC_PURGE_DELAY";
    if let (None, Ok(program)) = (std::env::var_os(SETTING), std::env::current_exe()) {
        let mut again = Command::new(program);
        // It comes back only if it could not begin.
        let _ = again
            .args(std::env::args_os().skip(1))
            .env(SETTING, "-1")
            .exec();
    }
}

fn ready_to_measure() {
    // Others use the machine as well. A refusal changes nothing.
    let _ = rustix::process::setpriority_process(None, -20);
    mounted::watch();
}

fn finish(verb: &str, done: Result<(), String>) -> ExitCode {
    mounted::let_watch_end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{verb}: {what}");
            ExitCode::FAILURE
        }
    }
}
