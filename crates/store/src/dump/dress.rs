//! What a file of a plain directory gets once its contents are there: owner, extended attributes,
//! mode and times.

use super::beneath::MadeFile;
use super::error::{DumpError, Dumped, of};
use super::into_directory::DirectoryLoad;
use hearth_backend::{Attrs, Inode, Kind, flags};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};

impl DirectoryLoad<'_> {
    /// Owner, attributes, mode and times of an open file or directory, in the order in which none
    /// undoes another.
    pub(super) fn dress(&mut self, file: BorrowedFd<'_>, path: &[u8], inode: &Inode) -> Dumped<()> {
        let attrs = &inode.attrs;
        let failed = DumpError::at(path, "set attributes");
        let owned = match self.is_root {
            true => rustix::fs::fchown(file, uid(attrs.uid), gid(attrs.gid)),
            false => Ok(()),
        };
        let is = rustix::fs::fstat(file).map_err(|error| failed(of(error)))?;
        match owned {
            Ok(()) if !is_owned(&is, attrs) => self.leave_out("owners", path),
            owned => self.allowed(owned, "owners", path)?,
        }
        for (name, value) in &inode.xattrs {
            let set = rustix::fs::fsetxattr(file, &**name, value, XattrFlags::empty());
            self.allowed(set, "extended attributes", path)?;
        }
        let mode = self.mode(&is, path, attrs);
        rustix::fs::fchmod(file, mode).map_err(|error| failed(of(error)))?;
        rustix::fs::futimens(file, &times(inode)).map_err(|error| failed(of(error)))?;
        if attrs.flags & flags::SETTABLE != 0 {
            self.flag_later(MadeFile::from(&is), path, attrs.flags);
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
            let mode = self.mode(&is, path, attrs);
            // A name that is a link by now would lead elsewhere; this is the file itself.
            let place = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::chmod(place, mode).map_err(|error| failed(of(error)))?;
        }
        let set = rustix::fs::utimensat(at, name, &times(inode), no_follow);
        set.map_err(|error| failed(of(error)))
    }

    /// The mode of a file that is as `is` says. One whose owner it could not get would run as
    /// whoever loads.
    fn mode(&mut self, is: &Stat, path: &[u8], attrs: &Attrs) -> Mode {
        let perm = u32::from(attrs.perm);
        let runs_as = perm & (Mode::SUID | Mode::SGID).as_raw_mode();
        if attrs.kind == Kind::Directory || runs_as == 0 || is_owned(is, attrs) {
            return Mode::from_raw_mode(perm);
        }
        self.leave_out("setuid and setgid bits", path);
        Mode::from_raw_mode(perm & !runs_as)
    }
}

/// Whether a file has the owner and the group that it had.
fn is_owned(is: &Stat, attrs: &Attrs) -> bool {
    (is.st_uid, is.st_gid) == (attrs.uid, attrs.gid)
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
