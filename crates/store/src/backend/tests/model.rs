//! A filesystem in memory that records what it does, against what the store gives back.

use super::super::load_many::PAGES_MOST;
use super::audit::audit;
use super::*;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone)]
enum Page {
    Unwritten,
    Bytes(Box<[u8]>),
}

/// Directory and name.
type Entry = (u64, Box<[u8]>);

struct Object {
    inode: Inode,
    pages: BTreeMap<u64, Page>,
    version: u32,
    contents_version: u32,
}

pub struct Model {
    pub random: Random,
    pub store: StoreBackend,
    /// Where commits can find no room.
    memory: Option<Arc<MemoryKv>>,
    objects: BTreeMap<u64, Object>,
    names: BTreeMap<Entry, Target>,
    versions: HashMap<(u64, u32, Box<[u8]>), u32>,
    settings: BTreeMap<Box<[u8]>, Box<[u8]>>,
    setting_version: u32,
    generations: HashMap<u64, u32>,
    last: u64,
    free: Vec<u64>,
    clock: u64,
    epoch: u64,
    log: Vec<Record>,
}

impl Model {
    pub fn new(seed: u64, mut store: StoreBackend, memory: Option<Arc<MemoryKv>>) -> Model {
        if seed.is_multiple_of(2) {
            store.limits = eager();
        }
        let mut model = Model {
            random: Random(seed),
            store,
            memory,
            objects: BTreeMap::new(),
            names: BTreeMap::new(),
            versions: HashMap::new(),
            settings: BTreeMap::new(),
            setting_version: u32::MAX - 3,
            generations: HashMap::new(),
            last: 0,
            free: Vec::new(),
            clock: 10,
            epoch: 0,
            log: Vec::new(),
        };
        model.make(Kind::Directory, 2);
        model
    }

    fn pick(&mut self, kind: Kind) -> Option<u64> {
        let of_kind: Vec<u64> = (self.objects.values())
            .filter(|object| object.inode.attrs.kind == kind)
            .map(|object| object.inode.ino)
            .collect();
        let count = of_kind.len() as u64;
        (count > 0).then(|| of_kind[self.random.below(count) as usize])
    }

    fn make(&mut self, kind: Kind, nlink: u32) -> u64 {
        let ino = match self.random.below(3) {
            0 => None,
            _ => self.free.pop(),
        };
        let ino = ino.unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        let generation = self.generations.entry(ino).or_insert(0);
        *generation += 1;
        let mut new = inode(ino, attrs(*generation, kind));
        new.attrs.nlink = nlink;
        new.attrs.uid = self.random.below(3) as u32;
        new.touched = if kind == Kind::Directory { 5 } else { 0 };
        if kind == Kind::Symlink {
            new.target = b"elsewhere"[..].into();
        }
        if self.random.below(4) == 0 {
            new.xattrs = vec![(b"user.first"[..].into(), b"1"[..].into())];
            new.attrs.extra_blocks = 1;
        }
        let version = self.random.next() as u32;
        self.log.push(Record::New {
            inode: Box::new(new.clone()),
            version,
        });
        let contents_version = u32::MAX - self.random.below(5) as u32;
        let object = Object {
            inode: new,
            pages: BTreeMap::new(),
            version,
            contents_version,
        };
        self.objects.insert(ino, object);
        ino
    }

    fn name(&mut self, dir: u64, name: &[u8], to: Option<Target>) {
        let generation = self.objects[&dir].inode.attrs.generation;
        let key = (dir, generation, name.into());
        let version = self.versions.entry(key).or_insert(u32::MAX - 2);
        *version = version.wrapping_add(1);
        self.log.push(Record::Name {
            dir,
            generation,
            name: name.into(),
            version: *version,
            to,
            came: false,
        });
        let key = (dir, name.into());
        match to {
            Some(to) => self.names.insert(key, to),
            None => self.names.remove(&key),
        };
    }

