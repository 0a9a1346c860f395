//! Open files: opening, making, reading, writing, making durable.

use crate::attributes;
use crate::checked::SuidSgid;
use crate::descriptor_room::TakenPlace;
use crate::errno::{Done, PassOn};
use crate::file::OpenHost;
use crate::identity::Identity;
use crate::listing::Listing;
use crate::node::{Node, Place};
use crate::over::Over;
use crate::pseudo::pseudo_filesystem;
use crate::reach::c_name;
use crate::retries::MayOpen;
use crate::sys;
use crate::tree::Tree;
use crate::user::User;
use hearth::{Attr, Caller, Errno, Kind, Result, WriteAt};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Statx, fdatasync, fsync, openat};
use rustix::io::pread;

/// Flags of an open that are passed on. `O_DIRECT` is not: the buffers of requests are aligned to
/// nothing.
const PASSED: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_TRUNC
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_NOATIME
    | libc::O_NONBLOCK;
/// The kernel opens a file to run it, for which its reader needs no right to read.
const FMODE_EXEC: i32 = 0x20;
/// `RWF_APPEND`, `RWF_NOAPPEND`.
const RWF_APPEND: i32 = 0x10;
const RWF_NOAPPEND: i32 = 0x20;

impl Tree {
    /// Checks that `caller` may open an inode that has no name.
    ///
    /// # Errors
    /// `ESTALE` if the kernel has to look again, `ENOENT` if it has just done so.
    fn check_gone(&self, caller: &Caller<'_>, node: &Arc<Node>) -> Result<()> {
        let (parent, name) = match self.retries.may_open(caller.pid, node) {
            MayOpen::Yes => return Ok(()),
            MayOpen::No => return Err(Errno::ESTALE),
            MayOpen::Unless(parent, name) => (parent, name),
        };
        let directory = self.reach(&parent)?;
        match self.find(directory.as_fd(), &name) {
            Ok(_) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// Opens an inode.
    pub fn open_node(&self, caller: &Caller<'_>, node: &Arc<Node>, flags: i32) -> Result<OpenHost> {
        match node.kind {
            Kind::File | Kind::Directory => {}
            Kind::Symlink => return Err(Errno::ELOOP),
            // The kernel opens these by itself, and the daemon never: it might wait for ever.
            _ => return Err(Errno::ENXIO),
        }
        let place = self.place(caller, node, node.kind)?;
        let reached = self.reach(node)?;
        let stat = attributes::stat(reached.as_fd())?;
        node.set_mode(stat.stx_mode.into());
        // Nobody finds by its name what callers removed: it is opened by whoever is in it. The
        // name of what others removed may be another's by now.
        let is_gone = stat.stx_nlink == 0;
        if is_gone && !node.may_reopen() {
            self.check_gone(caller, node)?;
        }
        let name = Tree::proc_name(reached.as_fd());
        let how = host_flags(flags);
        let open = || openat(self.proc(), &*name, how, Mode::empty()).pass_on();
        let over = [reached.as_fd()];
        let over = Over::Inodes(&over);
        let fd = match flags & FMODE_EXEC {
            0 if flags & libc::O_TRUNC != 0 => {
                self.rights
                    .change(caller, over, SuidSgid::of_caller(caller), open)?
            }
            0 => self.rights.act(caller, over, open)?,
            _ => open()?,
        };
        let keeps_cache = flags & libc::O_TRUNC == 0 && node.is_unchanged(&stat);
        let listing = Listing::new(&self.remembered);
        let opened = (self.rights.writer(caller), flags);
        // Only a file without blocks is worth the question.
        let may_hide = node.kind == Kind::File && stat.stx_blocks == 0;
        let hides_size = may_hide && pseudo_filesystem(&fd).is_some();
        let mut file = OpenHost::new(node, (fd, place), opened, keeps_cache, listing);
        file.hides_size = hides_size;
        file.is_quiet = self.is_quiet(&node.id);
        Ok(file)
    }

    /// Makes and opens a file.
    ///
    /// # Errors
    /// `ESTALE` for one that is there already, if the flags allow it.
    pub fn create(
        &self,
        caller: &Caller<'_>,
        (parent, name): (&Arc<Node>, &[u8]),
        mode: u16,
        flags: i32,
    ) -> Done<(Attr, OpenHost)> {
        let place = self.place(caller, parent, Kind::File)?;
        let directory = self.reach(parent)?;
        let (at, entry) = (directory.as_fd(), c_name(name)?);
        let how = host_flags(flags) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let bits = Mode::from_raw_mode(mode.into());
        let made = self.rights.make(caller, Over::Inodes(&[at]), mode, || {
            openat(at, &*entry, how, bits).pass_on()
        });
        match made {
            Ok(fd) => {
                let opened = (self.rights.writer(caller), flags);
                Ok(self.opened(parent, name, (fd, place), opened))
            }
            // Others have made it. Nobody has checked who may open what is there: the kernel looks
            // again, and does.
            Err(Errno::EEXIST) if flags & libc::O_EXCL == 0 => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// Makes and opens a file without a name.
    pub fn tmpfile(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        mode: u16,
        flags: i32,
    ) -> Result<(Attr, OpenHost)> {
        let place = self.place(caller, parent, Kind::File)?;
        let directory = self.reach(parent)?;
        let name = Tree::proc_name(directory.as_fd());
        let excl = OFlags::from_bits_retain((flags & libc::O_EXCL) as u32);
        let how = host_flags(flags) | OFlags::TMPFILE | excl;
        let bits = Mode::from_raw_mode(mode.into());
        let over = [directory.as_fd()];
        let fd = self.rights.make(caller, Over::Inodes(&over), mode, || {
            openat(self.proc(), &*name, how, bits).pass_on()
        })?;
        let opened = (self.rights.writer(caller), flags);
        let (attr, file) = self.opened(parent, b"", (fd, place), opened)?;
        file.node.hold_open();
        Ok((attr, file))
    }

    /// The inode and the open file of a descriptor that was made just now.
    fn opened(
        &self,
        parent: &Arc<Node>,
        name: &[u8],
        (fd, taken): (OwnedFd, TakenPlace),
        opened: (User, i32),
    ) -> Result<(Attr, OpenHost)> {
        let stat: Statx = attributes::stat(fd.as_fd())?;
        let id = Identity::of(fd.as_fd(), &stat);
        let place = (!self.opens_handles_of(&id)).then(|| Place {
            parent: Arc::clone(parent),
            name: name.into(),
        });
        let node = self.nodes.take(id, Kind::File, place);
        let attr = self.attr(&node, fd.as_fd(), &stat)?;
        let listing = Listing::new(&self.remembered);
        let mut file = OpenHost::new(&node, (fd, taken), opened, false, listing);
        file.is_new = true;
        file.is_quiet = self.is_quiet(&node.id);
        Ok((attr, file))
    }

    /// Reads at `off`.
    pub fn read(file: &OpenHost, off: u64, out: &mut [u8]) -> Result<usize> {
        let fd = file.fd()?;
        let mut done = 0;
        // The kernel takes less for the end of the file.
        while done < out.len() {
            match pread(&fd, &mut out[done..], off + done as u64).pass_on() {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::EINTR) => {}
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }

    /// Writes for `caller`.
    pub fn write(
        &self,
        caller: &Caller<'_>,
        file: &OpenHost,
        place: WriteAt,
        data: &[u8],
        suid_sgid: SuidSgid,
    ) -> Result<usize> {
        file.descriptor.set_busy();
        let fd = self.to_write(&file.descriptor)?;
        let fd = fd.as_fd();
        let write = || match (place, file.appends()) {
            (WriteAt::At(off), false) => sys::write_at(fd, data, off, 0),
            (WriteAt::At(off), true) => sys::write_at(fd, data, off, RWF_NOAPPEND),
            (WriteAt::End | WriteAt::EndFrom(_), true) => sys::write_at(fd, data, 0, 0),
            (WriteAt::End | WriteAt::EndFrom(_), false) => sys::write_at(fd, data, 0, RWF_APPEND),
        };
        self.rights
            .change(caller, Over::Inodes(&[fd]), suid_sgid, write)
    }

    /// Writes what the kernel has acknowledged: pages that a program has changed through a mapping.
    pub fn write_back(&self, node: &Arc<Node>, off: u64, data: &[u8]) -> Result<usize> {
        let (fd, user) = match self.to_write_back(node) {
            Some(writer) => writer?,
            None => {
                let reached = self.reach(node)?;
                let name = Tree::proc_name(reached.as_fd());
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                let fd = openat(self.proc(), &*name, flags, Mode::empty()).pass_on()?;
                // Who stored is not known any more.
                let stat = attributes::stat(fd.as_fd())?;
                let (uid, gid) = (stat.stx_uid, stat.stx_gid);
                (Arc::new(fd), User { uid, gid })
            }
        };
        self.write_back_by(fd.as_fd(), user, (off, data))
    }

    /// [`Tree::write_back`] by a descriptor of [`Tree::to_write_back`].
    pub fn write_back_by(
        &self,
        fd: BorrowedFd<'_>,
        user: User,
        (off, data): (u64, &[u8]),
    ) -> Result<usize> {
        let write = || match sys::write_at(fd, data, off, RWF_NOAPPEND) {
            // Linux before 6.9; a file that appends is then not mapped for writing in earnest.
            Err(Errno::EOPNOTSUPP) => sys::write_at(fd, data, off, 0),
            done => done,
        };
        self.rights.store(user, write)
    }

    /// Returns when the file is durable.
    pub fn fsync(file: &OpenHost, data_only: bool) -> Result<()> {
        let fd = file.fd()?;
        let done = match data_only {
            true => fdatasync(&fd).pass_on(),
            false => fsync(&fd).pass_on(),
        };
        done.and(file.descriptor.tell_lost())
    }
}

/// Flags for the host.
pub fn host_flags(flags: i32) -> OFlags {
    let passed = OFlags::from_bits_retain((flags & PASSED) as u32);
    passed | OFlags::CLOEXEC | OFlags::NOCTTY
}
