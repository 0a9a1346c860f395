use super::*;
use crate::primitive::force_core;

#[test]
fn counters_of_a_single_core_allocate_nothing() {
    force_core(1);
    let counters = PerCpuCounters::<4>::new();
    for _ in 0..100 {
        counters.add(0, 3);
        counters.raise(2, 7);
    }
    assert!(!counters.is_inflated());
    assert_eq!(
        (counters.sum(0), counters.sum(1), counters.max(2)),
        (300, 0, 7)
    );
}

#[test]
fn a_second_core_inflates_the_counters_and_keeps_the_sum() {
    let counters = PerCpuCounters::<2>::new();
    force_core(0);
    counters.add(0, 10);
    counters.raise(1, 5);
    force_core(3);
    counters.add(0, -4);
    counters.raise(1, 9);
    assert!(counters.is_inflated());
    force_core(0);
    counters.add(0, 1);
    assert_eq!((counters.sum(0), counters.max(1)), (7, 9));
}

#[test]
fn a_sum_may_be_negative_on_one_core() {
    let counters = PerCpuCounters::<1>::new();
    for core in 0..4 {
        force_core(core);
        counters.add(0, if core == 2 { -100 } else { 25 });
    }
    assert_eq!(counters.sum(0), -25);
}

#[test]
fn a_reset_lowers_every_part_of_a_maximum() {
    let counters = PerCpuCounters::<1>::new();
    for core in 0..3 {
        force_core(core);
        counters.raise(0, 100 + core as u64);
    }
    assert_eq!(counters.max(0), 102);
    counters.reset_max(0, 50);
    assert_eq!(counters.max(0), 50);
    counters.raise(0, 51);
    assert_eq!(counters.max(0), 51);
}

#[test]
fn a_counter_taken_before_inflation_still_counts() {
    force_core(0);
    let counters = PerCpuCounters::<1>::new();
    let word = counters.local_word(0);
    word.fetch_add(1, Ordering::Relaxed);
    force_core(1);
    counters.add(0, 1);
    word.fetch_add(1, Ordering::Relaxed);
    assert_eq!(counters.sum(0), 3);
}

#[test]
fn parts_of_two_cores_share_no_line() {
    let counters = PerCpuCounters::<5>::new();
    let lines: Vec<usize> = (0..4)
        .map(|core| {
            force_core(core);
            counters.add(0, 1);
            std::ptr::from_ref(counters.local_word(0)).addr() / 64
        })
        .collect();
    // The first core wrote inline, and has a part like the others since the inflation.
    assert!(lines[1..].windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
#[should_panic(expected = "this slot is reserved")]
fn a_reserved_slot_cannot_be_written_by_safe_code() {
    PerCpuCounters::<2>::owned(0, 0b10, 0b10).add(1, 1);
}

#[test]
fn concurrent_inflation_loses_no_count() {
    for _ in 0..200 {
        let counters = PerCpuCounters::<2>::new();
        std::thread::scope(|scope| {
            for core in 0..4 {
                let counters = &counters;
                scope.spawn(move || {
                    force_core(core);
                    for i in 0..100 {
                        counters.add(0, 1);
                        counters.raise(1, i);
                    }
                });
            }
        });
        assert_eq!((counters.sum(0), counters.max(1)), (400, 99));
    }
}

#[test]
fn a_counter_sums_all_cores() {
    let counter = Counter::new();
    std::thread::scope(|scope| {
        for core in 0..4 {
            let counter = &counter;
            scope.spawn(move || {
                force_core(core);
                (0..1_000).for_each(|_| counter.add(core as i64));
            });
        }
    });
    assert_eq!(counter.sum(), 6_000);
}

#[test]
fn every_core_has_a_value_of_its_own() {
    let values = PerCpu::new(|core| core);
    for core in 0..4 {
        force_core(core);
        assert_eq!(*values.get(), core);
    }
    assert_eq!(values.iter().count(), cores());
}
