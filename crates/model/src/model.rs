//! The whole state of the model and the dispatch of operations.

use std::collections::BTreeMap;

use crate::locks::Locks;
use crate::node::{Content, Directory, Node, NodeId, ROOT};
use crate::op::{Fd, Op};
use crate::outcome::{Outcome, Stamp};
use crate::process::{Credentials, FileId, OpenFile, Process, Slot};
use crate::quota::Quota;
use crate::waiting_lock::WaitingLock;

/// Result of an operation inside the model: errno on failure.
pub(crate) type Answer<T = Outcome> = Result<T, i32>;

/// Stands for [`Outcome::Unspecified`] where only an errno can be returned.
pub(crate) const FREE: i32 = i32::MIN;

/// A filesystem with its processes, one operation at a time.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) files: BTreeMap<FileId, OpenFile>,
    pub(crate) processes: Vec<Option<Process>>,
    pub(crate) locks: BTreeMap<NodeId, Locks>,
    /// Lock requests that wait, oldest first.
    pub(crate) waiting_locks: Vec<WaitingLock>,
    /// Results of lock requests that no longer wait, until they are asked for.
    pub(crate) ended: Vec<(u64, Outcome)>,
    /// Since the last look, a description ended that had record locks.
    pub(crate) ended_unlocked: bool,
    /// The quota state; `None` without quotas.
    pub quota: Option<Quota>,
    /// Set to refuse hard links like `fs.protected_hardlinks`.
    pub protects_hardlinks: bool,
    /// Set if Linux's FUSE is in front, which does not pass everything on.
    pub is_mounted: bool,
    last_number: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// Returns an empty filesystem: a root directory 0755 of root, no process.
    pub fn new() -> Model {
        let content = Content::Directory(Directory {
            entries: BTreeMap::new(),
            parent: ROOT,
            removed: false,
        });
        Model {
            nodes: BTreeMap::from([(
                ROOT,
                Node {
                    nlink: 2,
                    ..new_node(content, 0o755, 0, 0)
                },
            )]),
            files: BTreeMap::new(),
            processes: Vec::new(),
            locks: BTreeMap::new(),
            waiting_locks: Vec::new(),
            ended: Vec::new(),
            ended_unlocked: false,
            quota: None,
            protects_hardlinks: false,
            is_mounted: false,
            last_number: ROOT,
        }
    }

    /// Adds a process in the root directory with umask 022 and no descriptor; returns its index.
    pub fn add_process(&mut self, uid: u32, gid: u32, groups: &[u32]) -> usize {
        let identity = self.number();
        self.processes.push(Some(Process {
            credentials: Credentials {
                uid,
                gid,
                groups: groups.to_vec(),
            },
            identity,
            umask: 0o022,
            cwd: ROOT,
            root: ROOT,
            fds: BTreeMap::new(),
        }));
        self.processes.len() - 1
    }

    /// Applies one operation of process `p`. A process that does not exist (any more) gets
    /// [`Outcome::Unspecified`].
    pub fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        if self.processes.get(p).is_none_or(Option::is_none) {
            return Outcome::Unspecified;
        }
        // A walk moves access times of symlinks; an unspecified operation must not.
        let before = self.clone();
        let done = self.dispatch(p, op);
        let outcome = match self.within_limits(&before, p, op, done) {
            Err(FREE) => Outcome::Unspecified,
            Err(errno) => Outcome::Error(errno),
            Ok(outcome) => outcome,
        };
        if outcome == Outcome::Unspecified {
            *self = before;
        }
        outcome
    }

    #[rustfmt::skip] // One line per operation reads as a table.
    fn dispatch(&mut self, p: usize, op: &Op) -> Answer {
        match op {
            Op::Open { dirfd, path, flags, mode } => self.open(p, *dirfd, path, *flags, *mode),
            Op::Close { fd } => self.close(p, *fd),
            Op::Dup { fd } => self.dup(p, *fd, 0, false),
            Op::Dup2 { fd, to } => self.dup2(p, *fd, *to),
            Op::Dup3 { fd, to, flags } => self.dup3(p, *fd, *to, *flags),
            Op::DupFrom { fd, least, cloexec } => self.dup(p, *fd, *least, *cloexec),
            Op::GetFdFlags { fd } => self.get_fd_flags(p, *fd),
            Op::SetFdFlags { fd, cloexec } => self.set_fd_flags(p, *fd, *cloexec),
            Op::GetStatus { fd } => self.get_status(p, *fd),
            Op::SetStatus { fd, flags } => self.set_status(p, *fd, *flags),
            Op::Read { fd, len } => self.read(p, *fd, &[*len]),
            Op::ReadV { fd, lens } => self.read_vector(p, *fd, lens, None),
            Op::ReadAt { fd, len, offset } => self.read_at(p, *fd, &[*len], *offset),
            Op::ReadVAt { fd, lens, offset } => self.read_vector(p, *fd, lens, Some(*offset)),
            Op::Write { fd, data } => self.write(p, *fd, &data.bytes()),
            Op::WriteV { fd, parts } => self.write(p, *fd, &joined(parts)),
            Op::WriteAt { fd, data, offset } => self.write_at(p, *fd, &data.bytes(), *offset),
            Op::WriteVAt { fd, parts, offset } => self.write_at(p, *fd, &joined(parts), *offset),
            Op::Seek { fd, offset, whence } => self.seek(p, *fd, *offset, *whence),
            Op::Truncate { path, len } => self.truncate(p, path, *len),
            Op::TruncateFd { fd, len } => self.truncate_fd(p, *fd, *len),
            Op::Allocate { fd, mode, offset, len } => self.allocate(p, *fd, *mode, *offset, *len),
            Op::Copy { from, from_at, to, to_at, len, flags } =>
                self.copy(p, (*from, *from_at), (*to, *to_at), *len, *flags),
            Op::Sync { fd, .. } => self.sync(p, *fd),
            Op::SyncFs { fd } => self.sync_fs(p, *fd),
            Op::Stat { dirfd, path, flags } => self.stat(p, *dirfd, path, *flags),
            Op::StatFd { fd } => self.stat_fd(p, *fd),
            Op::StatX { dirfd, path, flags, mask } => self.statx(p, *dirfd, path, *flags, *mask),
            Op::Access { dirfd, path, mask, flags } => self.access(p, *dirfd, path, *mask, *flags),
            Op::Chmod { dirfd, path, mode, flags } => self.chmod(p, *dirfd, path, *mode, *flags),
            Op::ChmodFd { fd, mode } => self.chmod_fd(p, *fd, *mode),
            Op::Chown { dirfd, path, uid, gid, flags } =>
                self.chown(p, *dirfd, path, (*uid, *gid), *flags),
            Op::ChownFd { fd, uid, gid } => self.chown_fd(p, *fd, (*uid, *gid)),
            Op::SetTimes { dirfd, path, times, flags } =>
                self.set_times(p, *dirfd, path, *times, *flags),
            Op::SetTimesFd { fd, times } => self.set_times_fd(p, *fd, *times),
            Op::GetFlags { fd } => self.get_flags(p, *fd),
            Op::SetFlags { fd, flags } => self.set_flags(p, *fd, *flags),
            Op::GetProject { fd } => self.get_project(p, *fd),
            Op::SetProject { fd, xflags, project } => self.set_project(p, *fd, *xflags, *project),
            Op::Link { old_dirfd, old, new_dirfd, new, flags } =>
                self.link(p, (*old_dirfd, old), (*new_dirfd, new), *flags),
            Op::Symlink { target, dirfd, path } => self.symlink(p, target, *dirfd, path),
            Op::ReadLink { dirfd, path } => self.read_link(p, *dirfd, path),
            Op::Unlink { dirfd, path, flags } => self.unlink_at(p, *dirfd, path, *flags),
            Op::MakeDir { dirfd, path, mode } => self.make_dir(p, *dirfd, path, *mode),
            Op::MakeNode { dirfd, path, mode, rdev } =>
                self.make_node(p, *dirfd, path, *mode, *rdev),
            Op::Rename { old_dirfd, old, new_dirfd, new, flags } =>
                self.rename(p, (*old_dirfd, old), (*new_dirfd, new), *flags),
            Op::List { path } => self.list(p, path),
            Op::ListFd { fd, .. } => self.list_fd(p, *fd),
            Op::GetXattr { target, name } => self.get_xattr(p, target, name),
            Op::SetXattr { target, name, value, flags } =>
                self.set_xattr(p, target, name, value, *flags),
            Op::ListXattr { target } => self.list_xattr(p, target),
            Op::RemoveXattr { target, name } => self.remove_xattr(p, target, name),
            Op::Flock { fd, op } => self.flock(p, *fd, *op),
            Op::SetLock { fd, lock } => self.set_lock(p, *fd, lock),
            Op::GetLock { fd, lock } => self.get_lock(p, *fd, lock),
            Op::ChangeDir { path } => self.change_dir(p, path),
            Op::ChangeDirFd { fd } => self.change_dir_fd(p, *fd),
            Op::GetCwd => self.get_cwd(p),
            Op::ChangeRoot { path } => self.change_root(p, path),
            Op::Umask { mask } => self.umask(p, *mask),
            Op::SetCredentials { uid, gid, groups } => self.set_credentials(p, *uid, *gid, groups),
            Op::Fork => self.fork(p),
            Op::Exit => self.exit(p),
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("nodes are never removed")
    }

    pub(crate) fn process(&self, p: usize) -> &Process {
        self.processes[p]
            .as_ref()
            .expect("apply checked that the process lives")
    }

    pub(crate) fn process_mut(&mut self, p: usize) -> &mut Process {
        self.processes[p]
            .as_mut()
            .expect("apply checked that the process lives")
    }

    pub(crate) fn credentials(&self, p: usize) -> &Credentials {
        &self.process(p).credentials
    }

    pub(crate) fn slot(&self, p: usize, fd: Fd) -> Answer<Slot> {
        self.process(p).fds.get(&fd).copied().ok_or(libc::EBADF)
    }

    /// Returns the open file of `fd`, `O_PATH` ones included.
    pub(crate) fn any_file(&self, p: usize, fd: Fd) -> Answer<&OpenFile> {
        Ok(&self.files[&self.slot(p, fd)?.file])
    }

    /// Returns the open file of `fd`; an `O_PATH` descriptor counts as not open.
    pub(crate) fn file(&self, p: usize, fd: Fd) -> Answer<&OpenFile> {
        self.any_file(p, fd).and_then(|file| {
            if file.is_path() {
                Err(libc::EBADF)
            } else {
                Ok(file)
            }
        })
    }

    pub(crate) fn file_mut(&mut self, p: usize, fd: Fd) -> Answer<&mut OpenFile> {
        let id = self.slot(p, fd)?.file;
        Ok(self.files.get_mut(&id).expect("a slot keeps its file"))
    }

    /// Returns a number that was never used before.
    pub(crate) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(crate) fn add_node(&mut self, node: Node) -> NodeId {
        let id = self.number();
        self.nodes.insert(id, node);
        id
    }
}

/// Returns an inode without names, links or attributes of its own.
pub(crate) fn new_node(content: Content, perm: u16, uid: u32, gid: u32) -> Node {
    Node {
        perm,
        uid,
        gid,
        nlink: 0,
        atime: Stamp::Now,
        mtime: Stamp::Now,
        flags: 0,
        project: 0,
        xattrs: BTreeMap::new(),
        acl: None,
        default_acl: None,
        content,
        linkable: false,
    }
}

pub(crate) fn joined(parts: &[crate::op::Fill]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.bytes()).collect()
}
