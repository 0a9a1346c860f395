//! Questions about the scheduler: weights and ceilings of tenants. Answers are JSON.

use super::NoAnswer;
use crate::caller::Credentials;
use crate::control::sched::{json, of};
use crate::errno::Errno;
use crate::tenant::TenantId;
use crate::volume::Volume;
use hearth_sched::{LimitChange, SchedError, check_weight};

type Answer<T> = Result<T, NoAnswer>;

/// What may be asked.
pub(super) const HELP: &str = "\
sched report               cores and tenants: queues, runs, waits, shares
sched get TENANT           of one tenant
sched weight TENANT N      1 to 10000; a tenant that was given none has 100
sched limit TENANT WHAT... iops=N bw=N: operations and bytes a second; N may be none
                           TENANT: user:ID project:ID";

/// Answers `words`, what follows `sched`, with the rights of `asker`.
pub(super) fn answer(volume: &Volume, asker: &Credentials, words: &[&str]) -> Answer<String> {
    let sb = &volume.sb;
    match words {
        ["report"] => Ok(json(sb)),
        ["get", who] => Ok(of(sb, tenant(who)?)),
        ["weight", who, weight] => {
            let who = tenant(who)?;
            let weight: u32 = weight.parse().map_err(|_| {
                nonsense(
                    weight,
                    "a weight from 1 to 10000; a tenant that was given none has 100",
                )
            })?;
            may_set(volume, asker)?;
            check_weight(weight).map_err(about(who))?;
            let sched = volume.scheduler();
            let done = sched.set_weight(sched.tenant(who.number()), weight);
            done.map_err(about(who))?;
            Ok(of(sb, who))
        }
        ["limit", who, limits @ ..] if !limits.is_empty() => {
            let who = tenant(who)?;
            let sched = volume.scheduler();
            let changes = limits.iter().map(|limit| change(limit));
            let changes = changes.collect::<Answer<Vec<_>>>()?;
            may_set(volume, asker)?;
            let tenant = sched.tenant(who.number());
            let done = sched.change_limits(tenant, &changes);
            done.map_err(about(who))?;
            Ok(of(sb, who))
        }
        _ => Err(nonsense(&words.join(" "), "report, get, weight or limit")),
    }
}

fn change(word: &str) -> Answer<LimitChange> {
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

fn tenant(word: &str) -> Answer<TenantId> {
    word.parse().map_err(|expected| NoAnswer {
        errno: Errno::ENOENT,
        reason: format!("sched: '{word}' is no tenant; {expected}"),
    })
}

fn may_set(volume: &Volume, asker: &Credentials) -> Answer<()> {
    if asker.uid == 0 || asker.uid == volume.sb.options.owner.0 {
        return Ok(());
    }
    Err(NoAnswer {
        errno: Errno::EPERM,
        reason: "sched: only root and the owner of the volume set weights and limits".to_owned(),
    })
}

fn about(who: TenantId) -> impl Fn(SchedError) -> NoAnswer {
    move |error| NoAnswer::nonsense(format!("{who}: {error}"))
}

fn nonsense(word: &str, expected: &str) -> NoAnswer {
    NoAnswer::nonsense(format!(
        "sched: '{word}' is not understood; expected {expected}"
    ))
}
