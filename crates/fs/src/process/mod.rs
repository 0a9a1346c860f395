//! The library's API: a process with credentials, umask, directories and descriptors, and the calls
//! of Linux.
//!
//! Threads share one `Process` by reference; [`Process::fork`] copies it; dropping it closes
//! everything. Paths and names are bytes: `&str`, `&[u8]` and `Vec<u8>` all work. Errors are the
//! errno of the Linux call with that name. Each call of Linux is counted once: see [`Call`].

mod dirs;
mod extents;
mod fds;
mod files;
mod links;
mod locks;
mod long;
mod meta;
mod open;
mod piece;
mod position;
mod xattrs;

pub use dirs::OwnedDirEntry;
pub use locks::LockSpec;

use crate::caller::{Caller, Credentials, Origin};
use crate::calls::Call;
use crate::errno::{Errno, Result};
use crate::fdtable::{Closed, FdPolicy, FdTable};
use crate::inode::{Inode, InodeInner, InodeRef};
use crate::number::ROOT;
use crate::ops::ctx::Ctx;
use crate::ops::open::OpenFile;
use crate::ops::run::Run;
use crate::superblock::{Attempt, Stop, Superblock};
use crate::volume::Volume;
use crate::walk::{Follow, From, ToInode, ToName, walk};
use hearth_sync::epoch::{Guard, pin, throttle};
use hearth_sync::object::RefSlot;
use hearth_sync::primitive::atomic::{AtomicU32, Ordering};
use hearth_sync::rcu::RcuCell;
use hearth_sync::rcu::Shared;

/// A file descriptor of a [`Process`].
pub type Fd = i32;

/// As a directory descriptor: the working directory.
pub const AT_FDCWD: Fd = libc::AT_FDCWD;

/// A user of a volume.
pub struct Process {
    volume: Volume,
    files: FdTable<OpenFile>,
    /// Replaced as a whole, read under the epoch.
    credentials: RcuCell<Credentials>,
    /// File mode creation mask.
    umask: AtomicU32,
    /// Working directory. Empty only during the drop.
    cwd: RefSlot<InodeInner>,
    /// The directory of `/`. Empty only during the drop.
    root: RefSlot<InodeInner>,
    /// Its address tells processes apart as owners of record locks.
    identity: Box<u8>,
    /// The system's process id: read once, because every operation uses it. Immutable.
    pid: u32,
}

impl Volume {
    /// A process on this volume: working directory and root are `/`, umask 022.
    pub fn process(&self, credentials: Credentials) -> Process {
        Process::new(self.clone(), credentials)
    }
}

impl Process {
    fn new(volume: Volume, credentials: Credentials) -> Process {
        let root = {
            let g = pin();
            let hold = || volume.sb.objects.inodes.hold(ROOT, &g);
            (
                hold().expect("the root is kept for ever"),
                hold().expect("the root is kept for ever"),
            )
        };
        Process {
            volume,
            files: FdTable::new(FdPolicy::Lowest),
            credentials: RcuCell::new(credentials),
            umask: AtomicU32::new(0o022),
            cwd: RefSlot::new(root.0),
            root: RefSlot::new(root.1),
            identity: Box::new(0),
            pid: std::process::id(),
        }
    }

    /// Gives out any free descriptor from now on instead of the lowest, each core from its own:
    /// opens and closes on different cores then share nothing. For a process without open
    /// descriptors.
    ///
    /// # Errors
    /// `EBUSY` if something is open.
    pub fn set_fd_policy(&mut self, policy: FdPolicy) -> Result<()> {
        if !self.files.open_fds().is_empty() {
            return Err(Errno::EBUSY);
        }
        let files = FdTable::new(policy);
        files.set_limit(self.files.limit())?;
        self.files = files;
        Ok(())
    }

