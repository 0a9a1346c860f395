//! A backend for tests: keeps everything in plain maps, and fails or delays calls as it is told to.

use super::{
    Allocation, Attrs, Backend, Edit, Extent, Inode, PageSource, Place, Record, Restart, Usage,
    Xattr,
};
use crate::attr::Target;
use crate::errno::{Errno, Result};
use hearth_sync::primitive::{Mutex, thread};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Duration;

/// A decision about one call of the backend: `Some` fails it with that errno. The argument is the
/// call's name in [`Backend`].
pub type Fault = Box<dyn FnMut(&'static str) -> Option<Errno> + Send>;

/// Plain maps behind one lock.
#[derive(Default)]
pub struct TestBackend {
    kept: Mutex<Contents>,
    fault: Mutex<Option<Fault>>,
    delay: Mutex<Duration>,
    /// Bytes of its room, if it has an end.
    size: Mutex<Option<u64>>,
}

/// The names of a directory.
type Names = BTreeMap<Box<[u8]>, Target>;

#[derive(Clone, Default)]
struct Contents {
    epoch: u64,
    opened: u32,
    last_inode: u64,
    inodes: HashMap<u64, Inode>,
    /// By number and generation of the directory.
    names: HashMap<(u64, u32), Names>,
    /// `None`: allocated and never written.
    pages: HashMap<u64, BTreeMap<u64, Option<Vec<u8>>>>,
    settings: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Records of commits for which there was no room.
    held: Vec<Record>,
    /// When the times of contents were last set, in the order of records.
    resets: HashMap<u64, u64>,
}

impl TestBackend {
    /// An empty backend.
    pub fn new() -> TestBackend {
        TestBackend::default()
    }

    /// Calls `fault` at every call from now on.
    pub fn set_fault(&self, fault: Option<Fault>) {
        *self.fault.lock() = fault;
    }

    /// Lets every call take this long.
    pub fn set_delay(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    /// Says from now on that it has room for so many bytes of files, and takes more all the same.
    pub fn set_size(&self, bytes: u64) {
        *self.size.lock() = Some(bytes);
    }

    /// Inodes kept, for tests that look for leaks.
    pub fn inodes(&self) -> usize {
        self.kept.lock().inodes.len()
    }

    /// A backend with what this one has now: what a crash at this moment leaves.
    pub fn after_crash(&self) -> TestBackend {
        let mut kept = self.kept.lock().clone();
        kept.held.clear();
        TestBackend {
            kept: Mutex::new(kept),
            ..TestBackend::default()
        }
    }

    fn enter(&self, call: &'static str) -> Result<()> {
        let delay = *self.delay.lock();
        if !delay.is_zero() {
            thread::sleep(delay);
        }
        match self.fault.lock().as_mut().and_then(|fault| fault(call)) {
            Some(errno) => Err(errno),
            None => Ok(()),
        }
    }
}

impl Backend for TestBackend {
    fn is_durable(&self) -> bool {
        true
    }

    fn restart(&self) -> Result<Option<Restart>> {
        self.enter("restart")?;
        let mut kept = self.kept.lock();
        kept.opened += 1;
        if kept.inodes.is_empty() {
            return Ok(None);
        }
        Ok(Some(kept.restart()))
    }

    fn load_inode(&self, ino: u64) -> Result<Option<Inode>> {
        self.enter("load_inode")?;
        Ok(self.kept.lock().inodes.get(&ino).cloned())
    }

    fn load_inodes(&self, range: Range<u64>) -> Result<Vec<(Inode, Allocation)>> {
        self.enter("load_inodes")?;
        let kept = self.kept.lock();
        let of = |ino: u64| {
            Some((
                kept.inodes.get(&ino)?.clone(),
                kept.allocation(ino, 0..u64::MAX),
            ))
        };
        Ok(range.filter_map(of).collect())
    }

    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>> {
        self.enter("load_entry")?;
        let kept = self.kept.lock();
        let names = kept.names_of(dir);
        Ok(names.and_then(|names| names.get(name)).copied())
    }

    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        self.enter("load_directory")?;
        let kept = self.kept.lock();
        let names = kept.names_of(dir).into_iter().flatten();
        Ok(names.map(|(name, &to)| (name.clone(), to)).collect())
    }

    fn load_allocation(&self, ino: u64, pages: Range<u64>) -> Result<Vec<(Range<u64>, bool)>> {
        self.enter("load_allocation")?;
        Ok(self.kept.lock().allocation(ino, pages))
    }

    fn load_pages(
        &self,
        ino: u64,
        pages: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        self.enter("load_pages")?;
        let kept = self.kept.lock();
        let Some(all) = kept.pages.get(&ino) else {
            return Ok(());
        };
        let found: Vec<(u64, Vec<u8>)> = all
            .range(pages)
            .filter_map(|(&index, bytes)| Some((index, bytes.clone()?)))
            .collect();
        drop(kept);
        found.iter().for_each(|(index, bytes)| take(*index, bytes));
        Ok(())
    }

    fn write_pages(
        &self,
        _ino: u64,
        _generation: u32,
        pages: &dyn PageSource,
    ) -> Result<Vec<Extent>> {
        self.enter("write_pages")?;
        let extent = |index: u64| {
            let mut bytes = Vec::new();
            pages.append_to(index..index + 1, &mut bytes);
            Extent {
                pages: index..index + 1,
                place: Place::Stored(bytes.into()),
            }
        };
        Ok(pages.runs().into_iter().flatten().map(extent).collect())
    }

    fn commit(&self, epoch: u64, mut records: Vec<Record>) -> Result<()> {
        let entered = self.enter("commit");
        let mut kept = self.kept.lock();
        if let Err(errno) = entered {
            if errno == Errno::ENOSPC {
                kept.held.append(&mut records);
            }
            return Err(errno);
        }
        for batch in [std::mem::take(&mut kept.held), records] {
            kept.apply(batch);
        }
        assert!(kept.epoch < epoch, "epoch {epoch} after {}", kept.epoch);
        kept.epoch = epoch;
        Ok(())
    }

    fn room(&self) -> Option<(u64, u64)> {
        let size = (*self.size.lock())?;
        let _ = self.enter("room");
        let files: usize = self.kept.lock().pages.values().map(BTreeMap::len).sum();
        Some((size, size.saturating_sub(files as u64 * 4096)))
    }

    fn tidy(&self) -> bool {
        false
    }

    fn close(&self) -> Result<()> {
        self.enter("close")
    }
}

/// Records in an order in which they can be applied one by one: new inodes first, then each thing
/// in the order of its versions, then times of contents that no longer count, then what ends.
fn in_order(mut records: Vec<Record>) -> Vec<Record> {
    // Attributes of a new inode may be later than those of a record of their own.
    let own = |record: &Record| match record {
        Record::New { inode, version } => Some(Record::Attrs {
            ino: inode.ino,
            version: *version,
            attrs: inode.attrs,
        }),
        _ => None,
    };
    let own: Vec<Record> = records.iter().filter_map(own).collect();
    records.extend(own);
    let class = |record: &Record| match record {
        Record::New { .. } => 0,
        Record::Untouched { .. } => 1,
        Record::Gone { .. } => 3,
        _ => 2,
    };
    let version = |record: &Record| match *record {
        Record::Attrs { version, .. }
        | Record::Xattrs { version, .. }
        | Record::Contents { version, .. }
        | Record::Parent { version, .. }
        | Record::Name { version, .. }
        | Record::Setting { version, .. } => version,
        _ => 0,
    };
    records.sort_by(|a, b| {
        let versions = || (version(a).wrapping_sub(version(b)) as i32).cmp(&0);
        class(a).cmp(&class(b)).then_with(versions)
    });
    records
}

impl Contents {
    fn restart(&self) -> Restart {
        let mut usage: Vec<Usage> = Vec::new();
        for inode in self.inodes.values() {
            let Attrs {
                uid, gid, project, ..
            } = inode.attrs;
            let blocks = inode.pages + u64::from(inode.attrs.extra_blocks);
            let is_same =
                |other: &&mut Usage| (other.uid, other.gid, other.project) == (uid, gid, project);
            match usage.iter_mut().find(is_same) {
                Some(sum) => {
                    sum.blocks += blocks;
                    sum.inodes += 1;
                }
                None => usage.push(Usage {
                    uid,
                    gid,
                    project,
                    blocks,
                    inodes: 1,
                }),
            }
        }
        let settings = self.settings.iter();
        let orphans = self.inodes.values().filter(|inode| inode.attrs.nlink == 0);
        Restart {
            last_inode: self.last_inode,
            opened: self.opened,
            epoch: self.epoch,
            usage,
            settings: settings.map(|(k, v)| (k.clone(), v.clone())).collect(),
            orphans: orphans
                .map(|inode| (inode.ino, inode.attrs.generation))
                .collect(),
        }
    }

    fn apply(&mut self, records: Vec<Record>) {
        in_order(records)
            .into_iter()
            .for_each(|record| self.make(record));
        // Orders are of one commit: see `Record::Untouched`.
        self.resets.clear();
    }

    /// Pages of a file that are allocated, each as a range.
    fn allocation(&self, ino: u64, range: Range<u64>) -> Allocation {
        let pages = self.pages.get(&ino).into_iter();
        pages
            .flat_map(|pages| pages.range(range.clone()))
            .map(|(&index, bytes)| (index..index + 1, bytes.is_some()))
            .collect()
    }

    /// Names of a directory.
    fn names_of(&self, dir: u64) -> Option<&BTreeMap<Box<[u8]>, Target>> {
        let generation = self.inodes.get(&dir)?.attrs.generation;
        self.names.get(&(dir, generation))
    }

    /// The inode, if it still has this generation.
    fn inode(&mut self, ino: u64, generation: u32) -> Option<&mut Inode> {
        let inode = self.inodes.get_mut(&ino);
        inode.filter(|inode| inode.attrs.generation == generation)
    }

    fn make(&mut self, record: Record) {
        match record {
            Record::New { inode, .. } => {
                self.last_inode = self.last_inode.max(inode.ino);
                self.end(inode.ino);
                self.inodes.insert(inode.ino, *inode);
            }
            Record::Attrs { ino, attrs, .. } => {
                if let Some(inode) = self.inode(ino, attrs.generation) {
                    inode.attrs = attrs;
                }
            }
            Record::Xattrs {
                ino,
                generation,
                xattrs,
                ..
            } => self.set_xattrs(ino, generation, xattrs),
            Record::Contents {
                ino,
                generation,
                size,
                touched,
                order,
                edit,
                ..
            } => {
                let reset = self.resets.get(&ino).is_some_and(|&reset| reset > order);
                let touched = if reset { 0 } else { touched };
                if self.inode(ino, generation).is_some() {
                    let pages = self.pages.entry(ino).or_default();
                    change_pages(pages, edit);
                    let count = pages.len() as u64;
                    let inode = self.inode(ino, generation).expect("looked up above");
                    (inode.size, inode.touched, inode.pages) = (size, touched, count);
                }
            }
            Record::Untouched {
                ino,
                generation,
                order,
            } => {
                if let Some(inode) = self.inode(ino, generation) {
                    inode.touched = 0;
                    let reset = self.resets.entry(ino).or_default();
                    *reset = (*reset).max(order);
                }
            }
            Record::Entries {
                dir,
                generation,
                entries,
                subdirectories,
                touched,
                order,
            } => {
                let reset = self.resets.get(&dir).is_some_and(|&reset| reset > order);
                let touched = if reset { 0 } else { touched };
                if let Some(inode) = self.inode(dir, generation) {
                    inode.entries.0 = inode.entries.0.wrapping_add_signed(entries);
                    inode.entries.1 = inode.entries.1.wrapping_add_signed(subdirectories);
                    inode.touched = inode.touched.max(touched);
                }
            }
            Record::Parent {
                dir,
                generation,
                parent,
                ..
            } => {
                if let Some(inode) = self.inode(dir, generation) {
                    inode.parent = parent;
                }
            }
            Record::Name {
                dir,
                generation,
                name,
                to,
                ..
            } => {
                let names = self.names.entry((dir, generation)).or_default();
                match to {
                    Some(to) => drop(names.insert(name, to)),
                    None => drop(names.remove(&name)),
                }
            }
            Record::Gone {
                ino,
                generation,
                is_brief,
            } => {
                if is_brief {
                    self.last_inode = self.last_inode.max(ino);
                }
                if self.inode(ino, generation).is_some() {
                    self.end(ino);
                }
            }
            Record::Setting { key, value, .. } => match value {
                Some(value) => drop(self.settings.insert(key, value)),
                None => drop(self.settings.remove(&key)),
            },
        }
    }

    fn set_xattrs(&mut self, ino: u64, generation: u32, xattrs: Vec<Xattr>) {
        if let Some(inode) = self.inode(ino, generation) {
            inode.xattrs = xattrs;
        }
    }

    fn end(&mut self, ino: u64) {
        self.inodes.remove(&ino);
        self.pages.remove(&ino);
    }
}

fn change_pages(pages: &mut BTreeMap<u64, Option<Vec<u8>>>, edit: Edit) {
    match edit {
        Edit::Size => {}
        Edit::Write(extents) => {
            for extent in extents {
                for index in extent.pages.clone() {
                    let at = (index - extent.pages.start) as usize * 4096;
                    let bytes = match &extent.place {
                        Place::Inline(bytes) | Place::Stored(bytes) => {
                            Some(bytes[at..bytes.len().min(at + 4096)].to_vec())
                        }
                        Place::Unwritten => None,
                    };
                    pages.insert(index, bytes);
                }
            }
        }
        Edit::Cut(range) => pages.retain(|index, _| !range.contains(index)),
        Edit::Shift { from, by } => {
            let moved = pages.split_off(&from);
            if by < 0 {
                drop(pages.split_off(&from.saturating_add_signed(by)));
            }
            let moved = moved.into_iter();
            pages.extend(moved.map(|(index, bytes)| (index.saturating_add_signed(by), bytes)));
        }
    }
}

impl std::fmt::Debug for TestBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestBackend")
            .field("inodes", &self.inodes())
            .finish_non_exhaustive()
    }
}
