//! Each kind of damage is planted by writing keys, found under its code, and put right without
//! taking away what can be read.

use super::*;
use crate::backend::memory::{MemoryBlocks, MemoryKv};
use crate::backend::{Blocks, KeyValues, StoreBackend};
use crate::kv::{KvOp, Table};
use crate::schema::{
    self, Block, Contents, Counters, Directory, Extent, Inline, Owner, Segment, Used,
    encode_target, key,
};
use hearth_backend::{
    Attrs, Backend, Edit, Extent as Pages, Inode, Kind, Place as PagesPlace, Record, Target,
};
use hearth_sync::primitive::Arc;
use std::collections::BTreeSet;

mod unreadable;

const PAGE: usize = 4096;
const GENERATION: u32 = 3;
/// Inodes of the volume of these tests.
const DIR: u64 = 2;
const DEEP: u64 = 3;
const INLINE: u64 = 10;
const STORED: u64 = 11;
const LINKED: u64 = 12;
const GONE: u64 = 13;

/// A volume in memory whose keys can be written.
struct Volume {
    kv: Arc<MemoryKv>,
    blocks: Arc<MemoryBlocks>,
    store: StoreBackend,
    data: Planted,
}

/// Segments that are said to be like this.
#[derive(Default)]
struct Planted {
    listed: Listed,
    bad_ends: BTreeSet<u64>,
    bad_blocks: BTreeSet<u64>,
    headers: Vec<StoredHeader>,
}

impl Data for Planted {
    fn list(&self) -> Result<Listed> {
        Ok(self.listed.clone())
    }

    fn ends(&self, segment: u64) -> Result<Option<String>> {
        let is_bad = self.bad_ends.contains(&segment);
        Ok(is_bad.then(|| "no trailer".to_owned()))
    }

    fn headers(&self, segment: u64) -> Result<Vec<StoredHeader>> {
        let of_segment = |header: &&StoredHeader| header.block.segment == segment;
        Ok(self.headers.iter().filter(of_segment).copied().collect())
    }

    fn block(&self, block: &Block) -> Result<Option<String>> {
        let is_bad = self.bad_blocks.contains(&block.segment);
        Ok(is_bad.then(|| "wrong digest".to_owned()))
    }
}

fn attrs(kind: Kind) -> Attrs {
    Attrs {
        uid: 5,
        gid: 6,
        project: 7,
        ..Attrs::new(GENERATION, kind, 0o644)
    }
}

fn target(ino: u64, kind: Kind) -> Target {
    Target {
        ino,
        generation: GENERATION,
        kind,
    }
}

/// Records that make an inode with names in directories.
fn made(ino: u64, attrs: Attrs, names: &[(u64, &str)]) -> Vec<Record> {
    let kind = attrs.kind;
    let is_directory = kind == Kind::Directory;
    let parent = if is_directory {
        names.first().map_or(ROOT, |(dir, _)| *dir)
    } else {
        0
    };
    let nlink = if is_directory { 1 } else { names.len() as u32 };
    let mut records = vec![Record::new(Inode {
        ino,
        attrs: Attrs { nlink, ..attrs },
        size: 0,
        pages: 0,
        touched: 0,
        entries: (0, 0),
        parent,
        target: Box::default(),
        xattrs: Vec::new(),
    })];
    for (dir, name) in names {
        records.push(Record::Name {
            dir: *dir,
            generation: GENERATION,
            name: name.as_bytes().into(),
            version: 1,
            to: Some(target(ino, kind)),
            came: false,
        });
        records.push(Record::Entries {
            dir: *dir,
            generation: GENERATION,
            entries: 1,
            subdirectories: i64::from(is_directory),
            touched: 0,
            order: 0,
        });
    }
    records
}

fn contents(ino: u64, size: u64, extents: Vec<Pages>) -> Record {
    Record::Contents {
        ino,
        generation: GENERATION,
        version: 1,
        size,
        touched: 0,
        order: 0,
        edit: Edit::Write(extents),
    }
}

