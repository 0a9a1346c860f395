use super::*;
use hearth_sync::primitive::thread;
use std::collections::HashMap;

type Sums = HashMap<(u64, u64), Counts>;

fn fold_into(sums: &mut Sums, cells: &Cells, seen: &mut Seen) {
    cells.fold(seen, |found| {
        if let Found::Counts(key, counts) = found {
            sums.entry((key.ino, key.range())).or_default().add(counts);
        }
    });
}

#[test]
fn every_access_is_credited_once_however_often_lines_change_hands() {
    let cells = Cells::new();
    let (mut seen, mut sums) = (cells.seen(), Sums::new());
    let mut exact = Sums::new();
    // Far more ranges than lines; folded often enough that each access is taken.
    for round in 0..200u64 {
        for i in 0..500 {
            let (ino, range) = (1 + (round * 7 + i * 13) % 3000, i % 5);
            let key = Key::new(ino, 9, range);
            cells.note(key, Access::Read, 1, 10);
            cells.note(key, Access::Write, 1, 3);
            let sum = exact.entry((ino, range)).or_default();
            sum.add(&Counts {
                reads: 1,
                read_bytes: 10,
                writes: 1,
                written_bytes: 3,
            });
        }
        fold_into(&mut sums, &cells, &mut seen);
    }
    assert_eq!(sums, exact);
    assert_eq!(cells.dropped(), 0);
}

#[test]
fn a_fold_beside_the_recording_credits_each_access_once() {
    let cells = Cells::new();
    let (mut seen, mut sums) = (cells.seen(), Sums::new());
    let total = 400_000u64;
    thread::scope(|scope| {
        let recorder = scope.spawn(|| {
            for i in 0..total {
                // Few enough keys that the ring is not pressed between two folds.
                let key = Key::new(1 + i / 1000 % 40, 1, i % 3);
                cells.note(key, Access::Read, 1, 1);
            }
        });
        while !recorder.is_finished() {
            fold_into(&mut sums, &cells, &mut seen);
        }
    });
    fold_into(&mut sums, &cells, &mut seen);
    let reads: u64 = sums.values().map(|c| c.reads).sum();
    // One thread that may move between cores: an addition is lost only if it moves in the middle.
    assert!(total - 10 <= reads && reads <= total, "{reads} of {total}");
}

#[test]
fn without_folds_the_ring_samples_and_keeps_the_weight_right() {
    let cells = Cells::new();
    let (mut seen, mut sums) = (cells.seen(), Sums::new());
    let total = 40_000u64;
    for i in 0..total {
        cells.note(Key::new(1 + i, 1, 0), Access::Read, 1, 100);
    }
    fold_into(&mut sums, &cells, &mut seen);
    let reads: u64 = sums.values().map(|c| c.reads).sum();
    let kept = sums.len() as u64;
    // What the lines and the ring of each core that this thread ran on can hold, and no more.
    let room = (RING + LINES) * cells.cores.iter().count();
    assert!(kept <= room as u64 && kept < total / 2, "{kept} records");
    let error = reads.abs_diff(total - cells.dropped()) as f64 / total as f64;
    assert!(
        error < 0.05,
        "{reads} of {total}, {} dropped",
        cells.dropped()
    );
}

#[test]
fn a_full_ring_drops_and_says_so() {
    let cells = Cells::new();
    // More than rings and lines stand for at the last weights, on each of the cores.
    for i in 0..20_000_000 * cells.cores.iter().count() as u64 {
        cells.note(Key::new(1 + i, 1, 0), Access::Write, 1, 1);
    }
    assert!(cells.dropped() > 0);
    let mut seen = cells.seen();
    cells.fold(&mut seen, |_| {});
    let dropped = cells.dropped();
    cells.note(Key::new(1, 1, 0), Access::Write, 1, 1);
    assert_eq!(cells.dropped(), dropped, "a fold makes room again");
}

#[test]
fn recordings_become_a_sample_and_each_again_after_a_fold() {
    let cells = Cells::new();
    let key = Key::new(1, 1, 0);
    let note = || cells.note(key, Access::Read, 1, 1);
    let (mut weights, mut pressed) = (Vec::new(), 0);
    for _ in 0..(RECORDED + 6 * SAMPLED) * cells.cores.iter().count() as u64 {
        let noted = note();
        weights.push(noted.weight);
        pressed += usize::from(noted.is_pressed);
    }
    assert!(
        weights[..RECORDED as usize - 1]
            .iter()
            .all(|&weight| weight == 1)
    );
    weights.sort_unstable();
    weights.dedup();
    assert_eq!(weights, [1, 4, 16, 64, MOST]);
    assert!(pressed as u64 > 5 * SAMPLED, "who samples asks for a fold");
    let mut seen = cells.seen();
    assert!(cells.fold(&mut seen, |_| {}), "it was sampled");
    assert_eq!(note().weight, 1);
    assert!(!cells.fold(&mut seen, |_| {}));
}

#[test]
fn ends_of_files_come_through_until_a_quarter_of_the_ring_is_full() {
    let cells = Cells::new();
    let asks = (0..10_000).filter(|&i| cells.end(Key::new(1 + i, 5, 0), i % 2 == 0));
    let cores = cells.cores.iter().count();
    assert!(asks.count() >= 10_000 - ONE_BY_ONE * cores);
    let mut ended = 0;
    cells.fold(&mut cells.seen(), |found| match found {
        Found::Ended(key, apart) => {
            assert!(key.is_of(5) && apart == (key.ino % 2 == 1));
            ended += 1;
        }
        Found::Counts(..) => panic!("nothing was counted"),
    });
    assert!(ended >= RING / 4 && ended <= RING / 4 * cores);
}

#[test]
fn a_key_tells_generations_and_ranges_apart() {
    let key = Key::new(7, 3, 11);
    assert!(key.is_of(3) && !key.is_of(4));
    assert_eq!(key.range(), 11);
    assert_ne!(key, Key::new(7, 4, 11));
    assert_ne!(key, Key::new(7, 3, 12));
    assert!(Key::new(7, 3 + (1 << 21), 11).is_of(3), "21 bits are kept");
}

/// A thread that loses its core between an entry and its count leaves `head` behind what a fold has
/// read: once, what it left was taken for a ring fuller than any ring can be.
#[test]
fn a_head_that_fell_behind_the_fold_starts_again_at_the_tail() {
    let core = CoreCells::new();
    core.head.store(3, Ordering::Relaxed);
    core.tail.ring.store(7, Ordering::Relaxed);
    assert_eq!(core.place(), (7, 0));
    core.end(Key::new(1, 1, 0), false);
    assert_eq!(core.place(), (8, 1), "the ring has room");
}

/// Once, a thread that came back to its core late set `head` back over the entries of others.
#[test]
fn an_entry_at_an_old_place_does_not_set_the_ring_back() {
    let core = CoreCells::new();
    let (old, _) = core.place();
    core.head.store(5, Ordering::Relaxed);
    assert!(core.enter(old, ENDED, |_| ()));
    assert_eq!(core.place(), (5, 5));
    assert!(!core.enter(old, ENDED, |_| ()), "the entry is taken");
}
