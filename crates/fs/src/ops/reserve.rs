//! Reservations: blocks for writes that a kernel in front may acknowledge by itself. See "Charged
//! before it is acknowledged" in `docs/design/quota.md`.

use crate::data::{Data, PageMiss, Written};
use crate::errno::Errno;
use crate::inode::{COUNT, Inode, StateBit};
use crate::ops::ctx::Ctx;
use crate::quota::{InodeReservations, Resource};
use crate::superblock::{Attempt, Fetch, Stop, Superblock};
use hearth_sync::epoch::Guard;
use std::ops::Range;

/// A kernel in front has opened `inode` for writing: if the volume charges first, or other writers
/// are charged first already, so is this open file until [`close`].
pub(crate) fn add_writer(sb: &Superblock, inode: &Inode) -> bool {
    if inode.data().is_none() || !(has_writers(inode) || sb.quotas.ledger.charges_first()) {
        return false;
    }
    let mut reserved = sb.quotas.reservations.of(inode.number());
    reserved.add_writer();
    // Under the lock, like the clearing of the bit.
    inode.state.set(StateBit::Charged);
    true
}

/// Whether there are writers that are charged first. A reader that opens at the same time as the
/// first one has its pages dropped when that one maps the file.
pub(crate) fn has_writers(inode: &Inode) -> bool {
    inode.state.has(StateBit::Charged)
}

/// A writer of `inode` that was charged first is closed.
pub(crate) fn close(sb: &Superblock, inode: &Inode, g: &Guard) {
    let _inside = inode.gate.read(inode.percpu());
    let mut reserved = sb.quotas.reservations.of(inode.number());
    let Some(left) = reserved.remove_writer() else {
        return;
    };
    // Under the lock, like the setting of the bits.
    inode.state.clear(StateBit::Charged);
    inode.state.clear(StateBit::Reserved);
    sb.quotas
        .ledger
        .free(inode.meta.account(), Resource::Blocks, left, g);
}

/// The kernel is about to have these bytes in its cache, where a mapping may change them: blocks
/// are reserved for the holes among them, if `inode` has a writer that is charged first.
pub(crate) fn reserve(cx: &Ctx<'_>, inode: &Inode, off: u64, len: usize, g: &Guard) -> Attempt<()> {
    let data = inode.data().ok_or(Errno::EINVAL)?;
    let unpaid = || -> Attempt<_> {
        let absent = |PageMiss(index)| miss_page(inode, index);
        let mut holes = data.holes(off, len as u64, g).map_err(absent)?;
        if holes.is_empty() {
            return Ok(None);
        }
        let reserved = cx.sb.quotas.reservations.of(inode.number());
        holes.retain(|&hole| !reserved.has(hole));
        let is_needed = reserved.has_writers() && !holes.is_empty();
        Ok(is_needed.then_some((reserved, holes)))
    };
    {
        let _inside = inode.gate.read(inode.percpu());
        if unpaid()?.is_none() {
            return Ok(());
        }
    }
    // A write inside the gate may be about to fill a hole without a reservation, and to pay for it.
    let _closed = inode.gate.write(inode.percpu());
    let Some(account) = cx.sb.payer(inode)? else {
        return Ok(());
    };
    let Some((mut reserved, new)) = unpaid()? else {
        return Ok(());
    };
    let more = new.len() as u64;
    let mut charge = cx
        .sb
        .quotas
        .ledger
        .charge(account, Resource::Blocks, more, g)?;
    charge.spend(more);
    reserved.add(new);
    // The write that needs the reservation comes after the result of this read.
    inode.state.set(StateBit::Reserved);
    Ok(())
}

/// Stores bytes of a file that has reservations; returns what that added. Inside the gate.
pub(crate) fn store(
    cx: &Ctx<'_>,
    inode: &Inode,
    data: &Data,
    (off, src): (u64, &[u8]),
    g: &Guard,
) -> Attempt<Written> {
    let absent = |PageMiss(index)| miss_page(inode, index);
    // The pages that it writes in part must be in memory.
    data.absent_pages(off, src.len() as u64, g)
        .map_err(absent)?;
    let account = cx.sb.payer(inode)?.ok_or(Stop::Restart)?;
    // Held until the pages are in memory: of two writers of one page, the second needs nothing.
    let mut reserved = cx.sb.quotas.reservations.of(inode.number());
    let holes = data.holes(off, src.len() as u64, g).map_err(absent)?;
    let (held, new): (Vec<u64>, Vec<u64>) = holes.into_iter().partition(|&hole| reserved.has(hole));
    let more = new.len() as u64;
    let mut charge = cx
        .sb
        .quotas
        .ledger
        .charge(account, Resource::Blocks, more, g)?;
    let written = data.store(off, src, g).map_err(absent)?;
    reserved.remove(&held);
    // Other writers may have added and paid for some of them meanwhile.
    let from_reserved = written.added.min(held.len() as u64);
    charge.spend(written.added - from_reserved);
    let unused = held.len() as u64 - from_reserved;
    cx.sb
        .quotas
        .ledger
        .free(account, Resource::Blocks, unused, g);
    inode.percpu().add(COUNT, written.added as i64);
    Ok(written)
}

/// These pages are dropped or replaced: their reservations are given back. The gate is closed.
pub(crate) fn cut(sb: &Superblock, inode: &Inode, pages: Range<u64>, g: &Guard) {
    if let Some(mut gone) = taken(sb, inode, pages) {
        gone.spend();
        let account = inode.meta.account();
        sb.quotas
            .ledger
            .free(account, Resource::Blocks, gone.count(), g);
    }
}

/// Reserved pages that are about to be allocated, and the locked reservations of the file.
pub(crate) struct HeldReservation<'a> {
    reserved: InodeReservations<'a>,
    pages: Vec<u64>,
}

/// The reservations of these pages; `None` for most files. The gate is closed.
pub(crate) fn taken<'a>(
    sb: &'a Superblock,
    inode: &Inode,
    pages: Range<u64>,
) -> Option<HeldReservation<'a>> {
    inode.state.has(StateBit::Reserved).then(|| {
        let reserved = sb.quotas.reservations.of(inode.number());
        let pages = reserved.within(pages);
        HeldReservation { reserved, pages }
    })
}

impl HeldReservation<'_> {
    /// The number of pages, and so of charged blocks.
    pub fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The pages are allocated: the reservations become use.
    pub fn spend(&mut self) {
        self.reserved.remove(&self.pages);
    }
}

/// Blocks that are reserved for `inode`. The caller keeps others out of the gate, or accepts what
/// they change meanwhile.
pub(crate) fn count(sb: &Superblock, inode: &Inode) -> u64 {
    match inode.state.has(StateBit::Reserved) {
        true => sb.quotas.reservations.of(inode.number()).count(),
        false => 0,
    }
}

fn miss_page(inode: &Inode, index: u64) -> Stop {
    let ino = inode.number();
    Stop::miss(Fetch::Page {
        ino,
        index,
        pages: 1,
    })
}
