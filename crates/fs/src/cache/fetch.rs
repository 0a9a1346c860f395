//! Fetching what an operation missed from the backend.

use super::record::count;
use crate::attr::Kind;
use crate::backend::{Allocation, Inode as Kept};
use crate::data::{Data, PAGES};
use crate::directory::{Lookup, NO_PARENT};
use crate::errno::{Errno, Result};
use crate::inode::{Inode, InodeExt, InodeInner, InodeRef};
use crate::stats::Event;
use crate::superblock::{Fetch, Superblock, inode_bytes, resident_bytes};
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::primitive::thread;

impl Superblock {
    /// Fetches what an attempt missed; the operation then runs again. No epoch is pinned during a
    /// call of the backend, except for a directory that others change all the time.
    pub(crate) fn fetch(&self, miss: &Fetch) -> Result<()> {
        if !matches!(miss, Fetch::Deferred(_)) {
            self.stats.event(Event::BackendFetch);
        }
        match miss {
            Fetch::Inode(ino) => self.fetch_inode(*ino),
            Fetch::Named {
                dir,
                name,
                ino,
                generation,
            } => self.fetch_named((*dir, name), (*ino, *generation)),
            Fetch::Listed(numbers) => {
                self.fetch_listed(numbers);
                Ok(())
            }
            Fetch::Above(dir) => self.fetch_into(*dir, |inode| self.fetch_parent(inode)),
            Fetch::Entry { dir, name } => {
                self.fetch_into(*dir, |inode| self.fetch_entry(inode, name))
            }
            Fetch::Directory(dir) => self.fetch_into(*dir, |inode| self.fetch_directory(inode)),
            Fetch::Attributes(ino) => self.fetch_into(*ino, |inode| self.fetch_attributes(inode)),
            Fetch::Page { ino, index, pages } => {
                self.fetch_into(*ino, |inode| self.fetch_page(inode, *index, *pages))
            }
            // Without room the operation goes on: it may be one that gives room back, and one that
            // needs more is refused for that.
            Fetch::Sync => match self.sync() {
                // In a callback of the library nobody can wait for a commit.
                Err(Errno::ENOSPC | Errno::EDEADLK) => {
                    if let Some(log) = self.log() {
                        log.go_on();
                    }
                    Ok(())
                }
                synced => {
                    // Whoever was told to wait by what is written back now goes on.
                    self.log().inspect(|log| log.weigh());
                    synced
                }
            },
            Fetch::Turn => {
                while self.log().is_some_and(|log| !log.may_begin()) {
                    thread::yield_now();
                }
                Ok(())
            }
            Fetch::Space => {
                self.make_room();
                Ok(())
            }
            Fetch::Room(bytes) => {
                self.reclaim(*bytes);
                Ok(())
            }
            Fetch::Deferred(work) => work.run(self),
        }
    }

    /// Runs `fetch` with a reference to inode `ino`. Does nothing if the inode is gone.
    fn fetch_into(&self, ino: u64, fetch: impl FnOnce(&Inode) -> Result<()>) -> Result<()> {
        let held = self.objects.inodes.hold(ino, &pin());
        match held {
            Some(inode) => self.with_held(inode, fetch),
            None => Ok(()),
        }
    }

    /// Fetches the parent of a directory. It may be gone if the directory was moved or removed.
    fn fetch_parent(&self, inode: &Inode) -> Result<()> {
        let Some(directory) = inode.directory() else {
            return Ok(());
        };
        let above = directory.parent();
        match self.fetch_inode(above) {
            Err(Errno::ESTALE) if inode.meta.is_unlinked() => {
                directory.set_dead_parent(NO_PARENT);
                Ok(())
            }
            Err(Errno::ESTALE) if directory.parent() != above => Ok(()),
            loaded => loaded,
        }
    }

    /// Fetches the inode of an entry. An inode that has gone since its entry was found lost that
    /// name first. The operation then finds another entry there, or none. If the entry is still
    /// there, the backend has lost its inode.
    fn fetch_named(&self, (dir, name): (u64, &[u8]), to: (u64, u32)) -> Result<()> {
        match self.fetch_inode(to.0) {
            Err(Errno::ESTALE) if !self.has_entry(dir, name, to) => Ok(()),
            loaded => loaded,
        }
    }

    /// Whether a directory in memory has an entry for this inode.
    fn has_entry(&self, dir: u64, name: &[u8], to: (u64, u32)) -> bool {
        let g = pin();
        let inode = self.objects.inodes.get(dir, &g);
        let Some(directory) = inode.and_then(|inode| inode.directory()) else {
            return false;
        };
        match directory.lookup(&self.hashed(name), &g) {
            Lookup::Hit(entry) => (entry.ino(), entry.generation()) == to,
            Lookup::Negative | Lookup::Unknown => false,
        }
    }

    pub(super) fn fetch_inode(&self, ino: u64) -> Result<()> {
        self.fetch_around(ino);
        let inode = {
            let _one = self.inode_io_lock(ino).lock_guard();
            if self.objects.inodes.get(ino, &pin()).is_some() {
                return Ok(());
            }
            if self.cache.ghosts.contains(ino) {
                return Err(Errno::ESTALE);
            }
            let Some(kept) = self.objects.backend.load_inode(ino)? else {
                return Err(Errno::ESTALE);
            };
            let pages = match kept.attrs.kind {
                Kind::File if kept.pages > 0 => {
                    self.objects.backend.load_allocation(ino, 0..PAGES)?
                }
                _ => Allocation::new(),
            };
            let (contents, came) = Data::allocated(pages);
            let (inode, new) = self.restore(&kept, contents, |_| {}, &pin())?;
            if let Some(bytes) = new {
                self.cache.mem_usage.add(bytes + resident_bytes(came));
            }
            inode
        };
        self.release(inode, &pin());
        Ok(())
    }

