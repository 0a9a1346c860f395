//! The allocator of object numbers.
//!
//! Lock order:
//!
//! ```text
//! one core's numbers     (only tried: where another thread has them, those of the next core do)
//!   the common pool
//! ```

use std::collections::VecDeque;

use super::try_cell::{Held, TryCell};
use crate::lock::Lock;
use crate::lock_class;
use crate::percpu::PerCpu;
use crate::primitive::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::primitive::{Backoff, core, cores};

/// The number of object numbers that a core takes at a time.
pub const BLOCK: u64 = 1 << BLOCK_BITS;

// Small under a model checker, which tracks each slot as an object, and under Miri, which tracks
// every byte.
pub(super) const BLOCK_BITS: u32 = if cfg!(feature = "loom") {
    1
} else if cfg!(feature = "shuttle") {
    3
} else if cfg!(miri) {
    4
} else {
    10
};

/// Freed numbers that a core keeps in quarantine as long as it has fresh ones: a reader may still
/// use the last object in the entry of each.
const QUARANTINE: usize = BLOCK as usize / 2;

/// The generation of a number that was never used before.
const FIRST_GENERATION: u32 = 1;

/// The bits of a generation that count the objects of one number in a life of the table; the bits
/// above are the number of that life, where [`Numbers::begin_life`] was called.
const LIFE_SHIFT: u32 = 12;

/// A free number and the generation of its next object.
pub(super) type Free = (u64, u32);

/// Free numbers of one generation among 64 in a row. What was made at one time and removed as a
/// whole is a few such masks, so that the numbers of a million removed objects take no memory.
struct Mask {
    /// The lowest of the 64 numbers, a multiple of that.
    first: u64,
    /// Which of them are free, by bit.
    mask: u64,
    generation: u32,
}

/// A block of freed numbers, by number.
type Packed = Box<[Mask]>;

impl Mask {
    fn numbers(&self) -> impl Iterator<Item = Free> + use<> {
        let &Mask {
            first,
            mask,
            generation,
        } = self;
        let is_free = move |bit: &u64| mask & 1 << bit != 0;
        (0..64)
            .filter(is_free)
            .map(move |bit| (first + bit, generation))
    }
}

fn pack(mut free: Vec<Free>) -> Packed {
    let word = |&(number, generation): &Free| (number / 64, generation);
    free.sort_unstable_by_key(|one| (word(one), one.0));
    let masks = free.chunk_by(|a, b| word(a) == word(b));
    let packed = |numbers: &[Free]| Mask {
        first: numbers[0].0 / 64 * 64,
        mask: numbers.iter().fold(0, |mask, (n, _)| mask | 1 << (n % 64)),
        generation: numbers[0].1,
    };
    masks.map(packed).collect()
}

/// Free numbers: blocks of [`BLOCK`] per core, and freed ones.
///
/// Two cores share a write only when one of them has used a whole block, or has collected two
/// blocks of freed numbers and passes one on.
pub(super) struct Numbers {
    /// The lowest number ever allocated. Immutable.
    first: u64,
    /// The generation of a number that was never used in this life. Relaxed: set before first use.
    first_generation: AtomicU32,
    /// The start of the next block that no core has taken; atomic.
    next_block: AtomicU64,
    /// The numbers of each core.
    cores: PerCpu<TryCell<CpuNumbers>>,
    /// Freed numbers that some core has too many of, by the block.
    pool: Lock<NumberPool, Vec<Packed>>,
    /// The number of blocks in `pool`; written under its lock, read without it as a hint.
    pooled: AtomicUsize,
}

lock_class!(NumberPool = "object.number-pool", 951);

#[derive(Default)]
struct CpuNumbers {
    /// The first number of the core's block.
    block: u64,
    /// The numbers of the block that are left.
    left: u64,
    /// Numbers freed on this core, the oldest first.
    returned: VecDeque<Free>,
}

impl CpuNumbers {
    /// Whether the next number is a freed one, if there is any.
    fn prefers_returned(&self) -> bool {
        self.returned.len() > QUARANTINE || self.left == 0
    }

    /// The next number, if the core has one.
    fn next(&self) -> Option<u64> {
        match self.returned.front() {
            Some(&(number, _)) if self.prefers_returned() => Some(number),
            _ => (self.left > 0).then(|| self.block + (BLOCK - self.left)),
        }
    }
}

