//! Heat of the files of a directory: which accesses are recorded. Records, scores and reports are
//! those of the volume beside, which knows these files as [`hearth::heat::ForeignFiles`].
//!
//! Without tracking nothing is known and a use costs a load of the switch.

mod files;
mod kept;
pub mod known;
mod names;
mod tracked;

use crate::attributes;
use crate::error::OpenError;
use crate::file::OpenHost;
use crate::heat_by::HeatBy;
use crate::node::Node;
use crate::state::StateDir;
use crate::sys;
use crate::tree::Tree;
use hearth::heat::{ForeignFiles, Heat};
use hearth::{Attr, Kind, Volume, WriteAt};
use hearth_sync::primitive::Arc;
use known::Known;
use rustix::fd::AsFd;
use std::path::Path;
use tracked::TrackedFiles;

/// The heat of a directory.
pub struct HostHeat {
    volume: Volume,
    tracked: Arc<TrackedFiles>,
}

impl HostHeat {
    /// Tracks the files of a directory, whose heat of before is taken up.
    ///
    /// # Errors
    /// Heat is tracked and cannot be kept.
    pub fn open(
        source: &Path,
        tree: &Arc<Tree>,
        volume: &Volume,
        (by, state): (HeatBy, Option<&Path>),
    ) -> Result<HostHeat, OpenError> {
        let place = StateDir::of(source, tree.root(), state);
        let place = match volume.heat().is_on() {
            true => {
                let place = place?;
                tree.served_at(place.prepare()?);
                Some(place)
            }
            // It may be switched on later; then what is kept is kept if it can be.
            false => place.ok().filter(StateDir::is_readable),
        };
        let tracked = Arc::new(TrackedFiles::new(Arc::clone(tree), by, place));
        let kept = tracked.take_kept();
        let files = Arc::clone(&tracked) as Arc<dyn ForeignFiles>;
        volume.heat().track_foreign(files, &kept);
        Ok(HostHeat {
            volume: volume.clone(),
            tracked,
        })
    }

    /// Whether there may be records.
    pub fn has_records(&self) -> bool {
        self.volume.heat().has_records()
    }

    /// Whether somebody wants to see each read and write.
    pub fn needs_bytes(&self) -> bool {
        self.tracked.by == HeatBy::Ranges && self.volume.heat().is_on()
    }

    /// Counts a read of `len` bytes at `off`.
    pub fn read(&self, file: &OpenHost, off: u64, len: usize) {
        if let Some(heat) = self.by_ranges()
            && let Some(known) = self.known(file)
        {
            known.reaches(off + len as u64);
            heat.note_read(known.file, off, len as u64);
        }
    }

    /// Counts a write of `len` bytes.
    pub fn wrote(&self, file: &OpenHost, place: WriteAt, len: usize) {
        let Some(heat) = self.by_ranges() else { return };
        let Some(known) = self.known(file) else {
            return;
        };
        let at = match place {
            WriteAt::At(off) => off,
            // Where the file ended up, as far as nobody has appended since.
            WriteAt::End | WriteAt::EndFrom(_) => size_of_open(file).saturating_sub(len as u64),
        };
        known.reaches(at + len as u64);
        heat.note_write(known.file, at, len as u64);
    }

    /// Pages that were changed through a mapping were written.
    pub fn wrote_back(&self, node: &Arc<Node>, off: u64, len: usize) {
        let Some(heat) = self.by_ranges() else { return };
        if let Some(known) = self.of_node(node) {
            known.reaches(off + len as u64);
            heat.note_write(known.file, off, len as u64);
        }
    }

    /// A file was opened.
    pub fn opened(&self, file: &OpenHost) {
        if file.cuts()
            && self.has_records()
            && let Some(known) = self.of_known_node(&file.node)
        {
            let facts = known.facts();
            known.refresh(facts.uid, facts.gid, 0);
            self.volume.heat().truncated(known.file, 0);
        }
        if self.by_opens().is_none() || file.node.kind != Kind::File {
            return;
        }
        if file.is_readable()
            && let Some(known) = self.known(file)
        {
            let size = size_of_open(file);
            known.reaches(size);
            self.volume.heat().note_whole(known.file, false, size);
        }
    }

