//! An open file, or an open control file of the volume beside.

use crate::descriptor_room::TakenPlace;
use crate::file_descriptor::FileDescriptor;
use crate::heat::known::Known;
use crate::listing::Listing;
use crate::node::Node;
use crate::user::User;
use hearth::{Errno, Kind, OpenFile, Result, VfsFile};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU32, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, OnceLock};
use rustix::fd::OwnedFd;

lock_class!(pub ListingLock = "host.listing", 800);

/// What [`crate::HostVfs`] opens.
#[derive(Debug)]
pub struct HostFile(pub(crate) Opened);

#[derive(Debug)]
pub(crate) enum Opened {
    /// A file or directory of the host.
    Host(OpenHost),
    /// A control file.
    Control(Arc<OpenFile>),
}

impl HostFile {
    /// The file of the host.
    ///
    /// # Errors
    /// `EBADF` for a control file.
    pub(crate) fn host(&self) -> Result<&OpenHost> {
        match &self.0 {
            Opened::Host(file) => Ok(file),
            Opened::Control(_) => Err(Errno::EBADF),
        }
    }
}

/// A file or directory of the host that is open.
#[derive(Debug)]
pub(crate) struct OpenHost {
    pub node: Arc<Node>,
    pub descriptor: Arc<FileDescriptor>,
    /// `O_*`. Relaxed: requests that change and use them at once have no order.
    flags: AtomicU32,
    keeps_cache: bool,
    /// Whether the kernel makes its contents up while it is read.
    pub hides_size: bool,
    /// Whether the inode was made by this open.
    pub is_new: bool,
    /// Whether a close has nothing to report, as far as its filesystem goes.
    pub is_quiet: bool,
    /// What heat knows of it, from its first use on.
    pub known: OnceLock<Arc<Known>>,
    /// Of a directory. Held while it is read: the position of the descriptor is part of it.
    pub listing: Lock<ListingLock, Listing>,
}

impl OpenHost {
    /// A file that `user` has opened: `node`, to which its descriptor is lent, and the place that
    /// this takes; `listing` is that of a directory.
    pub fn new(
        node: &Arc<Node>,
        (fd, place): (OwnedFd, TakenPlace),
        (user, flags): (User, i32),
        keeps_cache: bool,
        listing: Listing,
    ) -> OpenHost {
        let writer = is_writable(flags).then_some(user);
        let descriptor = Arc::new(FileDescriptor::new((fd, place), writer, flags));
        node.add_open(&descriptor);
        OpenHost {
            node: Arc::clone(node),
            descriptor,
            flags: AtomicU32::new(flags as u32),
            keeps_cache,
            hides_size: false,
            is_new: false,
            is_quiet: false,
            known: OnceLock::new(),
            listing: Lock::new(listing),
        }
    }

    /// The descriptor, to read or ask by.
    ///
    /// # Errors
    /// `EBADF` if the file is closed.
    pub fn fd(&self) -> Result<Arc<OwnedFd>> {
        self.descriptor.get()
    }

    /// Closes the file, when the last operation on it has ended.
    pub fn close(&self) {
        self.node.remove_open(&self.descriptor);
        self.descriptor.close();
    }

    /// Whether a close by a program is waited for: it may report an error, or the program that was
    /// written is about to run.
    fn needs_flush(&self) -> bool {
        // What appends is written through this process also where the rest is passed through.
        let passes = self.descriptor.is_idle() && !self.appends();
        self.is_writable() && !(self.is_quiet && passes && !self.node.may_run())
    }

    /// Whether it was opened to be read.
    pub fn is_readable(&self) -> bool {
        self.descriptor.flags & libc::O_ACCMODE != libc::O_WRONLY
    }

    /// Whether it was opened to be written to.
    pub fn is_writable(&self) -> bool {
        is_writable(self.descriptor.flags)
    }

    /// Whether the open cut it to nothing.
    pub fn cuts(&self) -> bool {
        self.descriptor.flags & libc::O_TRUNC != 0
    }

    /// Whether the descriptor itself appends.
    pub fn appends(&self) -> bool {
        self.descriptor.flags & libc::O_APPEND != 0
    }
}

fn is_writable(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

impl VfsFile for HostFile {
    fn ino(&self) -> u64 {
        match &self.0 {
            Opened::Host(file) => file.node.number,
            Opened::Control(file) => VfsFile::ino(&**file),
        }
    }

    fn kind(&self) -> Kind {
        match &self.0 {
            Opened::Host(file) => file.node.kind,
            Opened::Control(file) => VfsFile::kind(&**file),
        }
    }

    fn flags(&self) -> i32 {
        match &self.0 {
            Opened::Host(file) => file.flags.load(Relaxed) as i32,
            Opened::Control(file) => VfsFile::flags(&**file),
        }
    }

    fn set_flags(&self, flags: i32) {
        match &self.0 {
            Opened::Host(file) => file.flags.store(flags as u32, Relaxed),
            Opened::Control(file) => VfsFile::set_flags(&**file, flags),
        }
    }

    fn readable(&self) -> bool {
        match &self.0 {
            Opened::Host(file) => file.is_readable(),
            Opened::Control(file) => VfsFile::readable(&**file),
        }
    }

    fn writable(&self) -> bool {
        match &self.0 {
            Opened::Host(file) => is_writable(file.descriptor.flags),
            Opened::Control(file) => VfsFile::writable(&**file),
        }
    }

    fn is_control(&self) -> bool {
        matches!(self.0, Opened::Control(_))
    }

    fn hides_size(&self) -> bool {
        match &self.0 {
            Opened::Host(file) => file.hides_size,
            Opened::Control(_) => false,
        }
    }

    fn keeps_cache(&self) -> bool {
        match &self.0 {
            Opened::Host(file) => file.keeps_cache,
            Opened::Control(_) => false,
        }
    }

    fn set_passed_through(&self) {
        if let Opened::Host(file) = &self.0 {
            file.descriptor.set_idle();
        }
    }

    fn needs_flush(&self) -> bool {
        match &self.0 {
            Opened::Host(file) => file.needs_flush(),
            Opened::Control(file) => VfsFile::needs_flush(&**file),
        }
    }

    /// The descriptor itself is synchronous.
    fn is_synchronous(&self) -> bool {
        false
    }

    fn is_charged(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor_room::DescriptorRoom;
    use crate::identity::Identity;
    use rustix::fd::AsFd;
    use rustix::fs::{AtFlags, StatxFlags};

    lock_class!(LastLock = "test.last", 9999);

    /// Once, a request panicked that freed what an epoch had left, and the volume became read-only.
    #[test]
    fn a_file_may_be_dropped_below_any_lock() {
        let fd: OwnedFd = std::fs::File::open("/").unwrap().into();
        let stat = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, StatxFlags::ALL).unwrap();
        let id = Identity::of(fd.as_fd(), &stat);
        let node = Arc::new(Node::new(1, id, Kind::Directory, None));
        let listing = Listing::new(&Arc::default());
        let user = User { uid: 0, gid: 0 };
        let place = Arc::new(DescriptorRoom::new(1)).take(0, true).unwrap();
        let file = OpenHost::new(&node, (fd, place), (user, libc::O_RDONLY), false, listing);
        assert!(node.is_open());
        let last = Lock::<LastLock, ()>::new(());
        let held = last.lock();
        drop(file);
        drop(held);
        assert!(!node.is_open());
    }
}
