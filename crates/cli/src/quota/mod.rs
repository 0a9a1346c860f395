//! `hearth quota`: what was typed becomes a question to `.hearth/ask`, the answer text or JSON.

mod args;
mod change;
mod events;
mod log;
mod picked;
mod record;
mod report;
pub mod who;

pub use args::QuotaArgs;
pub use log::EventLog;
pub use record::{Record, Report, Usage};
pub use who::{id_of, learn_names_in, with_names};

use crate::ask::ask;
use crate::failure::Failure;
use crate::printable::printable_path;
use crate::which::{mount_of, typed_or_only};
use crate::{mounts, output, wrong_place};
use args::{CheckArgs, GetArgs, ProjectArgs, QuotaVerb, ReportArgs, Shown};
use hearth::{QuotaId, QuotaKind};
use record::object;
use report::Form;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use who::{Who, mount_above, with_names_and_ids};

/// Runs one of the verbs.
pub fn run(args: &QuotaArgs) -> Result<(), Failure> {
    match &args.verb {
        QuotaVerb::Set(args) => change::set(args),
        QuotaVerb::Report(args) => report(args),
        QuotaVerb::Get(args) => get(args),
        QuotaVerb::Project(args) => project(args),
        QuotaVerb::Grace(args) => change::grace(args),
        QuotaVerb::Default(args) => change::default(args),
        QuotaVerb::On(args) => change::on(args),
        QuotaVerb::Off(args) => change::off(args),
        QuotaVerb::Check(args) => check(args),
        QuotaVerb::Events(args) => events::run(args),
    }
}

/// Use and limits of everybody that are the caller's to see.
///
/// # Errors
/// The volume's own.
pub fn everybody(mount: &Path) -> Result<Report, Failure> {
    let answer = picked::kept(question(mount, &["report".to_owned()])?, mount)?;
    Report::parse(&answer, mount)
}

/// Asks about quotas; ids in a refusal get their names beside them.
fn question(mount: &Path, words: &[String]) -> Result<String, Failure> {
    ask(mount, &format!("quota {}", words.join(" "))).map_err(|failure| Failure {
        line: with_names_and_ids(&failure.line),
        ..failure
    })
}

fn report(args: &ReportArgs) -> Result<(), Failure> {
    let all = [
        QuotaKind::Volume,
        QuotaKind::User,
        QuotaKind::Group,
        QuotaKind::Project,
    ];
    let asked = [false, args.user, args.group, args.project];
    let wanted: Vec<QuotaKind> = match asked.contains(&true) {
        true => all
            .into_iter()
            .zip(asked)
            .filter(|(_, asked)| *asked)
            .map(|(k, _)| k)
            .collect(),
        false => all.to_vec(),
    };
    let mount = typed_or_only(args.mount.as_deref())?;
    let answer = picked::kept(question(&mount, &["report".to_owned()])?, &mount)?;
    show(&answer, &mount, &args.shown, &wanted)
}

fn get(args: &GetArgs) -> Result<(), Failure> {
    let (who, mount): (Option<Who>, PathBuf) = match &*args.places {
        [] => (None, mount_of(None)?),
        [mount] => match mount.parse::<Who>() {
            Ok(who) if !Path::new(mount).exists() => (Some(who), mount_of(None)?),
            _ => (None, mount.into()),
        },
        [who, mount, ..] => {
            let who = who.parse::<Who>().map_err(|why| wrong_who(who, &why))?;
            (Some(who), mount.into())
        }
    };
    let mut words = vec!["get".to_owned()];
    words.extend(who.as_ref().map(|who| who.0.to_string()));
    let wanted = match who {
        Some(who) => vec![who.0],
        None => vec![
            QuotaId::user(rustix::process::geteuid().as_raw()),
            QuotaId::group(rustix::process::getegid().as_raw()),
        ],
    };
    let answer = picked::of(&wanted, question(&mount, &words)?, &mount)?;
    let all = [
        QuotaKind::Volume,
        QuotaKind::User,
        QuotaKind::Group,
        QuotaKind::Project,
    ];
    show(&answer, &mount, &args.shown, &all)
}

