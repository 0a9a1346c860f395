//! A volume in maps, which applies the records that a load makes.

use hearth_backend::{
    Backend, Edit, Extent, Inode, PageSource, Place, Record, Restart, Result, Target,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<(u64, Box<[u8]>), Target>,
    /// Written pages; `None` where only room is there.
    pages: BTreeMap<(u64, u64), Option<Box<[u8]>>>,
    settings: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl State {
    /// What can be shown in a line.
    pub fn without_pages(mut self) -> State {
        self.pages.clear();
        self
    }
}

/// The volume.
#[derive(Debug, Default)]
pub struct Model {
    state: Mutex<State>,
    segments: Mutex<Vec<Vec<u8>>>,
    /// Calls that hand pages over: each makes segments of its own.
    writes: AtomicUsize,
    /// Bytes of attributes and of targets of links in the largest commit.
    largest: AtomicUsize,
    /// Bytes that its disk has: all, and free.
    room: Option<(u64, u64)>,
}

impl Model {
    pub fn with_room(all: u64, free: u64) -> Model {
        let room = Some((all, free));
        Model {
            room,
            ..Model::default()
        }
    }

    pub fn state(&self) -> State {
        self.state.lock().expect("no panic").clone()
    }

    pub fn segments_written(&self) -> usize {
        self.segments.lock().expect("no panic").len()
    }

    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    pub fn largest_commit(&self) -> usize {
        self.largest.load(Ordering::Relaxed)
    }

    fn write(&self, state: &mut State, ino: u64, extent: Extent) {
        let bytes = match extent.place {
            Place::Unwritten => None,
            Place::Inline(bytes) => Some(bytes.to_vec()),
            Place::Stored(at) => {
                let at = u64::from_le_bytes((&*at).try_into().expect("a number"));
                Some(self.segments.lock().expect("no panic")[at as usize].clone())
            }
        };
        for (number, page) in extent.pages.enumerate() {
            let bytes = bytes.as_ref().map(|bytes| {
                let mut page = bytes[number * 4096..].to_vec();
                page.resize(4096, 0);
                page.into_boxed_slice()
            });
            state.pages.insert((ino, page), bytes);
        }
    }
}

impl Backend for Model {
    fn is_durable(&self) -> bool {
        true
    }

    fn restart(&self) -> Result<Option<Restart>> {
        let state = self.state();
        let Some((&last_inode, _)) = state.inodes.last_key_value() else {
            return Ok(None);
        };
        let settings = state.settings.into_iter().collect();
        Ok(Some(Restart {
            last_inode,
            epoch: 1,
            settings,
            ..Restart::default()
        }))
    }

    fn load_inode(&self, ino: u64) -> Result<Option<Inode>> {
        let state = self.state.lock().expect("no panic");
        Ok(state.inodes.get(&ino).cloned())
    }

    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>> {
        let state = self.state.lock().expect("no panic");
        Ok(state.names.get(&(dir, name.into())).copied())
    }

    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        let state = self.state.lock().expect("no panic");
        let inside = state.names.iter().filter(|((of, _), _)| *of == dir);
        Ok(inside
            .map(|((_, name), target)| (name.clone(), *target))
            .rev()
            .collect())
    }

    fn load_allocation(&self, ino: u64, pages: Range<u64>) -> Result<Vec<(Range<u64>, bool)>> {
        let state = self.state.lock().expect("no panic");
        let of_it = state.pages.range((ino, pages.start)..(ino, pages.end));
        Ok(of_it
            .map(|((_, page), bytes)| (*page..page + 1, bytes.is_some()))
            .collect())
    }

    fn load_pages(
        &self,
        ino: u64,
        pages: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        let state = self.state.lock().expect("no panic");
        for ((_, page), bytes) in state.pages.range((ino, pages.start)..(ino, pages.end)) {
            if let Some(bytes) = bytes {
                take(*page, bytes);
            }
        }
        Ok(())
    }

    fn write_pages(
        &self,
        _ino: u64,
        _generation: u32,
        source: &dyn PageSource,
    ) -> Result<Vec<Extent>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let mut segments = self.segments.lock().expect("no panic");
        let mut extents = Vec::new();
        for pages in source.runs() {
            let place = Place::Stored((segments.len() as u64).to_le_bytes().into());
            let mut bytes = Vec::new();
            source.append_to(pages.clone(), &mut bytes);
            segments.push(bytes);
            extents.push(Extent { pages, place });
        }
        Ok(extents)
    }

    fn commit(&self, _epoch: u64, records: Vec<Record>) -> Result<()> {
        let mut state = self.state.lock().expect("no panic");
        let bytes = |record: &Record| match record {
            Record::New { inode, .. } => {
                let values = inode.xattrs.iter().map(|(_, value)| value.len());
                inode.target.len() + values.sum::<usize>()
            }
            _ => 0,
        };
        self.largest
            .fetch_max(records.iter().map(bytes).sum(), Ordering::Relaxed);
        for record in records {
            match record {
                Record::New { inode, .. } => {
                    state.inodes.insert(inode.ino, *inode);
                }
                Record::Attrs { ino, attrs, .. } => {
                    state.inodes.get_mut(&ino).expect("an inode").attrs = attrs;
                }
                Record::Name { dir, name, to, .. } => {
                    state.names.insert((dir, name), to.expect("no removal"));
                }
                Record::Entries {
                    dir,
                    entries,
                    subdirectories,
                    ..
                } => {
                    let counts = &mut state.inodes.get_mut(&dir).expect("a directory").entries;
                    counts.0 = counts.0.wrapping_add_signed(entries);
                    counts.1 = counts.1.wrapping_add_signed(subdirectories);
                }
                Record::Contents {
                    ino,
                    size,
                    edit: Edit::Write(extents),
                    ..
                } => {
                    state.inodes.get_mut(&ino).expect("a file").size = size;
                    for extent in extents {
                        self.write(&mut state, ino, extent);
                    }
                }
                Record::Setting { key, value, .. } => {
                    state.settings.insert(key, value.expect("no removal"));
                }
                other => panic!("a load makes no {other:?}"),
            }
        }
        Ok(())
    }

    fn room(&self) -> Option<(u64, u64)> {
        self.room
    }

    fn tidy(&self) -> bool {
        false
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
