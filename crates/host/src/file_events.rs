//! Quota events about files of the host.

use crate::file::OpenHost;
use crate::heat::path_of;
use crate::node::Node;
use crate::tree::Tree;
use crate::vfs::HostVfs;
use hearth::{Caller, Errno, FsXAttr, Kind, Quota, QuotaEventFile, Result};
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;

impl HostVfs {
    /// Where events are reported: the volume beside, also where no quotas are kept.
    pub(crate) fn events(&self) -> Quota<'_> {
        self.control.volume().quota()
    }

    /// A file, by its number and the path that it has now.
    pub(crate) fn file_of_event(&self, node: &Arc<Node>) -> QuotaEventFile {
        let tree = &self.tree;
        let reached = tree.reach(node).ok();
        let below = reached.and_then(|file| path_of(tree, file.as_fd()));
        let id = self.shown_id(&node.id);
        QuotaEventFile {
            ino: id.ino,
            generation: Some(id.generation),
            path: below.map(|below| [b"/", &*below].concat()),
        }
    }

    /// Makes a file durable. A host that has lost something of it says so here, once: it had taken
    /// the writes before, and does not say how much it has lost.
    pub(crate) fn fsync_host(&self, file: &OpenHost, data_only: bool) -> Result<()> {
        Tree::fsync(file, data_only).inspect_err(|&errno| {
            // The others say that nothing was tried.
            let is_lost = !matches!(errno, Errno::EINTR | Errno::EBADF | Errno::EINVAL);
            if is_lost && file.node.kind == Kind::File {
                self.tell_lost(&file.node, None, errno);
            }
        })
    }

    /// Reports that bytes of a file are lost: how many, if that is known.
    pub(crate) fn tell_lost(&self, node: &Arc<Node>, bytes: Option<u64>, errno: Errno) {
        // A host that is gone does not say.
        let owner = self.tree.getattr(node).ok().map(|attr| attr.uid);
        let file = self.file_of_event(node);
        self.events().report_lost(owner, file, bytes, errno);
    }

    /// Sets flags and project id. A project that is left is reported: perhaps the program did not
    /// mean to. Another setter at the same time may be reported in place of this one.
    pub(crate) fn set_fsxattr_of(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        new: &FsXAttr,
    ) -> Result<()> {
        let before = match new.project {
            0 => self.flags_and_project(node).map_or(0, |now| now.project),
            _ => 0,
        };
        self.set_flags_and_project(caller, node, new)?;
        if before != 0 {
            let file = self.file_of_event(node);
            self.events().report_left(before, file, caller);
        }
        Ok(())
    }
}
