//! The tree as a whole: a root, no rings, a name for every inode, and what directories say of
//! themselves.

use super::ROOT;
use super::code::Code;
use super::cursor::Cursor;
use super::edits::put;
use super::inodes::{Joined, made};
use super::meta::{COUNT, Meta};
use super::report::{About, Report, Stage};
use super::sorted::{Sorted, number};
use super::suspects::{NamedAs, Suspects, Wrong};
use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Directory, Inode, decode_target, encode_target, key};
use hearth_backend::{Kind, Target};

/// Checks the tree; returns the directories, rising, and where each is.
pub fn check(
    view: &dyn Read,
    meta: &mut Meta,
    joined: Joined,
    report: &mut Report,
) -> Result<Vec<(u64, u64)>> {
    let Joined {
        dirs,
        has_any,
        suspects,
        nameless,
        ..
    } = joined;
    if !has_any {
        return Ok(dirs);
    }
    let counts = std::mem::take(&mut meta.counts).finish()?;
    let mut tree = Tree {
        view,
        meta,
        dirs: &dirs,
        report,
        suspects,
        lost_and_found: None,
    };
    tree.root();
    for target in nameless {
        tree.adopt(target)?;
    }
    tree.rings()?;
    tree.directories(counts)?;
    tree.suspects.resolve(view, tree.report)?;
    Ok(dirs)
}

/// Where a directory is, in directories that rise.
pub fn parent(dirs: &[(u64, u64)], ino: u64) -> Option<u64> {
    let at = dirs.binary_search_by_key(&ino, |(ino, _)| *ino).ok()?;
    Some(dirs[at].1)
}

struct Tree<'a> {
    view: &'a dyn Read,
    meta: &'a mut Meta,
    dirs: &'a [(u64, u64)],
    report: &'a mut Report,
    suspects: Suspects,
    /// The directory that takes what has no name.
    lost_and_found: Option<u64>,
}

/// How a directory was found to lead to the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    Unknown,
    /// It is on the way that is gone just now.
    OnTheWay,
    /// Its way has an end.
    Known,
}

