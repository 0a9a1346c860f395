//! Project ids: what was set is written down; below a directory it is inherited.

use super::Quotas;
use super::charged::Membership;
use super::state_dir::Lines;
use crate::attributes;
use crate::error::OpenError;
use crate::identity::Identity;
use crate::node::Node;
use crate::reach::Found;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::fd::AsFd;
use std::collections::HashMap;

lock_class!(ProjectsLock = "host.projects", 814);

/// The projects of a tree.
#[derive(Debug)]
pub struct Projects {
    /// By [`Identity::lasting`].
    set: Lock<ProjectsLock, HashMap<Box<str>, u32>>,
    /// Whether any was ever set: until then nobody looks. Relaxed: whoever sets the first one then
    /// visits all inodes below.
    any: AtomicBool,
    lines: Lines,
    /// Device of the root.
    own: u64,
}

impl Projects {
    /// Those that were kept.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn new(lines: Lines, own: u64) -> Result<Projects, OpenError> {
        let kept = lines.read()?.into_iter();
        let set: HashMap<Box<str>, u32> = kept
            .filter_map(|(key, value)| Some((key.into(), value?.parse().ok()?)))
            .collect();
        Ok(Projects {
            any: AtomicBool::new(!set.is_empty()),
            set: Lock::new(set),
            lines,
            own,
        })
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// What was set for an inode.
    pub fn of(&self, id: &Identity) -> Option<u32> {
        match self.any() {
            true => self.set.lock().get(&*id.lasting(self.own)).copied(),
            false => None,
        }
    }

    /// Sets it, and writes it down.
    pub fn set(&self, id: &Identity, project: u32) {
        self.any.store(true, Relaxed);
        let key = id.lasting(self.own);
        let mut set = self.set.lock();
        if set.get(&*key) != Some(&project) {
            self.lines.append(&key, Some(&project.to_string()));
            set.insert(key.into(), project);
        }
    }

    /// Makes them durable.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    pub fn sync(&self) -> std::io::Result<()> {
        self.lines.sync()
    }

    /// From now on the inode inherits, or is gone.
    pub fn unset(&self, id: &Identity) {
        if !self.any() {
            return;
        }
        let key = id.lasting(self.own);
        let mut set = self.set.lock();
        if set.remove(&*key).is_some() {
            self.lines.append(&key, None);
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
