//! Names: link, symlink, readlink, unlink, mkdir, rmdir, rename, mknod.

use super::{AT_FDCWD, Fd, Process, check_length};
use crate::attr::Kind;
use crate::calls::Call;
use crate::errno::{Errno, Result};
use crate::hashed::Hashed;
use crate::ops::create::{New, create_absent};
use crate::ops::ctx::Ctx;
use crate::ops::lookup::{Named, WalkEnd};
use crate::ops::{link, remove, rename};
use crate::superblock::Attempt;
use crate::walk::{Follow, Last, ToName, walk};
use hearth_sync::epoch::Guard;

impl Process {
    /// `link(2)`: symbolic links are linked themselves.
    pub fn link(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.linkat(AT_FDCWD, old, AT_FDCWD, new, 0)
    }

    /// `linkat(2)`, with `AT_SYMLINK_FOLLOW`, and `AT_EMPTY_PATH` to name the open file of
    /// `olddirfd`: `ENOENT` if another user opened it, except for user 0.
    pub fn linkat(
        &self,
        olddirfd: Fd,
        old: impl AsRef<[u8]>,
        newdirfd: Fd,
        new: impl AsRef<[u8]>,
        flags: i32,
    ) -> Result<()> {
        self.call(Call::Linkat, || {
            if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
                return Err(Errno::EINVAL);
            }
            let (old, new) = (old.as_ref(), new.as_ref());
            let empty = old.is_empty() && flags & libc::AT_EMPTY_PATH != 0;
            let follow = if flags & libc::AT_SYMLINK_FOLLOW != 0 {
                Follow::Yes
            } else {
                Follow::Slash
            };
            self.run(|cx, g| {
                let old = if empty && olddirfd == AT_FDCWD {
                    Named::Inode(self.itself(olddirfd, g)?)
                } else if empty {
                    self.on_any(olddirfd, g, |file| {
                        // As in Linux since 6.10: a file that another user opened gets a name only
                        // from a user who could reach it anyway.
                        if !cx.caller.privileged() && !file.is_opened_by(cx.caller) {
                            return Err(Errno::ENOENT);
                        }
                        Ok(Named::Inode(file.get().inode(g)?))
                    })?
                } else {
                    let from = self.from(olddirfd, old, g)?;
                    let named = walk::<Named>(cx, from, old, follow, g)?.existing()?;
                    // A backend is asked at once: the entry may be gone after another walk.
                    match cx.sb.is_durable() {
                        true => Named::Inode(named.inode(cx, g)?),
                        false => named,
                    }
                };
                let to = walk::<Named>(cx, self.from(newdirfd, new, g)?, new, Follow::Never, g)?;
                let (parent, at) = new_name(&to, false)?;
                link::link(cx, old.inode(cx, g)?, parent, at, g)
            })
        })
    }

    /// `symlink(2)`.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.symlinkat(target, AT_FDCWD, path)
    }

    /// `symlinkat(2)`.
    pub fn symlinkat(
        &self,
        target: impl AsRef<[u8]>,
        dirfd: Fd,
        path: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.call(Call::Symlinkat, || {
            let target = target.as_ref();
            check_length(target)?;
            self.make(dirfd, path.as_ref(), &New::Symlink(target), 0o777)
        })
    }

    /// `readlink(2)`.
    pub fn readlink(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.readlinkat(AT_FDCWD, path)
    }

    /// `readlinkat(2)`; an empty path means the open file of `dirfd`.
    pub fn readlinkat(&self, dirfd: Fd, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.call(Call::Readlinkat, || {
            let path = path.as_ref();
            if path.is_empty() {
                return self.run(|cx, g| {
                    let inode = self.itself(dirfd, g)?;
                    if inode.kind() != Kind::Symlink {
                        return Err(Errno::ENOENT.into());
                    }
                    Ok(link::readlink(cx, inode)?.to_vec())
                });
            }
            self.at_name(dirfd, path, Follow::Slash, |cx, walked, g| {
                let named = walked.existing()?;
                if named.kind() != Kind::Symlink {
                    return Err(Errno::EINVAL.into());
                }
                Ok(link::readlink(cx, named.inode(cx, g)?)?.to_vec())
            })
        })
    }

    /// `mkdir(2)`.
    pub fn mkdir(&self, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.mkdirat(AT_FDCWD, path, mode)
    }

    /// `mkdirat(2)`.
    pub fn mkdirat(&self, dirfd: Fd, path: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.call(Call::Mkdirat, || {
            self.make(dirfd, path.as_ref(), &New::Directory, mode & 0o1777)
        })
    }

    /// `mknod(2)`; the type is in `mode`.
    pub fn mknod(&self, path: impl AsRef<[u8]>, mode: u32, rdev: u32) -> Result<()> {
        self.mknodat(AT_FDCWD, path, mode, rdev)
    }

    /// `mknodat(2)`.
    pub fn mknodat(&self, dirfd: Fd, path: impl AsRef<[u8]>, mode: u32, rdev: u32) -> Result<()> {
        self.call(Call::Mknodat, || {
            let new = match Kind::from_mode(mode).ok_or(Errno::EINVAL)? {
                Kind::File => New::File,
                Kind::Directory => return Err(Errno::EPERM),
                Kind::Symlink => return Err(Errno::EINVAL),
                special @ (Kind::Char | Kind::Block) => New::Special(special, rdev),
                special => New::Special(special, 0),
            };
            self.make(dirfd, path.as_ref(), &new, mode as u16 & 0o7777)
        })
    }

    /// `unlink(2)`.
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.unlinkat(AT_FDCWD, path, 0)
    }

    /// `rmdir(2)`.
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.unlinkat(AT_FDCWD, path, libc::AT_REMOVEDIR)
    }

    /// `unlinkat(2)`, with `AT_REMOVEDIR`.
    pub fn unlinkat(&self, dirfd: Fd, path: impl AsRef<[u8]>, flags: i32) -> Result<()> {
        self.call(Call::Unlinkat, || {
            if flags & !libc::AT_REMOVEDIR != 0 {
                return Err(Errno::EINVAL);
            }
            let path = path.as_ref();
            self.run(|cx, g| {
                let (follow, is_writable) = changed_name(cx);
                let from = self.from(dirfd, path, g)?;
                match walk(cx, from, path, follow, g) {
                    Ok(ref walked) if flags & libc::AT_REMOVEDIR != 0 => {
                        check_no_dots(walked)?;
                        is_writable?;
                        remove::rmdir(cx, walked.parent, walked.at, g)
                    }
                    Ok(ref walked) => unlink(cx, walked, is_writable, g),
                    Err(stop) => Err(stop),
                }
            })
        })
    }

    /// `rename(2)`.
    pub fn rename(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.renameat2(AT_FDCWD, old, AT_FDCWD, new, 0)
    }

    /// `renameat2(2)`, with `RENAME_NOREPLACE`, `RENAME_EXCHANGE` and `RENAME_WHITEOUT`.
    pub fn renameat2(
        &self,
        olddirfd: Fd,
        old: impl AsRef<[u8]>,
        newdirfd: Fd,
        new: impl AsRef<[u8]>,
        flags: u32,
    ) -> Result<()> {
        self.call(Call::Renameat2, || {
            let (old, new) = (old.as_ref(), new.as_ref());
            let known = libc::RENAME_NOREPLACE | libc::RENAME_EXCHANGE | libc::RENAME_WHITEOUT;
            let exchange = flags & libc::RENAME_EXCHANGE != 0;
            if flags & !known != 0 || (exchange && flags != libc::RENAME_EXCHANGE) {
                return Err(Errno::EINVAL);
            }
            self.run(|cx, g| {
                let (follow, is_writable) = changed_name(cx);
                let from = walk::<Named>(cx, self.from(olddirfd, old, g)?, old, follow, g)?;
                // A missing source decides alone: a thread that creates the target is not
                // disturbed.
                let follow = match from.found() {
                    Some(_) => Follow::Never,
                    None => Follow::Parent,
                };
                let to = walk::<Named>(cx, self.from(newdirfd, new, g)?, new, follow, g)?;
                if from.last != Last::Name {
                    return Err(Errno::EBUSY.into());
                }
                if to.last != Last::Name {
                    let noreplace = flags & libc::RENAME_NOREPLACE != 0;
                    return Err(if noreplace {
                        Errno::EEXIST
                    } else {
                        Errno::EBUSY
                    }
                    .into());
                }
                is_writable?;
                let removed = [from.parent, to.parent]
                    .iter()
                    .any(|dir| dir.meta.is_unlinked());
                let source = from.found().filter(|_| !removed).ok_or(Errno::ENOENT)?;
                if flags & libc::RENAME_NOREPLACE != 0 && to.found().is_some() {
                    return Err(Errno::EEXIST.into());
                }
                check_slashes(&from, &to, source.is_dir(), exchange)?;
                let target = to.found();
                let from = rename::End {
                    parent: from.parent,
                    at: from.at,
                };
                let to = rename::End {
                    parent: to.parent,
                    at: to.at,
                };
                rename::rename_found(cx, (from, source), (to, target), flags, g)
            })
        })
    }

    fn make(&self, dirfd: Fd, path: &[u8], new: &New<'_>, mode: u16) -> Result<()> {
        let directory = matches!(new, New::Directory);
        self.at_name(dirfd, path, Follow::Never, |cx, walked, g| {
            let (parent, at) = new_name(walked, directory)?;
            let inode = create_absent(cx, parent, at, new, mode, g)?;
            cx.sb.release(inode, g);
            Ok(())
        })
    }
}

