//! The inode-level door: what a front end that speaks inode numbers calls, FUSE for one. Here names
//! and inodes, in `files` open files.

mod files;

use crate::attr::{Attr, FsXAttr, Kind, SetAttr, StatFs};
use crate::caller::{Caller, Origin};
use crate::errno::{Errno, Result};
use crate::inode::{Inode, InodeExt, InodeRef};
use crate::ops::ctx::Ctx;
use crate::ops::open::OpenFile;
use crate::ops::{attr, create, ioctl, link, lookup, perm, remove, rename, statfs, xattr};
use crate::superblock::Attempt;
use crate::volume::Volume;
use hearth_sync::epoch::{Guard, pin};

/// Operations by inode number. Every call that answers an [`Attr`] of a name (`lookup` and the
/// creators) takes one reference on that inode, which [`Door::forget`] gives back. The root is
/// [`crate::ROOT`].
///
/// Errors are those of the Linux call of the same name, and `ESTALE` for a number that means
/// nothing.
#[derive(Clone)]
pub struct Door {
    volume: Volume,
}

/// Whoever reads through a kernel, which has checked that he may, and knows of the access time
/// that moves by that.
const KERNEL: Caller<'static> = Caller {
    origin: Origin::Kernel,
    ..Caller::ROOT
};

impl Volume {
    /// The inode-level door, for front ends such as FUSE.
    pub fn door(&self) -> Door {
        Door {
            volume: self.clone(),
        }
    }
}

impl Door {
    /// The volume behind it.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Whether [`Door::fsync`] and [`Door::syncfs`] may wait for the backend; a front end then
    /// calls them from threads that may wait.
    pub fn sync_waits(&self) -> bool {
        self.volume.sb.objects.backend.evictable()
    }

