//! Files whose data the kernel reads and writes by itself, past this process.

use crate::file::{HostFile, Opened};
use crate::tree::Tree;
use crate::vfs::HostVfs;
use hearth::{Caller, Errno, Kind, Result, VfsFile};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, openat};

impl HostVfs {
    /// Passes an open file to `register`, unless somebody has to see what is read and written.
    pub(crate) fn passes_through(
        &self,
        caller: &Caller<'_>,
        file: &HostFile,
        register: &mut dyn FnMut(BorrowedFd<'_>) -> Result<i32>,
    ) -> Option<Result<i32>> {
        let Opened::Host(open) = &file.0 else {
            return None;
        };
        // What a pseudo filesystem answers may depend on who reads: the first opener's rights would
        // count for all.
        if open.hides_size
            || open.node.kind != Kind::File
            || self.heat.needs_bytes()
            || self.quotas.is_some()
        {
            return None;
        }
        let fd = match open.fd() {
            Ok(fd) => fd,
            Err(errno) => return Some(Err(errno)),
        };
        if file.flags() & libc::O_DIRECT != 0 && !self.takes_direct(fd.as_fd()) {
            // The kernel would find that out after the reply, and answer EIO.
            return None;
        }
        // The kernel opens the file by this once more, as the caller has. It keeps what it is given
        // for as long as the file is open, and a program is not run while that may write.
        let path = match open.is_writable() {
            true => self.tree.path_of(fd.as_fd()),
            false => None,
        };
        let registered = || match path.as_ref().map(|path| register(path.as_fd())) {
            // Linux before 6.16 takes no such descriptor.
            None | Some(Err(Errno::EBADF)) => register(fd.as_fd()),
            Some(done) => done,
        };
        Some(self.tree.rights.register(caller, registered))
    }

    /// Whether a file can be opened with `O_DIRECT`.
    fn takes_direct(&self, fd: BorrowedFd<'_>) -> bool {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        openat(self.tree.proc(), Tree::proc_name(fd), flags, Mode::empty()).is_ok()
    }
}
