//! Listing and working directories.

use super::{AT_FDCWD, Fd, Process};
use crate::attr::{DirEntry, Kind};
use crate::errno::{Errno, Result};
use crate::inode::{Inode, Node};
use crate::number::ROOT;
use crate::ops::list::list;
use crate::ops::perm::{EXEC, READ, may};
use crate::volume::{Ctx, Step};
use crate::walk::Follow;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::object::HeldSlot;

/// A [`DirEntry`] that owns its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedDirEntry {
    /// Inode number.
    pub ino: u64,
    /// Type.
    pub kind: Kind,
    /// Name.
    pub name: Vec<u8>,
    /// Where to go on after this entry.
    pub cookie: u64,
}

impl Process {
    /// Every entry of a directory but `.` and `..`.
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<OwnedDirEntry>> {
        self.at(AT_FDCWD, path.as_ref(), Follow::Yes, |cx, walked, g| {
            let node = walked.existing()?;
            if !node.is_dir() {
                return Err(Errno::ENOTDIR.into());
            }
            may(cx.caller, node, READ, g)?;
            let mut entries = Vec::new();
            let mut push = |e: DirEntry<'_>| {
                if e.name != b"." && e.name != b".." {
                    entries.push(OwnedDirEntry {
                        ino: e.ino,
                        kind: e.kind,
                        name: e.name.to_vec(),
                        cookie: e.cookie,
                    });
                }
                true
            };
            list(cx, node, 0, false, &mut push, g)?;
            Ok(entries)
        })
    }

    /// `getdents(2)`: entries from the descriptor's position on, `.` and `..` first, until `f`
    /// answers false for one, which then comes again. `lseek` with a cookie is `seekdir(3)`; the
    /// offset is `telldir(3)`.
    pub fn getdents(&self, fd: Fd, f: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let g = pin();
        let file = self.description(fd, &g)?;
        if file.kind() != Kind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let noatime = file.flags() & libc::O_NOATIME != 0;
        let mut position = file.position().lock();
        let mut reached = *position;
        self.run(|cx, g| {
            let from = reached;
            let mut step = |entry: DirEntry<'_>| {
                let taken = f(entry);
                if taken {
                    reached = entry.cookie;
                }
                taken
            };
            list(cx, file.node(g)?, from, noatime, &mut step, g)
        })?;
        *position = reached;
        Ok(())
    }

    /// `telldir(3)`.
    pub fn telldir(&self, fd: Fd) -> Result<u64> {
        self.lseek(fd, 0, libc::SEEK_CUR)
    }

    /// `chdir(2)`.
    pub fn chdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.at(AT_FDCWD, path.as_ref(), Follow::Yes, |cx, walked, g| {
            enter(cx, &self.cwd, walked.existing()?, g)
        })
    }

    /// `fchdir(2)`.
    pub fn fchdir(&self, fd: Fd) -> Result<()> {
        self.run(|cx, g| enter(cx, &self.cwd, self.file(fd, g)?.node(g)?, g))
    }

    /// `chroot(2)`; `EPERM` for users.
    pub fn chroot(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.at(AT_FDCWD, path.as_ref(), Follow::Yes, |cx, walked, g| {
            let node = walked.existing()?;
            if !node.is_dir() {
                return Err(Errno::ENOTDIR.into());
            }
            may(cx.caller, node, EXEC, g)?;
            if !cx.caller.privileged() {
                return Err(Errno::EPERM.into());
            }
            enter(cx, &self.root, node, g)
        })
    }

    /// `getcwd(3)`; `ENOENT` in a directory that was removed or lies outside the root.
    pub fn getcwd(&self) -> Result<Vec<u8>> {
        self.run(|cx, g| {
            // The way up is only a path if no directory moves meanwhile.
            let _still = cx.core.rename.lock();
            let root = self.place(&self.root, g).number();
            let mut node = self.place(&self.cwd, g);
            let mut parts = Vec::new();
            if node.meta.nlink() == 0 {
                return Err(Errno::ENOENT.into());
            }
            while node.number() != root {
                // Outside of what `/` means there is no path.
                if node.number() == ROOT {
                    return Err(Errno::ENOENT.into());
                }
                let directory = node.directory().ok_or(Errno::ENOTDIR)?;
                let parent = cx.core.node(directory.parent(), g)?;
                parts.push(name_in(cx, parent, node.number(), g)?);
                node = parent;
            }
            let mut path = Vec::new();
            for part in parts.iter().rev() {
                path.push(b'/');
                path.extend_from_slice(part);
            }
            Ok(if path.is_empty() { b"/".to_vec() } else { path })
        })
    }
}

fn enter(cx: &Ctx<'_>, slot: &HeldSlot<Inode>, node: &Node, g: &Guard) -> Step<()> {
    if !node.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    may(cx.caller, node, EXEC, g)?;
    let held = node.hold().ok_or(Errno::ENOENT)?;
    if let Some(old) = slot.replace(Some(held)) {
        cx.core.release(old, g);
    }
    Ok(())
}

/// The name of directory `ino` in its parent.
fn name_in(cx: &Ctx<'_>, parent: &Node, ino: u64, g: &Guard) -> Step<Vec<u8>> {
    let mut name = None;
    let mut look = |entry: DirEntry<'_>| {
        if entry.ino == ino && entry.name != b"." && entry.name != b".." {
            name = Some(entry.name.to_vec());
        }
        name.is_none()
    };
    list(cx, parent, 0, true, &mut look, g)?;
    name.ok_or(Errno::ENOENT.into())
}
