//! Short names for steps, so that a script reads as what happens.

use libc::{O_CREAT, O_RDWR};

use crate::bytes::{Bytes, bytes};
use crate::op::{CWD, Fd, Op, SetTime, Target};

pub fn open(path: &str, flags: i32, mode: u32) -> Op {
    Op::Open {
        dirfd: CWD,
        path: bytes(path),
        flags,
        mode,
    }
}

pub fn file(path: &str) -> Op {
    open(path, O_CREAT | O_RDWR, 0o666)
}

pub fn dir(path: &str, mode: u32) -> Op {
    Op::MakeDir {
        dirfd: CWD,
        path: bytes(path),
        mode,
    }
}

pub fn chmod(path: &str, mode: u32) -> Op {
    Op::Chmod {
        dirfd: CWD,
        path: bytes(path),
        mode,
        flags: 0,
    }
}

pub fn stat(path: &str) -> Op {
    Op::Stat {
        dirfd: CWD,
        path: bytes(path),
        flags: 0,
    }
}

pub fn symlink(target: &str, path: &str) -> Op {
    Op::Symlink {
        target: bytes(target),
        dirfd: CWD,
        path: bytes(path),
    }
}

pub fn rename(old: &str, new: &str, flags: u32) -> Op {
    Op::Rename {
        old_dirfd: CWD,
        old: bytes(old),
        new_dirfd: CWD,
        new: bytes(new),
        flags,
    }
}

pub fn unlink(path: &str, flags: i32) -> Op {
    Op::Unlink {
        dirfd: CWD,
        path: bytes(path),
        flags,
    }
}

pub fn times(path: &str, times: [SetTime; 2], flags: i32) -> Op {
    Op::SetTimes {
        dirfd: CWD,
        path: bytes(path),
        times,
        flags,
    }
}

pub fn copy(from: Fd, from_at: i64, to: Fd, to_at: i64, len: usize) -> Op {
    Op::Copy {
        from,
        from_at: Some(from_at),
        to,
        to_at: Some(to_at),
        len,
        flags: 0,
    }
}

/// Sets an access ACL.
pub fn acl(path: &str, entries: &[(u16, u16, u32)]) -> Op {
    let (target, name) = (Target::Path(bytes(path)), bytes("system.posix_acl_access"));
    Op::SetXattr {
        target,
        name,
        value: acl_value(entries),
        flags: 0,
    }
}

/// The bytes of an ACL.
pub fn acl_value(entries: &[(u16, u16, u32)]) -> Bytes {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    bytes(value)
}

pub const NO_ID: u32 = u32::MAX;
pub const OPEN_ROOT: u32 = 0o777;
