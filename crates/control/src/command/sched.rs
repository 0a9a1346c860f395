//! Commands about the scheduler: weights and ceilings of tenants. Answers are JSON.

use super::Parsed;
use crate::sched::{json, of};
use hearth::sched::{LimitChange, SchedError};
use hearth::{ControlError, Credentials, Errno, TenantId, Volume};

/// The commands of the area.
pub(super) const HELP: &str = "\
sched report               cores and tenants: queues, runs, waits, shares
sched get TENANT           of one tenant
sched weight TENANT N      1 to 10000; a tenant that was given none has 100
sched limit TENANT WHAT... iops=N bw=N: operations and bytes a second; N may be none
                           TENANT: user:ID project:ID";

/// Runs `words`, which follow `sched`, with the rights of `caller`.
pub(super) fn run(volume: &Volume, caller: &Credentials, words: &[&str]) -> Parsed<String> {
    match words {
        ["report"] => Ok(json(volume)),
        ["get", who] => Ok(of(volume, tenant(who)?)),
        ["weight", who, weight] => {
            let who = tenant(who)?;
            let weight: u32 = weight.parse().map_err(|_| {
                nonsense(
                    weight,
                    "a weight from 1 to 10000; a tenant that was given none has 100",
                )
            })?;
            may_set(volume, caller)?;
            let done = volume.set_weight(who, weight);
            done.map_err(about(who))?;
            Ok(of(volume, who))
        }
        ["limit", who, limits @ ..] if !limits.is_empty() => {
            let who = tenant(who)?;
            let changes = limits.iter().map(|limit| change(limit));
            let changes = changes.collect::<Parsed<Vec<_>>>()?;
            may_set(volume, caller)?;
            let done = volume.change_limits(who, &changes);
            done.map_err(about(who))?;
            Ok(of(volume, who))
        }
        _ => Err(nonsense(&words.join(" "), "report, get, weight or limit")),
    }
}

fn change(word: &str) -> Parsed<LimitChange> {
    let expected = "iops= or bw= with a number from 1 on, or none";
    let (name, amount) = word.split_once('=').unwrap_or((word, ""));
    let what = match name {
        "iops" => LimitChange::Ops,
        "bw" => LimitChange::Bytes,
        _ => return Err(nonsense(word, expected)),
    };
    match amount {
        "none" => Ok(what(None)),
        amount => match amount.parse() {
            Ok(amount @ 1..) => Ok(what(Some(amount))),
            _ => Err(nonsense(word, expected)),
        },
    }
}

fn tenant(word: &str) -> Parsed<TenantId> {
    word.parse().map_err(|expected| ControlError {
        errno: Errno::ENOENT,
        reason: format!("sched: '{word}' is no tenant; {expected}"),
    })
}

fn may_set(volume: &Volume, caller: &Credentials) -> Parsed<()> {
    if caller.uid == 0 || caller.uid == volume.quota().owner() {
        return Ok(());
    }
    Err(ControlError {
        errno: Errno::EPERM,
        reason: "sched: only root and the owner of the volume set weights and limits".to_owned(),
    })
}

fn about(who: TenantId) -> impl Fn(SchedError) -> ControlError {
    move |error| ControlError::invalid(format!("{who}: {error}"))
}

fn nonsense(word: &str, expected: &str) -> ControlError {
    ControlError::invalid(format!(
        "sched: '{word}' is not understood; expected {expected}"
    ))
}
