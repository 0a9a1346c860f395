//! Everything of one inode after the other: attributes, contents, counts, names. The keys of each
//! kind are read beside each other, and what lies in another order comes sorted.

use super::code::Code;
use super::cursor::Cursor;
use super::edits::{put, remove};
use super::meta::{Meta, decode_generation};
use super::report::{About, Report, Stage};
use super::sorted::{Sorted, Sorter, number, record};
use super::suspects::{NamedAs, Suspects, Wrong};
use super::{ROOT, Step, Watch};
use crate::error::Result;
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Contents, Directory, Inode, Owner, Used, Xattrs, key};
use hearth_backend::{Attrs, Kind, Target};
use std::collections::{BTreeSet, HashMap};

/// Inode, and pages of it that were found where these are not as many as it says.
pub const PAGES: usize = 16;
/// Inodes without a name that get one at once; a later round of a repair gives it to others.
const NAMELESS: usize = 100_000;

/// What is known when all inodes were looked at.
#[derive(Default)]
pub struct Joined {
    /// Directories, rising, and where each is; 0 for nowhere.
    pub dirs: Vec<(u64, u64)>,
    /// Whether anything is there at all: a volume that was never mounted has no root yet.
    pub has_any: bool,
    /// What the inodes take, by owner.
    pub used: HashMap<Owner, Used>,
    /// Names that are wrong.
    pub suspects: Suspects,
    /// Inodes that need a name.
    pub nameless: Vec<Target>,
}

/// Looks at all inodes.
pub fn check(
    view: &dyn Read,
    meta: &mut Meta,
    pages: Sorter<PAGES>,
    report: &mut Report,
    watch: Watch<'_>,
) -> Result<Joined> {
    let cursor = |letter: &[u8]| Cursor::new(view, Table::Meta, letter);
    let mut pass = InodesPass {
        contents: cursor(b"C"),
        directories: cursor(b"D"),
        inodes: cursor(key::INODES),
        orphans: cursor(key::ORPHANS),
        xattrs: cursor(b"X"),
        names: std::mem::take(&mut meta.names).finish()?,
        pages: pages.finish()?,
        lost: std::mem::take(&mut meta.lost),
        counts: &mut meta.counts,
        joined: Joined::default(),
        report,
    };
    let mut done = 0;
    while let Some(ino) = pass.lowest()? {
        pass.inode(ino)?;
        done += 1;
        if done % 1024 == 0 {
            let (what, of) = ("inodes", None);
            watch(Step { what, done, of });
        }
    }
    Ok(pass.joined)
}

struct InodesPass<'a> {
    contents: Cursor<'a>,
    directories: Cursor<'a>,
    inodes: Cursor<'a>,
    orphans: Cursor<'a>,
    xattrs: Cursor<'a>,
    names: Sorted<{ NamedAs::LENGTH }>,
    pages: Sorted<PAGES>,
    /// Directories without an inode.
    lost: BTreeSet<u64>,
    counts: &'a mut Sorter<{ super::meta::COUNT }>,
    joined: Joined,
    report: &'a mut Report,
}

/// What is kept of an inode beside its attributes.
struct InodeParts {
    contents: Option<Contents>,
    directory: Option<Directory>,
    orphan: Option<u32>,
    has_xattrs: bool,
    /// Pages that were found, where they are not as many as it says.
    pages: Option<u64>,
    /// Whether it has names below it and no attributes.
    has_names: bool,
}

/// The names of an inode.
#[derive(Default)]
struct NameCount {
    count: u32,
    /// Where it is, if it is a directory.
    parent: u64,
    /// The generation that the first of them says.
    generation: Option<u32>,
}

