//! Attributes of inodes and of the filesystem.

use crate::attributes;
use crate::checked::SuidSgid;
use crate::errno::PassOn;
use crate::file::OpenHost;
use crate::node::Node;
use crate::over::Over;
use crate::reach::Reached;
use crate::sys;
use crate::tree::Tree;
use hearth::{Attr, Caller, Errno, Kind, Result, SetAttr, SetTime, StatFs};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    Access, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, accessat,
    chmodat, chownat, fstatfs, ftruncate, openat, utimensat,
};

impl Tree {
    /// Attributes.
    pub fn getattr(&self, node: &Arc<Node>) -> Result<Attr> {
        let reached = self.reach(node)?;
        let stat = attributes::stat(reached.as_fd())?;
        self.attr(node, reached.as_fd(), &stat)
    }

    /// Changes attributes, in the order in which a refusal of one leaves the others alone as far as
    /// that goes. The kernel asks for one of them, or for those of one system call, at a time.
    pub fn setattr(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        file: Option<&OpenHost>,
        set: &SetAttr,
    ) -> Result<Attr> {
        let changes_rights = set.uid.is_some() || set.gid.is_some() || set.mode.is_some();
        let kept = changes_rights.then(|| self.take_back_by_rights(node));
        let done = self.set_each(caller, node, file, set);
        drop(kept);
        if changes_rights || set.size.is_some() {
            self.give_up_idle(node);
        }
        done
    }

