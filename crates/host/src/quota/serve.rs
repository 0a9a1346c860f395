//! Beginning and ending quotas of a directory that is served, and the operations of
//! [`crate::HostVfs`] with them. Without quotas each is the plain one.

use super::amounts::XFS;
use super::late::Late;
use super::mounts_below::has_mounts_below;
use super::refusals::Refusals;
use super::state_dir::QuotaDir;
use super::{Counting, Projects, Quotas, Refusal};
use crate::checked::SuidSgid;
use crate::error::OpenError;
use crate::file::OpenHost;
use crate::node::Node;
use crate::state::StateDir;
use crate::tree::Tree;
use crate::vfs::HostVfs;
use hearth::{
    Attr, Caller, CountedElsewhere, FsXAttr, KeptSetting, Kind, Result, SetAttr, StatFs, Volume,
    WriteAt,
};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, RenameFlags, fstatfs};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long an operation that began before the end of the walk may take until it looks.
const LATE: Duration = Duration::from_secs(5);

impl HostVfs {
    /// Serves the directory, which is `source`, with quotas. `told` hears how many inodes are
    /// counted, now and then and at the end.
    ///
    /// # Errors
    /// The state directory cannot be used, or the tree not be walked.
    pub fn with_quotas(
        mut self,
        source: &Path,
        volume: &Volume,
        waits: bool,
        told: impl Fn(u64, bool) + Send + 'static,
    ) -> std::result::Result<HostVfs, OpenError> {
        let quotas = Quotas::begin(&self.tree, source, volume)?;
        let counter: Arc<dyn CountedElsewhere> = quotas.clone();
        volume.counted_by(&counter);
        self.quotas = Some(Arc::clone(&quotas));
        if !quotas.counting.is_on() {
            told(quotas.counted.load(Relaxed), true);
            return Ok(self);
        }
        let walk = move || {
            let done = quotas.count_all();
            quotas.charges.resume_grace(&quotas.kept);
            told(quotas.counted.load(Relaxed), done.is_ok());
            (done, quotas)
        };
        if waits {
            let (done, quotas) = walk();
            done.map_err(|errno| OpenError::of(source.to_owned(), errno.into()))?;
            quotas.counting.end();
            return Ok(self);
        }
        thread::spawn(move || {
            let (done, quotas) = walk();
            if done.is_ok() {
                thread::sleep(LATE);
                quotas.counting.end();
            }
        });
        Ok(self)
    }

    /// Keeps what is used, once nothing changes any more.
    ///
    /// # Errors
    /// Those of the state directory's filesystem: the next mount counts again.
    pub fn end_quotas(&self) -> io::Result<()> {
        match &self.quotas {
            Some(quotas) => quotas.end(),
            None => Ok(()),
        }
    }

    /// Where quotas have refused room since the mount, the first places first.
    pub fn refusals(&self) -> Vec<Refusal> {
        let quotas = self.quotas.as_ref();
        quotas.map_or(Vec::new(), |quotas| quotas.refusals.all())
    }

    /// Inodes that were counted at the start, and whether that is over.
    pub fn counted(&self) -> Option<(u64, bool)> {
        let quotas = self.quotas.as_ref()?;
        Some((quotas.counted.load(Relaxed), !quotas.counting.is_on()))
    }
}

impl Quotas {
    fn begin(
        tree: &Arc<Tree>,
        source: &Path,
        volume: &Volume,
    ) -> std::result::Result<Arc<Quotas>, OpenError> {
        let beside = StateDir::of(source, tree.root(), tree.options.state.as_deref())?;
        tree.served_at(beside.prepare()?);
        let state = QuotaDir::open(&beside.path().join("quota"))?;
        let dev = tree.nodes.root().id.dev;
        let (settings, projects) = (state.lines("settings")?, state.lines("projects")?);
        // What was kept has nothing of mounts below: with one there now the tree is counted.
        let projects = Projects::new(projects, dev);
        // What was written down while the filesystem could not keep it goes on to count.
        if !projects.any() && tree.can_keep_projects() {
            tree.keep_projects();
        }
        let usage = state.take_usage(&usage_of(tree))?;
        let usage = usage.filter(|_| !has_mounts_below(tree, source));
        let charges = volume.charges();
        for (owners, amounts) in usage.iter().flatten() {
            charges.force(*owners, *amounts);
        }
        let bytes = |text: String| text.into_bytes().into_boxed_slice();
        let kept = settings.read().into_iter();
        let kept: Vec<KeptSetting> = kept
            .filter_map(|(key, value)| Some((bytes(key), bytes(value?))))
            .collect();
        let lines = settings.clone();
        charges.keep_settings(&kept, move |key, value| {
            let value = value.map(String::from_utf8_lossy);
            lines.append(&String::from_utf8_lossy(key), value.as_deref());
        });
        let is_known = usage.is_some();
        if is_known {
            charges.resume_grace(&kept);
        }
        let inodes = usage.iter().flatten().map(|(_, amounts)| amounts[1]);
        let quotas = Arc::new_cyclic(|quotas| Quotas {
            tree: Arc::clone(tree),
            charges,
            projects,
            counting: Counting::new(!is_known),
            refusals: Refusals::default(),
            late: Late::of(tree.root(), quotas),
            counted: AtomicU64::new(inodes.sum()),
            state,
            source: source.to_owned(),
            settings,
            kept,
            is_xfs: fstatfs(tree.root()).is_ok_and(|found| found.f_type as u64 == XFS),
        });
        // What is found in the root may have no project of its own to be read.
        quotas.membership(tree.nodes.root());
        Ok(quotas)
    }

