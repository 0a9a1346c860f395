//! The operations of [`crate::HostVfs`] with quotas. Without quotas each is the plain one.

use crate::checked::SuidSgid;
use crate::errno::Done;
use crate::file::OpenHost;
use crate::node::Node;
use crate::vfs::HostVfs;
use hearth::{Attr, Caller, FsXAttr, Kind, Result, SetAttr, StatFs, WriteAt};
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, RenameFlags};

/// Operations of the mount, charged where there are quotas.
impl HostVfs {
    pub(crate) fn found(&self, parent: &Arc<Node>, attr: Result<Attr>) -> Result<Attr> {
        if let (Some(quotas), Ok(attr)) = (&self.quotas, &attr) {
            quotas.found(parent, attr);
        }
        attr
    }

    pub(crate) fn make(
        &self,
        caller: &Caller<'_>,
        at: (&Arc<Node>, &[u8]),
        kind: Kind,
        make: impl FnOnce() -> Done<Attr>,
    ) -> Done<Attr> {
        match &self.quotas {
            Some(quotas) => quotas.make(caller, at, kind, make),
            None => make(),
        }
    }

    pub(crate) fn make_open(
        &self,
        caller: &Caller<'_>,
        at: (&Arc<Node>, &[u8]),
        make: impl FnOnce() -> Done<(Attr, OpenHost)>,
    ) -> Done<(Attr, OpenHost)> {
        match &self.quotas {
            Some(quotas) => quotas.make_open(caller, at, make),
            None => make(),
        }
    }

    pub(crate) fn link_node(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        parent: &Arc<Node>,
        name: &[u8],
    ) -> Done<Attr> {
        let link = || self.tree.link(caller, node, parent, name);
        match &self.quotas {
            Some(quotas) => quotas.link(node, (parent, name), link),
            None => link(),
        }
    }

    pub(crate) fn remove_name(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        name: &[u8],
        flags: AtFlags,
    ) -> Result<()> {
        let Some(quotas) = &self.quotas else {
            return self.tree.remove(caller, parent, name, flags);
        };
        let victim = quotas.victim((parent, name))?;
        let done = self.tree.remove(caller, parent, name, flags);
        victim.into_iter().for_each(|victim| quotas.lost(victim));
        done
    }

    pub(crate) fn rename_name(
        &self,
        caller: &Caller<'_>,
        from: (&Arc<Node>, &[u8]),
        to: (&Arc<Node>, &[u8]),
        flags: u32,
    ) -> Result<()> {
        let rename = || self.tree.rename(caller, from, to, flags);
        let how = RenameFlags::from_bits_retain(flags);
        match &self.quotas {
            Some(quotas) => quotas.rename(caller, (from, to), how, rename),
            None => rename(),
        }
    }

