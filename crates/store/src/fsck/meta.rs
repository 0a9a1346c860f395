//! One pass over the keys of `meta`, in their order: contents come before inodes, inodes before
//! names. Every value is decoded; what other passes need in another order is sorted for them.

use super::code::Code;
use super::cursor::Cursor;
use super::edits::{put, remove};
use super::report::{About, Report, Stage, report_of_engine};
use super::sorted::{Sorter, record};
use super::suspects::NamedAs;
use super::{Step, Watch};
use crate::error::{Error, Result};
use crate::kv::{Read, Table};
use crate::schema::{
    Contents, Counters, Directory, Inode, Owner, Segment, Used, Xattrs, decode_target,
    decode_unwritten, key,
};
use hearth_backend::Kind;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Map, inode, size and pages of a file.
pub const FILE: usize = 32;
/// Directory, entries and subdirectories; both may be negative.
pub const COUNT: usize = 24;
/// Directories without an inode that are noted at once; a repair finds the others later.
const LOST: usize = 100_000;

/// What the keys of `meta` say.
#[derive(Default)]
pub struct Meta {
    /// Whether there is any inode.
    pub has_inodes: bool,
    /// Counters, as they are and as they have to be at least.
    pub counters: Counters,
    /// What owners are charged.
    pub usage: HashMap<Owner, Used>,
    /// Records of segments.
    pub segments: HashMap<u64, Segment>,
    /// Maps that are being deleted.
    pub dying: HashSet<u64>,
    /// Pages that are said to be allocated and not written.
    pub unwritten: u64,
    /// Directories whose inode is not there.
    pub lost: BTreeSet<u64>,
    /// Files with extents, by map.
    pub maps: Sorter<FILE>,
    /// Names by what they name.
    pub names: Sorter<{ NamedAs::LENGTH }>,
    /// Entries of directories.
    pub counts: Sorter<COUNT>,
}

impl Meta {
    /// Reads the table.
    pub fn read(view: &dyn Read, report: &mut Report, watch: Watch<'_>) -> Result<Meta> {
        let mut pass = MetaPass {
            meta: Meta::default(),
            inodes: Cursor::new(view, Table::Meta, key::INODES),
            report,
            says: None,
            directory: None,
        };
        let (mut done, mut failed) = (0, None);
        let scanned = view.scan(Table::Meta, &[], None, &mut |key, value| {
            match pass.key(key, value) {
                Err(Error::Corrupt { .. }) => pass.bad(key),
                Err(error) => failed = Some(error),
                Ok(()) => {}
            }
            done += 1;
            if done % 1024 == 0 {
                let (what, of) = ("keys", None);
                watch(Step { what, done, of });
            }
            failed.is_none()
        });
        if let Some(error) = failed {
            return Err(error);
        }
        pass.end_directory()?;
        match scanned {
            Err(error) if error.is_lost() => {
                // What is behind it is not known, so nothing may be put right.
                report_of_engine(pass.report, &error, Table::Meta);
            }
            other => other?,
        }
        let MetaPass { meta, says, .. } = pass;
        Ok(meta.finish(says, report))
    }

    fn finish(mut self, says: Option<Counters>, report: &mut Report) -> Meta {
        self.counters.epoch = says.map_or(0, |says| says.epoch);
        let needed = self.counters;
        if let Some(says) = says {
            self.counters.last_inode = needed.last_inode.max(says.last_inode);
            self.counters.next_map = needed.next_map.max(says.next_map);
            self.counters.next_segment = needed.next_segment.max(says.next_segment);
        }
        if says != Some(self.counters) && self.has_inodes {
            let detail = "a number in use would be used again";
            report.find(Code::Counters, About::Volume, detail);
            let value = self.counters.encode();
            report.fix(Stage::Values, put(key::COUNTERS, value));
        }
        self
    }
}

/// A pass over the table.
struct MetaPass<'a> {
    meta: Meta,
    /// Inodes again, beside the names.
    inodes: Cursor<'a>,
    report: &'a mut Report,
    says: Option<Counters>,
    /// The directory whose names come.
    directory: Option<ListedNames>,
}

/// Names of a directory so far.
struct ListedNames {
    ino: u64,
    /// `None`: it has no inode.
    kind: Option<Kind>,
    entries: u64,
    subdirectories: u64,
}

