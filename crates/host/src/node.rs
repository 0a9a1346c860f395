//! An inode that the kernel, or an open file, refers to.

use crate::descriptor_room::TakenPlace;
use crate::file_descriptor::FileDescriptor;
use crate::identity::Identity;
use crate::quota::Charged;
use hearth::Kind;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, Weak};
use rustix::fd::OwnedFd;
use rustix::fs::Statx;
use std::time::{Duration, SystemTime};

lock_class! {
    PlaceLock = "host.place", 806;
    OpenLock = "host.open", 807;
    SeenLock = "host.seen", 809;
}

/// A change this long ago has left a stamp that the next change does not repeat, whatever the
/// host's clock of stamps (a tick of 10 ms at most).
const SETTLED: Duration = Duration::from_millis(100);

/// Bits of the mode, of which one lets somebody execute a file.
pub const EXECUTES: u32 = libc::S_IXUSR | libc::S_IXGRP | libc::S_IXOTH;

/// An inode. Each of its locks is a leaf, but that descriptors of open files are asked for theirs.
/// Below none of them anything is closed: what is looked at in `open` may be the last of it.
#[derive(Debug)]
pub struct Node {
    /// The number by which the kernel names it. Never given out again.
    pub number: u64,
    /// Which inode of the host it is.
    pub id: Identity,
    /// Its type, which never changes.
    pub kind: Kind,
    /// Where it was last found, if it cannot be opened by its handle.
    place: Lock<PlaceLock, Option<Place>>,
    /// Descriptors of open files, and the one that is held.
    open: Lock<OpenLock, Open>,
    /// Stamps at the last open, to tell whether what the kernel has cached since is still true.
    seen: Lock<SeenLock, Option<Stamp>>,
    /// What quotas have charged for it.
    pub charged: Charged,
    /// Somebody has asked for it since this was looked at last. Relaxed: a hint.
    is_used: AtomicBool,
    /// Its owner as last seen. Relaxed: it says whose turn a request is, and nothing goes by it
    /// that another thread wrote.
    owner: AtomicU32,
    /// It was last seen to be a file that somebody may execute. Relaxed: a hint, behind which the
    /// file is asked.
    may_run: AtomicBool,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Place {
    pub parent: Arc<Node>,
    pub name: Box<[u8]>,
}

#[derive(Debug, Default)]
struct Open {
    files: Vec<Lent>,
    /// Of an inode that has lost its last name through this mount, or never had one: nothing else
    /// finds it again. Until the kernel gives the inode back, which it does when nobody uses it.
    held: Option<HeldDescriptor>,
    /// Changes that are under way, behind which a file that was given up might not be opened again,
    /// and how many have begun.
    changing: usize,
    changes: u64,
}

/// While it lives, nothing of the inode is given up that may write.
#[derive(Debug)]
pub struct RightsChange<'n>(&'n Node);

/// Says that no change was under way, and which one was the last.
#[derive(Clone, Copy, Debug)]
pub struct Unchanging(u64);

/// A descriptor that is held, and the place that it takes: none if it was that of an open file.
pub type HeldDescriptor = (Arc<OwnedFd>, Option<TakenPlace>);

/// Why a descriptor is open. Each ends with what it refers to. So the drop of an open file takes no
/// lock: it may come at any time below any other, from the freeing of what an epoch has left
/// behind.
#[derive(Debug)]
enum Lent {
    /// The second says whether it was opened to write to it.
    File(Weak<FileDescriptor>, bool),
    /// Nobody has it open: the call that is about to may find it no other way. It is not told when
    /// this ends, so nothing may be charged for it.
    Look(Weak<OwnedFd>),
}

impl Lent {
    fn is_open(&self) -> bool {
        match self {
            Lent::File(file, _) => file.strong_count() > 0,
            Lent::Look(fd) => fd.strong_count() > 0,
        }
    }

    fn is_file(&self) -> bool {
        matches!(self, Lent::File(..)) && self.is_open()
    }

    fn file(&self) -> Option<Arc<FileDescriptor>> {
        match self {
            Lent::File(file, _) => file.upgrade(),
            Lent::Look(_) => None,
        }
    }