    fn count(&mut self, dir: u64, entries: i64, subdirectories: i64) {
        self.clock += 1;
        let touched = self.clock;
        let directory = &mut self.objects.get_mut(&dir).unwrap().inode;
        let add = |count: u64, change| count.checked_add_signed(change).unwrap();
        directory.entries = (
            add(directory.entries.0, entries),
            add(directory.entries.1, subdirectories),
        );
        directory.touched = touched;
        self.log.push(Record::Entries {
            dir,
            generation: directory.attrs.generation,
            entries,
            subdirectories,
            touched,
            order: touched,
        });
    }

    fn set(&mut self, ino: u64, change: impl FnOnce(&mut Attrs)) {
        let object = self.objects.get_mut(&ino).unwrap();
        change(&mut object.inode.attrs);
        object.version = object.version.wrapping_add(1);
        self.log.push(Record::Attrs {
            ino,
            version: object.version,
            attrs: object.inode.attrs,
        });
    }

    fn end(&mut self, ino: u64) {
        let object = self.objects.remove(&ino).unwrap();
        let generation = object.inode.attrs.generation;
        self.log.push(Record::Gone {
            ino,
            generation,
            is_brief: false,
        });
        self.free.push(ino);
    }

    fn edit(&mut self, ino: u64, size: u64, edit: Edit) {
        self.clock += 1;
        let object = self.objects.get_mut(&ino).unwrap();
        object.contents_version = object.contents_version.wrapping_add(1);
        object.inode.size = size;
        object.inode.touched = self.clock;
        self.log.push(Record::Contents {
            ino,
            generation: object.inode.attrs.generation,
            version: object.contents_version,
            size,
            touched: self.clock,
            order: self.clock,
            edit,
        });
        object.inode.pages = object.pages.len() as u64;
    }

    fn create(&mut self) {
        let dir = self.pick(Kind::Directory).unwrap();
        if self.objects[&dir].inode.attrs.nlink == 0 {
            return;
        }
        let name = self.some_name();
        if self.names.contains_key(&(dir, name.clone())) {
            return;
        }
        let (kind, nlink) = match self.random.below(8) {
            0 | 1 => (Kind::Directory, 2),
            2 => (Kind::Symlink, 1),
            _ => (Kind::File, 1),
        };
        let ino = self.make(kind, nlink);
        if kind == Kind::Directory {
            let object = self.objects.get_mut(&ino).unwrap();
            object.inode.parent = dir;
            let generation = object.inode.attrs.generation;
            self.log.push(Record::Parent {
                dir: ino,
                generation,
                version: 0,
                parent: dir,
            });
        }
        let generation = self.objects[&ino].inode.attrs.generation;
        let target = Target {
            ino,
            generation,
            kind,
        };
        self.name(dir, &name, Some(target));
        self.count(dir, 1, i64::from(kind == Kind::Directory));
    }

    fn some_name(&mut self) -> Box<[u8]> {
        format!("name{}", self.random.below(12)).into_bytes().into()
    }

    fn some_entry(&mut self) -> Option<(Entry, Target)> {
        let count = self.names.len() as u64;
        let at = self.random.below(count.max(1)) as usize;
        self.names
            .iter()
            .nth(at)
            .map(|(key, target)| (key.clone(), *target))
    }

    fn remove(&mut self) {
        let Some(((dir, name), target)) = self.some_entry() else {
            return;
        };
        let is_directory = target.kind == Kind::Directory;
        if is_directory && self.objects[&target.ino].inode.entries.0 > 0 {
            return;
        }
        self.name(dir, &name, None);
        self.count(dir, -1, -i64::from(is_directory));
        self.set(target.ino, |attrs| {
            attrs.nlink = if is_directory { 0 } else { attrs.nlink - 1 };
        });
        if self.objects[&target.ino].inode.attrs.nlink == 0 && self.random.below(2) == 0 {
            self.end(target.ino);
        }
    }