impl Volume {
    fn new() -> Volume {
        let (kv, blocks) = (Arc::new(MemoryKv::new()), Arc::new(MemoryBlocks::new()));
        let store = StoreBackend::new(kv.clone(), blocks.clone()).expect("a store");
        let pages: Vec<_> = (0..3)
            .map(|page| (page, vec![page as u8 + 1; PAGE].into()))
            .collect();
        let stored = store
            .write_pages(STORED, GENERATION, &pages)
            .expect("a write");
        let mut records = made(ROOT, attrs(Kind::Directory), &[]);
        records.extend(made(DIR, attrs(Kind::Directory), &[(ROOT, "dir")]));
        records.extend(made(DEEP, attrs(Kind::Directory), &[(DIR, "deep")]));
        records.extend(made(INLINE, attrs(Kind::File), &[(DEEP, "inline")]));
        records.extend(made(STORED, attrs(Kind::File), &[(DIR, "stored")]));
        records.extend(made(
            LINKED,
            attrs(Kind::File),
            &[(DIR, "one"), (ROOT, "two")],
        ));
        records.push(contents(STORED, 3 * PAGE as u64, stored));
        let place = PagesPlace::Inline(vec![9; 2 * PAGE].into());
        records.push(contents(
            INLINE,
            2 * PAGE as u64,
            vec![Pages { pages: 0..2, place }],
        ));
        store.commit(1, records).expect("a commit");
        let segments = blocks.list().expect("a list");
        let headers = segments.iter().flat_map(|segment| {
            let of_segment = blocks.headers(*segment).expect("headers");
            of_segment.into_iter().map(|header| StoredHeader {
                ino: header.ino,
                generation: header.generation,
                page: header.page,
                epoch: 1,
                block: header.block,
            })
        });
        let headers = headers.collect();
        let listed = Listed {
            segments: segments
                .into_iter()
                .map(|segment| (segment, 1 << 25))
                .collect(),
            strange: Vec::new(),
        };
        let data = Planted {
            listed,
            headers,
            ..Planted::default()
        };
        Volume {
            kv,
            blocks,
            store,
            data,
        }
    }

    fn plant(&self, table: Table, key: &[u8], value: Option<Box<[u8]>>) {
        let key = key.into();
        let op = KvOp { table, key, value };
        self.kv
            .commit(self.kv.epoch() + 1, &[op])
            .expect("a commit");
    }

    fn put(&self, key: &[u8], value: Box<[u8]>) {
        self.plant(Table::Meta, key, Some(value));
    }

    fn remove(&self, key: &[u8]) {
        self.plant(Table::Meta, key, None);
    }

    fn contents(&self, ino: u64) -> Contents {
        let value = self
            .kv
            .get(Table::Meta, &key::contents(ino))
            .expect("a read");
        Contents::decode(ino, &value.expect("contents")).expect("contents")
    }

    fn check(&self, data: bool) -> Report {
        check(&*self.kv, &self.data, Options { data }, &mut |_| {}).expect("a check")
    }

    /// A check finds these codes; after a repair these are left, and all that could be read can be
    /// read. The paths of what was found.
    fn finds(&self, codes: &[&str], left: &[&str]) -> Report {
        let before = self.readable();
        let found = self.check(true);
        assert_eq!(
            names(&found),
            BTreeSet::from_iter(codes.iter().copied()),
            "{:?}",
            found.findings
        );
        assert_eq!(
            names(&self.check(true)),
            names(&found),
            "a check changes nothing"
        );
        let options = Options { data: true };
        let report = repair(&*self.kv, &self.data, &found, options, &mut |_| {});
        let report = report.expect("a repair");
        assert_eq!(
            names(&report),
            BTreeSet::from_iter(left.iter().copied()),
            "{:?}",
            report.findings
        );
        assert!(!report.is_repairable());
        let after = self.readable();
        let lost: Vec<_> = before.difference(&after).map(|(ino, _)| ino).collect();
        assert!(lost.is_empty(), "could be read before: {lost:?}");
        found
    }

    /// Inodes that are reached from the root, with all bytes that can be read.
    fn readable(&self) -> BTreeSet<(u64, Vec<u8>)> {
        let mut found = BTreeSet::new();
        let mut dirs = vec![ROOT];
        let mut seen = BTreeSet::new();
        while let Some(dir) = dirs.pop() {
            if !seen.insert(dir) {
                continue;
            }
            for (_, to) in self.store.load_directory(dir).unwrap_or_default() {
                let Ok(Some(inode)) = self.store.load_inode(to.ino) else {
                    continue;
                };
                if inode.attrs.kind == Kind::Directory {
                    dirs.push(to.ino);
                }
                let mut bytes = Vec::new();
                let mut take = |_, page: &[u8]| bytes.extend_from_slice(page);
                let is_read = self.store.load_pages(to.ino, 0..100, &mut take).is_ok();
                if is_read && to.ino != ROOT {
                    found.insert((to.ino, bytes));
                }
            }
        }
        found
    }
}

fn names(report: &Report) -> BTreeSet<&'static str> {
    report.totals.keys().map(|code| code.name()).collect()
}

fn path_of<'a>(report: &'a Report, code: &str) -> &'a str {
    let mut found = report.findings.iter().filter(|f| f.code.name() == code);
    let path = found.next().and_then(|finding| finding.path.as_deref());
    std::str::from_utf8(path.unwrap_or(b"none")).expect("text")
}

