use super::*;
use hearth_sync::primitive::{Arc, thread};

/// A thread.
const A: u32 = 100;

fn taken(slots: &ReaderAdmission) -> Vec<bool> {
    let state = slots.state.lock();
    state.slots.iter().map(|slot| slot.is_taken).collect()
}

#[test]
fn the_reader_on_the_cpu_of_the_only_client_is_alone() {
    let (slots, now) = (ReaderAdmission::new(&[0, 1, 2]), Instant::now());
    assert_eq!(taken(&slots), [true, true, true]);
    assert!(slots.saw(&[Origin::Cpu(1), Origin::Cpu(1)], false, now));
    assert_eq!(taken(&slots), [false, true, false]);
    assert!(!slots.saw(&[Origin::Cpu(1)], false, now));
}

#[test]
fn a_client_that_stays_where_it_went_gives_its_old_seat_up() {
    let (slots, now) = (ReaderAdmission::new(&[0, 4]), Instant::now());
    slots.saw(&[Origin::Cpu(0)], false, now);
    assert_eq!(taken(&slots), [true, false]);
    assert!(slots.saw(&[Origin::Cpu(4)], false, now));
    slots.saw(&[Origin::Cpu(4)], false, now + KEPT);
    assert_eq!(taken(&slots), [false, true]);
}

#[test]
fn a_client_that_is_moved_with_every_answer_finds_a_reader_wherever_it_is() {
    let (slots, mut now) = (ReaderAdmission::new(&[0, 1, 2]), Instant::now());
    slots.saw(&[Origin::Cpu(0)], false, now);
    for look in 1..100 {
        now += KEPT / 10;
        let is_change = slots.saw(&[Origin::Cpu(look % 2)], false, now);
        assert_eq!(is_change, look == 1);
        assert_eq!(taken(&slots), [true, true, false]);
    }
}

#[test]
fn a_client_that_is_alone_has_one_reader_and_takes_it_along() {
    let (slots, mut now) = (ReaderAdmission::new(&[0, 1, 2]), Instant::now());
    slots.saw(&[Origin::Cpu(0)], false, now);
    slots.saw(&[Origin::Cpu(2)], false, now);
    assert_eq!(taken(&slots), [true, false, true]);
    for cpu in [2, 0, 0, 1] {
        now += Duration::from_millis(1);
        slots.saw(&[Origin::Cpu(cpu)], true, now);
        let only: Vec<bool> = (0..3).map(|own| own == cpu).collect();
        assert_eq!(taken(&slots), only);
    }
    slots.saw(&[Origin::Anywhere], true, now);
    assert_eq!(taken(&slots), [true, true, true]);
}

#[test]
fn pages_written_back_one_after_the_other_are_for_everybody_and_one_by_itself_says_nothing() {
    let slots = ReaderAdmission::new(&[0]);
    let asks = |thread, is_written_back| {
        slots.serves(0, thread, is_written_back);
        slots.last().map(|(_, id)| id).last().flatten()
    };
    assert_eq!(asks(A, false), Some(A));
    assert_eq!(asks(0, true), None);
    assert_eq!(asks(A, false), Some(A));
    assert_eq!(asks(0, true), None);
    for _ in 0..3 {
        assert_eq!(asks(0, true), Some(EVERYBODY));
    }
    assert_eq!(asks(A, false), Some(A));
}

#[test]
fn a_seat_is_kept_for_another_client_for_a_while() {
    let (slots, now) = (ReaderAdmission::new(&[0, 1]), Instant::now());
    slots.saw(&[Origin::Cpu(0)], false, now);
    slots.saw(&[Origin::Cpu(1)], false, now + KEPT / 2);
    assert_eq!(taken(&slots), [true, true]);
    slots.saw(&[], false, now + KEPT * 2);
    assert_eq!(taken(&slots), [true, true]);
    slots.saw(&[Origin::Cpu(1)], false, now + KEPT);
    assert_eq!(taken(&slots), [false, true]);
}

