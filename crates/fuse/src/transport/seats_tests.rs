use super::*;
use hearth_sync::primitive::{Arc, thread};

const A: u32 = 100;
const B: u32 = 200;

fn on(id: u32, cpu: usize) -> Origin {
    Origin::Thread { id, cpu }
}

fn taken(seats: &Seats) -> Vec<bool> {
    let state = seats.state.lock();
    state.seats.iter().map(|seat| seat.is_taken).collect()
}

#[test]
fn the_reader_on_the_cpu_of_the_only_client_is_alone() {
    let (seats, now) = (Seats::new(&[0, 1, 2]), Instant::now());
    assert_eq!(taken(&seats), [true, true, true]);
    assert!(seats.saw(&[on(A, 1), on(A, 1)], now));
    assert_eq!(taken(&seats), [false, true, false]);
    assert!(!seats.saw(&[on(A, 1)], now));
}

#[test]
fn a_client_that_moves_takes_the_seat_along() {
    let (seats, now) = (Seats::new(&[0, 4]), Instant::now());
    seats.saw(&[on(A, 0)], now);
    seats.saw(&[on(A, 4)], now);
    assert_eq!(taken(&seats), [false, true]);
}

#[test]
fn a_seat_is_kept_for_another_client_for_a_while() {
    let (seats, now) = (Seats::new(&[0, 1]), Instant::now());
    seats.saw(&[on(A, 0)], now);
    seats.saw(&[on(B, 1)], now + KEPT / 2);
    assert_eq!(taken(&seats), [true, true]);
    seats.saw(&[], now + KEPT * 2);
    assert_eq!(taken(&seats), [true, true]);
    seats.saw(&[on(B, 1)], now + KEPT);
    assert_eq!(taken(&seats), [false, true]);
}

#[test]
fn requests_from_anywhere_seat_everybody() {
    let (seats, mut now) = (Seats::new(&[0, 1]), Instant::now());
    for origin in [Origin::Anywhere, on(A, 7)] {
        now += KEPT * 3;
        seats.saw(&[on(A, 0)], now);
        assert_eq!(taken(&seats), [true, false]);
        seats.saw(&[origin], now);
        assert_eq!(taken(&seats), [true, true]);
        seats.saw(&[on(A, 0)], now + KEPT / 2);
        assert_eq!(taken(&seats), [true, true]);
        seats.saw(&[on(A, 0)], now + KEPT);
        assert_eq!(taken(&seats), [true, false]);
    }
}

#[test]
fn somebody_is_always_seated() {
    let seats = Seats::new(&[0, 1, 2]);
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
                id => on(id as u32, draw(4) as usize),
            })
            .collect();
        seats.saw(&origins, now);
        assert!(taken(&seats).contains(&true));
        now += Duration::from_micros(draw(8000));
    }
}

#[test]
fn a_reader_waits_until_it_is_seated_or_the_mount_is_gone() {
    let (seats, now) = (Arc::new(Seats::new(&[0, 1])), Instant::now());
    seats.wait(1);
    seats.saw(&[on(A, 0)], now);
    for end in ["seated", "closed"] {
        let waiting = Arc::clone(&seats);
        let reader = thread::spawn(move || waiting.wait(1));
        thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished(), "{end}");
        match end {
            "seated" => assert!(seats.saw(&[on(B, 1)], now)),
            _ => seats.close(),
        }
        reader.join().unwrap();
        if end == "seated" {
            seats.saw(&[on(A, 0)], now + KEPT);
        }
    }
}

#[test]
fn a_request_rouses_the_lookout() {
    let seats = Arc::new(Seats::new(&[0, 1]));
    let resting = Arc::clone(&seats);
    let lookout = thread::spawn(move || resting.pause(None));
    // Relaxed: only looked at.
    while !seats.rests.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    seats.serves(1, A, false);
    assert!(lookout.join().unwrap());
    let last: Vec<_> = seats.last().map(|(_, id)| id).collect();
    assert_eq!(last, [None, Some(A)]);
    seats.close();
    assert!(!seats.pause(None) && !seats.pause(Some(KEPT)));
}
