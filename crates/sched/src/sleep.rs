//! Sleeping until a time.

use crate::clock::Time;
use crate::shared::{Shared, current_run_queue};
use crate::timers::TimerKey;
use hearth_sync::primitive::Arc;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`crate::Handle::sleep_until`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    shared: Arc<Shared>,
    at: Time,
    /// Run queue and key of the timer.
    timer: Option<(usize, TimerKey)>,
    /// It has woken its task after the end of the scheduler.
    has_ended: bool,
}

impl Sleep {
    pub(crate) fn new(shared: Arc<Shared>, at: Time) -> Sleep {
        Sleep {
            shared,
            at,
            timer: None,
            has_ended: false,
        }
    }

    pub(crate) fn at(&self) -> Time {
        self.at
    }

    fn forget(&mut self) {
        if let Some((run_queue, key)) = self.timer.take() {
            self.shared.timers[run_queue].remove(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.shared.clock.now();
        if now >= self.at {
            self.forget();
            return Poll::Ready(());
        }
        if let Some((run_queue, key)) = self.timer
            && self.shared.timers[run_queue].replace(key, context.waker())
        {
            return Poll::Pending;
        }
        let here = current_run_queue(&self.shared);
        let run_queue = here.unwrap_or_else(|| self.shared.any_run_queue());
        let timers = &self.shared.timers[run_queue];
        match timers.insert(self.at.ns(), context.waker().clone()) {
            Ok((key, earliest)) => {
                self.timer = Some((run_queue, key));
                if earliest && here.is_none() {
                    self.shared.wake_for_timer(run_queue, now.ns());
                }
            }
            // A task of the scheduler is cancelled by that; another kind of waiter would ask again
            // for ever.
            Err(waker) if !self.has_ended => {
                self.has_ended = true;
                waker.wake();
            }
            Err(_) => {}
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleep").field("at", &self.at).finish()
    }
}
