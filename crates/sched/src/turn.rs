//! Waiting for a tenant's ceilings.

use crate::clock::Time;
use crate::shared::Shared;
use crate::sleep::Sleep;
use crate::tenant::{Ticket, Waiter};
use hearth_sync::primitive::Arc;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`crate::Handle::turn`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct Turn {
    shared: Arc<Shared>,
    /// `None` when it has come.
    ticket: Option<Ticket>,
    since: Time,
    waiter: Option<Waiter>,
    sleep: Sleep,
}

impl Turn {
    pub(crate) fn new(shared: Arc<Shared>, ticket: Ticket) -> Turn {
        let since = shared.clock.now();
        Turn {
            sleep: Sleep::new(Arc::clone(&shared), since),
            ticket: Some(ticket),
            waiter: None,
            shared,
            since,
        }
    }

    /// It waits no more: what it waited counts as the ceilings' delay.
    fn end(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let delay = self.shared.clock.now().since(self.since);
        let tenants = self.shared.fleet.weights();
        tenants.end(ticket, self.waiter.take(), delay.as_nanos() as u64);
    }
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while let Some(ticket) = self.ticket {
            let now = self.shared.clock.now();
            // The waker is left first: a change after this look wakes it.
            let tenants = self.shared.fleet.weights();
            let (go, waiter) = tenants.ask(ticket, now.ns(), self.waiter, context.waker());
            self.waiter = waiter;
            if go <= now.ns() {
                self.end();
                break;
            }
            let go = Time::from_ns(go);
            if self.sleep.at() != go {
                self.sleep = Sleep::new(Arc::clone(&self.shared), go);
            }
            if Pin::new(&mut self.sleep).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("ticket", &self.ticket)
            .finish()
    }
}
