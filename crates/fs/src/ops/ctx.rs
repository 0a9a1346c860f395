//! The context of an operation: what each attempt of it runs with.

use crate::attr::Kind;
use crate::caller::Caller;
use crate::inode::{Inode, InodeRef};
use crate::log::ChangeLog;
use crate::observer::FsEvent;
use crate::superblock::{Attempt, Fetch, Stop, Superblock};
use crate::tenant::TenantId;
use crate::watch::{EventInode, NameChange, NameEvent, NamePlace};
use hearth_sync::epoch::Guard;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// The context of one attempt.
pub(crate) struct Ctx<'a> {
    pub sb: &'a Superblock,
    pub caller: &'a Caller<'a>,
    /// What the operation has changed so far, if anybody observes.
    pub(super) events: Option<&'a RefCell<Vec<FsEvent>>>,
    /// The backend has failed to give what the attempt before this one missed: a call that may
    /// return a part (`read(2)`) returns what is in memory, up to the next miss.
    pub allow_partial: bool,
}

impl Ctx<'_> {
    /// Tells listeners that a name of `what`, an inode and its kind, is about to change. Called
    /// under the lock of the name, when nothing can refuse the change any more. One load while
    /// nobody listens.
    // Always inlined: what the closures borrow stays in registers.
    #[inline(always)]
    pub fn tell_name(
        &self,
        parent: &Inode,
        name: &[u8],
        what: impl FnOnce() -> (EventInode, Kind),
        change: impl FnOnce() -> NameChange,
    ) {
        if self.sb.watched_names.is_watched() {
            self.tell_watched(parent, name, what(), change());
        }
    }

    #[cold]
    fn tell_watched(
        &self,
        parent: &Inode,
        name: &[u8],
        what: (EventInode, Kind),
        change: NameChange,
    ) {
        let at = NamePlace::new(EventInode::of(parent), name);
        let event = NameEvent::new(self.caller, self.sb.now(), what, at, change);
        self.sb.watched_names.tell(event);
    }

    /// Records that `name` in `parent` changed.
    // Always inlined, like `inode_changed`: mostly it is one look at a flag.
    #[inline(always)]
    pub fn entry_changed(&self, parent: &Inode, name: &[u8]) {
        if let Some(events) = self.events {
            push_event(events, FsEvent::Entry(parent.number(), name.into()));
            // A kernel caches a listing as contents, also of names that it has never looked up.
            push_event(events, FsEvent::Inode(parent.number(), Some(0..u64::MAX)));
        }
    }

    /// Records that attributes, and contents in `data`, changed.
    #[inline(always)]
    pub fn inode_changed(&self, inode: &Inode, data: Option<std::ops::Range<u64>>) {
        if let Some(events) = self.events {
            push_event(events, FsEvent::Inode(inode.number(), data));
        }
    }

    /// Begins an operation that changes `inode`, or a name in it: `EROFS` where changes are
    /// refused.
    #[inline]
    pub fn begin_change(&self, inode: &Inode) -> Attempt<()> {
        self.sb.check_writable()?;
        self.begin_acknowledged(inode)
    }

    /// [`Ctx::begin_change`] of what a kernel in front has acknowledged, even if the volume has
    /// become read-only since. The operation runs again while an epoch is being cut.
    #[inline]
    pub fn begin_acknowledged(&self, inode: &Inode) -> Attempt<()> {
        match self.sb.log() {
            Some(log) => self.begin_logged(log, inode),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn begin_logged(&self, log: &ChangeLog, inode: &Inode) -> Attempt<()> {
        if !log.may_begin() {
            return Err(Stop::Restart);
        }
        match log.is_overfull(|| self.payer_of(inode)) {
            true => Err(Stop::miss(Fetch::Sync)),
            false => Ok(()),
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

    /// Pins `inode` in memory while it is changed. Without a pin where nothing is ever evicted.
    #[inline]
    pub fn pin_inode<'c>(&'c self, inode: &Inode, g: &'c Guard) -> Attempt<Option<InodePin<'c>>> {
        match self.sb.is_durable() {
            true => self.pin_always(inode, g).map(Some),
            false => Ok(None),
        }
    }

    /// Pins `inode` even where nothing is evicted: an unlinked inode must not end meanwhile.
    #[inline(never)]
    pub fn pin_always<'c>(&'c self, inode: &Inode, g: &'c Guard) -> Attempt<InodePin<'c>> {
        InodePin::new(self.sb, inode, g).ok_or(Stop::Restart)
    }
}

#[cold]
#[inline(never)]
fn push_event(events: &RefCell<Vec<FsEvent>>, event: FsEvent) {
    events.borrow_mut().push(event);
}

/// A pin: the inode stays in memory until this is dropped.
pub(crate) struct InodePin<'c> {
    sb: &'c Superblock,
    g: &'c Guard,
    /// Taken by the drop. What would drop it as well is then left out, and the rest is so short
    /// that it is no call.
    inode: ManuallyDrop<Option<InodeRef>>,
}

impl<'c> InodePin<'c> {
    /// `None` if the inode is gone.
    pub(super) fn new(sb: &'c Superblock, inode: &Inode, g: &'c Guard) -> Option<InodePin<'c>> {
        Some(InodePin {
            sb,
            g,
            inode: ManuallyDrop::new(Some(inode.hold()?)),
        })
    }
}

impl Drop for InodePin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(inode) = self.inode.take() {
            give_back(self.sb, inode, self.g);
        }
    }
}

#[cold]
#[inline(never)]
fn give_back(sb: &Superblock, inode: InodeRef, g: &Guard) {
    sb.release(inode, g);
}
