//! Free space of the volume, and of a project in it.

use crate::attr::StatFs;
use crate::data::PAGE;
use crate::inode::Inode;
use crate::name::NAME_MAX;
use crate::quota::QuotaId;
use crate::superblock::Superblock;
use hearth_sync::epoch::Guard;

/// The result of `statfs(2)` on `inode`: inside a project with a hard limit, the project's numbers.
pub(crate) fn statfs(sb: &Superblock, inode: &Inode, g: &Guard) -> StatFs {
    let [(blocks, bfree), (files, ffree)] =
        limits(sb, QuotaId::VOLUME, g).map(Option::unwrap_or_default);
    let bfree = sb.free_bytes(bfree.saturating_mul(PAGE)) / PAGE;
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
    let project = QuotaId::project(inode.meta.project());
    if project.id == 0 {
        return all;
    }
    // A project's limit may exceed the volume. What is not free is what the project uses, as on
    // XFS; what is available is also limited by what the volume has left.
    let [of_blocks, of_files] = limits(sb, project, g);
    if let Some((limit, left)) = of_blocks {
        all.blocks = blocks.min(limit);
        all.bfree = all.blocks.saturating_sub(limit - left);
        all.bavail = left.min(bfree);
    }
    if let Some((limit, left)) = of_files {
        all.files = files.min(limit);
        // For files there is no separate number of available ones.
        all.ffree = left.min(ffree);
    }
    all
}

/// The hard limit of each resource and what is left below it; `None` without a limit.
fn limits(sb: &Superblock, who: QuotaId, g: &Guard) -> [Option<(u64, u64)>; 2] {
    sb.quotas.ledger.usage(who, g).map(|usage| {
        let hard = usage.usage.bounds.hard?;
        Some((hard, hard.saturating_sub(usage.used)))
    })
}
