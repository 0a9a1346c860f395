//! Refusals in a loop are reported, and take no place in the list from other events.

use super::{Bench, TUNING, bench_of, limit, owners};
use crate::quota::QuotaEventKind::{Refused, SoftCrossed, SoftReturned};
use crate::quota::state::Tuning;
use crate::quota::{EVENTS_KEPT, IdSettings, QuotaEvent, QuotaEventKind, QuotaId, RefusalReason};
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

const HARD: QuotaEventKind = Refused(RefusalReason::Hard);
/// As in a volume.
const SINGLY: usize = 8;

/// As a volume has it; the clock begins at 1000.
fn gated() -> Bench {
    let singly = SINGLY as u32;
    bench_of(Tuning { singly, ..TUNING }, 1000, 1_000_000)
}

/// Reads what is new, as the log does.
fn follow(bench: &Bench, heard: &mut Vec<QuotaEvent>) {
    let after = heard.last().map_or(0, |event| event.sequence);
    let ledger = &bench.ledger;
    let news = ledger.with_state(&pin(), |state, _| state.events_after(after));
    for event in news {
        let last = heard.last().map_or(0, |event| event.sequence);
        assert_eq!(event.sequence, last + 1, "one went by untold");
        heard.push(event);
    }
}

fn pass(bench: &Bench, now: i64) {
    bench.clock.store(now, Relaxed);
    assert!(bench.ledger.report_ended(64));
}

/// An inode that does not fit, and room for it after all.
fn refuse_and_make_room(bench: &Bench, account: u32) {
    assert!(bench.use_inodes(owners(1, 7, 0), 1).is_err());
    bench.free(account, 1);
    assert!(bench.use_inodes(owners(1, 7, 0), 1).is_ok());
}

/// What happened, and how often.
fn told(events: &[QuotaEvent]) -> Vec<(QuotaEventKind, u64)> {
    events.iter().map(|e| (e.what, e.times)).collect()
}

#[test]
fn a_hundred_thousand_refusals_of_one_id_evict_no_event_of_another() {
    let bench = gated();
    bench.set(QuotaId::user(1), limit(Some(10), None));
    bench.set(QuotaId::user(2), limit(None, Some(1)));
    bench.use_inodes(owners(2, 8, 0), 2).unwrap();
    let account = bench.use_inodes(owners(1, 7, 0), 10).unwrap();
    let mut heard = Vec::new();
    for n in 0..100_000 {
        refuse_and_make_room(&bench, account);
        if n % 10 == 0 {
            pass(&bench, 1000 + n / 10);
            follow(&bench, &mut heard);
        }
    }
    pass(&bench, 20_000);
    follow(&bench, &mut heard);
    let of_one = heard.iter().filter(|event| event.who == QuotaId::user(1));
    let (lines, times) = of_one.fold((0, 0), |(n, sum), event| (n + 1, sum + event.times));
    assert_eq!(times, 100_000, "each is counted once");
    let minutes = 10_000 / 60 + 1;
    assert!(lines <= minutes * (SINGLY + 1), "{lines} lines");
    let kept = bench.events();
    assert_eq!(kept.len(), EVENTS_KEPT, "enough to fill the ring");
    let of_another = |event: &&QuotaEvent| event.who == QuotaId::user(2);
    let of_another: Vec<_> = kept.iter().filter(of_another).map(|e| e.what).collect();
    let ended = QuotaEventKind::GraceEnded;
    assert_eq!(of_another, [SoftCrossed { deadline: 1100 }, ended]);
}

#[test]
fn repeated_events_are_reported_at_the_end_of_the_minute_with_the_latest_state_last() {
    let bench = gated();
    bench.set(QuotaId::user(1), limit(None, Some(1)));
    let account = bench.use_inodes(owners(1, 7, 0), 1).unwrap();
    for n in 0..20 {
        bench.clock.store(1000 + n, Relaxed);
        bench.use_inodes(owners(1, 7, 0), 1).unwrap();
        bench.free(account, 1);
    }
    pass(&bench, 1059);
    assert_eq!(bench.events().len(), 2 * SINGLY, "one by one");
    pass(&bench, 1060);
    let events = bench.events();
    let crossed = SoftCrossed { deadline: 1119 };
    let rest = [(crossed, 12), (SoftReturned, 12)];
    assert_eq!(told(&events[2 * SINGLY..]), rest);
    assert_eq!(events.last().map(|event| event.time), Some(1019));
    assert!(events[..2 * SINGLY].iter().all(|event| event.times == 1));
    pass(&bench, 5000);
    assert_eq!(bench.events().len(), 2 * SINGLY + 2, "once");
    // After a quiet minute all is told at once again.
    bench.use_inodes(owners(1, 7, 0), 1).unwrap();
    let again = (SoftCrossed { deadline: 5100 }, 1);
    assert_eq!(told(&bench.events()).last(), Some(&again));
}

#[test]
fn an_event_of_another_kind_is_reported_at_once_after_the_held_back_ones() {
    let bench = gated();
    let own = IdSettings {
        limits: [None, Some(limit(Some(10), Some(2)))],
        grace: [None, Some(30)],
    };
    let set = |own| {
        let ledger = &bench.ledger;
        ledger.with_state(&pin(), |state, cx| state.set_own(QuotaId::user(1), own, cx));
    };
    set(own);
    let account = bench.use_inodes(owners(1, 7, 0), 10).unwrap();
    for _ in 0..20 {
        refuse_and_make_room(&bench, account);
    }
    bench.free(account, 1);
    bench.clock.store(1030, Relaxed);
    assert!(bench.use_inodes(owners(1, 7, 0), 1).is_err());
    let late = Refused(RefusalReason::GraceEnded);
    let singly = std::iter::repeat_n((HARD, 1), SINGLY);
    let expected: Vec<_> = [(SoftCrossed { deadline: 1030 }, 1)]
        .into_iter()
        .chain(singly)
        .chain([(HARD, 12), (late, 1)])
        .collect();
    assert_eq!(told(&bench.events()), expected);
    let line = bench.events()[SINGLY + 1].to_string();
    assert!(
        line.ends_with(" refused-hard inodes=10 limit=10 times=12"),
        "{line}"
    );
}

#[test]
fn more_ids_than_windows_lose_no_count() {
    let bench = gated();
    let mut heard = Vec::new();
    let each = SINGLY as u64 + 3;
    for uid in 1..2000 {
        bench.set(QuotaId::user(uid), limit(Some(1), None));
        let account = bench.use_inodes(owners(uid, 7, 0), 1).unwrap();
        for _ in 0..each {
            assert!(bench.use_inodes(owners(uid, 7, 0), 1).is_err());
            bench.free(account, 1);
            bench.use_inodes(owners(uid, 7, 0), 1).unwrap();
        }
        follow(&bench, &mut heard);
    }
    pass(&bench, 2000);
    follow(&bench, &mut heard);
    for uid in 1..2000 {
        let of = heard.iter().filter(|event| event.who == QuotaId::user(uid));
        assert_eq!(of.map(|event| event.times).sum::<u64>(), each, "{uid}");
    }
}
