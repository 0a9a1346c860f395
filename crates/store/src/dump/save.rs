//! From a volume to a stream: a walk that meets each directory before what is in it, and the names
//! of each directory in rising order.

use super::block::padding;
use super::entry::{Entry, FileMap, INO, What};
use super::error::{DumpError, Dumped, StreamFault};
use super::seen::SeenNumbers;
use super::stream::{DumpWriter, Head};
use super::{DumpWatch, PAGE, Progress, ROOT};
use hearth_backend::{Attrs, Backend, Errno, Inode, Kind, Target, Time};
use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;

/// Pages that are read at once.
const WINDOW: u64 = 256;

/// The root of a volume that was never mounted, as the first mount would make it.
#[derive(Clone, Copy, Debug)]
pub struct FirstRoot {
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Since when it is there.
    pub time: Time,
}

/// Writes all that `volume` holds to `out`, as of its last commit, which must stay the last one
/// until the end. A volume without a root is dumped with that of `first`. `size` is that of the
/// volume in bytes, 0 for as much as its disk has.
///
/// # Errors
/// A part of the volume cannot be read, or the stream cannot be written; it is of no use then.
pub fn save(
    volume: &dyn Backend,
    first: FirstRoot,
    size: u64,
    out: impl Write,
    watch: DumpWatch<'_>,
) -> Dumped<Progress> {
    let restart = volume.restart().map_err(DumpError::at(b"", "open"))?;
    let Some(restart) = restart else {
        return save_new(first, size, out, watch);
    };
    let mut settings = restart.settings;
    settings.sort();
    let head = Head {
        epoch: restart.epoch,
        last_inode: restart.last_inode,
        size,
        settings,
    };
    let mut walk = TreeWalk {
        volume,
        to: DumpWriter::new(out, &head)?,
        first_names: HashMap::new(),
        numbers: SeenNumbers::new(restart.last_inode),
        done: Progress::default(),
        watch,
    };
    walk.run()?;
    walk.to.finish()?;
    Ok(walk.done)
}

/// A dump of nothing but the root.
fn save_new(
    first: FirstRoot,
    size: u64,
    out: impl Write,
    watch: DumpWatch<'_>,
) -> Dumped<Progress> {
    let head = Head {
        epoch: 0,
        last_inode: ROOT,
        size,
        settings: Vec::new(),
    };
    let root = Inode {
        ino: ROOT,
        attrs: Attrs {
            uid: first.uid,
            gid: first.gid,
            nlink: 2,
            atime: first.time,
            mtime: first.time,
            ctime: first.time,
            btime: first.time,
            ..Attrs::new(1, Kind::Directory, 0o755)
        },
        size: 0,
        pages: 0,
        touched: 0,
        entries: (0, 0),
        parent: ROOT,
        target: Box::default(),
        xattrs: Vec::new(),
    };
    let mut to = DumpWriter::new(out, &head)?;
    let what = What::Inode(Box::new(root), FileMap::default());
    let path = Vec::new();
    to.member(&Entry { path, what }, 0)?;
    to.finish()?;
    let done = Progress {
        members: 1,
        bytes: 0,
    };
    watch(&done);
    Ok(done)
}

/// A walk over the whole tree.
struct TreeWalk<'a, W> {
    volume: &'a dyn Backend,
    to: DumpWriter<W>,
    /// The first path of each file with several names.
    first_names: HashMap<u64, Vec<u8>>,
    numbers: SeenNumbers,
    done: Progress,
    watch: DumpWatch<'a>,
}

/// A directory that is being walked: its path, and its names that come, the next one last.
struct DirectoryLevel {
    path: Vec<u8>,
    names: Vec<(Box<[u8]>, Target)>,
}

