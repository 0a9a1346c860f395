//! The directories that a walk has passed through, to tell at its end whether one of them moved.
//! `docs/design/locks.md` says why these are enough.

use crate::inode::Inode;

/// Directories that are remembered without an allocation.
const NEAR: usize = 8;

/// A directory and the count of its moves when the walk came to it.
type Passed<'x> = (&'x Inode, u32);

/// The directories passed so far.
pub(super) struct Trail<'x> {
    near: [Option<Passed<'x>>; NEAR],
    length: usize,
    /// Those that the walk came to after [`NEAR`] others.
    far: Vec<Passed<'x>>,
    /// Set when a directory had moved before its count was taken.
    is_broken: bool,
}

impl<'x> Trail<'x> {
    #[inline]
    pub fn new() -> Trail<'x> {
        Trail {
            near: [None; NEAR],
            length: 0,
            far: Vec::new(),
            is_broken: false,
        }
    }

    /// Notes a directory before anything is looked up in it; `above` is where its name was found.
    #[inline]
    pub fn pass(&mut self, inode: &'x Inode, above: Option<&Inode>) {
        let Some(directory) = inode.directory() else {
            return;
        };
        let moves = directory.moves.read_begin();
        // A move between the lookup of its name and the line above does not show in the count, but
        // here: it is not where it was found.
        if above.is_some_and(|above| directory.parent() != above.number()) {
            self.is_broken = true;
        }
        match self.near.get_mut(self.length) {
            Some(place) => *place = Some((inode, moves)),
            None => self.pass_far((inode, moves)),
        }
        self.length += 1;
    }

    #[cold]
    fn pass_far(&mut self, passed: Passed<'x>) {
        self.far.push(passed);
    }

    /// Whether every directory is where it was. One that was forgotten meanwhile may have come
    /// back as another object and moved as that.
    pub fn is_whole(&self) -> bool {
        let stays = |&(inode, moves): &Passed<'x>| {
            let directory = inode.directory();
            !inode.is_dead() && directory.is_some_and(|it| !it.moves.read_retry(moves))
        };
        let near = self.near.iter().map_while(Option::as_ref);
        !self.is_broken && near.chain(&self.far).all(stays)
    }
}