    /// Puts an inode back under its number, if it is a file with `contents`: a list of pages that
    /// came later could be out of date. `go_on` is called before other threads can see it. Returns
    /// a reference, and if the inode was absent before what it counts for without pages: others may
    /// change that from then on. The caller holds `inode_io_lock` of the number, and releases it
    /// before it gives the reference back.
    ///
    /// # Errors
    /// `ESTALE`: another inode has the number.
    pub(super) fn restore(
        &self,
        kept: &Kept,
        contents: Data,
        go_on: impl FnOnce(&InodeInner),
        g: &Guard,
    ) -> Result<(InodeRef, Option<i64>)> {
        let (ino, generation) = (kept.ino, kept.attrs.generation);
        let mut bytes = 0;
        let inode = |number, generation, shares: &_| {
            let inode = self.inode_of((number, generation), kept, contents, g);
            // Done before other threads can see the inode: a later count would be missing.
            count(kept, &inode, shares);
            bytes = inode_bytes(&inode, g);
            if kept.touched != 0 {
                self.objects.clock.saw(kept.touched);
            }
            go_on(&inode);
            inode
        };
        let restored = self.objects.inodes.restore(ino, generation, inode);
        let (inode, is_new) = restored.map_err(|_| Errno::ESTALE)?;
        Ok((inode, is_new.then_some(bytes)))
    }

    /// Fetches an entry. The backend is called without the bucket's lock. Its result counts only if
    /// the bucket is unchanged since before the call.
    fn fetch_entry(&self, inode: &Inode, name: &[u8]) -> Result<()> {
        let Some(directory) = inode.directory() else {
            return Ok(());
        };
        if directory.note_miss(inode.entries()) {
            return self.fetch_directory(inode);
        }
        let at = self.hashed(name);
        loop {
            let unknown = directory.version_if_unknown(at, &pin());
            let Some(before) = unknown else {
                return Ok(());
            };
            let result = self.objects.backend.load_entry(inode.number(), name)?;
            let g = pin();
            let applied = self.log().map_or(u64::MAX, |log| log.applied());
            if let Some(needs_growth) = directory.fill(at, result, before, applied, &g) {
                if needs_growth {
                    directory.grow_a_step(inode.entries(), &g);
                    self.recount(directory, &g);
                }
                drop(g);
                // Whoever looks a name up wants its inode too.
                result.inspect(|target| self.fetch_target(target.ino));
                return Ok(());
            }
        }
    }

    fn fetch_directory(&self, inode: &Inode) -> Result<()> {
        let Some(directory) = inode.directory() else {
            return Ok(());
        };
        let list = || self.objects.backend.load_directory(inode.number());
        let loaded = directory.load(inode.entries(), &self.names.keys, list);
        self.recount(directory, &pin());
        loaded
    }

    /// Fetches a page, and those behind it that a sequential reader will want, inside the gate, so
    /// that no truncate or eviction comes between the backend's result and its arrival. Returns
    /// without it once somebody else has fetched it, or failed.
    fn fetch_page(&self, inode: &Inode, index: u64, wanted: u64) -> Result<()> {
        let Some(data) = inode.data() else {
            return Ok(());
        };
        if data.unknown_leaf(index, &pin()).is_some() {
            return self.fetch_leaf(inode, data, index);
        }
        let pages = data.read_ahead(index, wanted, &pin()).pages;
        let Some(flight) = self.cache.page_flights.begin(inode.number(), pages) else {
            return Ok(());
        };
        let pages = flight.pages.clone();
        let _inside = inode.gate.read(inode.percpu());
        self.heat.note_load(inode, pages.clone());
        let (mut came, mut next) = (0, pages.start);
        let backend = &self.objects.backend;
        let mut take = |index: u64, bytes: &[u8]| {
            let g = pin();
            for hole in next..index {
                came += resident_bytes(data.load(hole, None, &g));
            }
            next = index + 1;
            came += resident_bytes(data.load(index, Some(bytes), &g));
        };
        let loaded = backend.load_pages(inode.number(), pages.clone(), &mut take);
        if loaded.is_ok() {
            let g = pin();
            for hole in next..pages.end {
                came += resident_bytes(data.load(hole, None, &g));
            }
        }
        self.cache.mem_usage.add(came);
        loaded
    }

    /// Fetches which pages around `index` are allocated, inside the gate, like a page. The
    /// operation asks for the page itself when it runs again.
    fn fetch_leaf(&self, inode: &Inode, data: &Data, index: u64) -> Result<()> {
        let _inside = inode.gate.read(inode.percpu());
        let Some(leaf) = data.unknown_leaf(index, &pin()) else {
            return Ok(());
        };
        let backend = &self.objects.backend;
        let held = backend.load_allocation(inode.number(), leaf.clone())?;
        let came = data.load_leaf(leaf, &held, &pin());
        self.cache.mem_usage.add(resident_bytes(came));
        Ok(())
    }
}
