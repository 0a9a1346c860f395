//! What a file of a plain directory gets once its contents are there: owner, extended attributes,
//! mode and times.

use super::beneath::MadeFile;
use super::error::{DumpError, Dumped};
use super::into_directory::{DirectoryLoad, of};
use hearth_backend::{Inode, Kind, flags};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};

impl DirectoryLoad<'_> {
    /// Owner, attributes, mode and times of an open file or directory, in the order in which none
    /// undoes another.
    pub(super) fn dress(&mut self, file: BorrowedFd<'_>, path: &[u8], inode: &Inode) -> Dumped<()> {
        let attrs = &inode.attrs;
        let failed = DumpError::at(path, "set attributes");
        if self.is_root {
            let owned = rustix::fs::fchown(file, uid(attrs.uid), gid(attrs.gid));
            self.allowed(owned, "owners", path)?;
        } else {
            self.leave_out("owners", path);
        }
        for (name, value) in &inode.xattrs {
            let set = rustix::fs::fsetxattr(file, &**name, value, XattrFlags::empty());
            self.allowed(set, "extended attributes", path)?;
        }
        let mode = Mode::from_raw_mode(u32::from(attrs.perm));
        rustix::fs::fchmod(file, mode).map_err(|error| failed(of(error)))?;
        rustix::fs::futimens(file, &times(inode)).map_err(|error| failed(of(error)))?;
        if attrs.flags & flags::SETTABLE != 0 {
            let file = MadeFile::of(file).map_err(|error| failed(of(error)))?;
            self.flag_later(file, path, attrs.flags);
        }
        if attrs.project != 0 {
            self.leave_out("projects", path);
        }
        Ok(())
    }

    /// Owner, mode and times of what is not opened: links, pipes, sockets and devices.
    pub(super) fn dress_name(
        &mut self,
        at: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        inode: &Inode,
    ) -> Dumped<()> {
        let attrs = &inode.attrs;
        let no_follow = AtFlags::SYMLINK_NOFOLLOW;
        let failed = DumpError::at(path, "set attributes");
        if self.is_root {
            let (uid, gid) = (uid(attrs.uid), gid(attrs.gid));
            let owned = rustix::fs::chownat(at, name, uid, gid, no_follow);
            self.allowed(owned, "owners", path)?;
        }
        if !inode.xattrs.is_empty() {
            // There is no call for them that takes a directory and follows no link.
            self.leave_out("extended attributes of links and special files", path);
        }
        if attrs.kind != Kind::Symlink {
            let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(at, name, how, Mode::empty());
            let file = file.map_err(|error| failed(of(error)))?;
            let is = rustix::fs::fstat(&file).map_err(|error| failed(of(error)))?;
            if FileType::from_raw_mode(is.st_mode) == FileType::Symlink {
                let path = path.to_vec();
                return Err(DumpError::Replaced { path });
            }
            let mode = Mode::from_raw_mode(u32::from(attrs.perm));
            // A name that is a link by now would lead elsewhere; this is the file itself.
            let place = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::chmod(place, mode).map_err(|error| failed(of(error)))?;
        }
        let set = rustix::fs::utimensat(at, name, &times(inode), no_follow);
        set.map_err(|error| failed(of(error)))
    }
}

fn times(inode: &Inode) -> Timestamps {
    let time = |time: hearth_backend::Time| Timespec {
        tv_sec: time.sec,
        tv_nsec: time.nsec.into(),
    };
    Timestamps {
        last_access: time(inode.attrs.atime),
        last_modification: time(inode.attrs.mtime),
    }
}

fn uid(uid: u32) -> Option<Uid> {
    Some(Uid::from_raw(uid))
}

fn gid(gid: u32) -> Option<Gid> {
    Some(Gid::from_raw(gid))
}
