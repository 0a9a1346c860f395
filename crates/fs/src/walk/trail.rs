//! The directories that a walk has passed through, to tell at its end whether one of them moved.
//! `docs/design/locks.md` says why these are enough.

use crate::inode::Node;
use std::cell::Cell;

/// Directories that are remembered. A deeper walk counts as broken, and if it misses it is made
/// again, in the end under the rename lock.
const LENGTH: usize = 24;

/// A directory and the count of its moves when the walk came to it.
type Passed<'x> = Option<(&'x Node, u32)>;

/// The directories passed so far.
pub(super) struct Trail<'x> {
    passed: [Cell<Passed<'x>>; LENGTH],
    length: Cell<usize>,
    /// Set when a directory had moved before its count was taken.
    is_broken: Cell<bool>,
}

impl<'x> Trail<'x> {
    pub fn new() -> Trail<'x> {
        Trail {
            passed: [const { Cell::new(None) }; LENGTH],
            length: Cell::new(0),
            is_broken: Cell::new(false),
        }
    }

    /// Notes a directory before anything is looked up in it; `above` is where its name was found.
    pub fn pass(&self, node: &'x Node, above: Option<&Node>) {
        let Some(directory) = node.directory() else {
            return;
        };
        let moves = directory.moves.read_begin();
        // A move between the lookup of its name and the line above does not show in the count, but
        // here: it is not where it was found.
        let strayed = above.is_some_and(|above| directory.parent() != above.number());
        match self.passed.get(self.length.get()) {
            Some(place) if !strayed => place.set(Some((node, moves))),
            _ => self.is_broken.set(true),
        }
        self.length.set(self.length.get() + 1);
    }

    /// Whether every directory is where it was. One that was forgotten meanwhile may have come
    /// back as another object and moved as that.
    pub fn is_whole(&self) -> bool {
        let stays = |&(node, moves): &(&Node, u32)| {
            let directory = node.directory();
            !node.is_dead() && directory.is_some_and(|it| !it.moves.read_retry(moves))
        };
        !self.is_broken.get()
            && self
                .passed
                .iter()
                .filter_map(Cell::get)
                .all(|it| stays(&it))
    }
}