    fn link_or_rename(&mut self) {
        let (Some((from, target)), Some(dir)) = (self.some_entry(), self.pick(Kind::Directory))
        else {
            return;
        };
        let name = self.some_name();
        let is_directory = target.kind == Kind::Directory;
        let is_dead = self.objects[&dir].inode.attrs.nlink == 0;
        if is_dead || is_directory || self.names.contains_key(&(dir, name.clone())) {
            return;
        }
        self.name(dir, &name, Some(target));
        self.count(dir, 1, 0);
        if self.random.below(2) == 0 {
            self.set(target.ino, |attrs| attrs.nlink += 1);
        } else {
            self.name(from.0, &from.1, None);
            self.count(from.0, -1, 0);
        }
    }

    fn change_attributes(&mut self) {
        let kinds = [Kind::File, Kind::Directory, Kind::Symlink];
        let kind = kinds[self.random.below(3) as usize];
        let Some(ino) = self.pick(kind) else { return };
        let [uid, gid, project, extra] = [3, 2, 2, 3].map(|b| self.random.below(b) as u32);
        match self.random.below(4) {
            0 => self.set(ino, |attrs| attrs.perm ^= 0o111),
            1 => self.set(ino, |attrs| {
                (attrs.uid, attrs.gid, attrs.project) = (uid, gid, project);
            }),
            2 => {
                let object = self.objects.get_mut(&ino).unwrap();
                object.version = object.version.wrapping_add(1);
                let value = vec![7; 100 * extra as usize].into();
                object.inode.xattrs = match extra {
                    0 => Vec::new(),
                    _ => vec![(b"user.a"[..].into(), value)],
                };
                self.log.push(Record::Xattrs {
                    ino,
                    generation: object.inode.attrs.generation,
                    version: object.version,
                    xattrs: object.inode.xattrs.clone(),
                });
                self.set(ino, |attrs| attrs.extra_blocks = extra);
            }
            _ => {
                self.clock += 1;
                let order = self.clock;
                let object = self.objects.get_mut(&ino).unwrap();
                object.inode.touched = 0;
                let generation = object.inode.attrs.generation;
                self.log.push(Record::Untouched {
                    ino,
                    generation,
                    order,
                });
                self.set(ino, |attrs| attrs.mtime.sec += 1);
            }
        }
    }

    fn write(&mut self, ino: u64) {
        let first = self.random.below(40);
        let count = 1 + self.random.below(20);
        let (kind, seed) = (self.random.below(3), self.random.next());
        let pages: Vec<_> = (first..first + count)
            .map(|index| (index, page(seed ^ index)))
            .collect();
        let generation = self.objects[&ino].inode.attrs.generation;
        let object = self.objects.get_mut(&ino).unwrap();
        let size = object.inode.size.max((first + count) * PAGE as u64);
        let extents = match kind {
            0 => {
                object
                    .pages
                    .extend(pages.iter().map(|page| (page.0, Page::Unwritten)));
                vec![Extent {
                    pages: first..first + count,
                    place: hearth_backend::Place::Unwritten,
                }]
            }
            1 => {
                let count = count.min(16);
                let short = self.random.below(PAGE as u64) as usize;
                let mut bytes: Vec<u8> = pages[..count as usize]
                    .iter()
                    .flat_map(|page| &page.1[..])
                    .copied()
                    .collect();
                bytes.truncate(count as usize * PAGE - short);
                for (at, index) in (first..first + count).enumerate() {
                    let mut page = bytes[bytes.len().min(at * PAGE)..].to_vec();
                    page.resize(PAGE, 0);
                    object.pages.insert(index, Page::Bytes(page.into()));
                }
                vec![Extent {
                    pages: first..first + count,
                    place: hearth_backend::Place::Inline(bytes.into()),
                }]
            }
            _ => {
                let extents = self.store.write_pages(ino, generation, &pages).unwrap();
                for (index, bytes) in pages {
                    object.pages.insert(index, Page::Bytes(bytes));
                }
                extents
            }
        };
        self.edit(ino, size, Edit::Write(extents));
    }

