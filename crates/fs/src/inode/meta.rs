//! Attributes of an inode behind sequence locks: readers get a consistent copy without a shared
//! write.

use crate::attr::{Attr, Kind, Time};
use crate::quota::{NO_ACCOUNT, Owners};
use hearth_sync::lock::{Class, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::LastCore;
use hearth_sync::primitive::atomic::{
    AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed,
};
use hearth_sync::seq::SeqLock;

/// Packed attributes, in this order: what permission checks read; what names and times change; what
/// growth changes. The inode lays the three on different cache lines.
///
/// `lock` is taken by every writer of anything but `size`; a reader under it sees all attributes as
/// they were at one moment. `owner_lock` is taken inside it, and only when mode, owner or flags
/// change. Permission checks read under `owner_lock`, so that changes of names and times do not
/// disturb them. Fields are written in a write section and read in a read section (hence `Relaxed`
/// throughout: the sequence locks order them). A single field that needs no partner may be read
/// alone.
#[repr(C)]
pub(crate) struct Meta {
    owner_lock: SeqLock<OwnerLock>,
    perm: AtomicU16,
    /// Immutable.
    kind: Kind,
    /// The last writer of `owner_lock`.
    owner_last: LastCore,
    uid: AtomicU32,
    gid: AtomicU32,
    /// Also holds [`UNLINKED`], which is read at every last use and so is not on the line that
    /// names change, [`LINKABLE`] and [`ACLS`].
    flags: AtomicU32,
    project: AtomicU32,
    /// Blocks that extended attributes and ACLs are charged for. Written under `change`. Relaxed: a
    /// number of its own.
    pub extra_blocks: AtomicU32,
    /// Number of the quota account that pays. Written by the holder of `change`, and for a file
    /// with the gate closed; when the inode ends it is written outside of `lock`.
    account: AtomicU32,
    /// Times of access, modification and change; their nanoseconds are below.
    seconds: [AtomicI64; 3],
    nanoseconds: [AtomicU32; 3],
    nlink: AtomicU32,
    lock: SeqLock<MetaLock>,
    /// The last writer of `lock`.
    last: LastCore,
    /// Nanoseconds since 1970: the time comes from a clock.
    btime: AtomicU64,
    /// Whether the inode is counted among the unlinked ones that wait for their last reference to
    /// go: [`UNCOUNTED`], [`COUNTED`], or [`ENDED`] for ever. It is here because removing the last
    /// name writes this line anyway. Relaxed: a word of its own.
    counted: AtomicU8,
    /// Low bits of the epoch in which attributes were last recorded for the backend. Written under
    /// `lock`. It is here because such changes write this line anyway. Relaxed: whoever relies on
    /// it has evicted the inode first.
    pub logged: AtomicU8,
    /// What was recorded of the inode, as bits of [`Recorded`], which are set and never cleared. It
    /// is here because there is room. Relaxed: who relies on a bit comes behind whoever set it.
    recorded: AtomicU8,
    /// Serialises changes of attributes except the size, of xattrs and of ACLs. It is here because
    /// such changes write this line anyway.
    pub change: Lock<ChangeLock, ()>,
    /// Written by the holder of `growth`, outside `lock`.
    size: AtomicU64,
    /// Serialises changes of the size.
    pub growth: Lock<GrowthLock, ()>,
}

/// What the log of changes has of an inode.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Recorded {
    /// More than its first record has taken.
    Apart = 1,
    /// That times of its contents were set.
    TimesSet = 2,
}

pub(crate) struct ChangeLock;
impl Class for ChangeLock {
    const NAME: &'static str = "inode.change";
    const RANK: u32 = 50;
}

lock_class! {
    pub(crate) GrowthLock = "inode.growth", 55;
}

lock_class! {
    MetaLock = "inode.meta", 70;
    OwnerLock = "inode.owner", 71;
}

/// A copy of the attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub perm: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    /// Made without a name, and may get its first one. Changes only when `nlink` leaves 0 or
    /// returns to it.
    pub linkable: bool,
    pub flags: u32,
    /// The ACLs that exist, as bits of [`ACLS`].
    pub acls: u32,
    pub project: u32,
    pub account: u32,
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
}

/// When contents and attributes were read and changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

/// What a permission check reads, and what an inode hands on to inodes made in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub perm: u16,
    pub uid: u32,
    pub gid: u32,
    pub flags: u32,
    pub project: u32,
    acls: u32,
}

