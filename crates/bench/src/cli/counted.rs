//! The verbs of `hearth-counted`: a part of a suite of `hearth-bench` runs in both.

use super::{InnerVerb, Part, finish, ready_to_measure};
use crate::options::Options;
use crate::report::Report;
use crate::suites::{instructions, quota};
use crate::{heat, sched};
use std::process::ExitCode;

/// Verbs and parts of suites that only count.
const PARTS: [(&str, &str, Part); 3] = [
    ("sched", "yield-instructions", sched::yields::counted::check),
    ("quota", "instructions", quota::instructions),
    ("heat", "instructions", heat::instructions),
];

const INNER: [InnerVerb; 5] = [
    ("instructions", instructions::run),
    (instructions::LOOPS, instructions::run_loops),
    (quota::LOOPS, |_| quota::run_loops()),
    (heat::LOOPS, heat::run_loops),
    (sched::yields::counted::LOOPS, |_| {
        sched::yields::counted::run_loops()
    }),
];

/// Runs a verb with its arguments.
pub fn run(args: &[String]) -> ExitCode {
    let (verb, rest) = args
        .split_first()
        .map_or(("", &[][..]), |(verb, rest)| (&**verb, rest));
    if let Some((_, inner)) = INNER.iter().find(|(name, _)| *name == verb) {
        return finish(verb, inner(rest));
    }
    let part = PARTS.iter().find(|(name, ..)| *name == verb);
    let Some((verb, name, part)) = part else {
        let verbs = PARTS.map(|(name, ..)| name).join(", ");
        eprintln!("hearth-counted: '{verb}' is no verb; use instructions, {verbs}");
        return ExitCode::from(2);
    };
    ready_to_measure();
    let counted = Options::parse(verb, rest).and_then(|options| {
        let mut report = Report::new(verb, options.clone());
        part(&options, &mut report).map_err(|what| format!("{name}: {what}"))?;
        report.finish()
    });
    finish(verb, counted)
}