#[test]
fn nothing_is_found_in_a_good_volume_nor_in_a_new_one() {
    let volume = Volume::new();
    let report = volume.finds(&[], &[]);
    assert!(report.is_clean());
    let counted = report.counted;
    assert_eq!(
        (counted.inodes, counted.directories, counted.names),
        (6, 3, 6)
    );
    assert_eq!((counted.extents, counted.pages), (2, 5));
    assert!(counted.blocks > 0 && counted.segments > 0);
    let empty = Arc::new(MemoryKv::new());
    let report = check(
        &*empty,
        &Planted::default(),
        Options::default(),
        &mut |_| {},
    );
    assert_eq!(names(&report.expect("a check")), BTreeSet::new());
}

#[test]
fn keys_and_values_that_cannot_be_read() {
    let volume = Volume::new();
    volume.put(b"Q12345678", b"?".as_slice().into());
    volume.finds(&["F001"], &["F001"]);
    let volume = Volume::new();
    volume.put(b"I123", Box::default());
    volume.put(&key::xattrs(STORED), b"?".as_slice().into());
    volume.plant(Table::Extents, b"E1", Some(Box::default()));
    volume.finds(&["F002"], &[]);
    let volume = Volume::new();
    volume.put(key::COUNTERS, Counters::default().encode());
    volume.finds(&["F004"], &[]);
    let volume = Volume::new();
    volume.remove(key::COUNTERS);
    volume.finds(&["F004"], &[]);
}

#[test]
fn an_engine_that_cannot_be_read_to_its_end_is_not_repaired() {
    struct Damaged(Arc<MemoryKv>);
    impl Read for Damaged {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
            self.0.get(table, key)
        }
        fn scan(
            &self,
            table: Table,
            from: &[u8],
            _to: Option<&[u8]>,
            visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        ) -> Result<()> {
            self.0
                .scan(table, from, Some(b"I\0\0\0\0\0\0\0\x0b"), visit)?;
            Err(schema::corrupt(b"I", "a damaged table"))
        }
    }
    let volume = Volume::new();
    let view = Damaged(volume.kv.clone());
    let report = check(&view, &volume.data, Options::default(), &mut |_| {}).expect("a check");
    assert!(
        report.has_loss() && names(&report).contains("F003"),
        "{report:?}"
    );
    assert!(!report.is_repairable());
}

#[test]
fn names_that_mean_nothing_or_something_else() {
    let volume = Volume::new();
    volume.put(
        &key::name(DIR, b"none"),
        encode_target(&target(99, Kind::File)),
    );
    let other = Target {
        generation: 1,
        ..target(STORED, Kind::File)
    };
    volume.put(&key::name(DIR, b"old"), encode_target(&other));
    let report = volume.finds(&["F010"], &[]);
    assert_eq!(path_of(&report, "F010"), "/dir/none");
    let volume = Volume::new();
    volume.put(
        &key::name(DIR, b"stored"),
        encode_target(&target(STORED, Kind::Fifo)),
    );
    volume.finds(&["F011"], &[]);
    let volume = Volume::new();
    volume.remove(&key::name(DIR, b"stored"));
    volume.put(
        &key::name(DIR, b"a/b"),
        encode_target(&target(STORED, Kind::File)),
    );
    let report = volume.finds(&["F012", "F020", "F021", "F030"], &[]);
    assert_eq!(path_of(&report, "F012"), "/dir/a/b");
    let volume = Volume::new();
    volume.put(
        &key::name(STORED, b"below"),
        encode_target(&target(LINKED, Kind::File)),
    );
    volume.finds(&["F013"], &[]);
}

#[test]
fn a_file_without_a_name_gets_its_number_in_lost_and_found() {
    let volume = Volume::new();
    volume.remove(&key::name(DIR, b"stored"));
    volume.finds(&["F020", "F021", "F030"], &[]);
    let found = volume
        .store
        .load_entry(ROOT, b"lost+found")
        .expect("a read");
    let found = found.expect("lost+found");
    let entry = volume.store.load_entry(found.ino, b"#11").expect("a read");
    assert_eq!(entry, Some(target(STORED, Kind::File)));
    // Again, with the name taken.
    volume.remove(&key::name(found.ino, b"#11"));
    let name = key::name(found.ino, b"#11");
    volume.put(&name, encode_target(&target(LINKED, Kind::File)));
    volume.finds(&["F020", "F021"], &[]);
    let entry = volume
        .store
        .load_entry(found.ino, b"#11.1")
        .expect("a read");
    assert_eq!(entry, Some(target(STORED, Kind::File)));
}

#[test]
fn a_file_named_lost_and_found_is_left_alone() {
    let volume = Volume::new();
    volume.remove(&key::name(DIR, b"stored"));
    volume.remove(&key::name(ROOT, b"two"));
    let name = key::name(ROOT, b"lost+found");
    volume.put(&name, encode_target(&target(LINKED, Kind::File)));
    volume.finds(&["F020", "F021", "F030"], &[]);
    let found = volume
        .store
        .load_entry(ROOT, b"lost+found.1")
        .expect("a read");
    assert_eq!(found.map(|target| target.kind), Some(Kind::Directory));
}

