//! Late answers on their way to the queue thread, the only one that may submit to its ring.

use super::event::Event;
use super::region::Region;
use crate::wait::service::InlineReply;
use hearth::Errno;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::thread_local;
use std::cell::Cell;
use std::io;

lock_class!(CompletionsLock = "fuse.mailbox", 874);

/// An answer, with the index of its entry.
#[derive(Debug)]
pub(super) enum Completion {
    /// Of a worker, to a request whose entry stayed with the queue.
    InlineReply(usize, Result<InlineReply, Errno>),
    /// Of a parked request: its memory comes back with it, and holds so many bytes of answer.
    Parked(usize, Region, Result<usize, Errno>),
}

/// Answers, and the event that wakes the queue thread for them.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    letters: Lock<CompletionsLock, Vec<Completion>>,
    pub event: Event,
}

thread_local! {
    /// Address of the mailbox that this thread empties.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

impl CompletionQueue {
    /// An empty one.
    pub fn new() -> io::Result<CompletionQueue> {
        Ok(CompletionQueue {
            letters: Lock::new(Vec::new()),
            event: Event::new()?,
        })
    }

    /// The calling thread empties this mailbox whenever it has run tasks.
    pub fn own(&self) {
        OWN.with(|own| own.set(self.address()));
    }

    /// Leaves an answer, and wakes the queue thread unless that is the caller.
    pub fn put(&self, letter: Completion) {
        self.letters.lock().push(letter);
        if OWN.with(Cell::get) != self.address() {
            self.event.set();
        }
    }

    /// Takes all answers.
    pub fn take(&self) -> Vec<Completion> {
        std::mem::take(&mut *self.letters.lock())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
