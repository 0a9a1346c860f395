//! The descriptor below an open file. One that may write is given up where nobody needs it any
//! more, so that the program that was written can be run by its path below: the kernel tells of the
//! end of an open file only later.

use crate::descriptor_room::TakenPlace;
use crate::sys;
use crate::user::User;
use hearth::{Errno, Result};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

lock_class!(pub DescriptorLock = "host.descriptor", 811);

/// The descriptor of an open file or directory. Shared with the inode, which lends it to operations
/// that come without a handle.
#[derive(Debug)]
pub struct FileDescriptor {
    /// `None` once the file is closed: what refers to the file may live on for a while.
    held: Lock<DescriptorLock, Option<Held>>,
    /// The user who opened the file, if to write to it.
    pub writer: Option<User>,
    /// What it was opened with.
    pub flags: i32,
    /// Nothing was written since a program has closed the file, or nothing is written through this
    /// descriptor at all. Relaxed: a program closes a file behind its writes.
    is_idle: AtomicBool,
}

#[derive(Debug)]
struct Held {
    fd: Arc<OwnedFd>,
    place: TakenPlace,
    /// It may write, if the file was opened for that.
    is_whole: bool,
    /// What was lost of writes, as a descriptor told that was replaced since. Nobody was told yet.
    lost: Option<Errno>,
    /// Until when it is worth a wait that it may be opened again; once it was, that is over.
    waits_until: Option<Instant>,
}

impl FileDescriptor {
    /// A descriptor that was opened with `flags`, and the place that it takes.
    pub fn new(
        (fd, place): (OwnedFd, TakenPlace),
        writer: Option<User>,
        flags: i32,
    ) -> FileDescriptor {
        let held = Held {
            fd: Arc::new(fd),
            place,
            is_whole: true,
            lost: None,
            waits_until: None,
        };
        FileDescriptor {
            held: Lock::new(Some(held)),
            writer,
            flags,
            is_idle: AtomicBool::new(false),
        }
    }

    /// The descriptor, to read or ask by.
    ///
    /// # Errors
    /// `EBADF` if the file is closed.
    pub fn get(&self) -> Result<Arc<OwnedFd>> {
        self.get_whole().map(|(fd, _)| fd)
    }

    /// [`FileDescriptor::get`], and whether it is the one that was opened.
    ///
    /// # Errors
    /// `EBADF` if the file is closed.
    pub fn get_whole(&self) -> Result<(Arc<OwnedFd>, bool)> {
        let held = self.held.lock();
        let held = held.as_ref().ok_or(Errno::EBADF)?;
        Ok((Arc::clone(&held.fd), held.is_whole))
    }

    /// Something is written through it.
    pub fn set_busy(&self) {
        if self.is_idle() {
            self.is_idle.store(false, Relaxed);
        }
    }

    /// A program has closed the file, or the kernel writes to it past this process.
    pub fn set_idle(&self) {
        self.is_idle.store(true, Relaxed);
    }

    /// Whether it may be given up.
    pub fn is_idle(&self) -> bool {
        self.is_idle.load(Relaxed)
    }

    /// Takes `fd` in place of `old`. `is_whole` says which of both may write. Where another thread
    /// was first nothing changes. What was lost until now, and only `old` would tell, is kept.
    /// Returns the one that is not used any more, which is closed below no lock.
    #[must_use]
    pub fn replace(&self, old: &Arc<OwnedFd>, fd: Arc<OwnedFd>, is_whole: bool) -> Arc<OwnedFd> {
        // The new one tells what came behind, and what nobody has heard of before it was opened.
        // Below the lock, or an `fsync` would find it neither there nor kept. It waits for nothing.
        let mut held = self.held.lock();
        let told = [old.as_fd(), fd.as_fd()].map(|fd| sys::lost_writes(fd).err());
        let mut closed = fd;
        if let Some(held) = held.as_mut() {
            held.lost = held.lost.or(told[0]);
            if Arc::ptr_eq(&held.fd, old) {
                held.lost = held.lost.or(told[1]);
                held.is_whole = is_whole;
                std::mem::swap(&mut held.fd, &mut closed);
            }
        }
        closed
    }

    /// What was lost of writes, if no `fsync` has told of it yet. One still may.
    ///
    /// # Errors
    /// That.
    pub fn has_lost(&self) -> Result<()> {
        let held = self.held.lock();
        let lost = held.as_ref().and_then(|held| held.lost);
        lost.map_or(Ok(()), Err)
    }

    /// What was lost of writes, if nobody was told yet: who asks is told.
    ///
    /// # Errors
    /// That.
    pub fn tell_lost(&self) -> Result<()> {
        let mut held = self.held.lock();
        let lost = held.as_mut().and_then(|held| held.lost.take());
        lost.map_or(Ok(()), Err)
    }

    /// Whether it is worth a wait that it may be opened again: for `most` from the first time on,
    /// and once more when that has been over for as long.
    pub fn may_wait(&self, most: Duration) -> bool {
        let (now, mut held) = (Instant::now(), self.held.lock());
        held.as_mut().is_some_and(|held| {
            let until = wait_until(held.waits_until, now, most);
            held.waits_until = Some(until);
            now < until
        })
    }

    /// It was opened again.
    pub fn end_wait(&self) {
        if let Some(held) = self.held.lock().as_mut() {
            held.waits_until = None;
        }
    }

    /// The file is closed. The descriptor, and its place, are given up by the last who uses them.
    pub fn close(&self) {
        let held = self.held.lock().take();
        if let Some(Held { fd, place, .. }) = held {
            drop(fd);
            drop(place);
        }
    }
}

/// Until when a wait that is asked for `now` lasts, of which the last one lasted `until`: what is
/// stored long behind it waits for another program.
fn wait_until(until: Option<Instant>, now: Instant, most: Duration) -> Instant {
    match until {
        Some(until) if now <= until + most => until,
        _ => now + most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor_room::DescriptorRoom;
    use std::fs::File;

    fn opened() -> Arc<OwnedFd> {
        Arc::new(File::open("/dev/null").unwrap().into())
    }

    fn descriptor() -> FileDescriptor {
        let place = Arc::new(DescriptorRoom::new(64)).take(0, false).unwrap();
        let fd = File::open("/dev/null").unwrap().into();
        FileDescriptor::new((fd, place), None, libc::O_RDONLY)
    }

    /// Once, the end of a child that had inherited the descriptor took what its parent's `fsync`
    /// was to be told.
    #[test]
    fn a_close_leaves_what_was_lost_to_fsync() {
        let file = descriptor();
        assert_eq!((file.has_lost(), file.tell_lost()), (Ok(()), Ok(())));
        file.held.lock().as_mut().unwrap().lost = Some(Errno::EIO);
        drop(file.replace(&file.get().unwrap(), opened(), true));
        assert_eq!(file.has_lost(), Err(Errno::EIO));
        assert_eq!(file.has_lost(), Err(Errno::EIO));
        assert_eq!(file.tell_lost(), Err(Errno::EIO));
        assert_eq!((file.has_lost(), file.tell_lost()), (Ok(()), Ok(())));
    }

    /// Once, what was lost behind one program's wait was lost at once behind any other's.
    #[test]
    fn a_wait_that_is_long_over_begins_anew() {
        let (now, most) = (Instant::now(), Duration::from_secs(10));
        let until = wait_until(None, now, most);
        assert_eq!(until, now + most);
        assert_eq!(wait_until(Some(until), until, most), until);
        assert_eq!(wait_until(Some(until), until + most, most), until);
        let later = until + most * 360;
        assert_eq!(wait_until(Some(until), later, most), later + most);
    }
}
