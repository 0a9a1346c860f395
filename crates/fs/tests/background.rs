//! What the background does by itself, seen from outside.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{Clock, Credentials, Op, Time, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Milliseconds that the test sets.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Time {
        Time::from_nanos(1_700_000_000_000_000_000)
    }

    fn monotonic(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

#[test]
fn rates_of_operations_stand_in_the_statistics_and_follow_them() {
    let hand = Hand(Arc::new(AtomicU64::new(1000)));
    let volume = Volume::builder()
        .workers(0)
        .clock(hand.clone())
        .build()
        .unwrap();
    let process = volume.process(Credentials::root());
    let rate = |window: &str| -> f64 {
        let fd = process.open("/.hearth/stats", libc::O_RDONLY, 0).unwrap();
        let mut text = vec![0; 1 << 20];
        let len = process.read(fd, &mut text).unwrap();
        process.close(fd).unwrap();
        let text = String::from_utf8(text[..len].to_vec()).unwrap();
        let name = format!("hearth_ops_per_second{{window=\"{window}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("{name}: {text}"))
            .parse()
            .unwrap()
    };
    volume.run_background_once();
    assert_eq!(rate("1m"), 0.0);
    for _ in 0..600 {
        volume.stats().count(Op::Read, 300, true);
    }
    hand.0.fetch_add(60_000, SeqCst);
    volume.run_background_once();
    // Ten a second for a minute, of which a window of a minute has seen 1 - 1/e.
    assert!((rate("1m") - 6.32).abs() < 0.01, "{}", rate("1m"));
    assert!((rate("15m") - 0.64).abs() < 0.01, "{}", rate("15m"));
    hand.0.fetch_add(60_000, SeqCst);
    volume.run_background_once();
    assert!(rate("1m") < 2.4, "{}", rate("1m"));
}
