//! What heat tracking holds and costs.

use super::record::BUCKETS;
use super::tracker::Tracker;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

/// What tracking holds and what it missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatGauges {
    /// Whether accesses are recorded.
    pub on: bool,
    /// Files and ranges with a record.
    pub files: u64,
    /// Ranges of 1 MiB with a record.
    pub ranges: u64,
    /// Bytes that the records take; what `hot-mem-high-thresh` bounds.
    pub record_bytes: u64,
    /// Bytes of the fixed per-CPU tables.
    pub core_bytes: u64,
    /// Bytes that the sums of users, groups and projects take.
    pub tenant_bytes: u64,
    /// Recordings. An access to several ranges is one for each range.
    pub recorded: u64,
    /// Accesses that the recordings stand for; more than `recorded` with sampling.
    pub accesses: u64,
    /// Accesses that were dropped because the ring of a CPU was full, each with the accesses that
    /// it stood for.
    pub dropped: u64,
    /// Drains of the per-CPU tables into the records.
    pub drains: u64,
    /// Files in each of the 256 buckets, coldest first, as of the last pass. Files that have ended
    /// count until a pass finds them.
    pub file_buckets: Vec<u64>,
    /// Ranges in each of the 256 buckets.
    pub range_buckets: Vec<u64>,
}

impl Tracker {
    /// What tracking holds now.
    pub fn gauges(&self) -> HeatGauges {
        let mut gauges = HeatGauges {
            on: self.is_on(),
            files: 0,
            ranges: 0,
            record_bytes: 0,
            core_bytes: 0,
            tenant_bytes: 0,
            recorded: 0,
            accesses: 0,
            dropped: 0,
            drains: 0,
            file_buckets: vec![0; BUCKETS],
            range_buckets: vec![0; BUCKETS],
        };
        let Some(state) = self.state.get() else {
            return gauges;
        };
        gauges.core_bytes = state.table.bytes();
        gauges.tenant_bytes = state.tenants.lock().bytes();
        let recorded = state.table.recorded();
        (gauges.recorded, gauges.accesses) = (recorded.times, recorded.stood);
        gauges.dropped = state.table.dropped();
        gauges.drains = state.drains.load(Relaxed);
        for shard in &state.shards {
            let shard = shard.lock();
            gauges.record_bytes += shard.bytes();
            let (files, ranges) = (shard.histogram(true), shard.histogram(false));
            drop(shard);
            for bucket in 0..BUCKETS {
                gauges.file_buckets[bucket] += files[bucket];
                gauges.range_buckets[bucket] += ranges[bucket];
            }
        }
        gauges.files = gauges.file_buckets.iter().sum();
        gauges.ranges = gauges.range_buckets.iter().sum();
        gauges
    }
}
