//! `-o watch`: what others change behind the mount is announced to the kernel at once. One fanotify
//! group hears of the whole filesystem, and one thread looks up which of it the kernel refers to.
//!
//! The thread answers no request, and no request waits for it: an announcement may wait for a
//! request, or for pages that are written back.

use crate::attributes;
use crate::error::OpenError;
use crate::handle::FileHandle;
use crate::identity::Identity;
use crate::node::Node;
use crate::say::say;
use crate::sys::{self, FanEvent};
use crate::tree::Tree;
use hearth::{Errno, Event, Volume};
use hearth_sync::primitive::{Arc, thread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// Room for events of one look; one with the longest name takes 400 bytes.
const ROOM: usize = 64 << 10;
/// How long the thread waits behind a read that has failed, and behind many in a row.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(64);
/// Names in a directory: made, removed, moved.
const NAMES: u64 = libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO;
const MASK: u64 = NAMES | libc::FAN_MODIFY | libc::FAN_ATTRIB | libc::FAN_ONDIR;

/// Is told of inodes whose use may have changed.
pub type Settle = Box<dyn Fn(&Arc<Node>) + Send>;

/// The watch over the filesystem of a directory. It ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    _end: OwnedFd,
}

struct Watcher {
    tree: Arc<Tree>,
    volume: Volume,
    settle: Settle,
}

impl Watch {
    /// Watches the filesystem that `tree`, which is served from `source`, is on. Changes are
    /// announced to observers of `volume`.
    ///
    /// # Errors
    /// The kernel does not let this user, or cannot for this filesystem.
    pub fn begin(
        source: &Path,
        tree: &Arc<Tree>,
        volume: &Volume,
        settle: Settle,
    ) -> Result<Watch, OpenError> {
        let failed = |errno: Errno| OpenError::NoWatch {
            path: source.to_owned(),
            error: errno.into(),
        };
        let group = sys::fanotify_group().map_err(failed)?;
        // A filesystem may tell handles that it does not open.
        if !tree.opens_handles {
            return Err(failed(Errno::EOPNOTSUPP));
        }
        sys::fanotify_watch(group.as_fd(), MASK, tree.root()).map_err(failed)?;
        let other = |error: rustix::io::Errno| failed(Errno(error.raw_os_error()));
        let (stop, end) = pipe_with(PipeFlags::CLOEXEC).map_err(other)?;
        let watcher = Watcher {
            tree: Arc::clone(tree),
            volume: volume.clone(),
            settle,
        };
        let thread = thread::Builder::new().name("hearth-watch".into());
        let thread = thread.spawn(move || watcher.run(group.as_fd(), stop.as_fd()));
        thread.map_err(|error| OpenError::of(source.to_owned(), error))?;
        Ok(Watch { _end: end })
    }
}

impl Watcher {
    fn run(&self, group: BorrowedFd<'_>, stop: BorrowedFd<'_>) {
        let mut room = vec![0; ROOM];
        let mut pause = PAUSE;
        loop {
            let mut both = [
                PollFd::from_borrowed_fd(group, PollFlags::IN),
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
            ];
            let polled = poll(&mut both, None);
            if !both[1].revents().is_empty() {
                return;
            }
            match polled.and_then(|_| rustix::io::read(group, &mut room)) {
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Ok(len) if len > 0 => {
                    self.announce_all(&room[..len]);
                    pause = PAUSE;
                }
                // A group has no end.
                failed => {
                    self.failed(failed.err(), pause == PAUSE);
                    if is_over_within(pause, stop) {
                        return;
                    }
                    pause = (2 * pause).min(PAUSE_MOST);
                }
            }
        }
    }