#[test]
fn a_directory_is_in_one_place() {
    let volume = Volume::new();
    volume.put(
        &key::name(ROOT, b"again"),
        encode_target(&target(DEEP, Kind::Directory)),
    );
    let report = volume.finds(&["F014"], &[]);
    assert_eq!(path_of(&report, "F014"), "/again");
    // The parent that it knows counts, whichever name comes first.
    let volume = Volume::new();
    let says = Directory {
        entries: 1,
        parent: DIR,
        ..Directory::default()
    };
    volume.put(
        &key::name(DIR, b"a"),
        encode_target(&target(ROOT, Kind::Directory)),
    );
    volume.put(&key::directory(DEEP), says.encode());
    volume.finds(&["F014"], &[]);
    // A ring: the directory above is inside the one below.
    let volume = Volume::new();
    volume.remove(&key::name(ROOT, b"dir"));
    volume.put(
        &key::name(DEEP, b"up"),
        encode_target(&target(DIR, Kind::Directory)),
    );
    let report = volume.finds(&["F015", "F030", "F031", "F032"], &[]);
    assert_eq!(report.totals[&Code::Ring], 1);
    assert!(volume.readable().iter().any(|(ino, _)| *ino == STORED));
}

#[test]
fn a_root_that_is_gone_is_made_and_what_was_below_it_is_kept() {
    let volume = Volume::new();
    volume.remove(&key::inode(ROOT));
    volume.finds(&["F016", "F024", "F020", "F021", "F060"], &[]);
    let left: BTreeSet<u64> = volume.readable().into_iter().map(|(ino, _)| ino).collect();
    assert!(
        [DIR, DEEP, STORED, INLINE, LINKED]
            .iter()
            .all(|ino| left.contains(ino)),
        "{left:?}"
    );
}

#[test]
fn an_inode_that_is_gone_is_made_anew_where_parts_of_it_are_there() {
    let volume = Volume::new();
    volume.remove(&key::inode(STORED));
    volume.finds(&["F024", "F030", "F060"], &[]);
    let inode = volume
        .store
        .load_inode(STORED)
        .expect("a read")
        .expect("an inode");
    assert_eq!(
        (inode.attrs.perm, inode.attrs.uid, inode.size),
        (0o600, 0, 3 * PAGE as u64)
    );
    assert_eq!(inode.attrs.generation, GENERATION);
    let volume = Volume::new();
    volume.remove(&key::inode(DIR));
    volume.finds(&["F024", "F020", "F021", "F030", "F031", "F060"], &[]);
    let entry = volume.store.load_entry(ROOT, b"dir").expect("a read");
    assert_eq!(entry, Some(target(DIR, Kind::Directory)));
    assert_eq!(volume.store.load_directory(DIR).expect("a list").len(), 3);
}

#[test]
fn parts_without_an_inode_are_removed() {
    let volume = Volume::new();
    volume.put(&key::xattrs(99), schema::Xattrs::encode(&[]));
    volume.put(&key::contents(98), Contents::default().encode());
    volume.put(&key::directory(97), Directory::default().encode());
    volume.put(&key::directory(STORED), Directory::default().encode());
    let report = volume.finds(&["F025"], &[]);
    assert_eq!(report.totals[&Code::Stray], 4);
}

#[test]
fn orphans_are_without_a_name() {
    let volume = Volume::new();
    let generation = GENERATION.to_le_bytes();
    volume.put(&key::orphan(STORED), generation.into());
    volume.put(&key::orphan(99), generation.into());
    let report = volume.finds(&["F022"], &[]);
    assert_eq!(report.totals[&Code::NoOrphan], 2);
    let volume = Volume::new();
    let mut records = made(GONE, attrs(Kind::File), &[]);
    records.extend(made(14, attrs(Kind::File), &[(ROOT, "x")]));
    volume.store.commit(2, records).expect("a commit");
    volume.put(&key::orphan(GONE), generation.into());
    let report = volume.finds(&["F023"], &["F023"]);
    assert!(report.is_clean());
}

#[test]
fn numbers_of_names_and_entries_are_counted() {
    let volume = Volume::new();
    let attrs = Attrs {
        nlink: 7,
        ..attrs(Kind::File)
    };
    let target = Box::default();
    volume.put(
        &key::inode(LINKED),
        schema::Inode { attrs, target }.encode(),
    );
    let report = volume.finds(&["F021"], &[]);
    assert!(path_of(&report, "F021").ends_with("/two"));
    let volume = Volume::new();
    let says = Directory {
        entries: 9,
        subdirectories: 9,
        touched: 5,
        parent: 9,
    };
    volume.put(&key::directory(DIR), says.encode());
    let report = volume.finds(&["F030", "F031", "F032"], &[]);
    assert_eq!(path_of(&report, "F030"), "/dir");
    let inode = volume
        .store
        .load_inode(DIR)
        .expect("a read")
        .expect("an inode");
    assert_eq!(
        (inode.entries, inode.parent, inode.touched),
        ((3, 1), ROOT, 5)
    );
}

