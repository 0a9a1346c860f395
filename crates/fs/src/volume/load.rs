//! Bringing things from the home.

use super::core::{Core, INODE_BYTES, PAGE_BYTES};
use super::stop::Load;
use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::attr::Kind;
use crate::control;
use crate::data::{Data, PAGE};
use crate::directory::{ALONE, Directory, Hashed, Look};
use crate::errno::{Errno, Result};
use crate::home::InodeRecord;
use crate::inode::{
    Body, COUNT, Extra, Fields, Inode, Node, NodeExt, NodeRef, OwnBytes, SUBDIR, split,
};
use crate::quota::NO_ACCOUNT;
use crate::stats::Event;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::object::SLOTS;
use hearth_sync::percpu::PerCpuCounters;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

impl Core {
    /// Brings what an operation lacked; the operation then runs again. Nothing is pinned while the
    /// home is asked, but for a directory that others change all the time.
    pub(super) fn load(&self, what: &Load) -> Result<()> {
        if !matches!(what, Load::Answer(_) | Load::Text(_)) {
            self.stats.event(Event::HomeLoad);
        }
        match what {
            Load::Inode(ino) => self.load_inode(*ino),
            Load::Named {
                dir,
                name,
                ino,
                generation,
            } => self.load_named((*dir, name), (*ino, *generation)),
            Load::Above(dir) => self.loading(*dir, |node| self.load_above(node)),
            Load::Entry { dir, name } => self.loading(*dir, |node| self.load_entry(node, name)),
            Load::Directory(dir) => self.loading(*dir, |node| self.load_directory(node)),
            Load::Answer(question) => control::answer(&self.handle().ok_or(Errno::EIO)?, question),
            Load::Text(dialogue) => {
                dialogue.make_text(self);
                Ok(())
            }
            Load::Page { ino, index } => self.loading(*ino, |node| self.load_page(node, *index)),
            Load::Room(bytes) => {
                self.reclaim(*bytes);
                Ok(())
            }
        }
    }

    /// Holds an inode meanwhile; one that is gone needs nothing.
    fn loading(&self, ino: u64, load: impl FnOnce(&Node) -> Result<()>) -> Result<()> {
        let held = self.inodes.hold(ino, &pin());
        let Some(node) = held else { return Ok(()) };
        // A panic of the home releases it as well.
        let result = catch_unwind(AssertUnwindSafe(|| load(&node)));
        self.release(node, &pin());
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// What is above a directory may go when that has gone elsewhere, or was removed.
    fn load_above(&self, node: &Node) -> Result<()> {
        let Some(directory) = node.directory() else {
            return Ok(());
        };
        let above = directory.parent();
        match self.load_inode(above) {
            Err(Errno::ESTALE) if node.meta.is_nameless() => {
                directory.orphan(ALONE);
                Ok(())
            }
            Err(Errno::ESTALE) if directory.parent() != above => Ok(()),
            loaded => loaded,
        }
    }

    /// An inode that has gone since its entry was found lost that name before: the operation finds
    /// another one there, or none. If the entry is here all the same, the home has lost what it
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
        let node = self.inodes.get(dir, &g);
        let Some(directory) = node.and_then(|node| node.directory()) else {
            return false;
        };
        match directory.lookup(name, self.hash(name), &g) {
            Look::Hit(entry) => (entry.ino(), entry.generation()) == to,
            Look::Absent | Look::Unknown => false,
        }
    }

    fn load_inode(&self, ino: u64) -> Result<()> {
        let (node, is_new) = {
            let _one = self.homing(ino).lock_guard();
            if self.inodes.get(ino, &pin()).is_some() {
                return Ok(());
            }
            let Some(record) = self.home.load_inode(ino)? else {
                return Err(Errno::ESTALE);
            };
            if self.is_undead(ino) {
                return Err(Errno::ESTALE);
            }
            let pages = match record.attr.kind {
                Kind::File => self.home.list_pages(ino)?,
                _ => Vec::new(),
            };
            self.restore(&record, pages, &pin())?
        };
        if is_new {
            self.resident.add(INODE_BYTES);
        }
        self.release(node, &pin());
        Ok(())
    }

    /// Puts an inode back under its number, and answers whether it was not there. The caller holds
    /// `homing` for it, and gives the reference back without.
    ///
    /// # Errors
    /// `ESTALE`: the number is another inode's.
    pub(super) fn restore(
        &self,
        record: &InodeRecord,
        pages: Vec<u64>,
        g: &Guard,
    ) -> Result<(NodeRef, bool)> {
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
    pub(super) fn inode_of(&self, name: (u64, u32), record: &InodeRecord, g: &Guard) -> Inode {
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
        let inode = Inode::new(name, attr.kind, &fields, body);
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

    /// The home is asked without the bucket's lock; its answer counts if the bucket has not changed
    /// since before the question.
    fn load_entry(&self, node: &Node, name: &[u8]) -> Result<()> {
        let Some(directory) = node.directory() else {
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
            let answer = self.home.load_entry(node.number(), name)?;
            let g = pin();
            if let Some(is_crowded) = directory.learn(at, answer, before, &g) {
                if is_crowded {
                    directory.grow_a_step(node.entries(), &g);
                }
                return Ok(());
            }
        }
    }

    fn load_directory(&self, node: &Node) -> Result<()> {
        let Some(directory) = node.directory() else {
            return Ok(());
        };
        let list = || self.home.load_directory(node.number());
        directory.load(node.entries(), |name| self.hash(name), list)
    }

    /// Inside the gate: neither a truncate nor an eviction comes between the home's answer and its
    /// arrival.
    fn load_page(&self, node: &Node, index: u64) -> Result<()> {
        let Some(data) = node.data() else {
            return Ok(());
        };
        let _inside = node.gate.read(node.percpu());
        let bytes = self.home.load_page(node.number(), index)?;
        let at = index * crate::data::PAGE;
        self.heat.note_load(node, at);
        if data.load(index, bytes.as_deref(), &pin()) {
            self.resident.add(PAGE_BYTES);
        }
        Ok(())
    }
}

/// Adds what the per-core lane of entries or pages begins with.
pub(super) fn count(record: &InodeRecord, inode: &Inode, shares: &PerCpuCounters<SLOTS>) {
    let count = match record.attr.kind {
        Kind::File => (record.attr.blocks / (PAGE / 512)) as i64 - inode.extra_blocks() as i64,
        _ => record.entries.0 as i64 + record.entries.1 as i64 * SUBDIR,
    };
    shares.add(COUNT, count);
}

/// The record that a home keeps of an inode.
pub(crate) fn record_of(node: &Node, g: &Guard) -> InodeRecord {
    let mut attr = node.attr();
    // Derived for directories; here it says whether the directory still has its name.
    attr.nlink = node.meta.nlink();
    let entries = match node.is_dir() {
        true => split(node.count()),
        false => (0, 0),
    };
    let mut xattrs = Vec::new();
    if let Some(extra) = node.extra(g) {
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
        parent: node.directory().map_or(0, Directory::parent),
        target: match &node.body {
            Body::Symlink(target) => (**target).into(),
            _ => Box::default(),
        },
        xattrs,
    }
}