    fn set_each(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        file: Option<&OpenHost>,
        set: &SetAttr,
    ) -> Result<Attr> {
        let reached = match file {
            Some(file) => Reached::Shared(file.fd()?),
            None => self.reach(node)?,
        };
        let fd = reached.as_fd();
        let over = [fd];
        let over = Over::Inodes(&over);
        if let Some(size) = set.size {
            let suid_sgid = SuidSgid::of_request(set.kill_suidgid);
            self.truncate(caller, node, (file, fd), size, suid_sgid)?;
        }
        if set.uid.is_some() || set.gid.is_some() || is_killing_alone(set) {
            let uid = set.uid.map(Uid::from_raw);
            let gid = set.gid.map(Gid::from_raw);
            let chown = || chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH).pass_on();
            self.rights
                .change(caller, over, SuidSgid::of_caller(caller), chown)?;
        }
        if let Some(mode) = set.mode {
            self.chmod(caller, node.kind, fd, mode)?;
        }
        if set.atime.is_some() || set.mtime.is_some() {
            let mtime = match set.mtime {
                // The host has no such call: a write between the look and the change loses.
                Some(SetTime::NoEarlier(time)) => {
                    let is_later = time > self.attr(node, fd, &attributes::stat(fd)?)?.mtime;
                    is_later.then_some(SetTime::At(time))
                }
                mtime => mtime,
            };
            let times = Timestamps {
                last_access: timespec(set.atime),
                last_modification: timespec(mtime),
            };
            let touch = || utimensat(fd, c"", &times, AtFlags::EMPTY_PATH).pass_on();
            self.rights.act(caller, over, touch)?;
        }
        let stat = attributes::stat(fd)?;
        self.attr(node, fd, &stat)
    }

    /// Changes the mode for `caller`.
    fn chmod(&self, caller: &Caller<'_>, kind: Kind, fd: BorrowedFd<'_>, mode: u16) -> Result<()> {
        if kind == Kind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        let bits = Mode::from_raw_mode(mode.into());
        let name = Tree::proc_name(fd);
        let chmod = || chmodat(self.proc(), &*name, bits, AtFlags::empty()).pass_on();
        // Whether setgid stays depends on the caller's groups, and is no refusal.
        let over = [fd];
        let over = Over::Inodes(&over);
        match mode & libc::S_ISGID as u16 {
            0 => self.rights.act(caller, over, chmod),
            _ => self.rights.act_exactly(caller, over, SuidSgid::Keep, chmod),
        }
    }

    /// Cuts or extends a file. By a handle whoever opened it has the right to; else the caller must
    /// have it now.
    fn truncate(
        &self,
        caller: &Caller<'_>,
        node: &Node,
        (file, fd): (Option<&OpenHost>, BorrowedFd<'_>),
        size: u64,
        suid_sgid: SuidSgid,
    ) -> Result<()> {
        match node.kind {
            Kind::File => {}
            Kind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let over = [fd];
        let over = Over::Inodes(&over);
        if let Some(file) = file {
            let fd = self.to_write(&file.descriptor)?;
            let cut = || ftruncate(&fd, size).pass_on();
            return self.rights.change(caller, over, suid_sgid, cut);
        }
        let name = Tree::proc_name(fd);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        let cut = || {
            let file = openat(self.proc(), &*name, flags, Mode::empty()).pass_on()?;
            ftruncate(&file, size).pass_on()
        };
        self.rights.change(caller, over, suid_sgid, cut)
    }

    /// Clears setuid and setgid of a file that `caller`, who is not root, is about to change: what
    /// a write does, but before the contents change. True if one of them was set. Setgid without
    /// group execute runs nothing, and whether it goes depends on the caller's groups: the host
    /// decides, and the kernel is to look again.
    pub fn strip_suidgid(&self, node: &Arc<Node>) -> Result<bool> {
        let reached = self.reach(node)?;
        let fd = reached.as_fd();
        let mode = u32::from(attributes::stat(fd)?.stx_mode);
        let group = libc::S_ISGID | libc::S_IXGRP;
        let is_set = mode & libc::S_ISUID != 0 || mode & group == group;
        if !is_set || node.kind != Kind::File {
            return Ok(node.kind == Kind::File && mode & libc::S_ISGID != 0);
        }
        let mut kept = mode & 0o7777 & !libc::S_ISUID;
        if mode & group == group {
            kept &= !libc::S_ISGID;
        }
        let name = Tree::proc_name(fd);
        let bits = Mode::from_raw_mode(kept);
        match chmodat(self.proc(), &*name, bits, AtFlags::empty()).pass_on() {
            Ok(()) => Ok(true),
            // The write will be refused as well.
            Err(Errno::EROFS | Errno::EPERM) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Room of the filesystem that an inode is on.
    pub fn statfs(&self, node: &Arc<Node>) -> Result<StatFs> {
        let reached = self.reach(node)?;
        let found = fstatfs(reached.as_fd()).pass_on()?;
        let unit = match found.f_frsize {
            0 => found.f_bsize,
            unit => unit,
        };
        Ok(StatFs {
            bsize: found.f_bsize as u32,
            frsize: unit as u32,
            blocks: found.f_blocks,
            bfree: found.f_bfree,
            bavail: found.f_bavail,
            files: found.f_files,
            ffree: found.f_ffree,
            namelen: found.f_namelen as u32,
        })
    }

    /// Whether `caller` may do `mask`.
    pub fn access(&self, caller: &Caller<'_>, node: &Arc<Node>, mask: u32) -> Result<()> {
        let reached = self.reach(node)?;
        let name = Tree::proc_name(reached.as_fd());
        let access = Access::from_bits(mask).ok_or(Errno::EINVAL)?;
        let ask = || accessat(self.proc(), &*name, access, AtFlags::EACCESS).pass_on();
        let over = [reached.as_fd()];
        self.rights.act(caller, Over::Inodes(&over), ask)
    }

    /// Target of a symbolic link.
    pub fn readlink(&self, node: &Arc<Node>) -> Result<Box<[u8]>> {
        let reached = self.reach(node)?;
        sys::read_link(reached.as_fd(), c"")
    }
}

/// chown(2) with neither owner: setuid and setgid go.
fn is_killing_alone(set: &SetAttr) -> bool {
    set.kill_suidgid && set.size.is_none() && set.mode.is_none()
}

fn timespec(time: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::Now) => (0, UTIME_NOW),
        Some(SetTime::At(time) | SetTime::NoEarlier(time)) => (time.sec, time.nsec.into()),
    };
    Timespec { tv_sec, tv_nsec }
}
