//! The inodes that a call is about, and which capabilities of another user namespace count there.
//!
//! Linux lets a process use a capability of its own user namespace over an inode if the namespace
//! has both owners of the inode. The kernel that passes a call on checks that too, but on what it
//! has believed of the inode for up to a second.

use crate::proc_status::UserNamespace;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::thread::CapabilitySet;
use std::ffi::CStr;

/// What a call is about.
#[derive(Clone, Copy, Debug)]
pub enum Over<'a> {
    /// These inodes.
    Inodes(&'a [BorrowedFd<'a>]),
    /// Names that are removed, replaced or moved: their directories, and what they mean.
    Names(&'a [(BorrowedFd<'a>, &'a CStr)]),
}

/// What counts for a right of an inode.
struct Owned {
    uid: u32,
    gid: u32,
    is_sticky: bool,
}

impl Over<'_> {
    /// What a process may do here by its capabilities in `namespace`, which is not the daemon's.
    pub fn granted(&self, namespace: &UserNamespace) -> CapabilitySet {
        let mut granted = namespace.capabilities;
        let mut take = |found: Option<Owned>, loses_names: bool| {
            match found {
                Some(found) if namespace.has(found.uid, found.gid) => {
                    // Others may put something else in place of a name before the call comes.
                    if loses_names && found.is_sticky {
                        granted -= CapabilitySet::FOWNER;
                    }
                }
                _ => granted = CapabilitySet::empty(),
            }
        };
        match self {
            Over::Inodes(inodes) => inodes.iter().for_each(|&fd| take(owned(fd, c""), false)),
            Over::Names(names) => {
                for &(directory, name) in *names {
                    take(owned(directory, c""), true);
                    // What there is not yet has no owner.
                    if let Some(found) = owned(directory, name) {
                        take(Some(found), false);
                    }
                }
            }
        }
        granted
    }
}

/// Owners of an inode; `None` if they cannot be told. Whoever serves it is not asked, since it may
/// not answer.
fn owned(at: BorrowedFd<'_>, name: &CStr) -> Option<Owned> {
    let by = match name.is_empty() {
        true => AtFlags::EMPTY_PATH,
        false => AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
    };
    let asked = StatxFlags::UID | StatxFlags::GID | StatxFlags::MODE;
    let stat = statx(at, name, by | AtFlags::STATX_DONT_SYNC, asked).ok()?;
    Some(Owned {
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        is_sticky: u32::from(stat.stx_mode) & libc::S_ISVTX != 0,
    })
}
