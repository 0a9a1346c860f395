//! What the ledger answers about use, however many accounts there are.

use super::{Bench, bench, limit, owners};
use crate::quota::state::Sample;
use crate::quota::{QuotaId, Resource};
use hearth_sync::epoch::pin;

/// Accounts with credit, all of user 1.
const MANY: u32 = 1000;

#[test]
fn a_sample_of_many_accounts_comes_in_slices_and_is_exact() {
    let bench = bench(1_000_000, 1_000_000);
    let g = pin();
    // Accounts that come call credit back; the second round leaves everybody some.
    for amount in [2, 1] {
        for gid in 1..=MANY {
            bench.use_inodes(owners(1, gid, 0), amount).unwrap();
        }
    }
    let at = Resource::Inodes as usize;
    let used = |who| bench.ledger.usage(who, &g)[at].used;
    for who in [QuotaId::VOLUME, QuotaId::user(1), QuotaId::project(0)] {
        assert_eq!(used(who), 3 * u64::from(MANY), "{who}");
        let mut slices = 0;
        let mut sample = bench.ledger.with_state(&g, |state, _| state.sample(who));
        let reserved = sample.usage[at].usage.reserved;
        assert!(reserved > used(who), "{who}: most of it is credit");
        while bench.ledger.with_state(&g, |state, cx| {
            let before = sample.usage[at].used;
            let goes_on = state.go_on(&mut sample, 64, cx);
            // What is credit is known at the end.
            assert!(!goes_on || sample.usage[at].used == before);
            goes_on
        }) {
            slices += 1;
        }
        assert_eq!(sample.usage[at].used, 3 * u64::from(MANY));
        assert_eq!(slices, MANY / 64);
    }
    assert_eq!(used(QuotaId::group(MANY)), 3);
}

/// Accounts of user 1, a slice and some more, that use 3 inodes each and have credit.
const SOME: u32 = 80;

/// Such accounts, by their numbers, and a sample of user 1 whose first slice is done.
fn begun() -> (Bench, Vec<u32>, Sample) {
    let (bench, mut numbers) = (bench(1_000_000, 1_000_000), Vec::new());
    for amount in [2, 1] {
        let all = (1..=SOME).map(|gid| bench.use_inodes(owners(1, gid, 0), amount));
        numbers = all.map(|number| number.expect("there is room")).collect();
    }
    let sample = bench.ledger.with_state(&pin(), |state, cx| {
        let mut sample = state.sample(QuotaId::user(1));
        assert!(state.go_on(&mut sample, 64, cx), "it is not the last");
        sample
    });
    (bench, numbers, sample)
}

/// What it shows at its end as used and granted.
fn ends(bench: &Bench, mut sample: Sample) -> (u64, u64) {
    let mut go_on = || {
        bench
            .ledger
            .with_state(&pin(), |state, cx| state.go_on(&mut sample, 64, cx))
    };
    while go_on() {}
    let usage = &sample.usage[Resource::Inodes as usize];
    (usage.used, usage.usage.reserved)
}

/// It was taken off what had been granted before.
#[test]
fn credit_handed_out_during_a_sample_is_not_counted_as_unused() {
    let (bench, _, sample) = begun();
    // More than the credit of an account that was not visited: it gets more of that too.
    bench.use_inodes(owners(1, SOME, 0), 100).unwrap();
    let used = 3 * u64::from(SOME) + 100;
    assert_eq!(ends(&bench, sample).0, used);
    assert_eq!(bench.used(QuotaId::user(1)), used);
}

#[test]
fn a_sample_is_at_least_the_use_when_credit_is_recalled_meanwhile() {
    let (bench, _, sample) = begun();
    let before = sample.usage[Resource::Inodes as usize].usage.reserved;
    bench.set(QuotaId::user(1), limit(Some(1000), None));
    let (used, reserved) = ends(&bench, sample);
    assert!((3 * u64::from(SOME)..before).contains(&used), "{used}");
    assert_eq!(reserved, before);
}

#[test]
fn a_record_that_ends_during_a_sample_uses_nothing() {
    let (bench, numbers, sample) = begun();
    numbers.iter().for_each(|&number| bench.free(number, 3));
    bench.ledger.with_state(&pin(), |state, cx| state.sweep(cx));
    assert_eq!(ends(&bench, sample), (0, 0));
}

#[test]
fn ids_are_listed_in_order_from_any_place() {
    let bench = bench(1_000_000, 1_000_000);
    for gid in (1..=MANY).rev() {
        bench.set(QuotaId::group(gid), limit(Some(1), None));
    }
    let all = bench
        .ledger
        .with_state(&pin(), |state, _| state.ids_after(None, usize::MAX));
    assert!(all.is_sorted() && all.len() == 1 + MANY as usize);
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let some = bench
            .ledger
            .with_state(&pin(), |state, _| state.ids_after(after, 7));
        let Some(&last) = some.last() else { break };
        after = Some(last);
        listed.extend(some);
    }
    assert_eq!(listed, all);
}