    /// What others change could not be read, for the first time since it could.
    fn failed(&self, error: Option<rustix::io::Errno>, is_first: bool) {
        self.volume.stats().event(Event::WatchFailed);
        if is_first {
            let error = error.unwrap_or(rustix::io::Errno::IO);
            say(&format!(
                "what others change behind the mount cannot be read: {error}; it is tried again, \
                 and until then the mount sees changes when its timeouts end"
            ));
        }
        // An event may have been taken and not told.
        self.lost();
    }

    /// Announces events, each once.
    fn announce_all(&self, events: &[u8]) {
        let own = std::process::id();
        let mut seen = HashSet::new();
        for event in sys::fanotify_events(events) {
            if event.mask & libc::FAN_Q_OVERFLOW != 0 {
                self.lost();
            } else if event.process != own && seen.insert((event.mask, event.handle, event.name)) {
                self.announce(&event);
            }
        }
    }

    /// Announces one event, if the kernel refers to its directory.
    fn announce(&self, event: &FanEvent<'_>) {
        let (kind, bytes) = event.handle;
        let Some(handle) = FileHandle::new(kind, bytes) else {
            return;
        };
        let Some((directory, fd)) = self.known(handle) else {
            return;
        };
        let is_itself = matches!(event.name, b"" | b".");
        if is_itself || event.mask & NAMES != 0 {
            self.volume
                .announce_inode(directory.number, Some(0..u64::MAX));
        }
        if is_itself {
            return;
        }
        if event.mask & NAMES != 0 {
            self.volume.announce_entry(directory.number, event.name);
        }
        let child = self.tree.find(fd.as_fd(), event.name).ok();
        let Some(node) = child.and_then(|found| self.tree.nodes.known(&found.id)) else {
            return;
        };
        let is_data = event.mask & libc::FAN_MODIFY != 0;
        let data = is_data.then_some(0..u64::MAX);
        self.volume.announce_inode(node.number, data);
        (self.settle)(&node);
    }

    /// The inode of a handle, if the kernel refers to it.
    fn known(&self, handle: FileHandle) -> Option<(Arc<Node>, OwnedFd)> {
        let fd = handle.open(self.tree.root()).ok()?;
        let stat = attributes::stat(fd.as_fd()).ok()?;
        let id = Identity::of(fd.as_fd(), &stat);
        Some((self.tree.nodes.known(&id)?, fd))
    }

    /// Events were lost: attributes and contents of everything are announced. Names are believed
    /// until they time out.
    fn lost(&self) {
        let root = Arc::clone(self.tree.nodes.root());
        for node in self.tree.nodes.all().into_iter().chain([root]) {
            self.volume.announce_inode(node.number, Some(0..u64::MAX));
            (self.settle)(&node);
        }
    }
}

/// Waits for `time`. Whether the watch is over by then.
fn is_over_within(time: Duration, stop: BorrowedFd<'_>) -> bool {
    let mut end = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    poll(&mut end, time.as_ref()).is_ok() && !end[0].revents().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::HostOptions;
    use hearth_testing::place::Place;
    use std::fs::File;
    use std::time::Instant;

    /// Once, the watch was over with the first read that failed, and nobody was told.
    #[test]
    fn a_read_that_fails_is_counted_and_tried_again() {
        let place = Place::new("watch-fails").unwrap();
        let source = place.directory("source").unwrap();
        let volume = Volume::builder().build().unwrap();
        let watcher = Watcher {
            tree: Arc::new(Tree::open(&source, HostOptions::default()).unwrap()),
            volume: volume.clone(),
            settle: Box::new(|_| ()),
        };
        let (stop, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // Always ready, and never read.
        let group = File::open(&source).unwrap();
        let thread = thread::spawn(move || watcher.run(group.as_fd(), stop.as_fd()));
        let latest = Instant::now() + Duration::from_secs(20);
        while volume.stats().events(Event::WatchFailed) < 2 {
            assert!(!thread.is_finished() && Instant::now() < latest);
            thread::sleep(Duration::from_millis(5));
        }
        drop(end);
        thread.join().unwrap();
    }
}
