use super::*;
use crate::heat::record::RECORD_BYTES;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const MINUTE: Millis = 60_000;

fn lives() -> HalfLives {
    HalfLives::from_millis(60 * MINUTE, 24 * 60 * MINUTE)
}

fn reads(n: u64) -> Counts {
    Counts {
        reads: n,
        read_bytes: n,
        ..Counts::default()
    }
}

fn touch(
    shard: &mut Shard,
    file: FileId,
    range: u64,
    counts: &Counts,
    now: Millis,
    lives: &HalfLives,
) {
    shard.touch_file(file, counts, now, lives);
    shard.touch_range(file, range, counts, now, lives);
}

/// Every link agrees with the table.
fn check(shard: &Shard) {
    let mut seen = HashSet::new();
    for record in shard.records() {
        assert!(seen.insert((record.file, record.range)));
        assert!(shard.get(record.file, record.range).is_some());
        if record.range != WHOLE {
            assert!(
                shard.ranges(record.file).any(|r| r.range == record.range),
                "a range belongs to its file"
            );
            assert!(shard.get(record.file, WHOLE).is_some());
        }
    }
    // An anchor is there as long as it has something to hold.
    let anchored: HashSet<FileId> = seen.iter().map(|&(file, _)| file).collect();
    let anchors = anchored
        .iter()
        .filter(|&&file| !seen.contains(&(file, WHOLE)))
        .count();
    assert_eq!(seen.len() + anchors, shard.len());
    let in_buckets: u64 = [true, false]
        .iter()
        .flat_map(|&files| shard.histogram(files))
        .sum();
    assert_eq!(in_buckets as usize, seen.len());
}

#[test]
fn a_limit_holds_and_the_coldest_go_first() {
    let mut shard = Shard::new();
    shard.set_max(400);
    for i in 0..10_000u64 {
        // Every hundredth file is read again and again, the others once.
        let (file, n) = match i % 100 {
            0 => ((1 + i / 100, 1), 200),
            _ => ((1000 + i, 1), 1),
        };
        touch(&mut shard, file, 0, &reads(n), i * 10, &lives());
        assert!(shard.len() <= 400);
        assert!(shard.bytes() <= 400 * RECORD_BYTES);
    }
    check(&shard);
    for hot in 1..=100 {
        assert!(
            shard.get((hot, 1), 0).is_some(),
            "hot file {hot} was evicted"
        );
    }
}

#[test]
fn ranges_go_before_their_file() {
    let mut shard = Shard::new();
    touch(&mut shard, (1, 1), 0, &reads(1), 0, &lives());
    touch(&mut shard, (1, 1), 1, &reads(1), 0, &lives());
    shard.limit(2);
    assert!(shard.get((1, 1), WHOLE).is_some());
    assert_eq!(shard.ranges((1, 1)).count(), 1);
    check(&shard);
}

#[test]
fn a_lower_limit_gives_memory_back() {
    let mut shard = Shard::new();
    for i in 1..=5000 {
        touch(&mut shard, (i, 1), 0, &reads(i), 0, &lives());
    }
    let before = shard.bytes();
    shard.limit(100);
    assert_eq!(shard.len(), 100);
    assert!(shard.bytes() < before / 20, "{} of {before}", shard.bytes());
    assert!(shard.get((5000, 1), WHOLE).is_some());
    check(&shard);
}

#[test]
fn free_slots_of_the_slab_count_against_the_limit() {
    let mut shard = Shard::new();
    for file in 0..1000 {
        touch(&mut shard, (file, 1), 0, &reads(1), 0, &lives());
    }
    (1..1000).for_each(|file| shard.forget((file, 1)));
    shard.limit(100);
    check(&shard);
    assert_eq!(shard.len(), 2);
    assert!(shard.bytes() <= 100 * RECORD_BYTES, "{}", shard.bytes());
}

#[test]
fn ranges_of_a_file_whose_record_is_in_another_shard_leave_nothing_behind() {
    let mut shard = Shard::new();
    for i in 1..=5000 {
        shard.touch_range((i, 1), 64, &reads(1), 0, &lives());
        shard.touch_range((i, 1), 65, &reads(1), 0, &lives());
    }
    assert_eq!((shard.len(), shard.histogram(true)[10]), (15_000, 0));
    check(&shard);
    (1..=1000).for_each(|i| shard.truncate((i, 1), 64));
    (1001..=2000).for_each(|i| shard.truncate((i, 1), 65));
    (2001..=4999).for_each(|i| shard.forget((i, 1)));
    assert_eq!(shard.len(), 2000 + 3);
    check(&shard);
    let before = shard.bytes();
    shard.sweep(1, 0, &lives(), |_| false, |_, _| ());
    assert!(shard.bytes() < before / 5, "{} of {before}", shard.bytes());
    shard.limit(2);
    check(&shard);
    shard.sweep(usize::MAX, 0, &lives(), |_| true, |_, _| ());
    assert_eq!(shard.len(), 0);
}

