//! Descriptor tables: close, dup, fcntl.

use libc::{EBADF, EINVAL, EPERM, O_APPEND, O_CLOEXEC, O_DIRECT, O_NOATIME, O_NONBLOCK};

use crate::locks::Owner;
use crate::model::{Answer, FREE, Model};
use crate::op::Fd;
use crate::outcome::Outcome;
use crate::process::{FileId, Slot};

/// The limit of descriptors (`RLIMIT_NOFILE`).
const LIMIT: Fd = 1 << 20;

/// Flags that `F_SETFL` can change.
const SETTABLE: i32 = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME;

/// Flags of `F_GETFL` that are compared.
pub const STATUS: i32 = SETTABLE | libc::O_ACCMODE | libc::O_PATH | libc::O_SYNC | libc::O_DSYNC;

impl Model {
    pub(crate) fn close(&mut self, p: usize, fd: Fd) -> Answer {
        self.slot(p, fd)?;
        self.drop_slot(p, fd)?;
        Ok(Outcome::Done)
    }

    pub(crate) fn dup(&mut self, p: usize, fd: Fd, least: Fd, cloexec: bool) -> Answer {
        let slot = self.slot(p, fd)?;
        if !(0..LIMIT).contains(&least) {
            return Err(EINVAL);
        }
        let to = self.process(p).free_fd(least);
        self.place_slot(p, to, slot.file, cloexec)?;
        Ok(Outcome::Fd(to))
    }

    pub(crate) fn dup2(&mut self, p: usize, fd: Fd, to: Fd) -> Answer {
        if fd == to {
            self.slot(p, fd)?;
            return Ok(Outcome::Fd(fd));
        }
        self.dup3(p, fd, to, 0)
    }

    pub(crate) fn dup3(&mut self, p: usize, fd: Fd, to: Fd, flags: i32) -> Answer {
        if flags & !O_CLOEXEC != 0 || fd == to {
            return Err(EINVAL);
        }
        if !(0..LIMIT).contains(&to) {
            return Err(EBADF);
        }
        let slot = self.slot(p, fd)?;
        self.place_slot(p, to, slot.file, flags != 0)?;
        Ok(Outcome::Fd(to))
    }

    pub(crate) fn get_fd_flags(&mut self, p: usize, fd: Fd) -> Answer {
        Ok(Outcome::Number(u64::from(self.slot(p, fd)?.cloexec)))
    }

    pub(crate) fn set_fd_flags(&mut self, p: usize, fd: Fd, cloexec: bool) -> Answer {
        let slot = self.process_mut(p).fds.get_mut(&fd).ok_or(EBADF)?;
        slot.cloexec = cloexec;
        Ok(Outcome::Done)
    }

    pub(crate) fn get_status(&mut self, p: usize, fd: Fd) -> Answer {
        Ok(Outcome::Number(
            (self.any_file(p, fd)?.flags & STATUS) as u64,
        ))
    }

    pub(crate) fn set_status(&mut self, p: usize, fd: Fd, flags: i32) -> Answer {
        let file = self.file(p, fd)?.clone();
        if (flags ^ file.flags) & O_APPEND != 0 && self.node(file.node).append_only() {
            return Err(EPERM);
        }
        if flags & !file.flags & O_NOATIME != 0 && !self.owns(p, file.node) {
            return Err(EPERM);
        }
        if flags & O_DIRECT != 0 && self.node(file.node).pages().is_none() {
            return Err(EINVAL);
        }
        self.file_mut(p, fd)?.flags = (file.flags & !SETTABLE) | (flags & SETTABLE);
        Ok(Outcome::Done)
    }

    /// Puts a file on a descriptor, closing what is there.
    fn place_slot(&mut self, p: usize, to: Fd, file: FileId, cloexec: bool) -> Answer<()> {
        self.files
            .get_mut(&file)
            .expect("a slot keeps its file")
            .slots += 1;
        let slot = Slot { file, cloexec };
        match self.process_mut(p).fds.insert(to, slot) {
            Some(replaced) => self.end_slot(p, replaced),
            None => Ok(()),
        }
    }

    /// Closes a descriptor if it is open.
    pub(crate) fn drop_slot(&mut self, p: usize, fd: Fd) -> Answer<()> {
        match self.process_mut(p).fds.remove(&fd) {
            Some(slot) => self.end_slot(p, slot),
            None => Ok(()),
        }
    }

    /// Ends what depends on a descriptor. Any close of an inode by a process ends the record locks
    /// that the process has there; the last close of a description ends its own locks.
    ///
    /// The outcome is unspecified for a description that goes while a process waits for a lock of
    /// it.
    fn end_slot(&mut self, p: usize, slot: Slot) -> Answer<()> {
        let file = self
            .files
            .get_mut(&slot.file)
            .expect("a slot keeps its file");
        file.slots -= 1;
        let (node, gone, path) = (file.node, file.slots == 0, file.is_path());
        if self.may_not_close(p, slot.file, gone) {
            return Err(FREE);
        }
        if !path {
            self.locks
                .entry(node)
                .or_default()
                .release(Owner::Process(p));
            self.decide_waiting(node);
        }
        if gone {
            let locks = self.locks.entry(node).or_default();
            locks.unflock(slot.file);
            self.ended_unlocked |= locks.release(Owner::File(slot.file));
            self.files.remove(&slot.file);
            self.decide_waiting(node);
        }
        Ok(())
    }
}
