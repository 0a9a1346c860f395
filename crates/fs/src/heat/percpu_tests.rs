use super::super::sample_budget::MOST;
use super::*;
use hearth_sync::primitive::thread;
use std::collections::HashMap;

type CountSums = HashMap<(u64, u64), Counts>;

fn fold_into(sums: &mut CountSums, table: &PerCpuTable, seen: &mut DrainProgress) {
    table.drain(seen, |found| {
        if let Drained::Counts(key, counts) = found {
            sums.entry((key.ino, key.range())).or_default().add(counts);
        }
    });
    table.renew(1000);
}

/// Whether the key is one of a file with this generation.
fn is_of(key: Key, generation: u32) -> bool {
    key.file() == super::super::key::file_id(key.ino, generation)
}

#[test]
fn every_access_is_credited_once_however_often_slots_change_their_key() {
    let table = PerCpuTable::new();
    let (mut seen, mut sums) = (table.seen(), CountSums::new());
    let mut exact = CountSums::new();
    // Far more ranges than lines; folded often enough that each access is taken.
    for round in 0..200u64 {
        for i in 0..500 {
            let (ino, range) = (1 + (round * 7 + i * 13) % 3000, i % 5);
            let key = Key::new(ino, 9, range);
            table.note(key, Access::Read, 1, 10);
            table.note(key, Access::Write, 1, 3);
            let sum = exact.entry((ino, range)).or_default();
            sum.add(&Counts {
                reads: 1,
                read_bytes: 10,
                writes: 1,
                written_bytes: 3,
                estimated: 0,
            });
        }
        fold_into(&mut sums, &table, &mut seen);
    }
    assert_eq!(sums, exact);
    assert_eq!(table.dropped(), 0);
}

#[test]
fn a_drain_beside_recording_credits_each_access_once() {
    let table = PerCpuTable::new();
    let (mut seen, mut sums) = (table.seen(), CountSums::new());
    let total = 400_000u64;
    thread::scope(|scope| {
        let recorder = scope.spawn(|| {
            for i in 0..total {
                // Few enough keys that the ring is not pressed between two drains.
                let key = Key::new(1 + i / 1000 % 40, 1, i % 3);
                table.note(key, Access::Read, 1, 1);
            }
        });
        while !recorder.is_finished() {
            fold_into(&mut sums, &table, &mut seen);
        }
    });
    fold_into(&mut sums, &table, &mut seen);
    let reads: u64 = sums.values().map(|c| c.reads).sum();
    // One thread that may move between cores: an addition is lost only if it moves in the middle.
    assert!(total - 10 <= reads && reads <= total, "{reads} of {total}");
}

/// Accesses as a thread lets them pass, but without chance.
#[derive(Default)]
struct WeightedSampler {
    passes: u64,
    weight: u64,
    /// Accesses that the table had no room for.
    lost: u64,
}

impl WeightedSampler {
    fn note(&mut self, table: &PerCpuTable, key: Key, bytes: u64) {
        if self.passes > 0 {
            self.passes -= 1;
            return;
        }
        let stands_for = self.weight.max(1);
        let noted = table.note(key, Access::Read, stands_for, bytes);
        (self.weight, self.passes) = (noted.weight, noted.weight - 1);
        self.lost += u64::from(noted.is_lost) * stands_for;
    }
}

#[test]
fn without_drains_a_full_ring_leads_to_sampling_with_the_right_weight() {
    let table = PerCpuTable::new();
    let (mut seen, mut sums) = (table.seen(), CountSums::new());
    let mut sampler = WeightedSampler::default();
    let total = 100_000u64;
    for i in 0..total {
        sampler.note(&table, Key::new(1 + i, 1, 0), 100);
    }
    fold_into(&mut sums, &table, &mut seen);
    let reads: u64 = sums.values().map(|c| c.reads).sum();
    let estimated: u64 = sums.values().map(|c| c.estimated).sum();
    let bytes: u64 = sums.values().map(|c| c.read_bytes).sum();
    assert_eq!((bytes, table.dropped()), (100 * reads, 0));
    let kept = sums.len() as u64;
    assert_eq!(reads - estimated, kept, "each was used once");
    assert!(sampler.lost > 0);
    let reads = reads + sampler.lost;
    assert!(kept < total / 8, "{kept} records");
    let error = reads.abs_diff(total) as f64 / total as f64;
    assert!(error < 0.05, "{reads} of {total}");
}

