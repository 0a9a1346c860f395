use super::*;
use crate::primitive::force_core;

#[test]
fn one_core_alone_allocates_nothing() {
    force_core(1);
    let spread = Spread::<4>::new();
    for _ in 0..100 {
        spread.add(0, 3);
        spread.raise(2, 7);
    }
    assert!(!spread.is_spread());
    assert_eq!((spread.sum(0), spread.sum(1), spread.max(2)), (300, 0, 7));
}

#[test]
fn a_second_core_gets_a_part_and_the_sum_stays() {
    let spread = Spread::<2>::new();
    force_core(0);
    spread.add(0, 10);
    spread.raise(1, 5);
    force_core(3);
    spread.add(0, -4);
    spread.raise(1, 9);
    assert!(spread.is_spread());
    force_core(0);
    spread.add(0, 1);
    assert_eq!((spread.sum(0), spread.max(1)), (7, 9));
}

#[test]
fn a_sum_may_be_below_zero_on_one_core() {
    let spread = Spread::<1>::new();
    for core in 0..4 {
        force_core(core);
        spread.add(0, if core == 2 { -100 } else { 25 });
    }
    assert_eq!(spread.sum(0), -25);
}

#[test]
fn a_reset_lowers_every_part_of_a_maximum() {
    let spread = Spread::<1>::new();
    for core in 0..3 {
        force_core(core);
        spread.raise(0, 100 + core as u64);
    }
    assert_eq!(spread.max(0), 102);
    spread.reset_max(0, 50);
    assert_eq!(spread.max(0), 50);
    spread.raise(0, 51);
    assert_eq!(spread.max(0), 51);
}

#[test]
fn a_word_taken_before_the_split_still_counts() {
    force_core(0);
    let spread = Spread::<1>::new();
    let word = spread.cell(0);
    word.fetch_add(1, Ordering::Relaxed);
    force_core(1);
    spread.add(0, 1);
    word.fetch_add(1, Ordering::Relaxed);
    assert_eq!(spread.sum(0), 3);
}

#[test]
fn parts_of_two_cores_share_no_line() {
    let spread = Spread::<5>::new();
    let lines: Vec<usize> = (0..4)
        .map(|core| {
            force_core(core);
            spread.add(0, 1);
            std::ptr::from_ref(spread.cell(0)).addr() / 64
        })
        .collect();
    // The first core wrote inline, and has a part like the others since.
    assert!(lines[1..].windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
#[should_panic(expected = "this lane is reserved")]
fn a_reserved_lane_is_not_written_from_outside() {
    Spread::<2>::owned([0, 0], 0b10, 0b10).add(1, 1);
}

#[test]
fn threads_that_split_together_lose_no_count() {
    for _ in 0..200 {
        let spread = Spread::<2>::new();
        std::thread::scope(|scope| {
            for core in 0..4 {
                let spread = &spread;
                scope.spawn(move || {
                    force_core(core);
                    for i in 0..100 {
                        spread.add(0, 1);
                        spread.raise(1, i);
                    }
                });
            }
        });
        assert_eq!((spread.sum(0), spread.max(1)), (400, 99));
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
    let values = PerCore::new(|core| core);
    for core in 0..4 {
        force_core(core);
        assert_eq!(*values.get(), core);
    }
    assert_eq!(values.iter().count(), cores());
}
