//! One connection to the kernel, as the threads see it that carry its requests.

use crate::log::say;
use crate::mount::Mounted;
use crate::wait::waiting::Waiting;
use hearth::KernelInFront;
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::io;
use std::time::{Duration, Instant};

lock_class! {
    FrontLock = "fuse.kernel-in-front", 869;
    AliveLock = "fuse.connection", 870;
}

/// What the threads of a session share.
pub(crate) struct Connection {
    pub mounted: Mounted,
    pub waiting: Arc<Waiting>,
    /// Taken when the session ends, so that the volume can be mounted again. Here because threads
    /// that cannot be ended keep the connection.
    front: Lock<FrontLock, Option<KernelInFront>>,
    /// Threads that still carry requests.
    alive: Lock<AliveLock, usize>,
    /// `alive` became 0.
    ended: Condition,
}

impl Connection {
    /// A connection that no thread serves yet.
    pub fn new(mounted: Mounted, waiting: Arc<Waiting>, front: KernelInFront) -> Connection {
        Connection {
            mounted,
            waiting,
            front: Lock::new(Some(front)),
            alive: Lock::new(0),
            ended: Condition::new(),
        }
    }

    /// The right to be in front of the volume, for whoever finishes the session first.
    pub fn take_front(&self) -> Option<KernelInFront> {
        self.front.lock().take()
    }

    /// A thread is about to carry requests.
    pub fn thread_begins(&self) {
        *self.alive.lock() += 1;
    }

    /// A thread carries no more requests: the mount is gone, or the thread cannot go on. Then the
    /// others must not either, since no thread replies to what the kernel gave to this one.
    pub fn thread_ended(&self, result: io::Result<()>) {
        if let Err(error) = result {
            let path = self.mounted.path.display();
            say(format_args!("{path}: {error}; the mount ends"));
            if let Err(error) = self.mounted.abort() {
                say(format_args!(
                    "the connection cannot be aborted: {error}; kill this program"
                ));
            }
        }
        // Requests that wait for locks wait in vain: the kernel took them back. Their ring entries
        // come back only when the wait ends.
        self.waiting.close();
        let mut alive = self.alive.lock();
        *alive -= 1;
        if *alive == 0 {
            self.ended.notify_all();
        }
    }

    /// Waits until no thread carries requests; false when the time ran out.
    pub fn wait_ended(&self, limit: Option<Duration>) -> bool {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut alive = self.alive.lock();
        while *alive > 0 {
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => alive.wait(&self.ended),
                Some(left) if left.is_zero() => return false,
                Some(left) => {
                    alive.wait_for(&self.ended, left);
                }
            }
        }
        true
    }
}