/// The extent of a file that ends with this page.
fn extent(volume: &Volume, ino: u64, last: u64) -> (Box<[u8]>, Extent) {
    let key = key::extent(volume.contents(ino).map, last);
    let value = volume
        .kv
        .get(Table::Extents, &key)
        .expect("a read")
        .expect("an extent");
    let extent = Extent::decode(&key, &value).expect("an extent");
    (key, extent)
}

fn stored(extent: &Extent) -> Block {
    match extent.place {
        schema::Place::Stored { block, .. } => block,
        _ => panic!("no block"),
    }
}

#[test]
fn of_two_extents_for_one_range_the_newer_one_stays() {
    let volume = Volume::new();
    let map = volume.contents(STORED).map;
    // Unwritten pages are older than any block; inline bytes are newer.
    let place = schema::Place::Unwritten;
    let wide = Extent { pages: 1..6, place };
    volume.plant(Table::Extents, &key::extent(map, 5), Some(wide.encode()));
    volume.finds(&["F040", "F046", "F060", "F061"], &[]);
    assert_eq!(volume.contents(STORED).pages, 6);
    let volume = Volume::new();
    let map = volume.contents(INLINE).map;
    let block = Block {
        length: 2 * PAGE as u32,
        ..stored(&extent(&volume, STORED, 2).1)
    };
    let place = schema::Place::Stored { block, within: 0 };
    let older = Extent { pages: 1..3, place };
    volume.plant(Table::Extents, &key::extent(map, 2), Some(older.encode()));
    let mut says = volume.contents(INLINE);
    says.size = 3 * PAGE as u64;
    volume.put(&key::contents(INLINE), says.encode());
    let found = volume.check(false);
    assert!(names(&found).contains("F040"), "{:?}", found.findings);
    let options = Options::default();
    repair(&*volume.kv, &volume.data, &found, options, &mut |_| {}).expect("a repair");
    assert_eq!(extent(&volume, INLINE, 1).1.pages, 0..2);
    let (_, cut) = extent(&volume, INLINE, 2);
    assert_eq!(cut.pages, 2..3);
    assert!(matches!(cut.place, schema::Place::Stored { within: 1, .. }));
}

#[test]
fn written_extents_behind_the_end_are_cut_there() {
    let volume = Volume::new();
    let mut says = volume.contents(INLINE);
    says.size = 100;
    volume.put(&key::contents(INLINE), says.encode());
    let found = volume.check(false);
    assert_eq!(names(&found), BTreeSet::from(["F041"]));
    let left = repair(
        &*volume.kv,
        &volume.data,
        &found,
        Options::default(),
        &mut |_| {},
    );
    assert_eq!(names(&left.expect("a repair")), BTreeSet::new());
    let (key, extent) = extent(&volume, INLINE, 0);
    assert_eq!(extent.pages, 0..1);
    let inline = key::inline(key::page(&key).expect("a key").0, 0);
    let value = volume
        .kv
        .get(Table::Extents, &inline)
        .expect("a read")
        .expect("bytes");
    let inline = Inline::decode(&inline, &value).expect("inline").bytes.len();
    assert_eq!(inline, PAGE);
}

/// Once, they ended the check.
#[test]
fn extents_that_no_file_has_are_found_and_go() {
    for pages in [
        1000..u64::MAX,
        1 << 52..(1 << 52) + 2,
        (1 << 51) - 1..(1 << 51) + 1,
    ] {
        for ino in [INLINE, STORED] {
            let volume = Volume::new();
            let key = key::extent(volume.contents(ino).map, pages.end - 1);
            let extent = Extent {
                pages: pages.clone(),
                place: schema::Place::Unwritten,
            };
            volume.plant(Table::Extents, &key, Some(extent.encode()));
            let mut says = volume.contents(ino);
            says.size = u64::MAX;
            volume.put(&key::contents(ino), says.encode());
            assert!(names(&volume.check(false)).contains("F041"), "{pages:?}");
            repaired(&volume);
            assert_eq!(repaired(&volume), BTreeSet::new(), "{pages:?}");
        }
    }
    // Two whose pages together have no number, an inline one, and one that cannot be read.
    let volume = Volume::new();
    for ino in [INLINE, STORED] {
        let key = key::extent(volume.contents(ino).map, u64::MAX - 1);
        let place = match ino {
            INLINE => schema::Place::Inline,
            _ => schema::Place::Unwritten,
        };
        let pages = 1000..u64::MAX;
        let extent = Extent { pages, place };
        volume.plant(Table::Extents, &key, Some(extent.encode()));
        let key = key::extent(volume.contents(ino).map, u64::MAX);
        volume.plant(Table::Extents, &key, Some([0; 3].into()));
    }
    let found = names(&volume.check(false));
    assert!(
        found.contains("F041") && found.contains("F049"),
        "{found:?}"
    );
}

