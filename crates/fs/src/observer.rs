//! Observers are notified of changes that the library side makes, and of a lack of memory.

use std::ops::Range;

/// Notified of each change made through [`crate::Process`], after it, outside all locks, on the
/// thread that made it. The FUSE front end drops what the kernel has cached.
pub trait Observer: Send + Sync + 'static {
    /// The meaning of `name` in directory `parent` changed.
    fn entry_changed(&self, parent: u64, name: &[u8]);

    /// Attributes of inode `ino` changed, and its contents in `data` (bytes), if given; those of a
    /// directory are its listing.
    fn inode_changed(&self, ino: u64, data: Option<Range<u64>>);

    /// Memory is over its budget, and these inodes stay because the front end has looked them up:
    /// a kernel may be asked to forget those that nobody uses. No lock is held and nothing is
    /// pinned.
    fn crowded(&self, inodes: &[u64]) {
        let _ = inodes;
    }

    /// Inode numbers of the files that are open now and whose writes are acknowledged before the
    /// volume hears of them, one for each open file. Called while quotas are being set; must not
    /// set any.
    fn collecting(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Whether writes are always acknowledged before the volume hears of them, regardless of
    /// [`crate::VolumeBuilder::charge_first`] when a file is opened.
    fn collects_anyway(&self) -> bool {
        false
    }
}

/// A change of which observers are notified when the operation is over.
pub(crate) enum FsEvent {
    Entry(u64, Box<[u8]>),
    Inode(u64, Option<Range<u64>>),
}

impl FsEvent {
    pub fn notify(&self, observer: &dyn Observer) {
        match self {
            FsEvent::Entry(parent, name) => observer.entry_changed(*parent, name),
            FsEvent::Inode(ino, data) => observer.inode_changed(*ino, data.clone()),
        }
    }
}