    /// A file is about to be closed.
    pub fn closes(&self, file: &OpenHost) {
        if self.by_opens().is_none() || file.node.kind != Kind::File {
            return;
        }
        if file.is_writable()
            && let Some(known) = self.known(file)
        {
            let size = size_of_open(file);
            known.reaches(size);
            self.volume.heat().note_whole(known.file, true, size);
        }
    }

    /// Attributes of a file were changed; it was cut or extended if `is_cut`.
    pub fn changed(&self, node: &Node, attr: &Attr, is_cut: bool) {
        if node.kind != Kind::File || !self.has_records() {
            return;
        }
        let Some(known) = self.of_known_node(node) else {
            return;
        };
        known.refresh(attr.uid, attr.gid, attr.size);
        if is_cut {
            self.volume.heat().truncated(known.file, attr.size);
        }
    }

    /// The kernel is about to give an inode back: what to say to [`HostHeat::forgotten`].
    pub fn forgets(&self, node: &Node) -> Option<Arc<Known>> {
        if node.kind != Kind::File || !node.may_reopen() || !self.has_records() {
            return None;
        }
        let known = self.of_known_node(node)?;
        let stat = attributes::stat(node.descriptor()?.as_fd()).ok()?;
        (stat.stx_nlink == 0).then_some(known)
    }

    /// The kernel has given back an inode that has no name: it has ended.
    pub fn forgotten(&self, known: &Known) {
        self.tracked.files.remove(known.file);
        self.volume.heat().ended(known.file);
    }

    /// The heat, if single accesses are recorded.
    fn by_ranges(&self) -> Option<Heat<'_>> {
        let heat = self.volume.heat();
        (heat.is_on() && self.tracked.by == HeatBy::Ranges).then_some(heat)
    }

    /// The heat, if opens are recorded.
    fn by_opens(&self) -> Option<Heat<'_>> {
        let heat = self.volume.heat();
        (heat.is_on() && self.tracked.by == HeatBy::Opens).then_some(heat)
    }

    /// What is known of an open file, from its first use on. Only the first use of a file that is
    /// not known yet asks the host.
    fn known<'f>(&self, file: &'f OpenHost) -> Option<&'f Arc<Known>> {
        if let Some(known) = file.known.get() {
            return Some(known);
        }
        if let Some(known) = self.of_known_node(&file.node) {
            known.set_node(&file.node);
            return Some(file.known.get_or_init(|| known));
        }
        let fd = file.fd().ok()?;
        let stat = attributes::stat(fd.as_fd()).ok()?;
        let project = sys::get_fsxattr(fd.as_fd()).map_or(0, |attr| attr.projid);
        let path = names::path_of(&self.tracked.tree, fd.as_fd()).unwrap_or_default();
        let known = self.tracked.register(&file.node.id, &stat, project, &path);
        known.set_node(&file.node);
        Some(file.known.get_or_init(|| known))
    }

    /// What is known of an inode by now.
    fn of_known_node(&self, node: &Node) -> Option<Arc<Known>> {
        let number = self.tracked.tree.shown(node.id.dev, node.id.ino);
        let known = self.tracked.files.of_number(number);
        known.filter(|known| known.id.is_same_inode(&node.id))
    }

    /// What is known of an inode that nobody may have open.
    fn of_node(&self, node: &Arc<Node>) -> Option<Arc<Known>> {
        if let Some(known) = self.of_known_node(node) {
            return Some(known);
        }
        let reached = self.tracked.tree.reach(node).ok()?;
        let stat = attributes::stat(reached.as_fd()).ok()?;
        let path = names::path_of(&self.tracked.tree, reached.as_fd()).unwrap_or_default();
        let known = self.tracked.register(&node.id, &stat, 0, &path);
        known.set_node(node);
        Some(known)
    }
}

impl std::fmt::Debug for HostHeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostHeat")
            .field("by", &self.tracked.by)
            .finish_non_exhaustive()
    }
}

fn size_of_open(file: &OpenHost) -> u64 {
    let fd = file.fd();
    let stat = fd.and_then(|fd| attributes::stat(fd.as_fd()));
    stat.map_or(0, |stat| stat.stx_size)
}
