//! Which inode it is: what tells two inodes apart that had one number one after the other.

use crate::handle::FileHandle;
use rustix::fd::BorrowedFd;
use rustix::fs::{Statx, makedev};

/// An inode of the host, as one mount shows it. Two mounts of one filesystem may have other flags,
/// so an inode that both show has two identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Number of the mount.
    pub mount: u64,
    /// Device.
    pub dev: u64,
    /// Number on the device, which is given out again.
    pub ino: u64,
    /// What differs then.
    birth: Birth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Birth {
    /// The handle has a generation in it.
    Handle(FileHandle),
    /// Where there are no handles: when it was made, as far as that is known.
    Time(i64, u32),
}

impl Identity {
    /// Of an open file with these attributes.
    pub fn of(fd: BorrowedFd<'_>, stat: &Statx) -> Identity {
        let birth = match FileHandle::of(fd) {
            Some(handle) => Birth::Handle(handle),
            None => Birth::Time(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
        };
        Identity {
            mount: stat.stx_mnt_id,
            dev: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            birth,
        }
    }

    /// A name that is its own for as long as it exists, also on another mount: letters and digits.
    /// Of the filesystem with device `own` the device is left out.
    pub fn lasting(&self, own: u64) -> String {
        let birth = match &self.birth {
            Birth::Handle(handle) => handle.text(),
            Birth::Time(sec, nsec) => format!("t{sec}.{nsec}"),
        };
        match self.dev == own {
            true => format!("{}:{birth}", self.ino),
            false => format!("{}:{birth}:{}", self.ino, self.dev),
        }
    }

    /// Its handle, where there is one.
    pub fn handle(&self) -> Option<&FileHandle> {
        match &self.birth {
            Birth::Handle(handle) => Some(handle),
            Birth::Time(..) => None,
        }
    }
}