// A model checker's atomics have sizes of their own.
#[cfg(not(feature = "shuttle"))]
impl Meta {
    /// Where the part begins that names and times change.
    pub const NAMES_AT: usize = std::mem::offset_of!(Meta, seconds);
    /// Where the part begins that growth changes.
    pub const SIZE_AT: usize = std::mem::offset_of!(Meta, size);
}

impl Meta {
    // Always inlined: see `InodeInner::new`.
    #[inline(always)]
    pub fn new(kind: Kind, f: &Fields) -> Meta {
        let times = [f.atime, f.mtime, f.ctime];
        Meta {
            owner_lock: SeqLock::new(),
            perm: AtomicU16::new(f.perm),
            kind,
            owner_last: LastCore::new(),
            uid: AtomicU32::new(f.uid),
            gid: AtomicU32::new(f.gid),
            flags: AtomicU32::new(f.word()),
            project: AtomicU32::new(f.project),
            account: AtomicU32::new(f.account),
            extra_blocks: AtomicU32::new(0),
            size: AtomicU64::new(f.size),
            seconds: times.map(|time| AtomicI64::new(time.sec)),
            nanoseconds: times.map(|time| AtomicU32::new(time.nsec)),
            nlink: AtomicU32::new(f.nlink),
            lock: SeqLock::new(),
            last: LastCore::new(),
            btime: AtomicU64::new(f.btime.nanos()),
            counted: AtomicU8::new(UNCOUNTED),
            logged: AtomicU8::new(0),
            recorded: AtomicU8::new(0),
            change: Lock::new(()),
            growth: Lock::new(()),
        }
    }

    #[inline(always)]
    pub fn read(&self) -> Fields {
        self.lock.read(|| Fields {
            size: self.size(),
            ..self.fields_but_size()
        })
    }

    /// [`Meta::read`] into what `stat` returns, which has no other attributes.
    #[inline(always)]
    pub fn read_into(&self, attr: &mut Attr) {
        self.lock.read(|| {
            attr.perm = self.perm();
            attr.uid = self.uid();
            attr.gid = self.gid.load(Relaxed);
            attr.nlink = self.nlink();
            attr.flags = self.flags();
            attr.project = self.project();
            attr.size = self.size();
            attr.atime = self.time(0);
            attr.mtime = self.time(1);
            attr.ctime = self.time(2);
            attr.btime = Time::from_nanos(self.btime.load(Relaxed));
        });
    }

    /// The times alone, for a check at every read.
    pub fn times(&self) -> Times {
        self.lock.read(|| Times {
            atime: self.time(0),
            mtime: self.time(1),
            ctime: self.time(2),
        })
    }

    pub fn owner(&self) -> Owner {
        self.owner_lock.read(|| self.owner_fields())
    }

    /// Marks the inode as counted or not; true if that changed. An inode that has ended keeps its
    /// mark.
    pub fn set_counted(&self, counted: bool) -> bool {
        let (from, to) = match counted {
            true => (UNCOUNTED, COUNTED),
            false => (COUNTED, UNCOUNTED),
        };
        self.counted.load(Relaxed) == from
            && (self.counted)
                .compare_exchange(from, to, Relaxed, Relaxed)
                .is_ok()
    }

