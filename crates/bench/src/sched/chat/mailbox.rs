//! A queue of messages that tasks of any executor, and threads, may wait for.

use super::message::Message;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Messages that fit into the buffer of a small socket.
const ROOM: usize = 64;

/// One reader, many writers; full at [`ROOM`] messages.
#[derive(Debug, Default)]
pub struct Mailbox(Mutex<Messages>);

#[derive(Debug, Default)]
struct Messages {
    messages: VecDeque<Message>,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

impl Mailbox {
    /// Puts a message in, when there is room.
    pub async fn put(&self, message: Message) {
        poll_fn(|context| self.poll_put(&message, context)).await;
    }

    /// Takes the oldest message, when there is one.
    pub async fn take(&self) -> Message {
        poll_fn(|context| self.poll_take(context)).await
    }

    fn poll_put(&self, message: &Message, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.messages.len() >= ROOM {
            state.writers.push(context.waker().clone());
            return Poll::Pending;
        }
        state.messages.push_back(*message);
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }

    fn poll_take(&self, context: &Context<'_>) -> Poll<Message> {
        let mut state = self.lock();
        let Some(message) = state.messages.pop_front() else {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        // Half of the room at once, as sockets do, so that not every message is a switch.
        let writers = match state.messages.len() <= ROOM / 2 {
            true => std::mem::take(&mut state.writers),
            false => Vec::new(),
        };
        drop(state);
        writers.into_iter().for_each(Waker::wake);
        Poll::Ready(message)
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a future on the calling thread, which sleeps where it waits.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        std::thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
