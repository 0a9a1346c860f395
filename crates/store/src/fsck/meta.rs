//! One pass over the keys of `meta`, in their order: contents and directories come before inodes,
//! inodes before names.

use super::code::Code;
use super::inodes::{Dir, FileInfo, Inodes};
use super::report::{About, Report, Stage};
use super::{ROOT, Step, Watch};
use crate::error::{Error, Result};
use crate::kv::{KvOp, Read, Table};
use crate::schema::{
    Contents, Counters, Directory, Inode, Owner, Segment, Used, Xattrs, decode_target, key,
};
use hearth_backend::{Kind, Target};
use std::collections::{HashMap, HashSet};

/// What the keys of `meta` say.
#[derive(Debug, Default)]
pub struct Meta {
    /// Inodes, directories and contents.
    pub inodes: Inodes,
    /// Counters, as they are and as they have to be at least.
    pub counters: Counters,
    /// Orphans and their generations.
    pub orphans: HashMap<u64, u32>,
    /// What owners are charged.
    pub usage: HashMap<Owner, Used>,
    /// Records of segments.
    pub segments: HashMap<u64, Segment>,
    /// Maps that are being deleted.
    pub dying: HashSet<u64>,
    /// Directories and contents whose inode is not there.
    pub lost: HashMap<u64, Lost>,
    /// Parts of inodes that are no longer there, or of the wrong type.
    pub strays: Vec<(u64, Box<[u8]>)>,
    /// Names in what is no directory.
    pub homeless: Vec<(u64, Box<[u8]>, Target)>,
    /// Names that no file can have.
    pub misnamed: Vec<(u64, Box<[u8]>, Target)>,
    /// Names of inodes that are not there, or are another one.
    pub dangling: Vec<(u64, Box<[u8]>, Target)>,
    /// Names with another type than their inode.
    pub mistyped: Vec<(u64, Box<[u8]>, Target)>,
    /// Further names of directories.
    pub further: Vec<(u64, Box<[u8]>, Target)>,
}

/// An inode that is not there although parts of it are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It has names below it.
    Directory,
    /// It has contents.
    File,
}

impl Meta {
    /// Reads the table.
    pub fn read(view: &dyn Read, report: &mut Report, watch: Watch<'_>) -> Result<Meta> {
        let mut pass = MetaPass {
            meta: Meta::default(),
            report,
            says: None,
            in_directory: None,
        };
        let mut done = 0;
        let scanned = view.scan(Table::Meta, &[], None, &mut |key, value| {
            if pass.key(key, value).is_err() {
                pass.bad(key);
            }
            done += 1;
            if done % 1024 == 0 {
                let (what, of) = ("keys", None);
                watch(Step { what, done, of });
            }
            true
        });
        pass.report.counted.inodes = pass.meta.inodes.len() as u64;
        pass.report.counted.directories = pass.meta.inodes.dirs.len() as u64;
        match scanned {
            Err(error @ Error::Corrupt { .. }) => {
                // What is behind it is not known, so nothing may be put right.
                report_of_engine(pass.report, &error);
            }
            other => other?,
        }
        let MetaPass { meta, says, .. } = pass;
        Ok(meta.finish(says, report))
    }

    fn finish(mut self, says: Option<Counters>, report: &mut Report) -> Meta {
        self.choose_parents();
        self.counters.epoch = says.map_or(0, |says| says.epoch);
        let needed = self.counters;
        if let Some(says) = says {
            self.counters.last_inode = needed.last_inode.max(says.last_inode);
            self.counters.next_map = needed.next_map.max(says.next_map);
            self.counters.next_segment = needed.next_segment.max(says.next_segment);
        }
        if says != Some(self.counters) && !self.inodes.is_empty() {
            let detail = "a number in use would be used again";
            report.find(Code::Counters, About::Volume, detail);
            let value = self.counters.encode();
            report.fix(Stage::Values, put(key::COUNTERS, value));
        }
        self
    }
}

impl Meta {
    /// Of several names of a directory the one counts that is in the parent which it knows.
    fn choose_parents(&mut self) {
        for (dir, name, target) in &mut self.further {
            let child = self.inodes.dirs.get_mut(&target.ino);
            let Some(child) = child.filter(|_| target.ino != ROOT) else {
                continue;
            };
            let is_known = child.says.is_some_and(|says| says.parent == *dir);
            if let Some(at) = child.at.as_mut().filter(|at| is_known && at.0 != *dir) {
                std::mem::swap(&mut at.0, dir);
                std::mem::swap(&mut at.1, name);
                let (now, before) = (at.0, *dir);
                self.inodes.count_entry(now, true, 1);
                self.inodes.count_entry(before, true, -1);
            }
        }
    }
}

/// A table could not be read to its end.
pub fn report_of_engine(report: &mut Report, error: &Error) {
    report.find(Code::Engine, About::Volume, error.to_string());
    report.cannot_repair();
}

/// A pass over the table.
struct MetaPass<'a> {
    meta: Meta,
    report: &'a mut Report,
    says: Option<Counters>,
    /// The directory whose names come, and whether it is one.
    in_directory: Option<(u64, bool)>,
}