impl MetaPass<'_> {
    fn key(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let meta = &mut self.meta;
        match key.first() {
            Some(b'C') => self.contents(key, value),
            Some(b'D') => Directory::decode(key::number(key)?, value).map(drop),
            Some(b'G') => {
                let segment = Segment::decode(key, value)?;
                let number = key::number(key)?;
                meta.segments.insert(number, segment);
                let next = &mut meta.counters.next_segment;
                *next = (*next).max(number.saturating_add(1));
                Ok(())
            }
            Some(b'I') => {
                let ino = key::number(key)?;
                Inode::decode(ino, value)?;
                meta.has_inodes = true;
                meta.counters.last_inode = meta.counters.last_inode.max(ino);
                Ok(())
            }
            Some(b'M') if key == key::COUNTERS => {
                self.says = Some(Counters::decode(value)?);
                Ok(())
            }
            Some(b'N') => self.name(key, value),
            Some(b'O') => {
                key::number(key)?;
                decode_generation(key, value).map(drop)
            }
            Some(b'R') if key == key::UNWRITTEN => {
                meta.unwritten = decode_unwritten(value)?;
                Ok(())
            }
            Some(b'S') => Ok(()),
            Some(b'U') => {
                let used = Used::decode(key, value)?;
                meta.usage.insert(key::owner(key)?, used);
                Ok(())
            }
            Some(b'X') => Xattrs::decode(key::number(key)?, value).map(drop),
            Some(b'Z') => {
                let map = key::number(key)?;
                meta.dying.insert(map);
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
        if says.map != 0 {
            let file = record(&[says.map, ino, says.size, says.pages]);
            self.meta.maps.push(file)?;
        }
        Ok(())
    }

    fn name(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let dir = key::number(key.get(..9).unwrap_or(key))?;
        let name = &key[9..];
        let target = decode_target(key, value)?;
        self.report.counted.names += 1;
        self.enter(dir)?;
        if !is_name(name) {
            self.of_nothing(Code::BadName, dir, name, target.ino);
            return Ok(());
        }
        let Some(entries) = &mut self.directory else {
            return Ok(());
        };
        match entries.kind {
            Some(Kind::Directory) => {
                entries.entries += 1;
                entries.subdirectories += u64::from(target.kind == Kind::Directory);
                self.meta.names.push(NamedAs { dir, target }.encode())
            }
            Some(_) => {
                self.of_nothing(Code::NoDirectory, dir, name, target.ino);
                Ok(())
            }
            // It is made anew, and has its names then.
            None => {
                if self.meta.lost.len() < LOST {
                    self.meta.lost.insert(dir);
                }
                Ok(())
            }
        }
    }

    /// A name that is to be removed.
    fn of_nothing(&mut self, code: Code, dir: u64, name: &[u8], ino: u64) {
        let place = About::Name(dir, name.into());
        self.report.find(code, place, format!("inode {ino}"));
        let op = remove(Table::Meta, &key::name(dir, name));
        self.report.fix(Stage::Tree, op);
    }

    /// Names of `dir` come.
    fn enter(&mut self, dir: u64) -> Result<()> {
        if self.directory.as_ref().is_some_and(|now| now.ino == dir) {
            return Ok(());
        }
        self.end_directory()?;
        let value = self.inodes.at(dir, self.report)?;
        let inode = value.and_then(|value| Inode::decode(dir, &value).ok());
        self.directory = Some(ListedNames {
            ino: dir,
            kind: inode.map(|inode| inode.attrs.kind),
            entries: 0,
            subdirectories: 0,
        });
        Ok(())
    }

    fn end_directory(&mut self) -> Result<()> {
        match self.directory.take() {
            Some(ListedNames {
                ino,
                entries,
                subdirectories,
                ..
            }) => (self.meta.counts).push(record(&[ino, entries, subdirectories])),
            None => Ok(()),
        }
    }

    fn map(&mut self, map: u64) {
        // A file of zeros alone has a size and no map.
        if map > 0 {
            let next = &mut self.meta.counters.next_map;
            *next = (*next).max(map.saturating_add(1));
        }
    }
}

/// The generation of an orphan.
pub fn decode_generation(key: &[u8], value: &[u8]) -> Result<u32> {
    let generation = <[u8; 4]>::try_from(value);
    let generation = generation.map_err(|_| crate::schema::corrupt(key, "length"))?;
    Ok(u32::from_le_bytes(generation))
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
