//! What belongs to which project while a tree becomes one, where projects are written down beside
//! and inherited.
//!
//! The walk moves what it comes to, one inode after the other: a directory, then what it has that
//! is no directory, then the directories in it. What is looked up meanwhile belongs to the project
//! of before until the walk has come to it, for that is who has been charged.

use super::counting::Key;
use crate::identity::Identity;
use crate::node::Node;
use hearth::Kind;
use hearth_sync::lock::{Lock, LockGuard};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use std::collections::{HashMap, HashSet};

lock_class! {
    pub MoveLock = "host.moves", 690;
    pub MovingLock = "host.moving", 801;
}

/// The change of a tree's project that goes on, if one does.
#[derive(Debug, Default)]
pub struct Moving {
    /// Held over a change: one goes on at a time.
    one: Lock<MoveLock, ()>,
    /// Relaxed: it is set before the first inode belongs to the new project.
    on: AtomicBool,
    moved: Lock<MovingLock, Moved>,
}

/// What has been moved.
#[derive(Debug, Default)]
pub struct Moved {
    to: u32,
    directories: HashMap<Key, Passed>,
    /// The last of these: what it has that is no directory is being moved.
    current: Option<Key>,
    /// Of that, what has been.
    others: HashMap<Key, Passed>,
    /// Inodes of several names that have been moved, wherever these are.
    linked: HashSet<Key>,
    /// What was renamed into a directory that has been moved.
    renamed: Vec<Arc<Node>>,
    /// What was renamed into another directory, and this.
    left: Vec<(Arc<Node>, Arc<Node>)>,
}

/// An inode that has been moved.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// The project that it belonged to. That of what is in a directory by inheritance.
    before: u32,
    /// Nobody knew it: what it had was charged to the new project by what was seen of it.
    was_unknown: bool,
}

/// The right to change the project of a tree. One has it at a time.
pub struct MoveGuard<'a> {
    moving: &'a Moving,
    _one: LockGuard<'a, MoveLock, ()>,
}

impl Moving {
    /// Waits until no other change goes on.
    pub fn lock(&self) -> MoveGuard<'_> {
        MoveGuard {
            moving: self,
            _one: self.one.lock(),
        }
    }

    /// Whether a change goes on.
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// What has been moved, for as long as nothing else is.
    pub fn moved(&self) -> LockGuard<'_, MovingLock, Moved> {
        self.moved.lock()
    }
}

impl MoveGuard<'_> {
    /// The directory `top`, which belongs to `before`, and what is below, becomes a part of project
    /// `to`.
    pub fn begin(&self, top: &Identity, before: u32, to: u32) {
        let mut moved = self.moving.moved.lock();
        moved.to = to;
        let passed = Passed {
            before,
            was_unknown: false,
        };
        moved.add_directory(key(top), passed);
        self.moving.on.store(true, Relaxed);
    }
}

impl Drop for MoveGuard<'_> {
    fn drop(&mut self) {
        self.moving.on.store(false, Relaxed);
        *self.moving.moved.lock() = Moved::default();
    }
}

impl Moved {
    /// The walk comes to an inode of project `before`, which has several names if `is_linked`.
    /// False if it has come to it by another of these.
    pub fn add(
        &mut self,
        (id, kind): (&Identity, Kind),
        before: u32,
        is_linked: bool,
        was_unknown: bool,
    ) -> bool {
        let passed = Passed {
            before,
            was_unknown,
        };
        if kind == Kind::Directory {
            self.add_directory(key(id), passed);
            return true;
        }
        let is_first = !self.linked.contains(&key(id));
        if is_first {
            self.others.insert(key(id), passed);
        }
        if is_linked {
            self.linked.insert(key(id));
        }
        is_first
    }

    fn add_directory(&mut self, key: Key, passed: Passed) {
        self.directories.entry(key).or_insert(passed);
        self.current = Some(key);
        self.others.clear();
    }

    /// An inode was made in `parent`, and belongs to the project of that. If the walk has come to
    /// it already and knew nothing of it, returns the project of before.
    pub fn add_new(&mut self, new: Key, kind: Kind, parent: &Identity) -> Option<u32> {
        if !self.directories.contains_key(&key(parent)) {
            return None;
        }
        let passed = match kind {
            Kind::Directory => &mut self.directories,
            _ => &mut self.others,
        };
        let first = Passed {
            before: self.to,
            was_unknown: false,
        };
        let passed = passed.entry(new).or_insert(first);
        let was_unknown = std::mem::replace(&mut passed.was_unknown, false);
        was_unknown.then_some(passed.before)
    }

    /// An inode of project `project` gets one more name.
    pub fn add_link(&mut self, id: &Identity, project: u32) {
        if project == self.to {
            self.linked.insert(key(id));
        }
    }

    /// An inode was renamed into `parent`. If the walk has been there, it comes back.
    pub fn add_renamed(&mut self, node: Arc<Node>, parent: &Arc<Node>) {
        match self.has(&parent.id) {
            true => self.renamed.push(node),
            false => self.left.push((node, Arc::clone(parent))),
        }
    }

    /// What was renamed to where the walk has not been since the last call, and the directories.
    pub fn take_left(&mut self) -> Vec<(Arc<Node>, Arc<Node>)> {
        std::mem::take(&mut self.left)
    }

    /// What was renamed since the last call.
    pub fn take_renamed(&mut self) -> Vec<Arc<Node>> {
        std::mem::take(&mut self.renamed)
    }

    /// Whether a directory has been moved.
    pub fn has(&self, directory: &Identity) -> bool {
        self.directories.contains_key(&key(directory))
    }

    /// The project of what inherits from `parent`, which belongs to `project`.
    pub fn inherited(&self, id: &Identity, kind: Kind, parent: &Identity, project: u32) -> u32 {
        let (key, parent) = (key(id), key(parent));
        if self.linked.contains(&key) {
            return self.to;
        }
        let Some(passed) = self.directories.get(&parent) else {
            return project;
        };
        let is_moved = match kind {
            Kind::Directory => self.directories.contains_key(&key),
            _ => self.current != Some(parent) || self.others.contains_key(&key),
        };
        if is_moved { self.to } else { passed.before }
    }
}

fn key(id: &Identity) -> Key {
    (id.dev, id.ino)
}
