//! Whether a benchmark still moves: a mount that hangs would hold it for ever.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long nothing may move.
const PATIENCE: Duration = Duration::from_secs(180);

/// Between two signs of what may take its time.
const LOOKS: Duration = Duration::from_secs(1);

/// Seconds on [`clock`] when something last moved.
static BEAT: AtomicU64 = AtomicU64::new(0);

/// Says that the benchmark moves.
pub fn beat() {
    // Relaxed: a time by itself.
    BEAT.store(clock(), Ordering::Relaxed);
}

/// Runs `f`, which may take up to `limit` without a sign.
pub fn patiently<T>(limit: Duration, f: impl FnOnce() -> T) -> T {
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let begin = Instant::now();
            while begin.elapsed() < limit
                && end.recv_timeout(LOOKS) == Err(RecvTimeoutError::Timeout)
            {
                beat();
            }
        });
        let result = f();
        drop(ended);
        result
    })
}

/// Whether nothing has moved for too long.
pub fn is_lost() -> bool {
    // Relaxed: as in `beat`.
    clock() > BEAT.load(Ordering::Relaxed) + PATIENCE.as_secs()
}

/// Seconds since it was asked first.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_with_what_it_was_for() {
        let begin = Instant::now();
        assert_eq!(patiently(Duration::from_secs(600), || 7), 7);
        assert_eq!(patiently(Duration::ZERO, || 8), 8);
        assert!(begin.elapsed() < Duration::from_secs(60));
        beat();
        assert!(!is_lost());
    }
}
