//! The root directory of a new or loaded volume.

use super::record::{count, record_of};
use crate::attr::Kind;
use crate::backend::BackendOp;
use crate::data::PAGE;
use crate::directory::Directory;
use crate::errno::{Errno, Result};
use crate::inode::{Body, Fields, InodeInner};
use crate::number::ROOT;
use crate::quota::Owners;
use crate::superblock::Superblock;
use hearth_sync::epoch::{Guard, pin};
use std::collections::HashSet;

impl Superblock {
    /// Makes the root directory, or restores it from the backend.
    pub(crate) fn make_root(&self, mode: u16) -> Result<()> {
        let now = self.now();
        let mut fields = Fields::new(mode, self.options.owner.0, self.options.owner.1, now);
        fields.nlink = 2;
        let g = pin();
        let evictable = self.objects.backend.evictable();
        let exists = evictable && self.charge_backend(&g)?;
        if !exists {
            self.quotas
                .ledger
                .charge_forced(fields.owners(), [0, 1], &g);
            fields.account = self.quotas.ledger.number_of(fields.owners(), &g);
        }
        let root = match self.objects.backend.load_inode(ROOT)? {
            Some(record) => {
                let inode = |number, generation, shares: &_| {
                    let inode = self.inode_of((number, generation), &record, &g);
                    count(&record, &inode, shares);
                    inode
                };
                let root = self.objects.inodes.restore(ROOT, 0, inode);
                root.map(|(root, _)| root)
            }
            None => self
                .objects
                .inodes
                .insert_at(ROOT, 0, |number, generation| {
                    let body = Body::Directory(Box::new(Directory::new(ROOT, true)));
                    InodeInner::new((number, generation), Kind::Directory, &fields, body)
                }),
        };
        let root = root.map_err(|_| Errno::EEXIST)?;
        if evictable {
            self.objects
                .backend
                .commit(&[BackendOp::Put(&record_of(&root, &g))])?;
        }
        self.pin_forever(root);
        Ok(())
    }

    /// Charges everything that the backend has to its owners, and reserves its inode numbers.
    /// Returns false if there is no root.
    fn charge_backend(&self, g: &Guard) -> Result<bool> {
        let mut seen = HashSet::from([ROOT]);
        let mut next = vec![ROOT];
        let mut exists = false;
        while let Some(ino) = next.pop() {
            let Some(record) = self.objects.backend.load_inode(ino)? else {
                continue;
            };
            exists = true;
            let attr = &record.attr;
            let owners = Owners {
                uid: attr.uid,
                gid: attr.gid,
                project: attr.project,
            };
            let blocks = attr.blocks / (PAGE / 512);
            self.quotas.ledger.charge_forced(owners, [blocks, 1], g);
            if attr.kind == Kind::Directory {
                let entries = self.objects.backend.load_directory(ino)?;
                next.extend(
                    entries
                        .iter()
                        .map(|(_, to)| to.ino)
                        .filter(|&i| seen.insert(i)),
                );
            }
        }
        // The numbers of unlinked inodes that were open are reserved as well.
        self.objects
            .inodes
            .skip_past(self.objects.backend.last_inode()?.max(ROOT));
        Ok(exists)
    }
}