    fn change_contents(&mut self) {
        let Some(ino) = self.pick(Kind::File) else {
            return;
        };
        let (from, count) = (self.random.below(40), 1 + self.random.below(12));
        let what = self.random.below(12);
        let object = self.objects.get_mut(&ino).unwrap();
        let size = object.inode.size;
        match what {
            0 | 1 => {
                object
                    .pages
                    .retain(|index, _| !(from..from + count).contains(index));
                self.edit(ino, size, Edit::Cut(from..from + count));
            }
            2 => {
                let from = if from < 20 { 0 } else { from };
                object.pages.retain(|index, _| *index < from);
                self.edit(ino, from * PAGE as u64, Edit::Cut(from..u64::MAX));
            }
            3 => {
                let moved = object.pages.split_off(&from);
                let moved = moved.into_iter().map(|(index, page)| (index + count, page));
                object.pages.extend(moved);
                let by = count as i64;
                self.edit(ino, size + count * PAGE as u64, Edit::Shift { from, by });
            }
            4 => {
                let from = from.max(count);
                let moved = object.pages.split_off(&from);
                object.pages.retain(|index, _| *index < from - count);
                let moved = moved.into_iter().map(|(index, page)| (index - count, page));
                object.pages.extend(moved);
                let by = -(count as i64);
                self.edit(
                    ino,
                    size.saturating_sub(count * PAGE as u64),
                    Edit::Shift { from, by },
                );
            }
            5 => self.edit(ino, size + 1, Edit::Size),
            _ => self.write(ino),
        }
    }

