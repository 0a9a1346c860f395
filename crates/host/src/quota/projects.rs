//! Project ids: what was set is written down; below a directory it is inherited.

use super::Quotas;
use super::charged::Membership;
use super::lines::{Form, Lines};
use crate::attributes;
use crate::identity::Identity;
use crate::node::Node;
use crate::reach::Found;
use hearth::{Errno, KeepError};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::fd::AsFd;
use std::collections::HashMap;

lock_class!(LeavingLock = "host.leaving", 814);

/// The file of projects.
pub const PROJECTS: Form<u32> = Form {
    name: "projects",
    is_whole: |key, _| Identity::is_lasting(key),
    remedy: "give the directory its project again with 'hearth quota project'",
};

/// The projects of a tree.
#[derive(Debug)]
pub struct Projects {
    /// By [`Identity::lasting`].
    lines: Lines<u32>,
    /// Whether any was ever set: until then nobody looks. Relaxed: whoever sets the first one then
    /// visits all inodes below.
    any: AtomicBool,
    /// Device of the root.
    own: u64,
    /// Inodes that are about to leave their projects by a name. Held while a line changes, so that
    /// none is taken away that somebody counts on.
    leaving: Lock<LeavingLock, HashMap<Identity, Attempts>>,
}

/// How an inode leaves its project.
#[derive(Debug)]
struct Attempts {
    /// Names that are being made.
    under_way: usize,
    /// Its line stays: there is such a name, or another reason.
    is_kept: bool,
}

/// A name that is about to be made where another project is inherited, or none. The inode's own is
/// written down from before there is the name; where it was refused, that is undone.
#[must_use]
#[derive(Debug)]
pub struct Leave<'p> {
    projects: &'p Projects,
    id: Identity,
}

impl Projects {
    /// Those that were kept.
    pub fn new(lines: Lines<u32>, own: u64) -> Projects {
        Projects {
            any: AtomicBool::new(!lines.is_empty()),
            lines,
            own,
            leaving: Lock::default(),
        }
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// What was set for an inode.
    pub fn of(&self, id: &Identity) -> Option<u32> {
        match self.any() {
            true => self.lines.get(&id.lasting(self.own)),
            false => None,
        }
    }

    /// Waits until all that was written down is on the disk.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    pub fn make_durable(&self) -> Result<(), Errno> {
        self.lines.make_all_durable().map_err(Errno::from)
    }

    /// Sets it, and writes it down.
    ///
    /// # Errors
    /// It cannot be kept, and nothing has changed.
    pub fn set(&self, id: &Identity, project: u32) -> std::result::Result<(), KeepError> {
        let mut leaving = self.leaving.lock();
        self.lines.set(&id.lasting(self.own), Some(project))?;
        keep(&mut leaving, id);
        self.any.store(true, Relaxed);
        Ok(())
    }

    /// [`Projects::set`] for a name that is about to be made.
    ///
    /// # Errors
    /// It cannot be kept, and nothing has changed.
    pub fn leave(&self, id: &Identity, project: u32) -> std::result::Result<Leave<'_>, KeepError> {
        let mut leaving = self.leaving.lock();
        let is_kept = self.of(id).is_some();
        self.lines.set(&id.lasting(self.own), Some(project))?;
        self.any.store(true, Relaxed);
        let first = Attempts {
            under_way: 0,
            is_kept,
        };
        leaving.entry(*id).or_insert(first).under_way += 1;
        Ok(Leave {
            projects: self,
            id: *id,
        })
    }

    /// [`Projects::set`] where nobody can be refused.
    ///
    /// # Errors
    /// It cannot be kept, and holds until the unmount.
    pub fn hold(&self, id: &Identity, project: u32) -> std::result::Result<(), KeepError> {
        let mut leaving = self.leaving.lock();
        keep(&mut leaving, id);
        self.any.store(true, Relaxed);
        self.lines.hold(&id.lasting(self.own), Some(project))
    }

    /// Makes them durable before the directory may be another one's.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    pub fn end(&self) -> std::io::Result<()> {
        self.lines.end()
    }

    /// From now on the inode inherits, or is gone.
    pub fn unset(&self, id: &Identity) {
        if self.any() {
            // A line that stays says what nobody asks for; the log has heard of it.
            let _ = self.lines.hold(&id.lasting(self.own), None);
        }
    }
}

/// Another reason for a line of this inode.
fn keep(leaving: &mut HashMap<Identity, Attempts>, id: &Identity) {
    if let Some(attempts) = leaving.get_mut(id) {
        attempts.is_kept = true;
    }
}

impl Leave<'_> {
    /// The inode that leaves.
    pub fn id(&self) -> &Identity {
        &self.id
    }

    /// There is the name.
    pub fn made(self) {
        keep(&mut self.projects.leaving.lock(), &self.id);
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut leaving = self.projects.leaving.lock();
        let Some(attempts) = leaving.get_mut(&self.id) else {
            return;
        };
        attempts.under_way -= 1;
        if attempts.under_way > 0 {
            return;
        }
        let is_kept = attempts.is_kept;
        leaving.remove(&self.id);
        if !is_kept {
            self.projects.unset(&self.id);
        }
    }
}

impl Quotas {
    /// The project of an inode.
    pub fn project(&self, node: &Arc<Node>) -> u32 {
        self.membership(node).project
    }

