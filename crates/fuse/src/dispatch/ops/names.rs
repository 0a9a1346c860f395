//! Names: looking them up, making, linking, renaming and removing them, and forgetting what they
//! meant.

use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::outcome::Outcome;
use crate::wire::reply::Reply;
use crate::wire::{CreateIn, ForgetOne, MkdirIn, MknodIn, Rename2In};
use hearth::{Attr, Errno, KernelCache, Kind, VfsError};
use zerocopy::FromBytes;

impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn lookup(&self, cx: &Context<'_>, name: &[u8], reply: &mut Reply<'_>) -> OpResult {
        let found = match name {
            // An NFS file handle: the lookup of the inode itself, of whatever kind.
            b"." => self.vfs.grab(cx.ino()),
            name => self.vfs.lookup(&cx.caller(0), cx.ino(), name),
        };
        match found {
            Ok(attr) => {
                self.prune_again(attr.ino);
                self.entry(&attr, reply)
            }
            Err(VfsError::Errno(Errno::ENOENT)) if !self.settings.timeouts.negative.is_zero() => {
                reply.push(&self.settings.timeouts.negative_out())?;
                Ok(Outcome::Done(()))
            }
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn forget(&self, ino: u64, count: u64) -> OpResult {
        self.vfs.forget(ino, count);
        self.notifier.forgotten(ino);
        self.cached_mtimes.forgotten(ino, || self.vfs.is_known(ino));
        Ok(Outcome::NoReply)
    }

    pub(crate) fn batch_forget(&self, mut items: &[u8]) -> OpResult {
        while let Ok((one, rest)) = ForgetOne::read_from_prefix(items) {
            self.forget(one.nodeid, one.nlookup)?;
            items = rest;
        }
        Ok(Outcome::NoReply)
    }

    pub(crate) fn mknod(
        &self,
        cx: &Context<'_>,
        args: &MknodIn,
        name: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let kind = Kind::from_mode(args.mode).ok_or(Errno::EINVAL)?;
        let mode = (args.mode & 0o7777) as u16;
        let caller = cx.caller(args.umask);
        let attr = self
            .vfs
            .mknod(&caller, cx.ino(), name, kind, mode, args.rdev)?;
        self.entry(&attr, reply)
    }

    pub(crate) fn mkdir(
        &self,
        cx: &Context<'_>,
        args: &MkdirIn,
        name: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let mode = (args.mode & 0o7777) as u16;
        let attr = self
            .vfs
            .mkdir(&cx.caller(args.umask), cx.ino(), name, mode)?;
        self.entry(&attr, reply)
    }

    pub(crate) fn symlink(
        &self,
        cx: &Context<'_>,
        name: &[u8],
        target: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let attr = self.vfs.symlink(&cx.caller(0), cx.ino(), name, target)?;
        self.entry(&attr, reply)
    }

    pub(crate) fn readlink(&self, cx: &Context<'_>, reply: &mut Reply<'_>) -> OpResult {
        reply.bytes(&self.vfs.readlink(&cx.caller(0), cx.ino())?)?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn link(
        &self,
        cx: &Context<'_>,
        ino: u64,
        name: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let attr = self.vfs.link(&cx.caller(0), ino, cx.ino(), name)?;
        self.entry(&attr, reply)
    }

    pub(crate) fn unlink(&self, cx: &Context<'_>, name: &[u8]) -> OpResult {
        self.vfs.unlink(&cx.caller(0), cx.ino(), name)?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn rmdir(&self, cx: &Context<'_>, name: &[u8]) -> OpResult {
        self.vfs.rmdir(&cx.caller(0), cx.ino(), name)?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn rename(
        &self,
        cx: &Context<'_>,
        args: &Rename2In,
        name: &[u8],
        new_name: &[u8],
    ) -> OpResult {
        self.vfs.rename(
            &cx.caller(0),
            cx.ino(),
            name,
            args.newdir,
            new_name,
            args.flags,
        )?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn create(
        &self,
        cx: &Context<'_>,
        args: &CreateIn,
        name: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        if self.settings.no_open {
            // The kernel would never release the handle; it makes a node and opens that by itself
            // instead.
            return Err(Errno(libc::ENOSYS).into());
        }
        let (caller, mode) = (cx.caller(args.umask), (args.mode & 0o7777) as u16);
        let flags = args.flags as i32;
        let (attr, file) = self.vfs.create(&caller, cx.ino(), name, mode, flags)?;
        // Before the attributes, whose validity follows from it.
        let opened = self.opened(&caller, file);
        self.entry(&attr, reply)?;
        reply.push(&opened)?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn tmpfile(
        &self,
        cx: &Context<'_>,
        args: &CreateIn,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        if self.settings.no_open {
            return Err(Errno(libc::ENOSYS).into());
        }
        let (caller, mode) = (cx.caller(args.umask), (args.mode & 0o7777) as u16);
        let flags = args.flags as i32;
        let (attr, file) = self.vfs.tmpfile(&caller, cx.ino(), mode, flags)?;
        // Before the attributes, whose validity follows from it.
        let opened = self.opened(&caller, file);
        self.entry(&attr, reply)?;
        reply.push(&opened)?;
        Ok(Outcome::Done(()))
    }

    /// Replies with the inode of a name. The core has counted a reference of the kernel to it.
    fn entry(&self, attr: &Attr, reply: &mut Reply<'_>) -> OpResult {
        reply.push(&self.timeouts(attr.ino, attr.size).entry_out(attr))?;
        Ok(Outcome::Done(()))
    }
}
