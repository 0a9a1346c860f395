//! Per-CPU credit of one account: the fast path of every charge.
//!
//! A word holds the units that one CPU has reserved and not used. An *open* word is changed by any
//! thread with compare and exchange. A *closed* word holds nothing and is changed only by the
//! holder of the state lock. All accesses are Relaxed: only the order of changes of one word
//! matters (see the proofs in `docs/design/quota.md`), and a word publishes nothing else.

use super::kind::Resource;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::{OnceLock, core};

/// Bit of a closed word; the other bits are 0 then.
const CLOSED: u64 = 1 << 63;

/// Words of one CPU, by resource.
type CreditWords = [AtomicU64; 2];

/// The credit of one account.
pub(crate) struct Credit {
    inline: Inline,
    /// Words of all CPUs, made when a second CPU uses the account. They begin closed; what `inline`
    /// holds at that moment stays there until it is recalled.
    percpu: OnceLock<PerCpu<CreditWords>>,
    /// The CPU that uses `inline`, plus one; 0 for none yet. Affects speed only.
    owner: AtomicU32,
}

/// Own cache line: every lookup of the account reads the fields beside it.
#[repr(align(64))]
struct Inline(CreditWords);

impl Credit {
    /// Closed words.
    pub fn new() -> Credit {
        Credit {
            inline: Inline(closed_words()),
            percpu: OnceLock::new(),
            owner: AtomicU32::new(0),
        }
    }

    /// Takes `amount` from this CPU's credit; false if it is closed or holds less.
    #[inline]
    pub fn take(&self, resource: Resource, amount: u64) -> bool {
        let taken = |word: u64| {
            if word & CLOSED == 0 {
                word.checked_sub(amount)
            } else {
                None
            }
        };
        self.word(resource)
            .fetch_update(Relaxed, Relaxed, taken)
            .is_ok()
    }

    /// Gives `amount` back to this CPU's credit; false if it is closed or would exceed `keep`.
    #[inline]
    pub fn give(&self, resource: Resource, amount: u64, keep: u64) -> bool {
        let given = |word: u64| {
            if word & CLOSED == 0 {
                word.checked_add(amount).filter(|&sum| sum <= keep)
            } else {
                None
            }
        };
        self.word(resource)
            .fetch_update(Relaxed, Relaxed, given)
            .is_ok()
    }

    /// Opens this CPU's word and adds `amount`. Under the state lock.
    pub fn open(&self, resource: Resource, amount: u64) {
        let opened = |word: u64| Some((word & !CLOSED) + amount);
        let _ = self.word(resource).fetch_update(Relaxed, Relaxed, opened);
    }

    /// Reduces this CPU's credit to `rest` and returns what it took. Under the state lock.
    pub fn drain(&self, resource: Resource, rest: u64) -> u64 {
        let drained = |word: u64| (word & CLOSED == 0 && word > rest).then_some(rest);
        self.word(resource)
            .fetch_update(Relaxed, Relaxed, drained)
            .map_or(0, |before| before - rest)
    }

    /// Closes all words and returns what they held. Under the state lock.
    pub fn close(&self, resource: Resource) -> u64 {
        self.words(resource)
            .map(|word| word.swap(CLOSED, Relaxed) & !CLOSED)
            .sum()
    }

    /// The sum of all words; exact if nothing is taken or given meanwhile.
    pub fn sum(&self, resource: Resource) -> u64 {
        self.words(resource)
            .map(|word| word.load(Relaxed) & !CLOSED)
            .sum()
    }

    // Always inlined: a call takes as much again.
    #[inline(always)]
    fn word(&self, resource: Resource) -> &AtomicU64 {
        let resource = resource as usize;
        if let Some(percpu) = self.percpu.get() {
            return &percpu.get()[resource];
        }
        let this = core() as u32 + 1;
        if self.owner.load(Relaxed) == this {
            return &self.inline.0[resource];
        }
        self.claim_or_inflate(this, resource)
    }

    #[cold]
    #[inline(never)]
    fn claim_or_inflate(&self, this: u32, resource: usize) -> &AtomicU64 {
        if self
            .owner
            .compare_exchange(0, this, Relaxed, Relaxed)
            .is_ok()
        {
            return &self.inline.0[resource];
        }
        let percpu = self.percpu.get_or_init(|| PerCpu::new(|_| closed_words()));
        &percpu.get()[resource]
    }

    fn words(&self, resource: Resource) -> impl Iterator<Item = &AtomicU64> {
        let percpu = self.percpu.get().into_iter().flat_map(PerCpu::iter);
        std::iter::once(&self.inline.0)
            .chain(percpu)
            .map(move |words| &words[resource as usize])
    }
}

fn closed_words() -> CreditWords {
    [AtomicU64::new(CLOSED), AtomicU64::new(CLOSED)]
}
