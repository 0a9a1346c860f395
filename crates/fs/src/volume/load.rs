//! Bringing things from the backend.

use super::stop::Fetch;
use super::superblock::{INODE_BYTES, PAGE_BYTES, Superblock};
use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::attr::Kind;
use crate::backend::InodeRecord;
use crate::control;
use crate::data::{Data, PAGE};
use crate::directory::{ALONE, Directory, Hashed, Look};
use crate::errno::{Errno, Result};
use crate::inode::{
    Body, COUNT, Extra, Fields, Inode, InodeExt, InodeInner, InodeRef, OwnBytes, SUBDIR, split,
};
use crate::quota::NO_ACCOUNT;
use crate::stats::Event;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::object::LANES;
use hearth_sync::spread::Spread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

impl Superblock {
    /// Brings what an operation lacked; the operation then runs again. Nothing is pinned while the
    /// backend is asked, but for a directory that others change all the time.
    pub(super) fn load(&self, what: &Fetch) -> Result<()> {
        if !matches!(what, Fetch::Answer(_) | Fetch::Text(_)) {
            self.stats.event(Event::BackendFetch);
        }
        match what {
            Fetch::Inode(ino) => self.load_inode(*ino),
            Fetch::Named {
                dir,
                name,
                ino,
                generation,
            } => self.load_named((*dir, name), (*ino, *generation)),
            Fetch::Above(dir) => self.loading(*dir, |inode| self.load_above(inode)),
            Fetch::Entry { dir, name } => self.loading(*dir, |inode| self.load_entry(inode, name)),
            Fetch::Directory(dir) => self.loading(*dir, |inode| self.load_directory(inode)),
            Fetch::Answer(question) => control::answer(&self.handle().ok_or(Errno::EIO)?, question),
            Fetch::Text(dialogue) => {
                dialogue.make_text(self);
                Ok(())
            }
            Fetch::Page { ino, index } => self.loading(*ino, |inode| self.load_page(inode, *index)),
            Fetch::Room(bytes) => {
                self.reclaim(*bytes);
                Ok(())
            }
        }
    }

