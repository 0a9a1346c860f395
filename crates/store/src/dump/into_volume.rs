//! From a stream into a new volume.

use super::entry::{Entry, FileMap, What};
use super::error::{DumpError, Dumped, StreamFault};
use super::order::Order;
use super::record_batch::RecordBatch;
use super::stream::{DumpReader, Head};
use super::{DumpWatch, PAGE, Progress, ROOT};
use hearth_backend::{
    Attrs, Backend, Edit, Extent, Inode, Kind, Page, PageSource, Place, Record, Target,
};
use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

/// A file that takes no more pages rides in the records: no segment of its own is made for it.
const SMALL: u64 = 16;
/// Pages that are handed over at once.
const WINDOW: u64 = 2048;

/// Loads all that `reader` gives into `volume`, which is new. Inodes keep their numbers, so that
/// settings that name some of them stay right. Not closed at the end. `size` is how large the
/// volume may be in bytes, 0 for as much as there is.
///
/// # Errors
/// The volume is not new, the stream is damaged, or the volume takes no more. What was loaded up to
/// then stays.
pub fn into_volume(
    reader: &mut DumpReader<impl Read>,
    head: &Head,
    volume: &dyn Backend,
    size: u64,
    watch: DumpWatch<'_>,
) -> Dumped<Progress> {
    let restart = volume.restart().map_err(DumpError::at(b"", "open"))?;
    if restart.is_some() {
        return Err(DumpError::NotEmpty);
    }
    let mut load = VolumeLoad {
        batch: RecordBatch::new(volume),
        order: Order::default(),
        several_names: HashMap::new(),
        first_names: HashMap::new(),
        done: Progress::default(),
        blocks: 0,
        most_blocks: match size {
            0 => u64::MAX,
            size => size / PAGE,
        },
        reserved: 0,
        most_reserved: volume.room().map_or(u64::MAX, |(_, free)| free) / PAGE,
        watch,
    };
    for (key, value) in &head.settings {
        load.batch.push(Record::Setting {
            key: key.clone(),
            version: 1,
            value: Some(value.clone()),
        })?;
    }
    while let Some(entry) = reader.member()? {
        load.count(&entry);
        // Beyond the size the rest is read to know how much it takes.
        if load.blocks <= load.most_blocks && load.reserved <= load.most_reserved {
            load.member(reader, entry)?;
        }
    }
    if load.reserved > load.most_reserved {
        let needs = load.reserved.saturating_mul(PAGE);
        let room = load.most_reserved * PAGE;
        return Err(DumpError::NoRoom { needs, room });
    }
    if load.blocks > load.most_blocks {
        let needs = load.blocks.saturating_mul(PAGE);
        return Err(DumpError::TooLarge { needs, size });
    }
    load.end(reader)
}

/// A file with several names.
struct Several {
    attrs: Attrs,
    /// Names that came.
    found: u32,
}

/// What is kept of a directory.
#[derive(Clone, Copy)]
struct LoadedDirectory {
    ino: u64,
    generation: u32,
}

/// A load that is under way.
struct VolumeLoad<'a> {
    batch: RecordBatch<'a>,
    order: Order<LoadedDirectory>,
    several_names: HashMap<u64, Several>,
    /// The inodes that paths of files with several names mean.
    first_names: HashMap<Vec<u8>, u64>,
    done: Progress,
    /// Blocks that the members take, as a mount charges them, and how many they may take.
    blocks: u64,
    most_blocks: u64,
    /// Blocks that are allocated and not written, and how many there is room for: they come without
    /// a byte in the stream, and a mount gives nobody more than that.
    reserved: u64,
    most_reserved: u64,
    watch: DumpWatch<'a>,
}

