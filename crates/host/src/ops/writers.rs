//! Descriptors that may write: given up when a program has closed the file, and opened again for
//! whoever has it open still. So nothing is given up that might not be opened again.
//!
//! A file that anybody has open for writing is not executed (`ETXTBSY`), and the kernel tells of
//! the last close of one on the mount (RELEASE) after the close has returned. What it waits for is
//! each close of a descriptor (FLUSH), of which more may follow.

use crate::attributes;
use crate::errno::PassOn;
use crate::file::OpenHost;
use crate::file_descriptor::FileDescriptor;
use crate::node::{EXECUTES, Node, RightsChange};
use crate::ops::files::host_flags;
use crate::sys;
use crate::tree::Tree;
use crate::user::User;
use hearth::{Errno, Result};
use hearth_sync::primitive::{Arc, thread};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Statx, StatxAttributes, openat};
use rustix::io::dup;
use std::time::Duration;

/// How long what was stored waits for the end of a program that is executed from the file.
const UNTIL_ENDED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

impl Tree {
    /// A program closes the file, perhaps not for the last time. What a close reports: errors of
    /// writes that were acknowledged, where the host has such.
    pub fn flush(&self, file: &OpenHost) -> Result<()> {
        let copy = dup(file.fd()?).pass_on()?;
        let mut done = sys::close(copy);
        if !file.is_quiet {
            // A child that ends closes what it inherited, and nobody reads what that is told.
            done = done.and(file.descriptor.has_lost());
        }
        file.descriptor.set_idle();
        if file.node.may_run() {
            self.give_up(&file.node, &file.descriptor);
        }
        done
    }

    /// A file may be executed from now on, or was changed by a handle, behind which no FLUSH may
    /// come: what is open to write to it, and not written through, is given up.
    pub fn give_up_idle(&self, node: &Node) {
        if !node.may_run() {
            return;
        }
        for file in node.writers() {
            if file.is_idle() {
                self.give_up(node, &file);
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
                file.end_wait();
                Ok(whole)
            }
        }
    }

    /// [`Tree::to_write`] of the first who has the file open, for what a mapping has stored, after
    /// which it is given up again. `None` if it is closed. This may wait: below no lock.
    pub fn to_write_back(&self, node: &Node) -> Option<Result<(Arc<OwnedFd>, User)>> {
        let file = node.writer()?;
        let (user, (fd, is_whole)) = (file.writer?, file.get_whole().ok()?);
        if is_whole {
            return Some(Ok((fd, user)));
        }
        loop {
            match self.open_again(fd.as_fd(), file.flags, user) {
                // Nobody can be told to store it again.
                Err(Errno::ETXTBSY) if file.may_wait(UNTIL_ENDED) => thread::sleep(LOOK),
                Err(errno) => return Some(Err(errno)),
                Ok(whole) => {
                    file.end_wait();
                    return Some(Ok((Arc::new(whole), user)));
                }
            }
        }
    }

    /// A descriptor by which nothing can be read or written.
    pub fn path_of(&self, fd: BorrowedFd<'_>) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat(self.proc(), Tree::proc_name(fd), flags, Mode::empty()).ok()
    }

