//! The directories that a walk has passed through, and whether one of them has moved since.
//! `docs/design/locks.md` says why these are enough.

use crate::inode::Inode;

/// Directories that are recorded without an allocation.
const NEAR: usize = 8;

/// A directory and its move count when the walk came to it.
type Passed<'x> = (&'x Inode, u32);

/// A sequence-count trail: the directories passed so far.
pub(super) struct SeqTrail<'x> {
    near: [Option<Passed<'x>>; NEAR],
    length: usize,
    /// Directories after the first [`NEAR`].
    far: Vec<Passed<'x>>,
    /// Set when a directory had moved before its count was taken.
    is_broken: bool,
}

impl<'x> SeqTrail<'x> {
    #[inline]
    pub fn new() -> SeqTrail<'x> {
        SeqTrail {
            near: [None; NEAR],
            length: 0,
            far: Vec::new(),
            is_broken: false,
        }
    }

    /// Whether no directory was passed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Records a directory before anything is looked up in it; `above` is the directory where its
    /// name was found. False of what is no directory.
    #[inline(always)]
    pub fn pass(&mut self, inode: &'x Inode, above: Option<&Inode>) -> bool {
        let Some(directory) = inode.directory() else {
            return false;
        };
        let moves = directory.moves.read_begin();
        // A move between the lookup of its name and the line above does not show in the count. It
        // shows here: the directory is not where it was found.
        if above.is_some_and(|above| directory.parent() != above.number()) {
            self.is_broken = true;
        }
        match self.near.get_mut(self.length) {
            Some(place) => *place = Some((inode, moves)),
            None => self.pass_far((inode, moves)),
        }
        self.length += 1;
        true
    }

    #[cold]
    fn pass_far(&mut self, passed: Passed<'x>) {
        self.far.push(passed);
    }

    /// Whether every directory is where it was. A directory that was evicted meanwhile may have
    /// come back as another object and moved as that.
    pub fn is_valid(&self) -> bool {
        let stays = |&(inode, moves): &Passed<'x>| {
            let directory = inode.directory();
            !inode.is_dead() && directory.is_some_and(|it| !it.moves.read_retry(moves))
        };
        let near = self.near.iter().map_while(Option::as_ref);
        !self.is_broken && near.chain(&self.far).all(stays)
    }
}
