//! Per-core credit of one account: the fast path of every charge.
//!
//! A word holds what one core has taken and not used. It is *open*, and anybody may take and give
//! by compare and exchange, or *closed*, holds nothing, and only the holder of the book's lock
//! changes it. All accesses are Relaxed: a word's own order of changes is all that counts, see the
//! proofs in `docs/design/quota.md`, and nothing else is published through it.

use super::kind::Resource;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::{OnceLock, core};

/// Bit of a closed word; the other bits are 0 then.
const CLOSED: u64 = 1 << 63;

/// Words of one core, by resource.
type Words = [AtomicU64; 2];

/// The credit of one account.
pub(crate) struct Credit {
    inline: Inline,
    /// Words for every core, once a second one came. They begin closed; what `inline` held then
    /// stays there until it is recalled.
    parts: OnceLock<PerCpu<Words>>,
    /// The core that uses `inline`, plus one; 0 for none yet. A matter of speed only.
    owner: AtomicU32,
}

/// On a line of its own: who finds the account reads what is beside it.
#[repr(align(64))]
struct Inline(Words);

impl Credit {
    /// Closed words.
    pub fn new() -> Credit {
        Credit {
            inline: Inline(closed_words()),
            parts: OnceLock::new(),
            owner: AtomicU32::new(0),
        }
    }

    /// Takes `amount` of this core's credit; false if there is less, or none to be had.
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

    /// Gives `amount` back to this core's credit; false if it is closed or would exceed `keep`.
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

    /// Opens this core's word and adds `amount`. Under the book's lock.
    pub fn open(&self, resource: Resource, amount: u64) {
        let opened = |word: u64| Some((word & !CLOSED) + amount);
        let _ = self.word(resource).fetch_update(Relaxed, Relaxed, opened);
    }

    /// Takes this core's credit down to `rest` and answers what it took. Under the book's lock.
    pub fn drain(&self, resource: Resource, rest: u64) -> u64 {
        let drained = |word: u64| (word & CLOSED == 0 && word > rest).then_some(rest);
        self.word(resource)
            .fetch_update(Relaxed, Relaxed, drained)
            .map_or(0, |before| before - rest)
    }

    /// Closes every word and answers what they held. Under the book's lock.
    pub fn close(&self, resource: Resource) -> u64 {
        self.words(resource)
            .map(|word| word.swap(CLOSED, Relaxed) & !CLOSED)
            .sum()
    }

    /// What the words hold; exact when nobody takes or gives meanwhile.
    pub fn sum(&self, resource: Resource) -> u64 {
        self.words(resource)
            .map(|word| word.load(Relaxed) & !CLOSED)
            .sum()
    }

    #[inline]
    fn word(&self, resource: Resource) -> &AtomicU64 {
        let resource = resource as usize;
        if let Some(parts) = self.parts.get() {
            return &parts.get()[resource];
        }
        let this = core() as u32 + 1;
        if self.owner.load(Relaxed) == this {
            return &self.inline.0[resource];
        }
        self.claim_or_split(this, resource)
    }

    #[cold]
    fn claim_or_split(&self, this: u32, resource: usize) -> &AtomicU64 {
        if self
            .owner
            .compare_exchange(0, this, Relaxed, Relaxed)
            .is_ok()
        {
            return &self.inline.0[resource];
        }
        let parts = self.parts.get_or_init(|| PerCpu::new(|_| closed_words()));
        &parts.get()[resource]
    }

    fn words(&self, resource: Resource) -> impl Iterator<Item = &AtomicU64> {
        let parts = self.parts.get().into_iter().flat_map(PerCpu::iter);
        std::iter::once(&self.inline.0)
            .chain(parts)
            .map(move |words| &words[resource as usize])
    }
}

fn closed_words() -> Words {
    [AtomicU64::new(CLOSED), AtomicU64::new(CLOSED)]
}