#[test]
fn extents_whose_bytes_are_gone_are_reported_and_stay() {
    let mut volume = Volume::new();
    let segment = stored(&extent(&volume, STORED, 2).1).segment;
    volume
        .data
        .listed
        .segments
        .retain(|(number, _)| *number != segment);
    let report = volume.finds(&["F042", "F051"], &["F042"]);
    assert!(report.has_loss());
    assert_eq!(path_of(&report, "F042"), "/dir/stored");
    let mut volume = Volume::new();
    for (_, len) in &mut volume.data.listed.segments {
        *len = 100;
    }
    volume.finds(&["F043"], &["F043"]);
    let volume = Volume::new();
    let map = volume.contents(INLINE).map;
    volume.plant(Table::Extents, &key::inline(map, 1), None);
    let report = volume.finds(&["F044"], &["F044"]);
    assert_eq!(path_of(&report, "F044"), "/dir/deep/inline");
}

/// Once, each extent had a line: a file that had lost a segment of 32 MiB had five hundred.
#[test]
fn lost_extents_side_by_side_are_one_finding() {
    let mut volume = Volume::new();
    let map = volume.contents(STORED).map;
    let block = stored(&extent(&volume, STORED, 2).1);
    for page in 0..3 {
        let (pages, within) = (page..page + 1, page as u32);
        let place = schema::Place::Stored { block, within };
        let value = Extent { pages, place }.encode();
        volume.plant(Table::Extents, &key::extent(map, page), Some(value));
    }
    volume.data.listed.segments.clear();
    let lost = |volume: &Volume| -> Vec<String> {
        let report = volume.check(false);
        let is_lost = |found: &&Finding| found.code == Code::NoSegment;
        let lost = report.findings.iter().filter(is_lost);
        lost.map(|found| found.detail.clone()).collect()
    };
    let said = |bytes: &str| format!("bytes {bytes}, segment {:016x}", block.segment);
    assert_eq!(lost(&volume), [said("0 to 12288")]);
    volume.plant(Table::Extents, &key::extent(map, 1), None);
    assert_eq!(lost(&volume), [said("0 to 4096"), said("8192 to 12288")]);
}

#[test]
fn an_extent_that_cannot_be_read_costs_its_own_range_alone() {
    let volume = Volume::new();
    let map = volume.contents(STORED).map;
    volume.plant(
        Table::Extents,
        &key::extent(map, 40),
        Some(b"?".as_slice().into()),
    );
    let mut says = volume.contents(STORED);
    says.size = 41 * PAGE as u64;
    volume.put(&key::contents(STORED), says.encode());
    let read = |volume: &Volume, range| {
        let mut bytes = Vec::new();
        let mut take = |_, page: &[u8]| bytes.push(page[0]);
        let read = volume.store.load_pages(STORED, range, &mut take);
        read.map(|()| bytes)
    };
    let found = volume.check(false);
    assert_eq!(names(&found), BTreeSet::from(["F049"]));
    let left = repair(
        &*volume.kv,
        &volume.data,
        &found,
        Options::default(),
        &mut |_| {},
    );
    assert_eq!(names(&left.expect("a repair")), BTreeSet::from(["F042"]));
    assert_eq!(read(&volume, 0..10), Ok(vec![1, 2, 3]));
    assert!(read(&volume, 40..41).is_err());
    assert!(volume.store.load_allocation(STORED, 0..u64::MAX).is_ok());
}

#[test]
fn bytes_and_maps_that_nothing_names_are_given_back() {
    let volume = Volume::new();
    let inline = Inline {
        ino: 1,
        generation: 1,
        first: 0,
        bytes: b"x",
    };
    volume.plant(Table::Extents, &key::inline(77, 0), Some(inline.encode()));
    volume.finds(&["F045"], &[]);
    let volume = Volume::new();
    let unwritten = Extent {
        pages: 0..4,
        place: schema::Place::Unwritten,
    };
    volume.plant(
        Table::Extents,
        &key::extent(77, 3),
        Some(unwritten.encode()),
    );
    volume.finds(&["F047", "F061"], &[]);
    let dying = volume.kv.get(Table::Meta, &key::dying(77)).expect("a read");
    assert!(dying.is_some());
}