impl Tree<'_> {
    fn fix(&mut self, op: KvOp) {
        self.report.fix(Stage::Tree, op);
    }

    fn root(&mut self) {
        if parent(self.dirs, ROOT).is_some() {
            return;
        }
        self.report.find(Code::NoRoot, About::Inode(ROOT), "");
        self.fix(made(ROOT, 1, Kind::Directory, 0o755));
        let directory = Directory {
            parent: ROOT,
            ..Directory::default()
        };
        self.fix(put(&key::directory(ROOT), directory.encode()));
    }

    /// Gives an inode a name in `lost+found`.
    fn adopt(&mut self, target: Target) -> Result<()> {
        let (place, ino) = (self.lost_and_found()?, target.ino);
        let mut name = format!("#{ino}");
        let mut number = 0;
        loop {
            let key = key::name(place, name.as_bytes());
            if self.view.get(Table::Meta, &key)?.is_none() {
                self.fix(put(&key, encode_target(&target)));
                return Ok(());
            }
            number += 1;
            name = format!("#{ino}.{number}");
        }
    }

    /// The directory `lost+found` in the root, or one with a number behind that name where a file
    /// has it.
    fn lost_and_found(&mut self) -> Result<u64> {
        if let Some(ino) = self.lost_and_found {
            return Ok(ino);
        }
        let mut name = "lost+found".to_owned();
        let mut number = 0;
        let ino = loop {
            let key = key::name(ROOT, name.as_bytes());
            let Some(value) = self.view.get(Table::Meta, &key)? else {
                break self.make_lost_and_found(&key);
            };
            if let Ok(target) = decode_target(&key, &value)
                && self.is_directory(&target)?
            {
                break target.ino;
            }
            number += 1;
            name = format!("lost+found.{number}");
        };
        self.lost_and_found = Some(ino);
        Ok(ino)
    }

    fn is_directory(&self, target: &Target) -> Result<bool> {
        let value = self.view.get(Table::Meta, &key::inode(target.ino))?;
        let inode = value.and_then(|value| Inode::decode(target.ino, &value).ok());
        Ok(inode.is_some_and(|inode| {
            let attrs = inode.attrs;
            attrs.kind == Kind::Directory && attrs.generation == target.generation
        }))
    }

    fn make_lost_and_found(&mut self, name: &[u8]) -> u64 {
        self.meta.counters.last_inode += 1;
        let ino = self.meta.counters.last_inode;
        let (generation, kind) = (1, Kind::Directory);
        self.fix(made(ino, generation, kind, 0o700));
        let directory = Directory {
            parent: ROOT,
            ..Directory::default()
        };
        let target = Target {
            ino,
            generation,
            kind,
        };
        self.fix(put(&key::directory(ino), directory.encode()));
        self.fix(put(name, encode_target(&target)));
        let counters = self.meta.counters.encode();
        self.fix(put(key::COUNTERS, counters));
        ino
    }

    /// Directories that do not lead up to the root although each has a name.
    fn rings(&mut self) -> Result<()> {
        let mut known = vec![Leads::Unknown; self.dirs.len()];
        let mut way = Vec::new();
        for first in 0..self.dirs.len() {
            let mut at = Some(first);
            while let Some(here) = at.filter(|here| known[*here] == Leads::Unknown) {
                known[here] = Leads::OnTheWay;
                way.push(here);
                let (ino, above) = self.dirs[here];
                let above = (ino != ROOT).then_some(above);
                at = above
                    .and_then(|above| self.dirs.binary_search_by_key(&above, |(ino, _)| *ino).ok());
            }
            if let Some(ring) = at.filter(|here| known[*here] == Leads::OnTheWay) {
                let (ino, above) = self.dirs[ring];
                self.ring(ino, above)?;
            }
            for here in way.drain(..) {
                known[here] = Leads::Known;
            }
        }
        Ok(())
    }

    fn ring(&mut self, ino: u64, above: u64) -> Result<()> {
        let value = self.view.get(Table::Meta, &key::inode(ino))?;
        let Some(inode) = value.and_then(|value| Inode::decode(ino, &value).ok()) else {
            return Ok(());
        };
        let detail = format!("its name is in directory {above}");
        self.report.find(Code::Ring, About::Inode(ino), detail);
        let target = Target {
            ino,
            generation: inode.attrs.generation,
            kind: Kind::Directory,
        };
        let name = NamedAs { dir: above, target };
        match self.suspects.note(name, Wrong::Ring, false, self.report) {
            true => self.adopt(target),
            // A later round moves it.
            false => Ok(()),
        }
    }

    /// What directories say of themselves.
    fn directories(&mut self, mut counts: Sorted<COUNT>) -> Result<()> {
        let mut says = Cursor::new(self.view, Table::Meta, b"D");
        for (ino, above) in self.dirs {
            let mut found = (0_u64, 0_u64);
            while counts.peek().is_some_and(|next| number(next, 0) <= *ino) {
                if let Some(next) = counts.next()?.filter(|next| number(next, 0) == *ino) {
                    found.0 = found.0.wrapping_add(number(&next, 1));
                    found.1 = found.1.wrapping_add(number(&next, 2));
                }
            }
            let says = says.at(*ino, self.report)?;
            let says = says.and_then(|value| Directory::decode(*ino, &value).ok());
            self.directory(*ino, *above, says.unwrap_or_default(), found);
        }
        Ok(())
    }

    fn directory(&mut self, ino: u64, above: u64, says: Directory, found: (u64, u64)) {
        let place = || About::Inode(ino);
        let counted = |says: u64, found: u64| format!("{says}, and {found} are there");
        let (entries, subdirectories) = found;
        if says.entries != entries {
            let detail = counted(says.entries, entries);
            self.report.find(Code::Entries, place(), detail);
        }
        if says.subdirectories != subdirectories {
            let detail = counted(says.subdirectories, subdirectories);
            self.report.find(Code::Subdirectories, place(), detail);
        }
        let parent = match above {
            // The root is above itself, or has nothing above it.
            0 if ino == ROOT && says.parent == 0 => 0,
            0 if ino == ROOT => ROOT,
            0 => says.parent,
            above => above,
        };
        if says.parent != parent {
            let detail = format!("{}, and it is {parent}", says.parent);
            self.report.find(Code::Parent, place(), detail);
        }
        let right = Directory {
            entries,
            subdirectories,
            parent,
            ..says
        };
        if right != says {
            let op = put(&key::directory(ino), right.encode());
            self.report.fix(Stage::Counts, op);
        }
    }
}