    pub(crate) fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        file: Option<&OpenHost>,
        set: &SetAttr,
    ) -> Result<Attr> {
        let run = || self.tree.setattr(caller, node, file, set);
        match &self.quotas {
            Some(quotas) => quotas.setattr(caller, node, set, run),
            None => run(),
        }
    }

    pub(crate) fn open_file(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        flags: i32,
    ) -> Result<OpenHost> {
        let open = || self.tree.open_node(caller, node, flags);
        match &self.quotas {
            // Nobody writes between the cut and what is told of it.
            Some(quotas) if super::cuts(flags) => {
                quotas.freeing(node, || quotas.in_range(node, 0..u64::MAX), open)
            }
            _ => open(),
        }
    }

    pub(crate) fn write_file(
        &self,
        caller: &Caller<'_>,
        file: &OpenHost,
        place: WriteAt,
        data: &[u8],
        suid_sgid: SuidSgid,
    ) -> Result<usize> {
        let write = |data: &[u8]| self.tree.write(caller, file, place, data, suid_sgid);
        match &self.quotas {
            Some(quotas) => quotas.write(file, place, data, write),
            None => write(data),
        }
    }

    pub(crate) fn write_back_node(&self, node: &Arc<Node>, off: u64, data: &[u8]) -> Result<usize> {
        let Some(quotas) = &self.quotas else {
            return self.tree.write_back(node, off, data);
        };
        // It may wait for the end of a program: before the record of the file is locked.
        let Some(writer) = self.tree.to_write_back(node) else {
            // The host alone decides, and what it did is charged.
            return quotas.settled(node, || self.tree.write_back(node, off, data));
        };
        let ((fd, user), range) = (writer?, (off, data.len() as u64));
        quotas.allocate(node, fd.as_fd(), range, false, |_| {
            self.tree.write_back_by(fd.as_fd(), user, (off, data))
        })
    }

    pub(crate) fn allocate_range(
        &self,
        caller: &Caller<'_>,
        file: &OpenHost,
        mode: i32,
        (off, len): (u64, u64),
    ) -> Result<()> {
        let run = || self.tree.fallocate(caller, file, mode, off, len);
        match &self.quotas {
            Some(quotas) => quotas.fallocate(file, mode, (off, len), run),
            None => run(),
        }
    }

    pub(crate) fn copy_between(
        &self,
        caller: &Caller<'_>,
        from: (&OpenHost, u64),
        to: (&OpenHost, u64),
        len: u64,
    ) -> Result<u64> {
        let Some(quotas) = &self.quotas else {
            return self.tree.copy_range(caller, from, to, len);
        };
        let source = from.0.fd()?;
        let size = crate::attributes::stat(source.as_fd())?.stx_size;
        let len = len.min(size.saturating_sub(from.1));
        let fd = to.0.fd()?;
        quotas.allocate(&to.0.node, fd.as_fd(), (to.1, len), true, |fits| {
            self.tree.copy_range(caller, from, to, fits)
        })
    }

    pub(crate) fn set_xattr(
        &self,
        node: &Arc<Node>,
        len: usize,
        set: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        match &self.quotas {
            Some(quotas) => quotas.setxattr(node, len, set),
            None => set(),
        }
    }

    pub(crate) fn remove_xattr(
        &self,
        node: &Arc<Node>,
        remove: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        match &self.quotas {
            Some(quotas) if quotas.counts_attributes(node.kind) => {
                quotas.freeing(node, || Some(1), remove)
            }
            _ => remove(),
        }
    }

    pub(crate) fn flags_and_project(&self, node: &Arc<Node>) -> Result<FsXAttr> {
        let found = self.tree.get_fsxattr(node);
        match &self.quotas {
            Some(quotas) => quotas.fsxattr(node, found),
            None => found,
        }
    }

    pub(crate) fn set_flags_and_project(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        new: &FsXAttr,
    ) -> Result<()> {
        let set = |new: &FsXAttr| self.tree.set_fsxattr(caller, node, new);
        match &self.quotas {
            Some(quotas) => {
                quotas.set_fsxattr(caller, node, new, set)?;
                quotas.make_projects_durable()
            }
            None => set(new),
        }
    }

    pub(crate) fn set_plain_flags(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        flags: u32,
    ) -> Result<()> {
        let set = || self.tree.set_flags(caller, node, flags);
        match &self.quotas {
            Some(quotas) => quotas.set_flags(caller, node, flags, set),
            None => set(),
        }
    }

    pub(crate) fn settle_synced(&self, file: &OpenHost) {
        if let Some(quotas) = &self.quotas {
            quotas.closed(file);
        }
    }

    /// What a program has asked of `.hearth/`, or synced, is kept: limits that were set before, and
    /// the projects of names.
    ///
    /// # Errors
    /// Those of the filesystem of the state directory, which the log has heard of.
    pub(crate) fn make_kept_durable(&self, with_projects: bool) -> Result<()> {
        let Some(quotas) = &self.quotas else {
            return Ok(());
        };
        quotas.make_settings_durable()?;
        match with_projects {
            true => quotas.make_projects_durable(),
            false => Ok(()),
        }
    }

    pub(crate) fn room(&self, node: &Arc<Node>) -> Result<StatFs> {
        let all = self.tree.statfs(node)?;
        Ok(match &self.quotas {
            Some(quotas) => quotas.statfs(node, all),
            None => all,
        })
    }
}
