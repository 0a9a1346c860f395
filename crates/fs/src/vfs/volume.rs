//! The core as a [`crate::Vfs`]: names and inodes. Open files are in `volume_files`.

use super::error::{Miss, MissKind};
use super::wait_mode::{Blocking, NonBlocking, WaitMode};
use crate::attr::{Attr, FsXAttr, Kind, SetAttr, StatFs};
use crate::caller::{Caller, Origin};
use crate::errno::Errno;
use crate::inode::{Inode, InodeExt, InodeRef};
use crate::ops::ctx::Ctx;
use crate::ops::lookup::hashed;
use crate::ops::open::OpenFile;
use crate::ops::{attr, create, ioctl, link, lookup, perm, remove, rename, statfs, xattr};
use crate::quota::QuotaEventFile;
use crate::quotactl::Quota;
use crate::superblock::{Attempt, Fetch, Stop};
use crate::volume::Volume;
use hearth_sync::epoch::{Guard, pin};
use std::marker::PhantomData;

/// A volume of the core by inode number. `W` says whether calls wait for the backend: with
/// [`NonBlocking`] this is a [`crate::Vfs`].
#[derive(Clone)]
pub struct VolumeVfs<W: WaitMode = Blocking> {
    pub(super) volume: Volume,
    mode: PhantomData<W>,
}

/// The caller of reads behind a kernel. The kernel has checked the permission, and knows that the
/// access time moves.
pub(super) const KERNEL: Caller<'static> = Caller {
    origin: Origin::Kernel,
    ..Caller::ROOT
};

impl Volume {
    /// The volume by inode number, for threads that may block.
    pub fn vfs(&self) -> VolumeVfs {
        VolumeVfs::of(self.clone())
    }

    /// The volume by inode number, for front ends such as FUSE: calls return a miss instead of
    /// waiting for the backend.
    pub fn nonblocking_vfs(&self) -> VolumeVfs<NonBlocking> {
        VolumeVfs::of(self.clone())
    }

    /// Fetches what a call missed; may block. The caller then makes the call again.
    ///
    /// # Errors
    /// The backend's error; the call fails with it.
    pub fn fetch(&self, miss: &Miss) -> Result<(), Errno> {
        match &miss.0 {
            MissKind::Core(fetch) => {
                // The budget is restored before the fetch, so that what is fetched is not reclaimed
                // at once. This thread's core is not the one whose operations check the budget.
                if !matches!(fetch, Fetch::Room(_)) {
                    self.sb.keep_budget();
                }
                self.sb.fetch(fetch)
            }
            MissKind::Work(work) => work.run(),
        }
    }
}