#[test]
fn requests_from_anywhere_seat_everybody() {
    let (slots, mut now) = (ReaderAdmission::new(&[0, 1]), Instant::now());
    for origin in [Origin::Anywhere, Origin::Cpu(7)] {
        now += KEPT * 3;
        slots.saw(&[Origin::Cpu(0)], false, now);
        assert_eq!(taken(&slots), [true, false]);
        slots.saw(&[origin], false, now);
        assert_eq!(taken(&slots), [true, true]);
        slots.saw(&[Origin::Cpu(0)], false, now + KEPT / 2);
        assert_eq!(taken(&slots), [true, true]);
        slots.saw(&[Origin::Cpu(0)], false, now + KEPT);
        assert_eq!(taken(&slots), [true, false]);
    }
}

#[test]
fn somebody_is_always_seated() {
    let slots = ReaderAdmission::new(&[0, 1, 2]);
    let (mut now, mut random) = (Instant::now(), 1u64);
    let mut draw = |below: u64| {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    for _ in 0..100_000 {
        let origins: Vec<_> = (0..draw(4))
            .map(|_| match draw(20) {
                0 => Origin::Anywhere,
                _ => Origin::Cpu(draw(4) as usize),
            })
            .collect();
        slots.saw(&origins, false, now);
        assert!(taken(&slots).contains(&true));
        now += Duration::from_micros(draw(8000));
    }
}

#[test]
fn a_reader_waits_until_it_is_seated_or_the_mount_is_gone() {
    let (slots, now) = (Arc::new(ReaderAdmission::new(&[0, 1])), Instant::now());
    slots.wait(1);
    slots.saw(&[Origin::Cpu(0)], false, now);
    for end in ["admitted", "closed"] {
        let waiting = Arc::clone(&slots);
        let reader = thread::spawn(move || waiting.wait(1));
        thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished(), "{end}");
        match end {
            "admitted" => assert!(slots.saw(&[Origin::Cpu(1)], false, now)),
            _ => slots.close(),
        }
        reader.join().unwrap();
        if end == "admitted" {
            slots.saw(&[Origin::Cpu(0)], false, now + KEPT);
        }
    }
}

#[test]
fn a_request_rouses_the_lookout() {
    let slots = Arc::new(ReaderAdmission::new(&[0, 1]));
    let resting = Arc::clone(&slots);
    let monitor = thread::spawn(move || resting.pause(None));
    // Relaxed: only looked at.
    while !slots.rests.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    slots.serves(1, A, false);
    assert!(monitor.join().unwrap());
    let last: Vec<_> = slots.last().map(|(_, id)| id).collect();
    assert_eq!(last, [None, Some(A)]);
    slots.close();
    assert!(!slots.pause(None) && !slots.pause(Some(KEPT)));
}

/// The kernel asks whoever reads, so while others make calls the last one goes on.
#[test]
fn the_last_one_that_reads_may_not_block_and_needs_no_admission() {
    let (slots, now) = (ReaderAdmission::of_callers(&[0, 1, 0, 1]), Instant::now());
    slots.saw(&[Origin::Cpu(0)], false, now);
    assert_eq!(taken(&slots), [true, false, true, false], "both of the CPU");
    slots.wait(0);
    slots.wait(2);
    assert!(slots.has_read(), "the other one reads");
    assert!(!slots.has_read(), "nobody else does");
    // Both are in a call, and a reader without admission comes.
    slots.wait(1);
    assert!(!slots.has_read());
    slots.wait(0);
    let slots = Arc::new(slots);
    let waits = Arc::clone(&slots);
    let waiting = thread::spawn(move || waits.wait(3));
    thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished(), "somebody reads");
    slots.close();
    waiting.join().unwrap();
    // Half of them may be in calls, and go on with the next ones.
    let first = slots.begin_call().unwrap();
    let second = slots.begin_call().unwrap();
    assert!(slots.begin_call().is_none() && slots.begin_call().is_none());
    drop(first);
    assert!(slots.begin_call().is_some());
    drop(second);
    // Where no reader may block, none may.
    let slots = ReaderAdmission::new(&[0, 1]);
    slots.wait(0);
    slots.wait(1);
    assert!(!slots.has_read());
}
