//! The root directory of a new or loaded volume.

use super::record::count;
use crate::attr::Kind;
use crate::backend::{Inode as Kept, Restart};
use crate::data::{Data, PAGE};
use crate::directory::Directory;
use crate::errno::{Errno, Result};
use crate::inode::{Body, Fields, InodeInner, XattrsAcls};
use crate::number::ROOT;
use crate::quota::{Owners, Resource};
use crate::superblock::Superblock;
use hearth_sync::epoch::{Guard, pin};

const _: () = assert!(PAGE == crate::quota::BLOCK);

impl Superblock {
    /// Makes the root directory of a volume that has none.
    pub(crate) fn make_root(&self, mode: u16) -> Result<()> {
        let now = self.now();
        let mut fields = Fields::new(mode, self.options.owner.0, self.options.owner.1, now);
        fields.nlink = 2;
        let g = pin();
        self.quotas
            .ledger
            .charge_forced(fields.owners(), [0, 1], &g);
        fields.account = self.quotas.ledger.number_of(fields.owners(), &g);
        let root = self
            .objects
            .inodes
            .insert_at(ROOT, 0, |number, generation| {
                let body = Body::Directory(Box::new(Directory::new(ROOT, true)));
                InodeInner::new((number, generation), Kind::Directory, &fields, body)
            });
        let root = root.map_err(|_| Errno::EEXIST)?;
        self.record_new(&root, &g);
        drop(g);
        self.pin_forever(root);
        match self.log() {
            Some(log) => self.commit_through(log.epoch()),
            None => Ok(()),
        }
    }

    /// Goes on where the backend stopped: takes over what is charged, reserves the numbers of its
    /// inodes, loads the root, and ends the inodes that had no name.
    pub(crate) fn load_root(&self, restart: &Restart) -> Result<()> {
        let g = pin();
        for usage in &restart.usage {
            let owners = Owners {
                uid: usage.uid,
                gid: usage.gid,
                project: usage.project,
            };
            let amounts = [usage.blocks, usage.inodes];
            self.quotas.ledger.charge_forced(owners, amounts, &g);
        }
        self.objects.inodes.begin_life(restart.opened);
        self.objects.inodes.skip_past(restart.last_inode.max(ROOT));
        let root = self.objects.backend.load_inode(ROOT)?.ok_or(Errno::EIO)?;
        let generation = root.attrs.generation;
        let restored =
            self.objects
                .inodes
                .restore(ROOT, generation, |number, generation, shares| {
                    let inode = self.inode_of((number, generation), &root, Data::new(), &g);
                    count(&root, &inode, shares);
                    inode
                });
        let (inode, _) = restored.map_err(|_| Errno::EEXIST)?;
        // The rest of the root counts for nothing: it does not leave.
        let extra = inode.extra(&g).map_or(0, XattrsAcls::memory);
        self.cache.mem_usage.add(extra as i64);
        self.pin_forever(inode);
        drop(g);
        if self.is_read_only() {
            return Ok(());
        }
        for &(ino, generation) in &restart.orphans {
            if let Some(orphan) = self.objects.backend.load_inode(ino)? {
                self.end_orphan(&orphan, &pin());
            }
            if let Some(log) = self.log() {
                self.cache.ghosts.insert(ino, generation);
                log.append(crate::backend::Record::Gone {
                    ino,
                    generation,
                    is_brief: false,
                });
            }
        }
        Ok(())
    }

    /// Gives back what an inode took that was open without a name when the volume ended.
    fn end_orphan(&self, orphan: &Kept, g: &Guard) {
        let attrs = &orphan.attrs;
        let owners = Owners {
            uid: attrs.uid,
            gid: attrs.gid,
            project: attrs.project,
        };
        let ledger = &self.quotas.ledger;
        let account = ledger.number_of(owners, g);
        let blocks = orphan.pages + u64::from(attrs.extra_blocks);
        ledger.free(account, Resource::Blocks, blocks, g);
        ledger.free(account, Resource::Inodes, 1, g);
    }
}
