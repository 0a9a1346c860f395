//! Runs one test at a time, with a profile of its own.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hearth_sync::profile::{self, Counts, Row, Sampling, Side, TestClock};

static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// The right to use the profile; it is off and empty when this is dropped.
pub struct ProfileTest {
    clock: Option<TestClock>,
    _exclusive: MutexGuard<'static, ()>,
}

impl ProfileTest {
    /// With the profile off.
    pub fn off() -> ProfileTest {
        let test = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
        profile::reset();
        ProfileTest {
            clock: None,
            _exclusive: test,
        }
    }

    /// With the profile on and a stopped clock.
    pub fn stopped_clock(draw: Sampling) -> ProfileTest {
        let mut test = ProfileTest::off();
        test.clock = Some(TestClock::new());
        assert!(profile::start(draw));
        test
    }

    /// With the profile on.
    pub fn real_clock(draw: Sampling) -> ProfileTest {
        let test = ProfileTest::off();
        assert!(profile::start(draw));
        test
    }

    fn clock(&self) -> &TestClock {
        self.clock.as_ref().expect("the clock is stopped")
    }

    pub fn advance(&self, time: Duration) {
        self.clock().advance(time);
    }

    pub fn looks(&self) -> u64 {
        self.clock().looks()
    }

    /// Waits until the profile has read the clock `looks` times.
    pub fn until_looks(&self, looks: u64) {
        let patience = Instant::now();
        while self.looks() < looks {
            assert!(patience.elapsed() < Duration::from_secs(60), "nobody waits");
            std::thread::yield_now();
        }
    }

    /// Call sites of a class.
    pub fn rows(&self, class: &str) -> Vec<Row> {
        let rows = profile::snapshot().rows.into_iter();
        rows.filter(|row| row.class == class).collect()
    }

    /// The sum over all call sites of one side of a class.
    pub fn sum(&self, class: &str, side: Side) -> Counts {
        let mut sum = Counts::default();
        for row in self.rows(class).iter().filter(|row| row.side == side) {
            sum += row.counts;
        }
        sum
    }
}

impl Drop for ProfileTest {
    fn drop(&mut self) {
        profile::stop();
        profile::reset();
    }
}

/// Whether `is` differs from `should` by at most the fraction `by`.
pub fn near(is: u64, should: u64, by: f64) -> bool {
    (is as f64 - should as f64).abs() <= by * should as f64
}

/// Keeps the core busy, like work under a lock.
pub fn spin_for(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Binds the thread to the `n`th core that it may use, if there are that many.
pub fn pin_to(n: usize) {
    // SAFETY: the sets are plain data, the calls get their true size, the numbers are inside.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&all), &raw mut all);
        let core = (0..1024).filter(|&core| libc::CPU_ISSET(core, &all)).nth(n);
        if let Some(core) = core {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        }
    }
}
