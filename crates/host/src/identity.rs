//! Which inode it is: what tells two inodes apart that had one number one after the other.

use crate::chunks::take;
use crate::fnv::fnv;
use crate::handle::FileHandle;
use rustix::fd::BorrowedFd;
use rustix::fs::{Statx, fstatfs, makedev};

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
    /// Where there are no handles: when it was made, as far as that is known. On overlayfs its type
    /// in place of that: an inode that is copied up keeps its number, and not its birth.
    Time(i64, u32),
}

/// The bits of a mode that say what kind of file it is.
const TYPE: u16 = libc::S_IFMT as u16;

/// `f_type` of overlayfs.
const OVERLAY: u64 = 0x794c_7630;

/// The device that an inode is on.
pub fn device(stat: &Statx) -> u64 {
    makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

impl Identity {
    /// Of an open file with these attributes.
    pub fn of(fd: BorrowedFd<'_>, stat: &Statx) -> Identity {
        let birth = match FileHandle::of(fd) {
            Some(handle) => Birth::Handle(handle),
            None if is_on_overlay(fd) => Birth::Time(i64::from(stat.stx_mode & TYPE), 0),
            None => Birth::Time(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
        };
        Identity {
            mount: stat.stx_mnt_id,
            dev: device(stat),
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

    /// Whether a text has the form of [`Identity::lasting`].
    pub fn is_lasting(text: &str) -> bool {
        let mut parts = text.split(':');
        let is_born = |text: &str| match text.strip_prefix('t').and_then(|at| at.split_once('.')) {
            Some((sec, nsec)) => is_number::<i64>(sec) && is_number::<u32>(nsec),
            None => FileHandle::is_text(text),
        };
        parts.next().is_some_and(is_number::<u64>)
            && parts.next().is_some_and(is_born)
            && parts.next().is_none_or(is_number::<u64>)
            && parts.next().is_none()
    }

    /// Whether it is the same inode, on whichever mount.
    pub fn is_same_inode(&self, other: &Identity) -> bool {
        (self.dev, self.ino, self.birth) == (other.dev, other.ino, other.birth)
    }

    /// 20 bits that tell apart inodes which had one number one after the other.
    pub fn generation(&self) -> u32 {
        let mut bytes = Vec::with_capacity(64);
        self.put_birth(&mut bytes);
        let hash = fnv(&bytes);
        (hash ^ hash >> 20 ^ hash >> 40) as u32 & 0xf_ffff
    }

    /// Appends number, handle or birth: what stays when mounts and devices have other numbers.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.ino.to_le_bytes());
        self.put_birth(out);
    }

    fn put_birth(&self, out: &mut Vec<u8>) {
        match &self.birth {
            Birth::Handle(handle) => {
                out.push(1);
                handle.put(out);
            }
            Birth::Time(sec, nsec) => {
                out.push(0);
                out.extend(sec.to_le_bytes());
                out.extend(nsec.to_le_bytes());
            }
        }
    }

    /// What [`Identity::put`] wrote, of an inode on the mount of `root`.
    pub fn take_from(root: &Identity, bytes: &mut &[u8]) -> Option<Identity> {
        let ino = u64::from_le_bytes(take(bytes)?);
        let [kind] = take(bytes)?;
        let birth = match kind {
            0 => {
                let sec = i64::from_le_bytes(take(bytes)?);
                Birth::Time(sec, u32::from_le_bytes(take(bytes)?))
            }
            1 => Birth::Handle(FileHandle::take_from(bytes)?),
            _ => return None,
        };
        Some(Identity {
            ino,
            birth,
            ..*root
        })
    }

    /// Its handle, where there is one.
    pub fn handle(&self) -> Option<&FileHandle> {
        match &self.birth {
            Birth::Handle(handle) => Some(handle),
            Birth::Time(..) => None,
        }
    }
}

/// Whether a text is a number as numbers are written.
fn is_number<N: std::str::FromStr + std::fmt::Display>(text: &str) -> bool {
    let number = text.parse::<N>();
    number.is_ok_and(|number| number.to_string() == text)
}

fn is_on_overlay(fd: BorrowedFd<'_>) -> bool {
    fstatfs(fd).is_ok_and(|found| found.f_type as u64 == OVERLAY)
}
