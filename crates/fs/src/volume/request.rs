//! One request on its way: what it runs with, and why it may stop before the end.

use super::core::Core;
use super::stop::{Step, Stop};
use crate::caller::Caller;
use crate::inode::{Node, NodeRef};
use crate::observer::Note;
use hearth_sync::epoch::Guard;
use std::cell::RefCell;

/// One request on its way.
pub(crate) struct Ctx<'a> {
    pub core: &'a Core,
    pub caller: &'a Caller<'a>,
    /// What it has changed so far, for observers.
    pub(super) notes: &'a RefCell<Vec<Note>>,
    pub(super) observed: bool,
    /// The home has failed what the attempt before this one lacked: a call that may answer a part
    /// (`read(2)`) answers what is here, and stops where it lacks something.
    pub settles: bool,
}

impl Ctx<'_> {
    /// Remembers that `name` in `parent` changed.
    pub fn entry_changed(&self, parent: &Node, name: &[u8]) {
        if self.observed {
            let mut notes = self.notes.borrow_mut();
            notes.push(Note::Entry(parent.number(), name.into()));
            // A kernel keeps listings as contents, also of names that it has never looked up.
            notes.push(Note::Node(parent.number(), Some(0..u64::MAX)));
        }
    }

    /// Remembers that attributes, and contents in `data`, changed.
    pub fn node_changed(&self, node: &Node, data: Option<std::ops::Range<u64>>) {
        if self.observed {
            self.notes
                .borrow_mut()
                .push(Note::Node(node.number(), data));
        }
    }

    /// Keeps `node` in memory while it is changed. Costs nothing where nothing is ever evicted.
    pub fn keep<'c>(&'c self, node: &Node, g: &'c Guard) -> Step<Kept<'c>> {
        if !self.core.home.evictable() {
            return Ok(Kept {
                core: self.core,
                g,
                node: None,
            });
        }
        self.hold(node, g)
    }

    /// Keeps `node` from its end: whoever found it without a name may be the last to know it.
    pub fn hold<'c>(&'c self, node: &Node, g: &'c Guard) -> Step<Kept<'c>> {
        Kept::new(self.core, node, g).ok_or(Stop::Again)
    }
}

/// An inode that stays in memory until this is dropped.
pub(crate) struct Kept<'c> {
    core: &'c Core,
    g: &'c Guard,
    node: Option<NodeRef>,
}

impl<'c> Kept<'c> {
    /// `None` if the inode is gone.
    pub(super) fn new(core: &'c Core, node: &Node, g: &'c Guard) -> Option<Kept<'c>> {
        Some(Kept {
            core,
            g,
            node: Some(node.hold()?),
        })
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            self.core.release(node, self.g);
        }
    }
}
