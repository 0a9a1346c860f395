//! A directory of the host that is served: what is known of it, and how it is to be served.

use crate::attributes;
use crate::cookies::Remembered;
use crate::descriptor_room::{DescriptorParts, DescriptorRoom, TakenPlace};
use crate::descriptors::Descriptors;
use crate::error::OpenError;
use crate::heat_by::HeatBy;
use crate::identity::Identity;
use crate::node::Node;
use crate::nodes::Nodes;
use crate::retries::Retries;
use crate::rights::{Rights, Unable};
use crate::subordinate_ids::SubordinateIds;
use crate::sys;
use hearth::{Caller, Errno, Kind, Result};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstatfs, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

lock_class!(DevicesLock = "host.devices", 810);

/// How a directory is served.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// Mounts below it are not entered.
    pub xdev: bool,
    /// What heat is made of, where it is tracked.
    pub heat: HeatBy,
    /// Where state is kept that outlives the mount, beside the usual place.
    pub state: Option<PathBuf>,
    /// Mounts of it may map ids: the kernel alone checks what callers may, and names them when
    /// they make something only.
    pub ids_are_mapped: bool,
}

/// `f_type` of ext4, XFS, btrfs and tmpfs, which do nothing when a descriptor is closed and others
/// of the open file are left. Network filesystems report lost writes.
const QUIET: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994];

/// The bits of a shown inode number that say which device it is on.
const DEVICE_SHIFT: u32 = 48;

/// A directory that is served.
#[derive(Debug)]
pub struct Tree {
    pub options: HostOptions,
    pub rights: Rights,
    pub nodes: Nodes,
    /// Of inodes that cannot be opened by a handle.
    pub descriptors: Descriptors,
    /// Users who have other ids to act as.
    subordinates: SubordinateIds,
    /// Places for open files.
    descriptor_room: DescriptorRoom,
    /// Calls at a time for which there are descriptors.
    pub calls: usize,
    /// Callers whose call the kernel repeats.
    pub retries: Arc<Retries>,
    /// Bounds what open directories remember of their positions.
    pub remembered: Arc<Remembered>,
    /// The directory, open for as long as it is served.
    root: OwnedFd,
    /// `/proc/self/fd`, through which a descriptor of `O_PATH` is opened.
    proc: OwnedFd,
    /// Inodes of the root's mount are opened by their handles.
    pub opens_handles: bool,
    /// The root's filesystem is one that has nothing to report when a file is closed.
    is_quiet: bool,
    /// A mount below was entered: what was found there may be elsewhere by the end. Relaxed: it is
    /// read when nothing is entered any more.
    has_entered: AtomicBool,
    /// The device of the mount that serves this tree, which must not be entered; 0 until it is
    /// known. Relaxed: it is set before the kernel can ask for what lies below.
    own_device: AtomicU64,
    /// Its name was one of another filesystem when it was served last.
    is_elsewhere: AtomicBool,
    /// The filesystem keeps project ids, and they count. Relaxed: it is set before the kernel can
    /// ask.
    keeps_projects: AtomicBool,
    /// Devices below other than the root's, in the order in which they were met.
    devices: Lock<DevicesLock, HashMap<u64, u64>>,
}

