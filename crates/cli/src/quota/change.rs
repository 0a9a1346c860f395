//! Verbs that change limits.

use super::args::{DefaultArgs, GraceArgs, Limits, OffArgs, OnArgs, SetArgs};
use super::record::{Report, object};
use super::who::{Who, kind_named};
use super::{question, report, wrong_who};
use crate::failure::Failure;
use crate::output;
use hearth::{LimitUpdate, amount};

/// `hearth quota set`.
pub fn set(args: &SetArgs) -> Result<(), Failure> {
    let who = args.who.0.to_string();
    let mut words = if args.clear {
        vec!["clear".to_owned(), who]
    } else {
        let mut words = vec!["set".to_owned(), who];
        words.extend(limits(&args.limits));
        if words.len() == 2 {
            let what = "no limit given; add --hard, --soft, --inodes-hard or --inodes-soft";
            return Err(Failure::usage(format!("{}: {what}", words[1])));
        }
        words
    };
    words.extend(forced(args.force));
    question(&args.mount, &words).map(drop)
}

/// `hearth quota default`: without limits it shows those in force.
pub fn default(args: &DefaultArgs) -> Result<(), Failure> {
    let kind = args.kind.kind();
    let mut words = vec!["default".to_owned(), kind.name().to_owned()];
    words.extend(limits(&args.limits));
    let is_question = words.len() == 2;
    if is_question && args.force {
        let what = "--force without a limit; add --hard, --soft, --inodes-hard or --inodes-soft";
        return Err(Failure::usage(format!("{} quotas: {what}", words[1])));
    }
    if is_question {
        words = vec!["report".to_owned()];
    } else {
        words.extend(forced(args.force));
    }
    let answer = question(&args.mount, &words)?;
    if args.json {
        let mut value = object(&answer, &args.mount)?;
        let kinds = value["kinds"].as_array_mut().map(std::mem::take);
        let one = kinds
            .into_iter()
            .flatten()
            .find(|k| k["kind"] == kind.name());
        let text = format!("{:#}\n", one.unwrap_or_default());
        return match is_question {
            true => output::print(&text),
            false => output::print_and_go_on(&text),
        };
    }
    if !is_question {
        return Ok(());
    }
    let report = Report::parse(&answer, &args.mount)?;
    let one = report.kinds.iter().find(|k| k.kind == kind);
    output::print(&one.map(report::defaults).unwrap_or_default())
}

/// `hearth quota grace`.
pub fn grace(args: &GraceArgs) -> Result<(), Failure> {
    let of = match kind_named(&args.of) {
        Some(kind) => kind.name().to_owned(),
        None => match args.of.parse::<Who>() {
            Ok(who) => who.0.to_string(),
            Err(why) => return Err(wrong_who(&args.of, &why)),
        },
    };
    let mut words = vec!["grace".to_owned(), of];
    for (name, time) in [("bytes", &args.bytes), ("inodes", &args.inodes)] {
        let Some(time) = time else { continue };
        let seconds = match &**time {
            "default" => "default".to_owned(),
            time => match amount::seconds(time) {
                Ok(seconds) => seconds.to_string(),
                Err(error) => {
                    let what = format!("invalid value '{time}' for '--{name} <TIME>': {error}");
                    return Err(Failure::usage(format!("{what}; see 'hearth quota --help'")));
                }
            },
        };
        words.push(format!("{name}={seconds}"));
    }
    if words.len() == 2 {
        return Err(Failure::usage(format!(
            "{}: no time given; add --bytes or --inodes",
            words[1]
        )));
    }
    question(&args.mount, &words).map(drop)
}

/// `hearth quota on`.
pub fn on(args: &OnArgs) -> Result<(), Failure> {
    let mut words = vec!["on".to_owned(), args.kind.kind().name().to_owned()];
    words.extend(forced(args.force));
    question(&args.mount, &words).map(drop)
}

/// `hearth quota off`.
pub fn off(args: &OffArgs) -> Result<(), Failure> {
    let words = ["off".to_owned(), args.kind.kind().name().to_owned()];
    question(&args.mount, &words).map(drop)
}

fn forced(force: bool) -> Option<String> {
    force.then(|| "force".to_owned())
}

fn limits(limits: &Limits) -> Vec<String> {
    let all = [
        ("bytes-hard", limits.hard),
        ("bytes-soft", limits.soft),
        ("inodes-hard", limits.inodes_hard),
        ("inodes-soft", limits.inodes_soft),
    ];
    let word = |(name, change)| match change {
        None | Some(LimitUpdate::Keep) => None,
        Some(LimitUpdate::Lift) => Some(format!("{name}=none")),
        Some(LimitUpdate::To(amount)) => Some(format!("{name}={amount}")),
    };
    all.into_iter().filter_map(word).collect()
}
