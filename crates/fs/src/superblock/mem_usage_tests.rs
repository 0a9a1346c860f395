//! The bytes of cores, and when they are added up.

use super::*;

const BUDGET: u64 = 1 << 20;

fn over(mem_usage: &MemUsage) -> u64 {
    mem_usage.check().map_or(0, |excess| excess.over)
}

#[test]
fn a_core_checks_when_it_has_grown_by_a_batch() {
    let mem_usage = MemUsage::new(BUDGET, true);
    assert_eq!(mem_usage.check(), None);
    // Beyond the budget in one step: every core sees it at once, and once.
    mem_usage.add(BUDGET as i64 + 100);
    assert_eq!((mem_usage.over(), mem_usage.ahead()), (100, 100));
    let told = (0..100).filter_map(|_| mem_usage.check()).count();
    assert!((1..=cores()).contains(&told), "{told} times");
    mem_usage.add(mem_usage.batch());
    // The thread may have moved to another core, which has not checked yet.
    let batch = mem_usage.batch().unsigned_abs();
    let excess = Excess {
        over: 100 + batch,
        ahead: 100 + batch,
        grown: batch,
    };
    assert!(mem_usage.check().is_none_or(|told| told == excess));
    mem_usage.add(-100 - 2 * mem_usage.batch());
    assert_eq!((mem_usage.check(), mem_usage.over()), (None, 0));
}

#[test]
fn uncounted_growth_is_less_than_the_batches_of_all_cores() {
    let mem_usage = MemUsage::new(BUDGET, true);
    mem_usage.add(BUDGET as i64 - 50_000);
    let mut seen = 0;
    while seen == 0 {
        mem_usage.add(100);
        seen = over(&mem_usage);
        assert!(mem_usage.over() <= BUDGET / SLACK + 100);
    }
}

#[test]
fn a_core_that_has_brought_in_little_does_not_check() {
    let mem_usage = MemUsage::new(BUDGET, true);
    mem_usage.add(BUDGET as i64);
    // Every core has checked, wherever this thread runs.
    for part in mem_usage.parts.iter() {
        part.checked.store(part.bytes.load(Relaxed), Relaxed);
    }
    mem_usage.add(1);
    assert_eq!((over(&mem_usage), mem_usage.over()), (0, 1));
}

#[test]
fn a_check_is_due_only_when_a_core_has_grown_by_a_batch() {
    let mem_usage = MemUsage::new(BUDGET, true);
    let settle = || {
        for part in mem_usage.parts.iter() {
            part.checked.store(part.bytes.load(Relaxed), Relaxed);
        }
        mem_usage.state.store(CALM, Relaxed);
    };
    assert!(mem_usage.is_check_due(), "none has checked");
    settle();
    // Of whichever core: the thread may move.
    (0..10).for_each(|_| mem_usage.add(mem_usage.batch() / 16));
    (0..10).for_each(|_| mem_usage.add(-mem_usage.batch()));
    assert!(
        !mem_usage.is_check_due(),
        "it has grown by less, and fallen"
    );
    settle();
    mem_usage.add(mem_usage.batch());
    assert!(mem_usage.is_check_due());
    // It stays due until the core that has grown has checked.
    let is_calm = || mem_usage.parts.iter().all(|part| mem_usage.is_calm(part));
    assert!(!is_calm());
    for part in mem_usage.parts.iter() {
        assert_eq!(mem_usage.is_check_due(), !is_calm());
        assert_eq!(mem_usage.check_of(part), None);
    }
    assert!(!mem_usage.is_check_due());
    let endless = MemUsage::new(0, true);
    endless.state.store(CALM, Relaxed);
    endless.add(1 << 50);
    assert!(!endless.is_check_due(), "there is no budget");
}

