//! An inode: attributes, contents, and what few inodes have (extended attributes, ACLs, locks).
//!
//! It lives in the volume's [`hearth_sync::object::Table`]. [`Inode`] is the object around it,
//! whose per-core counters hold what commuting operations would otherwise contend for:
//!
//! | counter | meaning |
//! |---|---|
//! | 0 | references: open files, kernel lookups, processes' directories |
//! | 1 | writers inside the gate |
//! | [`COUNT`] | file: pages; directory: entries, and subdirectories from bit 40 up |
//! | [`TOUCHED`] | latest change of contents in nanoseconds; 0: `mtime` has it (clock set back) |
//!
//! Lock order:
//! ```text
//! change               attributes but the size, xattrs and ACLs of one inode
//!   growth             its size
//!     gate             closed by truncate and the range operations of fallocate
//!       meta           sequence lock of the attributes, held for a few stores
//! ```
//!
//! The holder of `growth` does not wait for `change`: a truncate drops file capabilities under
//! neither.

mod meta;
mod optional;
mod padded_bytes;
mod state;
mod xattrs;
mod xattrs_acls;

pub(crate) use meta::{ChangeLock, Fields, GrowthLock, Owner, Recorded, Times};
pub(crate) use padded_bytes::PaddedBytes;
pub(crate) use state::{StateBit, StateBits};
pub(crate) use xattrs_acls::{CAPABILITY, XattrsAcls, xattrs_of};

use crate::acl::Acl;
use crate::attr::{Attr, Kind, Target, Time};
use crate::data::{Data, PAGE};
use crate::directory::Directory;
use crate::locks::{FileLocks, LockAllowance};
use crate::number::is_control;
use crate::tenant::TenantId;
use hearth_sync::epoch::Guard;
use hearth_sync::lock_class;
use hearth_sync::object::{ObjRef, Object, PerCpuRwLock};
use hearth_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use meta::Meta;
use optional::OptionalParts;
use std::mem::MaybeUninit;

/// An inode in its table: what the table counts, around the inode itself.
pub(crate) type Inode = Object<InodeInner>;
/// A counted reference to an inode.
pub(crate) type InodeRef = ObjRef<InodeInner>;

/// Per-core counter of the number of pages or entries.
pub(crate) const COUNT: usize = 2;
/// Per-core counter of the latest change of contents.
pub(crate) const TOUCHED: usize = 3;
/// What a subdirectory adds to [`COUNT`] beside itself.
pub(crate) const SUBDIR: i64 = 1 << 40;

/// Subdirectories from which on a directory gets no other one (`EMLINK`): the 24 bits that count
/// them hold twice as many.
pub(crate) const SUBDIRS_MAX: u64 = 1 << 23;
/// Subdirectories that a core may have counted before it asks how many the others have. So a
/// thousand cores at once stay below [`NO_SUBDIRS`].
const OWN_SUBDIRS: u64 = 1 << 12;
/// Larger numbers of subdirectories are sums below zero.
const NO_SUBDIRS: u64 = 3 << 22;

/// The entries and subdirectories in a directory's count. The counters of the cores are read one
/// after the other, so either sum may be below zero for a moment while they change.
pub(crate) fn split(count: i64) -> (u64, u64) {
    let (entries, subdirectories) = (count << 24 >> 24, subdirectories(count));
    let shown = subdirectories * u64::from(subdirectories < NO_SUBDIRS);
    (entries.max(0).unsigned_abs(), shown)
}

/// The subdirectories in a directory's count, or in the part of a core: modulo 2^24.
fn subdirectories(count: i64) -> u64 {
    let entries = count << 24 >> 24;
    count.wrapping_sub(entries).cast_unsigned() >> 40
}

/// The count of a directory.
pub(crate) fn joined((entries, subdirectories): (u64, u64)) -> i64 {
    let subdirectories = subdirectories.cast_signed().wrapping_mul(SUBDIR);
    entries.cast_signed().wrapping_add(subdirectories)
}

