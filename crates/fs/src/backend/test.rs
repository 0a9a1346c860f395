//! A backend for tests: keeps everything in plain maps, so that a volume may evict anything at any
//! time, and fails or delays calls as it is told to.

use super::{Backend, BackendOp, InodeRecord};
use crate::attr::Target;
use crate::errno::{Errno, Result};
use hearth_sync::primitive::{Mutex, thread};
use std::collections::{BTreeMap, HashMap};
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
}

#[derive(Default)]
struct Contents {
    inodes: HashMap<u64, InodeRecord>,
    directories: HashMap<u64, BTreeMap<Box<[u8]>, Target>>,
    pages: HashMap<u64, BTreeMap<u64, Vec<u8>>>,
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

    /// Inodes kept, for tests that look for leaks.
    pub fn inodes(&self) -> usize {
        self.kept.lock().inodes.len()
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
    fn evictable(&self) -> bool {
        true
    }

    fn last_inode(&self) -> Result<u64> {
        self.enter("last_inode")?;
        Ok(self.kept.lock().inodes.keys().copied().max().unwrap_or(0))
    }

    fn load_inode(&self, ino: u64) -> Result<Option<InodeRecord>> {
        self.enter("load_inode")?;
        Ok(self.kept.lock().inodes.get(&ino).cloned())
    }

    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>> {
        self.enter("load_entry")?;
        let kept = self.kept.lock();
        Ok(kept
            .directories
            .get(&dir)
            .and_then(|names| names.get(name))
            .copied())
    }

    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        self.enter("load_directory")?;
        let kept = self.kept.lock();
        let names = kept.directories.get(&dir);
        Ok(names
            .into_iter()
            .flatten()
            .map(|(name, &to)| (name.clone(), to))
            .collect())
    }

    fn load_page(&self, ino: u64, index: u64) -> Result<Option<Vec<u8>>> {
        self.enter("load_page")?;
        Ok(self
            .kept
            .lock()
            .pages
            .get(&ino)
            .and_then(|pages| pages.get(&index))
            .cloned())
    }

    fn list_pages(&self, ino: u64) -> Result<Vec<u64>> {
        self.enter("list_pages")?;
        let kept = self.kept.lock();
        Ok(kept
            .pages
            .get(&ino)
            .into_iter()
            .flatten()
            .map(|(&index, _)| index)
            .collect())
    }

    fn commit(&self, changes: &[BackendOp<'_>]) -> Result<()> {
        self.enter("commit")?;
        let mut kept = self.kept.lock();
        changes.iter().for_each(|change| kept.make(change));
        Ok(())
    }

    fn write_page(&self, ino: u64, index: u64, bytes: &[u8]) -> Result<()> {
        self.enter("write_page")?;
        self.kept
            .lock()
            .pages
            .entry(ino)
            .or_default()
            .insert(index, bytes.to_vec());
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.enter("sync")
    }
}

impl Contents {
    fn make(&mut self, change: &BackendOp<'_>) {
        match *change {
            BackendOp::Put(record) => {
                self.inodes.insert(record.attr.ino, record.clone());
            }
            BackendOp::Drop(ino) => {
                self.inodes.remove(&ino);
                self.pages.remove(&ino);
                self.directories.remove(&ino);
            }
            BackendOp::Link { dir, name, to } => {
                self.directories
                    .entry(dir)
                    .or_default()
                    .insert(name.into(), to);
            }
            BackendOp::Unlink { dir, name } => {
                if let Some(names) = self.directories.get_mut(&dir) {
                    names.remove(name);
                }
            }
            BackendOp::Rewrite(ino) => {
                self.pages.remove(&ino);
            }
            BackendOp::Truncate { ino, size } => {
                let Some(pages) = self.pages.get_mut(&ino) else {
                    return;
                };
                pages.split_off(&size.div_ceil(4096));
                if let Some(last) = pages.get_mut(&(size / 4096)) {
                    last.truncate((size % 4096) as usize);
                }
            }
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