impl<W: Write> TreeWalk<'_, W> {
    fn run(&mut self) -> Dumped<()> {
        self.member(Vec::new(), ROOT)?;
        let mut levels = vec![self.level(Vec::new(), ROOT)?];
        while let Some(level) = levels.last_mut() {
            let Some((name, target)) = level.names.pop() else {
                levels.pop();
                continue;
            };
            let path = match &*level.path {
                b"" => name.to_vec(),
                directory => [directory, b"/", &name].concat(),
            };
            let kind = self.member(path.clone(), target.ino)?;
            if kind == Kind::Directory {
                levels.push(self.level(path, target.ino)?);
            }
        }
        Ok(())
    }

    fn level(&self, path: Vec<u8>, ino: u64) -> Dumped<DirectoryLevel> {
        let loaded = self.volume.load_directory(ino);
        let mut names = loaded.map_err(DumpError::at(&path, "list"))?;
        names.sort_by(|(a, _), (b, _)| b.cmp(a));
        Ok(DirectoryLevel { path, names })
    }

    fn member(&mut self, path: Vec<u8>, ino: u64) -> Dumped<Kind> {
        let failed = DumpError::at(&path, "read");
        let inode = self.volume.load_inode(ino).map_err(&failed)?;
        let inode = inode.ok_or(Errno::EIO).map_err(&failed)?;
        let kind = inode.attrs.kind;
        self.done.members += 1;
        if kind != Kind::Directory && inode.attrs.nlink > 1 {
            if let Some(first) = self.first_names.get(&ino) {
                let what = What::Link(first.clone());
                self.begin(&Entry { path, what }, 0)?;
                return Ok(kind);
            }
            self.first_names.insert(ino, path.clone());
        }
        let map = match kind {
            Kind::File => self.map(&inode).map_err(&failed)?,
            _ => FileMap::default(),
        };
        self.inode(path, inode, map)?;
        (self.watch)(&self.done);
        Ok(kind)
    }

    fn inode(&mut self, path: Vec<u8>, inode: Inode, map: FileMap) -> Dumped<()> {
        let (ino, size) = (inode.ino, inode.size);
        let is_file = inode.attrs.kind == Kind::File;
        let text = (is_file && map.is_sparse(size)).then(|| map.encode());
        let before = text
            .as_ref()
            .map_or(0, |text| text.len() + padding(text.len() as u64)) as u64;
        let stored = before + map.bytes();
        let what = What::Inode(Box::new(inode), map);
        let entry = Entry { path, what };
        self.begin(&entry, stored)?;
        if let Some(text) = text {
            self.to.write(&text)?;
            self.to.pad(text.len() as u64)?;
        }
        if let What::Inode(_, map) = &entry.what {
            for range in &map.written {
                self.bytes(&entry.path, ino, range)?;
            }
        }
        self.to.pad(stored)
    }

    /// Begins a member, of which a loader would take what it says: a dump that nobody can load is
    /// found out too late.
    fn begin(&mut self, entry: &Entry, stored: u64) -> Dumped<()> {
        let number = match &entry.what {
            What::Inode(inode, _) if !self.numbers.take(inode.ino, entry.path.is_empty()) => {
                Err(StreamFault::Record { key: INO })
            }
            _ => Ok(()),
        };
        let (records, header) = entry.encode(stored);
        let checked = number.and_then(|()| Entry::decode(&records, &header).map(drop));
        checked.map_err(|fault| DumpError::Unloadable {
            path: entry.path.clone(),
            fault,
        })?;
        self.to.member(entry, stored)
    }

    /// Where the file has bytes, and where it only has room.
    fn map(&self, inode: &Inode) -> std::result::Result<FileMap, Errno> {
        let mut map = FileMap::default();
        for (pages, is_written) in self.volume.load_allocation(inode.ino, 0..u64::MAX)? {
            if !is_written {
                join(&mut map.unwritten, pages);
                continue;
            }
            let bytes = pages.start.saturating_mul(PAGE)..pages.end.saturating_mul(PAGE);
            let bytes = bytes.start..bytes.end.min(inode.size);
            if bytes.start < bytes.end {
                join(&mut map.written, bytes);
            }
        }
        Ok(map)
    }

    /// A range of a file, which begins with a page.
    fn bytes(&mut self, path: &[u8], ino: u64, range: &Range<u64>) -> Dumped<()> {
        let mut page = range.start / PAGE;
        let last = range.end.div_ceil(PAGE);
        let mut buffer = vec![0; (WINDOW.min(last - page) * PAGE) as usize];
        while page < last {
            let pages = page..last.min(page + WINDOW);
            let len = (range.end - page * PAGE).min(WINDOW * PAGE) as usize;
            buffer.fill(0);
            let mut take = |index: u64, bytes: &[u8]| {
                let at = index.checked_sub(page).map(|pages| (pages * PAGE) as usize);
                let place = at.and_then(|at| buffer.get_mut(at..at + bytes.len()));
                place
                    .expect("pages of the range alone")
                    .copy_from_slice(bytes);
            };
            let loaded = self.volume.load_pages(ino, pages.clone(), &mut take);
            loaded.map_err(DumpError::at(path, "read"))?;
            self.to.write(&buffer[..len])?;
            self.done.bytes += len as u64;
            (self.watch)(&self.done);
            page = pages.end;
        }
        Ok(())
    }
}

/// Adds a range behind the others, to the last of them where it touches that.
fn join(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