lock_class!(pub(crate) GateLock = "inode.gate", 60);

/// One inode, in cache lines: what walks and permission checks read; what names and times change;
/// what growth changes; what every use of the contents reads.
#[repr(C)]
pub(crate) struct InodeInner {
    /// On the first line: closing a file and checking permissions read it.
    optional: OptionalParts,
    pub meta: Meta,
    /// Written by the holder of `growth`.
    pub contents: ContentsLog,
    _rest_of_growth: MaybeUninit<[u64; 3]>,
    pub body: Body,
    /// Pages that lie wholly below the size, or fewer. An access inside them need not read the
    /// size, so appends do not disturb it. Written by the holder of `growth`, before the size
    /// shrinks and after it grows.
    full_pages: AtomicU32,
    /// Writers of existing bytes enter it; truncate and range operations close it.
    pub gate: PerCpuRwLock<GateLock>,
    /// See [`StateBits`].
    pub state: StateBits,
    pub id: InodeId,
}

/// What a durable backend has been told of the contents of a file. Written by the holder of
/// `growth`. Relaxed: `growth` orders it; whoever reads it without has evicted the inode first.
#[derive(Default)]
pub(crate) struct ContentsLog {
    /// The epoch of the last record; 0 for none in this life of the inode.
    pub epoch: AtomicU64,
    /// The size that was last recorded.
    pub size: AtomicU64,
    /// Counts the records: the order of the changes.
    pub version: AtomicU32,
    /// Counts the changes that took pages away or moved them. A write-back that was under way
    /// begins again.
    pub edits: AtomicU32,
}

impl ContentsLog {
    /// Goes on from another inode's, of which this is the same one put back.
    pub fn continue_from(&self, other: &ContentsLog) {
        self.epoch.store(other.epoch.load(Relaxed), Relaxed);
        self.size.store(other.size.load(Relaxed), Relaxed);
        self.version.store(other.version.load(Relaxed), Relaxed);
        self.edits.store(other.edits.load(Relaxed), Relaxed);
    }
}

/// Number and generation of the inode, on the line that every use of the contents reads anyway: the
/// object's own copy lies on a line that changes of owner and mode write. Immutable.
#[derive(Clone, Copy)]
pub(crate) struct InodeId {
    pub number: u64,
    pub generation: u32,
}

/// The contents of an inode, by kind. The kind is immutable.
pub(crate) enum Body {
    File(Data),
    Directory(Box<Directory>),
    Symlink(PaddedBytes),
    /// A device (with its number), FIFO or socket (0).
    Special(u32),
    /// A file below `.hearth`, by its index there.
    Control(usize),
}

impl InodeInner {
    /// The tenant whose inode it is.
    pub fn tenant(&self) -> TenantId {
        TenantId::of(self.meta.project(), self.meta.uid())
    }

    // Always inlined: it is made where it stays.
    #[inline(always)]
    pub fn new(
        (number, generation): (u64, u32),
        kind: Kind,
        fields: &Fields,
        body: Body,
    ) -> InodeInner {
        InodeInner {
            meta: Meta::new(kind, fields),
            contents: ContentsLog::default(),
            _rest_of_growth: MaybeUninit::uninit(),
            body,
            full_pages: AtomicU32::new(full_pages_of(fields.size)),
            gate: PerCpuRwLock::new(),
            state: StateBits::default(),
            id: InodeId { number, generation },
            optional: OptionalParts::default(),
        }
    }

    /// Whether all bytes before `end` are below the size.
    pub fn reaches(&self, end: u64) -> bool {
        // Relaxed: one number. A reader of bytes checks again afterwards, and a writer of bytes is
        // inside the gate, which a truncate closes before it changes anything.
        end <= u64::from(self.full_pages.load(Relaxed)) * PAGE || end <= self.meta.size()
    }

