//! Pages that the kernel reads while a direct write is under way.
//!
//! A program that writes with `O_DIRECT` goes past the kernel's pages. The kernel drops the pages
//! of the range before it sends the write, and after it again, but the second time only if the
//! program waits for the write. With asynchronous I/O (`ASYNC_DIO`) it does not: what another
//! program reads meanwhile stays, and may be old for ever. So such pages are dropped before the
//! reply to the write. A worker does that, because the kernel waits for pages that are just being
//! read, which a queue thread has to answer.
//!
//! A write that nobody reads beside pays nothing. A read for the kernel's pages is noted before it
//! is answered, and the write looks when its bytes are in the volume: a read that got older bytes
//! was noted then, and has locked its page. Reads from before the open need no note: their pages go
//! before the write is sent. A file that was read once counts as read until its direct writers have
//! closed it, because writes that were sent before the read may come at any time.
//!
//! A write that waits so keeps its place among the requests that the kernel has under way in the
//! background, and the read that it waits for may need one. So no more than [`MOST`] wait; others
//! are replied to first, and their pages dropped a moment later.

use super::by_inode::ByInode;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering, fence};

lock_class!(DirectWritesLock = "fuse.direct-writes", 878);

/// Writes whose replies wait for pages to be dropped: fewer than a kernel has places for, which are
/// 1,024 and more, and for who mounts without root 334 for each GiB of memory.
const MOST: usize = 64;

/// Files that somebody has open to write directly.
#[derive(Default)]
pub(crate) struct DirectWrites {
    /// Writes that wait. Relaxed: one more or less does no harm.
    waiting: AtomicUsize,
    files: ByInode<DirectWritesLock, File>,
}

/// A write whose reply waits for pages to be dropped.
pub(crate) struct WaitingWrite(Arc<DirectWrites>);

impl Drop for WaitingWrite {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct File {
    /// Handles that were opened with `O_DIRECT`.
    handles: u32,
    /// Pages were read for the kernel.
    is_read: bool,
}

/// Whether somebody who opens a file with these flags may write directly.
pub(crate) fn writes_directly(flags: i32) -> bool {
    flags & libc::O_DIRECT != 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

impl DirectWrites {
    /// `ino` is being opened to be written directly; the reply has not been sent.
    pub fn opened(&self, ino: u64) {
        self.files
            .with(ino, |files| files.entry(ino).or_default().handles += 1);
        // Partner: `reads_pages`. Either the read finds the file, or it has locked its page before
        // the kernel has the reply to the open, and so before a write.
        fence(Ordering::SeqCst);
    }

    /// Pages of `ino` are read for the kernel, after this call.
    pub fn reads_pages(&self, ino: u64) {
        fence(Ordering::SeqCst);
        if self.files.may_know(ino) {
            self.files.with(ino, |files| {
                files.entry(ino).and_modify(|file| file.is_read = true);
            });
        }
    }

    /// The bytes of a direct write to `ino` are in the volume: whether pages are to be dropped.
    pub fn is_read(&self, ino: u64) -> bool {
        // A file that was opened otherwise, and is direct by `F_SETFL`, is not known.
        self.files
            .with(ino, |files| files.get(&ino).is_none_or(|file| file.is_read))
    }

    /// The reply to a write may wait; `None` if many do.
    pub fn wait(self: &Arc<DirectWrites>) -> Option<WaitingWrite> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        // Dropped at once where there are too many.
        let write = WaitingWrite(Arc::clone(self));
        (before < MOST).then_some(write)
    }

    /// A handle that [`DirectWrites::opened`] was told of is closed.
    pub fn closed(&self, ino: u64) {
        self.files.with(ino, |files| {
            let Some(file) = files.get_mut(&ino) else {
                return;
            };
            file.handles = file.handles.saturating_sub(1);
            if file.handles == 0 {
                files.remove(&ino);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_dropped_if_they_were_read_since_the_open() {
        let writes = DirectWrites::default();
        assert!(writes.is_read(7), "nobody has told of an open");
        writes.reads_pages(7);
        writes.opened(7);
        writes.opened(7);
        writes.reads_pages(8);
        assert!(!writes.is_read(7), "another file was read");
        writes.reads_pages(7);
        // Another write may have been sent before the read.
        assert!(writes.is_read(7) && writes.is_read(7));
        writes.closed(7);
        assert!(writes.is_read(7), "it is open still");
        writes.closed(7);
        writes.opened(7);
        assert!(!writes.is_read(7), "opened anew");
    }

    #[test]
    fn so_many_writes_wait_and_no_more() {
        let writes = Arc::new(DirectWrites::default());
        let mut waiting: Vec<_> = (0..MOST).map(|_| writes.wait().expect("room")).collect();
        assert!(writes.wait().is_none() && writes.wait().is_none());
        waiting.pop();
        assert!(writes.wait().is_some());
    }

    #[test]
    fn only_who_may_write_writes_directly() {
        let direct = libc::O_DIRECT;
        assert!(writes_directly(direct | libc::O_RDWR));
        assert!(writes_directly(direct | libc::O_WRONLY));
        assert!(!writes_directly(direct) && !writes_directly(libc::O_RDWR));
    }
}