#[test]
fn the_sweep_moves_what_cooled_and_forgets_what_ended() {
    let mut shard = Shard::new();
    for i in 1..=100 {
        touch(&mut shard, (i, 1), 0, &reads(1000), 0, &lives());
    }
    assert_eq!(shard.histogram(true)[255], 100);
    while shard.sweep(10, 60 * MINUTE, &lives(), |(ino, _)| ino > 90, |_, _| {}) > 0 {
        if shard.len() == 180 && shard.histogram(true)[255] == 0 {
            break;
        }
    }
    assert_eq!(
        shard.histogram(true)[127],
        90,
        "half as warm after a half-life"
    );
    assert!(shard.get((95, 1), WHOLE).is_none() && shard.get((95, 1), 0).is_none());
    check(&shard);
}

#[test]
fn a_sweep_visits_at_most_its_steps_and_wraps_around() {
    let mut shard = Shard::new();
    (1..=500).for_each(|i| touch(&mut shard, (i, 1), 0, &reads(1), 0, &lives()));
    let mut asked = HashMap::<FileId, u32>::new();
    for _ in 0..shard.slots() / 10 {
        let before = asked.values().sum::<u32>();
        let gone = |file| {
            *asked.entry(file).or_default() += 1;
            false
        };
        assert_eq!(shard.sweep(10, MINUTE, &lives(), gone, |_, _| {}), 10);
        assert!(asked.values().sum::<u32>() - before <= 10);
    }
    assert_eq!(asked.len(), 500);
    assert!(asked.values().all(|&times| times == 1), "each once a round");
}

#[derive(Clone, Debug)]
enum ShardOp {
    Touch(u64, u64, u64),
    Forget(u64),
    Truncate(u64, u64),
    Limit(usize),
    Sweep(usize),
}

fn step() -> impl Strategy<Value = ShardOp> {
    prop_oneof![
        6 => (1u64..20, 0u64..6, 1u64..100).prop_map(|(f, r, n)| ShardOp::Touch(f, r, n)),
        1 => (1u64..20).prop_map(ShardOp::Forget),
        1 => (1u64..20, 0u64..6).prop_map(|(f, r)| ShardOp::Truncate(f, r)),
        1 => (2usize..60).prop_map(ShardOp::Limit),
        1 => (1usize..40).prop_map(ShardOp::Sweep),
    ]
}

proptest! {
    #[test]
    fn links_stay_whole_and_counts_right(steps in prop::collection::vec(step(), 1..200)) {
        let mut shard = Shard::new();
        let mut reads_of: HashMap<(u64, u64), u64> = HashMap::new();
        let mut limited = false;
        for (i, step) in steps.into_iter().enumerate() {
            let now = i as u64 * MINUTE;
            match step {
                ShardOp::Touch(file, range, n) => {
                    // The records of the others are elsewhere, ranges of theirs are here.
                    if file < 10 {
                        shard.touch_file((file, 1), &reads(n), now, &lives());
                    }
                    shard.touch_range((file, 1), range, &reads(n), now, &lives());
                    *reads_of.entry((file, range)).or_default() += n;
                }
                ShardOp::Forget(file) => {
                    shard.forget((file, 1));
                    reads_of.retain(|key, _| key.0 != file);
                }
                ShardOp::Truncate(file, first) => {
                    shard.truncate((file, 1), first);
                    reads_of.retain(|key, _| key.0 != file || key.1 < first);
                }
                ShardOp::Limit(max) => {
                    shard.limit(max);
                    limited = true;
                }
                ShardOp::Sweep(steps) => {
                    shard.sweep(steps, now, &lives(), |_| false, |_, _| {});
                }
            }
            check(&shard);
        }
        if !limited {
            for ((file, range), n) in reads_of {
                let record = shard.get((file, 1), range).expect("touched and never dropped");
                prop_assert_eq!(record.total.reads, n);
            }
        }
    }
}