    /// Sets the size. The caller holds `growth`, and has closed the gate if the file shrinks.
    pub fn set_size(&self, size: u64) {
        let full_pages = full_pages_of(size);
        // Relaxed: only the holder of `growth` writes it; see `reaches`.
        let old = self.full_pages.load(Relaxed);
        if full_pages < old {
            // Relaxed: see `reaches`.
            self.full_pages.store(full_pages, Relaxed);
        }
        self.meta.set_size(size);
        if full_pages > old {
            // Relaxed: see `reaches`.
            self.full_pages.store(full_pages, Relaxed);
        }
    }

    pub fn kind(&self) -> Kind {
        self.meta.kind()
    }

    pub fn is_dir(&self) -> bool {
        self.kind() == Kind::Directory
    }

    pub fn directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub fn data(&self) -> Option<&Data> {
        match &self.body {
            Body::File(data) => Some(data),
            _ => None,
        }
    }

    /// Replaces extended attributes and ACLs, and changes attributes that go with them. The caller
    /// holds `change`, or is the only one who knows the inode.
    ///
    /// The mode summarises the ACL, so nobody may see one without the other: an ACL is there before
    /// mode and state bit say so, and goes after they say that it is gone.
    /// `after` gets their version before another change can come.
    pub fn set_extra(
        &self,
        extra: XattrsAcls,
        change: impl FnOnce(&mut Fields),
        g: &Guard,
        after: impl FnOnce(u32),
    ) {
        let was_capable = self.extra(g).is_some_and(XattrsAcls::has_capability);
        match (was_capable, extra.has_capability()) {
            (false, true) => self.state.set(StateBit::Capable),
            (true, false) => self.state.clear(StateBit::Capable),
            // The state bits lie on a line that truncates write.
            _ => {}
        }
        let acls = extra.acls();
        let update = || {
            let change = |fields: &mut Fields| {
                fields.acls = acls;
                change(fields);
            };
            self.meta.update_and(change, after);
        };
        let extra = (!extra.is_empty()).then(|| Box::new(extra));
        if self.meta.acls() & !acls == 0 {
            self.optional.set_extra(extra, g);
            update();
        } else {
            update();
            self.optional.set_extra(extra, g);
        }
    }

    /// Takes extended attributes out of memory, or puts them back: they are as they were. The
    /// caller holds `change`, or is the only one who knows the inode.
    pub fn move_extra(&self, extra: XattrsAcls, g: &Guard) {
        self.optional.set_extra(Some(Box::new(extra)), g);
    }

    /// Whether there are extended attributes that only the backend knows.
    pub fn has_extra_at_backend(&self, g: &Guard) -> bool {
        self.extra(g).is_some_and(|extra| extra.is_at_backend)
    }

    /// The access ACL, if there is one.
    pub fn access_acl<'g>(&'g self, g: &'g Guard) -> Option<&'g Acl> {
        self.extra(g)?.access.as_ref()
    }

    /// The default ACL of a directory. In a directory without one, changes of extended attributes
    /// do not disturb the caller.
    pub fn default_acl<'g>(&'g self, g: &'g Guard) -> Option<&'g Acl> {
        if self.meta.acls() & meta::DEFAULT == 0 {
            return None;
        }
        self.extra(g)?.default.as_ref()
    }

    /// Blocks that extended attributes and ACLs are charged for.
    pub fn extra_blocks(&self) -> u64 {
        u64::from(self.meta.extra_blocks.load(Relaxed))
    }

    /// The caller holds `change`, or is the only one who knows the inode.
    pub fn set_extra_blocks(&self, blocks: u64) {
        let blocks = u32::try_from(blocks).expect("names and values have limits");
        // Most changes take no further block, and every lookup of the inode reads this line.
        if self.meta.extra_blocks.load(Relaxed) != blocks {
            self.meta.extra_blocks.store(blocks, Relaxed);
        }
    }

    pub fn extra<'g>(&'g self, g: &'g Guard) -> Option<&'g XattrsAcls> {
        self.optional.extra(g)
    }

