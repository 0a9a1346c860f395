//! Operations per second over the last 1, 5 and 15 minutes, averaged as `/proc/loadavg` averages
//! its load: the past fades exponentially, each window with its own time.

use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

/// The windows, with the names that statistics give them.
pub(crate) const WINDOWS: [(&str, f64); 3] = [("1m", 60.0), ("5m", 300.0), ("15m", 900.0)];
/// Milliseconds between two steps.
const STEP: u64 = 5000;

/// Averages of one volume. Written by its background alone; readers see each of them as it is
/// (hence Relaxed).
#[derive(Default)]
pub(crate) struct OpRate {
    /// When the last step was, in the clock's milliseconds; 0 before the first.
    at: AtomicU64,
    /// Operations until then.
    seen: AtomicU64,
    /// Per second, in the bits of an `f64`, in the order of [`WINDOWS`].
    averages: [AtomicU64; 3],
}

impl OpRate {
    /// Whether a step is due at `now`, in the clock's milliseconds.
    pub fn is_due(&self, now: u64) -> bool {
        let at = self.at.load(Relaxed);
        at == 0 || now.saturating_sub(at) >= STEP
    }

    /// Takes into account that until `now` there were `operations` in all.
    pub fn step(&self, operations: u64, now: u64) {
        let at = self.at.swap(now.max(1), Relaxed);
        let seen = self.seen.swap(operations, Relaxed);
        let seconds = now.saturating_sub(at) as f64 / 1000.0;
        if at == 0 || seconds == 0.0 {
            return;
        }
        let rate = operations.saturating_sub(seen) as f64 / seconds;
        for ((_, window), average) in WINDOWS.iter().zip(&self.averages) {
            let before = f64::from_bits(average.load(Relaxed));
            let kept = (-seconds / window).exp();
            let next = before * kept + rate * (1.0 - kept);
            average.store(next.to_bits(), Relaxed);
        }
    }

    /// Operations per second, in the order of [`WINDOWS`].
    pub fn per_second(&self) -> [f64; 3] {
        self.averages
            .each_ref()
            .map(|average| f64::from_bits(average.load(Relaxed)))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn close(got: f64, due: f64) -> bool {
        (got - due).abs() <= 1e-6 * due.max(1.0)
    }

    #[test]
    fn a_steady_rate_is_told_and_fades_with_its_window() {
        let rate = OpRate::default();
        assert!(rate.is_due(7));
        rate.step(1000, 7);
        assert_eq!(
            rate.per_second(),
            [0.0; 3],
            "what was before is nobody's rate"
        );
        assert!(!rate.is_due(7 + STEP - 1) && rate.is_due(7 + STEP));
        let minutes = 120;
        for step in 1..=minutes * 12 {
            rate.step(1000 + step * 500, 7 + step * STEP);
        }
        let [one, five, fifteen] = rate.per_second();
        assert!(close(one, 100.0) && close(five, 100.0), "{one} {five}");
        assert!((fifteen - 100.0).abs() < 0.1, "{fifteen}");
        // One quiet minute.
        let all = 1000 + minutes * 12 * 500;
        rate.step(all, 7 + minutes * 60_000 + 60_000);
        let [one, five, fifteen] = rate.per_second();
        assert!(close(one, 100.0 * (-1.0f64).exp()), "{one}");
        assert!(close(five, 100.0 * (-0.2f64).exp()), "{five}");
        assert!(fifteen > 90.0, "{fifteen}");
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_changes_no_average() {
        let rate = OpRate::default();
        rate.step(0, 10_000);
        rate.step(500, 15_000);
        let before = rate.per_second();
        rate.step(600, 15_000);
        rate.step(700, 9_000);
        assert_eq!(rate.per_second(), before);
    }
}