impl InodesPass<'_> {
    /// The next number that anything is known of.
    fn lowest(&mut self) -> Result<Option<u64>> {
        let mut lowest = self.lost.first().copied();
        let mut see = |number: Option<u64>| {
            lowest = match (lowest, number) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        };
        for cursor in [
            &mut self.contents,
            &mut self.directories,
            &mut self.inodes,
            &mut self.orphans,
            &mut self.xattrs,
        ] {
            see(cursor.number(self.report)?);
        }
        see(self.names.peek().map(|name| number(name, 0)));
        Ok(lowest)
    }

    fn inode(&mut self, ino: u64) -> Result<()> {
        let value = self.inodes.at(ino, self.report)?;
        let inode = value.and_then(|value| Inode::decode(ino, &value).ok());
        let parts = self.parts(ino)?;
        match inode {
            Some(inode) => self.present(ino, inode, &parts),
            None => self.absent(ino, &parts),
        }
    }

    /// Reads all that has this number. What cannot be read is reported already.
    fn parts(&mut self, ino: u64) -> Result<InodeParts> {
        let report = &mut *self.report;
        let contents = self.contents.at(ino, report)?;
        let directory = self.directories.at(ino, report)?;
        let orphan = self.orphans.at(ino, report)?;
        let xattrs = self.xattrs.at(ino, report)?;
        let mut pages = None;
        while self.pages.peek().is_some_and(|next| number(next, 0) <= ino) {
            let next = self.pages.next()?;
            let found = next.filter(|next| number(next, 0) == ino);
            pages = found.map(|next| number(&next, 1)).or(pages);
        }
        Ok(InodeParts {
            contents: contents.and_then(|value| Contents::decode(ino, &value).ok()),
            directory: directory.and_then(|value| Directory::decode(ino, &value).ok()),
            orphan: orphan.and_then(|value| decode_generation(&key::orphan(ino), &value).ok()),
            has_xattrs: xattrs.is_some_and(|value| Xattrs::decode(ino, &value).is_ok()),
            pages,
            has_names: self.lost.remove(&ino),
        })
    }

    /// There is no inode of this number.
    fn absent(&mut self, ino: u64, parts: &InodeParts) -> Result<()> {
        let lost = match parts {
            InodeParts {
                has_names: true, ..
            } => Some((Kind::Directory, 0o700, "has names below it")),
            InodeParts {
                contents: Some(Contents { map: 1.., .. }),
                ..
            } => Some((Kind::File, 0o600, "has contents")),
            _ => None,
        };
        let named = self.names(ino, None, lost.is_some())?;
        if parts.orphan.is_some() {
            self.no_orphan(ino, "is not there");
        }
        let Some((kind, perm, what)) = lost else {
            self.strays(ino, None, parts);
            return Ok(());
        };
        self.joined.has_any = true;
        self.report.find(Code::LostInode, About::Inode(ino), what);
        if ino != ROOT {
            let op = made(ino, named.generation.unwrap_or(1), kind, perm);
            self.report.fix(Stage::Tree, op);
        }
        Ok(())
    }

    fn present(&mut self, ino: u64, inode: Inode, parts: &InodeParts) -> Result<()> {
        let attrs = inode.attrs;
        let is_directory = attrs.kind == Kind::Directory;
        let named = self.names(ino, Some((&attrs, parts.directory)), false)?;
        self.joined.has_any = true;
        self.report.counted.inodes += 1;
        if is_directory {
            self.report.counted.directories += 1;
            self.joined.dirs.push((ino, named.parent));
        }
        let pages = self.pages_of(ino, parts);
        let used = self.joined.used.entry(owner(&attrs)).or_default();
        used.inodes += 1;
        let blocks = pages.saturating_add(attrs.extra_blocks.into());
        used.blocks = used.blocks.saturating_add(blocks);
        self.strays(ino, Some(attrs.kind), parts);
        if ino != ROOT {
            self.nameless(ino, &attrs, parts.orphan, named.count);
        }
        let is_right = match is_directory {
            // Of a directory it only counts whether it has a name.
            true => attrs.nlink > 0 || (named.count == 0 && ino != ROOT),
            false => attrs.nlink == named.count,
        };
        if !is_right {
            let detail = format!("{}, and {} are there", attrs.nlink, named.count);
            self.report.find(Code::Links, About::Inode(ino), detail);
            let mut inode = inode;
            inode.attrs.nlink = named.count.max(1);
            let op = put(&key::inode(ino), inode.encode());
            self.report.fix(Stage::Counts, op);
        }
        Ok(())
    }

    /// The pages of an inode, which are compared with what it says.
    fn pages_of(&mut self, ino: u64, parts: &InodeParts) -> u64 {
        let Some(says) = parts.contents else { return 0 };
        let found = match parts.pages {
            Some(found) => found,
            None if says.map == 0 => 0,
            None => says.pages,
        };
        if found != says.pages {
            let detail = format!("{}, and {found} are there", says.pages);
            self.report.find(Code::Pages, About::Inode(ino), detail);
            let right = Contents {
                pages: found,
                ..says
            };
            let op = put(&key::contents(ino), right.encode());
            self.report.fix(Stage::Counts, op);
        }
        found
    }

    /// InodeParts that an inode of this type does not have.
    fn strays(&mut self, ino: u64, kind: Option<Kind>, parts: &InodeParts) {
        let is_of_file = match (kind, parts.contents) {
            (Some(Kind::File), _) | (_, None) => true,
            (Some(Kind::Directory) | None, Some(_)) => false,
            (Some(_), Some(says)) => says.map == 0,
        };
        let is_directory = kind == Some(Kind::Directory) || ino == ROOT;
        let strays = [
            (!is_of_file, key::contents(ino), "size and contents"),
            (
                parts.directory.is_some() && !is_directory,
                key::directory(ino),
                "counts of a directory",
            ),
            (
                parts.has_xattrs && kind.is_none(),
                key::xattrs(ino),
                "extended attributes",
            ),
        ];
        for (_, key, part) in strays.into_iter().filter(|(is_stray, ..)| *is_stray) {
            self.report.find(Code::Stray, About::Inode(ino), part);
            self.report.fix(Stage::Tree, remove(Table::Meta, &key));
        }
    }

    /// An inode has a name, or is an orphan.
    fn nameless(&mut self, ino: u64, attrs: &Attrs, orphan: Option<u32>, names: u32) {
        let place = || About::Inode(ino);
        if orphan == Some(attrs.generation) && names == 0 {
            let detail = "the next mount ends it";
            return self.report.find(Code::Orphan, place(), detail);
        }
        if orphan.is_some() {
            self.no_orphan(ino, "has a name, or another generation");
        }
        if names == 0 {
            let detail = format!("{:?}", attrs.kind);
            self.report.find(Code::NoName, place(), detail);
            if self.joined.nameless.len() < NAMELESS {
                self.joined.nameless.push(Target {
                    ino,
                    generation: attrs.generation,
                    kind: attrs.kind,
                });
            }
        }
    }

    fn no_orphan(&mut self, ino: u64, why: &str) {
        self.report.find(Code::NoOrphan, About::Inode(ino), why);
        let op = remove(Table::Meta, &key::orphan(ino));
        self.report.fix(Stage::Tree, op);
    }

    /// Looks at the names of an inode; `is_lost`: it is made anew, and they are right then.
    fn names(
        &mut self,
        ino: u64,
        inode: Option<(&Attrs, Option<Directory>)>,
        is_lost: bool,
    ) -> Result<NameCount> {
        let mut named = NameCount::default();
        let mut of_directory = Vec::new();
        while self.names.peek().is_some_and(|next| number(next, 0) == ino) {
            let Some(next) = self.names.next()? else {
                break;
            };
            let name = NamedAs::decode(&next);
            named.generation.get_or_insert(name.target.generation);
            match inode {
                Some((attrs, _)) if attrs.generation == name.target.generation => {
                    if attrs.kind == Kind::Directory {
                        of_directory.push(name);
                    } else {
                        named.count += 1;
                        self.type_of(name, attrs.kind)?;
                    }
                }
                other => {
                    self.uncount(name)?;
                    let now = other.map(|(attrs, _)| attrs.generation);
                    if !is_lost {
                        self.suspect(name, Wrong::NoTarget(now), false);
                    }
                }
            }
        }
        let says = inode.and_then(|(_, says)| says);
        self.one_name(ino, &of_directory, says, &mut named)?;
        Ok(named)
    }

    /// Of several names of a directory the one counts that is in the parent which it knows.
    fn one_name(
        &mut self,
        ino: u64,
        names: &[NamedAs],
        says: Option<Directory>,
        named: &mut NameCount,
    ) -> Result<()> {
        let is_known = |name: &NamedAs| says.is_some_and(|says| says.parent == name.dir);
        let known = names.iter().position(is_known).unwrap_or(0);
        let chosen = (ino != ROOT && !names.is_empty()).then_some(known);
        for (at, name) in names.iter().enumerate() {
            if chosen == Some(at) {
                named.count += 1;
                named.parent = name.dir;
                self.type_of(*name, Kind::Directory)?;
            } else {
                self.uncount(*name)?;
                let keeps_one = chosen.is_some_and(|chosen| names[chosen] == *name);
                self.suspect(*name, Wrong::TwoParents, keeps_one);
            }
        }
        Ok(())
    }

    /// A name says a type.
    fn type_of(&mut self, name: NamedAs, kind: Kind) -> Result<()> {
        if name.target.kind == kind {
            return Ok(());
        }
        let more = match (kind, name.target.kind) {
            (Kind::Directory, _) => 1,
            (_, Kind::Directory) => -1,
            _ => 0,
        };
        self.suspect(name, Wrong::Type(kind), false);
        self.counts.push(record(&[name.dir, 0, more as u64]))
    }

    /// The name is not to be counted as an entry.
    fn uncount(&mut self, name: NamedAs) -> Result<()> {
        let subdirectories = i64::from(name.target.kind == Kind::Directory);
        let less = record(&[name.dir, -1_i64 as u64, -subdirectories as u64]);
        self.counts.push(less)
    }

    fn suspect(&mut self, name: NamedAs, wrong: Wrong, keeps_one: bool) {
        let suspects = &mut self.joined.suspects;
        suspects.note(name, wrong, keeps_one, self.report);
    }
}

fn owner(attrs: &Attrs) -> Owner {
    Owner {
        uid: attrs.uid,
        gid: attrs.gid,
        project: attrs.project,
    }
}

/// The change that makes an inode for root alone, with unknown times.
pub fn made(ino: u64, generation: u32, kind: Kind, perm: u16) -> KvOp {
    let attrs = Attrs::new(generation, kind, perm);
    let target = Box::default();
    put(&key::inode(ino), Inode { attrs, target }.encode())
}