    /// Holds an inode meanwhile; one that is gone needs nothing.
    fn loading(&self, ino: u64, load: impl FnOnce(&Inode) -> Result<()>) -> Result<()> {
        let held = self.inodes.hold(ino, &pin());
        let Some(inode) = held else { return Ok(()) };
        // A panic of the backend releases it as well.
        let result = catch_unwind(AssertUnwindSafe(|| load(&inode)));
        self.release(inode, &pin());
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// What is above a directory may go when that has gone elsewhere, or was removed.
    fn load_above(&self, inode: &Inode) -> Result<()> {
        let Some(directory) = inode.directory() else {
            return Ok(());
        };
        let above = directory.parent();
        match self.load_inode(above) {
            Err(Errno::ESTALE) if inode.meta.is_unlinked() => {
                directory.orphan(ALONE);
                Ok(())
            }
            Err(Errno::ESTALE) if directory.parent() != above => Ok(()),
            loaded => loaded,
        }
    }

    /// An inode that has gone since its entry was found lost that name before: the operation finds
    /// another one there, or none. If the entry is here all the same, the backend has lost what it
    /// means.
    fn load_named(&self, (dir, name): (u64, &[u8]), to: (u64, u32)) -> Result<()> {
        match self.load_inode(to.0) {
            Err(Errno::ESTALE) if !self.names(dir, name, to) => Ok(()),
            loaded => loaded,
        }
    }

    /// Whether a directory in memory has an entry that means this.
    fn names(&self, dir: u64, name: &[u8], to: (u64, u32)) -> bool {
        let g = pin();
        let inode = self.inodes.get(dir, &g);
        let Some(directory) = inode.and_then(|inode| inode.directory()) else {
            return false;
        };
        match directory.lookup(name, self.hash(name), &g) {
            Look::Hit(entry) => (entry.ino(), entry.generation()) == to,
            Look::Absent | Look::Unknown => false,
        }
    }

    fn load_inode(&self, ino: u64) -> Result<()> {
        let (inode, is_new) = {
            let _one = self.inode_io_lock(ino).lock_guard();
            if self.inodes.get(ino, &pin()).is_some() {
                return Ok(());
            }
            let Some(record) = self.backend.load_inode(ino)? else {
                return Err(Errno::ESTALE);
            };
            if self.is_orphan(ino) {
                return Err(Errno::ESTALE);
            }
            let pages = match record.attr.kind {
                Kind::File => self.backend.list_pages(ino)?,
                _ => Vec::new(),
            };
            self.restore(&record, pages, &pin())?
        };
        if is_new {
            self.mem_usage.add(INODE_BYTES);
        }
        self.release(inode, &pin());
        Ok(())
    }

    /// Puts an inode back under its number, and answers whether it was not there. The caller holds
    /// `inode_io_lock` for it, and gives the reference back without.
    ///
    /// # Errors
    /// `ESTALE`: the number is another inode's.
    pub(super) fn restore(
        &self,
        record: &InodeRecord,
        pages: Vec<u64>,
        g: &Guard,
    ) -> Result<(InodeRef, bool)> {
        let (ino, generation) = (record.attr.ino, record.attr.generation);
        let inode = |number, generation, shares: &_| {
            let inode = self.inode_of((number, generation), record, g);
            // Before anybody can see it: what is learnt later could be wrong by then, and what is
            // counted later would be missing.
            if let Some(data) = inode.data() {
                data.learn(pages.into_iter().map(|index| index..index + 1), g);
            }
            count(record, &inode, shares);
            inode
        };
        let restored = self.inodes.restore(ino, generation, inode);
        restored.map_err(|_| Errno::ESTALE)
    }

    /// The inode that a record describes, contents not loaded.
    pub(super) fn inode_of(&self, name: (u64, u32), record: &InodeRecord, g: &Guard) -> InodeInner {
        let attr = &record.attr;
        let mut fields = Fields {
            perm: attr.perm,
            uid: attr.uid,
            gid: attr.gid,
            nlink: attr.nlink,
            linkable: false,
            flags: attr.flags,
            acls: 0,
            project: attr.project,
            account: NO_ACCOUNT,
            size: attr.size,
            atime: attr.atime,
            mtime: attr.mtime,
            ctime: attr.ctime,
            btime: attr.btime,
        };
        // What it is charged for stayed charged while it was out of memory.
        fields.account = self.ledger.number_of(fields.owners(), g);
        self.note_project(fields.project);
        let body = match attr.kind {
            Kind::File => Body::File(Data::new(false)),
            Kind::Directory => Body::Directory(Box::new(Directory::new(record.parent, false))),
            Kind::Symlink => Body::Symlink(OwnBytes::new(&record.target)),
            _ => Body::Special(attr.rdev),
        };
        let inode = InodeInner::new(name, attr.kind, &fields, body);
        if !record.xattrs.is_empty() {
            let mut extra = Extra::default();
            let mut plain = Vec::new();
            for (name, value) in &record.xattrs {
                match &name[..] {
                    ACL_ACCESS => extra.access = Acl::from_xattr(value).ok().flatten(),
                    ACL_DEFAULT => extra.default = Acl::from_xattr(value).ok().flatten(),
                    name => plain.push((name, &value[..])),
                }
            }
            extra.xattrs = plain.into_iter().collect();
            inode.set_extra_blocks(extra.blocks());
            inode.set_extra(extra, |_| {}, g);
        }
        inode
    }

    /// The backend is asked without the bucket's lock; its answer counts if the bucket has not changed
    /// since before the question.
    fn load_entry(&self, inode: &Inode, name: &[u8]) -> Result<()> {
        let Some(directory) = inode.directory() else {
            return Ok(());
        };
        let at = Hashed {
            name,
            hash: self.hash(name),
        };
        loop {
            let unknown = directory.unknown(at, &pin());
            let Some(before) = unknown else {
                return Ok(());
            };
            let answer = self.backend.load_entry(inode.number(), name)?;
            let g = pin();
            if let Some(is_crowded) = directory.learn(at, answer, before, &g) {
                if is_crowded {
                    directory.grow_a_step(inode.entries(), &g);
                }
                return Ok(());
            }
        }
    }

    fn load_directory(&self, inode: &Inode) -> Result<()> {
        let Some(directory) = inode.directory() else {
            return Ok(());
        };
        let list = || self.backend.load_directory(inode.number());
        directory.load(inode.entries(), |name| self.hash(name), list)
    }

    /// Inside the gate: neither a truncate nor an eviction comes between the backend's answer and its
    /// arrival.
    fn load_page(&self, inode: &Inode, index: u64) -> Result<()> {
        let Some(data) = inode.data() else {
            return Ok(());
        };
        let _inside = inode.gate.enter(inode.shares());
        let bytes = self.backend.load_page(inode.number(), index)?;
        let at = index * crate::data::PAGE;
        self.heat.note_load(inode, at);
        if data.load(index, bytes.as_deref(), &pin()) {
            self.mem_usage.add(PAGE_BYTES);
        }
        Ok(())
    }
}

/// Adds what the per-core lane of entries or pages begins with.
pub(super) fn count(record: &InodeRecord, inode: &InodeInner, shares: &Spread<LANES>) {
    let count = match record.attr.kind {
        Kind::File => (record.attr.blocks / (PAGE / 512)) as i64 - inode.extra_blocks() as i64,
        _ => record.entries.0 as i64 + record.entries.1 as i64 * SUBDIR,
    };
    shares.add(COUNT, count);
}

/// The record that a backend keeps of an inode.
pub(crate) fn record_of(inode: &Inode, g: &Guard) -> InodeRecord {
    let mut attr = inode.attr();
    // Derived for directories; here it says whether the directory still has its name.
    attr.nlink = inode.meta.nlink();
    let entries = match inode.is_dir() {
        true => split(inode.count()),
        false => (0, 0),
    };
    let mut xattrs = Vec::new();
    if let Some(extra) = inode.extra(g) {
        xattrs.extend(extra.xattrs.iter().map(|(n, v)| (n.into(), v.into())));
        let acls = [(ACL_ACCESS, &extra.access), (ACL_DEFAULT, &extra.default)];
        for (name, acl) in acls {
            if let Some(acl) = acl {
                xattrs.push((name.into(), acl.to_xattr().into()));
            }
        }
    }
    InodeRecord {
        attr,
        entries,
        parent: inode.directory().map_or(0, Directory::parent),
        target: match &inode.body {
            Body::Symlink(target) => (**target).into(),
            _ => Box::default(),
        },
        xattrs,
    }
}
