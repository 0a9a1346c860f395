//! What the threads of a race use and ask for, counted beside the ledger, so that every refusal can
//! be held against it.

use super::{QuotaId, Refusal, RefusalReason};
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::SeqCst};

/// A small generator: the seed of a failing round is in its message.
pub(super) struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Of one record.
pub(super) struct Truth {
    pub who: QuotaId,
    pub hard: u64,
    pub soft: u64,
    /// Seconds.
    pub grace: i64,
    /// Never below what is used: goes up before a charge, and down after its refusal or when what
    /// it gave has come back.
    high: AtomicU64,
    /// Rises when something begins to come back and when it has, so that a refusal can tell whether
    /// that happened beside it.
    returns: AtomicU64,
}

impl Truth {
    /// Of a record without a soft limit.
    pub fn new(who: QuotaId, hard: u64) -> Truth {
        Truth {
            who,
            hard,
            soft: u64::MAX,
            grace: 0,
            high: AtomicU64::new(0),
            returns: AtomicU64::new(0),
        }
    }

    pub fn high(&self) -> u64 {
        self.high.load(SeqCst)
    }
}

/// Of all records.
pub(super) struct Truths(pub Vec<Truth>);

impl Truths {
    pub fn of<'a>(&'a self, whose: &'a [QuotaId]) -> impl Iterator<Item = &'a Truth> {
        self.0
            .iter()
            .filter(move |truth| whose.contains(&truth.who))
    }

    /// `amount` is about to be asked for; what [`Truths::justify`] wants to know.
    pub fn ask(&self, whose: &[QuotaId], amount: u64) -> Vec<u64> {
        let before = self.of(whose).map(|truth| truth.returns.load(SeqCst));
        let before = before.collect();
        for truth in self.of(whose) {
            truth.high.fetch_add(amount, SeqCst);
        }
        before
    }

    /// What was asked for was refused.
    pub fn abort(&self, whose: &[QuotaId], amount: u64) {
        for truth in self.of(whose) {
            truth.high.fetch_sub(amount, SeqCst);
        }
    }

    /// Something is about to come back.
    pub fn begin_return(&self, whose: &[QuotaId]) {
        for truth in self.of(whose) {
            truth.returns.fetch_add(1, SeqCst);
        }
    }

    /// `amount` has come back.
    pub fn end_return(&self, whose: &[QuotaId], amount: u64) {
        for truth in self.of(whose) {
            truth.returns.fetch_add(1, SeqCst);
            truth.high.fetch_sub(amount, SeqCst);
        }
    }

    /// All that others may use or ask for at this moment, and this request, is more than the limit;
    /// unless something came back since.
    pub fn justify(&self, refusal: &Refusal, whose: &[QuotaId], before: &[u64]) {
        let (at, truth) = self
            .of(whose)
            .enumerate()
            .find(|(_, truth)| truth.who == refusal.who)
            .expect("refused by a record of the owners");
        let limit = match refusal.reason {
            RefusalReason::Hard => truth.hard,
            RefusalReason::GraceEnded => truth.soft,
        };
        let high = truth.high();
        if truth.returns.load(SeqCst) == before[at] {
            let who = truth.who;
            assert!(high > limit, "{refusal:?}: {who} asks {high} of {limit}");
        }
    }
}