/// Directory and name of an object to be made (`filename_create` of Linux).
fn new_name<'x>(
    walked: &ToName<'x>,
    directory: bool,
) -> std::result::Result<(&'x crate::inode::Inode, Hashed<'x>), Errno> {
    if walked.last != Last::Name || walked.found().is_some() {
        return Err(Errno::EEXIST);
    }
    if walked.slash && !directory {
        return Err(Errno::ENOENT);
    }
    Ok((walked.parent, walked.at))
}

/// Slashes behind a name in a rename require a directory.
fn check_slashes(
    from: &ToName<'_>,
    to: &ToName<'_>,
    source_is_dir: bool,
    exchange: bool,
) -> std::result::Result<(), Errno> {
    let target_is_dir = to.found().is_some_and(Named::is_dir);
    if exchange {
        if to.found().is_none() {
            return Err(Errno::ENOENT);
        }
        if to.slash && !target_is_dir {
            return Err(Errno::ENOTDIR);
        }
    }
    if !source_is_dir && (from.slash || (!exchange && to.slash)) {
        return Err(Errno::ENOTDIR);
    }
    Ok(())
}

/// How to walk to a name that is to be changed, and whether it may be: on a read-only volume it is
/// not looked up.
fn changed_name(cx: &Ctx<'_>) -> (Follow, Result<()>) {
    let is_writable = cx.sb.check_writable();
    let follow = match is_writable {
        Ok(()) => Follow::Never,
        Err(_) => Follow::Parent,
    };
    (follow, is_writable)
}

fn unlink(cx: &Ctx<'_>, walked: &ToName<'_>, is_writable: Result<()>, g: &Guard) -> Attempt<()> {
    if walked.last != Last::Name {
        return Err(Errno::EISDIR.into());
    }
    is_writable?;
    if walked.slash {
        let found = walked.found().ok_or(Errno::ENOENT)?;
        let errno = if found.is_dir() {
            Errno::EISDIR
        } else {
            Errno::ENOTDIR
        };
        return Err(errno.into());
    }
    match walked.found() {
        Some(found) => remove::unlink_found(cx, walked.parent, (walked.at, found.entry()), g),
        None => Err(Errno::ENOENT.into()),
    }
}

/// Errors for last components that can never be removed as a directory.
fn check_no_dots(walked: &ToName<'_>) -> Result<()> {
    match walked.last {
        Last::Name => Ok(()),
        Last::Dot => Err(Errno::EINVAL),
        Last::DotDot => Err(Errno::ENOTEMPTY),
        Last::Root => Err(Errno::EBUSY),
    }
}
