//! The whole tree in canonical form: what two systems must have in common.

use std::collections::BTreeMap;
use std::fmt;

use crate::bytes::{Bytes, bytes};
use crate::data::{LAST_PAGE, PAGE};
use crate::model::Model;
use crate::node::{Content, NodeId, ROOT};
use crate::op::{CWD, Op, Target};
use crate::outcome::{Attr, Kind, Outcome};
use crate::system::System;

/// Every path of a filesystem.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    /// By absolute path; the root is "/".
    pub entries: BTreeMap<Bytes, TreeEntry>,
}

/// One path.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeEntry {
    /// The first path, in order, of the same inode: equal for all names of a hard-linked file.
    pub same_as: Bytes,
    /// Attributes, with inode number 0.
    pub attr: Attr,
    /// Target of a symlink.
    pub target: Option<Bytes>,
    /// Pages of a file that are not all zero, by number.
    pub pages: BTreeMap<u64, Bytes>,
    /// All extended attributes, ACLs included.
    pub xattrs: BTreeMap<Bytes, Bytes>,
    /// `FS_*_FL` of files and directories.
    pub flags: u64,
}

impl Model {
    /// Returns the current tree, without touching anything.
    pub fn snapshot(&self) -> Tree {
        let mut tree = Tree::default();
        let mut first = BTreeMap::new();
        self.snapshot_node(ROOT, b"/", &mut tree);
        self.snapshot_dir(ROOT, b"/", &mut tree);
        tree.name_inodes(&mut first);
        tree
    }

    fn snapshot_dir(&self, dir: NodeId, path: &[u8], tree: &mut Tree) {
        let Some(directory) = self.node(dir).directory() else {
            return;
        };
        for (name, id) in &directory.entries {
            let path = child_path(path, name);
            self.snapshot_node(*id, &path, tree);
            self.snapshot_dir(*id, &path, tree);
        }
    }

    fn snapshot_node(&self, id: NodeId, path: &[u8], tree: &mut Tree) {
        tree.entries.insert(bytes(path), self.entry(id));
    }

    /// Returns one inode; equal paths are not known yet.
    pub(crate) fn entry(&self, id: NodeId) -> TreeEntry {
        let node = self.node(id);
        let mut xattrs: BTreeMap<Bytes, Bytes> = node
            .xattrs
            .iter()
            .map(|(name, value)| (bytes(name), bytes(value)))
            .collect();
        for (name, acl) in [("access", &node.acl), ("default", &node.default_acl)] {
            if let Some(acl) = acl {
                xattrs.insert(
                    bytes(format!("system.posix_acl_{name}")),
                    bytes(acl.serialise()),
                );
            }
        }
        let target = match &node.content {
            Content::Symlink(target) => Some(bytes(target)),
            _ => None,
        };
        let pages = node
            .pages()
            .map(|pages| pages.nonzero())
            .unwrap_or_default();
        let has_flags = node.pages().is_some() || node.is_dir();
        TreeEntry {
            same_as: Bytes::default(),
            attr: self.attr(id),
            target,
            pages: pages
                .into_iter()
                .map(|(page, data)| (page, Bytes(data)))
                .collect(),
            xattrs,
            flags: if has_flags { u64::from(node.flags) } else { 0 },
        }
    }
}

impl Tree {
    /// Reads the tree of any system through operations of `observer`, a process of root in the root
    /// directory. Returns also the operations, so that they can be repeated on the model: reading a
    /// symlink moves its access time.
    pub fn read(system: &mut dyn System, observer: usize) -> Result<(Tree, Vec<Op>), String> {
        let mut reader = Reader {
            system,
            observer,
            log: Vec::new(),
            tree: Tree::default(),
        };
        reader.node(bytes("/"))?;
        reader.targets()?;
        let Reader { log, mut tree, .. } = reader;
        tree.name_inodes(&mut BTreeMap::new());
        Ok((tree, log))
    }

    /// Returns where two trees differ, one line per difference.
    pub fn difference(&self, other: &Tree) -> Option<String> {
        let paths = self.entries.keys().chain(other.entries.keys());
        let lines: std::collections::BTreeSet<String> = paths
            .filter(|path| self.entries.get(path) != other.entries.get(path))
            .map(|path| {
                let (a, b) = (self.entries.get(path), other.entries.get(path));
                format!("{path:?}:\n  expected {a:?}\n  found    {b:?}")
            })
            .collect();
        (!lines.is_empty()).then(|| lines.into_iter().collect::<Vec<_>>().join("\n"))
    }

    /// Replaces inode numbers by the first path that has them.
    fn name_inodes(&mut self, first: &mut BTreeMap<u64, Bytes>) {
        for (path, entry) in &mut self.entries {
            let same_as = first.entry(entry.attr.ino).or_insert_with(|| path.clone());
            entry.same_as = same_as.clone();
            entry.attr.ino = 0;
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, entry) in &self.entries {
            writeln!(f, "{path:?} {entry:?}")?;
        }
        Ok(())
    }
}

/// A walk over another system.
struct Reader<'a> {
    system: &'a mut dyn System,
    observer: usize,
    log: Vec<Op>,
    tree: Tree,
}