    fn end(&self) -> io::Result<()> {
        self.projects.sync()?;
        self.settings.sync()?;
        // With a mount below, what is used depends on what will be mounted there. One that is gone
        // has been counted.
        let is_open = self.late.has_some()
            || self.tree.has_entered()
            || has_mounts_below(&self.tree, &self.source);
        match self.counting.is_on() || is_open {
            true => Ok(()),
            false => {
                let usage = self.charges.by_owners();
                self.state.put_usage(&usage_of(&self.tree), &usage)
            }
        }
    }
}

/// Which usage is kept: of which directory, and by whose project ids.
fn usage_of(tree: &Tree) -> String {
    let root = tree.nodes.root().id;
    let directory = root.lasting(root.dev);
    match tree.keeps_projects() {
        true => format!("{directory} projects of the filesystem"),
        false => directory,
    }
}

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
        parent: &Arc<Node>,
        kind: Kind,
        make: impl FnOnce() -> Result<Attr>,
    ) -> Result<Attr> {
        match &self.quotas {
            Some(quotas) => {
                let blocks = u64::from(kind == Kind::Symlink);
                quotas.make(caller, parent, blocks, make)
            }
            None => make(),
        }
    }

    pub(crate) fn make_open(
        &self,
        caller: &Caller<'_>,
        parent: &Arc<Node>,
        make: impl FnOnce() -> Result<(Attr, OpenHost)>,
    ) -> Result<(Attr, OpenHost)> {
        match &self.quotas {
            Some(quotas) => quotas.make_open(caller, parent, make),
            None => make(),
        }
    }

    pub(crate) fn link_node(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        parent: &Arc<Node>,
        name: &[u8],
    ) -> Result<Attr> {
        let link = || self.tree.link(caller, node, parent, name);
        match &self.quotas {
            Some(quotas) => {
                quotas.may_enter(quotas.project(node), parent)?;
                quotas.settled(node, link)
            }
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
        let victim = self.quotas.as_ref().and_then(|q| q.victim(parent, name));
        let done = self.tree.remove(caller, parent, name, flags);
        if let Some(quotas) = &self.quotas {
            quotas.lost(victim);
        }
        done
    }

    pub(crate) fn rename_name(
        &self,
        caller: &Caller<'_>,
        from: (&Arc<Node>, &[u8]),
        to: (&Arc<Node>, &[u8]),
        flags: u32,
    ) -> Result<()> {
        let Some(quotas) = &self.quotas else {
            return self.tree.rename(caller, from, to, flags);
        };
        let how = RenameFlags::from_bits_retain(flags);
        quotas.check_rename(from, to, how)?;
        let replaces = !how.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
        let victim = replaces.then(|| quotas.victim(to.0, to.1)).flatten();
        let done = self.tree.rename(caller, from, to, flags);
        quotas.lost(victim);
        quotas.renamed(to.0, to.1);
        if how.contains(RenameFlags::EXCHANGE) {
            quotas.renamed(from.0, from.1);
        }
        done
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
            Some(quotas) if super::cuts(flags) => quotas.settled(node, open),
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
        // Without one the host alone decides, and what it did is charged.
        let Some(fd) = node.writable_descriptor() else {
            return quotas.settled(node, || self.tree.write_back(node, off, data));
        };
        let range = (off, data.len() as u64);
        quotas.allocate(node, fd.as_fd(), range, false, |_| {
            self.tree.write_back(node, off, data)
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
        set: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        match &self.quotas {
            Some(quotas) => quotas.setxattr(node, set),
            None => set(),
        }
    }

    pub(crate) fn remove_xattr(
        &self,
        node: &Arc<Node>,
        remove: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        match &self.quotas {
            Some(quotas) if node.kind == Kind::File => quotas.settled(node, remove),
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
                let now = self.tree.get_fsxattr(node).unwrap_or_default();
                quotas.set_fsxattr(caller, node, (now, new), set)
            }
            None => set(new),
        }
    }

    /// Flags of a directory say whether it passes its project on.
    pub(crate) fn set_plain_flags(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        flags: u32,
    ) -> Result<()> {
        let done = self.tree.set_flags(caller, node, flags);
        if let Some(quotas) = &self.quotas {
            quotas.learn_again(node);
        }
        done
    }

    pub(crate) fn settle_synced(&self, file: &OpenHost) {
        if let Some(quotas) = &self.quotas {
            quotas.closed(file);
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
