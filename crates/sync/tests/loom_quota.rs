//! Every interleaving (up to a bound on forced switches) of the quota ledger's protocol: per-core
//! credit, recall, refusal, the end of an account.
//!
//! Run with `cargo test -p hearth-sync --features loom --test loom_quota`. The ledger lives in the
//! filesystem's crate and uses nothing but this one; here its very source is compiled against
//! loom's atomics and locks. `docs/design/quota.md` has the proofs that this checks.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, missing_docs)]
#[path = "../../fs/src/errno.rs"]
mod errno;
#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../../fs/src/quota/mod.rs"]
mod quota;

use hearth_sync::epoch::pin;
use hearth_sync::primitive::{Arc, thread};
use quota::{Ledger, Limit, NO_ACCOUNT, Own, Owners, QuotaId, Refusal, Resource, Tuning};

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
    Owners {
        uid: 1,
        gid,
        project: 0,
    }
}

/// A ledger whose user 1 may have `hard` inodes.
fn ledger(hard: u64) -> Arc<Ledger> {
    let tuning = Tuning {
        batch: 2,
        least: 1,
        shares: 1,
    };
    let ledger = Ledger::new(tuning, (100, 100), true, || 0);
    let limit = Limit {
        hard: Some(hard),
        soft: None,
    };
    let own = Own {
        limits: [None, Some(limit)],
        grace: [None; 2],
    };
    ledger.with_book(&pin(), |book, hand| book.set_own(USER, own, hand));
    Arc::new(ledger)
}

/// Takes one inode for good; the account.
fn take(ledger: &Ledger, gid: u32) -> Result<u32, Refusal> {
    let g = pin();
    let one = (Resource::Inodes, 1);
    let mut charge = ledger.charge_new(NO_ACCOUNT, owners(gid), one, &g)?;
    charge.spend(1);
    Ok(charge.account())
}

fn free(ledger: &Ledger, account: u32) {
    ledger.free(account, Resource::Inodes, 1, &pin());
}

fn used(ledger: &Ledger) -> u64 {
    ledger.usage(USER, &pin())[Resource::Inodes as usize].used
}

#[test]
fn no_more_than_the_limit_is_taken_and_no_less() {
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

/// Use is one at first; one thread frees it and takes it again, the other takes one. Whatever the
/// order, two are never exceeded, so nobody may be refused.
#[test]
fn nobody_is_refused_what_is_free() {
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

/// The same with credit that has to be called back from two words: three threads, one unit each of
/// three.
#[test]
fn credit_of_other_cores_is_found() {
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
fn a_sample_is_never_above_the_limit() {
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

/// An account that owns nothing is ended while somebody has found it and is about to charge.
#[test]
fn an_account_that_is_ended_under_a_charge_is_found_again() {
    check(3, || {
        let ledger = ledger(2);
        let account = take(&ledger, 1).unwrap();
        free(&ledger, account);
        let worker = {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || take(&ledger, 1).unwrap())
        };
        ledger.with_book(&pin(), |book, hand| book.sweep(hand));
        let account = worker.join().unwrap();
        assert_eq!(used(&ledger), 1);
        free(&ledger, account);
        ledger.with_book(&pin(), |book, hand| book.sweep(hand));
        assert_eq!(used(&ledger), 0);
    });
}
