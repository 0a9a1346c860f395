//! Where room was refused, for whoever asks what a program ran into.

use crate::heat;
use crate::node::Node;
use crate::tree::Tree;
use hearth::provisional::is_provisional;
use hearth::{Errno, Resource};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;

lock_class!(RefusalsLock = "host.refusals", 816);

/// Places that are remembered, the first ones: a full tree refuses everywhere.
const PLACES: usize = 64;

/// A file that could not grow, or a directory that could get no inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Below the directory that is served, as it was called then; empty for the directory itself,
    /// none for what had no name.
    pub path: Option<Box<[u8]>>,
    /// What there was none left of.
    pub resource: Resource,
    /// How often.
    pub times: u64,
}

/// The refusals of a mount.
#[derive(Debug, Default)]
pub struct Refusals {
    places: Lock<RefusalsLock, Vec<(u64, Refusal)>>,
}

impl Refusals {
    /// Remembers that `errno` was the answer to an operation on `node`. Slow: nothing is refused
    /// where there is room.
    pub fn note(&self, tree: &Tree, node: &Arc<Node>, resource: Resource, errno: Errno) {
        let is_full = matches!(errno, Errno::EDQUOT | Errno::ENOSPC) && !is_provisional();
        if !is_full || is_counted(&mut self.places.lock(), node, resource) {
            return;
        }
        let path = match node.number == tree.nodes.root().number {
            true => Some(Box::default()),
            false => {
                let reached = tree.reach(node).ok();
                reached.and_then(|fd| heat::path_of(tree, fd.as_fd()))
            }
        };
        let refusal = Refusal {
            path,
            resource,
            times: 1,
        };
        let mut places = self.places.lock();
        if places.len() < PLACES && !is_counted(&mut places, node, resource) {
            places.push((node.number, refusal));
        }
    }

    /// All of them, the first one first.
    pub fn all(&self) -> Vec<Refusal> {
        let places = self.places.lock();
        places.iter().map(|(_, refusal)| refusal.clone()).collect()
    }
}

/// Counts a place that is remembered already.
fn is_counted(places: &mut [(u64, Refusal)], node: &Node, resource: Resource) -> bool {
    let is_same =
        |(number, one): &&mut (u64, Refusal)| *number == node.number && one.resource == resource;
    let same = places.iter_mut().find(is_same);
    same.map(|(_, refusal)| refusal.times += 1).is_some()
}
