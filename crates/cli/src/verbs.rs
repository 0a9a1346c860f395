//! From arguments to a verb, and from its outcome to an exit status.

use crate::args::{Args, Verb};
use crate::failure::Failure;
use crate::{
    allocator, ask, doctor, events, fstab, generate, heat, inquiry, locks, metrics, mount, output,
    patience, quota, run as run_in, sched, sloppy, stats, store, sync, top, tune, umount, which,
};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs the program with its arguments, the first of which is its own name. `collect` has the
/// allocator of the program give memory back, all that is free if that is asked. `lacks_output`
/// says that the program was started without a standard output.
pub fn run(
    args: impl Iterator<Item = OsString>,
    collect: fn(bool),
    lacks_output: bool,
) -> ExitCode {
    allocator::collects_by(collect);
    patience::asks_by(|place| inquiry::ask(place).is_some());
    output::set_lacking(lacks_output);
    let args: Vec<OsString> = args.collect();
    let helper = args.first().is_some_and(fstab::is_helper);
    let is_fsck = args.get(1).is_some_and(|verb| verb == "fsck");
    let done = if helper {
        match fstab::helper(args.into_iter().skip(1)) {
            Ok(Some(args)) => mount::run(&sloppy::understood(args)),
            Ok(None) => Ok(()),
            Err(failure) => Err(failure),
        }
    } else {
        let typed = typed_verb(&args);
        match Args::try_parse_from(args) {
            Ok(args) => verb(args.verb),
            Err(error) => not_understood(&error, &typed).map_err(|failure| Failure {
                status: if is_fsck {
                    store::FSCK_USAGE
                } else {
                    failure.status
                },
                ..failure
            }),
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.line.is_empty() {
                output::say(format_args!("{}", failure.line));
            }
            ExitCode::from(failure.status)
        }
    }
}

fn verb(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Mount(args) => mount::run(&args),
        Verb::Umount(args) => umount::run(&args),
        Verb::Inquire => {
            patience::end();
            inquiry::answer()
        }
        Verb::Run(args) => run_in::run(&args),
        Verb::RunServer(args) => run_in::server(&args),
        Verb::RunInit(args) => run_in::init(&args),
        Verb::Sync(args) => sync::run(&args),
        Verb::Mkfs(args) => store::mkfs(&args),
        Verb::Info(args) => store::info(&args),
        Verb::Fsck(args) => store::fsck(&args),
        Verb::Dump(args) => store::dump(&args),
        Verb::Load(args) => store::load(&args),
        Verb::Passphrase(args) => store::passphrase(&args),
        Verb::Stats(args) => stats::run(&args),
        Verb::Metrics(args) => metrics::run(&args),
        Verb::MetricsWorker(args) => metrics::work(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Locks(args) => locks::run(&args),
        Verb::Events(args) => events::run(&args),
        Verb::Ask { mount, words } => output::print(&ask::ask(&mount, &words.join(" "))?),
        Verb::Quota(args) => quota::run(&args),
        Verb::Heat(args) => heat::run(&args),
        Verb::Sched(args) => sched::run(&args),
        Verb::Tune(args) => tune::run(&args),
        Verb::Doctor { json } => doctor::run(json),
        Verb::Completions { shell } => generate::completions(shell),
        Verb::Man { directory } => generate::man(&directory),
        Verb::Version { json } => version(json),
    }
}

/// Help and version are answers; anything else becomes one line, which points to the help of what
/// was `typed`.
fn not_understood(error: &clap::Error, typed: &str) -> Result<(), Failure> {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print(&if output::has_colour() {
                text.ansi().to_string()
            } else {
                text.to_string()
            })
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Nobody may be there to read it.
            let _ = write!(std::io::stderr(), "{text}");
            Err(Failure::usage("no verb given; see 'hearth --help'"))
        }
        _ => {
            let text = text.to_string();
            let first: Vec<&str> = text
                .lines()
                .map(str::trim)
                .take_while(|line| !line.is_empty())
                .collect();
            let line = first.join(" ");
            let line = line.strip_prefix("error: ").unwrap_or(&line);
            let mut lines = text.lines().map(str::trim);
            let tip = lines.find(|line| line.starts_with("tip: ") && line.contains("similar"));
            // `hearth mount` makes one.
            let lacks_mount = error.kind() == ErrorKind::MissingRequiredArgument
                && line.contains("<MOUNT")
                && !text.contains("hearth mount [");
            let more = match tip {
                Some(tip) => format!("; {tip}"),
                None if lacks_mount => format!("; {}", which::hint()),
                None => String::new(),
            };
            Err(Failure::usage(format!(
                "{line}{more}; see '{typed} --help'"
            )))
        }
    }
}

/// The program and the verb that was typed, with the verb below that, if it has such.
fn typed_verb(args: &[OsString]) -> String {
    let program = Args::command();
    let (mut verb, mut words) = (&program, vec!["hearth"]);
    for arg in args.iter().skip(1) {
        match arg.to_str().and_then(|word| verb.find_subcommand(word)) {
            Some(below) => (verb, words) = (below, [words, vec![below.get_name()]].concat()),
            None => break,
        }
    }
    words.join(" ")
}

fn version(json: bool) -> Result<(), Failure> {
    let number = env!("CARGO_PKG_VERSION");
    output::print(&if json {
        format!("{}\n", serde_json::json!({ "hearth": number }))
    } else {
        format!("hearth {number}\n")
    })
}