    fn change_setting(&mut self) {
        self.setting_version = self.setting_version.wrapping_add(1);
        let key: Box<[u8]> = [self.random.below(4) as u8].into();
        let value: Option<Box<[u8]>> = match self.random.below(3) {
            0 => None,
            _ => Some(self.random.next().to_le_bytes().into()),
        };
        match &value {
            Some(value) => self.settings.insert(key.clone(), value.clone()),
            None => self.settings.remove(&key),
        };
        self.log.push(Record::Setting {
            key,
            version: self.setting_version,
            value,
        });
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..=3 => self.create(),
            4 | 5 => self.remove(),
            6 => self.link_or_rename(),
            7 | 8 => self.change_attributes(),
            9 => {
                let orphan = (self.objects.values())
                    .find(|object| object.inode.attrs.nlink == 0)
                    .map(|object| object.inode.ino);
                match orphan {
                    Some(ino) => self.end(ino),
                    None => drop(self.make(Kind::File, 0)),
                }
            }
            10 => self.change_setting(),
            _ => self.change_contents(),
        }
    }

    fn commit(&mut self) {
        let mut records = std::mem::take(&mut self.log);
        for at in (1..records.len()).rev() {
            records.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        self.epoch += 1 + self.random.below(2);
        if let Some(kv) = &self.memory
            && self.random.below(8) == 0
        {
            kv.fill(true);
            let refused = self.store.commit(self.epoch, records);
            kv.fill(false);
            if refused.is_ok() {
                // There was nothing to write.
                return;
            }
            // The store keeps the records.
            assert_eq!(refused, Err(Errno::ENOSPC));
            if self.random.below(2) == 0 {
                self.step();
            }
            self.epoch += 1;
            records = std::mem::take(&mut self.log);
        }
        self.store.commit(self.epoch, records).unwrap();
    }

    /// Compares everything.
    pub fn check(&mut self) {
        assert_eq!(self.store.strays(), 0);
        for ino in 1..=self.last {
            let loaded = self.store.load_inode(ino).unwrap();
            let expected = self.objects.get(&ino).map(|object| object.inode.clone());
            assert_eq!(loaded, expected, "inode {ino}");
        }
        for (ino, object) in &self.objects {
            if object.inode.attrs.kind == Kind::Directory {
                let mut loaded = self.store.load_directory(*ino).unwrap();
                loaded.sort_by(|a, b| a.0.cmp(&b.0));
                let names: Vec<_> = self
                    .names
                    .iter()
                    .filter(|(key, _)| key.0 == *ino)
                    .map(|(key, target)| (key.1.clone(), *target))
                    .collect();
                assert_eq!(loaded, names);
            } else {
                self.check_contents(*ino, object);
            }
        }
        self.check_many();
        let name = format!("name{}", self.random.below(12)).into_bytes();
        let expected = self.names.get(&(1, name.clone().into())).copied();
        assert_eq!(self.store.load_entry(1, &name).unwrap(), expected);
        let restart = self.store.restart().unwrap().unwrap();
        let orphans: Vec<_> = (self.objects.values())
            .filter(|object| object.inode.attrs.nlink == 0)
            .map(|object| (object.inode.ino, object.inode.attrs.generation))
            .collect();
        assert_eq!(restart.orphans, orphans);
        assert!(restart.epoch <= self.epoch);
        assert_eq!(restart.last_inode, self.last);
        let settings: Vec<_> = self.settings.clone().into_iter().collect();
        assert_eq!(restart.settings, settings);
        audit(self.store.kv());
    }

    /// What is loaded at once is what is loaded one by one, and only large files are left out.
    fn check_many(&mut self) {
        let from = 1 + self.random.below(self.last);
        let mut many = self.store.load_inodes(from..self.last + 1).unwrap();
        many.sort_by_key(|(inode, _)| inode.ino);
        let mut expected = Vec::new();
        for (&ino, object) in self.objects.range(from..) {
            if object.inode.pages <= PAGES_MOST {
                let allocation = self.store.load_allocation(ino, 0..u64::MAX).unwrap();
                expected.push((object.inode.clone(), allocation));
            }
        }
        assert_eq!(many, expected);
    }

    fn check_contents(&self, ino: u64, object: &Object) {
        let allocation = self.store.load_allocation(ino, 0..u64::MAX).unwrap();
        let mut expected: Vec<(Range<u64>, bool)> = Vec::new();
        for (index, page) in &object.pages {
            let is_written = matches!(page, Page::Bytes(_));
            match expected.last_mut() {
                Some((range, is)) if range.end == *index && *is == is_written => range.end += 1,
                _ => expected.push((*index..index + 1, is_written)),
            }
        }
        assert_eq!(allocation, expected, "inode {ino}");
        // A part of it, whose edges may lie within an extent.
        let part = 3..ino % 50 + 4;
        let clipped = expected.into_iter().map(|(range, is_written)| {
            let range = range.start.max(part.start)..range.end.min(part.end);
            (range, is_written)
        });
        let clipped: Vec<_> = clipped.filter(|(range, _)| !range.is_empty()).collect();
        let allocation = self.store.load_allocation(ino, part).unwrap();
        assert_eq!(allocation, clipped, "inode {ino}");
        let pages = |range: Range<u64>| -> Vec<(u64, Vec<u8>)> {
            let pages = object.pages.range(range);
            pages
                .filter_map(|(index, page)| match page {
                    Page::Unwritten => None,
                    Page::Bytes(bytes) => Some((*index, bytes.to_vec())),
                })
                .collect()
        };
        for range in [0..u64::MAX, 3..17] {
            assert!(
                read(&self.store, ino, range.clone()) == pages(range),
                "inode {ino}"
            );
        }
    }

    /// Some operations, a commit, and idle work.
    pub fn round(&mut self) {
        for _ in 0..self.random.below(50) {
            self.step();
        }
        self.commit();
        while self.random.below(3) == 0 {
            self.store.tidy();
        }
        self.check();
    }
}

#[test]
fn a_store_gives_back_what_a_volume_recorded() {
    for seed in 1..=60u64 {
        let (store, kv, _) = store();
        let mut model = Model::new(seed.wrapping_mul(0x1357_9bdf_0246_8acf), store, Some(kv));
        for _ in 0..25 {
            model.round();
        }
    }
}