    /// The project of an inode, and whether it is passed on.
    pub fn membership(&self, node: &Arc<Node>) -> Membership {
        if let Some(known) = node.charged.membership() {
            return known;
        }
        if !self.tree.keeps_projects() {
            return Membership::inherited(self.projects.of(&node.id).unwrap_or(0));
        }
        let reached = self.tree.reach(node);
        let read = reached.and_then(|at| self.tree.membership(at.as_fd(), node.kind, None));
        if let Ok(read) = read {
            node.charged.learn(read);
        }
        node.charged.membership().unwrap_or_default()
    }

    /// Reads what the filesystem keeps once more: others may have changed it, or an operation just
    /// has.
    pub fn learn_again(&self, node: &Arc<Node>) {
        if !self.tree.keeps_projects() || node.charged.membership().is_none() {
            return;
        }
        // Nobody else sets it meanwhile.
        let record = node.charged.record().lock();
        if let Ok(reached) = self.tree.reach(node) {
            // What cannot be told stays what it was.
            let known = node.charged.membership();
            let fallback = known.map(|known| Membership::inherited(known.project));
            if let Ok(read) = self.tree.membership(reached.as_fd(), node.kind, fallback) {
                node.charged.set_membership(read);
            }
        }
        drop(record);
    }

    /// Of an inode that was found in a directory of project `above`.
    pub fn project_below(&self, found: &Identity, above: u32) -> u32 {
        self.projects.of(found).unwrap_or(above)
    }

    /// An inode was found in a directory.
    pub fn was_found(&self, node: &Arc<Node>, parent: &Arc<Node>) {
        if !self.projects.any() || node.charged.project().is_some() {
            return;
        }
        let _under_way = self.begin();
        let by_parent = self.project(parent);
        if !self.moving.is_on() {
            let project = self.project_below(&node.id, by_parent);
            node.charged.learn(Membership::inherited(project));
            return;
        }
        // Held until it is learnt: the walk that moves it looks whether it is known.
        let moved = self.moving.moved();
        let by_parent = moved.inherited(&node.id, node.kind, &parent.id, by_parent);
        let project = self.project_below(&node.id, by_parent);
        node.charged.learn(Membership::inherited(project));
    }

    /// The project of what was found as a name of `parent`.
    pub fn project_of_found(&self, found: &Found, parent: &Arc<Node>) -> u32 {
        let known = self.tree.nodes.known(&found.id);
        let known = known.and_then(|node| node.charged.project());
        known.unwrap_or_else(|| {
            let mut by_parent = self.project(parent);
            if self.moving.is_on()
                && let Ok(kind) = attributes::kind(&found.stat)
            {
                let moved = self.moving.moved();
                by_parent = moved.inherited(&found.id, kind, &parent.id, by_parent);
            }
            self.project_below(&found.id, by_parent)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{HostOptions, HostVfs};
    use hearth::{Caller, FsXAttr, ROOT, Vfs, Volume};
    use hearth_testing::place::Place;
    use std::fs;

    /// Once, what a refused rename had written down stayed.
    #[test]
    fn what_a_refused_name_would_have_needed_is_not_kept() {
        let place = Place::new("quota-refused-name").unwrap();
        let source = place.directory("source").unwrap();
        fs::create_dir_all(source.join("out/full/file")).unwrap();
        fs::create_dir(source.join("in")).unwrap();
        fs::write(source.join("in/f"), "").unwrap();
        let volume = Volume::builder().build().unwrap();
        let options = HostOptions {
            state: Some(place.directory("state").unwrap()),
            ..HostOptions::default()
        };
        let vfs = HostVfs::open(&source, options, &volume).unwrap();
        let vfs = vfs.with_quotas(&source, &volume, true, |_, _| ()).unwrap();
        let root = Caller::ROOT;
        let of = |parent, name: &[u8]| vfs.lookup(&root, parent, name).unwrap().ino;
        let (inside, outside) = (of(ROOT, b"in"), of(ROOT, b"out"));
        let project = FsXAttr {
            project: 5,
            ..vfs.get_fsxattr(inside).unwrap()
        };
        vfs.set_fsxattr(&root, inside, &project).unwrap();
        let projects = &vfs.quotas.as_ref().unwrap().projects;
        if vfs.tree.keeps_projects() {
            return;
        }
        let file = of(inside, b"f");
        let kept = || projects.of(&vfs.node(file).unwrap().id);
        let full = vfs.rename(&root, inside, b"f", outside, b"full", 0);
        full.unwrap_err();
        assert_eq!(kept(), None);
        vfs.link(&root, file, outside, b"full").unwrap_err();
        assert_eq!(kept(), None);
        let id = vfs.node(file).unwrap().id;
        // Of two at once the one that is made needs it, whichever ends last.
        for made_first in [true, false] {
            let (one, other) = (
                projects.leave(&id, 5).unwrap(),
                projects.leave(&id, 5).unwrap(),
            );
            match made_first {
                true => {
                    one.made();
                    drop(other);
                }
                false => {
                    drop(one);
                    other.made();
                }
            }
            assert_eq!(kept(), Some(5));
            projects.unset(&id);
        }
        // What somebody sets meanwhile stays as well.
        let refused = projects.leave(&id, 5).unwrap();
        projects.set(&id, 6).unwrap();
        drop(refused);
        assert_eq!(kept(), Some(6));
        projects.unset(&id);
        vfs.rename(&root, inside, b"f", outside, b"f", 0).unwrap();
        assert_eq!(kept(), Some(5));
    }
}