    /// The advisory locks, if there ever were any.
    #[inline]
    pub fn taken_locks(&self) -> Option<&FileLocks> {
        self.optional.locks()
    }

    /// The advisory locks, made on first use within the volume's `allowance`.
    pub fn locks(&self, allowance: &LockAllowance) -> &FileLocks {
        self.optional.locks_within(allowance)
    }
}

/// What needs the number and the per-core counters beside the inode.
pub(crate) trait InodeExt {
    fn attr(&self) -> Attr;
    /// [`InodeExt::attr`], written to where it stays: it is too large to be handed from function to
    /// function.
    fn attr_into(&self, attr: &mut Attr);
    /// Whether it is a file with pages of its own. Does not read the contents.
    fn has_data(&self) -> bool;
    /// What a directory entry for this inode holds.
    fn target(&self) -> Target;
    /// Pages of a file; entries of a directory, and its subdirectories from bit 40 up. Any of them
    /// may be below zero for a moment.
    fn count(&self) -> i64;
    /// Whether the directory may get another subdirectory.
    fn has_room_for_directory(&self) -> bool;
    /// Pages that a file holds.
    fn pages(&self) -> u64;
    /// Blocks that the inode is charged for.
    fn blocks(&self) -> u64;
    /// Contents changed at `now`, in nanoseconds. Returns what this core had as the time of the
    /// latest change.
    fn touch(&self, now: u64) -> u64;
    /// An entry was added or removed at `now`, in nanoseconds. Returns the same.
    fn count_entry(&self, delta: i64, subdirectory: bool, now: u64) -> u64;
    /// Entries of a directory.
    fn entries(&self) -> u64;
    /// Latest change of contents in nanoseconds, where `mtime` does not have it; else 0.
    fn touched(&self) -> u64;
    /// Device number of a device.
    fn rdev(&self) -> u32;
    /// Attributes with the per-core parts merged in.
    fn fields(&self) -> Fields;
    /// Times with the per-core parts merged in.
    fn times(&self) -> Times;
}

impl InodeExt for Inode {
    fn attr(&self) -> Attr {
        let mut attr = Attr::default();
        self.attr_into(&mut attr);
        attr
    }

    // Never inlined: each attribute is then written once, where it stays. Inside a call of `stat`
    // each would be kept apart, in more places than there are registers.
    #[inline(never)]
    fn attr_into(&self, attr: &mut Attr) {
        attr.ino = self.number();
        attr.shown_ino = self.number();
        attr.generation = self.generation();
        attr.kind = self.kind();
        attr.blksize = PAGE as u32;
        attr.rdev = self.rdev();
        self.meta.read_into(attr);
        touch_by(self.touched(), &mut attr.mtime, &mut attr.ctime);
        attr.blocks = self.extra_blocks() * (PAGE / 512);
        if self.data().is_some() {
            attr.blocks += self.count().max(0) as u64 * (PAGE / 512);
            return;
        }
        match &self.body {
            Body::File(_) => {}
            Body::Symlink(target) => attr.size = target.len() as u64,
            Body::Special(_) | Body::Control(_) => attr.size = 0,
            Body::Directory(_) => {
                let (entries, subdirectories) = split(self.count());
                attr.size = entries * ENTRY_SIZE;
                if attr.nlink != 0 {
                    attr.nlink = 2 + subdirectories as u32;
                }
            }
        }
    }

    fn has_data(&self) -> bool {
        self.kind() == Kind::File && !is_control(self.number())
    }

    fn target(&self) -> Target {
        Target {
            ino: self.number(),
            generation: self.generation(),
            kind: self.kind(),
        }
    }

    fn count(&self) -> i64 {
        self.percpu().sum(COUNT)
    }

    fn has_room_for_directory(&self) -> bool {
        // The parts of other cores are read only where there may be very many, or where this core
        // has removed more than it has made.
        subdirectories(self.percpu().own(COUNT)) < OWN_SUBDIRS
            || split(self.count()).1 < SUBDIRS_MAX
    }

