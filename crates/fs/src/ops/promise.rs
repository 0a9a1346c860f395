//! What a kernel in front may acknowledge by itself, charged before: see "Charged before it is
//! acknowledged" in `docs/design/quota.md`.

use crate::data::{Absent, Data};
use crate::errno::Errno;
use crate::inode::{COUNT, Inode, Mark};
use crate::ops::ctx::Ctx;
use crate::quota::{InodeReservations, Resource};
use crate::superblock::{Attempt, Fetch, Stop, Superblock};
use hearth_sync::epoch::Guard;
use std::ops::Range;

/// A kernel in front has opened `inode` for writing: if the volume charges first, or others are
/// charged already, the open file is a charged writer until [`close`].
pub(crate) fn add_writer(sb: &Superblock, inode: &Inode) -> bool {
    if inode.data().is_none() || !(has_writers(inode) || sb.quotas.ledger.charges_first()) {
        return false;
    }
    let mut promised = sb.quotas.reservations.of(inode.number());
    promised.add_writer();
    // In the lock, as it is cleared.
    inode.marks.set(Mark::Charged);
    true
}

/// Whether there are charged writers. A reader that comes beside the first has its pages dropped
/// when that one maps the file.
pub(crate) fn has_writers(inode: &Inode) -> bool {
    inode.marks.has(Mark::Charged)
}

/// A charged writer of `inode` is closed.
pub(crate) fn close(sb: &Superblock, inode: &Inode, g: &Guard) {
    let _inside = inode.gate.enter(inode.shares());
    let mut promised = sb.quotas.reservations.of(inode.number());
    let Some(left) = promised.remove_writer() else {
        return;
    };
    // In the lock, as they are set.
    inode.marks.clear(Mark::Charged);
    inode.marks.clear(Mark::Promised);
    sb.quotas
        .ledger
        .free(inode.meta.account(), Resource::Blocks, left, g);
}

/// The kernel is about to have these bytes in its cache, where a mapping may change them: what is a
/// hole of them has a block from now on, if `inode` has a charged writer.
pub(crate) fn promise(cx: &Ctx<'_>, inode: &Inode, off: u64, len: usize, g: &Guard) -> Attempt<()> {
    let data = inode.data().ok_or(Errno::EINVAL)?;
    let unpaid = || -> Attempt<_> {
        let absent = |Absent(index)| load(inode, index);
        let mut holes = data.holes(off, len as u64, g).map_err(absent)?;
        if holes.is_empty() {
            return Ok(None);
        }
        let promised = cx.sb.quotas.reservations.of(inode.number());
        holes.retain(|&hole| !promised.has(hole));
        let is_needed = promised.has_writers() && !holes.is_empty();
        Ok(is_needed.then_some((promised, holes)))
    };
    {
        let _inside = inode.gate.enter(inode.shares());
        if unpaid()?.is_none() {
            return Ok(());
        }
    }
    // A write inside may be about to fill a hole that nothing is promised to, and pay for it.
    let _closed = inode.gate.close(inode.shares());
    let Some(account) = cx.sb.payer(inode)? else {
        return Ok(());
    };
    let Some((mut promised, new)) = unpaid()? else {
        return Ok(());
    };
    let more = new.len() as u64;
    let mut room = cx
        .sb
        .quotas
        .ledger
        .charge(account, Resource::Blocks, more, g)?;
    room.spend(more);
    promised.add(new);
    // The write that needs it comes after the answer to this read.
    inode.marks.set(Mark::Promised);
    Ok(())
}

/// Stores bytes of a file that has promises; answers the pages that had to be installed. Inside the
/// gate.
pub(crate) fn store(
    cx: &Ctx<'_>,
    inode: &Inode,
    data: &Data,
    (off, src): (u64, &[u8]),
    g: &Guard,
) -> Attempt<u64> {
    let absent = |Absent(index)| load(inode, index);
    // Those that it writes in part must be here.
    data.absent_pages(off, src.len() as u64, g)
        .map_err(absent)?;
    let account = cx.sb.payer(inode)?.ok_or(Stop::Restart)?;
    // Held until the pages are there: of two who write the same page, the second needs nothing.
    let mut promised = cx.sb.quotas.reservations.of(inode.number());
    let holes = data.holes(off, src.len() as u64, g).map_err(absent)?;
    let (kept, new): (Vec<u64>, Vec<u64>) = holes.into_iter().partition(|&hole| promised.has(hole));
    let more = new.len() as u64;
    let mut room = cx
        .sb
        .quotas
        .ledger
        .charge(account, Resource::Blocks, more, g)?;
    let written = data.store(off, src, g).map_err(absent)?;
    promised.remove(&kept);
    // Others may have brought some of them meanwhile, and paid.
    let from_promises = written.added.min(kept.len() as u64);
    room.spend(written.added - from_promises);
    let unused = kept.len() as u64 - from_promises;
    cx.sb
        .quotas
        .ledger
        .free(account, Resource::Blocks, unused, g);
    inode.shares().add(COUNT, written.added as i64);
    Ok(written.installed)
}

/// These pages are gone, or others: what was promised of them comes back. The gate is closed.
pub(crate) fn cut(sb: &Superblock, inode: &Inode, pages: Range<u64>, g: &Guard) {
    if let Some(mut gone) = taken(sb, inode, pages) {
        gone.spend();
        let account = inode.meta.account();
        sb.quotas
            .ledger
            .free(account, Resource::Blocks, gone.count(), g);
    }
}

/// Promised pages that are about to be allocated, and the promises that wait for it.
pub(crate) struct Taken<'a> {
    promised: InodeReservations<'a>,
    pages: Vec<u64>,
}

/// What is promised of these pages; `None` for most files. The gate is closed.
pub(crate) fn taken<'a>(sb: &'a Superblock, inode: &Inode, pages: Range<u64>) -> Option<Taken<'a>> {
    inode.marks.has(Mark::Promised).then(|| {
        let promised = sb.quotas.reservations.of(inode.number());
        let pages = promised.within(pages);
        Taken { promised, pages }
    })
}

impl Taken<'_> {
    /// How many pages: so many blocks are charged.
    pub fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// They are allocated, and what was promised is their use.
    pub fn spend(&mut self) {
        self.promised.remove(&self.pages);
    }
}

/// Blocks that are promised to `inode`. The caller keeps others out of the gate, or bears with what
/// they do meanwhile.
pub(crate) fn count(sb: &Superblock, inode: &Inode) -> u64 {
    match inode.marks.has(Mark::Promised) {
        true => sb.quotas.reservations.of(inode.number()).count(),
        false => 0,
    }
}

fn load(inode: &Inode, index: u64) -> Stop {
    let ino = inode.number();
    Stop::Miss(Fetch::Page { ino, index })
}