impl<W: WaitMode> VolumeVfs<W> {
    fn of(volume: Volume) -> VolumeVfs<W> {
        VolumeVfs {
            volume,
            mode: PhantomData,
        }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// [`crate::Vfs::sync_waits`].
    pub fn sync_waits(&self) -> bool {
        self.volume.sb.is_durable()
    }

    #[inline]
    pub(super) fn run<T>(
        &self,
        caller: &Caller<'_>,
        f: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Result<T, W::Error> {
        W::run(&self.volume.sb, caller, f)
    }

    #[inline]
    pub(super) fn on<T>(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        mut f: impl FnMut(&Ctx<'_>, &Inode, &Guard) -> Attempt<T>,
    ) -> Result<T, W::Error> {
        self.run(caller, |cx, g| f(cx, cx.sb.inode(ino, g)?, g))
    }

    /// Runs a creator below `parent` and keeps the reference that it returns.
    fn make(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        mut f: impl FnMut(&Ctx<'_>, &Inode, &Guard) -> Attempt<InodeRef>,
    ) -> Result<Attr, W::Error> {
        self.on(caller, parent, |cx, parent, g| {
            let inode = f(cx, parent, g)?;
            let attr = inode.attr();
            inode.into_raw_count();
            Ok(attr)
        })
    }

    /// [`crate::Vfs::lookup`].
    pub fn lookup(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> Result<Attr, W::Error> {
        self.on(caller, parent, |cx, parent, g| {
            let inode = lookup::lookup(cx, parent, name, g)?;
            take(inode)
        })
    }

    /// [`crate::Vfs::grab`].
    pub fn grab(&self, ino: u64) -> Result<Attr, W::Error> {
        self.on(&KERNEL, ino, |_, inode, _| take(inode))
    }

    /// [`crate::Vfs::bring_listed`].
    pub fn bring_listed(&self, shown: &[u64]) -> Result<(), W::Error> {
        // Once: what cannot be had would be asked for without an end.
        let mut was_asked = false;
        self.run(&KERNEL, |cx, g| {
            let is_absent = |ino: &&u64| cx.sb.objects.inodes.get(**ino, g).is_none();
            let absent: Box<[u64]> = shown.iter().filter(is_absent).copied().collect();
            // What comes would drive out what came before it.
            let has_room = cx.sb.is_durable() && cx.sb.over_budget() == 0;
            if was_asked || !has_room || absent.is_empty() {
                return Ok(());
            }
            was_asked = true;
            Err(Stop::miss(Fetch::Listed(absent)))
        })
    }

    /// [`crate::Vfs::forget`].
    pub fn forget(&self, ino: u64, n: u64) {
        let g = pin();
        if let Some(inode) = self.volume.sb.objects.inodes.get(ino, &g) {
            // A full fence: see `iput_final`.
            inode.put_many_and_fence(n);
            self.volume.sb.iput_final(inode, &g);
        }
    }

    /// [`crate::Vfs::is_known`].
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

    /// [`crate::Vfs::forget_all`].
    pub fn forget_all(&self) {
        let sb = &self.volume.sb;
        let g = pin();
        sb.objects.inodes.scan(0, &g, |inode| {
            let counts = inode.raw_counts();
            if counts > 0 {
                // As in `forget`.
                inode.put_many_and_fence(counts);
                sb.iput_final(inode, &g);
            }
            true
        });
    }

    /// [`crate::Vfs::getattr`].
    pub fn getattr(&self, ino: u64) -> Result<Attr, W::Error> {
        self.on(&KERNEL, ino, |_, inode, _| Ok(inode.attr()))
    }

    /// [`crate::Vfs::setattr`].
    pub fn setattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        file: Option<&OpenFile>,
        set: &SetAttr,
    ) -> Result<Attr, W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            let opened = file.is_some_and(OpenFile::writable);
            attr::setattr(cx, inode, set, opened, g)?;
            Ok(inode.attr())
        })
    }

    /// [`crate::Vfs::readlink`].
    pub fn readlink(&self, ino: u64) -> Result<Box<[u8]>, W::Error> {
        self.on(&KERNEL, ino, |cx, inode, _| {
            Ok(link::readlink(cx, inode)?.into())
        })
    }

    /// [`crate::Vfs::mknod`].
    pub fn mknod(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        kind: Kind,
        mode: u16,
        rdev: u32,
    ) -> Result<Attr, W::Error> {
        let new = match kind {
            Kind::File => create::New::File,
            Kind::Directory | Kind::Symlink => return Err(Errno::EINVAL.into()),
            special => create::New::Special(special, rdev),
        };
        self.make(caller, parent, |cx, dir, g| {
            create::create(cx, dir, hashed(cx, name), &new, mode, g)
        })
    }

    /// [`crate::Vfs::mkdir`].
    pub fn mkdir(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        mode: u16,
    ) -> Result<Attr, W::Error> {
        self.make(caller, parent, |cx, dir, g| {
            create::create(cx, dir, hashed(cx, name), &create::New::Directory, mode, g)
        })
    }

    /// [`crate::Vfs::symlink`].
    pub fn symlink(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr, W::Error> {
        self.make(caller, parent, |cx, dir, g| {
            create::create(
                cx,
                dir,
                hashed(cx, name),
                &create::New::Symlink(target),
                0o777,
                g,
            )
        })
    }

    /// [`crate::Vfs::link`].
    pub fn link(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        parent: u64,
        name: &[u8],
    ) -> Result<Attr, W::Error> {
        self.run(caller, |cx, g| {
            let (inode, parent) = (cx.sb.inode(ino, g)?, cx.sb.inode(parent, g)?);
            link::link(cx, inode, parent, hashed(cx, name), g)?;
            take(inode)
        })
    }

    /// [`crate::Vfs::unlink`].
    pub fn unlink(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> Result<(), W::Error> {
        self.on(caller, parent, |cx, parent, g| {
            remove::unlink(cx, parent, hashed(cx, name), g)
        })
    }

    /// [`crate::Vfs::rmdir`].
    pub fn rmdir(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> Result<(), W::Error> {
        self.on(caller, parent, |cx, parent, g| {
            remove::rmdir(cx, parent, hashed(cx, name), g)
        })
    }

    /// [`crate::Vfs::rename`].
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        from: u64,
        name: &[u8],
        to: u64,
        new_name: &[u8],
        flags: u32,
    ) -> Result<(), W::Error> {
        self.run(caller, |cx, g| {
            let source = rename::End {
                parent: cx.sb.inode(from, g)?,
                at: hashed(cx, name),
            };
            let target = rename::End {
                parent: cx.sb.inode(to, g)?,
                at: hashed(cx, new_name),
            };
            rename::rename(cx, source, target, flags, g)
        })
    }

    /// [`crate::Vfs::syncfs`].
    pub fn syncfs(&self) -> Result<(), W::Error> {
        Ok(self.volume.sync()?)
    }

    /// [`crate::Vfs::statfs`].
    pub fn statfs(&self, ino: u64) -> Result<StatFs, W::Error> {
        self.on(&KERNEL, ino, |cx, inode, g| {
            Ok(statfs::statfs(cx.sb, inode, g))
        })
    }

    /// [`crate::Vfs::access`].
    pub fn access(&self, caller: &Caller<'_>, ino: u64, mask: u32) -> Result<(), W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            Ok(perm::may_access(
                cx.caller,
                inode,
                inode.meta.owner(),
                mask & 7,
                g,
            )?)
        })
    }

    /// [`crate::Vfs::getxattr`].
    pub fn getxattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        name: &[u8],
    ) -> Result<Box<[u8]>, W::Error> {
        self.on(caller, ino, |cx, inode, g| xattr::get(cx, inode, name, g))
    }

    /// [`crate::Vfs::setxattr`].
    pub fn setxattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        name: &[u8],
        value: &[u8],
        flags: i32,
        kill_sgid: bool,
    ) -> Result<(), W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            xattr::set(cx, inode, name, value, flags, kill_sgid, g)
        })
    }

    /// [`crate::Vfs::listxattr`].
    pub fn listxattr(&self, caller: &Caller<'_>, ino: u64) -> Result<Vec<u8>, W::Error> {
        self.on(caller, ino, xattr::list)
    }

    /// [`crate::Vfs::removexattr`].
    pub fn removexattr(&self, caller: &Caller<'_>, ino: u64, name: &[u8]) -> Result<(), W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            xattr::remove(cx, inode, name, g)
        })
    }

    /// [`crate::Vfs::get_flags`].
    pub fn get_flags(&self, ino: u64) -> Result<u32, W::Error> {
        self.on(&KERNEL, ino, |_, inode, _| Ok(inode.meta.flags()))
    }

    /// [`crate::Vfs::set_flags`].
    pub fn set_flags(&self, caller: &Caller<'_>, ino: u64, flags: u32) -> Result<(), W::Error> {
        self.on(caller, ino, |cx, inode, g| {
            ioctl::set_flags(cx, inode, flags, g)
        })
    }

    /// [`crate::Vfs::get_fsxattr`].
    pub fn get_fsxattr(&self, ino: u64) -> Result<FsXAttr, W::Error> {
        self.on(&KERNEL, ino, |_, inode, _| Ok(ioctl::get_fsxattr(inode)))
    }

    /// [`crate::Vfs::set_fsxattr`].
    pub fn set_fsxattr(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        new: &FsXAttr,
    ) -> Result<(), W::Error> {
        let (before, generation) = self.on(caller, ino, |cx, inode, g| {
            let before = ioctl::set_fsxattr(cx, inode, new, g)?;
            Ok((before, Some(inode.generation())))
        })?;
        if before != 0 && new.project == 0 {
            // Perhaps unasked: `file_setattr(2)` is told project 0 by `file_getattr(2)`.
            let file = QuotaEventFile {
                ino,
                generation,
                path: None,
            };
            Quota::of(&self.volume.sb).report_left(before, file, caller);
        }
        Ok(())
    }
}

impl<W: WaitMode> std::fmt::Debug for VolumeVfs<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeVfs").finish_non_exhaustive()
    }
}

/// Takes a reference that stays counted until it is forgotten.
pub(super) fn take(inode: &Inode) -> Attempt<Attr> {
    let held = inode.hold().ok_or(crate::superblock::Stop::Restart)?;
    let attr = held.attr();
    held.into_raw_count();
    Ok(attr)
}