    fn writer(&self) -> Option<Arc<FileDescriptor>> {
        match self {
            Lent::File(file, true) => file.upgrade(),
            _ => None,
        }
    }

    fn used(&self) -> Option<Used> {
        match self {
            Lent::File(file, _) => file.upgrade().map(Used::File),
            Lent::Look(fd) => fd.upgrade().map(Used::Fd),
        }
    }
}

/// What a descriptor is had from.
enum Used {
    File(Arc<FileDescriptor>),
    Fd(Arc<OwnedFd>),
}

/// What changes with each change of contents or attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: (i64, u32),
    changed: (i64, u32),
    size: u64,
}

impl Node {
    /// A node that nothing is known of but what it is.
    pub fn new(number: u64, id: Identity, kind: Kind, place: Option<Place>) -> Node {
        Node {
            number,
            id,
            kind,
            place: Lock::new(place),
            open: Lock::new(Open::default()),
            seen: Lock::new(None),
            charged: Charged::default(),
            is_used: AtomicBool::new(false),
            owner: AtomicU32::new(0),
            may_run: AtomicBool::new(false),
        }
    }

    /// Its owner as last seen; root before.
    pub fn owner(&self) -> u32 {
        self.owner.load(Relaxed)
    }

    /// It was seen with this owner.
    pub fn set_owner(&self, uid: u32) {
        if self.owner() != uid {
            self.owner.store(uid, Relaxed);
        }
    }

    /// Whether somebody may execute it, as last seen.
    pub fn may_run(&self) -> bool {
        self.may_run.load(Relaxed)
    }

    /// It was seen with this mode.
    pub fn set_mode(&self, mode: u32) {
        let may_run = self.kind == Kind::File && mode & EXECUTES != 0;
        if self.may_run() != may_run {
            self.may_run.store(may_run, Relaxed);
        }
    }

    /// Somebody asks for it. Writes nothing if that is known.
    pub fn mark_used(&self) {
        if !self.is_used.load(Relaxed) {
            self.is_used.store(true, Relaxed);
        }
    }

    /// Whether somebody has asked for it since this was called last.
    pub fn take_used(&self) -> bool {
        self.is_used.swap(false, Relaxed)
    }

    /// Where it was last found.
    pub fn place(&self) -> Option<Place> {
        self.place.lock().clone()
    }

    /// It was found there.
    pub fn set_place(&self, place: Place) {
        let old = self.place.lock().replace(place);
        // It may hold the last reference to a directory.
        drop(old);
    }

    /// A descriptor of an open file, or the one that is held.
    pub fn descriptor(&self) -> Option<Arc<OwnedFd>> {
        loop {
            let open = self.open.lock();
            let held = || open.held.as_ref().map(|(fd, _)| Used::Fd(Arc::clone(fd)));
            let used = open.files.iter().find_map(Lent::used).or_else(held);
            drop(open);
            match used? {
                Used::Fd(fd) => return Some(fd),
                Used::File(file) => match file.get() {
                    Ok(fd) => return Some(fd),
                    // It was closed since, and is no more among the open ones.
                    Err(_) => self.remove_open(&file),
                },
            }
        }
    }

    /// A change begins, behind which a file that is given up might not be opened again. Returns
    /// what is open for writing as well; what is opened later is not given up until it is over.
    pub fn begin_change(&self) -> (RightsChange<'_>, Vec<Arc<FileDescriptor>>) {
        let mut open = self.open.lock();
        open.changing += 1;
        open.changes += 1;
        let writers = open.files.iter().filter_map(Lent::writer).collect();
        drop(open);
        (RightsChange(self), writers)
    }

    /// To be asked before it is asked whether a file could be opened again; `None` while a change
    /// is under way.
    pub fn unchanging(&self) -> Option<Unchanging> {
        let open = self.open.lock();
        (open.changing == 0).then_some(Unchanging(open.changes))
    }

