//! Closes descriptors for threads that must not wait. The last descriptor of a removed file frees
//! its blocks as it is closed, which takes as long as the file is large and the disk is slow.

use hearth_sync::primitive::thread;
use hearth_sync::primitive::{Arc, OnceLock};
use rustix::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Descriptors that may wait to be closed. Whoever comes with one more closes it, so that what
/// removes files does not run ahead of what frees them, nor out of descriptors.
const QUEUE: usize = 256;

/// A thread that closes descriptors. It begins with the first one, and ends after the last one when
/// this is dropped.
#[derive(Debug, Default)]
pub struct Closer {
    /// `None`: no thread could be made.
    queue: OnceLock<Option<SyncSender<Arc<OwnedFd>>>>,
}

impl Closer {
    /// Closes a descriptor soon, unless somebody else still uses it.
    pub fn close(&self, fd: Arc<OwnedFd>) {
        let queue = self.queue.get_or_init(begin);
        match queue.as_ref().map(|queue| queue.try_send(fd)) {
            None | Some(Ok(())) => {}
            Some(Err(TrySendError::Full(fd) | TrySendError::Disconnected(fd))) => drop(fd),
        }
    }
}

fn begin() -> Option<SyncSender<Arc<OwnedFd>>> {
    let (queue, closed): (_, Receiver<Arc<OwnedFd>>) = sync_channel(QUEUE);
    let builder = thread::Builder::new().name("hearth-close".into());
    builder
        .spawn(move || closed.into_iter().for_each(drop))
        .ok()?;
    Some(queue)
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
        for _ in 0..4 * QUEUE {
            closer.close(Arc::clone(&writer));
        }
        closer.close(writer);
        // Ends when nobody has the other end open.
        let mut left = Vec::new();
        assert_eq!(reader.read_to_end(&mut left).unwrap(), 0);
    }
}