    fn run<T>(
        &self,
        caller: &Caller<'_>,
        f: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Result<T> {
        self.volume.sb.run(caller, f)
    }

    fn on<T>(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        mut f: impl FnMut(&Ctx<'_>, &Inode, &Guard) -> Attempt<T>,
    ) -> Result<T> {
        self.run(caller, |cx, g| f(cx, cx.sb.inode(ino, g)?, g))
    }

    /// Runs a creator below `parent` and keeps the reference that it answers.
    fn make(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        mut f: impl FnMut(&Ctx<'_>, &Inode, &Guard) -> Attempt<InodeRef>,
    ) -> Result<Attr> {
        self.on(caller, parent, |cx, parent, g| {
            let inode = f(cx, parent, g)?;
            let attr = inode.attr();
            inode.into_raw_count();
            Ok(attr)
        })
    }

    /// The inode of `name` in `parent`.
    pub fn lookup(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> Result<Attr> {
        self.on(caller, parent, |cx, parent, g| {
            let inode = lookup::lookup(cx, parent, name, g)?;
            take(inode)
        })
    }

    /// One more reference on an inode, for listings that answer attributes.
    pub fn grab(&self, ino: u64) -> Result<Attr> {
        self.on(&KERNEL, ino, |_, inode, _| take(inode))
    }

    /// Gives `n` references back.
    pub fn forget(&self, ino: u64, n: u64) {
        let g = pin();
        if let Some(inode) = self.volume.sb.objects.inodes.get(ino, &g) {
            inode.put_many(n);
            self.volume.sb.iput_final(inode, &g);
        }
    }

    /// Whether there are references that lookups took.
    pub fn is_known(&self, ino: u64) -> bool {
        let inode = |g: &Guard| {
            self.volume
                .sb
                .objects
                .inodes
                .get(ino, g)
                .map(|inode| inode.raw_counts())
        };
        inode(&pin()).is_some_and(|counts| counts > 0)
    }

    /// Gives back every reference that lookups took: for the end of a front end whose kernel went
    /// without forgetting. No other front end may be using the volume by number.
    pub fn forget_all(&self) {
        let sb = &self.volume.sb;
        let g = pin();
        sb.objects.inodes.scan(0, &g, |inode| {
            let counts = inode.raw_counts();
            if counts > 0 {
                inode.put_many(counts);
                sb.iput_final(inode, &g);
            }
            true
        });
    }

    /// Attributes.
    pub fn getattr(&self, ino: u64) -> Result<Attr> {
        self.on(&KERNEL, ino, |_, inode, _| Ok(inode.attr()))
    }

    /// The times of writes that a kernel in front has acknowledged, which it keeps itself; also of
    /// a volume that has become read-only since. Answers the new attributes.
    pub fn settle_times(&self, caller: &Caller<'_>, ino: u64, set: &SetAttr) -> Result<Attr> {
        self.on(caller, ino, |cx, inode, g| {
            attr::setattr_acknowledged(cx, inode, set, true, g)?;
            Ok(inode.attr())
        })
    }

    /// Changes attributes and answers the new ones.
    pub fn setattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        file: Option<&OpenFile>,
        set: &SetAttr,
    ) -> Result<Attr> {
        self.on(caller, ino, |cx, inode, g| {
            let opened = file.is_some_and(OpenFile::writable);
            attr::setattr(cx, inode, set, opened, g)?;
            Ok(inode.attr())
        })
    }

    /// Target of a symbolic link.
    pub fn readlink(&self, ino: u64) -> Result<Box<[u8]>> {
        self.on(&KERNEL, ino, |cx, inode, _| {
            Ok(link::readlink(cx, inode)?.into())
        })
    }

    /// Makes a file, fifo, socket or device.
    pub fn mknod(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> Result<Attr> {
        let new = match kind {
            Kind::File => create::New::File,
            Kind::Directory | Kind::Symlink => return Err(Errno::EINVAL),
            special => create::New::Special(special, rdev),
        };
        self.make(caller, parent, |cx, dir, g| {
            create::create(cx, dir, name, &new, mode, g)
        })
    }

    /// Makes a directory.
    pub fn mkdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8], mode: u16) -> Result<Attr> {
        self.make(caller, parent, |cx, dir, g| {
            create::create(cx, dir, name, &create::New::Directory, mode, g)
        })
    }

    /// Makes a symbolic link.
    pub fn symlink(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr> {
        self.make(caller, parent, |cx, dir, g| {
            create::create(cx, dir, name, &create::New::Symlink(target), 0o777, g)
        })
    }

    /// Gives inode `ino` the name `name` in `parent`; `ENOENT` if it has lost its last one, which a
    /// kernel that heard of it late may not know.
    pub fn link(&self, caller: &Caller<'_>, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        self.run(caller, |cx, g| {
            let (inode, parent) = (cx.sb.inode(ino, g)?, cx.sb.inode(parent, g)?);
            link::link(cx, inode, parent, name, g)?;
            take(inode)
        })
    }

    /// Removes a name.
    pub fn unlink(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> Result<()> {
        self.on(caller, parent, |cx, parent, g| {
            remove::unlink(cx, parent, name, g)
        })
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> Result<()> {
        self.on(caller, parent, |cx, parent, g| {
            remove::rmdir(cx, parent, name, g)
        })
    }

    /// Renames; `flags` are `RENAME_*`.
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        from: u64,
        name: &[u8],
        to: u64,
        new_name: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.run(caller, |cx, g| {
            let source = rename::End {
                parent: cx.sb.inode(from, g)?,
                name,
            };
            let target = rename::End {
                parent: cx.sb.inode(to, g)?,
                name: new_name,
            };
            rename::rename(cx, source, target, flags, g)
        })
    }

    /// Returns when everything is durable.
    pub fn syncfs(&self) -> Result<()> {
        self.volume.sync()
    }

    /// Room of the volume, or of the limited project that `ino` is in.
    pub fn statfs(&self, ino: u64) -> Result<StatFs> {
        self.on(&KERNEL, ino, |cx, inode, g| {
            Ok(statfs::statfs(cx.sb, inode, g))
        })
    }

    /// Whether the caller may do `mask` (`R_OK`, `W_OK`, `X_OK`).
    pub fn access(&self, caller: &Caller<'_>, ino: u64, mask: u32) -> Result<()> {
        self.on(caller, ino, |cx, inode, g| {
            Ok(perm::may_access(
                cx.caller,
                inode,
                &inode.meta.owner(),
                mask & 7,
                g,
            )?)
        })
    }

    /// Value of an extended attribute.
    pub fn getxattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> Result<Box<[u8]>> {
        self.on(caller, ino, |cx, inode, g| xattr::get(cx, inode, name, g))
    }

    /// Sets an extended attribute; `flags` are `XATTR_*`.
    pub fn setxattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        name: &[u8],
        value: &[u8],
        flags: i32,
        kill_sgid: bool,
    ) -> Result<()> {
        self.on(caller, ino, |cx, inode, g| {
            xattr::set(cx, inode, name, value, flags, kill_sgid, g)
        })
    }

    /// Names of extended attributes, a NUL behind each.
    pub fn listxattr(&self, caller: &Caller<'_>, ino: u64) -> Result<Vec<u8>> {
        self.on(caller, ino, xattr::list)
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> Result<()> {
        self.on(caller, ino, |cx, inode, g| {
            xattr::remove(cx, inode, name, g)
        })
    }

    /// `FS_*_FL` flags.
    pub fn get_flags(&self, ino: u64) -> Result<u32> {
        self.on(&KERNEL, ino, |_, inode, _| Ok(inode.meta.flags()))
    }

    /// Sets `FS_*_FL` flags.
    pub fn set_flags(&self, caller: &Caller<'_>, ino: u64, flags: u32) -> Result<()> {
        self.on(caller, ino, |cx, inode, g| {
            ioctl::set_flags(cx, inode, flags, g)
        })
    }

    /// Flags and project id.
    pub fn get_fsxattr(&self, ino: u64) -> Result<FsXAttr> {
        self.on(&KERNEL, ino, |_, inode, _| Ok(ioctl::get_fsxattr(inode)))
    }

    /// Sets flags and project id.
    pub fn set_fsxattr(&self, caller: &Caller<'_>, ino: u64, new: &FsXAttr) -> Result<()> {
        self.on(caller, ino, |cx, inode, g| {
            ioctl::set_fsxattr(cx, inode, new, g)
        })
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").finish_non_exhaustive()
    }
}

/// Takes a reference that stays counted until it is forgotten.
fn take(inode: &Inode) -> Attempt<Attr> {
    let held = inode.hold().ok_or(crate::superblock::Stop::Restart)?;
    let attr = held.attr();
    held.into_raw_count();
    Ok(attr)
}
