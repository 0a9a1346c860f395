//! A volume with quotas and a clock that rules move, as the model's scripts ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::driver::Library;
use super::hands::Hands;
use hearth::{LimitChange, QuotaId, QuotaKind, QuotaRecord, Volume};
use hearth_model::{
    Change, Keeper, Ledger, Limit, Op, Outcome, Payer, PayerKind, Quota, Resource, Rule, Standing,
    System,
};

/// When scripts begin.
const START: i64 = 1_700_000_000;

/// Bytes and inodes of the volume: more than scripts use.
const VOLUME: [u64; 2] = [1 << 40, 1 << 30];

/// The books of a model beside a new [`Kept`].
pub fn books() -> Quota {
    Quota::new(START, VOLUME)
}

/// A library on a volume with quotas.
pub struct Kept {
    library: Library,
    clock: Hands,
}

impl Kept {
    /// A new volume.
    pub fn new() -> Kept {
        let clock = Hands(Arc::new(AtomicI64::new(START)));
        let [bytes, inodes] = VOLUME;
        let volume = Volume::builder().size(bytes).inodes(inodes);
        let volume = volume.clock(clock.clone()).build();
        Kept {
            library: Library::new(volume.expect("a valid volume")),
            clock,
        }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        self.library.volume()
    }
}

impl System for Kept {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        self.library.apply(p, op)
    }
}

impl Keeper for Kept {
    fn rule(&mut self, rule: &Rule) -> bool {
        let quota = self.volume().quota();
        let done = match *rule {
            Rule::Limit {
                payer,
                resource,
                hard,
                soft,
            } => quota.set(id(payer), &change(resource, hard, soft)),
            Rule::Default {
                kind,
                resource,
                hard,
                soft,
            } => quota.set_default(of(kind), &change(resource, hard, soft)),
            Rule::Grace {
                kind,
                resource: at,
                seconds,
            } => quota.set_grace(of(kind), resource(at), seconds),
            Rule::GraceOf {
                payer,
                resource: at,
                seconds,
            } => quota.set_grace_of(id(payer), resource(at), seconds),
            Rule::Clear { payer } => quota.clear(id(payer)),
            Rule::Enforce { kind, on } => quota.enforce(of(kind), on),
            Rule::Wait { seconds } => {
                self.clock.0.fetch_add(seconds, Relaxed);
                Ok(())
            }
        };
        done.is_ok()
    }

    fn ledger(&self) -> Ledger {
        let report = self.volume().quota().report();
        report.iter().flat_map(standings).collect()
    }

    fn check(&self) -> Result<(), String> {
        let check = self.volume().quota().check().expect("a walk");
        match check.is_clean() {
            true => Ok(()),
            false => Err(format!("{check:?}")),
        }
    }
}

fn standings(record: &QuotaRecord) -> [((Payer, Resource), Standing); 2] {
    let payer = match record.who.kind {
        QuotaKind::Volume => Payer::Volume,
        QuotaKind::User => Payer::User(record.who.id),
        QuotaKind::Group => Payer::Group(record.who.id),
        QuotaKind::Project => Payer::Project(record.who.id),
    };
    Resource::ALL.map(|resource| {
        let usage = match resource {
            Resource::Bytes => &record.bytes,
            Resource::Inodes => &record.inodes,
        };
        let standing = Standing {
            used: usage.used,
            limit: Limit {
                hard: usage.hard,
                soft: usage.soft,
            },
            grace: usage.grace,
            deadline: usage.deadline,
            own: usage.own,
            enforced: record.enforced,
        };
        ((payer, resource), standing)
    })
}

fn id(payer: Payer) -> QuotaId {
    match payer {
        Payer::Volume => QuotaId::VOLUME,
        Payer::User(id) => QuotaId::user(id),
        Payer::Group(id) => QuotaId::group(id),
        Payer::Project(id) => QuotaId::project(id),
    }
}

fn of(kind: PayerKind) -> QuotaKind {
    match kind {
        PayerKind::Volume => QuotaKind::Volume,
        PayerKind::User => QuotaKind::User,
        PayerKind::Group => QuotaKind::Group,
        PayerKind::Project => QuotaKind::Project,
    }
}

fn resource(resource: Resource) -> hearth::Resource {
    match resource {
        Resource::Bytes => hearth::Resource::Blocks,
        Resource::Inodes => hearth::Resource::Inodes,
    }
}

fn change(resource: Resource, hard: Change, soft: Change) -> LimitChange {
    let of = |change| match change {
        Change::Keep => hearth::LimitUpdate::Keep,
        Change::Lift => hearth::LimitUpdate::Lift,
        Change::To(amount) => hearth::LimitUpdate::To(amount),
    };
    let (hard, soft) = (of(hard), of(soft));
    match resource {
        Resource::Bytes => LimitChange {
            bytes_hard: hard,
            bytes_soft: soft,
            ..LimitChange::default()
        },
        Resource::Inodes => LimitChange {
            inodes_hard: hard,
            inodes_soft: soft,
            ..LimitChange::default()
        },
    }
}
