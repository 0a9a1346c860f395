//! open, openat, close.

use super::{AT_FDCWD, Fd, Process};
use crate::calls::Call;
use crate::errno::{Errno, Result};
use crate::ops::ctx::Ctx;
use crate::ops::lookup::WalkEnd;
use crate::ops::open::{OpenFile, open, open_absent, open_existing, open_tmpfile};
use crate::superblock::Attempt;
use crate::walk::{Follow, Last, ToName};
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::rcu::Share;

/// The bit that `O_TMPFILE` adds to `O_DIRECTORY`.
const TMPFILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// An open file that no descriptor has yet. A panic of an observer, which hears of the open before
/// the descriptor is there, ends it like a last close.
struct Opening<'p> {
    process: &'p Process,
    file: Option<Share<OpenFile>>,
}

impl Drop for Opening<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.give_up(&file);
        }
    }
}

impl Opening<'_> {
    #[cold]
    #[inline(never)]
    fn give_up(&self, file: &OpenFile) {
        file.finish(self.process.sb(), &pin());
    }
}

impl Process {
    /// `open(2)`.
    pub fn open(&self, path: impl AsRef<[u8]>, flags: i32, mode: u16) -> Result<Fd> {
        self.openat(AT_FDCWD, path, flags, mode)
    }

    /// `openat(2)`.
    pub fn openat(&self, dirfd: Fd, path: impl AsRef<[u8]>, flags: i32, mode: u16) -> Result<Fd> {
        self.call(Call::Openat, || {
            let flags = effective(flags)?;
            let reserved = self.files.reserve(flags & libc::O_CLOEXEC != 0)?;
            let path = path.as_ref();
            let nofollow = flags & libc::O_NOFOLLOW != 0;
            let exclusive = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
            let mut opening = Opening {
                process: self,
                file: None,
            };
            let follow = match (exclusive, nofollow) {
                (true, _) => Follow::Never,
                (false, true) => Follow::Slash,
                (false, false) => Follow::Yes,
            };
            // To the name, whatever is opened: so the walk is in here once.
            self.at_name(dirfd, path, follow, |cx, walked, g| {
                opening.file = Some(open_walked(cx, walked, flags, mode, g)?);
                Ok(())
            })?;
            let file = opening.file.take();
            Ok(reserved.install(file.expect("an open that succeeds has a file")))
        })
    }

    /// `close(2)`.
    pub fn close(&self, fd: Fd) -> Result<()> {
        self.call(Call::Close, || {
            let g = pin();
            let closed = self.files.close(fd, &g)?;
            self.closed(closed, &g);
            Ok(())
        })
    }
}

// Always inlined: what it does itself is a look at the flags.
#[inline(always)]
fn open_walked<'x>(
    cx: &Ctx<'_>,
    walked: &ToName<'x>,
    flags: i32,
    mode: u16,
    g: &'x Guard,
) -> Attempt<Share<OpenFile>> {
    if flags & TMPFILE != 0 {
        let parent = walked.existing()?.inode(cx, g)?;
        return open_tmpfile(cx, parent, mode, flags, g);
    }
    if flags & libc::O_CREAT == 0 || flags & libc::O_PATH != 0 {
        let inode = walked.existing()?.inode(cx, g)?;
        if flags & libc::O_DIRECTORY != 0 && !inode.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        return open(cx, inode, flags, g);
    }
    if walked.slash || walked.last != Last::Name {
        let dots = walked.last != Last::Name && flags & libc::O_EXCL != 0;
        return Err(if dots { Errno::EEXIST } else { Errno::EISDIR }.into());
    }
    if let Some(found) = walked.found() {
        if flags & libc::O_EXCL != 0 {
            return Err(Errno::EEXIST.into());
        }
        return open_existing(cx, walked.parent, found.inode(cx, g)?, flags, g);
    }
    open_absent(cx, walked.parent, walked.at, mode, flags, g)
}

/// The flags as Linux takes them, or `EINVAL` for a forbidden combination.
fn effective(flags: i32) -> Result<i32> {
    if flags & libc::O_PATH != 0 {
        let kept = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        return Ok(flags & kept);
    }
    if flags & TMPFILE != 0 {
        let whole = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if !whole || !writes || flags & libc::O_CREAT != 0 {
            return Err(Errno::EINVAL);
        }
    }
    let both = libc::O_CREAT | libc::O_DIRECTORY;
    if flags & both == both {
        return Err(Errno::EINVAL);
    }
    Ok(flags)
}
