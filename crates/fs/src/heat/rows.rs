//! The rows of reports.

use super::percpu::RANGE_SHIFT;
use super::tenants::HeatTenant;
use crate::attr::Time;
use std::time::Duration;

/// The heat of a file, a range or a tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatStats {
    /// 0.0 (never) to 100.0.
    pub temperature: f64,
    /// Bucket of the map at the time of asking, 0 to 255.
    pub bucket: u8,
    /// Bucket as of the last pass of ageing.
    pub last_bucket: u8,
    /// Accesses and bytes since the record exists.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// See `reads`.
    pub read_bytes: u64,
    /// See `reads`.
    pub written_bytes: u64,
    /// Those of `reads` and `writes` that samples stand for and nobody saw; 0: both are exact.
    pub estimated: u64,
    /// Pages fetched from the backend by reads, and by writes of parts of pages.
    pub loads: u64,
    /// Decayed rates per second.
    pub reads_per_second: f64,
    /// See `reads_per_second`.
    pub writes_per_second: f64,
    /// See `reads_per_second`.
    pub bytes_per_second: f64,
    /// Accesses, decayed with the long half-life.
    pub long_accesses: f64,
    /// Wall-clock time of the drain that saw the last read.
    pub last_read: Option<Time>,
    /// See `last_read`.
    pub last_write: Option<Time>,
}

/// Heat of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileHeat {
    /// Inode number.
    pub ino: u64,
    /// Its heat.
    pub stats: HeatStats,
    /// Ranges that have records.
    pub ranges: usize,
}

/// Heat of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeHeat {
    /// Inode number.
    pub ino: u64,
    /// First byte.
    pub start: u64,
    /// Length in bytes: 1 MiB.
    pub len: u64,
    /// Its heat.
    pub stats: HeatStats,
}

/// Heat of everything that a tenant owns.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantHeat {
    /// Who.
    pub tenant: HeatTenant,
    /// Its heat.
    pub stats: HeatStats,
}

/// What rankings go by: decayed rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeatRank {
    /// Reads and writes.
    #[default]
    Accesses,
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Bytes read and written.
    Bytes,
}

/// What a fast tier of each size would have served, of accesses weighted by their age.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// Bytes of all ranges that have records.
    pub recorded_bytes: u64,
    /// After how long an access weighs half as much.
    pub half_life: Duration,
    /// In order of size.
    pub points: Vec<WhatIfPoint>,
}

/// One size of a fast tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIfPoint {
    /// Size in bytes.
    pub bytes: u64,
    /// Share of the recorded reads that it would have served, 0 to 1.
    pub reads: f64,
    /// Share of the recorded writes.
    pub writes: f64,
}

pub(super) const RANGE_BYTES: u64 = 1 << RANGE_SHIFT;
