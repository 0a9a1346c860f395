//! The state that a later operation could observe, except for numbers that a system chooses.

use std::collections::BTreeMap;

use crate::bytes::{Bytes, bytes};
use crate::locks::Owner;
use crate::model::Model;
use crate::node::{Node, NodeId, ROOT};
use crate::op::Fd;
use crate::outcome::Stamp;
use crate::process::{FileId, Slot};
use crate::tree::{Tree, TreeEntry};

/// The whole state in canonical form: two states are equal if no operation distinguishes them,
/// apart from inode numbers and process numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    tree: Tree,
    /// Unlinked inodes that are still in use, by first use.
    nameless: Vec<TreeEntry>,
    /// Open file descriptions, by first use.
    files: Vec<File>,
    /// In the caller's order; `None` has ended.
    processes: Vec<Option<ProcessView>>,
    /// Holders of `flock` locks: description and whether exclusive.
    locks: Vec<(usize, bool)>,
    records: Vec<RecordView>,
}

/// A record lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RecordView {
    node: Called,
    holder: Holder,
    write: bool,
    /// First and last byte.
    range: (u64, u64),
}

/// The holder of a record lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    /// A process, by its place in the caller's list; `None` if it is not listed.
    ProcessView(Option<usize>),
    /// An open file description, by first use.
    File(usize),
}

/// The canonical name of an inode: its first path, or its place among the unlinked ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Called {
    Path(Bytes),
    Nameless(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    node: Called,
    flags: i32,
    offset: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessView {
    umask: u32,
    places: [Called; 2],
    /// Description and close-on-exec of each descriptor.
    fds: BTreeMap<Fd, (usize, bool)>,
}

impl Model {
    /// Returns the current state, with the processes of `order`.
    pub fn state(&self, order: &[usize]) -> State {
        let mut naming = Naming {
            model: self,
            paths: BTreeMap::new(),
            nameless: Vec::new(),
            files: Vec::new(),
            open: Vec::new(),
        };
        naming.walk(ROOT, b"/");
        let processes = order.iter().map(|&p| naming.process(p)).collect();
        let locks = naming.locks();
        let records = naming.records(order);
        let nameless = naming.nameless.iter().map(|&id| {
            let mut entry = self.entry(id);
            entry.attr.ino = 0;
            entry
        });
        State {
            tree: self.snapshot(),
            nameless: nameless.collect(),
            files: naming.open,
            processes,
            locks,
            records,
        }
    }

    /// Returns the inodes in use, unlinked ones included, and the pages that hold data: what
    /// `statfs` counts.
    pub fn usage(&self) -> (u64, u64) {
        let open = |id: NodeId| self.files.values().any(|file| file.node == id);
        let stands = |id: NodeId| {
            let mut living = self.processes.iter().flatten();
            living.any(|process| process.cwd == id || process.root == id)
        };
        let named = |node: &Node| match node.directory() {
            Some(directory) => !directory.removed,
            None => node.nlink > 0,
        };
        let used = |(id, node): &(&NodeId, &Node)| named(node) || open(**id) || stands(**id);
        let each = self.nodes.iter().filter(used);
        each.fold((0, 0), |(inodes, pages), (_, node)| {
            let more = node.pages().map_or(0, |pages| pages.allocated());
            (inodes + 1, pages + more)
        })
    }

    /// Returns the number of the inode of each absolute path.
    pub fn numbers(&self) -> BTreeMap<Bytes, u64> {
        let mut found = BTreeMap::from([(bytes("/"), ROOT)]);
        let mut left = vec![(Vec::new(), ROOT)];
        while let Some((path, id)) = left.pop() {
            let entries = self.node(id).directory().map(|dir| &dir.entries);
            for (name, &child) in entries.into_iter().flatten() {
                let path = [&path[..], b"/", name].concat();
                found.insert(bytes(&path), child);
                left.push((path, child));
            }
        }
        found
    }

    /// Returns the number of each regular file, unlinked ones included, with its size and the pages
    /// that are not all zero.
    pub fn contents(&self) -> BTreeMap<u64, (u64, BTreeMap<u64, Bytes>)> {
        let contents = |(&id, node): (&NodeId, &Node)| {
            let pages = node.pages()?;
            let nonzero = pages.nonzero().into_iter();
            let nonzero = nonzero.map(|(page, bytes)| (page, Bytes(bytes)));
            Some((id, (pages.size(), nonzero.collect())))
        };
        self.nodes.iter().filter_map(contents).collect()
    }

    /// Returns when the contents of an inode were changed last. Panics if there is none.
    pub fn modified(&self, number: u64) -> Stamp {
        self.node(number).mtime
    }

    /// Returns the number of the inode at an absolute path, symlinks not followed.
    pub fn number_at(&self, path: &[u8]) -> Option<u64> {
        let mut names = path.split(|&b| b == b'/').filter(|name| !name.is_empty());
        names.try_fold(ROOT, |id, name| {
            self.node(id).directory()?.entries.get(name).copied()
        })
    }

    /// Returns the number of the inode that process `p` has open as `fd`.
    pub fn number_of(&self, p: usize, fd: Fd) -> Option<u64> {
        let slot = self.processes.get(p)?.as_ref()?.fds.get(&fd)?;
        Some(self.files.get(&slot.file)?.node)
    }
}

struct Naming<'a> {
    model: &'a Model,
    paths: BTreeMap<NodeId, Bytes>,
    nameless: Vec<NodeId>,
    files: Vec<FileId>,
    open: Vec<File>,
}

