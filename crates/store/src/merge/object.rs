//! Inodes: which one stays, its attributes, and what goes with one that ends.

use super::contents::ContentsChange;
use super::drops::drop_map;
use super::{Merger, Tally, is_later, meta};
use crate::error::Result;
use crate::kv::Read;
use crate::schema::{Contents, Directory, Inode, Xattrs, key};
use hearth_backend::{Attrs, Kind, Record, Xattr};

/// A record of an inode, in the order of inodes and generations.
pub(super) struct ObjectChange<'r> {
    ino: u64,
    generation: u32,
    record: &'r Record,
}

impl ObjectChange<'_> {
    pub(super) fn of(record: &Record) -> ObjectChange<'_> {
        let (ino, generation) = match record {
            Record::New { inode, .. } => (inode.ino, inode.attrs.generation),
            Record::Attrs { ino, attrs, .. } => (*ino, attrs.generation),
            Record::Xattrs {
                ino, generation, ..
            }
            | Record::Contents {
                ino, generation, ..
            }
            | Record::Untouched {
                ino, generation, ..
            }
            | Record::Gone {
                ino, generation, ..
            } => (*ino, *generation),
            Record::Entries {
                dir, generation, ..
            }
            | Record::Parent {
                dir, generation, ..
            }
            | Record::Name {
                dir, generation, ..
            } => (*dir, *generation),
            Record::Setting { .. } => (0, 0),
        };
        ObjectChange {
            ino,
            generation,
            record,
        }
    }
}

/// All records of one inode and generation, by register.
#[derive(Default)]
struct ObjectChanges<'r> {
    new: Option<&'r hearth_backend::Inode>,
    gone: bool,
    /// It came and went, and its first record is left out.
    is_brief: bool,
    attrs: Option<(u32, Attrs)>,
    xattrs: Option<(u32, &'r [Xattr])>,
    contents: Vec<ContentsChange<'r>>,
    /// Order of the last reset of `touched`; 0 for none.
    untouched: u64,
    /// The last touch: its order, and what it says.
    touch: (u64, u64),
    entries: (i64, i64),
    parent: Option<(u32, u64)>,
    is_directory: bool,
    count: u64,
}

impl<'r> ObjectChanges<'r> {
    fn add(&mut self, record: &'r Record) {
        self.count += 1;
        match record {
            Record::New { inode, version } => {
                self.new = Some(inode);
                keep(&mut self.attrs, *version, inode.attrs);
            }
            Record::Gone { is_brief, .. } => {
                self.gone = true;
                self.is_brief = *is_brief;
            }
            Record::Attrs { version, attrs, .. } => keep(&mut self.attrs, *version, *attrs),
            Record::Xattrs {
                version, xattrs, ..
            } => keep(&mut self.xattrs, *version, xattrs),
            Record::Contents {
                version,
                size,
                touched,
                order,
                edit,
                ..
            } => {
                self.touch = self.touch.max((*order, *touched));
                self.contents.push(ContentsChange {
                    version: *version,
                    size: *size,
                    edit,
                });
            }
            Record::Untouched { order, .. } => self.untouched = self.untouched.max(*order),
            Record::Entries {
                entries,
                subdirectories,
                touched,
                order,
                ..
            } => {
                self.is_directory = true;
                self.touch = self.touch.max((*order, *touched));
                self.entries.0 += entries;
                self.entries.1 += subdirectories;
            }
            Record::Parent {
                version, parent, ..
            } => {
                self.is_directory = true;
                keep(&mut self.parent, *version, *parent);
            }
            // Sorted out before.
            Record::Name { .. } | Record::Setting { .. } => {}
        }
    }

    /// Whether it came in this epoch.
    fn is_new(&self) -> bool {
        self.new.is_some() || self.is_brief
    }

    /// The time of the last touch that no reset came after; `before` is that from before the epoch.
    fn touched(&self, before: u64) -> u64 {
        let (order, touched) = self.touch;
        let before = if self.untouched == 0 { before } else { 0 };
        match order > self.untouched {
            true => touched.max(before),
            false => before,
        }
    }
}

/// Keeps the value with the later version.
fn keep<T>(register: &mut Option<(u32, T)>, version: u32, value: T) {
    if register.as_ref().is_none_or(|old| is_later(version, old.0)) {
        *register = Some((version, value));
    }
}

