//! Commands about quotas. Answers are JSON.

mod refusal;

use super::Parsed;
use crate::quota::{above, checked, listed, report};
use hearth::{Credentials, LimitChange, LimitUpdate, Volume};
use hearth::{Quota, QuotaError, QuotaId, QuotaKind, QuotaNumber, Resource};
use refusal::{Subject, nonsense};

/// The commands of the area.
pub(super) const HELP: &str = "\
quota report               use and limits of everybody that is yours to see
quota get [WHO]            of one, or of your user and your group
quota set WHO LIMIT...     bytes-hard=N bytes-soft=N inodes-hard=N inodes-soft=N; N may be none
quota clear WHO            its kind's defaults hold for it again
quota default KIND LIMIT...
quota grace KIND TIME...   bytes=SECONDS inodes=SECONDS
quota grace WHO TIME...    the same, or default instead of the seconds
quota on KIND, quota off KIND
                           set, clear, default and on take force at their end: the limit holds
                           although files are open for writing since before there was one
quota project INODE ID     makes the directory with this inode number a project
quota check                compares the ledger with the volume
quota check repair         the same; over a directory of the host the ledger then says what is there
quota events [AFTER]       what happened after the event with this number
                           WHO: user:ID group:ID project:ID volume; KIND: user group project";

const LIMITS: &str = "bytes-hard=, bytes-soft=, inodes-hard= or inodes-soft= with a number or none";

const VERBS: &str = "report, get, set, clear, default, grace, on, off, project, check or events";

/// Runs `words`, which follow `quota`, with the rights of `caller`.
pub(super) fn run(volume: &Volume, caller: &Credentials, words: &[&str]) -> Parsed<String> {
    let quota = volume.quota().on_behalf_of(caller.clone());
    if let [
        verb @ ("set" | "clear" | "default" | "on"),
        rest @ ..,
        "force",
    ] = words
    {
        let mut words = vec![*verb];
        words.extend(rest);
        return run_with(&quota.forced(), caller, &words);
    }
    run_with(&quota, caller, words)
}

/// Runs `words` of `caller` on `quota`.
fn run_with(quota: &Quota<'_>, caller: &Credentials, words: &[&str]) -> Parsed<String> {
    match words {
        ["report"] => {
            let kept = quota.is_kept();
            kept.map_err(|e| Subject::of_all("see them").refused(e))?;
            Ok(report(quota, &quota.report()))
        }
        ["get"] => {
            let own = [QuotaId::user(caller.uid), QuotaId::group(caller.gid)];
            shown(quota, &own)
        }
        ["get", who] => shown(quota, &[id(who)?]),
        ["set" | "default", _] => Err(nonsense(&words.join(" "), LIMITS)),
        ["set", who, limits @ ..] => {
            let who = id(who)?;
            let change = limit_change(&Subject::of(who, ""), limits)?;
            let subject = Subject::of(who, refusal::limits(&change));
            quota.set(who, &change).map_err(|e| subject.refused(e))?;
            shown(quota, &[who])
        }
        ["clear", who] => {
            let who = id(who)?;
            let subject = Subject::of(who, "lift its own limits and grace periods");
            quota.clear(who).map_err(|e| subject.refused(e))?;
            shown(quota, &[who])
        }
        ["default", kind, limits @ ..] => {
            let kind = kind_of(kind)?;
            let change = limit_change(&Subject::of_kind(kind, ""), limits)?;
            let subject = Subject::of_kind(kind, refusal::limits(&change));
            let done = quota.set_default(kind, &change);
            done.map_err(|e| subject.refused(e))?;
            shown(quota, &[])
        }
        ["grace", of, times @ ..] if !times.is_empty() => match kind_of(of) {
            Ok(kind) => {
                grace_of_kind(quota, kind, times)?;
                shown(quota, &[])
            }
            Err(_) => {
                let who = id(of)?;
                grace_of(quota, who, times)?;
                shown(quota, &[who])
            }
        },
        [verb @ ("on" | "off"), kind] => {
            let kind = kind_of(kind)?;
            let subject = Subject::of_kind(kind, format!("turn enforcement {verb}"));
            let done = quota.enforce(kind, *verb == "on");
            done.map_err(|e| subject.refused(e))?;
            shown(quota, &[])
        }
        ["project", inode, project] => {
            let (inode, project) = (number(inode)?, number(project)?);
            let who = QuotaId::project(u32::try_from(project).unwrap_or(u32::MAX));
            let name = format!("inode {inode}");
            let subject = Subject::of(who, format!("make {name} part of it"));
            let done = quota.set_project_of(inode, name.as_bytes(), who.id);
            let done = done.map_err(|e| subject.refused(e))?;
            let record = quota.get(who).map_err(|e| subject.refused(e))?;
            Ok(format!(
                "{{\"changed\":{},\"kept\":{},\"above\":{}}}\n",
                done.changed,
                done.kept,
                above(&record)
            ))
        }
        ["check"] => {
            let done = quota.check();
            let done = done.map_err(|e| Subject::of_all("check them").refused(e))?;
            Ok(checked(&done))
        }
        ["check", "repair"] => {
            let done = quota.repair();
            let done = done.map_err(|e| Subject::of_all("repair them").refused(e))?;
            Ok(checked(&done))
        }
        ["events"] => events(quota, 0),
        ["events", after] => events(quota, number(after)?),
        _ => Err(nonsense(&words.join(" "), VERBS)),
    }
}

