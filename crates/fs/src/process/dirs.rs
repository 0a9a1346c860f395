//! Listing and working directories.

use super::position::lock_position;
use super::{AT_FDCWD, Fd, Process, piece};
use crate::attr::{DirEntry, Kind};
use crate::calls::Call;
use crate::errno::{Errno, Result};
use crate::inode::{Inode, InodeInner};
use crate::ops::ctx::Ctx;
use crate::ops::list::{Progress, list};
use crate::ops::open::OpenFile;
use crate::ops::path::path_of;
use crate::ops::perm::{EXEC, READ, may};
use crate::superblock::{Attempt, Stop};
use crate::walk::Follow;
use hearth_sync::epoch::{Guard, pin, throttle};
use hearth_sync::object::RefSlot;

/// A [`DirEntry`] that owns its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedDirEntry {
    /// Inode number.
    pub ino: u64,
    /// Type.
    pub kind: Kind,
    /// Name.
    pub name: Vec<u8>,
    /// The cookie to go on from after this entry.
    pub cookie: u64,
}

impl Process {
    /// Every entry of a directory but `.` and `..`.
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<OwnedDirEntry>> {
        self.call(Call::ReadDir, || {
            let mut entries = Vec::new();
            let mut batch = Batch::new();
            let more = self.at(AT_FDCWD, path.as_ref(), Follow::Yes, |cx, walked, g| {
                let inode = walked.existing()?;
                if !inode.is_dir() {
                    return Err(Errno::ENOTDIR.into());
                }
                may(cx.caller, inode, READ, g)?;
                entries.clear();
                batch = Batch::new();
                batch.list(cx, inode, false, &mut |entry| keep(&mut entries, entry), g)?;
                Ok(if batch.is_full() { inode.hold() } else { None })
            })?;
            let Some(inode) = more else {
                return Ok(entries);
            };
            let each = &mut |entry: DirEntry<'_>| keep(&mut entries, entry);
            let mut listed = Ok(());
            while listed.is_ok() && batch.is_full() {
                throttle();
                listed = self.run(|cx, g| batch.list(cx, &inode, false, each, g));
            }
            let listed = unless_removed(listed, &inode);
            self.sb().release(inode, &pin());
            listed.map(|()| entries)
        })
    }

    /// `getdents(2)`: entries from the descriptor's position on, `.` and `..` first, until `f`
    /// returns false for one, which then comes again. `lseek` with a cookie is `seekdir(3)`; the
    /// offset is `telldir(3)`. After an error the next call goes on behind the entries that were
    /// passed to `f`.
    pub fn getdents(&self, fd: Fd, f: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.call(Call::Getdents, || {
            let mut batch = Batch::new();
            let more = self.with_position(fd, check_directory, |file, position| {
                match self.getdents_part(&file, position, &mut batch, f) {
                    Ok(()) => Ok(Ok(batch.is_full().then(|| file.to_share()))),
                    // The last close ends the call, and no caller gets entries of two directories.
                    Err(Errno::EBADF) if batch.has_moved() && file.is_finished() => Ok(Ok(None)),
                    Err(errno) if batch.has_moved() => Ok(Err(errno)),
                    Err(errno) => Err(errno),
                }
            })??;
            let Some(file) = more else {
                return Ok(());
            };
            // On Linux, an error from here on would belong to a next call.
            let mut listed = Ok(());
            while listed.is_ok() && batch.is_full() {
                throttle();
                let mut position = lock_position(&file)?;
                listed = self.getdents_part(&file, &mut position, &mut batch, f);
            }
            match file.inode(&pin()) {
                Ok(inode) => unless_removed(listed, inode),
                Err(_) => listed,
            }
        })
    }

    fn getdents_part(
        &self,
        file: &OpenFile,
        position: &mut u64,
        batch: &mut Batch,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let noatime = file.flags() & libc::O_NOATIME != 0;
        (batch.begun, batch.progress.reached) = (*position, *position);
        let listed = self.run(|cx, g| batch.list(cx, file.inode(g)?, noatime, f, g));
        *position = batch.progress.reached;
        listed
    }