    /// Most descriptors (`RLIMIT_NOFILE`).
    ///
    /// # Errors
    /// `EPERM` above 1,048,576.
    pub fn set_fd_limit(&self, limit: u32) -> Result<()> {
        self.files.set_limit(limit)
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// A child process: its credentials, directories and umask are copies, and its descriptors
    /// share open files with this process.
    pub fn fork(&self) -> Process {
        self.count(Call::Fork);
        let g = pin();
        Process {
            volume: self.volume.clone(),
            files: self.files.fork(),
            credentials: RcuCell::new(self.credentials.load(&g).clone()),
            umask: AtomicU32::new(self.umask.load(Ordering::Relaxed)),
            cwd: RefSlot::new(self.hold_dir(&self.cwd, &g)),
            root: RefSlot::new(self.hold_dir(&self.root, &g)),
            identity: Box::new(0),
            pid: std::process::id(),
        }
    }

    /// Replaces the credentials of the process.
    pub fn set_credentials(&self, credentials: Credentials) {
        self.credentials.replace(credentials, &pin());
    }

    /// The credentials of the process.
    pub fn credentials(&self) -> Credentials {
        self.credentials.load(&pin()).clone()
    }

    /// Sets the file mode creation mask and returns the old one.
    pub fn umask(&self, mask: u16) -> u16 {
        self.count(Call::Umask);
        // Relaxed: one word by itself.
        self.umask.swap(u32::from(mask) & 0o777, Ordering::Relaxed) as u16
    }

    fn sb(&self) -> &Superblock {
        &self.volume.sb
    }

    /// Runs a whole call and counts it. Only public methods come here: a public method that uses
    /// other functions is one call.
    #[inline]
    fn call<T>(&self, call: Call, f: impl FnOnce() -> Result<T>) -> Result<T> {
        // Here, where no file offset is locked yet.
        throttle();
        let result = f();
        self.count(call);
        // In parts, as it was stored: to copy it as a whole a processor waits until all stores
        // before, perhaps of a page, have reached its cache.
        match result {
            Ok(value) => Ok(value),
            Err(errno) => {
                self.sb().stats.count_call_error(call);
                Err(errno)
            }
        }
    }

    #[inline]
    fn count(&self, call: Call) {
        self.sb().stats.count_call(call);
    }

    /// Runs an operation with the process's credentials. Pinned while it runs, and unpinned while
    /// it waits for the backend.
    // With the operation once in its code, or it would not be inlined, and what it captures and
    // returns would go through memory.
    fn run<T>(&self, mut f: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>) -> Result<T> {
        self.sb().keep_budget();
        let mut g = pin();
        let mut run = Run::new(self.sb(), Origin::Library, &g).allowing_partial();
        loop {
            let caller = self.caller(self.credentials.load(&g));
            match f(&run.context(&caller), &g) {
                Ok(value) => {
                    run.end(g);
                    return Ok(value);
                }
                Err(Stop::Errno(errno)) => {
                    run.end(g);
                    return Err(errno);
                }
                Err(stop) => (run, g) = run.after(stop, g)?,
            }
        }
    }

    fn caller<'a>(&self, credentials: &'a Credentials) -> Caller<'a> {
        Caller {
            uid: credentials.uid,
            gid: credentials.gid,
            groups: &credentials.groups,
            pid: self.pid,
            // Relaxed: one word by itself.
            umask: self.umask.load(Ordering::Relaxed) as u16,
            origin: Origin::Library,
        }
    }

    /// Runs an operation on the inode at the end of `path`.
    fn at<T>(
        &self,
        dirfd: Fd,
        path: &[u8],
        follow: Follow,
        mut f: impl for<'x> FnMut(&Ctx<'_>, &ToInode<'x>, &'x Guard) -> Attempt<T>,
    ) -> Result<T> {
        self.run(move |cx, g| {
            let from = self.from(dirfd, path, g)?;
            // Where it is: it is too large to be moved.
            match walk(cx, from, path, follow, g) {
                Ok(ref walked) => f(cx, walked, g),
                Err(stop) => Err(stop),
            }
        })
    }

    /// Runs an operation on the name at the end of `path`, without reading its inode.
    fn at_name<T>(
        &self,
        dirfd: Fd,
        path: &[u8],
        follow: Follow,
        mut f: impl for<'x> FnMut(&Ctx<'_>, &ToName<'x>, &'x Guard) -> Attempt<T>,
    ) -> Result<T> {
        self.run(move |cx, g| {
            let from = self.from(dirfd, path, g)?;
            // Where it is: it is too large to be moved.
            match walk(cx, from, path, follow, g) {
                Ok(ref walked) => f(cx, walked, g),
                Err(stop) => Err(stop),
            }
        })
    }

    /// Where a path begins: `/`, the working directory or a descriptor.
    // Always inlined: it is a few loads, and its result is large.
    #[inline(always)]
    fn from<'g>(&'g self, dirfd: Fd, path: &[u8], g: &'g Guard) -> Attempt<From<'g>> {
        // An invalid path is refused before the descriptor is looked at.
        check_length(path)?;
        let root = self.dir(&self.root, g);
        let start = match path.first() {
            Some(b'/') => root,
            _ if dirfd == AT_FDCWD => self.dir(&self.cwd, g),
            _ => self.dir_of(dirfd, g)?,
        };
        Ok(From { start, root })
    }

    /// The directory of a descriptor.
    #[inline(never)]
    fn dir_of<'g>(&'g self, fd: Fd, g: &'g Guard) -> Result<&'g Inode> {
        let inode = self.any_inode_of(fd, g)?;
        match inode.is_dir() {
            true => Ok(inode),
            false => Err(Errno::ENOTDIR),
        }
    }

    /// The target of an empty path with `AT_EMPTY_PATH`: the working directory or a descriptor's
    /// inode.
    fn itself<'g>(&'g self, dirfd: Fd, g: &'g Guard) -> Result<&'g Inode> {
        match dirfd {
            AT_FDCWD => Ok(self.dir(&self.cwd, g)),
            _ => self.any_inode_of(dirfd, g),
        }
    }

    fn dir<'g>(&self, slot: &RefSlot<InodeInner>, g: &'g Guard) -> &'g Inode {
        slot.get(g)
            .expect("directories of a process are held until it is dropped")
    }

    fn hold_dir(&self, slot: &RefSlot<InodeInner>, g: &Guard) -> InodeRef {
        loop {
            // Another thread may be changing directory; the inode that it leaves may end at once.
            if let Some(held) = self.dir(slot, g).hold() {
                return held;
            }
        }
    }

    /// The open file of a descriptor.
    fn file<'g>(&'g self, fd: Fd, g: &'g Guard) -> Result<&'g OpenFile> {
        self.files.get(fd, g).map(Shared::get).ok_or(Errno::EBADF)
    }

    /// The inode of a descriptor.
    fn any_inode_of<'g>(&'g self, fd: Fd, g: &'g Guard) -> Result<&'g Inode> {
        self.on_any(fd, g, |file| file.get().inode(g))
    }

    /// The inode of a descriptor that is not an `O_PATH` one.
    fn inode_of<'g>(&'g self, fd: Fd, g: &'g Guard) -> Result<&'g Inode> {
        self.on(fd, g, |file| file.get().inode(g))
    }

    /// Runs `f` on the open file of a descriptor, which is not an `O_PATH` one.
    ///
    /// After the last close an open file has no inode. A call that fails for that reason comes
    /// after the close, and after the `dup2` that may have caused it: it looks the descriptor up
    /// again.
    fn on<'g, R, E: MayBeClosed>(
        &'g self,
        fd: Fd,
        g: &'g Guard,
        f: impl FnMut(Shared<'g, OpenFile>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        on(|| self.usable_file(fd, g), f)
    }

    /// Runs `f` on the open file of any descriptor, including `O_PATH` ones.
    fn on_any<'g, R, E: MayBeClosed>(
        &'g self,
        fd: Fd,
        g: &'g Guard,
        f: impl FnMut(Shared<'g, OpenFile>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        on(|| self.files.get(fd, g).ok_or(Errno::EBADF), f)
    }

    /// The open file of a descriptor, for a call that does not accept an `O_PATH` one.
    fn usable_file<'g>(&'g self, fd: Fd, g: &'g Guard) -> Result<Shared<'g, OpenFile>> {
        let file = self.files.get(fd, g).ok_or(Errno::EBADF)?;
        if file.is_path() {
            Err(Errno::EBADF)
        } else {
            Ok(file)
        }
    }

    /// Cleans up after a descriptor that was closed: POSIX record locks of this process on that
    /// file are released with any of its descriptors, everything else with the last one.
    fn closed(&self, closed: Closed<'_, OpenFile>, g: &Guard) {
        if !closed.file.is_path()
            && let Ok(inode) = closed.file.inode(g)
            && let Some(locks) = inode.taken_locks()
        {
            locks.release_owner(self.lock_owner(), false);
        }
        if let Some(file) = closed.give_up() {
            file.finish(self.sb(), g);
        }
    }

    fn lock_owner(&self) -> u64 {
        std::ptr::from_ref(&*self.identity) as u64
    }
}

