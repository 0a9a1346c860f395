//! Heat of a file for the ioctl `FS_IOC_GET_HEAT_INFO`, in the units of its patches.

use super::record::{FileId, WHOLE};
use super::rows::HeatStats;
use super::tracker::Tracker;
use crate::attr::Time;
use crate::superblock::Objects;

/// Heat of a file as the 80 bytes of `struct hot_heat_info` hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatInfo {
    /// Temperature over all 32 bits; its top byte is the bucket of the map.
    pub temperature: u32,
    /// Nanoseconds between two reads at the decayed rate; `u64::MAX` for never.
    pub average_between_reads_ns: u64,
    /// See `average_between_reads_ns`.
    pub average_between_writes_ns: u64,
    /// Nanoseconds since the epoch of the wall clock; 0 for never.
    pub last_read_ns: u64,
    /// See `last_read_ns`.
    pub last_write_ns: u64,
    /// Reads since the record exists; stays at the top when it gets there.
    pub reads: u32,
    /// See `reads`.
    pub writes: u32,
    /// How many of `reads` and `writes` nobody saw, because accesses were sampled; 0 means that
    /// both are exact.
    pub estimated: u64,
}

impl Tracker {
    /// Heat of one file, with its temperature of now if `live` and of the last pass otherwise;
    /// `None` without a record.
    pub fn info(&self, objects: &Objects, file: FileId, live: bool) -> Option<HeatInfo> {
        let state = self.state.get()?;
        // Before the report, which drains: that would be a pass.
        let shard = state.file_shard(file).lock();
        let stored = shard.get(file, WHOLE).map_or(0, |it| it.last_bucket());
        drop(shard);
        let warm = self.of_file(objects, file)?.stats;
        Some(HeatInfo {
            temperature: match live {
                true => over_32_bits(&warm),
                false => u32::from(stored) << 24,
            },
            average_between_reads_ns: nanos_between(warm.reads_per_second),
            average_between_writes_ns: nanos_between(warm.writes_per_second),
            last_read_ns: warm.last_read.map_or(0, Time::nanos),
            last_write_ns: warm.last_write.map_or(0, Time::nanos),
            reads: u32::try_from(warm.reads).unwrap_or(u32::MAX),
            writes: u32::try_from(warm.writes).unwrap_or(u32::MAX),
            estimated: warm.estimated,
        })
    }
}

/// The bucket in the top byte, and below it how far it is to the next.
fn over_32_bits(warm: &HeatStats) -> u32 {
    let below = (warm.temperature / 100.0 * 255.999).fract();
    u32::from(warm.bucket) << 24 | (below * f64::from(1 << 24)) as u32
}

fn nanos_between(per_second: f64) -> u64 {
    match per_second > 0.0 {
        true => (1e9 / per_second) as u64,
        false => u64::MAX,
    }
}
