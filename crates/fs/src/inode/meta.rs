//! Attributes of an inode behind one sequence lock: readers take a consistent picture without a
//! shared write.

use crate::attr::{Kind, Time};
use hearth_sync::primitive::atomic::{
    AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed,
};
use hearth_sync::seq::SeqLock;

/// Packed attributes. Every field but `size` is written under `lock` and read in a read section of
/// it (hence `Relaxed` throughout: the sequence lock orders them). Single fields that need no
/// partner may be read alone.
///
/// In this order: what permission checks read first, what appending moves after it, so that the
/// inode can lay the two on different cache lines.
#[repr(C)]
pub(crate) struct Meta {
    lock: SeqLock,
    perm: AtomicU16,
    /// Immutable.
    kind: Kind,
    uid: AtomicU32,
    gid: AtomicU32,
    nlink: AtomicU32,
    flags: AtomicU32,
    project: AtomicU32,
    rdev: AtomicU32,
    /// In nanoseconds since 1970: it comes from a clock.
    btime: AtomicU64,
    /// Written by the holder of the inode's `change`, outside `lock`: a file that grows does not
    /// disturb those who check who may use it.
    size: AtomicU64,
    atime: AtomicTime,
    mtime: AtomicTime,
    ctime: AtomicTime,
}

/// A copy of the attributes, to look at or to change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub perm: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub flags: u32,
    pub project: u32,
    pub rdev: u32,
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
}

/// What a permission check looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub perm: u16,
    pub uid: u32,
    pub gid: u32,
    pub flags: u32,
}

impl Meta {
    /// Where the part begins that appending moves.
    pub const MOVING_AT: usize = std::mem::offset_of!(Meta, size);

    pub fn new(kind: Kind, f: &Fields) -> Meta {
        Meta {
            lock: SeqLock::new(),
            perm: AtomicU16::new(f.perm),
            kind,
            uid: AtomicU32::new(f.uid),
            gid: AtomicU32::new(f.gid),
            nlink: AtomicU32::new(f.nlink),
            flags: AtomicU32::new(f.flags),
            project: AtomicU32::new(f.project),
            size: AtomicU64::new(f.size),
            atime: AtomicTime::new(f.atime),
            mtime: AtomicTime::new(f.mtime),
            ctime: AtomicTime::new(f.ctime),
            btime: AtomicU64::new(f.btime.nanos()),
            rdev: AtomicU32::new(f.rdev),
        }
    }

    pub fn read(&self) -> Fields {
        self.lock.read(|| self.fields())
    }

    pub fn owner(&self) -> Owner {
        self.lock.read(|| Owner {
            perm: self.perm.load(Relaxed),
            uid: self.uid.load(Relaxed),
            gid: self.gid.load(Relaxed),
            flags: self.flags.load(Relaxed),
        })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    pub fn nlink(&self) -> u32 {
        self.nlink.load(Relaxed)
    }

    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    pub fn perm(&self) -> u16 {
        self.perm.load(Relaxed)
    }

    /// The caller holds the inode's `change`.
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Relaxed);
    }

    /// Reads, changes and writes back as one, all but the size.
    pub fn update<R>(&self, change: impl FnOnce(&mut Fields) -> R) -> R {
        let _write = self.lock.write();
        let mut fields = self.fields();
        let result = change(&mut fields);
        self.store(&fields);
        result
    }

    fn fields(&self) -> Fields {
        Fields {
            perm: self.perm.load(Relaxed),
            uid: self.uid.load(Relaxed),
            gid: self.gid.load(Relaxed),
            nlink: self.nlink.load(Relaxed),
            flags: self.flags.load(Relaxed),
            project: self.project.load(Relaxed),
            rdev: self.rdev.load(Relaxed),
            size: self.size.load(Relaxed),
            atime: self.atime.load(),
            mtime: self.mtime.load(),
            ctime: self.ctime.load(),
            btime: Time::from_nanos(self.btime.load(Relaxed)),
        }
    }

    fn store(&self, f: &Fields) {
        self.perm.store(f.perm, Relaxed);
        self.uid.store(f.uid, Relaxed);
        self.gid.store(f.gid, Relaxed);
        self.nlink.store(f.nlink, Relaxed);
        self.flags.store(f.flags, Relaxed);
        self.project.store(f.project, Relaxed);
        self.atime.store(f.atime);
        self.mtime.store(f.mtime);
        self.ctime.store(f.ctime);
        self.btime.store(f.btime.nanos(), Relaxed);
    }
}

impl Fields {
    /// A new inode's attributes.
    pub fn new(perm: u16, uid: u32, gid: u32, now: Time) -> Fields {
        Fields {
            perm,
            uid,
            gid,
            nlink: 1,
            flags: 0,
            project: 0,
            rdev: 0,
            size: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
        }
    }

    /// Clears setuid and setgid as Linux does when somebody without privilege writes to or owns
    /// anew a file: setgid without group execute stays for a `member` of the group.
    pub fn kill_suidgid(&mut self, kind: Kind, member: bool) {
        self.perm &= !killed_bits(self.perm, kind, member);
    }
}

impl Owner {
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

struct AtomicTime {
    sec: AtomicI64,
    nsec: AtomicU32,
}

impl AtomicTime {
    fn new(time: Time) -> AtomicTime {
        AtomicTime {
            sec: AtomicI64::new(time.sec),
            nsec: AtomicU32::new(time.nsec),
        }
    }

    fn load(&self) -> Time {
        Time {
            sec: self.sec.load(Relaxed),
            nsec: self.nsec.load(Relaxed),
        }
    }

    fn store(&self, time: Time) {
        self.sec.store(time.sec, Relaxed);
        self.nsec.store(time.nsec, Relaxed);
    }
}