impl MetaPass<'_> {
    fn key(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match key.first() {
            Some(b'C') => self.contents(key, value),
            Some(b'D') => self.directory(key, value),
            Some(b'G') => {
                let segment = Segment::decode(key, value)?;
                let number = key::number(key)?;
                self.meta.segments.insert(number, segment);
                let next = &mut self.meta.counters.next_segment;
                *next = (*next).max(number + 1);
                Ok(())
            }
            Some(b'I') => self.inode(key, value),
            Some(b'M') if key == key::COUNTERS => {
                self.says = Some(Counters::decode(value)?);
                Ok(())
            }
            Some(b'N') => self.name(key, value),
            Some(b'O') => self.orphan(key, value),
            Some(b'S') => Ok(()),
            Some(b'U') => {
                let used = Used::decode(key, value)?;
                self.meta.usage.insert(key::owner(key)?, used);
                Ok(())
            }
            Some(b'X') => self.xattrs(key, value),
            Some(b'Z') => {
                let map = key::number(key)?;
                self.meta.dying.insert(map);
                self.map(map);
                Ok(())
            }
            _ => {
                let detail = format!("{} bytes", value.len());
                self.report.find(Code::UnknownKey, shown(key), detail);
                Ok(())
            }
        }
    }

    /// The key or its value cannot be read.
    fn bad(&mut self, key: &[u8]) {
        let detail = "its length or a field makes no sense";
        self.report.find(Code::BadValue, shown(key), detail);
        self.report.fix(Stage::Values, remove(Table::Meta, key));
    }

    fn contents(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let ino = key::number(key)?;
        let says = Contents::decode(ino, value)?;
        self.map(says.map);
        self.meta.inodes.files.push(FileInfo {
            ino,
            says,
            pages: 0,
        });
        Ok(())
    }

    fn directory(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let ino = key::number(key)?;
        let says = Directory::decode(ino, value)?;
        let dir = Dir {
            says: Some(says),
            ..Dir::default()
        };
        self.meta.inodes.dirs.insert(ino, dir);
        Ok(())
    }

    fn inode(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let ino = key::number(key)?;
        let inode = Inode::decode(ino, value)?;
        self.meta.inodes.push(ino, &inode);
        let last = &mut self.meta.counters.last_inode;
        *last = (*last).max(ino);
        Ok(())
    }

    fn xattrs(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let ino = key::number(key)?;
        Xattrs::decode(ino, value)?;
        if self.meta.inodes.get(ino).is_none() {
            self.meta.strays.push((ino, key.into()));
        }
        Ok(())
    }

    fn orphan(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let ino = key::number(key)?;
        let generation = <[u8; 4]>::try_from(value);
        let generation = generation.map_err(|_| crate::schema::corrupt(key, "length"))?;
        let generation = u32::from_le_bytes(generation);
        self.meta.orphans.insert(ino, generation);
        Ok(())
    }

    fn name(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let dir = key::number(key.get(..9).unwrap_or(key))?;
        let name = &key[9..];
        let target = decode_target(key, value)?;
        self.report.counted.names += 1;
        let is_directory = match self.in_directory {
            Some((ino, is)) if ino == dir => is,
            _ => {
                let is = self.meta.inodes.is_directory(dir);
                self.in_directory = Some((dir, is));
                is
            }
        };
        if !is_name(name) {
            self.meta.misnamed.push((dir, name.into(), target));
            return Ok(());
        }
        if !is_directory {
            if self.meta.inodes.get(dir).is_none() {
                self.meta.lost.insert(dir, Lost::Directory);
            }
            self.meta.homeless.push((dir, name.into(), target));
            return Ok(());
        }
        self.named(dir, name, target);
        Ok(())
    }

    /// A name of a directory that is there.
    fn named(&mut self, dir: u64, name: &[u8], target: Target) {
        let inodes = &mut self.meta.inodes;
        let info = inodes.get(target.ino).copied();
        let info = info.filter(|info| info.generation == target.generation);
        let Some(info) = info else {
            return self.meta.dangling.push((dir, name.into(), target));
        };
        let is_directory = info.kind == Kind::Directory;
        if is_directory {
            let child = inodes.dirs.entry(target.ino).or_default();
            if child.at.is_some() || target.ino == ROOT {
                return self.meta.further.push((dir, name.into(), target));
            }
            child.at = Some((dir, name.into()));
        }
        if info.kind != target.kind {
            self.meta.mistyped.push((dir, name.into(), target));
        }
        inodes.count_name(target.ino);
        inodes.count_entry(dir, is_directory, 1);
    }

    fn map(&mut self, map: u64) {
        // A file of zeros alone has a size and no map.
        if map > 0 {
            let next = &mut self.meta.counters.next_map;
            *next = (*next).max(map + 1);
        }
    }
}

/// Whether a directory can have an entry of this name.
pub fn is_name(name: &[u8]) -> bool {
    let has_bad_byte = name.iter().any(|byte| matches!(byte, 0 | b'/'));
    !matches!(name, b"" | b"." | b"..") && name.len() <= 255 && !has_bad_byte
}

/// A key as it is shown: its letter, and the rest in hexadecimal digits.
pub fn shown(key: &[u8]) -> About {
    let (letter, rest) = key.split_first().unwrap_or((&b'?', &[]));
    let digits: String = rest.iter().take(32).map(|b| format!("{b:02x}")).collect();
    About::Key(format!("{} {digits}", char::from(*letter).escape_default()))
}

/// A change that gives a key of `meta` a value.
pub fn put(key: &[u8], value: Box<[u8]>) -> KvOp {
    KvOp {
        table: Table::Meta,
        key: key.into(),
        value: Some(value),
    }
}

/// A change that removes a key.
pub fn remove(table: Table, key: &[u8]) -> KvOp {
    KvOp {
        table,
        key: key.into(),
        value: None,
    }
}
