//! Latencies: counted, not kept.

/// Values below this are exact; above, a bucket is at most 1/32 wide.
const EXACT: u64 = 64;
/// Buckets of a doubling.
const STEPS: u64 = 32;

/// How often each latency occurred.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    most: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram {
            buckets: vec![0; bucket_of(u64::MAX) + 1],
            count: 0,
            sum: 0,
            most: 0,
        }
    }

    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.buckets[bucket_of(ns)] += 1;
        self.count += 1;
        self.sum += ns;
        self.most = self.most.max(ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn most(&self) -> u64 {
        self.most
    }

    /// Adds what another one counted.
    pub fn absorb(&mut self, other: &Histogram) {
        for (bucket, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += count;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.most = self.most.max(other.most);
    }

    /// The mean; of nothing it is no number.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    /// How many were above `ns`, to the width of a bucket.
    pub fn above(&self, ns: u64) -> u64 {
        self.buckets[bucket_of(ns) + 1..].iter().sum()
    }

    /// The latency that the share `part` of all do not exceed: the upper end of its bucket.
    pub fn percentile(&self, part: f64) -> u64 {
        let wanted = (part * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return end_of(bucket).min(self.most);
            }
        }
        self.most
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < EXACT {
        return ns as usize;
    }
    // 6 for 64..128: the doubling, then the five bits below the leading one.
    let doubling = u64::from(ns.ilog2());
    let step = (ns >> (doubling - 5)) - STEPS;
    (EXACT + (doubling - 6) * STEPS + step) as usize
}

/// The largest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (doubling, step) = ((bucket - EXACT) / STEPS + 6, (bucket - EXACT) % STEPS);
    let end = u128::from(STEPS + step + 1) << (doubling - 5);
    u64::try_from(end - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_a_bucket_is_narrow() {
        let mut last = 0;
        for shift in 2..63 {
            for ns in [
                1u64 << shift,
                (1 << shift) + 1,
                (3 << shift) / 2,
                (2 << shift) - 1,
            ] {
                let bucket = bucket_of(ns);
                assert!(bucket >= last, "{ns}");
                let end = end_of(bucket);
                assert!(ns <= end && end - ns <= ns / 32, "{ns} up to {end}");
                last = bucket;
            }
        }
        assert_eq!(end_of(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|ns| histogram.add(ns));
        histogram.add(1_000_000);
        assert_eq!(histogram.count(), 1001);
        for (part, ns) in [(0.5, 501u64), (0.99, 991), (0.999, 1000)] {
            let found = histogram.percentile(part);
            assert!(found >= ns && found <= ns + ns / 32, "{part}: {found}");
        }
        assert_eq!(histogram.percentile(1.0), 1_000_000);
        assert_eq!(histogram.most(), 1_000_000);
        assert_eq!((histogram.above(2_000), histogram.above(2_000_000)), (1, 0));
        let before = histogram.clone();
        histogram.absorb(&before);
        assert_eq!((histogram.count(), histogram.above(2_000)), (2002, 2));
        assert_eq!(histogram.mean(), before.mean());
    }
}
