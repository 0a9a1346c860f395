//! The ceilings of one tenant, and who waits for them.
//!
//! Everything stands behind one lock, which a tenant without ceilings does not take. Who waits
//! asks and leaves a waker under the same hold; a change takes the wakers out under its own. So a
//! waiter either asks after the change or is woken by it, and none is charged twice: its place
//! stays.

use super::ceiling::{Ceiling, Place};
use super::{Limits, Tenant};
use hearth_sync::lock_class;
use std::collections::BTreeMap;
use std::task::Waker;

lock_class! {
    /// The ceilings of a tenant.
    pub CeilingsLock = "sched.ceilings", 1995;
}

/// What a charge was given that its ceilings delay: its place in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(super) tenant: Tenant,
    ops: Option<Place>,
    bytes: Option<Place>,
}

/// Number of who waits, in its tenant.
pub type Waiter = u64;

/// The ceilings of a tenant.
#[derive(Debug, Default)]
pub struct Ceilings {
    ops: Ceiling,
    bytes: Ceiling,
    waiting: BTreeMap<Waiter, Waker>,
    waiters: u64,
}

impl Ceilings {
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
    pub fn charge(&mut self, tenant: Tenant, ops: u64, bytes: u64, now: u64) -> Option<Ticket> {
        let (ops, bytes) = (self.ops.charge(ops, now), self.bytes.charge(bytes, now));
        let ticket = Ticket { tenant, ops, bytes };
        (self.go(ticket, now) > now).then_some(ticket)
    }

    /// The time at which work may go on, as it is at `now`.
    pub fn go(&mut self, ticket: Ticket, now: u64) -> u64 {
        let ops = ticket.ops.map(|place| self.ops.go(place, now));
        let bytes = ticket.bytes.map(|place| self.bytes.go(place, now));
        now.max(ops.unwrap_or(now)).max(bytes.unwrap_or(now))
    }

    /// Wakes `waker` when a ceiling changes, in the place of `known`. With it the waker that it
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