    /// `telldir(3)`.
    pub fn telldir(&self, fd: Fd) -> Result<u64> {
        self.lseek(fd, 0, libc::SEEK_CUR)
    }

    /// `chdir(2)`.
    pub fn chdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.call(Call::Chdir, || {
            self.at(AT_FDCWD, path.as_ref(), Follow::Yes, |cx, walked, g| {
                enter(cx, &self.cwd, walked.existing()?, g)
            })
        })
    }

    /// `fchdir(2)`.
    pub fn fchdir(&self, fd: Fd) -> Result<()> {
        self.call(Call::Fchdir, || {
            self.run(|cx, g| enter(cx, &self.cwd, self.any_inode_of(fd, g)?, g))
        })
    }

    /// `chroot(2)`; `EPERM` for users.
    pub fn chroot(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.call(Call::Chroot, || {
            self.at(AT_FDCWD, path.as_ref(), Follow::Yes, |cx, walked, g| {
                let inode = walked.existing()?;
                if !inode.is_dir() {
                    return Err(Errno::ENOTDIR.into());
                }
                may(cx.caller, inode, EXEC, g)?;
                if !cx.caller.privileged() {
                    return Err(Errno::EPERM.into());
                }
                enter(cx, &self.root, inode, g)
            })
        })
    }

    /// `getcwd(3)`; `ENOENT` in a directory that was removed or lies outside the root.
    pub fn getcwd(&self) -> Result<Vec<u8>> {
        self.call(Call::Getcwd, || {
            self.run(|cx, g| path_of(cx, self.dir(&self.cwd, g), self.dir(&self.root, g), g))
        })
    }
}

/// Stores `inode` in the slot. It may have had its last use meanwhile: then the call looks again.
fn enter(cx: &Ctx<'_>, slot: &RefSlot<InodeInner>, inode: &Inode, g: &Guard) -> Attempt<()> {
    if !inode.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    may(cx.caller, inode, EXEC, g)?;
    let held = inode.hold().ok_or(Stop::Restart)?;
    if let Some(old) = slot.replace(Some(held)) {
        cx.sb.release(old, g);
    }
    Ok(())
}

/// Entries that are listed under one guard.
struct Batch {
    /// The cookie after which the call began.
    begun: u64,
    progress: Progress,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            begun: 0,
            progress: Progress::behind(0),
        }
    }

    /// Whether any entry was passed to `f`.
    fn has_moved(&self) -> bool {
        self.progress.reached != self.begun
    }

    /// Whether it ended because it has enough entries.
    fn is_full(&self) -> bool {
        self.progress.left == 0
    }

    /// Passes entries behind `reached` to `f`. A restarted step goes on where it was.
    fn list(
        &mut self,
        cx: &Ctx<'_>,
        inode: &Inode,
        noatime: bool,
        f: &mut dyn FnMut(DirEntry<'_>) -> bool,
        g: &Guard,
    ) -> Attempt<()> {
        self.progress.left = piece::ENTRIES;
        list(cx, inode, &mut self.progress, noatime, f, g)
    }
}

fn check_directory(file: &OpenFile) -> Result<&OpenFile> {
    match file.kind() {
        Kind::Directory => Ok(file),
        _ => Err(Errno::ENOTDIR),
    }
}

/// A directory that is removed while it is listed has no more entries; any other error is returned.
fn unless_removed(listed: Result<()>, inode: &Inode) -> Result<()> {
    match listed {
        Err(Errno::ENOENT) if inode.meta.is_unlinked() => Ok(()),
        listed => listed,
    }
}

fn keep(entries: &mut Vec<OwnedDirEntry>, entry: DirEntry<'_>) -> bool {
    if entry.name != b"." && entry.name != b".." {
        entries.push(OwnedDirEntry {
            ino: entry.ino,
            kind: entry.kind,
            name: entry.name.to_vec(),
            cookie: entry.cookie,
        });
    }
    true
}