    /// Marks the inode as ended; true if it was counted.
    pub fn end_counted(&self) -> bool {
        self.counted.swap(ENDED, Relaxed) == COUNTED
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn project(&self) -> u32 {
        self.project.load(Relaxed)
    }

    pub fn uid(&self) -> u32 {
        self.uid.load(Relaxed)
    }

    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    pub fn nlink(&self) -> u32 {
        self.nlink.load(Relaxed)
    }

    /// Whether it has no name left, or has none yet.
    pub fn is_unlinked(&self) -> bool {
        self.flags.load(Relaxed) & UNLINKED != 0
    }

    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed) & !(UNLINKED | LINKABLE | ACLS)
    }

    /// The ACLs that exist, as bits of [`ACLS`].
    pub fn acls(&self) -> u32 {
        self.flags.load(Relaxed) & ACLS
    }

    /// Whether it may get its first name.
    pub fn is_linkable(&self) -> bool {
        self.flags.load(Relaxed) & LINKABLE != 0
    }

    pub fn perm(&self) -> u16 {
        self.perm.load(Relaxed)
    }

    /// The quota account that pays for the inode.
    pub fn account(&self) -> u32 {
        self.account.load(Relaxed)
    }

    /// The inode has ended and nobody pays for it. The caller holds `change` and `growth`.
    pub fn end_account(&self) {
        self.account.store(NO_ACCOUNT, Relaxed);
    }

    /// Whether such a thing was recorded of the inode.
    #[inline]
    pub fn has_recorded(&self, what: Recorded) -> bool {
        self.recorded.load(Relaxed) & what as u8 != 0
    }

    /// Such a thing is recorded of the inode.
    #[inline]
    pub fn note_recorded(&self, what: Recorded) {
        // Read first, so that an inode in use is not written each time.
        if !self.has_recorded(what) {
            self.recorded.fetch_or(what as u8, Relaxed);
        }
    }

    /// The caller holds `growth`.
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Relaxed);
    }

    /// Reads, changes and writes back the attributes as one, except the size, which `change` sees
    /// as 0: it lies on another line, which growth writes. Unchanged fields are not written.
    #[track_caller]
    pub fn update<R>(&self, change: impl FnOnce(&mut Fields) -> R) -> R {
        self.update_and(change, |_| {})
    }

    /// [`Meta::update`], and calls `after` with the version of the new attributes before another
    /// change can come; it finds them by [`Meta::held`].
    // Always inlined: what `change` leaves alone is then neither compared nor kept in memory.
    #[inline(always)]
    #[track_caller]
    pub fn update_and<R>(
        &self,
        change: impl FnOnce(&mut Fields) -> R,
        after: impl FnOnce(u32),
    ) -> R {
        let write = self.lock.write(&self.last);
        let old = self.fields_but_size();
        let mut new = old;
        let result = change(&mut new);
        if new.owner() != old.owner() || new.btime != old.btime {
            let _write = self.owner_lock.write(&self.owner_last);
            self.perm.store(new.perm, Relaxed);
            self.uid.store(new.uid, Relaxed);
            self.gid.store(new.gid, Relaxed);
            self.flags.store(new.word(), Relaxed);
            self.project.store(new.project, Relaxed);
            self.btime.store(new.btime.nanos(), Relaxed);
        }
        // Only the holder of `change` changes the account: any other writer could bring back an
        // account that has ended meanwhile.
        if new.account != old.account {
            self.account.store(new.account, Relaxed);
        }
        if new.nlink != old.nlink {
            self.nlink.store(new.nlink, Relaxed);
        }
        if (new.nlink == 0) != (old.nlink == 0) {
            self.flags.store(new.word(), Relaxed);
        }
        self.set_time(0, new.atime, old.atime);
        self.set_time(1, new.mtime, old.mtime);
        self.set_time(2, new.ctime, old.ctime);
        after(write.version());
        result
    }

    /// How often the attributes have changed but for the size and per-core times.
    pub fn changes(&self) -> u32 {
        self.lock.sections()
    }

    /// [`Meta::update_and`] of the number of names and the time of change: what a removal and a
    /// rename change reads nothing else.
    // Always inlined: it is a few stores.
    #[inline(always)]
    #[track_caller]
    pub fn update_links(
        &self,
        change: impl FnOnce(u32) -> u32,
        ctime: Time,
        after: impl FnOnce(u32),
    ) {
        let write = self.lock.write(&self.last);
        let old = self.nlink();
        let new = change(old);
        self.nlink.store(new, Relaxed);
        if (new == 0) != (old == 0) {
            self.flags
                .store(self.flags.load(Relaxed) ^ UNLINKED, Relaxed);
        }
        self.seconds[2].store(ctime.sec, Relaxed);
        self.nanoseconds[2].store(ctime.nsec, Relaxed);
        after(write.version());
    }

    /// The attributes but the size, for who holds `lock`.
    pub fn held(&self) -> Fields {
        self.fields_but_size()
    }

    /// Keeps the order of changes of another inode, of which this is the same one put back, and
    /// what was recorded of it.
    pub fn continue_from(&self, other: &Meta) {
        self.lock.raise_above(&other.lock, &self.last);
        self.recorded.store(other.recorded.load(Relaxed), Relaxed);
        self.logged.store(other.logged.load(Relaxed), Relaxed);
    }

    #[inline(always)]
    fn set_time(&self, which: usize, new: Time, old: Time) {
        if new != old {
            self.seconds[which].store(new.sec, Relaxed);
            self.nanoseconds[which].store(new.nsec, Relaxed);
        }
    }

    #[inline(always)]
    fn time(&self, which: usize) -> Time {
        Time {
            sec: self.seconds[which].load(Relaxed),
            nsec: self.nanoseconds[which].load(Relaxed),
        }
    }

    fn owner_fields(&self) -> Owner {
        Owner {
            perm: self.perm.load(Relaxed),
            uid: self.uid.load(Relaxed),
            gid: self.gid.load(Relaxed),
            flags: self.flags(),
            project: self.project(),
            acls: self.acls(),
        }
    }

    #[inline(always)]
    fn fields_but_size(&self) -> Fields {
        let owner = self.owner_fields();
        Fields {
            perm: owner.perm,
            uid: owner.uid,
            gid: owner.gid,
            nlink: self.nlink.load(Relaxed),
            linkable: self.is_linkable(),
            flags: owner.flags,
            acls: owner.acls,
            project: owner.project,
            account: self.account.load(Relaxed),
            size: 0,
            atime: self.time(0),
            mtime: self.time(1),
            ctime: self.time(2),
            btime: Time::from_nanos(self.btime.load(Relaxed)),
        }
    }
}

