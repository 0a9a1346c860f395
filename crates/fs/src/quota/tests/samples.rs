//! What the ledger answers about use, however many accounts there are.

use super::{bench, limit, owners};
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
        let mut sample = bench.ledger.with_book(&g, |book, _| book.sample(who));
        let granted = sample.usage[at].tally.granted;
        assert!(granted > used(who), "{who}: most of it is credit");
        while bench.ledger.with_book(&g, |book, hand| {
            let before = sample.usage[at].used;
            let goes_on = book.go_on(&mut sample, 64, hand);
            // A slice subtracts the credit of 64 accounts, which have a batch each at most.
            assert!(before - sample.usage[at].used <= 64 * super::TUNING.batch);
            goes_on
        }) {
            slices += 1;
        }
        assert_eq!(sample.usage[at].used, 3 * u64::from(MANY));
        assert_eq!(slices, MANY / 64);
    }
    assert_eq!(used(QuotaId::group(MANY)), 3);
}

#[test]
fn ids_are_listed_in_order_from_any_place() {
    let bench = bench(1_000_000, 1_000_000);
    for gid in (1..=MANY).rev() {
        bench.set(QuotaId::group(gid), limit(Some(1), None));
    }
    let all = bench
        .ledger
        .with_book(&pin(), |book, _| book.ids_after(None, usize::MAX));
    assert!(all.is_sorted() && all.len() == 1 + MANY as usize);
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let some = bench
            .ledger
            .with_book(&pin(), |book, _| book.ids_after(after, 7));
        let Some(&last) = some.last() else { break };
        after = Some(last);
        listed.extend(some);
    }
    assert_eq!(listed, all);
}
