//! A clock at the price of one instruction.
//!
//! Reading the kernel's clock takes 25 ns, most of it a barrier and arithmetic that a scheduler
//! does not need at every switch. Reading the processor's time stamp counter takes a third of that.
//! It is used where the processor guarantees a constant rate; the rate is measured against the
//! kernel's clock once per process, in 2 ms, to about 50 ppm. Elsewhere the kernel's clock is used.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A clock that counts nanoseconds from its creation.
///
/// Two cores may differ by the few nanoseconds that their counters differ.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begin: Instant,
    /// The counter at the start, and nanoseconds per tick in 2^-32; `None` without a counter.
    counter: Option<(u64, u64)>,
}

impl Default for Stopwatch {
    fn default() -> Stopwatch {
        Stopwatch::start()
    }
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        let scale = *SCALE.get_or_init(scale);
        Stopwatch {
            begin: Instant::now(),
            counter: scale.map(|scale| (counter::read(), scale)),
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn ns(&self) -> u64 {
        match self.counter {
            Some((begin, scale)) => {
                let ticks = counter::read().saturating_sub(begin);
                ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
            }
            None => self.begin.elapsed().as_nanos() as u64,
        }
    }
}

/// Nanoseconds per tick in 2^-32.
static SCALE: OnceLock<Option<u64>> = OnceLock::new();

/// The length of the measurement.
const MEASURE: Duration = Duration::from_millis(2);

fn scale() -> Option<u64> {
    if !counter::is_even() {
        return None;
    }
    let (begin, first) = both();
    while begin.elapsed() < MEASURE {
        std::hint::spin_loop();
    }
    let (end, last) = both();
    let ns = end.duration_since(begin).as_nanos();
    let ticks = u128::from(last.checked_sub(first)?);
    u64::try_from((ns << 32).checked_div(ticks)?).ok()
}

/// Both clocks at one moment: the closest of a few tries, because a thread may be preempted.
fn both() -> (Instant, u64) {
    let pair = || {
        let before = counter::read();
        let now = Instant::now();
        let after = counter::read();
        (
            after.saturating_sub(before),
            now,
            before + (after.saturating_sub(before)) / 2,
        )
    };
    let first = pair();
    let (_, now, ticks) = (0..8)
        .map(|_| pair())
        .fold(first, |best, next| match next.0 < best.0 {
            true => next,
            false => best,
        });
    (now, ticks)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Whether the counter has a constant rate in all speed and sleep states.
    pub(super) fn is_even() -> bool {
        const POWER: u32 = 0x8000_0007;
        const EVEN: u32 = 1 << 8;
        // SAFETY: every x86-64 processor has the instruction. Newer compilers know that.
        #[allow(unused_unsafe)]
        let ask = |leaf| unsafe { __cpuid(leaf) };
        ask(0x8000_0000).eax >= POWER && ask(POWER).edx & EVEN != 0
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and Linux does not forbid it.
        unsafe { _rdtsc() }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod counter {
    pub(super) fn is_even() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_agrees_with_the_kernel_clock() {
        let watch = Stopwatch::start();
        let (begin, first) = (Instant::now(), watch.ns());
        std::thread::sleep(Duration::from_millis(50));
        let (last, passed) = (watch.ns(), begin.elapsed());
        let counted = (last - first) as f64 / passed.as_nanos() as f64;
        // A thread may be preempted between two readings, for milliseconds on a busy machine.
        assert!((0.5..=1.01).contains(&counted), "{counted}");
    }

    #[test]
    fn a_stopwatch_never_goes_backwards() {
        let watch = Stopwatch::start();
        let mut last = 0;
        for _ in 0..100_000 {
            let now = watch.ns();
            assert!(now + 1_000 >= last, "{now} after {last}");
            last = now;
        }
    }
}
