//! Which accesses are counted: each, while there are few of them, and else a sample that counts for
//! all, so that recording takes a small part of what is recorded, however fast that is.

use ahash::RandomState;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::thread_local;
use std::cell::Cell;

/// Bits of a epoch that count the epochs of one volume; above them, what tells volumes apart.
const COUNT_BITS: u32 = 20;

/// Whether accesses are counted, and the epoch in which threads let some of them pass.
pub(super) struct SampleEpochs {
    /// 0 while nothing is counted. Relaxed: an access beside a change may count or not.
    epoch: AtomicU64,
    /// How many epochs there were. Relaxed: only that each has another number counts.
    count: AtomicU64,
    /// A random number, so that hardly two volumes have the same epochs. If they had, a thread
    /// would let accesses to one pass that it drew for the other.
    volume: u64,
}

/// A epoch of a volume whose accesses are counted; never 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleEpoch(u64);

/// What a thread has drawn: how many accesses it lets pass, and how many the next one stands for.
struct Sampler {
    /// When and of which volume it was drawn.
    epoch: Cell<u64>,
    passes: Cell<u64>,
    weight: Cell<u64>,
    /// 0 before the first draw.
    random: Cell<u64>,
}

thread_local! {
    static SAMPLER: Sampler = const {
        Sampler {
            epoch: Cell::new(0),
            passes: Cell::new(0),
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

    /// Counts from now on, or no longer.
    pub fn switch(&self, on: bool) {
        if on != self.is_on() {
            self.epoch.store(if on { self.next() } else { 0 }, Relaxed);
        }
    }

    /// What threads have drawn holds no more: each counts its next access. Says nothing while
    /// nothing is counted.
    pub fn renew(&self) {
        let epoch = self.epoch.load(Relaxed);
        if epoch != 0 {
            // Fails beside a switch, which is a change of epoch itself.
            let next = self.next();
            let _ = self.epoch.compare_exchange(epoch, next, Relaxed, Relaxed);
        }
    }

    /// The epoch, if the access that happens now is to be counted.
    #[inline(always)]
    pub fn counts(&self) -> Option<SampleEpoch> {
        let epoch = self.epoch.load(Relaxed);
        // Nothing is drawn in the epoch 0, so that a pass needs one question less.
        let passes = SAMPLER.with(|sampler| sampler.pass(epoch));
        (!passes && epoch != 0).then_some(SampleEpoch(epoch))
    }

    fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Relaxed) & ((1 << (COUNT_BITS - 1)) - 1);
        self.volume | count << 1 | 1
    }
}

impl SampleEpoch {
    /// How many accesses the one stands for that is counted now.
    pub fn weight(self) -> u64 {
        SAMPLER.with(|sampler| match sampler.epoch.get() == self.0 {
            true => sampler.weight.get(),
            false => 1,
        })
    }

    /// In this epoch, this thread counts one access in `weight` from now on.
    pub fn draw(self, weight: u64) {
        SAMPLER.with(|sampler| sampler.draw(self.0, weight));
    }

    /// The access that was to be counted is none: the next one has the chance of any other, and not
    /// the whole weight.
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
    fn pass(&self, epoch: u64) -> bool {
        let passes = self.passes.get();
        let passed = passes > 0 && self.epoch.get() == epoch;
        if passed {
            self.passes.set(passes - 1);
        }
        passed
    }

    fn draw(&self, epoch: u64, weight: u64) {
        let passes = if weight > 1 { self.passes(weight) } else { 0 };
        self.epoch.set(epoch);
        self.weight.set(weight);
        self.passes.set(passes);
    }

    /// How many pass before one counts for `weight`: as many as if each had one chance in `weight`
    /// to count. So no pattern of accesses escapes, and a draw that ends early with its epoch says
    /// nothing of those to come.
    fn passes(&self, weight: u64) -> u64 {
        let mut random = match self.random.get() {
            0 => RandomState::new().hash_one(0) | 1,
            random => random,
        };
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        (exponential(random) * scale(weight)) as u64
    }
}

/// `-1 / ln(1 - 1 / weight)`: what makes an exponential number, rounded down, the number of passes.
fn scale(weight: u64) -> f64 {
    match weight {
        4 => 3.476_059_496_782_207,
        16 => 15.494_622_163_225_38,
        64 => 63.498_687_642_343_96,
        // From here on it is less than a thousandth wrong.
        _ => weight as f64 - 0.5,
    }
}

/// `-ln(random / 2^64)` within 0.00001: exponent and fraction of the number apart, the logarithm of
/// the fraction by Abramowitz and Stegun 4.1.43. `random` is not 0.
fn exponential(random: u64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [
        0.032_158_45,
        -0.136_062_75,
        0.289_474_78,
        -0.491_908_96,
        0.999_495_56,
    ];
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = (random as f64).to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    let fraction = f64::from_bits(bits & FRACTION | 1.0f64.to_bits()) - 1.0;
    let logarithm = COEFFICIENTS
        .iter()
        .fold(0.0, |sum, term| (sum + term) * fraction);
    (64.0 - exponent) * std::f64::consts::LN_2 - logarithm
}

#[cfg(all(test, not(feature = "shuttle")))]
#[path = "sampler_tests.rs"]
mod tests;
