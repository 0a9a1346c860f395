//! What the ledger promises, one fact a test.

mod events;
mod flood;
mod race;
mod race_soft;
mod samples;
mod truth;

use super::kind::{Owners, QuotaId, Resource};
use super::ledger::{Charge, Ledger};
use super::rules::{IdSettings, Limit};
use super::state::{Refusal, Tuning};
use super::usage::RefusalReason;
use super::{BLOCK, NO_ACCOUNT, QuotaEvent, QuotaEventKind};
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicI64, Ordering::Relaxed};

const TUNING: Tuning = Tuning {
    batch: 64,
    least: 4,
    shares: 4,
    singly: u32::MAX,
};

/// A ledger with a clock that stands until it is moved.
struct Bench {
    ledger: Ledger,
    clock: Arc<AtomicI64>,
}

fn bench(blocks: u64, inodes: u64) -> Bench {
    bench_of(TUNING, blocks, inodes)
}

fn bench_of(tuning: Tuning, blocks: u64, inodes: u64) -> Bench {
    let clock = Arc::new(AtomicI64::new(1000));
    let cx = Arc::clone(&clock);
    let ledger = Ledger::new(tuning, (blocks, inodes), true, move || cx.load(Relaxed));
    Bench { ledger, clock }
}

fn owners(uid: u32, gid: u32, project: u32) -> Owners {
    Owners { uid, gid, project }
}

fn limit(hard: Option<u64>, soft: Option<u64>) -> Limit {
    Limit { hard, soft }
}

impl Bench {
    fn set(&self, who: QuotaId, inodes: Limit) {
        let own = IdSettings {
            limits: [None, Some(inodes)],
            grace: [None, Some(100)],
        };
        let g = pin();
        self.ledger
            .with_state(&g, |state, cx| state.set_own(who, own, cx));
    }

    /// Charges inodes and spends them; the account's number.
    fn use_inodes(&self, whose: Owners, amount: u64) -> Result<u32, Refusal> {
        let g = pin();
        let mut charge: Charge<'_> =
            self.ledger
                .charge_new(NO_ACCOUNT, whose, (Resource::Inodes, amount), &g)?;
        charge.spend(amount);
        Ok(charge.account())
    }

    fn free(&self, account: u32, amount: u64) {
        self.ledger.free(account, Resource::Inodes, amount, &pin());
    }

    fn used(&self, who: QuotaId) -> u64 {
        let g = pin();
        self.ledger.usage(who, &g)[Resource::Inodes as usize].used
    }

    fn events(&self) -> Vec<QuotaEvent> {
        let g = pin();
        self.ledger.with_state(&g, |state, _| state.events_after(0))
    }

    fn happened(&self) -> Vec<(String, QuotaEventKind)> {
        let events = self.events().into_iter();
        events.map(|e| (e.who.to_string(), e.what)).collect()
    }
}

#[test]
fn all_four_are_charged_or_none() {
    let bench = bench(1000, 1000);
    bench.set(QuotaId::project(3), limit(Some(5), None));
    let whose = owners(1, 2, 3);
    for _ in 0..5 {
        bench.use_inodes(whose, 1).unwrap();
    }
    let refusal = bench.use_inodes(whose, 1).unwrap_err();
    assert_eq!(refusal.who, QuotaId::project(3));
    assert!(refusal.is_space());
    for who in whose.ids() {
        assert_eq!(bench.used(who), 5, "{who}");
    }
    // Another project of the same user and group is not concerned.
    bench.use_inodes(owners(1, 2, 4), 1).unwrap();
    assert_eq!(bench.used(QuotaId::user(1)), 6);
}

#[test]
fn the_limit_is_reached_and_not_passed() {
    let bench = bench(1000, 10_000);
    bench.set(QuotaId::user(1), limit(Some(1000), None));
    let mut count = 0;
    let account = loop {
        match bench.use_inodes(owners(1, count as u32 % 3, 0), 7) {
            Ok(account) => (count += 1, account).1,
            Err(refusal) => break refusal,
        };
    };
    assert_eq!(account.reason, RefusalReason::Hard);
    assert_eq!(count, 1000 / 7);
    let last = bench.use_inodes(owners(1, 0, 0), 1000 % 7).unwrap();
    assert_eq!(bench.used(QuotaId::user(1)), 1000);
    assert!(bench.use_inodes(owners(1, 1, 0), 1).is_err());
    bench.free(last, 1);
    bench.use_inodes(owners(1, 1, 0), 1).unwrap();
    assert!(bench.use_inodes(owners(1, 1, 0), 1).is_err());
}