impl Naming<'_> {
    fn walk(&mut self, id: NodeId, path: &[u8]) {
        self.paths.entry(id).or_insert_with(|| bytes(path));
        let Some(directory) = self.model.node(id).directory() else {
            return;
        };
        for (name, &child) in &directory.entries {
            let slash: &[u8] = if path == b"/" { b"" } else { b"/" };
            self.walk(child, &[path, slash, name].concat());
        }
    }

    fn node(&mut self, id: NodeId) -> Called {
        if let Some(path) = self.paths.get(&id) {
            return Called::Path(path.clone());
        }
        Called::Nameless(place(&mut self.nameless, id).0)
    }

    fn file(&mut self, id: FileId) -> usize {
        let (at, is_new) = place(&mut self.files, id);
        if is_new {
            let file = &self.model.files[&id];
            let node = self.node(file.node);
            self.open.push(File {
                node,
                flags: file.flags,
                offset: file.offset,
            });
        }
        at
    }

    fn process(&mut self, p: usize) -> Option<ProcessView> {
        let process = self.model.processes.get(p)?.as_ref()?;
        let places = [process.cwd, process.root].map(|id| self.node(id));
        let mut slot = |(&fd, slot): (&Fd, &Slot)| (fd, (self.file(slot.file), slot.cloexec));
        Some(ProcessView {
            umask: process.umask,
            places,
            fds: process.fds.iter().map(&mut slot).collect(),
        })
    }

    fn locks(&mut self) -> Vec<(usize, bool)> {
        let whole = self.model.locks.values().flat_map(|locks| locks.whole());
        let mut held: Vec<_> = whole
            .map(|&(file, exclusive)| (self.file(file), exclusive))
            .collect();
        held.sort_unstable();
        held
    }

    fn records(&mut self, order: &[usize]) -> Vec<RecordView> {
        let model = self.model;
        let mut held = Vec::new();
        for (&id, locks) in &model.locks {
            for record in locks.records() {
                let holder = match record.owner {
                    Owner::Process(p) => Holder::ProcessView(order.iter().position(|&q| q == p)),
                    Owner::File(file) => Holder::File(self.file(file)),
                };
                held.push(RecordView {
                    node: self.node(id),
                    holder,
                    write: record.write,
                    range: (record.start, record.end),
                });
            }
        }
        held.sort_unstable();
        held
    }
}

/// Returns the place of `id` in `list`, which is appended if it is new.
fn place(list: &mut Vec<u64>, id: u64) -> (usize, bool) {
    match list.iter().position(|&other| other == id) {
        Some(at) => (at, false),
        None => {
            list.push(id);
            (list.len() - 1, true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{CWD, LockKind, LockSpec, Op};

    fn open(path: &str) -> Op {
        Op::Open {
            dirfd: CWD,
            path: bytes(path),
            flags: libc::O_CREAT | libc::O_RDWR,
            mode: 0o644,
        }
    }

    fn model() -> (Model, usize) {
        let mut model = Model::new();
        let p = model.add_process(0, 0, &[]);
        (model, p)
    }

    #[test]
    fn states_ignore_creation_order_but_not_the_owner_of_a_descriptor() {
        let run = |paths: [&str; 2]| {
            let (mut model, p) = model();
            for path in paths {
                model.apply(p, &open(path));
            }
            (model.state(&[]), model.state(&[p]))
        };
        let (one, other) = (run(["a", "b"]), run(["b", "a"]));
        assert_eq!(one.0, other.0);
        assert_ne!(one.1, other.1);
    }

    #[test]
    fn the_holder_of_a_locked_range_is_part_of_the_state() {
        let lock = |kind, start| Op::SetLock {
            fd: 0,
            lock: LockSpec {
                ofd: false,
                kind,
                whence: libc::SEEK_SET,
                start,
                len: 10,
            },
        };
        let run = |locks: &[Op]| {
            let (mut model, p) = model();
            model.apply(p, &open("a"));
            for lock in locks {
                model.apply(p, lock);
            }
            model.state(&[p])
        };
        let (read, write) = (lock(LockKind::Read, 0), lock(LockKind::Write, 0));
        assert_ne!(run(&[]), run(std::slice::from_ref(&read)));
        assert_ne!(
            run(std::slice::from_ref(&read)),
            run(std::slice::from_ref(&write))
        );
        assert_eq!(run(&[read.clone(), lock(LockKind::Unlock, 0)]), run(&[]));
        assert_eq!(
            run(&[read.clone(), lock(LockKind::Read, 20)]),
            run(&[lock(LockKind::Read, 20), read])
        );
    }

    #[test]
    fn an_unlinked_file_is_part_of_the_state_while_it_is_open() {
        let (mut model, p) = model();
        model.apply(p, &open("a"));
        assert_eq!(model.usage(), (2, 0));
        let unlink = Op::Unlink {
            dirfd: CWD,
            path: bytes("a"),
            flags: 0,
        };
        model.apply(p, &unlink);
        assert_eq!(model.usage(), (2, 0));
        assert_eq!(model.state(&[p]).nameless.len(), 1);
        model.apply(p, &Op::Close { fd: 0 });
        assert_eq!(model.usage(), (1, 0));
        assert_eq!(model.state(&[p]).nameless.len(), 0);
    }
}
