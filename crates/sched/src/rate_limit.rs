//! Waiting for a tenant's rate limits.

use crate::clock::Time;
use crate::shared::Shared;
use crate::sleep::Sleep;
use crate::tenant::{Permit, Waiter};
use hearth_sync::primitive::Arc;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`crate::Handle::rate_limit`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct RateLimit {
    shared: Arc<Shared>,
    /// `None` once it is admitted.
    permit: Option<Permit>,
    since: Time,
    waiter: Option<Waiter>,
    sleep: Sleep,
}

impl RateLimit {
    pub(crate) fn new(shared: Arc<Shared>, permit: Permit) -> RateLimit {
        let since = shared.clock.now();
        RateLimit {
            sleep: Sleep::new(Arc::clone(&shared), since),
            permit: Some(permit),
            waiter: None,
            shared,
            since,
        }
    }

    /// Stops waiting, and counts the time as delay of the rate limits.
    fn end(&mut self) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let delay = self.shared.clock.now().since(self.since);
        let tenants = self.shared.runtime.weights();
        tenants.end(permit, self.waiter.take(), delay.as_nanos() as u64);
    }
}

impl Future for RateLimit {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while let Some(permit) = self.permit {
            let now = self.shared.clock.now();
            // The waker is registered first: a change after this look wakes it.
            let tenants = self.shared.runtime.weights();
            let (admit_at, waiter) = tenants.ask(permit, now.ns(), self.waiter, context.waker());
            self.waiter = waiter;
            if admit_at <= now.ns() {
                self.end();
                break;
            }
            let admit_at = Time::from_ns(admit_at);
            if self.sleep.at() != admit_at {
                self.sleep = Sleep::new(Arc::clone(&self.shared), admit_at);
            }
            if Pin::new(&mut self.sleep).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

impl Drop for RateLimit {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("permit", &self.permit)
            .finish()
    }
}
