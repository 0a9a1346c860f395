//! `hearth fsck`.

use super::FsckArgs;
use super::place::{self, amount, refusal};
use super::progress::Progress;
use crate::failure::Failure;
use crate::output::{self, Colour, Paint};
use crate::printable::printable_path;
use hearth::VolumeOptions;
use hearth_store::OpenMode;
use hearth_store::backend::StoreBackend;
use hearth_store::fsck::{self, About, Code, Finding, Options, Report, Segmented, Severity, Step};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Exit statuses, those of fsck(8).
const RIGHTED: u8 = 1;
const LEFT: u8 = 4;
const UNCHECKED: u8 = 8;
/// The status for what was typed wrong.
pub const USAGE: u8 = 16;

/// Notes of one kind that are printed; the others are counted.
const NOTES: u64 = 3;

/// Looks at a volume that is in use: what is found each time is there.
const LOOKS: usize = 3;

/// Checks a volume, and puts right what was found if that is asked for.
pub fn run(args: &FsckArgs) -> Result<(), Failure> {
    checked(args).map_err(|failure| Failure {
        status: match failure.status {
            1 if !failure.line.is_empty() => UNCHECKED,
            2 => USAGE,
            other => other,
        },
        ..failure
    })
}

fn checked(args: &FsckArgs) -> Result<(), Failure> {
    let options = place::options(&args.options, &["encrypt"], "fsck")?;
    let directory = place::directory(&args.place)?;
    let data = Options { data: args.data };
    if args.repair {
        return repair(args, directory, &options, data);
    }
    let user = place::user(directory)?;
    let report = look(directory, &options, data)?;
    if args.json {
        let mut all = in_json(&report, None);
        all["in_use_by"] = json!(user);
        output::print_and_go_on(&format!("{all}\n"))?;
    } else {
        let paint = Paint::for_stdout();
        let mut text = findings(&report, paint) + &summary(directory, &report, None, paint);
        if let Some(who) = user {
            text += &format!("in use by {who}: this is what its last commit has\n");
        }
        output::print_and_go_on(&text)?;
    }
    ended(if report.is_clean() { 0 } else { LEFT })
}

/// A check without a change. Beside a writer the volume is looked at again where something was
/// found: a file that was removed meanwhile is no damage.
fn look(directory: &Path, options: &VolumeOptions, data: Options) -> Result<Report, Failure> {
    let mut report: Option<Report> = None;
    for _ in 0..LOOKS {
        let store = place::open(directory, OpenMode::ReadOnly, options)?;
        let found = check(directory, &store, options, data)?;
        let found = match report {
            Some(before) => before.kept_in(found),
            None => found,
        };
        if found.is_clean() || place::user(directory)?.is_none() {
            return Ok(found);
        }
        report = Some(found);
    }
    report.ok_or_else(|| Failure::at(directory, "could not be checked; try again"))
}

fn check(
    directory: &Path,
    store: &StoreBackend,
    options: &VolumeOptions,
    data: Options,
) -> Result<Report, Failure> {
    let segments = segments(directory, options)?;
    let mut progress = Progress::new();
    let mut watch = |step: Step| progress.show(|| shown(directory, step));
    let mut report = fsck::check(store.kv(), &segments, data, &mut watch)
        .map_err(|error| refusal(directory, &error))?;
    if let Some(damage) = store.kv().damage() {
        report.add_damage(&damage);
    }
    Ok(report)
}

fn segments(directory: &Path, options: &VolumeOptions) -> Result<Segmented, Failure> {
    let passphrase = place::passphrase(options)?;
    Segmented::open(directory, passphrase.as_ref()).map_err(|error| refusal(directory, &error))
}

