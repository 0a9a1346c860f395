//! Closing everything and opening it again: what an unmount and a mount do to processes that then
//! go on where they were.

use std::collections::BTreeMap;

use crate::bytes::Bytes;
use crate::model::Model;
use crate::node::{NodeId, ROOT};
use crate::op::{CWD, Fd, Op};
use crate::outcome::Outcome;
use crate::process::{Credentials, FileId};
use crate::system::PROCESSES;

/// Flags that make or change a file when it is opened.
const AT_OPEN: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC;

/// What a process had before everything was closed.
#[derive(Debug)]
pub struct Former {
    /// Its index.
    pub process: usize,
    credentials: Credentials,
    umask: u32,
    cwd: Option<Bytes>,
    root: Option<Bytes>,
    files: Vec<FormerFile>,
}

/// An open file description of it whose inode has a path.
#[derive(Debug)]
struct FormerFile {
    path: Bytes,
    flags: i32,
    offset: u64,
    /// Descriptors, rising, and whether `execve` closes them.
    fds: Vec<(Fd, bool)>,
}

impl Model {
    /// Closes every descriptor, so that inodes without a name end and locks go, and puts each
    /// process that has not ended where one begins: see [`PROCESSES`]. Returns what they had, for
    /// [`Former::resume`]. Processes must share no descriptions, as after a fork.
    pub fn remounted(&mut self) -> Vec<Former> {
        let mut paths: BTreeMap<NodeId, Bytes> = BTreeMap::new();
        for (path, ino) in self.numbers() {
            paths.entry(ino).or_insert(path);
        }
        let living = (0..self.processes.len()).filter(|&p| self.processes[p].is_some());
        let living: Vec<usize> = living.collect();
        let former: Vec<Former> = living.iter().map(|&p| self.former(p, &paths)).collect();
        for p in living {
            for fd in self.process(p).fds.keys().copied().collect::<Vec<Fd>>() {
                self.apply(p, &Op::Close { fd });
            }
            let (uid, gid, groups) = PROCESSES[p];
            let groups = groups.to_vec();
            self.apply(p, &Op::SetCredentials { uid, gid, groups });
            let process = self.process_mut(p);
            process.umask = 0o022;
            (process.cwd, process.root) = (ROOT, ROOT);
        }
        former
    }

    fn former(&self, p: usize, paths: &BTreeMap<NodeId, Bytes>) -> Former {
        let process = self.process(p);
        let mut fds: BTreeMap<FileId, Vec<(Fd, bool)>> = BTreeMap::new();
        for (&fd, slot) in &process.fds {
            fds.entry(slot.file).or_default().push((fd, slot.cloexec));
        }
        let file = |(id, fds): (FileId, Vec<(Fd, bool)>)| {
            let file = &self.files[&id];
            Some(FormerFile {
                path: paths.get(&file.node)?.clone(),
                flags: file.flags & !AT_OPEN,
                offset: file.offset,
                fds,
            })
        };
        let mut files: Vec<FormerFile> = fds.into_iter().filter_map(file).collect();
        files.sort_by_key(|file| file.fds[0].0);
        Former {
            process: p,
            credentials: process.credentials.clone(),
            umask: process.umask,
            cwd: paths.get(&process.cwd).cloned(),
            root: paths.get(&process.root).cloned(),
            files,
        }
    }
}

impl Former {
    /// Makes the calls that bring the process where it was, as far as that still exists. `call`
    /// makes one, and returns its outcome.
    ///
    /// # Errors
    /// The first error of `call`.
    pub fn resume<E>(&self, call: &mut dyn FnMut(&Op) -> Result<Outcome, E>) -> Result<(), E> {
        let (uid, gid, groups) = (0, 0, Vec::new());
        call(&Op::SetCredentials { uid, gid, groups })?;
        for file in &self.files {
            file.resume(call)?;
        }
        if let Some(path) = self.cwd.clone() {
            call(&Op::ChangeDir { path })?;
        }
        if let Some(path) = self.root.clone() {
            call(&Op::ChangeRoot { path })?;
        }
        call(&Op::Umask { mask: self.umask })?;
        let Credentials { uid, gid, groups } = self.credentials.clone();
        call(&Op::SetCredentials { uid, gid, groups }).map(drop)
    }
}

impl FormerFile {
    fn resume<E>(&self, call: &mut dyn FnMut(&Op) -> Result<Outcome, E>) -> Result<(), E> {
        let open = Op::Open {
            dirfd: CWD,
            path: self.path.clone(),
            flags: self.flags,
            mode: 0,
        };
        // Who opened it had other rights, or the file has other flags by now.
        let Outcome::Fd(opened) = call(&open)? else {
            return Ok(());
        };
        for &(to, cloexec) in self.fds.iter().filter(|(fd, _)| *fd != opened) {
            let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
            call(&Op::Dup3 {
                fd: opened,
                to,
                flags,
            })?;
        }
        if self.fds.iter().all(|(fd, _)| *fd != opened) {
            call(&Op::Close { fd: opened })?;
        }
        let seek = Op::Seek {
            fd: self.fds[0].0,
            offset: self.offset as i64,
            whence: libc::SEEK_SET,
        };
        call(&seek).map(drop)
    }
}
