//! A walk over the tree: every inode with its attributes and its project.

use crate::attributes;
use crate::errno::PassOn;
use crate::identity::Identity;
use crate::quota::Quotas;
use crate::reach::Found;
use crate::tree::Tree;
use hearth::{Errno, Kind, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, Statx, StatxFlags, openat, statx};
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

/// A directory that is being walked.
struct Level {
    fd: OwnedFd,
    project: u32,
    /// Directories in it that are still to be walked.
    below: Vec<CString>,
}

impl Quotas {
    /// Calls `see` for a directory and everything below it, directories before what they have.
    /// What is removed meanwhile is left out.
    ///
    /// # Errors
    /// Those of the host for a directory that is there, and of `see`.
    pub fn walk(
        &self,
        top: BorrowedFd<'_>,
        project: u32,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<()> {
        let stat = attributes::stat(top)?;
        let id = Identity::of(top, &stat);
        // By a bind mount a directory has several places.
        let mut walked = HashSet::from([(id.dev, id.ino)]);
        see(&Seen {
            stat: &stat,
            kind: attributes::kind(&stat)?,
            id: Some(&id),
            fd: Some(top),
            at: (top, &CString::default()),
            project,
        })?;
        let mut levels = vec![self.level(top, project, see)?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.below.pop() else {
                levels.pop();
                continue;
            };
            match self.enter(level, &name, &mut walked, see) {
                Ok(below) => levels.extend(below),
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
        above: &Level,
        name: &CString,
        walked: &mut HashSet<(u64, u64)>,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<Option<Level>> {
        let found = self.tree.find(above.fd.as_fd(), name.to_bytes())?;
        if !walked.insert((found.id.dev, found.id.ino)) {
            return Ok(None);
        }
        let project = self.see_found(above, name, &found, see)?;
        self.level(found.fd.as_fd(), project, see).map(Some)
    }

    fn see_found(
        &self,
        above: &Level,
        name: &CString,
        found: &Found,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<u32> {
        let project = self.project_below(&found.id, above.project);
        see(&Seen {
            stat: &found.stat,
            kind: attributes::kind(&found.stat)?,
            id: Some(&found.id),
            fd: Some(found.fd.as_fd()),
            at: (above.fd.as_fd(), name),
            project,
        })?;
        Ok(project)
    }

    /// Sees what is in a directory, but for directories, which are yet to be walked.
    fn level(
        &self,
        directory: BorrowedFd<'_>,
        project: u32,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<Level> {
        let name = Tree::proc_name(directory);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(self.tree.proc(), &*name, flags, Mode::empty()).pass_on()?;
        let mut level = Level {
            fd,
            project,
            below: Vec::new(),
        };
        let mut buffer = vec![MaybeUninit::uninit(); READ];
        let mut names = Vec::new();
        let mut entries = RawDir::new(&level.fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.pass_on()?;
            let is_dots = matches!(entry.file_name().to_bytes(), b"." | b"..");
            if !is_dots {
                names.push(entry.file_name().to_owned());
            }
        }
        for name in names {
            match self.see_name(&level, &name, see) {
                Ok(Kind::Directory) => level.below.push(name),
                Ok(_) | Err(Errno::ENOENT | Errno::ESTALE | Errno::EXDEV | Errno::ELOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(level)
    }

    fn see_name(
        &self,
        level: &Level,
        name: &CString,
        see: &mut dyn FnMut(&Seen<'_>) -> Result<()>,
    ) -> Result<Kind> {
        let wanted = StatxFlags::BASIC_STATS;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let stat = statx(&level.fd, name, flags, wanted).pass_on()?;
        let kind = attributes::kind(&stat)?;
        if kind == Kind::Directory {
            return Ok(kind);
        }
        if self.projects.any() {
            let found = self.tree.find(level.fd.as_fd(), name.to_bytes())?;
            self.see_found(level, name, &found, see)?;
            return Ok(kind);
        }
        see(&Seen {
            stat: &stat,
            kind,
            id: None,
            fd: None,
            at: (level.fd.as_fd(), name),
            project: level.project,
        })?;
        Ok(kind)
    }
}