/// An error that may come from a file whose last descriptor was closed.
trait MayBeClosed: std::convert::From<Errno> {
    /// Whether it may.
    fn is_bad_descriptor(&self) -> bool;
}

impl MayBeClosed for Errno {
    fn is_bad_descriptor(&self) -> bool {
        *self == Errno::EBADF
    }
}

impl MayBeClosed for Stop {
    fn is_bad_descriptor(&self) -> bool {
        matches!(self, Stop::Errno(Errno::EBADF))
    }
}

/// Runs `f` on the result of `find`, and again if that file has had its last close when `f` fails:
/// then no descriptor names it any more.
fn on<'g, R, E: MayBeClosed>(
    find: impl Fn() -> Result<Shared<'g, OpenFile>>,
    mut f: impl FnMut(Shared<'g, OpenFile>) -> std::result::Result<R, E>,
) -> std::result::Result<R, E> {
    loop {
        let file = find()?;
        match f(file) {
            Err(stop) if file.is_finished() && stop.is_bad_descriptor() => {}
            done => return done,
        }
    }
}

fn check_length(path: &[u8]) -> Result<()> {
    match path.len() {
        0 => Err(Errno::ENOENT),
        len if len >= libc::PATH_MAX as usize => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let g = pin();
        for closed in self.files.drain(&g) {
            self.closed(closed, &g);
        }
        for slot in [&self.cwd, &self.root] {
            if let Some(held) = slot.take() {
                self.sb().release(held, &g);
            }
        }
        self.count(Call::Exit);
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("credentials", &self.credentials())
            .finish_non_exhaustive()
    }
}
