//! Every interleaving (up to a bound on forced switches) of the quota ledger's protocol: per-CPU
//! credit, recall, refusal, soft limits, transfers, the end of an account.
//!
//! Run with `cargo test -p hearth-sync --features loom --test loom_quota`. The ledger is part of
//! the filesystem's crate and uses only this one; its source is compiled here against loom's
//! atomics and locks. `docs/design/quota.md` has the proofs that this checks.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, missing_docs)]
#[path = "../../backend/src/errno.rs"]
mod errno;
#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../../fs/src/quota/mod.rs"]
mod quota;

use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::{AtomicI64, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, thread};
use quota::{
    IdSettings, Ledger, Limit, NO_ACCOUNT, Owners, QuotaEventKind, QuotaId, Refusal, RefusalReason,
};
use quota::{QuotaEvent, Resource, Tuning};

/// Runs `test` in every interleaving with at most `switches` forced switches.
fn check(switches: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let wanted = std::env::var("LOOM_SWITCHES").ok();
    builder.preemption_bound = Some(wanted.map_or(switches, |n| n.parse().unwrap()));
    builder.max_branches = 50_000;
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&runs);
    builder.check(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        test();
    });
    println!("{} runs", runs.load(std::sync::atomic::Ordering::SeqCst));
}

const USER: QuotaId = QuotaId {
    kind: quota::QuotaKind::User,
    id: 1,
};

fn owners(gid: u32) -> Owners {
    owned_by(1, gid)
}

fn owned_by(uid: u32, gid: u32) -> Owners {
    let project = 0;
    Owners { uid, gid, project }
}

/// A ledger whose user 1 may have `hard` inodes.
fn ledger(hard: u64) -> Arc<Ledger> {
    let limit = Limit {
        hard: Some(hard),
        soft: None,
    };
    limited(limit, || 0)
}

/// A ledger with a soft limit too, a grace period of five seconds and a clock.
fn soft_ledger(hard: u64, soft: u64) -> (Arc<Ledger>, Arc<AtomicI64>) {
    let limit = Limit {
        hard: Some(hard),
        soft: Some(soft),
    };
    let clock = Arc::new(AtomicI64::new(0));
    let cx = Arc::clone(&clock);
    // Relaxed: it is read under the book's lock.
    (limited(limit, move || cx.load(Relaxed)), clock)
}

fn limited(limit: Limit, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Arc<Ledger> {
    let tuning = Tuning {
        batch: 2,
        least: 1,
        shares: 1,
        singly: u32::MAX,
    };
    let ledger = Ledger::new(tuning, (100, 100), true, clock);
    let own = IdSettings {
        limits: [None, Some(limit)],
        grace: [None, Some(5)],
    };
    ledger.with_state(&pin(), |state, cx| state.set_own(USER, own, cx));
    Arc::new(ledger)
}

/// Takes one inode for good; returns the account.
fn take(ledger: &Ledger, gid: u32) -> Result<u32, Refusal> {
    take_of(ledger, owners(gid))
}

fn take_of(ledger: &Ledger, whose: Owners) -> Result<u32, Refusal> {
    let g = pin();
    let one = (Resource::Inodes, 1);
    let mut charge = ledger.charge_new(NO_ACCOUNT, whose, one, &g)?;
    charge.spend(1);
    Ok(charge.account())
}

fn free(ledger: &Ledger, account: u32) {
    ledger.free(account, Resource::Inodes, 1, &pin());
}

/// Creates the account of user and group 1. A thread that finds an account in the map finds it in
/// its slot. The map is not modelled, so two threads that create the account at the same time would
/// look for it for ever.
fn make_account(ledger: &Ledger) {
    ledger.number_of(owners(1), &pin());
}

/// Moves one inode to other owners.
fn transfer(ledger: &Ledger, account: u32, to: Owners) -> Result<u32, Refusal> {
    ledger.transfer(account, to, [0, 1], false, &pin())
}

fn used(ledger: &Ledger) -> u64 {
    used_by(ledger, USER)
}

fn used_by(ledger: &Ledger, who: QuotaId) -> u64 {
    ledger.usage(who, &pin())[Resource::Inodes as usize].used
}

fn events(ledger: &Ledger) -> Vec<QuotaEvent> {
    ledger.with_state(&pin(), |state, _| state.events_after(0))
}

#[test]
fn exactly_the_limit_can_be_taken() {
    check(3, || {
        let ledger = ledger(2);
        let workers: Vec<_> = (0..2)
            .map(|gid| {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || {
                    let taken = [take(&ledger, gid), take(&ledger, gid)];
                    taken.iter().filter(|taken| taken.is_ok()).count()
                })
            })
            .collect();
        let taken: usize = workers.into_iter().map(|w| w.join().unwrap()).sum();
        assert_eq!((taken, used(&ledger)), (2, 2));
    });
}

/// Usage is one at first. One thread frees it and takes it again, the other takes one. In any order
/// usage is at most two, so neither may be refused.
#[test]
fn free_quota_is_never_refused() {
    check(3, || {
        let ledger = ledger(2);
        let account = take(&ledger, 1).unwrap();
        let other = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || take(&ledger, 1).is_ok())
        };
        free(&ledger, account);
        assert!(take(&ledger, 1).is_ok(), "refused although one was free");
        assert!(other.join().unwrap(), "refused although one was free");
        assert_eq!(used(&ledger), 2);
    });
}

/// Credit has to be recalled from two cores: three threads, one unit each of three.
#[test]
fn credit_of_other_cores_is_recalled() {
    check(2, || {
        let ledger = ledger(3);
        let account = take(&ledger, 1).unwrap();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let ledger = Arc::clone(&ledger);
                thread::spawn(move || {
                    let account = take(&ledger, 1).unwrap();
                    free(&ledger, account);
                })
            })
            .collect();
        free(&ledger, account);
        take(&ledger, 2).unwrap();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(used(&ledger), 1);
    });
}

