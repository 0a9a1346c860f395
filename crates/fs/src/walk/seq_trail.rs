//! The directories that a walk has passed through, and whether one of them has moved since.
//! `docs/design/locks.md` says why these are enough.

use crate::directory::Directory;
use crate::inode::Inode;

/// Directories that are recorded without an allocation.
const NEAR: usize = 8;

/// A directory that a walk has come to.
#[derive(Clone, Copy)]
struct Passed<'x> {
    inode: &'x Inode,
    /// Its move count then.
    moves: u32,
    /// Where its name was found, if it was found by name.
    above: Option<&'x Inode>,
}

/// A sequence-count trail: the directories passed so far.
pub(super) struct SeqTrail<'x> {
    near: [Option<Passed<'x>>; NEAR],
    length: usize,
    /// Directories after the first [`NEAR`].
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

    /// Whether no directory was passed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Records the directory of `inode` before anything is looked up in it; `above` is where its
    /// name was found. Few walks look at what is recorded, so nothing is checked here.
    #[inline(always)]
    pub fn pass(&mut self, inode: &'x Inode, directory: &Directory, above: Option<&'x Inode>) {
        let passed = Passed {
            inode,
            moves: directory.moves.peek(),
            above,
        };
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

    /// Whether every directory is where it was. A directory that was evicted meanwhile may have
    /// come back as another object and moved as that.
    pub fn is_valid(&self) -> bool {
        let near = self.near.iter().map_while(Option::as_ref);
        near.chain(&self.far).all(Passed::stays)
    }
}

impl Passed<'_> {
    fn stays(&self) -> bool {
        let Some(directory) = self.inode.directory() else {
            return false;
        };
        // A move between the lookup of its name and the note of its count does not show in the
        // count. It shows in the parent, which stays what it was then if the count does.
        let is_below = self
            .above
            .is_none_or(|above| directory.parent() == above.number());
        is_below && !directory.moves.has_moved_since(self.moves) && !self.inode.is_dead()
    }
}