impl<R: Read + ?Sized> Merger<'_, R> {
    pub(super) fn objects(&mut self, mut changes: Vec<ObjectChange<'_>>) -> Result<()> {
        changes.sort_unstable_by_key(|change| (change.ino, change.generation));
        let mut changes = changes.into_iter().peekable();
        while let Some(first) = changes.next() {
            let ino = first.ino;
            let mut generations = vec![(first.generation, ObjectChanges::default())];
            generations[0].1.add(first.record);
            while let Some(next) = changes.next_if(|next| next.ino == ino) {
                match generations.last_mut() {
                    Some((generation, of_one)) if *generation == next.generation => {
                        of_one.add(next.record);
                    }
                    _ => {
                        let mut of_one = ObjectChanges::default();
                        of_one.add(next.record);
                        generations.push((next.generation, of_one));
                    }
                }
            }
            self.object(ino, generations)?;
        }
        Ok(())
    }

    /// All that happened to the inodes with one number.
    fn object(&mut self, ino: u64, generations: Vec<(u32, ObjectChanges<'_>)>) -> Result<()> {
        let is_known_new = matches!(&generations[..], [(_, only)] if only.is_new());
        let mut old = match is_known_new {
            true => None,
            false => self.old(ino)?,
        };
        let mut stays = None;
        let mut is_old_gone = false;
        for (generation, changes) in generations {
            for change in &changes.contents {
                change.name(self.counters, &mut self.named, &mut self.tally);
            }
            let is_old = (old.as_ref()).is_some_and(|old| old.attrs.generation == generation);
            if changes.is_new() {
                self.counters.last_inode = self.counters.last_inode.max(ino);
            } else if !is_old {
                self.strays += changes.count;
                continue;
            }
            if changes.gone {
                is_old_gone |= is_old;
                continue;
            }
            match (&stays, changes.new) {
                (None, new) => stays = Some((new, changes)),
                // Two that are not gone: one of them should be.
                (Some(_), Some(new)) => {
                    self.strays += 1;
                    stays = Some((Some(new), changes));
                }
                (Some(_), None) => self.strays += 1,
            }
        }
        match stays {
            Some((None, changes)) => {
                let Some(old) = old.take() else { return Ok(()) };
                self.change(ino, old, changes)
            }
            Some((Some(new), changes)) => {
                let kept = self.create(new, changes)?;
                match old {
                    Some(old) => self.end(ino, &old, &kept),
                    None => Ok(()),
                }
            }
            None => match old {
                Some(old) if is_old_gone => self.end(ino, &old, &Kept::default()),
                _ => Ok(()),
            },
        }
    }

    fn old(&self, ino: u64) -> Result<Option<Inode>> {
        let value = self.get(&key::inode(ino))?;
        value.map(|value| Inode::decode(ino, &value)).transpose()
    }

    fn old_contents(&self, ino: u64) -> Result<Contents> {
        match self.get(&key::contents(ino))? {
            Some(value) => Contents::decode(ino, &value),
            None => Ok(Contents::default()),
        }
    }

    /// An inode that was there and stays.
    fn change(&mut self, ino: u64, old: Inode, changes: ObjectChanges<'_>) -> Result<()> {
        let attrs = changes.attrs.map_or(old.attrs, |(_, attrs)| attrs);
        let is_directory = old.attrs.kind == Kind::Directory;
        let touches = changes.touch.0 != 0 || changes.untouched != 0;
        // What is charged has changed only with one of these.
        let recharges = owners(&attrs) != owners(&old.attrs) || !changes.contents.is_empty();
        let (mut pages_before, mut pages) = (0, 0);
        if is_directory {
            if changes.is_directory || touches {
                self.change_directory(ino, &changes)?;
            }
            self.strays += changes.contents.len() as u64;
        } else if touches || recharges {
            let before = self.old_contents(ino)?;
            pages_before = before.pages;
            let touched = changes.touched(before.touched);
            let file = (ino, attrs.generation);
            let after = self.contents(file, Contents { touched, ..before }, changes.contents)?;
            pages = after.pages;
            if after != before {
                self.put(key::contents(ino), after.encode());
            }
            self.strays += u64::from(changes.is_directory);
        }
        self.tally.charge(&old.attrs, pages_before, -1);
        self.tally.charge(&attrs, pages, 1);
        if let Some((_, xattrs)) = changes.xattrs {
            let value = (!xattrs.is_empty()).then(|| Xattrs::encode(xattrs));
            self.ops.push(meta(key::xattrs(ino), value));
        }
        match (old.attrs.nlink == 0, attrs.nlink == 0) {
            (false, true) => self.put(key::orphan(ino), attrs.generation.to_le_bytes().into()),
            (true, false) => self.remove(key::orphan(ino)),
            _ => {}
        }
        if attrs != old.attrs {
            let target = old.target;
            self.put(key::inode(ino), Inode { attrs, target }.encode());
        }
        Ok(())
    }

    fn change_directory(&mut self, ino: u64, changes: &ObjectChanges<'_>) -> Result<()> {
        let before = match self.get(&key::directory(ino))? {
            Some(value) => Directory::decode(ino, &value)?,
            None => Directory::default(),
        };
        let after = self.directory(before, changes);
        if after != before {
            self.put(key::directory(ino), after.encode());
        }
        Ok(())
    }

    fn directory(&mut self, before: Directory, changes: &ObjectChanges<'_>) -> Directory {
        let mut add = |count: u64, change: i64| {
            count.checked_add_signed(change).unwrap_or_else(|| {
                self.strays += 1;
                0
            })
        };
        Directory {
            entries: add(before.entries, changes.entries.0),
            subdirectories: add(before.subdirectories, changes.entries.1),
            touched: changes.touched(before.touched),
            parent: changes.parent.map_or(before.parent, |(_, parent)| parent),
        }
    }

    /// A new inode that stays. Returns which of its keys it has.
    fn create(&mut self, new: &hearth_backend::Inode, changes: ObjectChanges<'_>) -> Result<Kept> {
        let ino = new.ino;
        let attrs = changes.attrs.map_or(new.attrs, |(_, attrs)| attrs);
        let mut kept = Kept {
            inode: true,
            ..Kept::default()
        };
        let mut pages = 0;
        if attrs.kind == Kind::Directory {
            let before = Directory {
                entries: new.entries.0,
                subdirectories: new.entries.1,
                touched: new.touched,
                parent: new.parent,
            };
            let after = self.directory(before, &changes);
            self.put(key::directory(ino), after.encode());
            kept.directory = true;
            self.strays += changes.contents.len() as u64;
        } else {
            let contents = Contents {
                size: new.size,
                touched: changes.touched(new.touched),
                ..Contents::default()
            };
            let after = self.contents((ino, attrs.generation), contents, changes.contents)?;
            pages = after.pages;
            if after != Contents::default() {
                self.put(key::contents(ino), after.encode());
                kept.contents = true;
            }
        }
        self.tally.charge(&attrs, pages, 1);
        let xattrs = changes.xattrs.map_or(&new.xattrs[..], |(_, xattrs)| xattrs);
        if !xattrs.is_empty() {
            self.put(key::xattrs(ino), Xattrs::encode(xattrs));
            kept.xattrs = true;
        }
        if attrs.nlink == 0 {
            self.put(key::orphan(ino), attrs.generation.to_le_bytes().into());
            kept.orphan = true;
        }
        let target = new.target.clone();
        self.put(key::inode(ino), Inode { attrs, target }.encode());
        Ok(kept)
    }

    /// An inode that was there ends. The keys of `kept` belong to the next one with its number.
    fn end(&mut self, ino: u64, old: &Inode, kept: &Kept) -> Result<()> {
        let mut pages = 0;
        if old.attrs.kind == Kind::Directory {
            if !kept.directory {
                self.remove(key::directory(ino));
            }
        } else if let Some(value) = self.get(&key::contents(ino))? {
            let contents = Contents::decode(ino, &value)?;
            pages = contents.pages;
            self.drop_map(contents.map)?;
            if !kept.contents {
                self.remove(key::contents(ino));
            }
        }
        if !kept.xattrs && self.get(&key::xattrs(ino))?.is_some() {
            self.remove(key::xattrs(ino));
        }
        if !kept.orphan && old.attrs.nlink == 0 {
            self.remove(key::orphan(ino));
        }
        if !kept.inode {
            self.remove(key::inode(ino));
        }
        self.tally.charge(&old.attrs, pages, -1);
        Ok(())
    }

    /// Deletes the extents of a map, or marks it to be deleted in pieces.
    pub(super) fn drop_map(&mut self, map: u64) -> Result<()> {
        if map == 0 {
            return Ok(());
        }
        let mut tally = Tally::default();
        let dropped = drop_map(self.view, map, 0, self.drops_left, &mut tally)?;
        self.drops_left -= dropped.extents;
        if dropped.rest.is_some() {
            self.put(key::dying(map), Box::default());
        } else {
            self.tally.add(tally);
            self.ops.extend(dropped.ops);
        }
        Ok(())
    }
}

/// Which keys of a number a new inode has.
#[derive(Default)]
struct Kept {
    inode: bool,
    contents: bool,
    directory: bool,
    xattrs: bool,
    orphan: bool,
}

fn owners(attrs: &Attrs) -> [u32; 3] {
    [attrs.uid, attrs.gid, attrs.project]
}
