//! What a walk has passed through, directories and links, and whether all of it is still there.
//! `docs/design/locks.md` says why these are enough.

use crate::directory::{Directory, Entry};
use crate::inode::Inode;

/// Directories and links that are recorded without an allocation.
const NEAR: usize = 8;

/// A directory or a link that a walk has come to.
#[derive(Clone, Copy)]
struct Passed<'x> {
    inode: &'x Inode,
    by: By<'x>,
}

/// How a walk has come to a directory.
#[derive(Clone, Copy)]
enum By<'x> {
    /// By this name.
    Name(&'x Entry),
    /// It began there, or came by `..`; with the move count of the directory then.
    Count(u32),
}

/// A sequence-count trail: what was passed so far.
pub(super) struct SeqTrail<'x> {
    near: [Option<Passed<'x>>; NEAR],
    length: usize,
    /// What came after the first [`NEAR`].
    far: Vec<Passed<'x>>,
}

impl<'x> SeqTrail<'x> {
    #[inline]
    pub fn new() -> SeqTrail<'x> {
        SeqTrail {
            near: [None; NEAR],
            length: 0,
            far: Vec::new(),
        }
    }

    /// Whether nothing was passed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Records the directory of `inode`, to which no name has led, before anything is looked up in
    /// it.
    pub fn pass(&mut self, inode: &'x Inode, directory: &Directory) {
        let by = By::Count(directory.moves().peek());
        self.record(Passed { inode, by });
    }

    /// Records a directory or a link that was found by its name. Few walks look at what is
    /// recorded, so nothing is checked here.
    #[inline(always)]
    pub fn pass_named(&mut self, inode: &'x Inode, entry: &'x Entry) {
        let by = By::Name(entry);
        self.record(Passed { inode, by });
    }

    #[inline(always)]
    fn record(&mut self, passed: Passed<'x>) {
        match self.near.get_mut(self.length) {
            Some(place) => *place = Some(passed),
            None => self.pass_far(passed),
        }
        self.length += 1;
    }

    #[cold]
    fn pass_far(&mut self, passed: Passed<'x>) {
        self.far.push(passed);
    }

    /// Whether everything is where it was. What was evicted meanwhile may have come back as another
    /// object, and changed as that.
    pub fn is_valid(&self) -> bool {
        let near = self.near.iter().map_while(Option::as_ref);
        near.chain(&self.far).all(Passed::stays)
    }
}

impl Passed<'_> {
    fn stays(&self) -> bool {
        let is_there = match self.by {
            By::Name(entry) => !entry.is_gone(),
            By::Count(moves) => self
                .inode
                .directory()
                .is_some_and(|directory| !directory.moves().has_moved_since(moves)),
        };
        is_there && !self.inode.is_dead()
    }
}
