//! The root directory of a new or loaded volume.

use super::core::Core;
use super::load;
use crate::attr::Kind;
use crate::directory::Directory;
use crate::errno::{Errno, Result};
use crate::home::Change;
use crate::inode::{Body, Fields, Inode};
use crate::number::ROOT;
use hearth_sync::epoch::pin;

impl Core {
    pub(super) fn make_root(&self, mode: u16) -> Result<()> {
        let now = self.now();
        let mut fields = Fields::new(mode, self.owner.0, self.owner.1, now);
        fields.nlink = 2;
        let _room = self.inode_room.reserve(1).map(|mut room| room.spend(1));
        let evictable = self.home.evictable();
        let root = match self.home.load_inode(ROOT)? {
            Some(record) => self
                .inodes
                .insert_at(ROOT, 0, |_, _| load::inode_of(&record)),
            None => self.inodes.insert_at(ROOT, 0, |_, _| {
                let body = Body::Directory(Box::new(Directory::new(ROOT, true)));
                Inode::new(Kind::Directory, &fields, body)
            }),
        };
        let root = root.map_err(|_| Errno::EEXIST)?;
        if evictable {
            let g = pin();
            self.home
                .commit(&[Change::Put(&load::record_of(&root, &g))])?;
        }
        self.keep_forever(root);
        Ok(())
    }
}