fn shown(quota: &Quota<'_>, who: &[QuotaId]) -> Parsed<String> {
    let records = who.iter().map(|&who| {
        let record = quota.get(who);
        record.map_err(|e| Subject::of(who, "see it").refused(e))
    });
    let records = records.collect::<Result<Vec<_>, _>>()?;
    Ok(report(quota, &records))
}

fn events(quota: &Quota<'_>, after: u64) -> Parsed<String> {
    // Lost writes are told where nobody counts as well.
    let events = quota.events(after);
    let events = events.map_err(|e| Subject::of_all("read their events").refused(e))?;
    Ok(listed(&events))
}

fn grace_of_kind(quota: &Quota<'_>, kind: QuotaKind, times: &[&str]) -> Parsed<()> {
    let times = periods(&Subject::of_kind(kind, ""), times)?;
    let subject = Subject::of_kind(kind, refusal::periods(&times));
    let seconds_of = |(resource, seconds): (Resource, Option<u64>)| match seconds {
        Some(seconds) => Ok((resource, seconds)),
        None => Err(subject.nonsense("default", "seconds for a whole kind")),
    };
    let times: Vec<(Resource, u64)> = times
        .into_iter()
        .map(seconds_of)
        .collect::<Parsed<Vec<_>>>()?;
    for (resource, seconds) in times {
        let done = quota.set_grace(kind, resource, seconds);
        done.map_err(|e| subject.refused(e))?;
    }
    Ok(())
}

fn grace_of(quota: &Quota<'_>, who: QuotaId, times: &[&str]) -> Parsed<()> {
    let times = periods(&Subject::of(who, ""), times)?;
    let subject = Subject::of(who, refusal::periods(&times));
    for (resource, seconds) in times {
        let done = quota.set_grace_of(who, resource, seconds);
        done.map_err(|e| subject.refused(e))?;
    }
    Ok(())
}

/// Parses grace periods; `None` is that of the kind.
fn periods(subject: &Subject, words: &[&str]) -> Parsed<Vec<(Resource, Option<u64>)>> {
    let period = |word: &&str| {
        let (name, seconds) = word.split_once('=').unwrap_or((word, ""));
        let resource = Resource::ALL.into_iter().find(|r| r.name() == name);
        let expected = "bytes=SECONDS or inodes=SECONDS";
        let resource = resource.ok_or_else(|| subject.nonsense(word, expected))?;
        if seconds == "default" {
            return Ok((resource, None));
        }
        let seconds: u64 = seconds
            .parse()
            .map_err(|_| subject.nonsense(word, expected))?;
        // All or nothing: each period is checked before the first is set.
        match i64::try_from(seconds) {
            Ok(_) => Ok((resource, Some(seconds))),
            Err(_) => Err(subject.refused(QuotaError::TooLarge {
                resource,
                number: QuotaNumber::Grace,
                amount: seconds,
            })),
        }
    };
    words.iter().map(period).collect()
}

fn limit_change(subject: &Subject, words: &[&str]) -> Parsed<LimitChange> {
    let mut change = LimitChange::default();
    for word in words {
        let (name, amount) = word.split_once('=').unwrap_or((word, ""));
        let place = match name {
            "bytes-hard" => &mut change.bytes_hard,
            "bytes-soft" => &mut change.bytes_soft,
            "inodes-hard" => &mut change.inodes_hard,
            "inodes-soft" => &mut change.inodes_soft,
            _ => return Err(subject.nonsense(word, LIMITS)),
        };
        let nonsense = |_| subject.nonsense(word, LIMITS);
        *place = match amount {
            "none" => LimitUpdate::Lift,
            amount => LimitUpdate::To(amount.parse().map_err(nonsense)?),
        };
    }
    Ok(change)
}

fn id(word: &str) -> Parsed<QuotaId> {
    if word == "volume" {
        return Ok(QuotaId::VOLUME);
    }
    let expected = "user:ID, group:ID, project:ID (0 to 4294967294) or volume";
    let (kind, id) = word.split_once(':').unwrap_or((word, ""));
    match (kind_of(kind), id.parse()) {
        (Ok(kind), Ok(id)) => Ok(QuotaId { kind, id }),
        _ => Err(nonsense(word, expected)),
    }
}

fn kind_of(word: &str) -> Parsed<QuotaKind> {
    let mut kinds = QuotaKind::ALL.into_iter().skip(1);
    let kind = kinds.find(|kind| kind.name() == word);
    kind.ok_or_else(|| nonsense(word, "user, group or project"))
}

fn number(word: &str) -> Parsed<u64> {
    word.parse()
        .map_err(|_| nonsense(word, "a number, 0 or more"))
}
