//! A throttle for work that can wait: on an idle machine it may use everything, on a busy one a
//! hundredth.
//!
//! The processor time of the process says whether the machine is busy: its other threads serve
//! requests, or belong to the program that embeds the volume. Processor time and not wall time,
//! because a thread that waits for a processor has cost nobody anything.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::{thread, thread_time};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// On a busy machine, throttled work takes one part in this many.
const PARTS: u32 = 100;
/// How much work is done between two rests.
const QUANTUM: Duration = Duration::from_millis(1);
/// The shortest time over which the use by other threads is measured: the kernel adds up processor
/// time of running threads once a tick.
const WINDOW: Duration = Duration::from_millis(20);
/// The machine is busy if other threads use at least one part in this many of a core.
const BUSY: u32 = 8;

/// The throttle of one kind of work: what it has done, and the rest that it owes.
#[derive(Debug)]
pub(crate) struct Throttle {
    cores: u32,
    /// Work done since the last rest.
    owed: Duration,
    busy: bool,
    /// Beginning of the present measurement of other threads.
    since: CpuSample,
}

/// Nanoseconds of throttled work, of all volumes of the process. Relaxed: a sum.
static THROTTLED: AtomicU64 = AtomicU64::new(0);
/// Schedules of shuttle run side by side in one process, and may share no atomic of it.
const SHARED: bool = cfg!(not(feature = "shuttle"));

/// A point in time, and the processor time that the process had used, without throttled work.
#[derive(Clone, Copy, Debug)]
struct CpuSample {
    at: Instant,
    cpu: Duration,
}

impl CpuSample {
    fn now() -> CpuSample {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32);
        // Relaxed: see `THROTTLED`.
        let throttled = match SHARED {
            true => Duration::from_nanos(THROTTLED.load(Relaxed)),
            false => Duration::ZERO,
        };
        CpuSample {
            at: Instant::now(),
            cpu: cpu.saturating_sub(throttled),
        }
    }
}

/// A CPU timer: the processor time of one thread.
#[derive(Debug)]
pub(crate) struct CpuTimer(Option<u64>);

impl CpuTimer {
    pub fn begin() -> CpuTimer {
        CpuTimer(thread_time())
    }

    /// The processor time since the beginning.
    pub fn used(&self) -> Duration {
        let used = |begin| Some(thread_time()?.saturating_sub(begin));
        Duration::from_nanos(self.0.and_then(used).unwrap_or(0))
    }

    /// Counts the time as throttled work, not as that of other threads. Includes work that was
    /// passed to other threads.
    pub fn count_as_own(self) {
        // Relaxed: see `THROTTLED`.
        if SHARED {
            THROTTLED.fetch_add(self.used().as_nanos() as u64, Relaxed);
        }
    }
}

impl Throttle {
    /// The machine counts as busy until the first measurement.
    pub fn new() -> Throttle {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Throttle::beginning(cores as u32, CpuSample::now())
    }

    fn beginning(cores: u32, since: CpuSample) -> Throttle {
        Throttle {
            cores,
            owed: Duration::ZERO,
            busy: true,
            since,
        }
    }

    /// Accounts for `used` and returns how long to rest before more work.
    pub fn rest_after(&mut self, used: Duration) -> Duration {
        // Time means nothing where a test chooses which thread runs.
        if cfg!(feature = "shuttle") {
            return Duration::ZERO;
        }
        self.owed += used;
        if self.owed < QUANTUM {
            return Duration::ZERO;
        }
        self.rest(CpuSample::now())
    }

    fn rest(&mut self, now: CpuSample) -> Duration {
        let passed = now.at.saturating_duration_since(self.since.at);
        if passed >= WINDOW {
            let others = now.cpu.saturating_sub(self.since.cpu);
            self.busy = others >= passed / BUSY;
            self.since = now;
        }
        let owed = std::mem::take(&mut self.owed);
        match self.busy {
            true => (owed * PARTS / self.cores).saturating_sub(owed),
            false => Duration::ZERO,
        }
    }
}

/// A throttled loop, for a thread that may sleep, with nothing held.
#[derive(Debug)]
pub(crate) struct ThrottledLoop {
    throttle: Throttle,
    timer: CpuTimer,
    steps: u32,
}

/// Steps of a [`ThrottledLoop`] between two readings of the clock.
const LOOK: u32 = 64;

impl ThrottledLoop {
    pub fn begin() -> ThrottledLoop {
        ThrottledLoop {
            throttle: Throttle::new(),
            timer: CpuTimer::begin(),
            steps: 0,
        }
    }

    /// Counts a step, and rests if it is time to.
    pub fn step(&mut self) {
        self.steps += 1;
        if !self.steps.is_multiple_of(LOOK) {
            return;
        }
        let rest = self.throttle.rest_after(self.timer.used());
        std::mem::replace(&mut self.timer, CpuTimer::begin()).count_as_own();
        if !rest.is_zero() {
            hearth_sched::block_in_place(|| thread::sleep(rest));
            self.timer = CpuTimer::begin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// Works 1 ms at a time for a second beside threads that use `others` percent of a core, and
    /// returns the milliseconds of work.
    fn worked(cores: u32, others: u64) -> u64 {
        let mut now = CpuSample::now();
        let (end, mut worked) = (now.at + ms(1000), 0);
        let mut throttle = Throttle::beginning(cores, now);
        while now.at < end {
            throttle.owed += QUANTUM;
            now.at += QUANTUM;
            now.cpu += QUANTUM * others as u32 / 100;
            worked += 1;
            let rest = throttle.rest(now);
            now.at += rest;
            now.cpu += rest * others as u32 / 100;
        }
        worked
    }

    #[test]
    fn throttled_work_on_a_busy_machine_takes_a_hundredth_of_it() {
        assert_eq!(worked(2, 200), 20);
        assert_eq!(worked(4, 13), 40);
        assert_eq!(worked(1, 100), 10);
        // A hundredth of 200 cores is all that one thread can use.
        assert_eq!(worked(200, 20_000), 1000);
    }

    #[test]
    fn throttled_work_on_an_idle_machine_rests_once() {
        // 50 ms pass before it is known that no other thread is at work.
        assert_eq!(worked(2, 0), 1000 - 49);
        assert_eq!(worked(2, 10), 1000 - 49);
    }

    #[test]
    fn a_throttle_notices_when_the_machine_becomes_busy_or_idle() {
        let mut now = CpuSample::now();
        let mut throttle = Throttle::beginning(1, now);
        let mut rest = |wall, cpu| {
            now.at += ms(wall);
            now.cpu += ms(cpu);
            throttle.owed += ms(1);
            throttle.rest(now)
        };
        assert_eq!(rest(1, 0), ms(99));
        assert_eq!(rest(100, 0), ms(0), "alone for 100 ms");
        assert_eq!(rest(1, 0), ms(0));
        assert_eq!(rest(20, 18), ms(99), "18 ms of 21 by others");
        assert_eq!(rest(100, 1), ms(0));
    }

    #[test]
    fn short_throttled_work_is_not_delayed() {
        let mut throttle = Throttle::new();
        for _ in 0..9 {
            assert_eq!(throttle.rest_after(QUANTUM / 10), Duration::ZERO);
        }
        assert!(throttle.rest_after(QUANTUM / 10 + ms(3)) > Duration::ZERO);
        assert_eq!(throttle.rest_after(QUANTUM / 10), Duration::ZERO);
    }
}
