//! Notifies the kernel of changes that it did not make.
//!
//! A notification may wait for a lock of the directory that a request in progress holds, or for
//! dirty pages to be written back by further requests. So it is sent by the thread that made the
//! change, never by a queue thread: the core calls observers outside all its locks on the library's
//! threads only.
//!
//! With a writeback cache the kernel believes its own size and times of a regular file for as long
//! as it has the inode. What the library changes is then seen only if the kernel drops the inode:
//! it is asked to, a little later again if a close was on its way, and again when the file is
//! closed. Until the kernel forgets the inode it is *stale*.

use super::by_inode::ByInode;
use crate::dispatch::handles::Handles;
use crate::log::say;
use crate::transport::device::Device;
use crate::wire::{
    NotifyDelete, NotifyInvalEntry, NotifyInvalInode, NotifyPrune, NotifyStore, OutHeader, notify,
};
use hearth::{Caller, KernelCache, Kind, Observer};
use hearth_sync::epoch;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::time::Duration;
use zerocopy::{Immutable, IntoBytes};

/// How often, and after which pause, the kernel is asked again to drop an inode.
const PATIENCE: u32 = 40;
const PAUSE: Duration = Duration::from_micros(50);

lock_class! {
    DeviceLock = "fuse.notifier", 876;
    StaleLock = "fuse.stale-inodes", 877;
}

/// Sends notifications of one session.
pub(crate) struct Notifier<V: KernelCache> {
    /// `None` when the session is over. Cloned out of the lock, so that senders do not wait for
    /// each other.
    device: Lock<DeviceLock, Option<Arc<Device>>>,
    /// The first failure was reported. Relaxed: it orders nothing, at worst a line is printed
    /// twice.
    failed: AtomicBool,
    /// Present if the kernel keeps sizes and times itself.
    stale: Option<Stale<V>>,
    /// Open files, if the kernel collects writes of those that no limit is known for.
    collecting: Option<Arc<Handles<V::File>>>,
    /// It collects writes whatever it is told.
    collects_anyway: bool,
    /// Whether the kernel drops inodes that it is asked to.
    prunes: bool,
    /// See [`Notifier::ends`]. Relaxed: the pages that are written back because of it come later.
    ends: AtomicBool,
}

/// Regular files that the library changed while the kernel had the inode.
struct Stale<V> {
    vfs: V,
    /// A request that looks here without the lock and misses an inode which is just being added
    /// came before the change was announced.
    inodes: ByInode<StaleLock, ()>,
}

impl<V: KernelCache> Stale<V> {
    /// The kernel has the inode, and believes what is no longer so. Whether that is new.
    fn mark(&self, ino: u64) -> bool {
        self.with(ino, |inodes, is_known| {
            is_known && inodes.insert(ino, ()).is_none()
        })
    }

    /// A FORGET of the inode was counted. The kernel may have found it again before it said this of
    /// an earlier time, and the change may be younger still: then the mark is not about what was
    /// forgotten.
    fn unmark(&self, ino: u64) {
        self.with(ino, |inodes, is_known| {
            !is_known && inodes.remove(&ino).is_some()
        });
    }

    /// Calls `change` with whether the kernel has the inode. That is found out under the lock, so
    /// that no mark comes after the last FORGET, and none goes that a change has just left.
    fn with(&self, ino: u64, change: impl FnOnce(&mut HashMap<u64, ()>, bool) -> bool) -> bool {
        // Garbage of the core is not collected under the lock.
        let _pinned = epoch::pin();
        let inodes = &self.inodes;
        inodes.with(ino, |inodes| change(inodes, self.vfs.is_known(ino)))
    }

    /// Takes the lock of a part of the inodes, if one in that part is stale.
    fn has(&self, ino: u64) -> bool {
        self.inodes.may_know(ino) && self.inodes.with(ino, |inodes| inodes.contains_key(&ino))
    }
}

impl<V: KernelCache> Notifier<V> {
    /// Sends through `device`; `writeback` gives the core if the kernel keeps sizes and times
    /// itself, `collecting` the open files if it acknowledges writes by itself, and
    /// `collects_anyway` if those of files that are charged first too.
    pub fn new(
        device: Arc<Device>,
        writeback: Option<V>,
        collecting: Option<Arc<Handles<V::File>>>,
        collects_anyway: bool,
        prunes: bool,
    ) -> Notifier<V> {
        let stale = writeback.map(|vfs| Stale {
            vfs,
            inodes: ByInode::default(),
        });
        Notifier {
            device: Lock::new(Some(device)),
            failed: AtomicBool::new(false),
            stale,
            collecting,
            collects_anyway,
            prunes,
            ends: AtomicBool::new(false),
        }
    }

