//! The conversion between inodes and the records that a backend keeps.

use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::attr::Kind;
use crate::backend::InodeRecord;
use crate::data::{Data, PAGE};
use crate::directory::Directory;
use crate::inode::{
    Body, COUNT, Fields, Inode, InodeExt, InodeInner, PaddedBytes, SUBDIR, XattrsAcls, split,
};
use crate::quota::NO_ACCOUNT;
use crate::superblock::Superblock;
use hearth_sync::epoch::Guard;
use hearth_sync::object::SLOTS;
use hearth_sync::percpu::PerCpuCounters;

impl Superblock {
    /// The inode that a record describes, without its contents.
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
        // The inode stayed charged while it was out of memory.
        fields.account = self.quotas.ledger.number_of(fields.owners(), g);
        self.note_project(fields.project);
        let body = match attr.kind {
            Kind::File => Body::File(Data::new(false)),
            Kind::Directory => Body::Directory(Box::new(Directory::new(record.parent, false))),
            Kind::Symlink => Body::Symlink(PaddedBytes::new(&record.target)),
            _ => Body::Special(attr.rdev),
        };
        let inode = InodeInner::new(name, attr.kind, &fields, body);
        if !record.xattrs.is_empty() {
            let mut extra = XattrsAcls::default();
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
}

/// Adds the number of entries or pages in the record to the per-core counter.
pub(super) fn count(record: &InodeRecord, inode: &InodeInner, shares: &PerCpuCounters<SLOTS>) {
    let count = match record.attr.kind {
        Kind::File => (record.attr.blocks / (PAGE / 512)) as i64 - inode.extra_blocks() as i64,
        _ => record.entries.0 as i64 + record.entries.1 as i64 * SUBDIR,
    };
    shares.add(COUNT, count);
}

/// The record of an inode, as a backend keeps it.
pub(crate) fn record_of(inode: &Inode, g: &Guard) -> InodeRecord {
    let mut attr = inode.attr();
    // The link count of a directory is derived. In a record it says whether the directory still has
    // its name.
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
