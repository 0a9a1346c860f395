//! Closes descriptors for threads that must not wait. The last descriptor of a removed file frees
//! its blocks as it is closed, which takes as long as the file is large and the disk is slow.

use crate::descriptor_room::TakenPlace;
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::{Arc, thread};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;

lock_class!(ClosingLock = "host.closing", 818);

/// Descriptors that may wait to be closed. Whoever comes with one more closes it, so that what
/// removes files does not run ahead of what frees them, nor out of descriptors.
const MOST: usize = 256;

/// A thread that closes descriptors. It begins with the first one, and ends after the last one when
/// this is dropped.
#[derive(Debug, Default)]
pub struct Closer(Arc<Closing>);

#[derive(Debug, Default)]
struct Closing {
    queue: Lock<ClosingLock, ClosingQueue>,
    /// There is something to close, or nothing any more.
    changed: Condition,
}

#[derive(Debug, Default)]
struct ClosingQueue {
    /// Each with the place that it takes until it is closed.
    waiting: VecDeque<(Arc<OwnedFd>, Option<TakenPlace>)>,
    has_thread: bool,
    ends: bool,
}

impl Closer {
    /// Closes a descriptor soon, unless somebody else still uses it.
    pub fn close(&self, fd: Arc<OwnedFd>, place: Option<TakenPlace>) {
        let mut queue = self.0.queue.lock();
        if !queue.has_thread {
            let closing = Arc::clone(&self.0);
            let builder = thread::Builder::new().name("hearth-close".into());
            queue.has_thread = builder.spawn(move || closing.run()).is_ok();
        }
        if queue.has_thread && queue.waiting.len() < MOST {
            queue.waiting.push_back((fd, place));
            self.0.changed.notify_one();
        } else {
            drop(queue);
            drop(fd);
        }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.queue.lock().ends = true;
        self.0.changed.notify_one();
    }
}

impl Closing {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some((fd, place)) = queue.waiting.pop_front() {
                drop(queue);
                drop(fd);
                drop(place);
                queue = self.queue.lock();
            } else if queue.ends {
                return;
            } else {
                queue.wait(&self.changed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn all_are_closed_also_if_more_come_than_may_wait() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let writer = Arc::new(OwnedFd::from(writer));
        let closer = Closer::default();
        for _ in 0..4 * MOST {
            closer.close(Arc::clone(&writer), None);
        }
        closer.close(writer, None);
        // Ends when nobody has the other end open.
        let mut left = Vec::new();
        assert_eq!(reader.read_to_end(&mut left).unwrap(), 0);
    }
}