    /// The connection is about to be aborted. The kernel is asked for the pages of files before,
    /// and says no more when they were written.
    pub fn ends(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Whether [`Notifier::ends`] was called.
    pub fn ends_soon(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Sends nothing from now on.
    pub fn close(&self) {
        let device = self.device.lock().take();
        drop(device);
    }

    /// Whether the session is over.
    pub fn is_closed(&self) -> bool {
        self.device.lock().is_none()
    }

    /// Whether the kernel has an inode whose size and times it should drop.
    pub fn is_stale(&self, ino: u64) -> bool {
        self.stale.as_ref().is_some_and(|stale| stale.has(ino))
    }

    /// A regular file has other times than the kernel believes; the kernel is asked to drop it
    /// next.
    pub fn mark_stale(&self, ino: u64) {
        if let Some(stale) = &self.stale {
            stale.mark(ino);
        }
    }

    /// A FORGET of the inode was counted, which need not be the last.
    pub fn forgotten(&self, ino: u64) {
        if let Some(stale) = &self.stale
            && stale.inodes.may_know(ino)
        {
            stale.unmark(ino);
        }
    }

    /// Has the kernel drop an inode that the library changed, if nobody has it open.
    fn drop_stale(&self, stale: &Stale<V>, ino: u64) {
        if !stale
            .vfs
            .block_on(|vfs| vfs.getattr(&Caller::ROOT, ino))
            .is_ok_and(|attr| attr.kind == Kind::File)
        {
            return;
        }
        let first = stale.mark(ino);
        self.prune(ino);
        // A close without its reply yet holds the inode for a moment. One that was stale
        // before is open: the next close will see to it.
        let mut patience = if first { PATIENCE } else { 0 };
        while patience > 0 && self.is_stale(ino) {
            patience -= 1;
            thread::sleep(PAUSE);
            self.prune(ino);
        }
    }

    /// Asks the kernel to drop an inode that nobody uses.
    fn prune(&self, ino: u64) {
        self.prune_all(&[ino]);
    }

    /// Asks the kernel to drop those of these inodes that nobody uses.
    pub fn prune_all(&self, inodes: &[u64]) {
        let head = NotifyPrune {
            count: inodes.len() as u32,
            ..Default::default()
        };
        self.send(notify::PRUNE, &head, inodes.as_bytes(), &[]);
    }

    /// Attributes of `ino` are stale, and its contents in `data`. False if the kernel does not have
    /// the inode.
    pub fn inval_inode(&self, ino: u64, data: Option<Range<u64>>) -> bool {
        let offset = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        let (off, len) = match data {
            // A negative offset leaves the contents alone; length 0 reaches to the end.
            None => (-1, 0),
            Some(range) if range.end >= i64::MAX as u64 => (offset(range.start), 0),
            Some(range) => (
                offset(range.start),
                offset(range.end.saturating_sub(range.start)).max(1),
            ),
        };
        self.send(
            notify::INVAL_INODE,
            &NotifyInvalInode { ino, off, len },
            &[],
            &[],
        )
    }

    /// What the kernel knows of `name` in `parent` is stale.
    pub fn inval_entry(&self, parent: u64, name: &[u8]) {
        let head = NotifyInvalEntry {
            parent,
            namelen: name.len() as u32,
            flags: 0,
        };
        self.send(notify::INVAL_ENTRY, &head, name, &[0]);
    }

    /// `name` in `parent`, which meant `child`, is gone: watchers of the directory are told.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the core does not tell removed from changed")
    )]
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) {
        let head = NotifyDelete {
            parent,
            child,
            namelen: name.len() as u32,
            padding: 0,
        };
        self.send(notify::DELETE, &head, name, &[0]);
    }

    /// Puts contents into the page cache.
    #[cfg_attr(not(test), expect(dead_code, reason = "no home reads ahead yet"))]
    pub fn store(&self, nodeid: u64, offset: u64, data: &[u8]) {
        let head = NotifyStore {
            nodeid,
            offset,
            size: data.len() as u32,
            padding: 0,
        };
        self.send(notify::STORE, &head, data, &[]);
    }

    /// Sends one notification. False if the kernel does not have what it is about.
    fn send(
        &self,
        code: i32,
        head: &(impl IntoBytes + Immutable),
        body: &[u8],
        tail: &[u8],
    ) -> bool {
        let Some(device) = self.device.lock().clone() else {
            return false;
        };
        let head = head.as_bytes();
        let len = (size_of::<OutHeader>() + head.len() + body.len() + tail.len()) as u32;
        let header = OutHeader {
            len,
            error: code,
            unique: 0,
        };
        let result = device.send(&[header.as_bytes(), head].concat(), body, tail);
        match result.map_err(|error| error.raw_os_error()) {
            Ok(()) => true,
            // No such inode or name; or the mount is going at the same time.
            Err(Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENOTCONN)) => false,
            // A directory that is in use keeps its name.
            Err(Some(libc::ENOTEMPTY | libc::EBUSY)) => true,
            Err(error) => {
                self.report(error.map(io::Error::from_raw_os_error));
                true
            }
        }
    }

    fn report(&self, error: Option<io::Error>) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            say(format_args!(
                "notifying the kernel: {error:?}; its caches may be stale until they time out"
            ));
        }
    }
}

