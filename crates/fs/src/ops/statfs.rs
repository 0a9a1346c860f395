//! Room of the volume, and of a project in it.

use crate::attr::StatFs;
use crate::data::PAGE;
use crate::inode::Node;
use crate::name::NAME_MAX;
use crate::quota::{QuotaId, Resource};
use crate::volume::Core;
use hearth_sync::epoch::Guard;

/// What `statfs(2)` tells about `node`: inside a project with a hard limit, the project's room.
pub(crate) fn statfs(core: &Core, node: &Node, g: &Guard) -> StatFs {
    let (blocks, bfree) = room(core, QuotaId::VOLUME, Resource::Blocks, g).unwrap_or_default();
    let (files, ffree) = room(core, QuotaId::VOLUME, Resource::Inodes, g).unwrap_or_default();
    let mut all = StatFs {
        bsize: PAGE as u32,
        frsize: PAGE as u32,
        blocks,
        bfree,
        bavail: bfree,
        files,
        ffree,
        namelen: NAME_MAX as u32,
    };
    let project = QuotaId::project(node.meta.read().project);
    if project.id == 0 {
        return all;
    }
    // A project may be promised more than the volume has. What is not free is what the project
    // uses, as on XFS; what may be had is what the volume has left besides.
    if let Some((limit, left)) = room(core, project, Resource::Blocks, g) {
        all.blocks = blocks.min(limit);
        all.bfree = all.blocks.saturating_sub(limit - left);
        all.bavail = left.min(bfree);
    }
    if let Some((limit, left)) = room(core, project, Resource::Inodes, g) {
        all.files = files.min(limit);
        all.ffree = all.files.saturating_sub(limit - left);
    }
    all
}

/// Hard limit and what is left below it; `None` without a limit.
fn room(core: &Core, who: QuotaId, resource: Resource, g: &Guard) -> Option<(u64, u64)> {
    let usage = &core.ledger.usage(who, g)[resource as usize];
    let hard = usage.tally.bounds.hard?;
    Some((hard, hard.saturating_sub(usage.used)))
}
