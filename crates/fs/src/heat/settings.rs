//! The tunables of heat, with the names and units of the seed.

use super::record::records_in;
use super::score::{HalfLives, Millis};
use crate::errno::{Errno, Result};
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest `hot-update-interval` in seconds: a day.
pub const HEAT_INTERVAL_MAX: u64 = 24 * 60 * 60;
/// Largest `hot-mem-high-thresh` in MiB: a tebibyte.
pub const HEAT_MEMORY_MAX: u64 = 1 << 20;
/// Half-lives that make sense, in milliseconds: a second to a year.
const HALF_LIVES: std::ops::RangeInclusive<Millis> = 1000..=365 * 24 * 60 * 60 * 1000;

/// Each a tunable of its own (hence `Relaxed`).
pub(crate) struct HeatSettings {
    /// Seconds.
    interval: AtomicU64,
    /// MiB; 0 is no limit.
    memory: AtomicU64,
    /// Milliseconds.
    short: AtomicU64,
    long: AtomicU64,
}

impl Default for HeatSettings {
    fn default() -> HeatSettings {
        HeatSettings {
            interval: AtomicU64::new(150),
            memory: AtomicU64::new(0),
            short: AtomicU64::new(60 * 60 * 1000),
            long: AtomicU64::new(24 * 60 * 60 * 1000),
        }
    }
}

impl HeatSettings {
    /// Seconds between two passes of ageing.
    pub fn interval(&self) -> u64 {
        self.interval.load(Relaxed)
    }

    /// # Errors
    /// `EINVAL` for 0 and for more than a day.
    pub fn set_interval(&self, seconds: u64) -> Result<()> {
        if seconds == 0 || seconds > HEAT_INTERVAL_MAX {
            return Err(Errno::EINVAL);
        }
        self.interval.store(seconds, Relaxed);
        Ok(())
    }

    /// MiB that records may take; 0 is no limit.
    pub fn memory(&self) -> u64 {
        self.memory.load(Relaxed)
    }

    /// # Errors
    /// `EINVAL` for more than a tebibyte.
    pub fn set_memory(&self, mib: u64) -> Result<()> {
        if mib > HEAT_MEMORY_MAX {
            return Err(Errno::EINVAL);
        }
        self.memory.store(mib, Relaxed);
        Ok(())
    }

    pub fn half_lives(&self) -> HalfLives {
        HalfLives::from_millis(self.short.load(Relaxed), self.long.load(Relaxed))
    }

    /// # Errors
    /// `EINVAL` unless both lie between a second and a year, the first below the second.
    pub fn set_half_lives(&self, short: Millis, long: Millis) -> Result<()> {
        if !HALF_LIVES.contains(&short) || !HALF_LIVES.contains(&long) || short >= long {
            return Err(Errno::EINVAL);
        }
        self.short.store(short, Relaxed);
        self.long.store(long, Relaxed);
        Ok(())
    }

    /// Most records that the limit allows.
    pub fn max_records(&self) -> usize {
        match self.memory() {
            0 => usize::MAX,
            mib => records_in(mib << 20),
        }
    }
}