impl<V: KernelCache> Observer for Notifier<V> {
    fn entry_changed(&self, parent: u64, name: &[u8]) {
        self.inval_entry(parent, name);
    }

    fn inode_changed(&self, ino: u64, data: Option<Range<u64>>) {
        if let (true, Some(stale)) = (self.inval_inode(ino, data), &self.stale) {
            self.drop_stale(stale, ino);
        }
    }

    fn crowded(&self, inodes: &[u64]) {
        if self.prunes {
            self.prune_all(inodes);
        }
    }

    fn collecting(&self) -> Vec<u64> {
        let handles = self.collecting.as_ref();
        handles.map_or_else(Vec::new, |handles| handles.collecting())
    }

    fn collects_anyway(&self) -> bool {
        self.collects_anyway
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::{NonBlocking, Vfs, Volume, VolumeVfs};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use zerocopy::FromBytes;

    #[test]
    fn a_changed_name_is_sent_with_its_nul_and_nothing_after_the_end() {
        let (ours, kernel) = UnixDatagram::pair().unwrap();
        let device = Arc::new(Device::from_fd(OwnedFd::from(ours)));
        let notifier = Notifier::<VolumeVfs<NonBlocking>>::new(device, None, None, false, true);
        notifier.entry_changed(7, b"name");
        notifier.inode_changed(9, Some(4096..8192));
        notifier.inode_changed(9, None);
        notifier.delete(7, 9, b"gone");
        notifier.store(9, 512, b"bytes");
        notifier.close();
        notifier.entry_changed(8, b"late");
        drop(notifier);

        let mut buffer = [0; 256];
        let size = kernel.recv(&mut buffer).unwrap();
        let (header, rest) = OutHeader::read_from_prefix(&buffer[..size]).unwrap();
        assert_eq!(
            (header.len as usize, header.error, header.unique),
            (size, 3, 0)
        );
        let (head, name) = NotifyInvalEntry::read_from_prefix(rest).unwrap();
        assert_eq!((head.parent, head.namelen, name), (7, 4, &b"name\0"[..]));

        let mut inode = || {
            let size = kernel.recv(&mut buffer).unwrap();
            NotifyInvalInode::read_from_prefix(&buffer[16..size])
                .unwrap()
                .0
        };
        let (data, plain) = (inode(), inode());
        assert_eq!((data.ino, data.off, data.len), (9, 4096, 4096));
        assert_eq!((plain.off, plain.len), (-1, 0));
        let mut message = |head: usize| {
            let size = kernel.recv(&mut buffer).unwrap();
            let (header, _) = OutHeader::read_from_prefix(&buffer).unwrap();
            (header.error, buffer[16 + head..size].to_vec())
        };
        assert_eq!(
            message(size_of::<NotifyDelete>()),
            (notify::DELETE, b"gone\0".to_vec())
        );
        assert_eq!(
            message(size_of::<NotifyStore>()),
            (notify::STORE, b"bytes".to_vec())
        );
        kernel.set_nonblocking(true).unwrap();
        assert_eq!(
            kernel.recv(&mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    /// Regression: a FORGET of an earlier time took the mark of a later change away, so that the
    /// kernel kept an old size of a file after its close, and wrote at the old end.
    #[test]
    fn a_forget_of_before_leaves_the_mark_of_an_inode_that_was_found_again() {
        let vfs = Volume::builder().build().unwrap().nonblocking_vfs();
        let (ours, _kernel) = UnixDatagram::pair().unwrap();
        let device = Arc::new(Device::from_fd(OwnedFd::from(ours)));
        let notifier = Notifier::new(device, Some(vfs.clone()), None, false, true);
        let forget = |ino| {
            Vfs::forget(&vfs, ino, 1);
            notifier.forgotten(ino);
        };
        let made = vfs.mknod(&Caller::ROOT, 1, b"f", Kind::File, 0o600, 0);
        let ino = made.unwrap().ino;
        // The kernel has dropped it, and finds it again before it says so.
        vfs.lookup(&Caller::ROOT, 1, b"f").unwrap();
        notifier.mark_stale(ino);
        forget(ino);
        assert!(
            notifier.is_stale(ino),
            "the kernel has it, with an old size"
        );
        forget(ino);
        assert!(!notifier.is_stale(ino), "the kernel does not have it");
        notifier.mark_stale(ino);
        assert!(!notifier.is_stale(ino), "nobody would take this mark away");
    }
}
