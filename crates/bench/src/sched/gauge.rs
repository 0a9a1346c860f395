//! Counting what tasks do in a window of time.

use crate::cpu_time::CpuTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What all tasks look at, and where they leave their counts.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<GaugeState>);

#[derive(Debug, Default)]
struct GaugeState {
    phase: OwnLine<AtomicU32>,
    ready: OwnLine<AtomicU64>,
    done: OwnLine<AtomicU64>,
}

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

/// What all tasks did in a window of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub count: u64,
    /// Seconds of the clock.
    pub seconds: f64,
    /// Seconds of processor time that this program used: on a machine that others use as well it
    /// is the steadier one.
    pub cpu: f64,
}

const WARM: u32 = 0;
const COUNT: u32 = 1;
const STOP: u32 = 2;

/// The count of one task.
#[derive(Debug)]
pub struct Tally {
    gauge: Gauge,
    done: u64,
}

impl Gauge {
    pub fn new() -> Gauge {
        Gauge(Arc::default())
    }

    /// For one task, which runs as soon as this is called.
    pub fn tally(&self) -> Tally {
        self.0.ready.0.fetch_add(1, Ordering::Relaxed);
        Tally {
            gauge: self.clone(),
            done: 0,
        }
    }

    /// Waits for `tasks` tasks to run, and then for `length`; nothing is counted yet.
    pub fn warm_up(&self, tasks: usize, length: Duration) {
        while self.0.ready.0.load(Ordering::Relaxed) < tasks as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(length);
    }

    /// Counts for `length`, then tells the tasks to end.
    pub fn window(&self, length: Duration) -> Counted {
        self.0.phase.0.store(COUNT, Ordering::Relaxed);
        let (begin, cpu) = (Instant::now(), CpuTime::of_this_program());
        std::thread::sleep(length);
        self.0.phase.0.store(STOP, Ordering::Relaxed);
        Counted {
            count: 0,
            seconds: begin.elapsed().as_secs_f64(),
            cpu: (CpuTime::of_this_program() - cpu).total(),
        }
    }

    /// The window with what the tasks did, which have ended.
    pub fn counted(&self, window: Counted) -> Counted {
        let count = self.0.done.0.load(Ordering::Relaxed);
        Counted { count, ..window }
    }
}

impl Tally {
    /// Counts one more; false when the task is to end.
    #[inline]
    pub fn go_on(&mut self) -> bool {
        match self.gauge.0.phase.0.load(Ordering::Relaxed) {
            WARM => true,
            COUNT => {
                self.done += 1;
                true
            }
            _ => false,
        }
    }

    /// How many it has counted so far.
    pub fn done(&self) -> u64 {
        self.done
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let done = &self.gauge.0.done.0;
        done.fetch_add(self.done, Ordering::Relaxed);
    }
}