fn repair(
    args: &FsckArgs,
    directory: &Path,
    options: &VolumeOptions,
    data: Options,
) -> Result<(), Failure> {
    let who = "hearth fsck --repair".to_owned();
    // What is wrong with the log is seen by a reader alone: a repair drops what is behind a gap.
    let damage = place::open(directory, OpenMode::ReadOnly, options)?
        .kv()
        .damage();
    let store = place::open(directory, OpenMode::Repair { who }, options)?;
    let mut found = check(directory, &store, options, data)?;
    if let Some(damage) = damage {
        found.add_damage(&damage);
    }
    let paint = Paint::for_stdout();
    if !args.json {
        output::print_and_go_on(&findings(&found, paint))?;
    }
    let mut left = found.clone();
    if found.is_repairable() {
        let segments = segments(directory, options)?;
        let mut progress = Progress::new();
        let mut watch = |step: Step| progress.show(|| shown(directory, step));
        left = fsck::repair(store.kv(), &segments, &found, data, &mut watch)
            .map_err(|error| refusal(directory, &error))?;
    } else {
        left.forget_damage();
    }
    store
        .kv()
        .close()
        .map_err(|error| refusal(directory, &error))?;
    if args.json {
        output::print_and_go_on(&format!("{}\n", in_json(&found, Some(&left))))?;
    } else {
        output::print_and_go_on(&summary(directory, &left, Some(&found), paint))?;
    }
    ended(match (found.is_clean(), left.is_clean()) {
        (true, _) => 0,
        (false, true) => RIGHTED,
        (false, false) => LEFT,
    })
}

/// The end of a program that has said all it had to say.
fn ended(status: u8) -> Result<(), Failure> {
    match status {
        0 => Ok(()),
        status => Err(Failure {
            line: String::new(),
            status,
        }),
    }
}

fn shown(directory: &Path, step: Step) -> String {
    let directory = printable_path(directory);
    let Step { what, done, of } = step;
    match of {
        Some(of) => format!("{directory}: {what} {done} of {of}"),
        None => format!("{directory}: {what} {done}"),
    }
}

/// A paragraph for each finding, and a line for each kind of which there are more.
fn findings(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    let mut shown: BTreeMap<Code, u64> = BTreeMap::new();
    for finding in &report.findings {
        let before = shown.entry(finding.code).or_default();
        let is_note = finding.code.meaning().severity == Severity::Note;
        if is_note && *before == NOTES {
            continue;
        }
        *before += 1;
        text += &line(finding, paint);
    }
    for (code, total) in &report.totals {
        let more = total.saturating_sub(shown.get(code).copied().unwrap_or(0));
        if more > 0 {
            let listed = match *total > Report::LISTED {
                true => "",
                false => "; --json lists them",
            };
            let (name, what) = (code.name(), code.meaning().what);
            text += &format!("{name}: {more} more of: {what}{listed}\n");
        }
    }
    text
}

fn line(finding: &Finding, paint: Paint) -> String {
    let meaning = finding.code.meaning();
    let colour = match meaning.severity {
        Severity::Note => Colour::Bold,
        Severity::Damage => Colour::Yellow,
        Severity::Loss => Colour::Red,
    };
    let head = paint.paint(
        colour,
        &format!("{} {:<6}", meaning.name, meaning.severity.word()),
    );
    let place = place_text(finding);
    let detail = match &*finding.detail {
        "" => String::new(),
        detail => format!(" ({detail})"),
    };
    format!(
        "{head} {place}: {}{detail}\n            repair {}\n",
        meaning.what, meaning.repair
    )
}

fn place_text(finding: &Finding) -> String {
    let path = finding
        .path
        .as_deref()
        .map(|path| path.escape_ascii().to_string());
    match (&finding.place, path) {
        (About::Inode(ino), Some(path)) => format!("{path} (inode {ino})"),
        (_, Some(path)) => path,
        (About::Volume, None) => "the volume".to_owned(),
        (About::Key(key), None) => format!("key {key}"),
        (About::Inode(ino), None) => format!("inode {ino}"),
        (About::Name(dir, name), None) => format!("directory {dir}, {}", name.escape_ascii()),
        (About::Segment(segment), None) => format!("segment {segment:016x}"),
        (About::File(file), None) => file.clone(),
        (About::Owner(uid, gid, project), None) => {
            format!("user {uid}, group {gid}, project {project}")
        }
    }
}