fn show(answer: &str, mount: &Path, shown: &Shown, wanted: &[QuotaKind]) -> Result<(), Failure> {
    let parsed = Report::parse(answer, mount)?;
    if shown.json {
        let mut value = object(answer, mount)?;
        for list in ["records", "kinds"] {
            if let Some(list) = value[list].as_array_mut() {
                list.retain(|r| wanted.iter().any(|kind| r["kind"] == kind.name()));
            }
        }
        return output::print(&format!("{value:#}\n"));
    }
    let form = Form {
        human: shown.human_readable,
        numeric: shown.numeric,
        now: now(),
    };
    output::print(&report::text(&parsed, &printable_path(mount), wanted, form))
}

fn project(args: &ProjectArgs) -> Result<(), Failure> {
    let directory = &args.directory;
    let failed = |error: std::io::Error| {
        wrong_place::failure(directory, &error, "give a directory of a mounted volume")
    };
    let id = id_of(QuotaKind::Project, &args.project).map_err(Failure::usage)?;
    // Held open: its number stays its own while it is spoken of. That asks for no right to read it.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR => {
            let what = "is not a directory; a project is a directory tree";
            Failure::at(directory, what)
        }
        errno => failed(errno.into()),
    })?;
    let inode = rustix::fs::fstat(&held).map_err(|errno| failed(errno.into()))?;
    let inode = inode.st_ino;
    let mount = mount_above(directory)?;
    let mounted = mounts::at(&mount).ok().flatten();
    if !mounted.as_ref().is_some_and(mounts::Mounted::is_ours) {
        return Err(wrong_place::no_mount(directory, mounted.as_ref()));
    }
    let words = ["project".to_owned(), inode.to_string(), id.to_string()];
    let answer = question(&mount, &words).map_err(|failure| Failure {
        line: failure
            .line
            .replace(&format!("inode {inode}"), &directory.display().to_string()),
        ..failure
    })?;
    if args.json {
        return output::print_and_go_on(&answer);
    }
    let answer = object(&answer, &mount)?;
    let (changed, kept) = (&answer["changed"], &answer["kept"]);
    let who = QuotaId::project(id).to_string();
    let outcome = match id {
        0 => "of no project".to_owned(),
        _ => with_names(&who),
    };
    let mut text = format!(
        "hearth: {}: {outcome}; {changed} inodes changed, {kept} were so already\n",
        printable_path(directory)
    );
    for above in answer["above"].as_array().into_iter().flatten() {
        let (resource, used) = (above["resource"].as_str(), &above["used"]);
        let (who, resource) = (with_names_and_ids(&who), resource.unwrap_or_default());
        text += &format!(
            "hearth: {who} uses {used} {resource}, above its hard limit of {}; it cannot grow\n",
            above["hard"]
        );
    }
    output::print_and_go_on(&text)
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let mut words = vec!["check".to_owned()];
    words.extend(args.repair.then(|| "repair".to_owned()));
    let mount = typed_or_only(args.mount.as_deref())?;
    let answer = question(&mount, &words)?;
    let found = object(&answer, &mount)?;
    // The exit status is a verdict, whoever reads the text.
    if args.json {
        output::print_and_go_on(&answer)?;
    } else {
        let mut text = String::new();
        for d in found["differences"].as_array().into_iter().flatten() {
            let who = match d["kind"].as_str() {
                Some("volume") => "volume".to_owned(),
                kind => with_names(&format!("{}:{}", kind.unwrap_or_default(), d["id"])),
            };
            let resource = d["resource"].as_str().unwrap_or_default();
            let (ledger, walk) = (&d["ledger"], &d["found"]);
            text += &format!("{who}: the ledger says {ledger} {resource}, the walk {walk}\n");
        }
        for w in found["wrong_blocks"].as_array().into_iter().flatten() {
            let (inode, says, holds) = (&w["inode"], &w["says"], &w["holds"]);
            text += &format!("inode {inode}: says {says} blocks, holds {holds}\n");
        }
        let (inodes, nameless) = (&found["inodes"], &found["nameless"]);
        text += &format!("{inodes} inodes walked, {nameless} of them open without a name\n");
        output::print_and_go_on(&text)?;
    }
    match found["clean"].as_bool() {
        Some(true) => Ok(()),
        _ if args.repair => {
            output::print_and_go_on("the ledger says now what the walk has found\n")
        }
        _ => {
            let what = "the ledger and the volume differ; check again when nothing writes to \
                        it, then 'hearth quota check --repair' believes the volume";
            Err(Failure::at(&mount, what))
        }
    }
}

fn wrong_who(typed: &str, why: &str) -> Failure {
    Failure::usage(format!("'{typed}': {why}; see 'hearth quota --help'"))
}

/// Seconds of the wall clock.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}