/// Once, nothing was found there, and idle work deleted the extents of the file.
#[test]
fn a_map_that_a_file_has_is_not_to_be_deleted() {
    let volume = Volume::new();
    for ino in [INLINE, STORED] {
        let dying = key::dying(volume.contents(ino).map);
        volume.put(&dying, Box::default());
        let found = volume.finds(&["F058"], &[]);
        assert_eq!(found.totals.values().sum::<u64>(), 1);
        assert_eq!(volume.kv.get(Table::Meta, &dying).expect("a read"), None);
    }
}

#[test]
fn two_files_with_one_map_get_one_each() {
    let volume = Volume::new();
    let says = volume.contents(INLINE);
    volume.put(&key::contents(LINKED), says.encode());
    volume.finds(&["F048", "F060"], &[]);
    assert_ne!(volume.contents(INLINE).map, volume.contents(LINKED).map);
    let mut bytes = Vec::new();
    let mut take = |_, page: &[u8]| bytes.extend_from_slice(page);
    volume
        .store
        .load_pages(LINKED, 0..2, &mut take)
        .expect("a read");
    assert_eq!(bytes, vec![9; 2 * PAGE]);
}

#[test]
fn pages_live_pages_and_usage_are_counted() {
    let volume = Volume::new();
    let mut says = volume.contents(STORED);
    says.pages = 77;
    volume.put(&key::contents(STORED), says.encode());
    volume.finds(&["F046"], &[]);
    let volume = Volume::new();
    let segment = stored(&extent(&volume, STORED, 2).1).segment;
    let says = Segment { live: 1, named: 9 };
    volume.put(&key::segment(segment), says.encode());
    volume.finds(&["F050"], &[]);
    volume.remove(&key::segment(segment));
    volume.finds(&["F050"], &[]);
    let owner = Owner {
        uid: 5,
        gid: 6,
        project: 7,
    };
    let used = Used {
        blocks: 5,
        inodes: 6,
    };
    let value = volume
        .kv
        .get(Table::Meta, &key::usage(&owner))
        .expect("a read");
    assert_eq!(value.as_deref(), Some(&*used.encode()));
    volume.put(
        &key::usage(&owner),
        Used {
            blocks: 1,
            inodes: 1,
        }
        .encode(),
    );
    volume.put(&key::usage(&Owner { uid: 9, ..owner }), used.encode());
    let report = volume.finds(&["F060"], &[]);
    assert_eq!(report.totals[&Code::Usage], 2);
}

#[test]
fn segments_without_records_and_records_without_segments() {
    let mut volume = Volume::new();
    volume.put(&key::segment(55), Segment { live: 3, named: 3 }.encode());
    volume.data.listed.segments.push((66, 1000));
    // Cut off by a power cut, before a record named it.
    volume.data.bad_ends.insert(66);
    volume.data.listed.strange.push("segments/00/x".to_owned());
    let report = volume.finds(&["F004", "F051", "F052", "F053"], &["F052", "F053"]);
    assert!(!report.is_clean());
    let mut volume = Volume::new();
    let segment = stored(&extent(&volume, STORED, 2).1).segment;
    volume.data.bad_ends.insert(segment);
    volume.finds(&["F054"], &["F054"]);
}

#[test]
fn blocks_are_verified_when_that_is_asked_for() {
    let mut volume = Volume::new();
    let segment = stored(&extent(&volume, STORED, 2).1).segment;
    volume.data.bad_blocks.insert(segment);
    assert!(volume.check(false).is_clean());
    let report = volume.finds(&["F055"], &["F055"]);
    assert_eq!(path_of(&report, "F055"), "/dir/stored");
    assert!(volume.blocks.list().is_ok());
}

#[test]
fn a_repair_that_is_killed_between_two_commits_goes_on() {
    let break_it = |volume: &Volume| {
        volume.remove(&key::inode(ROOT));
        volume.remove(&key::name(DIR, b"stored"));
        volume.put(&key::directory(DEEP), Directory::default().encode());
        volume.put(&key::xattrs(99), b"?".as_slice().into());
    };
    let whole = Volume::new();
    break_it(&whole);
    let found = whole.check(false);
    repair(
        &*whole.kv,
        &whole.data,
        &found,
        Options::default(),
        &mut |_| {},
    )
    .expect("a repair");
    let wanted = whole.readable();
    for commits in 0..8 {
        let volume = Volume::new();
        break_it(&volume);
        for _ in 0..commits {
            let report = volume.check(false);
            if let Some((_, fixes)) = report.first_stage() {
                volume
                    .kv
                    .commit(volume.kv.epoch() + 1, fixes)
                    .expect("a commit");
            }
        }
        let found = volume.check(false);
        let options = Options::default();
        let left = repair(&*volume.kv, &volume.data, &found, options, &mut |_| {});
        assert!(left.expect("a repair").is_clean());
        assert_eq!(volume.readable(), wanted, "after {commits} commits");
    }
}

