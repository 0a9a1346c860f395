//! Renames, charged.

use super::Quotas;
use super::names::Victim;
use super::projects::Leave;
use crate::node::Node;
use hearth::{Caller, Kind, Result};
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;
use rustix::fs::RenameFlags;

/// A name in a directory.
type NameIn<'a> = (&'a Arc<Node>, &'a [u8]);

impl Quotas {
    /// Runs a rename.
    ///
    /// # Errors
    /// `EXDEV` into another project; what is left by it cannot be kept, or looked at; `EDQUOT` and
    /// `ENOSPC` for a whiteout; those of `rename`.
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        (from, to): (NameIn<'_>, NameIn<'_>),
        how: RenameFlags,
        rename: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _under_way = self.begin();
        let leaves = self.check_rename(from, to, how)?;
        let victims = self.victims_of_rename(from, to, how)?;
        let done = match how.contains(RenameFlags::WHITEOUT) {
            true => self.leave_whiteout(caller, from, rename),
            false => rename(),
        };
        for (leave, at) in leaves.into_iter().zip([to, from]) {
            if let Some(leave) = leave
                && (done.is_ok() || self.may_lead_to(at, leave.id()))
            {
                leave.made();
            }
        }
        victims.into_iter().for_each(|victim| self.lost(victim));
        self.renamed(to.0, to.1);
        if how.contains(RenameFlags::EXCHANGE) {
            self.renamed(from.0, from.1);
        }
        done
    }

    /// What a rename replaces, and what moves while the tree is walked, which is counted now: the
    /// walk may find it at neither name.
    fn victims_of_rename(
        &self,
        from: NameIn<'_>,
        to: NameIn<'_>,
        how: RenameFlags,
    ) -> Result<Vec<Victim>> {
        let replaces = !how.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
        let is_walked = self.counting.is_on();
        let exchanges = is_walked && how.contains(RenameFlags::EXCHANGE);
        let mut victims = Vec::new();
        for (is_one, at) in [(replaces, to), (is_walked, from), (exchanges, to)] {
            if !is_one {
                continue;
            }
            match self.victim(at) {
                Ok(victim) => victims.extend(victim),
                Err(errno) => {
                    victims.into_iter().for_each(|victim| self.lost(victim));
                    return Err(errno);
                }
            }
        }
        Ok(victims)
    }

    /// Runs a rename that leaves an inode of its own at the old name.
    fn leave_whiteout(
        &self,
        caller: &Caller<'_>,
        from: NameIn<'_>,
        rename: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let reserved = self.reserve_new(caller, from.0, Kind::Char)?;
        rename().inspect_err(|_| self.charges.free(reserved.0, reserved.1))?;
        match self.tree.lookup(0, from.0, from.1) {
            Ok(attr) => {
                self.made(from.0, reserved, &attr);
                self.give_back(attr.ino);
            }
            Err(errno) => self.made_unseen(from, reserved, errno),
        }
        Ok(())
    }

    /// Checks a rename against projects. What leaves the tree of its project by it keeps it.
    fn check_rename(
        &self,
        (from, name): NameIn<'_>,
        (to, new_name): NameIn<'_>,
        flags: RenameFlags,
    ) -> Result<[Option<Leave<'_>>; 2]> {
        if !self.projects.any() || self.tree.keeps_projects() {
            return Ok([None, None]);
        }
        let reached = self.tree.reach(from)?;
        let found = self.tree.find(reached.as_fd(), name)?;
        let project = self.project_of_found(&found, from);
        if self.moves_within(from, to) {
            return Ok([None, None]);
        }
        self.may_enter(project, to)?;
        let mut other_leaves = None;
        if flags.contains(RenameFlags::EXCHANGE) {
            let reached = self.tree.reach(to)?;
            let other = self.tree.find(reached.as_fd(), new_name)?;
            let of_other = self.project_of_found(&other, to);
            self.may_enter(of_other, from)?;
            other_leaves = self.keep_project(&other.id, of_other, from)?;
        }
        Ok([self.keep_project(&found.id, project, to)?, other_leaves])
    }

    /// A directory that has moved is counted where it is. What has moved to where a change of
    /// project has been is changed as well.
    fn renamed(&self, to: &Arc<Node>, new_name: &[u8]) {
        if !self.counting.is_on() && !self.moving.is_on() {
            return;
        }
        let Ok(reached) = self.tree.reach(to) else {
            return;
        };
        if let Ok(found) = self.tree.find(reached.as_fd(), new_name)
            && let Some(node) = self.tree.nodes.known(&found.id)
        {
            if node.kind == Kind::Directory {
                self.counting.moved(Arc::clone(&node));
            }
            if self.moving.is_on() {
                self.moving.moved().add_renamed(node, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::errno::Done;
    use crate::{HostOptions, HostVfs};
    use hearth::{Caller, Errno, FsXAttr, ROOT, Vfs, Volume};
    use hearth_testing::place::Place;
    use rustix::fs::RenameFlags;
    use std::fs;

    /// Once, it belonged to no project from the next mount on.
    #[test]
    fn what_a_server_has_done_and_answered_with_an_error_stays_in_its_project() {
        let place = Place::new("quota-done-with-error").unwrap();
        let source = place.directory("source").unwrap();
        for name in ["in", "out"] {
            fs::create_dir(source.join(name)).unwrap();
        }
        for name in ["in/linked", "in/renamed", "in/refused"] {
            fs::write(source.join(name), "").unwrap();
        }
        let volume = Volume::builder().build().unwrap();
        let options = HostOptions {
            state: Some(place.directory("state").unwrap()),
            ..HostOptions::default()
        };
        let vfs = HostVfs::open(&source, options, &volume).unwrap();
        let vfs = vfs.with_quotas(&source, &volume, true, |_, _| ()).unwrap();
        let quotas = vfs.quotas.as_ref().unwrap();
        if vfs.tree.keeps_projects() {
            return;
        }
        let root = Caller::ROOT;
        let of = |parent, name: &[u8]| vfs.lookup(&root, parent, name).unwrap().ino;
        let (inside, outside) = (of(ROOT, b"in"), of(ROOT, b"out"));
        let project = FsXAttr {
            project: 5,
            ..vfs.get_fsxattr(inside).unwrap()
        };
        vfs.set_fsxattr(&root, inside, &project).unwrap();
        let (from, to) = (vfs.node(inside).unwrap(), vfs.node(outside).unwrap());
        let path = |name: &str| (source.join("in").join(name), source.join("out").join(name));
        let kept = |ino| quotas.projects.of(&vfs.node(ino).unwrap().id);

        let linked = of(inside, b"linked");
        let done: Done<()> = quotas.link(&vfs.node(linked).unwrap(), (&to, b"linked"), || {
            let (from, to) = path("linked");
            fs::hard_link(from, to).unwrap();
            Err(Errno::EIO)
        });
        assert_eq!((done, kept(linked)), (Err(Errno::EIO), Some(5)));

        let rename = |name: &str, is_done: bool| {
            let names = ((&from, name.as_bytes()), (&to, name.as_bytes()));
            quotas.rename(&root, names, RenameFlags::empty(), || {
                let (from, to) = path(name);
                if is_done {
                    fs::rename(from, to).unwrap();
                }
                Err(Errno::EIO)
            })
        };
        for (name, is_done, line) in [("renamed", true, Some(5)), ("refused", false, None)] {
            let ino = of(inside, name.as_bytes());
            assert_eq!((rename(name, is_done), kept(ino)), (Err(Errno::EIO), line));
        }
    }
}
