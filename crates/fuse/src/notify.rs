//! Telling the kernel what changed behind its back.
//!
//! A notification may wait for a lock of the directory that a request in progress holds, or for dirty pages to be
//! written back by further requests. So it is sent by the thread that made the change, never by a queue thread: the
//! core calls observers outside all its locks on the library's threads only.

use crate::transport::device::Device;
use crate::wire::{
    NotifyDelete, NotifyInvalEntry, NotifyInvalInode, NotifyStore, OutHeader, notify,
};
use hearth::Observer;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, Mutex};
use std::io;
use std::ops::Range;
use zerocopy::{Immutable, IntoBytes};

/// Sends notifications of one session.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// `None` when the session is over. Cloned out of the lock, so that senders do not wait for each other.
    device: Mutex<Option<Arc<Device>>>,
    /// The first failure was reported. Relaxed: it orders nothing, at worst a line is printed twice.
    failed: AtomicBool,
}

impl Notifier {
    /// Sends through `device`.
    pub fn new(device: Arc<Device>) -> Notifier {
        Notifier { device: Mutex::new(Some(device)), failed: AtomicBool::new(false) }
    }

    /// Sends nothing from now on.
    pub fn close(&self) {
        let device = self.device.lock().take();
        drop(device);
    }

    /// Attributes of `ino` are stale, and its contents in `data`.
    pub fn inval_inode(&self, ino: u64, data: Option<Range<u64>>) {
        let offset = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        let (off, len) = match data {
            // A negative offset leaves the contents alone; length 0 reaches to the end.
            None => (-1, 0),
            Some(range) if range.end >= i64::MAX as u64 => (offset(range.start), 0),
            Some(range) => (offset(range.start), offset(range.end.saturating_sub(range.start)).max(1)),
        };
        self.send(notify::INVAL_INODE, &NotifyInvalInode { ino, off, len }, &[], &[]);
    }

    /// What the kernel knows of `name` in `parent` is stale.
    pub fn inval_entry(&self, parent: u64, name: &[u8]) {
        let head = NotifyInvalEntry { parent, namelen: name.len() as u32, flags: 0 };
        self.send(notify::INVAL_ENTRY, &head, name, &[0]);
    }

    /// `name` in `parent`, which meant `child`, is gone: watchers of the directory are told.
    #[expect(dead_code, reason = "the core reports changed names, not yet removed ones")]
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) {
        let head = NotifyDelete { parent, child, namelen: name.len() as u32, padding: 0 };
        self.send(notify::DELETE, &head, name, &[0]);
    }

    /// Puts contents into the page cache.
    #[expect(dead_code, reason = "for read-ahead by a home, which does not exist yet")]
    pub fn store(&self, nodeid: u64, offset: u64, data: &[u8]) {
        let head = NotifyStore { nodeid, offset, size: data.len() as u32, padding: 0 };
        self.send(notify::STORE, &head, data, &[]);
    }

    fn send(&self, code: i32, head: &(impl IntoBytes + Immutable), body: &[u8], tail: &[u8]) {
        let Some(device) = self.device.lock().clone() else { return };
        let head = head.as_bytes();
        let len = (size_of::<OutHeader>() + head.len() + body.len() + tail.len()) as u32;
        let header = OutHeader { len, error: code, unique: 0 };
        let result = device.send(&[header.as_bytes(), head].concat(), body, tail);
        match result.map_err(|error| error.raw_os_error()) {
            // ENOENT: the kernel does not know the inode or the name, so it has nothing to forget. The mount may be
            // going at the same time.
            Ok(()) | Err(Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENOTCONN)) => {}
            Err(Some(libc::ENOTEMPTY | libc::EBUSY)) => {}
            Err(error) => self.report(error.map(io::Error::from_raw_os_error)),
        }
    }

    fn report(&self, error: Option<io::Error>) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            eprintln!("hearth: notifying the kernel: {error:?}; its caches may be stale until they time out");
        }
    }
}

impl Observer for Notifier {
    fn entry_changed(&self, parent: u64, name: &[u8]) {
        self.inval_entry(parent, name);
    }

    fn node_changed(&self, ino: u64, data: Option<Range<u64>>) {
        self.inval_inode(ino, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use zerocopy::FromBytes;

    #[test]
    fn a_changed_name_is_sent_with_its_nul_and_nothing_after_the_end() {
        let (ours, kernel) = UnixDatagram::pair().unwrap();
        let notifier = Notifier::new(Arc::new(Device::from_fd(OwnedFd::from(ours))));
        notifier.entry_changed(7, b"name");
        notifier.node_changed(9, Some(4096..8192));
        notifier.node_changed(9, None);
        notifier.close();
        notifier.entry_changed(8, b"late");
        drop(notifier);

        let mut buffer = [0; 256];
        let size = kernel.recv(&mut buffer).unwrap();
        let (header, rest) = OutHeader::read_from_prefix(&buffer[..size]).unwrap();
        assert_eq!((header.len as usize, header.error, header.unique), (size, 3, 0));
        let (head, name) = NotifyInvalEntry::read_from_prefix(rest).unwrap();
        assert_eq!((head.parent, head.namelen, name), (7, 4, &b"name\0"[..]));

        let mut inode = || {
            let size = kernel.recv(&mut buffer).unwrap();
            NotifyInvalInode::read_from_prefix(&buffer[16..size]).unwrap().0
        };
        let (data, plain) = (inode(), inode());
        assert_eq!((data.ino, data.off, data.len), (9, 4096, 4096));
        assert_eq!((plain.off, plain.len), (-1, 0));
        kernel.set_nonblocking(true).unwrap();
        assert_eq!(kernel.recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