/// A pass over the accounts, in slices of two.
fn recall_unused(bench: &Bench) {
    let mut next = Some(0);
    while let Some(from) = next {
        next = bench.ledger.recall_unused(from, 2);
    }
}

#[test]
fn a_pass_recalls_unused_credit_and_ends_empty_accounts() {
    let bench = bench(1000, 100_000);
    let credit = |whose| {
        let g = pin();
        let account = bench
            .ledger
            .accounts
            .get(bench.ledger.number_of(whose, &g), &g);
        account.unwrap().credit.sum(Resource::Inodes)
    };
    let kept: Vec<Owners> = (0..5).map(|uid| owners(uid, 7, 0)).collect();
    for &whose in &kept {
        bench.use_inodes(whose, 1).unwrap();
        assert!(credit(whose) > 0, "far from a limit a core takes more");
    }
    let gone = bench.use_inodes(owners(99, 7, 0), 1).unwrap();
    bench.free(gone, 1);
    recall_unused(&bench);
    bench.use_inodes(kept[3], 1).unwrap();
    recall_unused(&bench);
    for &whose in &kept {
        assert_eq!(credit(whose) > 0, whose == kept[3], "{whose:?}");
    }
    let accounts = || {
        let g = pin();
        bench.ledger.with_state(&g, |state, _| state.accounts())
    };
    assert_eq!(accounts(), kept.len(), "that of user 99 has ended");
    for (uid, &whose) in kept.iter().enumerate() {
        let used = if whose == kept[3] { 2 } else { 1 };
        assert_eq!(bench.used(QuotaId::user(uid as u32)), used);
    }
}

#[test]
fn unspent_units_of_a_charge_come_back() {
    let bench = bench(10, 10);
    let g = pin();
    let whose = owners(1, 1, 1);
    let mut charge = bench
        .ledger
        .charge_new(NO_ACCOUNT, whose, (Resource::Blocks, 10), &g)
        .unwrap();
    let again = bench
        .ledger
        .charge_new(NO_ACCOUNT, whose, (Resource::Blocks, 1), &g);
    assert!(again.is_err(), "the reservation holds all there is");
    charge.spend(4);
    drop(charge);
    let usage = bench.ledger.usage(QuotaId::user(1), &g);
    assert_eq!(usage[Resource::Blocks as usize].used, 4);
}

#[test]
fn id_zero_is_counted_and_not_limited_but_the_volume_is() {
    let bench = bench(1000, 50);
    bench.set(QuotaId::user(0), limit(Some(1), None));
    bench.use_inodes(owners(0, 0, 0), 50).unwrap();
    assert_eq!(bench.used(QuotaId::user(0)), 50);
    let refusal = bench.use_inodes(owners(0, 0, 0), 1).unwrap_err();
    assert_eq!(refusal.who, QuotaId::VOLUME);
}

#[test]
fn crossing_the_soft_limit_is_reported_and_it_binds_after_the_grace_period() {
    let bench = bench(1000, 1000);
    bench.set(QuotaId::user(1), limit(Some(100), Some(50)));
    let whose = owners(1, 1, 0);
    for _ in 0..50 {
        bench.use_inodes(whose, 1).unwrap();
    }
    assert_eq!(bench.happened(), []);
    let account = bench.use_inodes(whose, 1).unwrap();
    let user = || "user:1".to_owned();
    let crossed = (user(), QuotaEventKind::SoftCrossed { deadline: 1100 });
    assert_eq!(bench.happened(), std::slice::from_ref(&crossed));
    bench.clock.store(1099, Relaxed);
    bench.use_inodes(whose, 1).unwrap();
    bench.clock.store(1100, Relaxed);
    assert_eq!(
        bench.use_inodes(whose, 1).unwrap_err().reason,
        RefusalReason::GraceEnded
    );
    assert!(bench.use_inodes(whose, 1).is_err());
    let ended = (user(), QuotaEventKind::Refused(RefusalReason::GraceEnded));
    assert_eq!(bench.happened(), [crossed, ended]);
    bench.free(account, 2);
    assert_eq!(
        bench.happened().last(),
        Some(&(user(), QuotaEventKind::SoftReturned))
    );
    bench.use_inodes(whose, 1).unwrap();
    assert_eq!(bench.events().last().unwrap().used, 51);
    assert_eq!(bench.events().len(), 4, "crossed again, with a new period");
}