    /// `file` takes `fd`, which may not write, in place of `old`, unless a change has begun since.
    pub fn give_up(
        &self,
        since: Unchanging,
        file: &FileDescriptor,
        (old, fd): (&Arc<OwnedFd>, Arc<OwnedFd>),
    ) {
        let open = self.open.lock();
        let closed = match open.changing == 0 && open.changes == since.0 {
            true => file.replace(old, fd, false),
            false => fd,
        };
        drop(open);
        drop(closed);
    }

    /// Descriptors of files that are open for writing.
    pub fn writers(&self) -> Vec<Arc<FileDescriptor>> {
        let open = self.open.lock();
        open.files.iter().filter_map(Lent::writer).collect()
    }

    /// The first one of [`Node::writers`].
    pub fn writer(&self) -> Option<Arc<FileDescriptor>> {
        self.open.lock().files.iter().find_map(Lent::writer)
    }

    /// A file was opened. It is open for as long as its descriptor lives, or until it is closed.
    pub fn add_open(&self, file: &Arc<FileDescriptor>) {
        self.add(Lent::File(Arc::downgrade(file), file.writer.is_some()));
    }

    /// It was looked up for a call that may find it no other way.
    pub fn add_look(&self, fd: &Arc<OwnedFd>) {
        self.add(Lent::Look(Arc::downgrade(fd)));
    }

    fn add(&self, opened: Lent) {
        let mut open = self.open.lock();
        if open.files.len() == open.files.capacity() {
            open.files.retain(Lent::is_open);
        }
        open.files.push(opened);
    }

    /// A file was closed, also if an operation on it has yet to let its descriptor go.
    pub fn remove_open(&self, file: &Arc<FileDescriptor>) {
        let is_other = |one: &Lent| match one {
            Lent::File(one, _) => one.as_ptr() != Arc::as_ptr(file),
            Lent::Look(_) => true,
        };
        self.open.lock().files.retain(is_other);
    }

    /// Whether somebody has it open.
    pub fn is_open(&self) -> bool {
        self.open.lock().files.iter().any(Lent::is_file)
    }

    /// It has no name any more, and whoever uses it still may. Returns whether it was not held
    /// before.
    pub fn hold(&self, (fd, place): (OwnedFd, TakenPlace)) -> bool {
        let old = self.open.lock().held.replace((Arc::new(fd), Some(place)));
        old.is_none()
    }

    /// [`Node::hold`] by the descriptor of an open file; `None` if nobody has it open.
    pub fn hold_open(&self) -> Option<bool> {
        let mut open = self.open.lock();
        let file = open.files.iter().find_map(Lent::file);
        // A file that is closed has left the open ones before: under this lock it is open.
        let fd = file.as_ref().and_then(|file| file.get().ok());
        let replaced = fd.map(|fd| open.held.replace((fd, None)));
        drop(open);
        let is_new = replaced.as_ref().map(Option::is_none);
        drop((replaced, file));
        is_new
    }

    /// For [`Nodes::let_go`](crate::nodes::Nodes::let_go).
    pub fn take_held(&self) -> Option<HeldDescriptor> {
        self.open.lock().held.take()
    }

    /// Whether an inode without a name may be opened again: callers of the mount removed the name
    /// and use it. One that lost its name behind the mount is looked for again.
    pub fn may_reopen(&self) -> bool {
        self.open.lock().held.is_some()
    }

    /// Whether nothing has changed since the last open, so that what the kernel has cached since is
    /// still true. A change of the last moment could be followed by one with the same stamp.
    pub fn is_unchanged(&self, stat: &Statx) -> bool {
        let stamp = Stamp {
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
            size: stat.stx_size,
        };
        let settled = is_settled(stamp.changed);
        let old = std::mem::replace(&mut *self.seen.lock(), settled.then_some(stamp));
        old == Some(stamp)
    }
}

impl Drop for RightsChange<'_> {
    fn drop(&mut self) {
        self.0.open.lock().changing -= 1;
    }
}

fn is_settled((sec, nsec): (i64, u32)) -> bool {
    let Ok(sec) = u64::try_from(sec) else {
        return true;
    };
    let changed = SystemTime::UNIX_EPOCH + Duration::new(sec, nsec);
    SystemTime::now()
        .duration_since(changed)
        .is_ok_and(|age| age > SETTLED)
}
