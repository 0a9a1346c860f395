//! One request on its way: what it runs with, and why it may stop before the end.

use super::stop::{Attempt, Stop};
use super::superblock::Superblock;
use crate::caller::Caller;
use crate::inode::{Inode, InodeRef};
use crate::observer::FsEvent;
use hearth_sync::epoch::Guard;
use std::cell::RefCell;

/// One request on its way.
pub(crate) struct Ctx<'a> {
    pub sb: &'a Superblock,
    pub caller: &'a Caller<'a>,
    /// What it has changed so far, for observers.
    pub(super) notes: &'a RefCell<Vec<FsEvent>>,
    pub(super) observed: bool,
    /// The backend has failed what the attempt before this one lacked: a call that may answer a part
    /// (`read(2)`) answers what is here, and stops where it lacks something.
    pub allow_partial: bool,
}

impl Ctx<'_> {
    /// Remembers that `name` in `parent` changed.
    pub fn entry_changed(&self, parent: &Inode, name: &[u8]) {
        if self.observed {
            let mut notes = self.notes.borrow_mut();
            notes.push(FsEvent::Entry(parent.number(), name.into()));
            // A kernel keeps listings as contents, also of names that it has never looked up.
            notes.push(FsEvent::Inode(parent.number(), Some(0..u64::MAX)));
        }
    }

    /// Remembers that attributes, and contents in `data`, changed.
    pub fn inode_changed(&self, inode: &Inode, data: Option<std::ops::Range<u64>>) {
        if self.observed {
            self.notes
                .borrow_mut()
                .push(FsEvent::Inode(inode.number(), data));
        }
    }

    /// Keeps `inode` in memory while it is changed. Costs nothing where nothing is ever evicted.
    pub fn pin_inode<'c>(&'c self, inode: &Inode, g: &'c Guard) -> Attempt<InodePin<'c>> {
        if !self.sb.backend.evictable() {
            return Ok(InodePin {
                sb: self.sb,
                g,
                inode: None,
            });
        }
        self.pin_always(inode, g)
    }

    /// Keeps `inode` from its end: whoever found it without a name may be the last to know it.
    pub fn pin_always<'c>(&'c self, inode: &Inode, g: &'c Guard) -> Attempt<InodePin<'c>> {
        InodePin::new(self.sb, inode, g).ok_or(Stop::Restart)
    }
}

/// An inode that stays in memory until this is dropped.
pub(crate) struct InodePin<'c> {
    sb: &'c Superblock,
    g: &'c Guard,
    inode: Option<InodeRef>,
}

impl<'c> InodePin<'c> {
    /// `None` if the inode is gone.
    pub(super) fn new(sb: &'c Superblock, inode: &Inode, g: &'c Guard) -> Option<InodePin<'c>> {
        Some(InodePin {
            sb,
            g,
            inode: Some(inode.hold()?),
        })
    }
}

impl Drop for InodePin<'_> {
    fn drop(&mut self) {
        if let Some(inode) = self.inode.take() {
            self.sb.release(inode, self.g);
        }
    }
}
