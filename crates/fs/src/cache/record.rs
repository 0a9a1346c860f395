//! The conversion of what a backend keeps into inodes.

use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::attr::{Kind, Time};
use crate::backend::Inode as Kept;
use crate::data::Data;
use crate::directory::Directory;
use crate::inode::{Body, COUNT, Fields, InodeInner, PaddedBytes, TOUCHED, XattrsAcls, joined};
use crate::quota::NO_ACCOUNT;
use crate::superblock::Superblock;
use hearth_sync::epoch::Guard;
use hearth_sync::object::SLOTS;
use hearth_sync::percpu::PerCpuCounters;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

impl Superblock {
    /// The inode that a record describes, with `contents` if it is a file.
    pub(super) fn inode_of(
        &self,
        name: (u64, u32),
        kept: &Kept,
        contents: Data,
        g: &Guard,
    ) -> InodeInner {
        let attrs = &kept.attrs;
        let mut fields = Fields {
            perm: attrs.perm,
            uid: attrs.uid,
            gid: attrs.gid,
            nlink: attrs.nlink,
            linkable: false,
            flags: attrs.flags,
            acls: 0,
            project: attrs.project,
            account: NO_ACCOUNT,
            size: kept.size,
            atime: attrs.atime,
            mtime: attrs.mtime,
            ctime: attrs.ctime,
            btime: attrs.btime,
        };
        if kept.touched != 0 {
            fields.mtime = Time::from_nanos(kept.touched);
            fields.ctime = fields.ctime.max(fields.mtime);
        }
        // The inode stayed charged while it was out of memory.
        fields.account = self.quotas.ledger.number_of(fields.owners(), g);
        self.note_project(fields.project);
        let body = match attrs.kind {
            Kind::File => Body::File(contents),
            Kind::Directory => Body::Directory(Box::new(Directory::new(kept.parent, false))),
            Kind::Symlink => Body::Symlink(PaddedBytes::new(&kept.target)),
            _ => Body::Special(attrs.rdev),
        };
        let inode = InodeInner::new(name, attrs.kind, &fields, body);
        inode.contents.size.store(kept.size, Relaxed);
        if !kept.xattrs.is_empty() {
            let extra = extra_of(kept);
            inode.set_extra_blocks(extra.blocks());
            inode.set_extra(extra, |_| {}, g, |_| {});
        }
        inode
    }
}

/// The extended attributes and ACLs of a record.
pub(super) fn extra_of(kept: &Kept) -> XattrsAcls {
    let mut extra = XattrsAcls::default();
    let mut plain = Vec::new();
    for (name, value) in &kept.xattrs {
        match &name[..] {
            ACL_ACCESS => extra.access = Acl::from_xattr(value).ok().flatten(),
            ACL_DEFAULT => extra.default = Acl::from_xattr(value).ok().flatten(),
            name => plain.push((name, &value[..])),
        }
    }
    extra.xattrs = plain.into_iter().collect();
    extra
}

/// Puts the number of entries or pages, and the latest change of contents, in the per-core
/// counters.
/// The latter so that what is recorded of the contents next does not lose it.
pub(super) fn count(kept: &Kept, inode: &InodeInner, shares: &PerCpuCounters<SLOTS>) {
    let count = match inode.kind() {
        Kind::File => kept.pages as i64,
        _ => joined(kept.entries),
    };
    shares.add(COUNT, count);
    shares.raise(TOUCHED, kept.touched);
}
