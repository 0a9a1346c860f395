//! A walk over the tree: every inode with its attributes and its project.

use crate::attributes;
use crate::errno::PassOn;
use crate::identity::Identity;
use crate::pseudo::pseudo_filesystem;
use crate::quota::{Membership, Quotas};
use crate::reach::Found;
use crate::trail::{READS, Trail};
use hearth::{Errno, Kind, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, RawDir, Statx, StatxFlags, openat, statx};
use std::collections::HashSet;
use std::ffi::CString;
use std::mem::MaybeUninit;

/// Bytes of names that are read at a time.
const READ: usize = 32 << 10;

/// What a walk has come to.
pub struct Seen<'a> {
    pub stat: &'a Statx,
    pub kind: Kind,
    /// Known of directories, and of the rest if there are projects.
    pub id: Option<&'a Identity>,
    /// A descriptor, or the directory and the name.
    pub fd: Option<BorrowedFd<'a>>,
    pub at: (BorrowedFd<'a>, &'a CString),
    /// By inheritance, or as it was set.
    pub project: u32,
}

/// What a walk begins with, and who is to be known.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    pub top: BorrowedFd<'a>,
    pub member: Membership,
    /// Whether also what is no directory is opened, and its identity told.
    pub opens_all: bool,
}

/// What there is to do in a directory.
struct Inside {
    member: Membership,
    /// Directories in it that are still to be walked.
    below: Vec<CString>,
}

/// A directory that a walk has entered.
struct Entered {
    fd: OwnedFd,
    id: Identity,
    inside: Inside,
}

impl Quotas {
    /// Calls `see` for an inode and everything below it, directories before what they have.
    /// What is removed meanwhile is left out.
    ///
    /// # Errors
    /// Those of the host for a directory that is there, and of `see`.
    pub fn walk(
        &self,
        start: Start<'_>,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<()> {
        let top = start.top;
        let stat = attributes::stat(top)?;
        let id = Identity::of(top, &stat);
        // By a bind mount a directory has several places.
        let mut walked = HashSet::from([(id.dev, id.ino)]);
        let kind = attributes::kind(&stat)?;
        see(&Seen {
            stat: &stat,
            kind,
            id: Some(&id),
            fd: Some(top),
            at: (top, &CString::default()),
            project: start.member.project,
        })?;
        if kind != Kind::Directory {
            return Ok(());
        }
        let (fd, inside) = self.level(start, see)?;
        let mut trail = Trail::new(fd, id, inside);
        while let Some((fd, inside)) = trail.last() {
            let Some(name) = inside.below.pop() else {
                trail.leave(&self.tree);
                continue;
            };
            let above = Start {
                top: fd,
                member: inside.member,
                ..start
            };
            match self.enter(above, &name, &mut walked, see) {
                Ok(Some(below)) => {
                    trail.enter(name.to_bytes(), below.fd, below.id, below.inside);
                }
                Ok(None) => {}
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE | Errno::ELOOP) => {}
                // Another filesystem, with `xdev`.
                Err(Errno::EXDEV) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Sees a directory, and what is in it, if it was not walked yet.
    fn enter(
        &self,
        above: Start<'_>,
        name: &CString,
        walked: &mut HashSet<(u64, u64)>,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<Option<Entered>> {
        let found = self.tree.find(above.top, name.to_bytes())?;
        let is_pseudo = || pseudo_filesystem(&found.fd).is_some();
        if !walked.insert((found.id.dev, found.id.ino)) || self.is_pseudo(&found.id, is_pseudo) {
            return Ok(None);
        }
        let member = self.see_found(above, name, &found, see)?;
        let top = found.fd.as_fd();
        let start = Start {
            top,
            member,
            ..above
        };
        let (fd, inside) = self.level(start, see)?;
        let id = found.id;
        Ok(Some(Entered { fd, id, inside }))
    }

    fn see_found(
        &self,
        above: Start<'_>,
        name: &CString,
        found: &Found,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<Membership> {
        let kind = attributes::kind(&found.stat)?;
        let member = match self.tree.keeps_projects() {
            true => self
                .tree
                .membership(found.fd.as_fd(), kind, Some(above.member))?,
            false => Membership::inherited(self.project_below(&found.id, above.member.project)),
        };
        see(&Seen {
            stat: &found.stat,
            kind,
            id: Some(&found.id),
            fd: Some(found.fd.as_fd()),
            at: (above.top, name),
            project: member.project,
        })?;
        Ok(member)
    }

    /// Sees what is in a directory, but for directories, which are yet to be walked.
    fn level(
        &self,
        start: Start<'_>,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<(OwnedFd, Inside)> {
        let fd = openat(start.top, c".", READS, Mode::empty()).pass_on()?;
        let here = Start {
            top: fd.as_fd(),
            ..start
        };
        let mut below = Vec::new();
        let mut buffer = vec![MaybeUninit::uninit(); READ];
        let mut names = Vec::new();
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.pass_on()?;
            let is_dots = matches!(entry.file_name().to_bytes(), b"." | b"..");
            if !is_dots {
                names.push(entry.file_name().to_owned());
            }
        }
        for name in names {
            match self.see_name(here, &name, see) {
                Ok(Kind::Directory) => below.push(name),
                Ok(_) | Err(Errno::ENOENT | Errno::ESTALE | Errno::EXDEV | Errno::ELOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
        let member = start.member;
        Ok((fd, Inside { member, below }))
    }

    fn see_name(
        &self,
        here: Start<'_>,
        name: &CString,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<Kind> {
        let wanted = StatxFlags::BASIC_STATS;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let stat = statx(here.top, name, flags, wanted).pass_on()?;
        let kind = attributes::kind(&stat)?;
        if kind == Kind::Directory {
            return Ok(kind);
        }
        if here.opens_all {
            let found = self.tree.find(here.top, name.to_bytes())?;
            self.see_found(here, name, &found, see)?;
            return Ok(kind);
        }
        let member = match self.tree.keeps_projects() {
            true => self
                .tree
                .membership_at(here.top, name, (kind, here.member))?,
            false => here.member,
        };
        see(&Seen {
            stat: &stat,
            kind,
            id: None,
            fd: None,
            at: (here.top, name),
            project: member.project,
        })?;
        Ok(kind)
    }
}
