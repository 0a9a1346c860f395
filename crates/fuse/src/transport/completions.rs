//! The completion queue of a ring: replies made by other threads, and by tasks, on their way to the
//! queue thread. Only that thread may submit to the ring.

use super::event::Event;
use super::region::Region;
use crate::wait::outcome::InlineReply;
use hearth::Errno;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::thread_local;
use std::cell::Cell;
use std::io;

lock_class!(CompletionsLock = "fuse.mailbox", 874);

/// A reply, with the index of its entry.
#[derive(Debug)]
pub(super) enum Completion {
    /// Of a worker. The memory of the entry stayed with the queue.
    Inline(usize, Result<InlineReply, Errno>),
    /// Of a task. The memory of the entry comes back with it and holds this many bytes of reply.
    Task(usize, Region, Result<usize, Errno>),
}

/// Replies, and the event that wakes the queue thread for them.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    completions: Lock<CompletionsLock, Vec<Completion>>,
    pub event: Event,
}

thread_local! {
    /// Address of the completion queue that this thread empties.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

impl CompletionQueue {
    /// An empty one.
    pub fn new() -> io::Result<CompletionQueue> {
        Ok(CompletionQueue {
            completions: Lock::new(Vec::new()),
            event: Event::new()?,
        })
    }

    /// Makes the calling thread the one that empties this queue, which it does whenever it has run
    /// tasks.
    pub fn own(&self) {
        OWN.with(|own| own.set(self.address()));
    }

    /// Adds a reply, and wakes the queue thread unless that is the caller.
    pub fn push(&self, completion: Completion) {
        self.completions.lock().push(completion);
        if OWN.with(Cell::get) != self.address() {
            self.event.set();
        }
    }

    /// Takes all replies.
    pub fn take(&self) -> Vec<Completion> {
        std::mem::take(&mut *self.completions.lock())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