impl Tree {
    /// Opens a directory.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub fn open(path: &Path, options: HostOptions) -> std::result::Result<Tree, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| OpenError::of(path, error)
        };
        let unable = |why| {
            let path = path.to_owned();
            match why {
                Unable::Powerless => OpenError::NoIdentity { path },
                Unable::NotRoot => OpenError::NotRoot { path },
            }
        };
        let rights = Rights::of_this_process(options.ids_are_mapped).map_err(unable)?;
        raise_limits();
        let parts = DescriptorParts::of_this_process();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(path, flags, Mode::empty()).map_err(|e| failed(path)(e.into()))?;
        let proc_path = PathBuf::from("/proc/self/fd");
        let proc = open(&proc_path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| failed(&proc_path)(error.into()))?;
        let stat = attributes::stat(root.as_fd()).map_err(|e: Errno| failed(path)(e.into()))?;
        let id = Identity::of(root.as_fd(), &stat);
        let opens_handles = id
            .handle()
            .is_some_and(|handle| handle.open(root.as_fd()).is_ok());
        let is_quiet = fstatfs(&root).is_ok_and(|found| QUIET.contains(&(found.f_type as u64)));
        Ok(Tree {
            options,
            rights,
            nodes: Nodes::new(id),
            descriptors: Descriptors::new(parts.kept),
            subordinates: SubordinateIds::of_this_machine(),
            descriptor_room: DescriptorRoom::new(parts.open),
            calls: parts.calls,
            retries: Arc::new(Retries::new(parts.kept)),
            remembered: Arc::default(),
            root,
            proc,
            opens_handles,
            is_quiet,
            has_entered: AtomicBool::new(false),
            own_device: AtomicU64::new(0),
            is_elsewhere: AtomicBool::new(false),
            keeps_projects: AtomicBool::new(false),
            devices: Lock::new(HashMap::new()),
        })
    }

    /// The directory is served, and its name was one of another filesystem the last time.
    pub fn served_at(&self, is_elsewhere: bool) {
        self.is_elsewhere.fetch_or(is_elsewhere, Relaxed);
    }

    /// Whether the name of the directory was one of another filesystem the last time.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Relaxed)
    }

    /// Projects are those that the filesystem keeps.
    pub fn keep_projects(&self) {
        self.keeps_projects.store(true, Relaxed);
    }

    /// Whether projects are those that the filesystem keeps.
    pub fn keeps_projects(&self) -> bool {
        self.keeps_projects.load(Relaxed)
    }

    /// Something that is mounted below is entered.
    pub fn enters(&self) {
        if !self.has_entered() {
            self.has_entered.store(true, Relaxed);
        }
    }

    /// Whether anything that is, or was, mounted below was entered.
    pub fn has_entered(&self) -> bool {
        self.has_entered.load(Relaxed)
    }

    /// The directory itself.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// `/proc/self/fd`.
    pub fn proc(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }

    /// A place for something of type `kind` that `caller` opens, or goes on using without a name.
    /// `node` is it or its directory, whose owner stands for a caller who is not named.
    ///
    /// # Errors
    /// `ENFILE` if too many files are open.
    pub fn place(&self, caller: &Caller<'_>, node: &Node, kind: Kind) -> Result<TakenPlace> {
        let user = match caller.uid {
            u32::MAX => node.owner(),
            uid => uid,
        };
        let user = self.user_of(user);
        let place = self.descriptor_room.take(user, kind == Kind::Directory);
        place.ok_or(Errno::ENFILE)
    }

    /// The user in whose shares of descriptors and cores `uid` counts: whoever has it as a
    /// subordinate id, or itself.
    pub fn user_of(&self, uid: u32) -> u32 {
        self.subordinates.owner(uid)
    }

    /// The tree is served by the mount on this device.
    pub fn set_own_device(&self, dev: u64) {
        self.own_device.store(dev, Relaxed);
    }

    /// Whether this is the device of the mount that serves the tree.
    pub fn is_own_device(&self, dev: u64) -> bool {
        self.own_device.load(Relaxed) == dev
    }

    /// Whether inodes of this mount are opened by their handles.
    pub fn opens_handles_of(&self, id: &Identity) -> bool {
        self.opens_handles && id.mount == self.nodes.root().id.mount && id.handle().is_some()
    }

    /// Whether the close of this inode has nothing to report.
    pub fn is_quiet(&self, id: &Identity) -> bool {
        self.is_quiet && id.dev == self.nodes.root().id.dev
    }

    /// The inode number that programs see: all of the tree is one device to them, so numbers of
    /// other devices are marked. Numbers of 2^48 and more are shown as they are.
    pub fn shown(&self, dev: u64, ino: u64) -> u64 {
        if dev == self.nodes.root().id.dev || ino >> DEVICE_SHIFT != 0 {
            return ino;
        }
        let mut devices = self.devices.lock();
        let next = devices.len() as u64 + 1;
        let index = *devices.entry(dev).or_insert(next);
        index << DEVICE_SHIFT | ino
    }
}

/// Limits of this process are not those of its callers: as many descriptors as it may have, and
/// files of any size. What still passes the limit of a size is an error and not the end.
fn raise_limits() {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let maximum = getrlimit(resource).maximum;
        let raised = Rlimit {
            current: maximum,
            maximum,
        };
        // Without the right to that, the limit stays as it is.
        let _ = setrlimit(resource, raised);
    }
    sys::ignore_file_size_signal();
}
