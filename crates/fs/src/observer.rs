//! Who wants to know of changes that the library side makes.

use crate::ops::open::OpenFile;
use hearth_sync::primitive::Arc;
use std::ops::Range;

/// Told of changes made through [`crate::Process`], after them, outside all locks, on the thread
/// that made them. The FUSE front end drops what the kernel has cached.
pub trait Observer: Send + Sync + 'static {
    /// The meaning of `name` in directory `parent` changed.
    fn entry_changed(&self, parent: u64, name: &[u8]);

    /// Attributes of inode `ino` changed, and its contents in `data` (bytes), if given.
    fn node_changed(&self, ino: u64, data: Option<Range<u64>>);

    /// Files that are open now and whose writes are acknowledged before the volume hears of them. Asked
    /// while quotas are being set; sets none itself.
    fn collecting(&self) -> Vec<Arc<OpenFile>> {
        Vec::new()
    }
}

/// A change to be told when the operation is over.
pub(crate) enum Note {
    Entry(u64, Box<[u8]>),
    Node(u64, Option<Range<u64>>),
}

impl Note {
    pub fn tell(&self, observer: &dyn Observer) {
        match self {
            Note::Entry(parent, name) => observer.entry_changed(*parent, name),
            Note::Node(ino, data) => observer.node_changed(*ino, data.clone()),
        }
    }
}
