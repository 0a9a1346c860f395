//! The directories that a walk is in. Anybody may make a tree that is deeper than there are
//! descriptors, so only the last ones are open; the others are opened again on the way back.

use crate::errno::PassOn;
use crate::identity::Identity;
use crate::tree::Tree;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};

/// Directories that are open, beside the first.
const OPEN: usize = 4;

/// Flags by which a walk opens a directory.
pub const READS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The directories that a walk is in, each with what there is to do in it.
#[derive(Debug)]
pub struct Trail<T> {
    steps: Vec<Step<T>>,
}

#[derive(Debug)]
struct Step<T> {
    fd: Option<OwnedFd>,
    id: Identity,
    /// In the directory above.
    name: Box<[u8]>,
    what: T,
}

impl<T> Trail<T> {
    /// Begins in a directory.
    pub fn new(fd: OwnedFd, id: Identity, what: T) -> Trail<T> {
        let mut trail = Trail { steps: Vec::new() };
        trail.enter(b"", fd, id, what);
        trail
    }

    /// Goes on in the directory `name` of the last one.
    pub fn enter(&mut self, name: &[u8], fd: OwnedFd, id: Identity, what: T) {
        self.steps.push(Step {
            fd: Some(fd),
            id,
            name: name.into(),
            what,
        });
        if let Some(far) = self.steps.len().checked_sub(OPEN + 1)
            && far > 0
        {
            self.steps[far].fd = None;
        }
    }

    /// The directory that the walk is in; `None` at the end.
    pub fn last(&mut self) -> Option<(BorrowedFd<'_>, &mut T)> {
        let last = self.steps.last_mut()?;
        Some((last.fd.as_ref()?.as_fd(), &mut last.what))
    }

    /// Goes back to the one above. One that is not found again, since others have moved or removed
    /// it, is left as well.
    pub fn leave(&mut self, tree: &Tree) {
        let Some(left) = self.steps.pop() else {
            return;
        };
        while let Some(at) = self.steps.len().checked_sub(1)
            && self.steps[at].fd.is_none()
        {
            let above = left.fd.as_ref().and_then(|fd| self.above(fd, at));
            match above.or_else(|| self.by_handle(tree, at)) {
                None => match self.by_names(tree, at) {
                    None => drop(self.steps.pop()),
                    fd => self.steps[at].fd = fd,
                },
                fd => self.steps[at].fd = fd,
            }
        }
    }

    /// What lies above `fd`, if that is the directory of step `at`.
    fn above(&self, fd: &OwnedFd, at: usize) -> Option<OwnedFd> {
        let found = openat(fd, c"..", READS, Mode::empty()).pass_on().ok()?;
        self.is_of(&found, at).then_some(found)
    }

    fn by_handle(&self, tree: &Tree, at: usize) -> Option<OwnedFd> {
        let id = &self.steps[at].id;
        let handle = id.handle().filter(|_| tree.opens_handles_of(id))?;
        let found = handle.open(tree.root()).ok()?;
        openat(found, c".", READS, Mode::empty()).pass_on().ok()
    }

    /// From the first one down.
    fn by_names(&self, tree: &Tree, at: usize) -> Option<OwnedFd> {
        let mut fd = self.steps[0].fd.as_ref()?.try_clone().ok()?;
        for step in &self.steps[1..=at] {
            let found = tree.find(fd.as_fd(), &step.name).ok()?;
            if found.id != step.id {
                return None;
            }
            fd = found.fd;
        }
        openat(fd, c".", READS, Mode::empty()).pass_on().ok()
    }

    fn is_of(&self, fd: &OwnedFd, at: usize) -> bool {
        let stat = crate::attributes::stat(fd.as_fd());
        stat.is_ok_and(|stat| Identity::of(fd.as_fd(), &stat) == self.steps[at].id)
    }
}
