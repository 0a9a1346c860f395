//! The rate limits of one tenant, and the work that waits for them.
//!
//! One lock protects everything; a tenant without rate limits does not take it. A waiter asks and
//! leaves its waker under one hold of the lock; a change takes the wakers out under another. So a
//! waiter either asks after the change or is woken by it. It is not charged twice: its position
//! stays.

use super::token_bucket::{Position, TokenBucket};
use super::{Limits, Tenant};
use hearth_sync::lock_class;
use std::collections::BTreeMap;
use std::task::Waker;

lock_class! {
    /// The rate limits of a tenant.
    pub LimiterLock = "sched.rate_limits", 1995;
}

/// A charge that is delayed by rate limits: its position in each token bucket.
/// [`crate::Handle::rate_limit`] waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    pub(super) tenant: Tenant,
    ops: Option<Position>,
    bytes: Option<Position>,
}

/// The number of a waiter, unique in its tenant.
pub type Waiter = u64;

/// Both rate limits of a tenant.
#[derive(Debug, Default)]
pub struct Limiter {
    ops: TokenBucket,
    bytes: TokenBucket,
    waiting: BTreeMap<Waiter, Waker>,
    waiters: u64,
}

impl Limiter {
    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        Limits {
            ops: self.ops.rate(),
            bytes: self.bytes.rate(),
        }
    }

    /// Sets both limits at `now`. Returns the waiters, to be woken outside the lock: they ask
    /// again.
    pub fn set(&mut self, limits: Limits, now: u64) -> BTreeMap<Waiter, Waker> {
        self.ops.set(limits.ops, now);
        self.bytes.set(limits.bytes, now);
        self.end()
    }

    /// Takes out all waiters.
    pub fn end(&mut self) -> BTreeMap<Waiter, Waker> {
        std::mem::take(&mut self.waiting)
    }

    /// Charges work of `tenant` at `now`, all at once. Returns `None` if it need not wait.
    pub fn charge(&mut self, tenant: Tenant, ops: u64, bytes: u64, now: u64) -> Option<Permit> {
        let (ops, bytes) = (self.ops.charge(ops, now), self.bytes.charge(bytes, now));
        let permit = Permit { tenant, ops, bytes };
        (self.admit_at(permit, now) > now).then_some(permit)
    }

    /// Returns the time at which work may continue, as of `now`.
    pub fn admit_at(&mut self, permit: Permit, now: u64) -> u64 {
        let ops = permit.ops.map(|position| self.ops.admit_at(position, now));
        let bytes = permit
            .bytes
            .map(|position| self.bytes.admit_at(position, now));
        now.max(ops.unwrap_or(now)).max(bytes.unwrap_or(now))
    }

    /// Registers `waker`, in place of `known`, for a change of the limits. Returns also the waker
    /// that it replaces, to be dropped outside the lock.
    pub fn listen(&mut self, known: Option<Waiter>, waker: Waker) -> (Waiter, Option<Waker>) {
        let waiter = known.unwrap_or_else(|| {
            self.waiters += 1;
            self.waiters
        });
        (waiter, self.waiting.insert(waiter, waker))
    }

    /// Removes a waiter. Its waker is to be dropped outside the lock.
    pub fn forget(&mut self, waiter: Waiter) -> Option<Waker> {
        self.waiting.remove(&waiter)
    }
}
