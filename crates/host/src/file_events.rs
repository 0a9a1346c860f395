//! Quota events about files of the host.

use crate::heat::path_of;
use crate::node::Node;
use crate::vfs::HostVfs;
use hearth::{Caller, FsXAttr, Quota, QuotaEventFile, Result};
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
        QuotaEventFile {
            ino: tree.shown(node.id.dev, node.id.ino),
            path: below.map(|below| [b"/", &*below].concat()),
        }
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
