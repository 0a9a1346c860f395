//! The context of an operation: what each attempt of it runs with.

use crate::attr::Kind;
use crate::caller::Caller;
use crate::inode::{Inode, InodeRef};
use crate::observer::FsEvent;
use crate::superblock::{Attempt, Fetch, Stop, Superblock};
use crate::tenant::TenantId;
use crate::watch::{NameChange, NameEvent, NamePlace};
use hearth_sync::epoch::Guard;
use std::cell::RefCell;

/// The context of one attempt.
pub(crate) struct Ctx<'a> {
    pub sb: &'a Superblock,
    pub caller: &'a Caller<'a>,
    /// What the operation has changed so far, for observers.
    pub(super) events: &'a RefCell<Vec<FsEvent>>,
    pub(super) observed: bool,
    /// The backend has failed to give what the attempt before this one missed: a call that may
    /// return a part (`read(2)`) returns what is in memory, up to the next miss.
    pub allow_partial: bool,
}

impl Ctx<'_> {
    /// Tells listeners that a name of `what`, an inode number and its kind, is about to change.
    /// Called under the lock of the name, when nothing can refuse the change any more. One load
    /// while nobody listens.
    #[inline]
    pub fn tell_name(
        &self,
        parent: &Inode,
        name: &[u8],
        what: (u64, Kind),
        change: impl FnOnce() -> NameChange,
    ) {
        if self.sb.watched_names.is_watched() {
            self.tell_watched(parent, name, what, change());
        }
    }

    #[cold]
    fn tell_watched(&self, parent: &Inode, name: &[u8], what: (u64, Kind), change: NameChange) {
        let at = NamePlace::new(parent.number(), name);
        let event = NameEvent::new(self.caller, self.sb.now(), what, at, change);
        self.sb.watched_names.tell(event);
    }

    /// Records that `name` in `parent` changed.
    pub fn entry_changed(&self, parent: &Inode, name: &[u8]) {
        if self.observed {
            let mut events = self.events.borrow_mut();
            events.push(FsEvent::Entry(parent.number(), name.into()));
            // A kernel caches a listing as contents, also of names that it has never looked up.
            events.push(FsEvent::Inode(parent.number(), Some(0..u64::MAX)));
        }
    }

    /// Records that attributes, and contents in `data`, changed.
    pub fn inode_changed(&self, inode: &Inode, data: Option<std::ops::Range<u64>>) {
        if self.observed {
            self.events
                .borrow_mut()
                .push(FsEvent::Inode(inode.number(), data));
        }
    }

    /// Begins an operation that changes `inode`, or a name in it: `EROFS` where changes are
    /// refused.
    pub fn begin_change(&self, inode: &Inode) -> Attempt<()> {
        self.sb.check_writable()?;
        self.begin_acknowledged(inode)
    }

    /// [`Ctx::begin_change`] of what a kernel in front has acknowledged, even if the volume has
    /// become read-only since. The operation runs again while an epoch is being cut.
    pub fn begin_acknowledged(&self, inode: &Inode) -> Attempt<()> {
        match self.sb.log() {
            Some(log) if !log.may_begin() => Err(Stop::Restart),
            Some(log) if log.is_overfull(|| self.payer_of(inode)) => Err(Stop::miss(Fetch::Sync)),
            _ => Ok(()),
        }
    }

    /// The tenant whose share a change of `inode` counts in: of a name in a directory, who makes
    /// it; of anything else, whose it is.
    fn payer_of(&self, inode: &Inode) -> TenantId {
        match inode.is_dir() {
            true => TenantId::of(inode.meta.project(), self.caller.uid),
            false => inode.tenant(),
        }
    }

    /// Pins `inode` in memory while it is changed. Costs nothing where nothing is ever evicted.
    pub fn pin_inode<'c>(&'c self, inode: &Inode, g: &'c Guard) -> Attempt<InodePin<'c>> {
        if !self.sb.is_durable() {
            return Ok(InodePin {
                sb: self.sb,
                g,
                inode: None,
            });
        }
        self.pin_always(inode, g)
    }

    /// Pins `inode` even where nothing is evicted: an unlinked inode must not end meanwhile.
    pub fn pin_always<'c>(&'c self, inode: &Inode, g: &'c Guard) -> Attempt<InodePin<'c>> {
        InodePin::new(self.sb, inode, g).ok_or(Stop::Restart)
    }
}

/// A pin: the inode stays in memory until this is dropped.
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