#[test]
fn reported_usage_never_exceeds_the_limit() {
    check(3, || {
        let ledger = ledger(1);
        let worker = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let account = take(&ledger, 1).unwrap();
                free(&ledger, account);
                take(&ledger, 1).unwrap();
            })
        };
        assert!(used(&ledger) <= 1);
        worker.join().unwrap();
        assert_eq!(used(&ledger), 1);
    });
}

/// An account that owns nothing is ended while a thread has found it and is about to charge.
#[test]
fn a_charge_finds_an_account_that_ended_meanwhile_again() {
    check(3, || {
        let ledger = ledger(2);
        let account = take(&ledger, 1).unwrap();
        free(&ledger, account);
        let worker = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || take(&ledger, 1).unwrap())
        };
        ledger.with_state(&pin(), |state, cx| state.sweep(cx));
        let account = worker.join().unwrap();
        assert_eq!(used(&ledger), 1);
        free(&ledger, account);
        ledger.with_state(&pin(), |state, cx| state.sweep(cx));
        assert_eq!(used(&ledger), 0);
    });
}

/// Credit ends at the soft limit: the thread that takes the unit beyond it is noticed and starts
/// the grace period.
#[test]
fn crossing_a_soft_limit_is_always_noticed() {
    check(3, || {
        let (ledger, _clock) = soft_ledger(4, 2);
        make_account(&ledger);
        let workers = [1, 2].map(|times| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                for _ in 0..times {
                    take(&ledger, 1).unwrap();
                }
            })
        });
        let usage = ledger.usage(USER, &pin())[Resource::Inodes as usize]
            .usage
            .clone();
        assert_eq!(usage.deadline.is_some(), usage.reserved > 2);
        for worker in workers {
            worker.join().unwrap();
        }
        let told = events(&ledger);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].what, QuotaEventKind::SoftCrossed { deadline: 5 });
        assert_eq!((told[0].used, used(&ledger)), (3, 3));
    });
}

/// The clock reaches the deadline during a charge, and the background pass reports it: a charge
/// that is still granted was granted before.
#[test]
fn no_charge_is_granted_after_the_end_of_grace_was_reported() {
    check(3, || {
        let (ledger, clock) = soft_ledger(4, 1);
        take(&ledger, 1).unwrap();
        take(&ledger, 1).unwrap();
        let worker = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || take(&ledger, 1).map_err(|refusal| refusal.reason))
        };
        clock.store(5, Relaxed);
        assert!(ledger.report_ended(2));
        let taken = worker.join().unwrap();
        let late = take(&ledger, 1).map_err(|refusal| refusal.reason);
        assert_eq!(late, Err(RefusalReason::GraceEnded));
        let told = events(&ledger);
        let what: Vec<QuotaEventKind> = told.iter().map(|event| event.what).collect();
        let refused = QuotaEventKind::Refused(RefusalReason::GraceEnded);
        assert_eq!(what[0], QuotaEventKind::SoftCrossed { deadline: 5 });
        let first_is_refused = [refused];
        let first_is_told = [QuotaEventKind::GraceEnded, refused];
        assert!(what[1..] == first_is_refused || what[1..] == first_is_told);
        assert_eq!(told[1].used, used(&ledger), "nothing came after it");
        assert_eq!(used(&ledger), 2 + u64::from(taken.is_ok()));
    });
}

/// A transfer inside one record needs no free quota there, although another thread takes the last
/// unit.
#[test]
fn a_transfer_needs_no_free_quota_in_a_shared_record() {
    check(3, || {
        let ledger = ledger(2);
        let account = take(&ledger, 1).unwrap();
        let worker = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let account = take(&ledger, 1).unwrap();
                free(&ledger, account);
            })
        };
        transfer(&ledger, account, owners(2)).unwrap();
        worker.join().unwrap();
        let groups = [1, 2].map(|gid| used_by(&ledger, QuotaId::group(gid)));
        assert_eq!((used(&ledger), groups), (1, [0, 1]));
    });
}

/// A unit moves to a user whose other unit is taken and given back meanwhile: both always fit, in
/// credit or not.
#[test]
fn a_transfer_recalls_credit_of_other_cores() {
    check(3, || {
        let ledger = ledger(2);
        make_account(&ledger);
        let theirs = take_of(&ledger, owned_by(2, 1)).unwrap();
        let worker = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let account = take(&ledger, 1).unwrap();
                free(&ledger, account);
            })
        };
        transfer(&ledger, theirs, owners(1)).unwrap();
        worker.join().unwrap();
        assert_eq!((used(&ledger), used_by(&ledger, QuotaId::user(2))), (1, 0));
        take(&ledger, 1).unwrap();
        assert!(take(&ledger, 1).is_err());
    });
}

#[test]
fn a_transfer_and_a_charge_never_both_get_the_last_unit() {
    check(3, || {
        let ledger = ledger(1);
        make_account(&ledger);
        let theirs = take_of(&ledger, owned_by(2, 1)).unwrap();
        let worker = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || u64::from(take(&ledger, 1).is_ok()))
        };
        let moved = u64::from(transfer(&ledger, theirs, owners(1)).is_ok());
        let taken = worker.join().unwrap();
        assert_eq!((moved + taken, used(&ledger)), (1, 1));
        let left = used_by(&ledger, QuotaId::user(2));
        assert_eq!(
            (left, used_by(&ledger, QuotaId::VOLUME)),
            (1 - moved, 1 + taken)
        );
    });
}