impl Numbers {
    pub(super) fn new(first: u64) -> Numbers {
        Numbers {
            first,
            first_generation: AtomicU32::new(FIRST_GENERATION),
            next_block: AtomicU64::new(first - first % BLOCK),
            cores: PerCpu::new(|_| TryCell::new(CpuNumbers::default())),
            pool: Lock::new(Vec::new()),
            pooled: AtomicUsize::new(0),
        }
    }

    /// Allocates nothing up to `number` from now on, except from blocks that cores have taken.
    pub(super) fn skip_past(&self, number: u64) {
        // Relaxed: blocks are taken by exchanges of this word alone.
        self.next_block
            .fetch_max((number + 1).next_multiple_of(BLOCK), Ordering::Relaxed);
    }

    /// Begins life number `life`, before the first number is taken: no generation of a number comes
    /// from two lives, even if it is forgotten which numbers were used in the one before.
    pub(super) fn begin_life(&self, life: u32) {
        // Relaxed: no number is taken yet.
        self.first_generation
            .store((life << LIFE_SHIFT) + FIRST_GENERATION, Ordering::Relaxed);
    }

    /// A number that nobody has.
    pub(super) fn take(&self) -> Free {
        self.take_and_peek().0
    }

    /// A number that nobody has, and the number that this core will most likely allocate next.
    pub(super) fn take_and_peek(&self) -> (Free, Option<u64>) {
        let mut core = self.core();
        let free = self.take_from(&mut core);
        (free, core.next())
    }

