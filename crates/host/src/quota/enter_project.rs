//! A directory, and all below, becomes a project.

use super::walk::{Seen, Start};
use super::{Membership, Quotas};
use crate::attributes;
use crate::identity::Identity;
use crate::node::Node;
use hearth::{Errno, KeepError, Kind, Owners, Result, SetProjectError, TreeChange};
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use std::collections::HashSet;

impl Quotas {
    /// Makes the directory that programs know by this number, and all below, a project.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, those of the walk. It cannot be written down of which project the
    /// directory is, and nothing has changed; or of which a file is that has names elsewhere, or
    /// not for certain, and all has changed until the unmount.
    pub fn enter_project(
        &self,
        ino: u64,
        project: u32,
    ) -> std::result::Result<TreeChange, SetProjectError> {
        let tree = &self.tree;
        let root = tree.nodes.root();
        let is = |id: &Identity| tree.shown(id.dev, id.ino) == ino;
        let top = match is(&root.id) {
            true => Arc::clone(root),
            false => tree.nodes.find(is).ok_or(Errno::ENOENT)?,
        };
        if top.kind != Kind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let reached = tree.reach(&top)?;
        let change = self.moving.lock();
        let before = self.membership(&top);
        let is_beside = !tree.keeps_projects();
        let mut done = TreeChange::default();
        let mut linked = HashSet::new();
        let mut unkept = None;
        if is_beside {
            change.begin(&top.id, before.project, project);
            // They have not seen that it goes on.
            self.under_way.wait();
            // Who makes something in what has been moved does so in the new project.
            self.projects.set(&top.id, project)?;
        }
        let start = Start {
            top: reached.as_fd(),
            member: before,
            opens_all: true,
        };
        let mut see = |seen: &Seen<'_>| {
            let Some(id) = seen.id else { return Ok(()) };
            let is_linked = seen.kind != Kind::Directory && seen.stat.stx_nlink > 1;
            let moved = match is_beside {
                true => self
                    .move_beside(seen, id, is_linked, (&top.id, project))
                    .map(|kept| unkept = unkept.take().or(kept.err())),
                // By another of its names.
                false if is_linked && !linked.insert((id.dev, id.ino)) => Ok(()),
                false => self.move_to_project(seen, id, project),
            };
            match moved {
                // Before Linux 6.17 only files and directories can be told.
                Err(Errno::EOPNOTSUPP) if *id != top.id => done.kept += 1,
                Err(errno) => return Err(errno),
                Ok(()) if seen.project == project => done.kept += 1,
                Ok(()) => done.changed += 1,
            }
            Ok(())
        };
        self.walk(start, &mut see)?;
        loop {
            if is_beside {
                // They may have gone by the project of before. Those that begin from now on find
                // what the walk has moved.
                self.under_way.wait();
            }
            let mut is_over = true;
            let renamed = self.moving.moved().take_renamed();
            for node in renamed {
                let member = self.membership(&node);
                // What is gone meanwhile is left out, as a walk does.
                if member.project != project
                    && let Ok(reached) = tree.reach(&node)
                {
                    let start = Start {
                        top: reached.as_fd(),
                        member,
                        opens_all: true,
                    };
                    self.walk(start, &mut see)?;
                    is_over = false;
                }
            }
            if is_over {
                self.keep_left();
                // Nobody else waits for the disk.
                drop(change);
                self.projects.make_durable()?;
                return unkept.map_or(Ok(done), |error| Err(error.into()));
            }
        }
    }

    /// What was renamed out of the tree meanwhile belongs to its project wherever it is: the walk
    /// may have moved it just before.
    fn keep_left(&self) {
        let left = self.moving.moved().take_left();
        for (node, parent) in left {
            if let Ok(mut touched) = self.touch(&node)
                && touched.record().amounts[1] > 0
                && self.leaves_project(self.project(&node), &parent)
            {
                // There is the name already; the log hears of it.
                let _ = self.projects.hold(&node.id, self.project(&node));
            }
        }
    }

    /// Charges what a walk has come to to the new project, where projects are written down beside.
    /// A lookup from now on gives the inode the new project. One that was looked up before keeps
    /// the old one until its record is moved. Returns whether that is written down.
    fn move_beside(
        &self,
        seen: &Seen<'_>,
        id: &Identity,
        is_linked: bool,
        (top, project): (&Identity, u32),
    ) -> Result<std::result::Result<(), KeepError>> {
        let mut moved = self.moving.moved();
        let known = self.tree.nodes.known(id);
        if let Some(node) = &known {
            node.charged.learn(Membership::inherited(seen.project));
        }
        let what = (id, seen.kind);
        let is_first = moved.add(what, seen.project, is_linked, known.is_none());
        // Before anybody else finds it. A directory may say something else at its other names.
        let mut kept = Ok(());
        match is_linked {
            true => kept = self.projects.hold(id, project),
            false if id == top => {}
            false => self.projects.unset(id),
        }
        drop(moved);
        if !is_first {
            return Ok(kept);
        }
        let is_known = known.is_some();
        self.move_known(seen, known, project, || Ok(()))?;
        // Whoever linked it since the walk has seen it may have read the project of before.
        let now = seen.fd.filter(|_| is_known).map(attributes::stat);
        let is_linked_now = now.is_some_and(|now| now.is_ok_and(|now| now.stx_nlink > 1));
        if is_linked_now && !is_linked && seen.kind != Kind::Directory {
            kept = self.projects.hold(id, project);
        }
        Ok(kept)
    }

    /// Whether a rename stays within the tree whose project is being changed. What it moves need
    /// not be of one project yet.
    pub fn moves_within(&self, from: &Arc<Node>, to: &Arc<Node>) -> bool {
        self.moving.is_on() && self.is_below_moved(from) && self.is_below_moved(to)
    }

    fn is_below_moved(&self, directory: &Arc<Node>) -> bool {
        let Ok(reached) = self.tree.reach(directory) else {
            return false;
        };
        let (root, mut at) = (self.tree.nodes.root().id, None::<OwnedFd>);
        loop {
            let fd = at.as_ref().map_or(reached.as_fd(), AsFd::as_fd);
            let Ok(stat) = attributes::stat(fd) else {
                return false;
            };
            let id = Identity::of(fd, &stat);
            if self.moving.moved().has(&id) {
                return true;
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match openat(fd, "..", flags, Mode::empty()) {
                Ok(above) if id != root => at = Some(above),
                _ => return false,
            }
        }
    }

    /// Charges what a walk has come to to another project, which the filesystem keeps.
    fn move_to_project(&self, seen: &Seen<'_>, id: &Identity, project: u32) -> Result<()> {
        let set = || match seen.fd {
            Some(fd) => self.tree.set_project(fd, seen.kind, project),
            None => Ok(()),
        };
        let root = self.tree.nodes.root();
        // A lookup meanwhile must not read the project of before: so the inode has a node, whose
        // record is locked.
        let takes = self.tree.opens_handles_of(id) && *id != root.id;
        let taken = takes.then(|| self.tree.nodes.take(*id, seen.kind, None));
        let known = match *id == root.id {
            true => Some(Arc::clone(root)),
            false => taken.clone().or_else(|| self.tree.nodes.known(id)),
        };
        let moved = self.move_known(seen, known, project, set);
        if let Some(node) = taken {
            self.give_back(node.number);
        }
        moved
    }

    fn move_known(
        &self,
        seen: &Seen<'_>,
        known: Option<Arc<Node>>,
        project: u32,
        set: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(node) = known else {
            set()?;
            let (from, amounts) = self.seen_amounts(seen);
            // Forced: a tree becomes a project even above its limits.
            let _ = self
                .charges
                .transfer(from, Owners { project, ..from }, amounts, true);
            return Ok(());
        };
        node.charged.learn(Membership::inherited(seen.project));
        let mut touched = match self.touch(&node) {
            Err(Errno::ESTALE) => return Ok(()),
            touched => touched?,
        };
        set()?;
        node.charged.set_membership(Membership {
            project,
            passes_on: !self.tree.keeps_projects() || node.kind == Kind::Directory && project != 0,
        });
        if let Some(fd) = seen.fd {
            self.settle(&mut touched, fd);
        }
        Ok(())
    }
}
