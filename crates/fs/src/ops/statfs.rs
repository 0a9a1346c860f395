//! Room of the volume.

use crate::attr::StatFs;
use crate::data::PAGE;
use crate::name::NAME_MAX;
use crate::volume::Core;

/// What `statfs(2)` tells.
pub(crate) fn statfs(core: &Core) -> StatFs {
    let (pages, inodes) = (core.pages.limit(), core.inode_room.limit());
    let free = pages.saturating_sub(core.pages.used());
    StatFs {
        bsize: PAGE as u32,
        frsize: PAGE as u32,
        blocks: pages,
        bfree: free,
        bavail: free,
        files: inodes,
        ffree: inodes.saturating_sub(core.inode_room.used()),
        namelen: NAME_MAX as u32,
    }
}