/// The pages of a file, by their first byte.
fn first_bytes(volume: &Volume, ino: u64) -> std::result::Result<Vec<u8>, hearth_backend::Errno> {
    let mut bytes = Vec::new();
    let mut take = |_, page: &[u8]| bytes.push(page[0]);
    let read = volume.store.load_pages(ino, 0..50, &mut take);
    read.map(|()| bytes)
}

fn repaired(volume: &Volume) -> BTreeSet<&'static str> {
    let found = volume.check(false);
    let options = Options::default();
    let left = repair(&*volume.kv, &volume.data, &found, options, &mut |_| {});
    names(&left.expect("a repair"))
}

#[test]
fn extents_that_are_gone_are_found_again_by_the_headers_of_their_blocks() {
    let mut volume = Volume::new();
    let (key, _) = extent(&volume, STORED, 2);
    let newest = volume.data.headers[0];
    // An older block of a page, and one of an inode that had the number before.
    for (epoch, generation) in [(0, GENERATION), (9, 1)] {
        let block = Block {
            at: 7,
            length: PAGE as u32,
            ..newest.block
        };
        volume.data.headers.push(StoredHeader {
            page: 1,
            epoch,
            generation,
            block,
            ..newest
        });
    }
    volume.plant(Table::Extents, &key, None);
    let report = volume.finds_loss();
    assert_eq!(names(&report), BTreeSet::from(["F056"]));
    assert_eq!(path_of(&report, "F056"), "/dir/stored");
    assert_eq!(repaired(&volume), BTreeSet::new());
    assert_eq!(first_bytes(&volume, STORED), Ok(vec![1, 2, 3]));
}

#[test]
fn where_headers_do_not_tell_what_was_there_reads_fail() {
    // Three blocks and two pages: one was cut since, and nobody knows which.
    let volume = Volume::new();
    let (key, _) = extent(&volume, STORED, 2);
    volume.plant(Table::Extents, &key, None);
    let mut says = volume.contents(STORED);
    says.pages = 2;
    volume.put(&key::contents(STORED), says.encode());
    let report = volume.finds_loss();
    assert!(names(&report).is_superset(&BTreeSet::from(["F056", "F057"])));
    assert_eq!(repaired(&volume), BTreeSet::from(["F042"]));
    assert!(first_bytes(&volume, STORED).is_err());
    // No header at all: inline bytes have none.
    let volume = Volume::new();
    let (key, _) = extent(&volume, INLINE, 1);
    volume.plant(Table::Extents, &key, None);
    let inline = key::inline(volume.contents(INLINE).map, 1);
    volume.plant(Table::Extents, &inline, None);
    assert_eq!(names(&volume.finds_loss()), BTreeSet::from(["F057"]));
    assert_eq!(repaired(&volume), BTreeSet::from(["F042"]));
    assert!(first_bytes(&volume, INLINE).is_err());
}

impl Volume {
    fn finds_loss(&self) -> Report {
        let report = self.check(false);
        assert!(report.has_loss(), "{:?}", report.findings);
        report
    }
}

#[test]
fn files_whose_extents_cannot_be_read_get_them_back_and_the_others_keep_theirs() {
    /// Extents of one map cannot be read.
    struct Damaged(Arc<MemoryKv>, u64);
    impl Read for Damaged {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
            self.0.get(table, key)
        }
        fn scan(
            &self,
            table: Table,
            from: &[u8],
            to: Option<&[u8]>,
            visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        ) -> Result<()> {
            let mut is_damaged = false;
            self.0.scan(table, from, to, &mut |key, value| {
                is_damaged = table == Table::Extents
                    && key.starts_with(key::EXTENTS)
                    && key::page(key).is_ok_and(|(map, _)| map == self.1);
                !is_damaged && visit(key, value)
            })?;
            match is_damaged {
                true => Err(schema::corrupt(b"E", "a damaged table")),
                false => Ok(()),
            }
        }
    }
    let volume = Volume::new();
    let map = volume.contents(STORED).map;
    let view = Damaged(volume.kv.clone(), map);
    let check = || check(&view, &volume.data, Options::default(), &mut |_| {}).expect("a check");
    let report = check();
    assert_eq!(
        names(&report),
        BTreeSet::from(["F003", "F056"]),
        "{:?}",
        report.findings
    );
    let (_, fixes) = report.first_stage().expect("changes");
    volume
        .kv
        .commit(volume.kv.epoch() + 1, fixes)
        .expect("a commit");
    assert_ne!(volume.contents(STORED).map, map);
    assert_eq!(first_bytes(&volume, STORED), Ok(vec![1, 2, 3]));
    assert_eq!(first_bytes(&volume, INLINE), Ok(vec![9, 9]));
    let report = check();
    assert_eq!(
        names(&report),
        BTreeSet::from(["F003"]),
        "{:?}",
        report.findings
    );
    assert!(!report.is_repairable());
}