#[test]
fn a_refusal_is_reported_once_until_something_is_freed() {
    let bench = bench(1000, 1000);
    bench.set(QuotaId::group(1), limit(Some(3), None));
    let whose = owners(1, 1, 0);
    let account = bench.use_inodes(whose, 3).unwrap();
    for _ in 0..5 {
        assert!(bench.use_inodes(whose, 1).is_err());
    }
    assert_eq!(bench.events().len(), 1);
    bench.free(account, 1);
    assert!(bench.use_inodes(whose, 2).is_err());
    assert_eq!(bench.events().len(), 2);
    assert_eq!((bench.events()[1].used, bench.events()[1].limit), (2, 3));
}

#[test]
fn lowering_a_limit_below_use_refuses_growth_only() {
    let bench = bench(1000, 1000);
    let whose = owners(1, 1, 0);
    let account = bench.use_inodes(whose, 100).unwrap();
    bench.set(QuotaId::user(1), limit(Some(40), None));
    assert!(bench.use_inodes(whose, 1).is_err());
    bench.free(account, 60);
    assert!(bench.use_inodes(whose, 1).is_err());
    bench.free(account, 1);
    bench.use_inodes(whose, 1).unwrap();
    assert_eq!(bench.used(QuotaId::user(1)), 40);
}

#[test]
fn a_limit_set_on_a_user_with_credit_holds_at_once() {
    let bench = bench(100_000, 100_000);
    let whose = owners(1, 1, 0);
    bench.use_inodes(whose, 1).unwrap();
    bench.set(QuotaId::user(1), limit(Some(2), None));
    bench.use_inodes(whose, 1).unwrap();
    assert!(bench.use_inodes(whose, 1).is_err());
}

#[test]
fn a_transfer_needs_no_space_in_records_that_both_accounts_share() {
    let bench = bench(1000, 10);
    bench.set(QuotaId::group(5), limit(Some(10), None));
    let g = pin();
    let from = bench.use_inodes(owners(1, 5, 0), 10).unwrap();
    let moved = |to, force| bench.ledger.transfer(from, to, [0, 4], force, &g);
    bench.set(QuotaId::user(2), limit(Some(7), None));
    assert_eq!(moved(owners(2, 5, 0), false).map(|n| n == from), Ok(false));
    assert_eq!(
        (bench.used(QuotaId::user(1)), bench.used(QuotaId::user(2))),
        (6, 4)
    );
    let refusal = moved(owners(2, 5, 0), false).unwrap_err();
    assert_eq!(refusal.who, QuotaId::user(2));
    assert_eq!(bench.used(QuotaId::user(1)), 6);
    moved(owners(2, 5, 0), true).unwrap();
    assert_eq!(bench.used(QuotaId::user(2)), 8, "root forces it");
    assert_eq!(bench.used(QuotaId::group(5)), 10);
    assert_eq!(bench.used(QuotaId::VOLUME), 10);
}

#[test]
fn empty_accounts_and_records_are_swept() {
    let bench = bench(1000, 100_000);
    for uid in 0..10_000 {
        let account = bench.use_inodes(owners(uid, uid, 0), 1).unwrap();
        bench.free(account, 1);
    }
    let g = pin();
    let (accounts, records) = bench
        .ledger
        .with_state(&g, |state, cx| (state.accounts(), state.report(cx).len()));
    assert!(accounts <= 64, "{accounts} accounts are left");
    assert!(records <= 130, "{records} records are left");
}

#[test]
fn a_part_of_a_block_below_a_limit_cannot_be_used() {
    let bench = bench(1000, 1000);
    let g = pin();
    let own = IdSettings {
        limits: [Some(limit(Some(2 * BLOCK + 100), None)), None],
        grace: [None; 2],
    };
    bench
        .ledger
        .with_state(&g, |state, cx| state.set_own(QuotaId::user(1), own, cx));
    let charge = |n| {
        bench
            .ledger
            .charge_new(NO_ACCOUNT, owners(1, 1, 0), (Resource::Blocks, n), &g)
    };
    assert!(charge(3).is_err());
    assert!(charge(2).is_ok());
}
