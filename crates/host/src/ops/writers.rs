//! Descriptors that may write: given up when a program has closed the file, and opened again for
//! whoever has it open still.
//!
//! A file that anybody has open for writing is not executed (`ETXTBSY`), and the kernel tells of
//! the last close of one on the mount (RELEASE) after the close has returned. What it waits for is
//! each close of a descriptor (FLUSH), of which more may follow.

use crate::attributes;
use crate::errno::PassOn;
use crate::file::OpenHost;
use crate::file_descriptor::FileDescriptor;
use crate::node::{EXECUTES, Node};
use crate::ops::files::host_flags;
use crate::sys;
use crate::tree::Tree;
use crate::user::User;
use hearth::{Errno, Result};
use hearth_sync::primitive::{Arc, thread};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Statx, StatxAttributes, openat};
use rustix::io::dup;
use rustix::process::geteuid;
use std::time::{Duration, Instant};

/// How long what was stored waits for the end of a program that is executed from the file.
const UNTIL_ENDED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

impl Tree {
    /// A program closes the file, perhaps not for the last time. What a close reports: errors of
    /// writes that were acknowledged, where the host has such.
    pub fn flush(&self, file: &OpenHost) -> Result<()> {
        let copy = dup(file.fd()?).pass_on()?;
        let done = sys::close(copy);
        file.descriptor.set_idle();
        if file.node.may_run() {
            self.give_up(&file.descriptor);
        }
        done
    }

    /// A file may be executed from now on: what is open to write to it, and not written through, is
    /// given up.
    pub fn give_up_idle(&self, node: &Node) {
        for file in node.writers() {
            if file.is_idle() {
                self.give_up(&file);
            }
        }
    }

    /// The descriptor of an open file, to write through it.
    ///
    /// # Errors
    /// `EBADF` if the file is closed, and those of `open(2)` if it was given up: `ETXTBSY` if the
    /// file is being executed since.
    pub fn to_write(&self, file: &FileDescriptor) -> Result<Arc<OwnedFd>> {
        let (fd, is_whole) = file.get_whole()?;
        match (is_whole, file.writer) {
            (true, _) | (_, None) => Ok(fd),
            (false, Some(user)) => {
                let whole = Arc::new(self.open_again(fd.as_fd(), file.flags, user)?);
                drop(file.replace(&fd, Arc::clone(&whole), true));
                Ok(whole)
            }
        }
    }

    /// [`Tree::to_write`] for what a mapping has stored, after which it is given up again. `None`
    /// if the file is closed.
    pub fn to_write_back(&self, file: &FileDescriptor) -> Option<Result<(Arc<OwnedFd>, User)>> {
        let (user, (fd, is_whole)) = (file.writer?, file.get_whole().ok()?);
        if is_whole {
            return Some(Ok((fd, user)));
        }
        let end = Instant::now() + UNTIL_ENDED;
        loop {
            match self.open_again(fd.as_fd(), file.flags, user) {
                // Nobody can be told to store it again.
                Err(Errno::ETXTBSY) if Instant::now() < end => thread::sleep(LOOK),
                again => return Some(again.map(|whole| (Arc::new(whole), user))),
            }
        }
    }

    /// A descriptor by which nothing can be read or written.
    pub fn path_of(&self, fd: BorrowedFd<'_>) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat(self.proc(), Tree::proc_name(fd), flags, Mode::empty()).ok()
    }

    /// Before the owner of files, whose daemon has no other right, may write to this one no more:
    /// whoever has it open goes on.
    pub fn take_back(&self, node: &Node) {
        for file in node.writers() {
            // What is refused is refused when it is needed.
            let _ = self.to_write(&file);
        }
    }

    /// Gives up a descriptor that may write. What stays has been open since, so that an error of
    /// write-back is told by it.
    fn give_up(&self, file: &FileDescriptor) {
        let Ok((old, true)) = file.get_whole() else {
            return;
        };
        let stat = attributes::stat(old.as_fd());
        if !stat.is_ok_and(|stat| self.may_open_again(&stat, file.flags)) {
            return;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let name = Tree::proc_name(old.as_fd());
        if let Ok(fd) = openat(self.proc(), &*name, flags, Mode::empty()) {
            drop(file.replace(&old, Arc::new(fd), false));
        }
    }

    /// Whether a file may be executed, and could be opened for writing again at any time.
    fn may_open_again(&self, stat: &Statx, flags: i32) -> bool {
        let mode = u32::from(stat.stx_mode);
        let needed = match flags & libc::O_ACCMODE {
            libc::O_RDWR => libc::S_IRUSR | libc::S_IWUSR,
            _ => libc::S_IWUSR,
        };
        let fixed = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
        let is_own = || stat.stx_uid == geteuid().as_raw() && mode & needed == needed;
        mode & EXECUTES != 0
            && stat.stx_nlink > 0
            && !stat.stx_attributes.intersects(fixed)
            && (self.rights.switches() || is_own())
    }

    /// Opens a file once more as `user` has opened it, by the daemon's own right.
    fn open_again(&self, fd: BorrowedFd<'_>, flags: i32, user: User) -> Result<OwnedFd> {
        let name = Tree::proc_name(fd);
        let how = host_flags(flags & !libc::O_TRUNC);
        self.rights.store(user, || {
            openat(self.proc(), &*name, how, Mode::empty()).pass_on()
        })
    }
}