    /// Before the rights to a file change, by which alone the daemon may open it again.
    #[must_use]
    pub fn take_back_by_rights<'n>(&self, node: &'n Node) -> Option<RightsChange<'n>> {
        (!self.has_own_right(node)).then(|| self.take_back(node))
    }

    /// Before nobody may open a file for writing any more: whoever has it open goes on. Nothing of
    /// it is given up until what is returned is dropped, behind the change.
    #[must_use]
    pub fn take_back<'n>(&self, node: &'n Node) -> RightsChange<'n> {
        let (change, writers) = node.begin_change();
        for file in writers {
            // What is refused is refused when it is needed.
            let _ = self.to_write(&file);
        }
        change
    }

    /// Gives up a descriptor that may write. What stays has been open since, so that an error of
    /// write-back is told by it.
    fn give_up(&self, node: &Node, file: &FileDescriptor) {
        let (Ok((old, true)), Some(user)) = (file.get_whole(), file.writer) else {
            return;
        };
        // Before anything is asked of the file.
        let Some(unchanging) = node.unchanging() else {
            return;
        };
        if !attributes::stat(old.as_fd()).is_ok_and(|stat| is_open_to_writers(&stat)) {
            return;
        }
        // Servers, modes and groups decide by themselves: that it can be opened again is tried.
        if !self.has_own_right(node) && self.open_again(old.as_fd(), file.flags, user).is_err() {
            return;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let name = Tree::proc_name(old.as_fd());
        if let Ok(fd) = openat(self.proc(), &*name, flags, Mode::empty()) {
            node.give_up(unchanging, file, (&old, Arc::new(fd)));
        }
    }

    /// Whether the daemon may open a file at any time, whatever its mode becomes.
    fn has_own_right(&self, node: &Node) -> bool {
        self.rights.overrides_modes() && self.is_quiet(&node.id)
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

/// Whether a file is a program that whoever has the right to may open for writing.
fn is_open_to_writers(stat: &Statx) -> bool {
    let fixed = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    u32::from(stat.stx_mode) & EXECUTES != 0
        && stat.stx_nlink > 0
        && !stat.stx_attributes.intersects(fixed)
}

#[cfg(test)]
mod tests {
    use crate::node::Node;
    use crate::{HostFile, HostOptions, HostVfs, sys};
    use hearth::{Caller, ROOT, Vfs, Volume, WriteAt, flags};
    use hearth_sync::primitive::Arc;
    use hearth_testing::place::Place;
    use rustix::fd::AsFd;
    use std::fs::File;
    use std::path::PathBuf;

    struct Mount {
        vfs: HostVfs,
        source: PathBuf,
        _volume: Volume,
        _place: Place,
    }

    impl Mount {
        fn new(name: &str) -> Mount {
            let place = Place::new(name).unwrap();
            let source = place.directory("source").unwrap();
            let volume = Volume::builder().build().unwrap();
            let vfs = HostVfs::open(&source, HostOptions::default(), &volume).unwrap();
            Mount {
                vfs,
                source,
                _volume: volume,
                _place: place,
            }
        }

        /// A program that is open for writing.
        fn program(&self) -> (Arc<Node>, Arc<HostFile>) {
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
            let made = self.vfs.create(&Caller::ROOT, ROOT, b"run", 0o755, flags);
            let (attr, file) = made.unwrap();
            (self.vfs.node(attr.ino).unwrap(), file)
        }

        /// The system call of a change.
        fn set_append(&self, is_set: bool) {
            let file = File::open(self.source.join("run")).unwrap();
            let flags = if is_set { flags::APPEND } else { 0 };
            sys::set_flags(file.as_fd(), flags).unwrap();
        }

        fn appends(&self, file: &HostFile) -> bool {
            let written = self
                .vfs
                .write(&Caller::ROOT, file, WriteAt::End, b"x", false);
            written.is_ok()
        }
    }

    /// Once, only what was open when the change began was kept: the close of a later one gave up
    /// what nobody could open again.
    #[test]
    fn what_is_opened_during_a_change_is_not_given_up_before_its_end() {
        let mount = Mount::new("writers-later");
        let (node, first) = mount.program();
        let change = mount.vfs.tree.take_back(&node);
        let opened = mount.vfs.open(&Caller::ROOT, node.number, libc::O_RDWR);
        let later = opened.unwrap();
        mount.vfs.flush(&later, 0).unwrap();
        mount.vfs.flush(&first, 0).unwrap();
        mount.set_append(true);
        drop(change);
        let went_on = [mount.appends(&later), mount.appends(&first)];
        mount.set_append(false);
        assert_eq!(went_on, [true, true]);
        mount.vfs.flush(&later, 0).unwrap();
        assert!(!later.host().unwrap().descriptor.get_whole().unwrap().1);
        for file in [later, first] {
            mount.vfs.release(&file, None);
        }
    }

    /// Once, a change that came and went between the question whether a file may be given up and
    /// that was not seen.
    #[test]
    fn a_change_since_the_question_keeps_what_is_about_to_be_given_up() {
        let mount = Mount::new("writers-since");
        let (node, file) = mount.program();
        let descriptor = &file.host().unwrap().descriptor;
        let reader = || Arc::new(File::open("/dev/null").unwrap().into());
        for is_over in [true, false] {
            let unchanging = node.unchanging().unwrap();
            let change = mount.vfs.tree.take_back(&node);
            let change = (!is_over).then_some(change);
            let old = descriptor.get().unwrap();
            node.give_up(unchanging, descriptor, (&old, reader()));
            assert!(descriptor.get_whole().unwrap().1);
            assert_eq!(node.unchanging().is_none(), change.is_some());
        }
        let old = descriptor.get().unwrap();
        node.give_up(node.unchanging().unwrap(), descriptor, (&old, reader()));
        assert!(!descriptor.get_whole().unwrap().1);
        mount.vfs.release(&file, None);
    }
}
