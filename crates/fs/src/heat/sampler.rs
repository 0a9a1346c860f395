//! The sampler: every access is counted while there are few; otherwise a random sample stands for
//! all, so that recording costs a small part of what is recorded at any speed.

use ahash::RandomState;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::thread_local;
use std::cell::Cell;

/// Bits of an epoch that count the epochs of one volume. The bits above identify the volume.
const COUNT_BITS: u32 = 20;

/// The sampling epochs of a volume: whether accesses are counted, and the epoch in which threads
/// skip some of them.
pub(super) struct SampleEpochs {
    /// 0 while nothing is counted. Relaxed: an access beside a change may count or not.
    epoch: AtomicU64,
    /// Number of epochs so far. Relaxed: epochs only have to differ.
    count: AtomicU64,
    /// A random number, so that two volumes hardly ever have equal epochs. With equal epochs a
    /// thread would skip accesses to one volume for draws of the other.
    volume: u64,
}

/// A sampling epoch of a volume whose accesses are counted; never 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleEpoch(u64);

/// The sampler of a thread: how many accesses it skips, and how many the next one stands for.
struct Sampler {
    /// The epoch of the draw.
    epoch: Cell<u64>,
    skips: Cell<u64>,
    weight: Cell<u64>,
    /// 0 before the first draw.
    random: Cell<u64>,
}

thread_local! {
    static SAMPLER: Sampler = const {
        Sampler {
            epoch: Cell::new(0),
            skips: Cell::new(0),
            weight: Cell::new(1),
            random: Cell::new(0),
        }
    };
}

impl SampleEpochs {
    pub fn off() -> SampleEpochs {
        SampleEpochs {
            epoch: AtomicU64::new(0),
            count: AtomicU64::new(0),
            volume: RandomState::new().hash_one(0) << COUNT_BITS,
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.epoch.load(Relaxed) != 0
    }

    /// Turns counting on or off.
    pub fn switch(&self, on: bool) {
        if on != self.is_on() {
            self.epoch.store(if on { self.next() } else { 0 }, Relaxed);
        }
    }

    /// Begins a new epoch: draws of earlier epochs are void, and each thread counts its next
    /// access. Does nothing while counting is off.
    pub fn renew(&self) {
        let epoch = self.epoch.load(Relaxed);
        if epoch != 0 {
            // Fails beside a switch, which changes the epoch itself.
            let next = self.next();
            let _ = self.epoch.compare_exchange(epoch, next, Relaxed, Relaxed);
        }
    }

    /// The epoch, if the current access is counted.
    #[inline(always)]
    pub fn counts(&self) -> Option<SampleEpoch> {
        let epoch = self.epoch.load(Relaxed);
        // No draw has epoch 0, so a skip needs no check of it.
        let skips = SAMPLER.with(|sampler| sampler.skip(epoch));
        (!skips && epoch != 0).then_some(SampleEpoch(epoch))
    }

    /// The epoch, whatever this thread has drawn: each access is counted.
    #[inline]
    pub fn each(&self) -> Option<SampleEpoch> {
        let epoch = self.epoch.load(Relaxed);
        (epoch != 0).then_some(SampleEpoch(epoch))
    }

    fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Relaxed) & ((1 << (COUNT_BITS - 1)) - 1);
        self.volume | count << 1 | 1
    }
}

impl SampleEpoch {
    /// How many accesses the current one stands for.
    pub fn weight(self) -> u64 {
        SAMPLER.with(|sampler| match sampler.epoch.get() == self.0 {
            true => sampler.weight.get(),
            false => 1,
        })
    }

    /// From now on this thread counts one access in `weight` in this epoch.
    pub fn draw(self, weight: u64) {
        SAMPLER.with(|sampler| sampler.draw(self.0, weight));
    }

    /// The counted access turned out to be none. Draws again, so that the next access has the
    /// chance of any other instead of the whole weight.
    #[cold]
    pub fn redraw(self) {
        match self.weight() {
            1 => {}
            weight => self.draw(weight),
        }
    }
}

impl Sampler {
    #[inline(always)]
    fn skip(&self, epoch: u64) -> bool {
        let skips = self.skips.get();
        let skipped = skips > 0 && self.epoch.get() == epoch;
        if skipped {
            self.skips.set(skips - 1);
        }
        skipped
    }

    fn draw(&self, epoch: u64, weight: u64) {
        let skips = if weight > 1 { self.skips(weight) } else { 0 };
        self.epoch.set(epoch);
        self.weight.set(weight);
        self.skips.set(skips);
    }

    /// The number of accesses to skip before one counts for `weight`: geometrically distributed, as
    /// if each were counted with probability `1 / weight`. So no access pattern escapes, and a draw
    /// can be cut short at any time.
    fn skips(&self, weight: u64) -> u64 {
        let mut random = match self.random.get() {
            0 => RandomState::new().hash_one(0) | 1,
            random => random,
        };
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        (exponential(random) * geometric_factor(weight)) as u64
    }
}

/// `-1 / ln(1 - 1 / weight)`: the factor that turns an exponential variate, rounded down, into the
/// number of skips.
fn geometric_factor(weight: u64) -> f64 {
    match weight {
        4 => 3.476_059_496_782_207,
        16 => 15.494_622_163_225_38,
        64 => 63.498_687_642_343_96,
        // The error is less than a thousandth from here on.
        _ => weight as f64 - 0.5,
    }
}

/// An exponential variate from a random number that is not 0.
fn exponential(random: u64) -> f64 {
    const RANGE: f64 = u64::MAX as f64;
    -(random as f64 / RANGE).ln()
}

#[cfg(all(test, not(feature = "shuttle")))]
#[path = "sampler_tests.rs"]
mod tests;
