//! renameat2.

use libc::{EBUSY, EEXIST, EINVAL, ENOENT, ENOTDIR, ENOTEMPTY};
use libc::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};

use crate::model::{Answer, Model};
use crate::node::{Content, NodeId, ROOT};
use crate::op::Fd;
use crate::outcome::Outcome;
use crate::permission::WRITE;
use crate::walk::{Last, NAME_MAX, Parent};

/// One side of a rename after its walk.
struct Side {
    dir: NodeId,
    name: Vec<u8>,
    slash: bool,
}

impl Model {
    pub(crate) fn rename(
        &mut self,
        p: usize,
        (old_dirfd, old): (Fd, &[u8]),
        (new_dirfd, new): (Fd, &[u8]),
        flags: u32,
    ) -> Answer {
        let exchange = flags & RENAME_EXCHANGE != 0;
        let no_replace = flags & RENAME_NOREPLACE != 0;
        let whiteout = flags & RENAME_WHITEOUT != 0;
        let known = RENAME_EXCHANGE | RENAME_NOREPLACE | RENAME_WHITEOUT;
        if flags & !known != 0 || (exchange && (no_replace || whiteout)) {
            return Err(EINVAL);
        }
        if [old, new]
            .iter()
            .any(|path| path.split(|b| *b == b'/').any(|n| n.len() > NAME_MAX))
        {
            // It fails, but a filesystem may check either name before it walks to the other.
            return Ok(Outcome::Unspecified);
        }
        let old_parent = self.parent(p, old_dirfd, old)?;
        let new_parent = self.parent(p, new_dirfd, new)?;
        let from = side(old_parent).ok_or(EBUSY)?;
        let to = side(new_parent).ok_or(if no_replace { EEXIST } else { EBUSY })?;
        let source = self.child(from.dir, &from.name)?.ok_or(ENOENT)?;
        let target = self.child(to.dir, &to.name)?;
        self.check_names(&from, &to, source, target, flags)?;
        if target == Some(source) {
            return Ok(Outcome::Done);
        }
        self.check_rights(p, &from, &to, source, target, exchange)?;
        self.check_project(source, to.dir)?;
        if let Some(target) = target.filter(|_| exchange) {
            self.check_project(target, from.dir)?;
        }
        match target {
            Some(target) if exchange => {
                self.leave(from.dir, &from.name);
                self.leave(to.dir, &to.name);
                self.enter(from.dir, from.name, target);
                self.enter(to.dir, to.name, source);
                return Ok(Outcome::Done);
            }
            Some(target) => {
                if !self.is_empty(target) {
                    return Err(ENOTEMPTY);
                }
                self.leave(to.dir, &to.name);
                if self.node(target).is_dir() {
                    self.bury(target);
                }
            }
            None => {}
        }
        self.leave(from.dir, &from.name);
        self.enter(to.dir, to.name, source);
        if whiteout {
            let node = self.make(p, from.dir, Content::Char(0), 0);
            self.enter(from.dir, from.name, node);
        }
        Ok(Outcome::Done)
    }

    /// Decides what depends on the names alone.
    fn check_names(
        &self,
        from: &Side,
        to: &Side,
        source: NodeId,
        target: Option<NodeId>,
        flags: u32,
    ) -> Answer<()> {
        let exchange = flags & RENAME_EXCHANGE != 0;
        if flags & RENAME_NOREPLACE != 0 && target.is_some() {
            return Err(EEXIST);
        }
        if exchange {
            let target = target.ok_or(ENOENT)?;
            if to.slash && !self.node(target).is_dir() {
                return Err(ENOTDIR);
            }
        }
        if !self.node(source).is_dir() && (from.slash || (to.slash && !exchange)) {
            return Err(ENOTDIR);
        }
        if self.is_above(source, to.dir) {
            return Err(EINVAL);
        }
        if target.is_some_and(|target| self.is_above(target, from.dir)) {
            return Err(if exchange { EINVAL } else { ENOTEMPTY });
        }
        Ok(())
    }

    fn check_rights(
        &self,
        p: usize,
        from: &Side,
        to: &Side,
        source: NodeId,
        target: Option<NodeId>,
        exchange: bool,
    ) -> Answer<()> {
        let source_dir = self.node(source).is_dir();
        self.may_delete(p, from.dir, source, source_dir)?;
        match target {
            None => self.may_create(p, to.dir, false)?,
            Some(target) => {
                let as_dir = if exchange {
                    self.node(target).is_dir()
                } else {
                    source_dir
                };
                self.may_delete(p, to.dir, target, as_dir)?;
            }
        }
        if from.dir != to.dir {
            // A moved directory gets another "..".
            if source_dir {
                self.may(p, source, WRITE)?;
            }
            if let Some(target) = target.filter(|target| exchange && self.node(*target).is_dir()) {
                self.may(p, target, WRITE)?;
            }
        }
        Ok(())
    }

    /// Returns whether `above` is `dir` or one of its ancestors.
    fn is_above(&self, above: NodeId, mut dir: NodeId) -> bool {
        loop {
            if dir == above {
                return true;
            }
            match self.node(dir).directory() {
                Some(directory) if dir != ROOT => dir = directory.parent,
                _ => return false,
            }
        }
    }
}

fn side(parent: Parent) -> Option<Side> {
    match parent.last {
        Last::Name(name) => Some(Side {
            dir: parent.dir,
            name,
            slash: parent.slash,
        }),
        _ => None,
    }
}