#[test]
fn a_full_ring_refuses_accesses_until_a_drain_makes_room() {
    let table = PerCpuTable::new();
    // Whatever the weight asked for: more than rings and lines hold, on each of the cores.
    let mut lost = 0;
    for i in 0..10_000 * table.cpus.iter().count() as u64 {
        let noted = table.note(Key::new(1 + i, 1, 0), Access::Write, 16, 1);
        lost += 16 * u64::from(noted.is_lost);
    }
    let mut sum = 0;
    let mut seen = table.seen();
    table.drain(&mut seen, |found| {
        if let Drained::Counts(_, counts) = found {
            sum += counts.writes;
        }
    });
    let recorded = table.recorded();
    assert!(lost > 0);
    assert_eq!(
        (16 * recorded.times, sum + lost),
        (recorded.stood, recorded.stood)
    );
    let noted = table.note(Key::new(1, 1, 0), Access::Write, 1, 1);
    assert!(!noted.is_lost, "a drain makes room again");
}

#[test]
fn a_burst_is_recorded_one_by_one_and_sustained_load_is_sampled() {
    let sb = CpuTable::new();
    let mut next = 1;
    let mut record = |sb: &CpuTable| {
        next = sb.record(next).0;
        next
    };
    let burst: Vec<u64> = (0..RECORDS.burst + 7 * RECORDS.step)
        .map(|_| record(&sb))
        .collect();
    assert!(
        burst[..RECORDS.burst as usize - 1]
            .iter()
            .all(|&weight| weight == 1)
    );
    let mut beyond = burst[RECORDS.burst as usize..].to_vec();
    beyond.dedup();
    assert_eq!(beyond, [4, 16, 64, 256, MOST]);
    // A period at the same speed begins where this one should have begun.
    assert!(!sb.renew(100), "draws go on");
    assert!(sb.tail.records.is_sampled());
    assert_eq!(record(&sb), MOST);
    // A quiet time brings all back.
    assert!(sb.renew(100), "a pause");
    sb.renew(60_000);
    assert!(!sb.tail.records.is_sampled());
    let one_by_one = (0..RECORDS.burst).take_while(|_| record(&sb) == 1).count();
    assert_eq!(one_by_one as u64 + 1, RECORDS.burst);
}

#[test]
fn notices_of_ended_files_are_queued_until_a_quarter_of_the_ring_is_full() {
    let table = PerCpuTable::new();
    let cores = table.cpus.iter().count();
    // More than all rings take, whichever cores this thread is on.
    let ends = (RING / 4 * cores + 1_000) as u64;
    let asks = (0..ends).filter(|&i| table.end(Key::new(1 + i, 5, 0), i % 2 == 0).drain_requested);
    assert!(asks.count() >= 1_000);
    let mut ended = 0;
    table.drain(&mut table.seen(), |found| match found {
        Drained::Ended(key, striped) => {
            assert!(is_of(key, 5) && striped == (key.ino % 2 == 1));
            ended += 1;
        }
        Drained::Counts(..) => panic!("nothing was counted"),
    });
    assert!(ended >= RING / 4 && ended <= RING / 4 * cores);
}

#[test]
fn a_key_tells_generations_and_ranges_apart() {
    let key = Key::new(7, 3, 11);
    assert!(is_of(key, 3) && !is_of(key, 4));
    assert_eq!(key.range(), 11);
    assert_ne!(key, Key::new(7, 4, 11));
    assert_ne!(key, Key::new(7, 3, 12));
    assert!(is_of(Key::new(7, 3 + (1 << 21), 11), 3), "21 bits are kept");
}

/// A thread that loses its core between an entry and its count leaves `head` behind what a drain
/// has read: once, what it left was taken for a ring fuller than any ring can be.
#[test]
fn a_head_behind_the_drain_starts_again_at_the_tail() {
    let sb = CpuTable::new();
    sb.head.store(3, Ordering::Relaxed);
    sb.tail.ring.store(7, Ordering::Relaxed);
    assert_eq!(sb.place(), (7, 0));
    sb.end(Key::new(1, 1, 0), false);
    assert_eq!(sb.place(), (8, 1), "the ring has room");
}

/// Once, a thread that came back to its core late set `head` back over the entries of others.
#[test]
fn an_entry_at_an_old_index_does_not_move_the_head_back() {
    let sb = CpuTable::new();
    let (old, _) = sb.place();
    sb.head.store(5, Ordering::Relaxed);
    assert!(sb.enter(old, ENDED, |_| ()));
    assert_eq!(sb.place(), (5, 5));
    assert!(!sb.enter(old, ENDED, |_| ()), "the entry is taken");
}
