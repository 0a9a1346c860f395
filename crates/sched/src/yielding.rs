//! Yielding in a task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Yields: the task goes behind those that are runnable.
pub fn yield_now() -> YieldNow {
    YieldNow {
        stepped_back: false,
    }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct YieldNow {
    stepped_back: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.stepped_back {
            return Poll::Ready(());
        }
        self.stepped_back = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
