//! Project ids: what was set is written down; below a directory it is inherited.

use super::Quotas;
use super::charged::Membership;
use super::lines::{Form, Lines};
use crate::attributes;
use crate::identity::Identity;
use crate::node::Node;
use crate::reach::Found;
use hearth::{Errno, KeepError};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::fd::AsFd;

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
}

impl Projects {
    /// Those that were kept.
    pub fn new(lines: Lines<u32>, own: u64) -> Projects {
        Projects {
            any: AtomicBool::new(!lines.is_empty()),
            lines,
            own,
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
        self.lines.set(&id.lasting(self.own), Some(project))?;
        self.any.store(true, Relaxed);
        Ok(())
    }

    /// [`Projects::set`] where nobody can be refused.
    ///
    /// # Errors
    /// It cannot be kept, and holds until the unmount.
    pub fn hold(&self, id: &Identity, project: u32) -> std::result::Result<(), KeepError> {
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
