//! Names and directories: every inode is reached from the root, by as many names as it says.

use super::ROOT;
use super::code::Code;
use super::inodes::{Dir, InodeInfo};
use super::meta::{Lost, Meta, put, remove};
use super::report::{About, Report, Stage};
use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Directory, Inode, decode_target, encode_target, key};
use hearth_backend::{Attrs, Kind, Target, Time};
use std::collections::{BTreeMap, HashMap};

/// Checks the tree.
pub fn check(view: &dyn Read, meta: &mut Meta, report: &mut Report) -> Result<()> {
    if meta.inodes.is_empty() && meta.lost.is_empty() {
        // A volume that was never mounted has no root yet.
        return Ok(());
    }
    let mut tree = Tree {
        view,
        meta,
        report,
        lost_and_found: None,
    };
    tree.root();
    tree.lost_inodes();
    tree.names()?;
    tree.inodes()?;
    tree.rings()?;
    tree.directories();
    tree.links()?;
    Ok(())
}

struct Tree<'a> {
    view: &'a dyn Read,
    meta: &'a mut Meta,
    report: &'a mut Report,
    /// The directory that takes what has no name.
    lost_and_found: Option<u64>,
}

impl Tree<'_> {
    fn fix(&mut self, op: KvOp) {
        self.report.fix(Stage::Tree, op);
    }

    fn root(&mut self) {
        if self.meta.inodes.is_directory(ROOT) {
            return;
        }
        self.report.find(Code::NoRoot, About::Inode(ROOT), "");
        self.make(ROOT, 1, Kind::Directory, 0o755);
        let directory = Directory {
            parent: ROOT,
            ..Directory::default()
        };
        self.fix(put(&key::directory(ROOT), directory.encode()));
    }

    /// Makes an inode for root alone, with unknown times.
    fn make(&mut self, ino: u64, generation: u32, kind: Kind, perm: u16) {
        let attrs = Attrs {
            generation,
            kind,
            perm,
            uid: 0,
            gid: 0,
            project: 0,
            flags: 0,
            nlink: 1,
            extra_blocks: 0,
            rdev: 0,
            atime: Time::default(),
            mtime: Time::default(),
            ctime: Time::default(),
            btime: Time::default(),
        };
        let target = Box::default();
        self.fix(put(&key::inode(ino), Inode { attrs, target }.encode()));
    }

    /// Inodes whose parts are there.
    fn lost_inodes(&mut self) {
        let meta = &mut *self.meta;
        for file in &meta.inodes.files {
            let key = key::contents(file.ino);
            match meta.inodes.get(file.ino) {
                None if file.says.map != 0 => {
                    meta.lost.entry(file.ino).or_insert(Lost::File);
                }
                Some(info) if info.kind == Kind::File => {}
                Some(info) if info.kind != Kind::Directory && file.says.map == 0 => {}
                _ => meta.strays.push((file.ino, key)),
            }
        }
        for (ino, dir) in &meta.inodes.dirs {
            let is_told = dir.says.is_some() && !meta.lost.contains_key(ino);
            if is_told && *ino != ROOT && !meta.inodes.is_directory(*ino) {
                meta.strays.push((*ino, key::directory(*ino)));
            }
        }
        let lost: BTreeMap<u64, Lost> = meta.lost.iter().map(|(i, l)| (*i, *l)).collect();
        for (ino, lost) in lost {
            let named = self.meta.dangling.iter().find(|(_, _, to)| to.ino == ino);
            let generation = named.map_or(1, |(_, _, target)| target.generation);
            let (kind, perm, what) = match lost {
                Lost::Directory => (Kind::Directory, 0o700, "has names below it"),
                Lost::File => (Kind::File, 0o600, "has contents"),
            };
            self.report.find(Code::LostInode, About::Inode(ino), what);
            if ino != ROOT {
                self.make(ino, generation, kind, perm);
            }
        }
        let mut strays = std::mem::take(&mut self.meta.strays);
        strays.sort();
        for (ino, key) in strays {
            if self.meta.lost.contains_key(&ino) {
                continue;
            }
            let part = match key[0] {
                b'C' => "size and contents",
                b'D' => "counts of a directory",
                _ => "extended attributes",
            };
            self.report.find(Code::Stray, About::Inode(ino), part);
            self.fix(remove(Table::Meta, &key));
        }
    }

    /// Names that do not fit what they name.
    fn names(&mut self) -> Result<()> {
        for (dir, name, target) in std::mem::take(&mut self.meta.dangling) {
            if self.meta.lost.contains_key(&target.ino) {
                // It is made anew, and the name is right then.
                continue;
            }
            let detail = match self.meta.inodes.get(target.ino) {
                None => format!("inode {}", target.ino),
                Some(info) => format!(
                    "inode {} of generation {}, which has {} now",
                    target.ino, target.generation, info.generation
                ),
            };
            self.name(Code::NoTarget, dir, &name, detail);
        }
        for (dir, name, target) in std::mem::take(&mut self.meta.misnamed) {
            self.name(Code::BadName, dir, &name, format!("inode {}", target.ino));
        }
        for (dir, name, target) in std::mem::take(&mut self.meta.homeless) {
            if !self.meta.lost.contains_key(&dir) {
                self.name(
                    Code::NoDirectory,
                    dir,
                    &name,
                    format!("inode {}", target.ino),
                );
            }
        }
        for (dir, name, target) in std::mem::take(&mut self.meta.further) {
            self.name(
                Code::TwoParents,
                dir,
                &name,
                format!("inode {}", target.ino),
            );
        }
        for (dir, name, target) in std::mem::take(&mut self.meta.mistyped) {
            let Some(info) = self.meta.inodes.get(target.ino) else {
                continue;
            };
            let (is, kind) = (target.kind, info.kind);
            let place = About::Name(dir, name.clone());
            self.report.find(
                Code::WrongType,
                place,
                format!("{is:?}, and it is {kind:?}"),
            );
            let value = encode_target(&Target { kind, ..target });
            self.fix(put(&key::name(dir, &name), value));
        }
        Ok(())
    }

    /// A name that is to be removed.
    fn name(&mut self, code: Code, dir: u64, name: &[u8], detail: String) {
        self.report
            .find(code, About::Name(dir, name.into()), detail);
        self.fix(remove(Table::Meta, &key::name(dir, name)));
    }

    /// Inodes without a name.
    fn inodes(&mut self) -> Result<()> {
        let infos: Vec<InodeInfo> = self.meta.inodes.iter().copied().collect();
        let mut orphans = std::mem::take(&mut self.meta.orphans);
        for info in infos.iter().filter(|info| info.ino != ROOT) {
            let orphan = orphans.remove(&info.ino);
            let is_orphan = orphan == Some(info.generation) && info.names == 0;
            if is_orphan {
                let detail = "the next mount ends it";
                self.report
                    .find(Code::Orphan, About::Inode(info.ino), detail);
                continue;
            }
            if orphan.is_some() {
                self.no_orphan(info.ino, "has a name, or another generation");
            }
            if info.names == 0 {
                let detail = format!("{:?}", info.kind);
                self.report
                    .find(Code::NoName, About::Inode(info.ino), detail);
                self.adopt(info)?;
            }
        }
        let mut left: Vec<u64> = orphans.into_keys().collect();
        left.sort_unstable();
        for ino in left {
            self.no_orphan(ino, "is not there");
        }
        Ok(())
    }

    fn no_orphan(&mut self, ino: u64, why: &str) {
        self.report.find(Code::NoOrphan, About::Inode(ino), why);
        self.fix(remove(Table::Meta, &key::orphan(ino)));
    }

    /// Gives an inode a name in `lost+found`.
    fn adopt(&mut self, info: &InodeInfo) -> Result<()> {
        let place = self.lost_and_found()?;
        let mut name = format!("#{}", info.ino);
        let mut number = 0;
        while self
            .view
            .get(Table::Meta, &key::name(place, name.as_bytes()))?
            .is_some()
        {
            number += 1;
            name = format!("#{}.{number}", info.ino);
        }
        let target = Target {
            ino: info.ino,
            generation: info.generation,
            kind: info.kind,
        };
        let key = key::name(place, name.as_bytes());
        self.fix(put(&key, encode_target(&target)));
        Ok(())
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
            let target = decode_target(&key, &value).ok();
            let info = target.and_then(|target| self.meta.inodes.get(target.ino));
            let is_good = |info: &&InodeInfo| {
                info.kind == Kind::Directory
                    && target.map(|t| t.generation) == Some(info.generation)
            };
            if let Some(info) = info.filter(is_good) {
                break info.ino;
            }
            number += 1;
            name = format!("lost+found.{number}");
        };
        self.lost_and_found = Some(ino);
        Ok(ino)
    }

    fn make_lost_and_found(&mut self, name: &[u8]) -> u64 {
        self.meta.counters.last_inode += 1;
        let ino = self.meta.counters.last_inode;
        let generation = 1;
        self.make(ino, generation, Kind::Directory, 0o700);
        let directory = Directory {
            parent: ROOT,
            ..Directory::default()
        };
        let kind = Kind::Directory;
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
        // True: leads to the root or to a directory without a name.
        let mut known: HashMap<u64, bool> = HashMap::from([(ROOT, true)]);
        let mut inos: Vec<u64> = self.meta.inodes.dirs.keys().copied().collect();
        inos.sort_unstable();
        let mut rings = Vec::new();
        for ino in inos {
            let mut way = Vec::new();
            let mut at = ino;
            let leads = loop {
                if let Some(leads) = known.get(&at) {
                    break *leads;
                }
                if way.contains(&at) {
                    rings.push(at);
                    break false;
                }
                way.push(at);
                match self
                    .meta
                    .inodes
                    .dirs
                    .get(&at)
                    .and_then(|dir| dir.at.as_ref())
                {
                    Some((above, _)) => at = *above,
                    None => break true,
                }
            };
            known.extend(way.into_iter().map(|ino| (ino, leads)));
        }
        for ino in rings {
            let dir = self.meta.inodes.dirs.get(&ino);
            let at = dir.and_then(|dir| dir.at.clone());
            let info = self.meta.inodes.get(ino).copied();
            let (Some((above, name)), Some(info)) = (at, info) else {
                continue;
            };
            let detail = format!("its name is in directory {above}");
            self.report.find(Code::Ring, About::Inode(ino), detail);
            self.fix(remove(Table::Meta, &key::name(above, &name)));
            self.adopt(&info)?;
        }
        Ok(())
    }

    /// What directories say of themselves.
    fn directories(&mut self) {
        let mut inos: Vec<u64> = self.meta.inodes.dirs.keys().copied().collect();
        inos.sort_unstable();
        for ino in inos {
            let dir = self.meta.inodes.dirs.get(&ino).cloned();
            if let Some(dir) = dir.filter(|_| self.meta.inodes.is_directory(ino)) {
                self.directory(ino, &dir);
            }
        }
    }

    fn directory(&mut self, ino: u64, dir: &Dir) {
        let says = dir.says.unwrap_or_default();
        let place = || About::Inode(ino);
        let counted = |says: u64, found: u64| format!("{says}, and {found} are there");
        if says.entries != dir.entries {
            let detail = counted(says.entries, dir.entries);
            self.report.find(Code::Entries, place(), detail);
        }
        if says.subdirectories != dir.subdirectories {
            let detail = counted(says.subdirectories, dir.subdirectories);
            self.report.find(Code::Subdirectories, place(), detail);
        }
        let parent = match &dir.at {
            Some((above, _)) => *above,
            // The root is above itself, or has nothing above it.
            None if ino == ROOT && says.parent == 0 => 0,
            None if ino == ROOT => ROOT,
            None => says.parent,
        };
        if says.parent != parent {
            let detail = format!("{}, and it is {parent}", says.parent);
            self.report.find(Code::Parent, place(), detail);
        }
        let right = Directory {
            entries: dir.entries,
            subdirectories: dir.subdirectories,
            parent,
            ..says
        };
        if right != says {
            let op = put(&key::directory(ino), right.encode());
            self.report.fix(Stage::Counts, op);
        }
    }

    /// Numbers of names.
    fn links(&mut self) -> Result<()> {
        let infos: Vec<InodeInfo> = self.meta.inodes.iter().copied().collect();
        for info in infos {
            let is_right = match info.kind {
                // Of a directory it only counts whether it has a name.
                Kind::Directory => info.nlink > 0 || (info.names == 0 && info.ino != ROOT),
                _ => info.nlink == info.names,
            };
            if is_right {
                continue;
            }
            let detail = format!("{}, and {} are there", info.nlink, info.names);
            self.report
                .find(Code::Links, About::Inode(info.ino), detail);
            let key = key::inode(info.ino);
            let value = self.view.get(Table::Meta, &key)?;
            let inode = value.and_then(|value| Inode::decode(info.ino, &value).ok());
            if let Some(mut inode) = inode {
                inode.attrs.nlink = info.names.max(1);
                self.report.fix(Stage::Counts, put(&key, inode.encode()));
            }
        }
        Ok(())
    }
}