    fn pages(&self) -> u64 {
        match &self.body {
            Body::File(_) => self.count().max(0) as u64,
            _ => 0,
        }
    }

    fn blocks(&self) -> u64 {
        self.pages() + self.extra_blocks()
    }

    fn touch(&self, now: u64) -> u64 {
        self.percpu().raise(TOUCHED, now)
    }

    // Always inlined: mostly it is two additions, of which a call would be the most.
    #[inline(always)]
    fn count_entry(&self, delta: i64, subdirectory: bool, now: u64) -> u64 {
        let delta = match subdirectory {
            true => delta * (SUBDIR + 1),
            false => delta,
        };
        self.percpu().add_and_raise((COUNT, delta), (TOUCHED, now))
    }

    fn entries(&self) -> u64 {
        split(self.count()).0
    }

    fn touched(&self) -> u64 {
        self.percpu().max(TOUCHED)
    }

    fn rdev(&self) -> u32 {
        match self.body {
            Body::Special(rdev) => rdev,
            _ => 0,
        }
    }

    #[inline(always)]
    fn fields(&self) -> Fields {
        let mut f = self.meta.read();
        touch_by(self.touched(), &mut f.mtime, &mut f.ctime);
        f
    }

    // Always inlined: nine words that a call would return through memory.
    #[inline(always)]
    fn times(&self) -> Times {
        let mut times = self.meta.times();
        touch_by(self.touched(), &mut times.mtime, &mut times.ctime);
        times
    }
}

/// Merges the latest change of contents into the times, if they do not have it.
#[inline(always)]
fn touch_by(touched: u64, mtime: &mut Time, ctime: &mut Time) {
    if touched != 0 {
        *mtime = Time::from_nanos(touched);
        if ctime.nanos() < touched {
            *ctime = *mtime;
        }
    }
}

fn full_pages_of(size: u64) -> u32 {
    u32::try_from(size / PAGE).unwrap_or(u32::MAX)
}

/// What an entry adds to the size of a directory, as in tmpfs.
const ENTRY_SIZE: u64 = 20;

// What stat reads and what commuting writers count lie on different cache lines, and an inode takes
// five lines.
#[cfg(not(feature = "shuttle"))]
const _: () = assert!(Inode::PERCPU_AT.is_multiple_of(64) && size_of::<Inode>() <= 320);
#[cfg(not(feature = "shuttle"))]
const _: () = {
    let inode = Inode::VALUE_AT;
    let meta = inode + std::mem::offset_of!(InodeInner, meta);
    assert!((meta + Meta::NAMES_AT).is_multiple_of(64));
    assert!((meta + Meta::SIZE_AT).is_multiple_of(64));
    assert!((inode + std::mem::offset_of!(InodeInner, body)).is_multiple_of(64));
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_splits_into_entries_and_subdirectories_even_if_one_core_is_late() {
        assert_eq!(split(3 * (SUBDIR + 1) + 4), (7, 3));
        assert_eq!(split(0), (0, 0));
        // The entries of another core are not seen yet, or its subdirectory.
        assert_eq!(split(SUBDIR - 2), (0, 1));
        assert_eq!(split(-SUBDIR + 5), (5, 0));
        assert_eq!(split(-3 * (SUBDIR + 1)), (0, 0));
    }

    #[test]
    fn all_subdirectories_that_a_directory_may_have_are_counted() {
        for subdirectories in [
            1,
            SUBDIRS_MAX - 1,
            SUBDIRS_MAX,
            SUBDIRS_MAX + 1,
            NO_SUBDIRS - 1,
        ] {
            let both = (subdirectories + 5, subdirectories);
            assert_eq!(split(joined(both)), both);
            let fewer = joined(both).wrapping_sub(SUBDIR + 1);
            assert_eq!(split(fewer), (both.0 - 1, both.1 - 1));
        }
    }
}