fn summary(directory: &Path, report: &Report, before: Option<&Report>, paint: Paint) -> String {
    let counted = report.counted;
    let was_clean = before.is_none_or(Report::is_clean);
    let state = match (report.is_clean(), before) {
        (true, _) if was_clean => paint.paint(Colour::Green, "clean"),
        (true, _) => paint.paint(Colour::Green, "repaired"),
        (false, None) if report.has_loss() => paint.paint(Colour::Red, "bytes are lost"),
        (false, None) => paint.paint(Colour::Yellow, "damaged; --repair puts it right"),
        (false, Some(_)) if report.has_loss() => {
            paint.paint(Colour::Red, "repaired but for the bytes that are lost")
        }
        (false, Some(_)) => paint.paint(Colour::Yellow, "damage is left; run --repair again"),
    };
    let blocks = match counted.blocks {
        0 => String::new(),
        blocks => format!(", {blocks} blocks verified"),
    };
    format!(
        "store:{}: {} inodes, {} names, {} extents, {} in {} segments{blocks}: {state}\n",
        printable_path(directory),
        counted.inodes,
        counted.names,
        counted.extents,
        amount(counted.pages.saturating_mul(4096)),
        counted.segments,
    )
}

fn in_json(report: &Report, left: Option<&Report>) -> Value {
    let list = |report: &Report| -> Vec<Value> { report.findings.iter().map(finding).collect() };
    let totals = |report: &Report| -> Value {
        let each = report.totals.iter();
        each.map(|(code, total): (&Code, &u64)| (code.name().to_owned(), json!(total)))
            .collect()
    };
    let counted = report.counted;
    let mut all = json!({
        "clean": report.is_clean(),
        "repaired": left.is_some_and(|left| left.is_clean() && !report.is_clean()),
        "counted": {
            "inodes": counted.inodes,
            "directories": counted.directories,
            "names": counted.names,
            "extents": counted.extents,
            "pages": counted.pages,
            "segments": counted.segments,
            "blocks_verified": counted.blocks,
        },
        "totals": totals(report),
        "findings": list(report),
    });
    if let Some(left) = left {
        all["left"] = json!(list(left));
    }
    all
}

fn finding(finding: &Finding) -> Value {
    let meaning = finding.code.meaning();
    let ino = match finding.place {
        About::Inode(ino) => Some(ino),
        _ => None,
    };
    json!({
        "code": meaning.name,
        "severity": meaning.severity.word(),
        "what": meaning.what,
        "repair": meaning.repair,
        "detail": finding.detail,
        "place": place_text(finding),
        "path": finding.path.as_deref().map(String::from_utf8_lossy),
        "inode": ino,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 24 notes beside a mount were 48 lines.
    #[test]
    fn notes_beyond_a_few_are_one_line_and_damage_is_always_listed() {
        let mut report = Report::default();
        for number in 0..24 {
            for code in [Code::LeftSegment, Code::NoSegment] {
                report.findings.push(Finding {
                    code,
                    place: About::Segment(number),
                    path: None,
                    detail: String::new(),
                });
                *report.totals.entry(code).or_default() += 1;
            }
        }
        let text = findings(&report, Paint::plain());
        assert_eq!(text.matches("F052 ").count(), 3, "{text}");
        let more = "F052: 21 more of: a segment that no record names; --json lists them\n";
        assert!(text.ends_with(more), "{text}");
        let damage = Code::NoSegment.name();
        assert_eq!(text.matches(&format!("{damage} ")).count(), 24, "{text}");
        let json = in_json(&report, None);
        assert_eq!(json["findings"].as_array().map(Vec::len), Some(48));
    }
}
