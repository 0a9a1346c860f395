//! The root directory of a new or loaded volume.

use super::core::Core;
use super::load;
use crate::attr::Kind;
use crate::data::PAGE;
use crate::directory::Directory;
use crate::errno::{Errno, Result};
use crate::home::Change;
use crate::inode::{Body, Fields, Inode};
use crate::number::ROOT;
use crate::quota::Owners;
use hearth_sync::epoch::{Guard, pin};
use std::collections::HashSet;

impl Core {
    pub(super) fn make_root(&self, mode: u16) -> Result<()> {
        let now = self.now();
        let mut fields = Fields::new(mode, self.owner.0, self.owner.1, now);
        fields.nlink = 2;
        let g = pin();
        let evictable = self.home.evictable();
        let found = evictable && self.count_home(&g)?;
        if !found {
            self.ledger.charge_forced(fields.owners(), [0, 1], &g);
            fields.account = self.ledger.number_of(fields.owners(), &g);
        }
        let root = match self.home.load_inode(ROOT)? {
            Some(record) => {
                let inode = |number, generation, shares: &_| {
                    let inode = self.inode_of((number, generation), &record, &g);
                    load::count(&record, &inode, shares);
                    inode
                };
                let root = self.inodes.restore(ROOT, 0, inode);
                root.map(|(root, _)| root)
            }
            None => self.inodes.insert_at(ROOT, 0, |number, generation| {
                let body = Body::Directory(Box::new(Directory::new(ROOT, true)));
                Inode::new((number, generation), Kind::Directory, &fields, body)
            }),
        };
        let root = root.map_err(|_| Errno::EEXIST)?;
        if evictable {
            self.home
                .commit(&[Change::Put(&load::record_of(&root, &g))])?;
        }
        self.keep_forever(root);
        Ok(())
    }

    /// Charges everything that the home has to its owners, and leaves it the numbers that it has;
    /// false if there is no root.
    fn count_home(&self, g: &Guard) -> Result<bool> {
        let mut seen = HashSet::from([ROOT]);
        let mut next = vec![ROOT];
        let mut found = false;
        while let Some(ino) = next.pop() {
            let Some(record) = self.home.load_inode(ino)? else {
                continue;
            };
            found = true;
            let attr = &record.attr;
            let owners = Owners {
                uid: attr.uid,
                gid: attr.gid,
                project: attr.project,
            };
            let blocks = attr.blocks / (PAGE / 512);
            self.ledger.charge_forced(owners, [blocks, 1], g);
            if attr.kind == Kind::Directory {
                let entries = self.home.load_directory(ino)?;
                next.extend(
                    entries
                        .iter()
                        .map(|(_, to)| to.ino)
                        .filter(|&i| seen.insert(i)),
                );
            }
        }
        // What it keeps without a name, since somebody had it open, has a number as well.
        self.inodes.skip_past(self.home.last_inode()?.max(ROOT));
        Ok(found)
    }
}