#[test]
fn the_growth_of_a_core_where_nobody_runs_is_checked_by_another_within_the_budget_only() {
    let mem_usage = MemUsage::new(BUDGET, true);
    let calm = CoreBytes {
        bytes: AtomicI64::new(0),
        checked: AtomicI64::new(0),
    };
    let are_calm = || mem_usage.parts.iter().all(|part| mem_usage.is_calm(part));
    assert!(!are_calm(), "none has checked");
    assert_eq!(mem_usage.check_of(&calm), None);
    assert!(are_calm() && !mem_usage.is_check_due());
    mem_usage.add(BUDGET as i64 + 1);
    assert_eq!(mem_usage.check_of(&calm), None);
    assert!(!are_calm() && mem_usage.state.load(Relaxed) == OVER);
    // It is summed up once, and once more where some of it may have been won back.
    mem_usage.add(-1);
    assert_eq!(mem_usage.check_of(&calm), None);
    assert!(!are_calm() && mem_usage.is_check_due());
    mem_usage.lower_watermark();
    assert_eq!(mem_usage.check_of(&calm), None);
    assert!(are_calm() && !mem_usage.is_check_due());
}

#[test]
fn a_new_budget_is_seen_by_all_cores() {
    let mem_usage = MemUsage::new(0, true);
    mem_usage.add(BUDGET as i64);
    assert_eq!((over(&mem_usage), mem_usage.over()), (0, 0));
    mem_usage.set_budget(BUDGET - 1);
    for part in mem_usage.parts.iter() {
        assert_eq!(part.checked.load(Relaxed), CHECK);
    }
    assert_eq!(over(&mem_usage), 1);
}

/// Regression: whoever had just found memory within the old budget took the marks of the new one
/// away, and what was beyond it stayed until a core had grown by a batch.
#[test]
fn a_budget_that_is_lowered_while_another_core_checks_is_seen_by_all_cores() {
    let mem_usage = MemUsage::new(BUDGET, true);
    mem_usage.add(BUDGET as i64);
    let look = || mem_usage.parts.iter().map(|it| it.bytes.load(Relaxed));
    let (budget, seen): (_, Vec<_>) = (mem_usage.budget(), look().collect());
    mem_usage.set_budget(BUDGET / 2);
    mem_usage.note_within(budget, &seen);
    assert!(mem_usage.is_check_due());
    assert!(mem_usage.parts.iter().all(|it| !mem_usage.is_calm(it)));
    assert_eq!(over(&mem_usage), BUDGET / 2);
}

#[test]
fn a_lowered_budget_is_no_growth_but_reclaimed_bytes_that_return_are() {
    let mem_usage = MemUsage::new(BUDGET, true);
    mem_usage.add(BUDGET as i64);
    mem_usage.set_budget(BUDGET / 2);
    assert_eq!((mem_usage.over(), mem_usage.ahead()), (BUDGET / 2, 0));
    mem_usage.add(10_000);
    assert_eq!(mem_usage.ahead(), 10_000);
    mem_usage.add(-110_000);
    assert_eq!(mem_usage.ahead(), 0);
    mem_usage.lower_watermark();
    mem_usage.add(30_000);
    assert_eq!(mem_usage.ahead(), 30_000);
    // The watermark follows what is in memory, but the budget may be filled.
    mem_usage.add(-(BUDGET as i64));
    mem_usage.lower_watermark();
    mem_usage.add(BUDGET as i64 / 2 - mem_usage.sum());
    assert_eq!((mem_usage.over(), mem_usage.ahead()), (0, 0));
    mem_usage.add(1);
    assert_eq!((mem_usage.over(), mem_usage.ahead()), (1, 1));
}

#[test]
fn bytes_given_back_and_taken_again_are_growth() {
    let mem_usage = MemUsage::new(BUDGET, true);
    mem_usage.add(BUDGET as i64 / 2);
    assert_eq!(over(&mem_usage), 0);
    mem_usage.add(-(BUDGET as i64) / 2);
    assert_eq!(over(&mem_usage), 0);
    // Meanwhile another core has filled the half.
    mem_usage
        .parts
        .of(cores() - 1)
        .bytes
        .fetch_add(BUDGET as i64 / 2, Relaxed);
    mem_usage.add(BUDGET as i64 / 2 + 1);
    assert_eq!(over(&mem_usage), 1);
}
