//! Open directories and their listings.

use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::outcome::Outcome;
use crate::wire::reply::Reply;
use crate::wire::{Dirent, DirentPlus, EntryOut, OpenIn, OpenOut, ReadIn, fopen};
use hearth::{DirEntry, Errno, KernelCache, VfsFile, VfsResult};
use zerocopy::{FromBytes, IntoBytes};

/// Fetches for a listing with attributes: of the directory, and of the inodes that it shows. What
/// is missing then is left out.
const FETCHES: u8 = 2;

impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn opendir(
        &self,
        cx: &Context<'_>,
        args: &OpenIn,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        if self.settings.no_opendir {
            return Err(Errno(libc::ENOSYS).into());
        }
        let flags = args.flags as i32 | libc::O_DIRECTORY;
        let file = self.vfs.open(&cx.caller(0), cx.ino(), flags)?;
        // Listings of the control directory change by themselves.
        let cached = match (file.is_control() || self.settings.direct_io, &file) {
            (true, _) => 0,
            (false, file) if file.keeps_cache() => fopen::KEEP_CACHE | fopen::CACHE_DIR,
            (false, _) => fopen::CACHE_DIR,
        };
        let fh = self.handles.insert(file);
        reply.push(&OpenOut {
            fh,
            open_flags: cached,
            backing_id: 0,
        })?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn readdir(
        &self,
        cx: &Context<'_>,
        args: &ReadIn,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        self.listing(cx, args, 0, reply)?;
        Ok(Outcome::Done(()))
    }

    /// A listing with attributes. Written as a plain one with gaps first, so that no inode is
    /// touched while the directory is read; then the gaps are filled.
    pub(crate) fn readdirplus(
        &self,
        cx: &Context<'_>,
        args: &ReadIn,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        self.listing(cx, args, size_of::<EntryOut>(), reply)?;
        if cx.attempt.again && cx.attempt.fetches < FETCHES {
            self.vfs.bring_listed(&numbers(reply.written()))?;
        }
        let mut rest = reply.written();
        while let Ok((one, _)) = DirentPlus::read_from_prefix(rest) {
            let name =
                size_of::<DirentPlus>()..size_of::<DirentPlus>() + one.dirent.namelen as usize;
            let dots = matches!(&rest[name.clone()], b"." | b"..");
            // An entry that is gone meanwhile stays a plain one: number 0 tells the kernel nothing
            // about it. Nor does "." or "..", for which the kernel wants no reference.
            let grab = || {
                let name = &rest[name.clone()];
                self.vfs.grab_listed(cx.ino(), name, one.dirent.ino)
            };
            if !dots && let Ok(attr) = grab() {
                let entry = self.timeouts(attr.ino, attr.size).entry_out(&attr);
                rest[..size_of::<EntryOut>()].copy_from_slice(entry.as_bytes());
            }
            rest = &mut rest[name.end.next_multiple_of(8)..];
        }
        Ok(Outcome::Done(()))
    }

    fn listing(
        &self,
        cx: &Context<'_>,
        args: &ReadIn,
        prefix: usize,
        reply: &mut Reply<'_>,
    ) -> VfsResult<()> {
        let limit = args.size as usize;
        let mut list = |file: &V::File| {
            let mut emit = |entry: DirEntry<'_>| {
                let head = Dirent {
                    ino: entry.ino,
                    off: entry.cookie,
                    namelen: entry.name.len() as u32,
                    kind: u32::from(entry.kind.dirent_type()),
                };
                reply.dirent(prefix, &head, entry.name, limit)
            };
            self.vfs.readdir(file, args.offset, &mut emit)
        };
        if args.fh != 0 {
            return self.on_file(args.fh, list, || Err(Errno::EBADF.into()));
        }
        // Opened by the kernel alone: an open directory that lives as long as this request.
        let file = self
            .vfs
            .open(&cx.caller(0), cx.ino(), libc::O_RDONLY | libc::O_DIRECTORY)?;
        let result = list(&file);
        self.vfs.release(&file, None);
        result
    }
}

/// The inode numbers in a listing with gaps for attributes, but for "." and "..".
fn numbers(mut rest: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Ok((one, behind)) = DirentPlus::read_from_prefix(rest) {
        let len = one.dirent.namelen as usize;
        if !matches!(&behind[..len], b"." | b"..") {
            numbers.push(one.dirent.ino);
        }
        rest = &rest[(size_of::<DirentPlus>() + len).next_multiple_of(8)..];
    }
    numbers
}
