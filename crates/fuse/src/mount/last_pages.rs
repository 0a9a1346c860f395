//! What programs wrote last to files that they have open while the mount is taken from them.
//!
//! The kernel has acknowledged it, and drops it when the connection is aborted. So it is asked to
//! write it back before.

use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::thread::{Builder, JoinHandle};
use std::io;
use std::time::{Duration, Instant};

lock_class!(LastPagesLock = "fuse.last-pages", 861);

/// A thread that asks for the pages of one file after the other. It may hang as any user of the
/// mount does, until the connection is aborted.
pub(super) struct LastPages {
    progress: Arc<Progress>,
    thread: JoinHandle<()>,
}

struct Progress {
    /// Files whose pages are not written back yet.
    left: Lock<LastPagesLock, usize>,
    /// `left` became smaller.
    changed: Condition,
}

impl LastPages {
    /// Begins to call `write_back` for each of `inodes`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn collect(
        inodes: Vec<u64>,
        write_back: impl Fn(u64) + Send + 'static,
    ) -> io::Result<LastPages> {
        let progress = Arc::new(Progress {
            left: Lock::new(inodes.len()),
            changed: Condition::new(),
        });
        let shared = Arc::clone(&progress);
        let work = move || {
            for ino in inodes {
                write_back(ino);
                *shared.left.lock() -= 1;
                shared.changed.notify_all();
            }
        };
        let thread = Builder::new().name("hearth-last".into()).spawn(work)?;
        Ok(LastPages { progress, thread })
    }

    /// Waits until the pages of all files are written back, for `limit` at most. Returns of how
    /// many files they are not.
    pub fn wait(&self, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        let mut left = self.progress.left.lock();
        while *left > 0 {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            left.wait_for(&self.progress.changed, rest);
        }
        *left
    }

    /// Waits for the thread, which nothing stops any more once the connection is aborted.
    pub fn join(self) {
        // What is wrong with it was reported by the program's hook.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_file_that_hangs_is_waited_for_until_the_limit_and_all_after_it_count_as_lost() {
        let (go_on, gate) = channel();
        let hangs = move |ino| {
            if ino == 2 {
                gate.recv().unwrap();
            }
        };
        let pages = LastPages::collect(vec![1, 2, 3], hangs).unwrap();
        while *pages.progress.left.lock() > 2 {
            hearth_sync::primitive::thread::yield_now();
        }
        assert_eq!(pages.wait(Duration::from_millis(5)), 2);
        go_on.send(()).unwrap();
        assert_eq!(pages.wait(Duration::from_secs(60)), 0);
        pages.join();
    }
}
