//! Questions about quotas. Answers are JSON.

use super::NoAnswer;
use crate::caller::Credentials;
use crate::control::quota::{checked, listed, report};
use crate::errno::Errno;
use crate::quota::{QuotaId, QuotaKind, Resource};
use crate::quotactl::{Change, LimitChange, Quota, QuotaError};
use crate::volume::Volume;

type Answer<T> = Result<T, NoAnswer>;

/// What may be asked.
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
quota events [AFTER]       what happened after the event with this number
                           WHO: user:ID group:ID project:ID volume; KIND: user group project";

const VERBS: &str = "report, get, set, clear, default, grace, on, off, project, check or events";

/// Answers `words`, what follows `quota`, with the rights of `asker`.
pub(super) fn answer(volume: &Volume, asker: &Credentials, words: &[&str]) -> Answer<String> {
    let quota = volume.quota().on_behalf_of(asker.clone());
    if let [
        verb @ ("set" | "clear" | "default" | "on"),
        rest @ ..,
        "force",
    ] = words
    {
        let mut words = vec![*verb];
        words.extend(rest);
        return answer_with(&quota.forced(), asker, &words);
    }
    answer_with(&quota, asker, words)
}

/// Answers `words` of `asker` by `quota`.
fn answer_with(quota: &Quota<'_>, asker: &Credentials, words: &[&str]) -> Answer<String> {
    match words {
        ["report"] => Ok(report(quota, &quota.report())),
        ["get"] => {
            let own = [QuotaId::user(asker.uid), QuotaId::group(asker.gid)];
            shown(quota, &own)
        }
        ["get", who] => shown(quota, &[id(who)?]),
        ["set", who, limits @ ..] if !limits.is_empty() => {
            let (who, change) = (id(who)?, limit_change(limits)?);
            quota.set(who, &change).map_err(about(who))?;
            shown(quota, &[who])
        }
        ["clear", who] => {
            let who = id(who)?;
            quota.clear(who).map_err(about(who))?;
            shown(quota, &[who])
        }
        ["default", kind, limits @ ..] if !limits.is_empty() => {
            let (kind, change) = (kind_of(kind)?, limit_change(limits)?);
            quota.set_default(kind, &change).map_err(about_all(kind))?;
            shown(quota, &[])
        }
        ["grace", of, times @ ..] if !times.is_empty() => {
            grace(quota, of, times)?;
            shown(quota, id(of).ok().as_slice())
        }
        [verb @ ("on" | "off"), kind] => {
            let kind = kind_of(kind)?;
            quota
                .enforce(kind, *verb == "on")
                .map_err(about_all(kind))?;
            shown(quota, &[])
        }
        ["project", inode, project] => {
            let (inode, project) = (number(inode)?, number(project)?);
            let who = QuotaId::project(u32::try_from(project).unwrap_or(u32::MAX));
            let name = format!("inode {inode}");
            let done = quota.set_project_of(inode, name.as_bytes(), who.id);
            let done = done.map_err(about(who))?;
            Ok(format!(
                "{{\"changed\":{},\"kept\":{}}}\n",
                done.changed, done.kept
            ))
        }
        ["check"] => Ok(checked(&quota.check().map_err(refused)?)),
        ["events"] => Ok(listed(&quota.events(0).map_err(refused)?)),
        ["events", after] => Ok(listed(&quota.events(number(after)?).map_err(refused)?)),
        _ => Err(nonsense(&words.join(" "), VERBS)),
    }
}

fn shown(quota: &Quota<'_>, who: &[QuotaId]) -> Answer<String> {
    let records = who.iter().map(|&who| quota.get(who).map_err(about(who)));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    Ok(report(quota, &records))
}

fn grace(quota: &Quota<'_>, of: &str, times: &[&str]) -> Answer<()> {
    let times = times.iter().map(|time| {
        let (name, seconds) = time.split_once('=').unwrap_or((time, ""));
        let resource = Resource::ALL.into_iter().find(|r| r.name() == name);
        let resource = resource.ok_or_else(|| nonsense(time, "bytes=SECONDS or inodes=SECONDS"))?;
        Ok(match seconds {
            "default" => (resource, None),
            seconds => (resource, Some(number(seconds)?)),
        })
    });
    let times = times.collect::<Answer<Vec<_>>>()?;
    let too_long = times
        .iter()
        .find_map(|(_, s)| s.filter(|&s| i64::try_from(s).is_err()));
    if let Some(amount) = too_long {
        return Err(refused(QuotaError::TooLarge { amount }));
    }
    for (resource, seconds) in times {
        match (kind_of(of), seconds) {
            (Ok(kind), Some(seconds)) => quota
                .set_grace(kind, resource, seconds)
                .map_err(about_all(kind))?,
            (Ok(_), None) => return Err(nonsense("default", "seconds for a whole kind")),
            (Err(_), seconds) => {
                let who = id(of)?;
                quota
                    .set_grace_of(who, resource, seconds)
                    .map_err(about(who))?;
            }
        }
    }
    Ok(())
}

fn limit_change(words: &[&str]) -> Answer<LimitChange> {
    let mut change = LimitChange::default();
    for word in words {
        let expected =
            "bytes-hard=, bytes-soft=, inodes-hard= or inodes-soft= with a number or none";
        let (name, amount) = word.split_once('=').unwrap_or((word, ""));
        let place = match name {
            "bytes-hard" => &mut change.bytes_hard,
            "bytes-soft" => &mut change.bytes_soft,
            "inodes-hard" => &mut change.inodes_hard,
            "inodes-soft" => &mut change.inodes_soft,
            _ => return Err(nonsense(word, expected)),
        };
        *place = match amount {
            "none" => Change::Lift,
            amount => Change::To(amount.parse().map_err(|_| nonsense(word, expected))?),
        };
    }
    Ok(change)
}

fn id(word: &str) -> Answer<QuotaId> {
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

fn kind_of(word: &str) -> Answer<QuotaKind> {
    let mut kinds = QuotaKind::ALL.into_iter().skip(1);
    let kind = kinds.find(|kind| kind.name() == word);
    kind.ok_or_else(|| nonsense(word, "user, group or project"))
}

fn number(word: &str) -> Answer<u64> {
    word.parse()
        .map_err(|_| nonsense(word, "a number, 0 or more"))
}

fn nonsense(word: &str, expected: &str) -> NoAnswer {
    NoAnswer::nonsense(format!(
        "quota: '{word}' is not understood; expected {expected}"
    ))
}

fn refused(error: QuotaError) -> NoAnswer {
    no_answer(error.errno(), error.to_string())
}

/// Names whose quota an error is about, unless it does so itself.
fn about(who: QuotaId) -> impl Fn(QuotaError) -> NoAnswer {
    move |error| match error {
        QuotaError::NotYours { .. } | QuotaError::NoSuchId { .. } | QuotaError::IdZero { .. } => {
            refused(error)
        }
        error => no_answer(error.errno(), format!("{who}: {error}")),
    }
}

fn about_all(kind: QuotaKind) -> impl Fn(QuotaError) -> NoAnswer {
    move |error| no_answer(error.errno(), format!("{} quotas: {error}", kind.name()))
}

fn no_answer(errno: Errno, reason: String) -> NoAnswer {
    NoAnswer { errno, reason }
}