impl Reader<'_> {
    fn node(&mut self, path: Bytes) -> Result<(), String> {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let attr = match self.ask(Op::Stat {
            dirfd: CWD,
            path: path.clone(),
            flags,
        }) {
            Outcome::Attr(attr) => attr,
            other => return Err(format!("stat of {path:?}: {other:?}")),
        };
        let mut entry = TreeEntry {
            same_as: Bytes::default(),
            attr,
            target: None,
            pages: BTreeMap::new(),
            xattrs: self.xattrs(&path)?,
            flags: 0,
        };
        let mut children = Vec::new();
        match attr.kind {
            Kind::File | Kind::Directory => children = self.content(&path, &mut entry)?,
            _ => {}
        }
        self.tree.entries.insert(path.clone(), entry);
        for name in children {
            self.node(Bytes(child_path(&path, &name)))?;
        }
        Ok(())
    }

    /// Reads all symlinks, after all access times have been seen: a link has many names.
    fn targets(&mut self) -> Result<(), String> {
        let links = self
            .tree
            .entries
            .iter()
            .filter(|(_, entry)| entry.attr.kind == Kind::Symlink);
        let links: Vec<Bytes> = links.map(|(path, _)| path.clone()).collect();
        for path in links {
            match self.ask(Op::ReadLink {
                dirfd: CWD,
                path: path.clone(),
            }) {
                Outcome::Data(target) => {
                    let entry = self.tree.entries.get_mut(&path);
                    entry.expect("taken from there").target = Some(target);
                }
                other => return Err(format!("readlink of {path:?}: {other:?}")),
            }
        }
        Ok(())
    }

    fn xattrs(&mut self, path: &Bytes) -> Result<BTreeMap<Bytes, Bytes>, String> {
        let target = Target::Link(path.clone());
        let names = match self.ask(Op::ListXattr {
            target: target.clone(),
        }) {
            Outcome::Names(names) => names,
            other => return Err(format!("listxattr of {path:?}: {other:?}")),
        };
        let mut xattrs = BTreeMap::new();
        for name in names {
            match self.ask(Op::GetXattr {
                target: target.clone(),
                name: name.clone(),
            }) {
                Outcome::Data(value) => xattrs.insert(name, value),
                other => return Err(format!("getxattr {name:?} of {path:?}: {other:?}")),
            };
        }
        Ok(xattrs)
    }

    /// Opens a file or directory, fills in pages and flags and returns the names inside.
    fn content(&mut self, path: &Bytes, entry: &mut TreeEntry) -> Result<Vec<Bytes>, String> {
        let flags = libc::O_RDONLY | libc::O_NOATIME | libc::O_NOFOLLOW;
        let open = Op::Open {
            dirfd: CWD,
            path: path.clone(),
            flags,
            mode: 0,
        };
        let fd = match self.ask(open) {
            Outcome::Fd(fd) => fd,
            other => return Err(format!("open of {path:?}: {other:?}")),
        };
        match self.ask(Op::GetFlags { fd }) {
            Outcome::Number(flags) => entry.flags = flags,
            other => return Err(format!("flags of {path:?}: {other:?}")),
        }
        let mut names = Vec::new();
        if entry.attr.kind == Kind::Directory {
            match self.ask(Op::ListFd { fd, split: None }) {
                Outcome::Entries(entries) => {
                    names.extend(entries.into_iter().map(|e| e.name));
                    names.retain(|name| name != &bytes(".") && name != &bytes(".."));
                }
                other => return Err(format!("listing of {path:?}: {other:?}")),
            }
        } else {
            self.pages(fd, entry.attr.size, &mut entry.pages)?;
        }
        self.ask(Op::Close { fd });
        Ok(names)
    }

    fn pages(&mut self, fd: i32, size: u64, out: &mut BTreeMap<u64, Bytes>) -> Result<(), String> {
        if size > LAST_PAGE {
            self.page(fd, LAST_PAGE, size, out)?;
        }
        let mut offset = 0;
        while offset < size.min(LAST_PAGE) {
            let seek = Op::Seek {
                fd,
                offset: offset as i64,
                whence: libc::SEEK_DATA,
            };
            match self.ask(seek) {
                Outcome::Number(at) if at >= offset => offset = at / PAGE * PAGE,
                Outcome::Error(libc::ENXIO) => break,
                other => return Err(format!("SEEK_DATA from {offset}: {other:?}")),
            }
            self.page(fd, offset, size, out)?;
            offset += PAGE;
        }
        Ok(())
    }

    fn page(
        &mut self,
        fd: i32,
        offset: u64,
        size: u64,
        out: &mut BTreeMap<u64, Bytes>,
    ) -> Result<(), String> {
        let len = (size - offset).min(PAGE) as usize;
        match self.ask(Op::ReadAt {
            fd,
            len,
            offset: offset as i64,
        }) {
            Outcome::Data(data) if data.len() != len => Err(format!("short read at {offset}")),
            Outcome::Data(data) if data.iter().any(|b| *b != 0) => {
                out.insert(offset / PAGE, data);
                Ok(())
            }
            Outcome::Data(_) => Ok(()),
            other => Err(format!("read at {offset}: {other:?}")),
        }
    }

    fn ask(&mut self, op: Op) -> Outcome {
        let outcome = self.system.apply(self.observer, &op);
        self.log.push(op);
        outcome
    }
}

fn child_path(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, name].concat()
}