impl VolumeLoad<'_> {
    fn count(&mut self, entry: &Entry) {
        let What::Inode(inode, map) = &entry.what else {
            return;
        };
        let written = map.written.iter();
        let written = written.map(|range| range.end.div_ceil(PAGE) - range.start / PAGE);
        let unwritten = map.unwritten.iter().map(|pages| pages.end - pages.start);
        let unwritten = unwritten.fold(0, u64::saturating_add);
        self.reserved = self.reserved.saturating_add(unwritten);
        let pages = written.fold(unwritten, u64::saturating_add);
        let blocks = pages.saturating_add(inode.attrs.extra_blocks.into());
        self.blocks = self.blocks.saturating_add(blocks);
    }

    fn member<R: Read>(&mut self, reader: &mut DumpReader<R>, entry: Entry) -> Dumped<()> {
        let Entry { path, what } = entry;
        let found = self.order.find(&path, |_| Ok::<(), StreamFault>(()));
        let place = found.map_err(|fault| reader.fault(fault))?;
        let place = place.map(|(directory, name)| (*directory, name.to_vec()));
        let target = match what {
            What::Inode(inode, map) => self.inode(reader, &path, place.as_ref(), *inode, &map)?,
            What::Link(to) => self.link(&to).map_err(|fault| reader.fault(fault))?,
        };
        if let Some((directory, name)) = place {
            self.name(directory, name, target)?;
        }
        self.done.members += 1;
        (self.watch)(&self.done);
        Ok(())
    }

    fn inode<R: Read>(
        &mut self,
        reader: &mut DumpReader<R>,
        path: &[u8],
        place: Option<&(LoadedDirectory, Vec<u8>)>,
        inode: Inode,
        map: &FileMap,
    ) -> Dumped<Target> {
        let (ino, attrs, size) = (inode.ino, inode.attrs, inode.size);
        let is_root = place.is_none();
        let target = Target {
            ino,
            generation: attrs.generation,
            kind: attrs.kind,
        };
        let parent = match attrs.kind {
            Kind::Directory => place.map_or(ROOT, |(directory, _)| directory.ino),
            _ if is_root => return Err(reader.fault(StreamFault::Orphan)),
            _ => 0,
        };
        self.batch.push(Record::new(Inode { parent, ..inode }))?;
        match attrs.kind {
            Kind::Directory => self.order.enter(
                path,
                LoadedDirectory {
                    ino,
                    generation: attrs.generation,
                },
            ),
            _ if attrs.nlink != 1 => {
                self.several_names.insert(ino, Several { attrs, found: 1 });
                self.first_names.insert(path.to_vec(), ino);
            }
            _ => {}
        }
        if attrs.kind == Kind::File {
            let mut file = LoadedFile {
                path,
                target,
                size,
                version: 0,
            };
            self.unwritten(&mut file, map)?;
            self.written(reader, &mut file, map)?;
        }
        Ok(target)
    }

    fn link(&mut self, to: &[u8]) -> std::result::Result<Target, StreamFault> {
        let ino = *self.first_names.get(to).ok_or(StreamFault::LinkToNothing)?;
        let file = self
            .several_names
            .get_mut(&ino)
            .ok_or(StreamFault::LinkToNothing)?;
        file.found += 1;
        Ok(Target {
            ino,
            generation: file.attrs.generation,
            kind: file.attrs.kind,
        })
    }

    fn name(&mut self, directory: LoadedDirectory, name: Vec<u8>, to: Target) -> Dumped<()> {
        let LoadedDirectory {
            ino: dir,
            generation,
        } = directory;
        self.batch.push(Record::Name {
            dir,
            generation,
            name: name.into(),
            version: 1,
            to: Some(to),
            came: false,
        })?;
        self.batch.push(Record::Entries {
            dir,
            generation,
            entries: 1,
            subdirectories: i64::from(to.kind == Kind::Directory),
            touched: 0,
            order: 0,
        })
    }

    fn unwritten(&mut self, file: &mut LoadedFile<'_>, map: &FileMap) -> Dumped<()> {
        for pages in &map.unwritten {
            let extents = vec![Extent {
                pages: pages.clone(),
                place: Place::Unwritten,
            }];
            self.batch.push(file.record(Edit::Write(extents)))?;
        }
        Ok(())
    }

    fn written<R: Read>(
        &mut self,
        reader: &mut DumpReader<R>,
        file: &mut LoadedFile<'_>,
        map: &FileMap,
    ) -> Dumped<()> {
        let pages = |range: &Range<u64>| range.end.div_ceil(PAGE) - range.start / PAGE;
        let is_small = map.written.iter().map(pages).sum::<u64>() <= SMALL;
        let mut window = Vec::new();
        for range in &map.written {
            let begins_a_page = range.start % PAGE == 0;
            let ends_a_page = range.end % PAGE == 0 || range.end == file.size;
            if !begins_a_page || !ends_a_page {
                return Err(reader.fault(StreamFault::Map));
            }
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at + (WINDOW - window.len() as u64) * PAGE);
                self.read(reader, at..end, &mut window)?;
                at = end;
                if window.len() as u64 == WINDOW {
                    self.hand_over(file, &window, is_small)?;
                    window.clear();
                }
            }
        }
        match window.is_empty() {
            true => Ok(()),
            false => self.hand_over(file, &window, is_small),
        }
    }

    /// Adds bytes from the stream to the pages of a window.
    fn read<R: Read>(
        &mut self,
        reader: &mut DumpReader<R>,
        range: Range<u64>,
        window: &mut Vec<Page>,
    ) -> Dumped<()> {
        let mut at = range.start;
        let mut page = [0; PAGE as usize];
        while at < range.end {
            let len = (range.end - at).min(PAGE) as usize;
            reader.contents(&mut page[..len])?;
            page[len..].fill(0);
            window.push((at / PAGE, page.into()));
            at += len as u64;
        }
        self.done.bytes += range.end - range.start;
        (self.watch)(&self.done);
        Ok(())
    }

    /// Gives the volume the pages of a window, all at once: each call makes segments of its own.
    fn hand_over(
        &mut self,
        file: &mut LoadedFile<'_>,
        window: &[Page],
        is_small: bool,
    ) -> Dumped<()> {
        let extents = if is_small {
            let inline = |pages: Range<u64>| {
                let mut bytes = Vec::new();
                window.append_to(pages.clone(), &mut bytes);
                let place = Place::Inline(bytes.into());
                Extent { pages, place }
            };
            window.runs().into_iter().map(inline).collect()
        } else {
            let Target {
                ino, generation, ..
            } = file.target;
            let written = self.batch.volume.write_pages(ino, generation, &window);
            written.map_err(DumpError::at(file.path, "write"))?
        };
        self.batch.push(file.record(Edit::Write(extents)))
    }

    fn end<R: Read>(mut self, reader: &DumpReader<R>) -> Dumped<Progress> {
        if self.done.members == 0 {
            return Err(reader.fault(StreamFault::Orphan));
        }
        for (ino, Several { attrs, found }) in std::mem::take(&mut self.several_names) {
            if found != attrs.nlink {
                let attrs = Attrs {
                    nlink: found,
                    ..attrs
                };
                self.batch.push(Record::Attrs {
                    ino,
                    version: 1,
                    attrs,
                })?;
            }
        }
        self.batch.commit()?;
        Ok(self.done)
    }
}

/// A file whose contents come.
struct LoadedFile<'p> {
    path: &'p [u8],
    target: Target,
    size: u64,
    version: u32,
}

impl LoadedFile<'_> {
    fn record(&mut self, edit: Edit) -> Record {
        self.version += 1;
        Record::Contents {
            ino: self.target.ino,
            generation: self.target.generation,
            version: self.version,
            size: self.size,
            touched: 0,
            order: 0,
            edit,
        }
    }
}