/// States of [`Meta::counted`].
const UNCOUNTED: u8 = 0;
const COUNTED: u8 = 1;
const ENDED: u8 = 2;

/// A bit in the word of `flags` beside the inode flags: whether `nlink` is 0.
const UNLINKED: u32 = 1 << 31;
/// A bit in the word of `flags`: [`Fields::linkable`].
const LINKABLE: u32 = 1 << 27;
/// A bit in the word of `flags`: whether there is an access ACL. It is read at one moment with the
/// mode; where it is clear, a permission check need not read the line that changes of extended
/// attributes write.
pub(super) const ACCESS: u32 = 1 << 30;
/// A bit in the word of `flags`: whether there is a default ACL.
pub(super) const DEFAULT: u32 = 1 << 28;
/// Both ACL bits. No inode flag that can be set has any of these bits.
const ACLS: u32 = ACCESS | DEFAULT;

impl Fields {
    /// Inode flags, existing ACLs, and whether there is a name, in one word.
    fn word(&self) -> u32 {
        debug_assert_eq!(self.flags & (UNLINKED | LINKABLE | ACLS), 0);
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        let name = bit(self.nlink == 0, UNLINKED) | bit(self.linkable, LINKABLE);
        self.flags | self.acls | name
    }

    fn owner(&self) -> Owner {
        Owner {
            perm: self.perm,
            uid: self.uid,
            gid: self.gid,
            flags: self.flags,
            project: self.project,
            acls: self.acls,
        }
    }

    /// Attributes of a new inode.
    pub fn new(perm: u16, uid: u32, gid: u32, now: Time) -> Fields {
        Fields {
            perm,
            uid,
            gid,
            nlink: 1,
            linkable: false,
            flags: 0,
            acls: 0,
            project: 0,
            account: NO_ACCOUNT,
            size: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
        }
    }

    /// The users, group and project that the inode is charged to.
    pub fn owners(&self) -> Owners {
        Owners {
            uid: self.uid,
            gid: self.gid,
            project: self.project,
        }
    }

    /// Clears setuid and setgid as Linux does when an unprivileged user writes to the file or
    /// changes its owner. Setgid without group execute stays for a `member` of the group.
    pub fn kill_suidgid(&mut self, kind: Kind, member: bool) {
        self.perm &= !killed_bits(self.perm, kind, member);
    }
}

impl Owner {
    /// Whether there is an access ACL beside the mode.
    pub fn has_acl(&self) -> bool {
        self.acls & ACCESS != 0
    }

    /// Whether [`Fields::kill_suidgid`] would change anything.
    pub fn strips_suidgid(&self, kind: Kind, member: bool) -> bool {
        killed_bits(self.perm, kind, member) != 0
    }
}

fn killed_bits(perm: u16, kind: Kind, member: bool) -> u16 {
    let (setuid, setgid) = (libc::S_ISUID as u16, libc::S_ISGID as u16);
    match kind {
        Kind::Directory => 0,
        _ if perm & libc::S_IXGRP as u16 != 0 || !member => perm & (setuid | setgid),
        _ => perm & setuid,
    }
}
