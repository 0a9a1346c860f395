//! Directories, credentials and life of a process.

use libc::{ENOENT, ENOTDIR, EPERM};

use crate::bytes::Bytes;
use crate::model::{Answer, FREE, Model};
use crate::node::{NodeId, ROOT};
use crate::op::{CWD, Fd};
use crate::outcome::Outcome;
use crate::permission::EXEC;
use crate::process::Credentials;

impl Model {
    pub(crate) fn change_dir(&mut self, p: usize, path: &[u8]) -> Answer {
        let dir = self.enterable(p, path)?;
        self.process_mut(p).cwd = dir;
        Ok(Outcome::Done)
    }

    pub(crate) fn change_dir_fd(&mut self, p: usize, fd: Fd) -> Answer {
        let dir = self.any_file(p, fd)?.node;
        if !self.node(dir).is_dir() {
            return Err(ENOTDIR);
        }
        self.may(p, dir, EXEC)?;
        self.process_mut(p).cwd = dir;
        Ok(Outcome::Done)
    }

    /// A current directory that is removed or outside the root has no path.
    pub(crate) fn get_cwd(&mut self, p: usize) -> Answer {
        let process = self.process(p);
        let mut path: Vec<u8> = Vec::new();
        let mut dir = process.cwd;
        if self.is_removed(dir) {
            return Err(ENOENT);
        }
        while dir != process.root {
            if dir == ROOT {
                return Err(ENOENT);
            }
            let parent = self.node(dir).directory().ok_or(ENOTDIR)?.parent;
            let siblings = &self.node(parent).directory().ok_or(ENOTDIR)?.entries;
            let (name, _) = siblings.iter().find(|(_, id)| **id == dir).ok_or(ENOENT)?;
            path = [b"/", &name[..], &path].concat();
            dir = parent;
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(Outcome::Data(Bytes(path)))
    }

    pub(crate) fn change_root(&mut self, p: usize, path: &[u8]) -> Answer {
        let dir = self.enterable(p, path)?;
        if !self.credentials(p).is_root() {
            return Err(EPERM);
        }
        self.process_mut(p).root = dir;
        Ok(Outcome::Done)
    }

    pub(crate) fn umask(&mut self, p: usize, mask: u32) -> Answer {
        let old = std::mem::replace(&mut self.process_mut(p).umask, mask & 0o777);
        Ok(Outcome::Number(u64::from(old)))
    }

    pub(crate) fn set_credentials(
        &mut self,
        p: usize,
        uid: u32,
        gid: u32,
        groups: &[u32],
    ) -> Answer {
        let identity = self.number();
        let process = self.process_mut(p);
        process.credentials = Credentials {
            uid,
            gid,
            groups: groups.to_vec(),
        };
        process.identity = identity;
        Ok(Outcome::Done)
    }

    /// The child shares the open file descriptions, not the descriptors and not the record locks.
    pub(crate) fn fork(&mut self, p: usize) -> Answer {
        let child = self.process(p).clone();
        for slot in child.fds.values() {
            self.files
                .get_mut(&slot.file)
                .expect("a slot keeps its file")
                .slots += 1;
        }
        self.processes.push(Some(child));
        Ok(Outcome::Process(self.processes.len() - 1))
    }

    /// Waiting threads would have to be ended first, which is not a call of the filesystem.
    pub(crate) fn exit(&mut self, p: usize) -> Answer {
        if self.waiting().any(|(_, process)| process == p) {
            return Err(FREE);
        }
        let fds: Vec<Fd> = self.process(p).fds.keys().copied().collect();
        for fd in fds {
            self.drop_slot(p, fd)?;
        }
        self.processes[p] = None;
        Ok(Outcome::Done)
    }

    /// Returns a directory that the process may make its own.
    fn enterable(&mut self, p: usize, path: &[u8]) -> Answer<NodeId> {
        let dir = self.lookup(p, CWD, path, true)?;
        if !self.node(dir).is_dir() {
            return Err(ENOTDIR);
        }
        self.may(p, dir, EXEC)?;
        Ok(dir)
    }
}
