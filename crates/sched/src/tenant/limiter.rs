//! The rate limits of one tenant, and who waits for them.
//!
//! Everything stands behind one lock, which a tenant without rate limits does not take. Who waits
//! asks and leaves a waker under the same hold; a change takes the wakers out under its own. So a
//! waiter either asks after the change or is woken by it, and none is charged twice: its place
//! stays.

use super::token_bucket::{Position, TokenBucket};
use super::{Limits, Tenant};
use hearth_sync::lock_class;
use std::collections::BTreeMap;
use std::task::Waker;

lock_class! {
    /// The rate limits of a tenant.
    pub LimiterLock = "sched.ceilings", 1995;
}

/// What a charge was given that its rate limits delay: its place in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    pub(super) tenant: Tenant,
    ops: Option<Position>,
    bytes: Option<Position>,
}

/// Number of who waits, in its tenant.
pub type Waiter = u64;

/// The rate limits of a tenant.
#[derive(Debug, Default)]
pub struct Limiter {
    ops: TokenBucket,
    bytes: TokenBucket,
    waiting: BTreeMap<Waiter, Waker>,
    waiters: u64,
}

impl Limiter {
    /// What was set.
    pub fn limits(&self) -> Limits {
        Limits {
            ops: self.ops.rate(),
            bytes: self.bytes.rate(),
        }
    }

    /// Sets both at `now`. Who waited is to be woken, without the lock: it asks again.
    pub fn set(&mut self, limits: Limits, now: u64) -> BTreeMap<Waiter, Waker> {
        self.ops.set(limits.ops, now);
        self.bytes.set(limits.bytes, now);
        self.end()
    }

    /// Takes out who waits.
    pub fn end(&mut self) -> BTreeMap<Waiter, Waker> {
        std::mem::take(&mut self.waiting)
    }

    /// Charges work of `tenant` at `now`, at once and whole; `None` when it need not wait.
    pub fn charge(&mut self, tenant: Tenant, ops: u64, bytes: u64, now: u64) -> Option<Permit> {
        let (ops, bytes) = (self.ops.charge(ops, now), self.bytes.charge(bytes, now));
        let permit = Permit { tenant, ops, bytes };
        (self.admit_at(permit, now) > now).then_some(permit)
    }

    /// The time at which work may go on, as it is at `now`.
    pub fn admit_at(&mut self, permit: Permit, now: u64) -> u64 {
        let ops = permit.ops.map(|position| self.ops.admit_at(position, now));
        let bytes = permit
            .bytes
            .map(|position| self.bytes.admit_at(position, now));
        now.max(ops.unwrap_or(now)).max(bytes.unwrap_or(now))
    }

    /// Wakes `waker` when a rate limit changes, in the place of `known`. With it the waker that it
    /// replaces, to be dropped without the lock.
    pub fn listen(&mut self, known: Option<Waiter>, waker: Waker) -> (Waiter, Option<Waker>) {
        let waiter = known.unwrap_or_else(|| {
            self.waiters += 1;
            self.waiters
        });
        (waiter, self.waiting.insert(waiter, waker))
    }

    /// Wakes it no more. To be dropped without the lock.
    pub fn forget(&mut self, waiter: Waiter) -> Option<Waker> {
        self.waiting.remove(&waiter)
    }
}
