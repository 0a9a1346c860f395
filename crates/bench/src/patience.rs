//! Whether a benchmark still moves: a mount that hangs would hold it for ever.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long nothing may move.
const PATIENCE: Duration = Duration::from_secs(180);

/// Seconds on [`clock`] when something last moved.
static BEAT: AtomicU64 = AtomicU64::new(0);

/// Says that the benchmark moves.
pub fn beat() {
    // Relaxed: a time by itself.
    BEAT.store(clock(), Ordering::Relaxed);
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