    /// The numbers of this core, or of another one while a thread that has moved, or was preempted,
    /// has them: it may be off its core for long, and any free number will do.
    #[inline]
    fn core(&self) -> Held<'_, CpuNumbers> {
        match self.cores.get().try_take() {
            Some(held) => held,
            None => self.another_core(),
        }
    }

    #[cold]
    #[inline(never)]
    fn another_core(&self) -> Held<'_, CpuNumbers> {
        let backoff = Backoff::new();
        let (this, count) = (core(), cores());
        loop {
            // This one again as the last.
            let others = (1..=count).map(|step| (this + step) % count);
            if let Some(held) = others
                .filter_map(|core| self.cores.of(core).try_take())
                .next()
            {
                return held;
            }
            backoff.snooze();
        }
    }

    fn take_from(&self, core: &mut CpuNumbers) -> Free {
        loop {
            if core.prefers_returned()
                && let Some(free) = core.returned.pop_front()
            {
                return free;
            }
            if core.left == 0 {
                self.refill(core);
                continue;
            }
            core.left -= 1;
            let number = core.block + (BLOCK - 1 - core.left);
            if number >= self.first {
                // Relaxed: see `begin_life`.
                return (number, self.first_generation.load(Ordering::Relaxed));
            }
        }
    }

    /// Frees a number whose object of `generation` is gone.
    // Always inlined: its one caller on a fast path has saved its registers.
    #[inline(always)]
    pub(super) fn give(&self, number: u64, generation: u32) {
        // A number whose generations are used up is never allocated again.
        let Some(generation) = generation.checked_add(1) else {
            return;
        };
        // Relaxed: see `begin_life`.
        let has_lives = self.first_generation.load(Ordering::Relaxed) != FIRST_GENERATION;
        if has_lives && generation.trailing_zeros() >= LIFE_SHIFT {
            return;
        }
        let mut core = self.core();
        core.returned.push_back((number, generation));
        if core.returned.len() as u64 >= 2 * BLOCK {
            self.pass_on(&mut core);
        }
    }

    /// Gives the pool the oldest block of what a core has.
    #[cold]
    #[inline(never)]
    fn pass_on(&self, core: &mut CpuNumbers) {
        let surplus = pack(core.returned.drain(..BLOCK as usize).collect());
        let mut pool = self.pool.lock();
        pool.push(surplus);
        // Relaxed: a hint.
        self.pooled.store(pool.len(), Ordering::Relaxed);
    }

    /// Gives a core a block from the pool, or one that was never used.
    #[cold]
    fn refill(&self, core: &mut CpuNumbers) {
        // Relaxed: a hint; the pool's lock decides.
        if self.pooled.load(Ordering::Relaxed) != 0 {
            let mut pool = self.pool.lock();
            let block = pool.pop();
            // Relaxed: a hint.
            self.pooled.store(pool.len(), Ordering::Relaxed);
            if let Some(block) = block {
                drop(pool);
                core.returned = block.iter().flat_map(Mask::numbers).collect();
                return;
            }
        }
        // Relaxed: the addition alone makes the block ours.
        core.block = self.next_block.fetch_add(BLOCK, Ordering::Relaxed);
        core.left = BLOCK;
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::primitive::force_core;

    #[test]
    fn numbers_that_lie_close_take_little_room_and_come_back_as_they_were() {
        let free = |numbers: &[u64], generation| -> Vec<Free> {
            numbers.iter().map(|&number| (number, generation)).collect()
        };
        let scattered = [free(&[63, 3, 5, 64], 2), free(&[6, 127], 3), free(&[0], 2)].concat();
        let packed = pack(scattered.clone());
        assert_eq!(packed.len(), 4, "two masks with two generations each");
        let back: HashSet<Free> = packed.iter().flat_map(Mask::numbers).collect();
        assert_eq!(back, scattered.into_iter().collect());
        let every_other: Vec<u64> = (0..BLOCK).rev().map(|n| 2 * n).collect();
        let packed = pack(free(&every_other, 1));
        assert!(packed.len() as u64 <= (2 * BLOCK).div_ceil(64));
        let back: Vec<Free> = packed.iter().flat_map(Mask::numbers).collect();
        assert_eq!(back.len() as u64, BLOCK);
    }

    #[test]
    fn every_number_of_a_block_is_allocated_once() {
        let numbers = Numbers::new(0);
        let taken: HashSet<u64> = (0..BLOCK).map(|_| numbers.take().0).collect();
        assert_eq!(taken.len(), BLOCK as usize);
        assert!(taken.iter().all(|&number| number < BLOCK));
    }

    #[test]
    fn numbers_start_at_the_given_first_number() {
        let numbers = Numbers::new(1_500);
        let taken: HashSet<u64> = (0..2 * BLOCK).map(|_| numbers.take().0).collect();
        assert_eq!(taken.len(), 2 * BLOCK as usize);
        assert_eq!(taken.iter().min(), Some(&1_500));
    }

    #[test]
    fn a_number_comes_back_with_the_next_generation() {
        force_core(0);
        let numbers = Numbers::new(1);
        let (number, generation) = numbers.take();
        numbers.give(number, generation);
        let rest: Vec<_> = (2..BLOCK).map(|_| numbers.take()).collect();
        assert!(rest.iter().all(|free| free.0 != number), "it rests");
        assert_eq!(numbers.take(), (number, generation + 1));
        numbers.give(number, u32::MAX);
        assert!((0..2 * BLOCK).all(|_| numbers.take().0 != number));
    }

    #[test]
    fn a_number_out_of_quarantine_comes_before_a_fresh_one() {
        force_core(0);
        let numbers = Numbers::new(0);
        let taken: Vec<_> = (0..=QUARANTINE).map(|_| numbers.take()).collect();
        for &(number, generation) in &taken {
            numbers.give(number, generation);
        }
        assert_eq!(numbers.take(), (taken[0].0, taken[0].1 + 1));
        assert_eq!(numbers.take().0, taken.len() as u64, "the others rest");
    }

    #[test]
    fn take_and_peek_predicts_the_next_number() {
        force_core(0);
        let numbers = Numbers::new(0);
        let block = || -> Vec<Free> {
            let mut next = None;
            let taken = (0..BLOCK).map(|n| {
                let (free, after) = numbers.take_and_peek();
                assert!(next.is_none_or(|next| next == free.0), "{n}: {next:?}");
                assert_eq!(
                    after.is_none(),
                    n == BLOCK - 1,
                    "{n}: the core has one more"
                );
                next = after;
                free
            });
            taken.collect()
        };
        let fresh = block();
        for (number, generation) in fresh {
            numbers.give(number, generation);
        }
        let returned = block();
        assert!(returned.iter().all(|free| free.1 == FIRST_GENERATION + 1));
    }

    #[test]
    fn numbers_freed_on_one_core_are_reused_on_another() {
        let numbers = Numbers::new(0);
        let mut highest = 0;
        for _ in 0..50 {
            force_core(0);
            let taken: Vec<_> = (0..BLOCK).map(|_| numbers.take()).collect();
            highest = taken
                .iter()
                .map(|free| free.0)
                .max()
                .max(Some(highest))
                .unwrap();
            force_core(1);
            for (number, generation) in taken {
                numbers.give(number, generation);
            }
        }
        assert!(highest < 8 * BLOCK, "{highest}: freed numbers lie idle");
    }
}
