//! A directory of the host that is served: how it is opened, and what its operations share. Control
//! files are those of a volume beside.

mod operations;

use crate::error::OpenError;
use crate::file::{HostFile, OpenHost, Opened};
use crate::heat::HostHeat;
use crate::node::Node;
use crate::pending_call::is_opening;
use crate::quota::Quotas;
use crate::say::say;
use crate::shrinker::Shrinker;
use crate::tree::{HostOptions, Tree};
use crate::watch::Watch;
use hearth::{
    Attr, Caller, Errno, Event, NameTeller, NonBlocking, VfsError, VfsResult, Volume, VolumeVfs,
    is_control,
};
use hearth_sync::primitive::Arc;
use rustix::fs::AtFlags;
use std::path::Path;

/// What the log says of the first open that is refused.
const TOO_MANY_OPEN: &str = "an open was refused with ENFILE: too many files are open for the \
     descriptors that this daemon may have; raise its limit (ulimit -n, LimitNOFILE=)";

/// A directory of the host that a front end serves. Cheap to clone; all clones are the same.
///
/// Its operations block. Locks are the kernel's own.
#[derive(Clone)]
pub struct HostVfs {
    pub(crate) tree: Arc<Tree>,
    pub(crate) control: VolumeVfs<NonBlocking>,
    pub(crate) heat: Arc<HostHeat>,
    /// Tells listeners what happens to names.
    pub(crate) names: NameTeller,
    /// Quotas, if they are asked for.
    pub(crate) quotas: Option<Arc<Quotas>>,
    /// Changes of others are announced, if that is asked for.
    watch: Option<Arc<Watch>>,
    /// Inodes are kept within a bound, if one was given.
    shrinker: Option<Arc<Shrinker>>,
}

impl HostVfs {
    /// Opens a directory. `volume` has the control files, and nothing else.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub fn open(path: &Path, options: HostOptions, volume: &Volume) -> Result<HostVfs, OpenError> {
        let (by, state) = (options.heat, options.state.clone());
        let tree = Arc::new(Tree::open(path, options)?);
        let heat = HostHeat::open(path, &tree, volume, (by, state.as_deref()))?;
        Ok(HostVfs {
            tree,
            control: volume.nonblocking_vfs(),
            heat: Arc::new(heat),
            names: volume.name_teller(),
            quotas: None,
            watch: None,
            shrinker: None,
        })
    }

    /// Keeps the memory of inodes that the kernel refers to within about `bytes`: observers of
    /// `volume` are asked to forget those that nobody uses. `source` is the directory.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn bounded(
        mut self,
        source: &Path,
        volume: &Volume,
        bytes: u64,
    ) -> Result<HostVfs, OpenError> {
        let shrinker = Shrinker::begin(source, &self.tree, volume, bytes)?;
        self.shrinker = Some(Arc::new(shrinker));
        Ok(self)
    }

    /// Announces what others change in the directory, which is `source`, to observers of `volume`:
    /// behind [`HostVfs::with_quotas`], if there are quotas.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watched(mut self, source: &Path, volume: &Volume) -> Result<HostVfs, OpenError> {
        let quotas = self.quotas.clone();
        let settle = move |node: &Arc<Node>| {
            if let Some(quotas) = &quotas {
                quotas.settle_if_charged(node);
            }
        };
        let watch = Watch::begin(source, &self.tree, volume, Box::new(settle))?;
        self.watch = Some(Arc::new(watch));
        Ok(self)
    }

    /// The mount that serves this is on device `dev`: it is not entered where it shows below.
    pub fn set_own_device(&self, dev: u64) {
        self.tree.set_own_device(dev);
    }

    /// Whether another filesystem's directory had this name when it was served last with state. It
    /// may be that the filesystem that is meant is not mounted.
    pub fn is_elsewhere(&self) -> bool {
        self.tree.is_elsewhere()
    }

    /// Whether inodes are found again by file handles. Else a bounded set of descriptors is kept.
    pub fn opens_handles(&self) -> bool {
        self.tree.opens_handles
    }

    /// Whether operations have the rights of their callers. Else they have those of this process.
    pub fn acts_for_callers(&self) -> bool {
        self.tree.rights.switches()
    }

    /// The inode that the kernel names so.
    pub(crate) fn node(&self, ino: u64) -> Result<Arc<Node>, Errno> {
        self.tree.nodes.get(ino)
    }

    /// Looks a name up. A caller who does so for the second time gets what stays until its call.
    fn looked_up(&self, caller: &Caller<'_>, parent: u64, name: &[u8]) -> Result<Attr, Errno> {
        let found = self
            .node(parent)
            .and_then(|parent| self.found(&parent, self.tree.lookup(caller.pid, &parent, name)));
        match found {
            Err(Errno::ESTALE) => self.tree.retries.refused(caller.pid, parent, false),
            Err(_) => self.tree.retries.missed(caller.pid),
            Ok(_) => {}
        }
        found
    }

    /// Performs an operation on an inode for `caller`, whom the kernel sends again if the inode is
    /// gone.
    fn answer<T>(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        operation: impl FnOnce(&Arc<Node>) -> Result<T, Errno>,
    ) -> VfsResult<T> {
        let result = self.node(ino).and_then(|node| operation(&node));
        match result {
            Err(Errno::ESTALE) => self.tree.retries.refused(caller.pid, ino, false),
            _ => self.tree.retries.ended(caller.pid),
        }
        Ok(result?)
    }

    /// Like [`HostVfs::answer`], but does not end a repeated call: the kernel reads this on its way
    /// there.
    fn answer_on_the_way<T>(
        &self,
        caller: &Caller<'_>,
        ino: u64,
        operation: impl FnOnce(&Arc<Node>) -> Result<T, Errno>,
    ) -> VfsResult<T> {
        let result = self.node(ino).and_then(|node| operation(&node));
        if result.as_ref().err() == Some(&Errno::ESTALE) {
            let may_be_over = !is_opening(caller.pid);
            self.tree.retries.refused(caller.pid, ino, may_be_over);
        }
        Ok(result?)
    }

    /// Removes a name of something, or with `REMOVEDIR` of a directory.
    fn remove(
        &self,
        caller: &Caller<'_>,
        parent: u64,
        name: &[u8],
        flags: AtFlags,
    ) -> VfsResult<()> {
        self.answer(caller, parent, |parent| {
            let seen = self.before_removal((parent, name));
            self.remove_name(caller, parent, name, flags)?;
            self.tell_removed(caller, (parent, name), seen);
            Ok(())
        })
    }

    /// Refuses changes of the control directory, and all of them while the volume is read-only.
    /// What the kernel has acknowledged is written all the same.
    fn may_change(&self, ino: u64) -> Result<(), Errno> {
        match self.control.volume().read_only() {
            _ if is_control(ino) => Err(Errno::EPERM),
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    /// Counts an open that was refused for want of descriptors, and says so the first time.
    fn refusal_counted<T>(&self, opened: VfsResult<T>) -> VfsResult<T> {
        if let Err(VfsError::Errno(Errno::ENFILE | Errno::EMFILE)) = &opened {
            let stats = self.control.volume().stats();
            stats.event(Event::OpenRefused);
            if stats.events(Event::OpenRefused) == 1 {
                say(TOO_MANY_OPEN);
            }
        }
        opened
    }

    fn opened(&self, file: OpenHost) -> Arc<HostFile> {
        self.heat.opened(&file);
        Arc::new(HostFile(Opened::Host(file)))
    }
}

impl std::fmt::Debug for HostVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostVfs")
            .field("opens_handles", &self.opens_handles())
            .finish_non_exhaustive()
    }
}
