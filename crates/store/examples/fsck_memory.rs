//! How much memory a check takes: of a volume that is made up key by key and takes none itself.
//!
//! `cargo run --release -p hearth-store --example fsck_memory [INODES] [DIRECTORIES]`

use hearth_backend::{Attrs, Kind, Target};
use hearth_store::fsck::{Data, Listed, Options, StoredHeader, check};
use hearth_store::schema::{
    Block, Contents, Counters, Directory, Extent, Inode, Owner, Place, Used, encode_target,
    encode_unwritten, key,
};
use hearth_store::{Read, Result, Table};
use std::time::Instant;

/// A volume of files in directories below the root, each file with a page that is allocated.
struct MadeUp {
    directories: u64,
    files: u64,
}

type Key = Box<[u8]>;
type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

impl MadeUp {
    /// The first inode that is a file: 1 is the root.
    fn first_file(&self) -> u64 {
        self.directories + 2
    }

    fn end(&self) -> u64 {
        self.first_file() + self.files
    }

    /// The names of a directory are the inodes of this row.
    fn below(&self, dir: u64) -> (u64, u64, u64) {
        match dir {
            1 => (2, self.first_file(), 1),
            dir => (self.first_file() + dir - 2, self.end(), self.directories),
        }
    }

    fn kind(&self, ino: u64) -> Kind {
        match ino < self.first_file() {
            true => Kind::Directory,
            false => Kind::File,
        }
    }

    fn inode(&self, ino: u64) -> Box<[u8]> {
        let attrs = Attrs::new(1, self.kind(ino), 0o755);
        let target = Box::default();
        Inode { attrs, target }.encode()
    }

    fn directory(&self, ino: u64) -> Box<[u8]> {
        let (first, end, step) = self.below(ino);
        let entries = end.saturating_sub(first).div_ceil(step);
        let directory = Directory {
            entries,
            subdirectories: if ino == 1 { entries } else { 0 },
            touched: 0,
            parent: 1,
        };
        directory.encode()
    }

    /// Passes numbered keys from `from` on; false when the visitor has enough.
    fn numbered(
        from: &[u8],
        numbers: std::ops::Range<u64>,
        key_of: impl Fn(u64) -> Key,
        value_of: impl Fn(u64) -> Box<[u8]>,
        visit: Visit<'_>,
    ) -> bool {
        let letter = key_of(0)[0];
        let start = match from.first() {
            Some(first) if *first == letter => {
                let mut number = [0; 8];
                let given = &from[1..from.len().min(9)];
                number[..given.len()].copy_from_slice(given);
                u64::from_be_bytes(number)
            }
            _ => 0,
        };
        let mut all = (start.max(numbers.start)..numbers.end).skip_while(|n| *key_of(*n) < *from);
        all.all(|number| visit(&key_of(number), &value_of(number)))
    }

    fn names(&self, from: &[u8], visit: Visit<'_>) -> bool {
        let mut number = [0; 8];
        if from.first() == Some(&b'N') {
            let given = &from[1..from.len().min(9)];
            number[..given.len()].copy_from_slice(given);
        }
        let first = u64::from_be_bytes(number).max(1);
        (first..self.first_file()).all(|dir| {
            let (first, end, step) = self.below(dir);
            (first..end).step_by(step as usize).all(|ino| {
                let key = key::name(dir, format!("{ino:012}").as_bytes());
                let kind = self.kind(ino);
                let target = Target {
                    ino,
                    generation: 1,
                    kind,
                };
                *key < *from || visit(&key, &encode_target(&target))
            })
        })
    }

    fn one(from: &[u8], key: &[u8], value: Box<[u8]>, visit: Visit<'_>) -> bool {
        key < from || visit(key, &value)
    }

    fn meta(&self, from: &[u8], visit: Visit<'_>) {
        let files = self.first_file()..self.end();
        let contents = |ino: u64| {
            let contents = Contents {
                size: 4096,
                pages: 1,
                touched: 0,
                map: ino,
            };
            contents.encode()
        };
        let owner = Owner {
            uid: 0,
            gid: 0,
            project: 0,
        };
        let used = Used {
            blocks: self.files,
            inodes: self.end() - 1,
        };
        let counters = Counters {
            epoch: 1,
            last_inode: self.end() - 1,
            next_map: self.end(),
            next_segment: 1,
        };
        let behind = |letter: u8| from.first().is_some_and(|first| *first > letter);
        let _ = (behind(b'C') || MadeUp::numbered(from, files, key::contents, contents, visit))
            && (behind(b'D')
                || MadeUp::numbered(
                    from,
                    1..self.first_file(),
                    key::directory,
                    |ino| self.directory(ino),
                    visit,
                ))
            && (behind(b'I')
                || MadeUp::numbered(
                    from,
                    1..self.end(),
                    key::inode,
                    |ino| self.inode(ino),
                    visit,
                ))
            && MadeUp::one(from, key::COUNTERS, counters.encode(), visit)
            && (behind(b'N') || self.names(from, visit))
            && MadeUp::one(from, key::UNWRITTEN, encode_unwritten(self.files), visit)
            && MadeUp::one(from, &key::usage(&owner), used.encode(), visit);
    }
}

impl Read for MadeUp {
    fn get(&self, _: Table, _: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut until =
            |key: &[u8], value: &[u8]| to.is_none_or(|to| key < to) && visit(key, value);
        match table {
            Table::Meta => self.meta(from, &mut until),
            Table::Extents => {
                let extent = Extent {
                    pages: 0..1,
                    place: Place::Unwritten,
                };
                let (files, value) = (self.first_file()..self.end(), extent.encode());
                let key_of = |map| key::extent(map, 0);
                MadeUp::numbered(from, files, key_of, |_| value.clone(), &mut until);
            }
        }
        Ok(())
    }
}

/// No segments.
struct Nothing;

impl Data for Nothing {
    fn list(&self) -> Result<Listed> {
        Ok(Listed::default())
    }

    fn ends(&self, _: u64) -> Result<Option<String>> {
        Ok(None)
    }

    fn headers(&self, _: u64) -> Result<Vec<StoredHeader>> {
        Ok(Vec::new())
    }

    fn block(&self, _: &Block) -> Result<Option<String>> {
        Ok(None)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let inodes = words.next().transpose()?.unwrap_or(10_000_000);
    let directories = words.next().transpose()?.unwrap_or(inodes / 100).max(1);
    let view = MadeUp {
        directories,
        files: inodes - directories - 1,
    };
    let begun = Instant::now();
    let report = check(&view, &Nothing, Options::default(), &mut |_| {})?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "{} inodes, {} names, clean {}, {:.0} s, {}",
        report.counted.inodes,
        report.counted.names,
        report.is_clean(),
        begun.elapsed().as_secs_f64(),
        peak.unwrap_or("no peak"),
    );
    for finding in report.findings.iter().take(3) {
        println!("{finding:?}");
    }
    Ok(())
}
