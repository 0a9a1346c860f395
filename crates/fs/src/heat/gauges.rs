//! What tracking itself costs and holds.

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
    /// Bytes of the fixed per-core parts.
    pub core_bytes: u64,
    /// Bytes that the sums of users, groups and projects take.
    pub tenant_bytes: u64,
    /// What was recorded: each range of an access for itself, or for a sample.
    pub recorded: u64,
    /// What that stands for; more than `recorded` where it was a sample.
    pub accesses: u64,
    /// Accesses that were dropped because a core's ring was full, those of a sample for all that
    /// they stood for.
    pub dropped: u64,
    /// Folds of per-core counts into the records.
    pub drains: u64,
    /// Files in each of the 256 buckets, coldest first, as of the last pass; those that have ended
    /// too, until it finds them.
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
