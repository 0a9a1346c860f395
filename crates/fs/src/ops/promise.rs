//! What a kernel in front may acknowledge by itself, charged before: see "Charged before it is
//! acknowledged" in `docs/design/quota.md`.

use crate::data::{Absent, Data};
use crate::errno::Errno;
use crate::inode::{COUNT, Mark, Node};
use crate::quota::{Promised, Resource};
use crate::volume::{Core, Ctx, Load, Step, Stop};
use hearth_sync::epoch::Guard;
use std::ops::Range;

/// A kernel in front has opened `node` for writing: if the volume charges first, or others are
/// charged already, the open file is a charged writer until [`close`].
pub(crate) fn add_writer(core: &Core, node: &Node) -> bool {
    if node.data().is_none() || !(has_writers(node) || core.ledger.charges_first()) {
        return false;
    }
    let mut promised = core.promises.of(node.number());
    promised.add_writer();
    // In the lock, as it is cleared.
    node.marks.set(Mark::Charged);
    true
}

/// Whether there are charged writers. A reader that comes beside the first has its pages dropped
/// when that one maps the file.
pub(crate) fn has_writers(node: &Node) -> bool {
    node.marks.has(Mark::Charged)
}

/// A charged writer of `node` is closed.
pub(crate) fn close(core: &Core, node: &Node, g: &Guard) {
    let _inside = node.gate.read(node.percpu());
    let mut promised = core.promises.of(node.number());
    let Some(left) = promised.remove_writer() else {
        return;
    };
    // In the lock, as they are set.
    node.marks.clear(Mark::Charged);
    node.marks.clear(Mark::Promised);
    core.ledger
        .free(node.meta.account(), Resource::Blocks, left, g);
}

/// The kernel is about to have these bytes in its cache, where a mapping may change them: what is a
/// hole of them has a block from now on, if `node` has a charged writer.
pub(crate) fn promise(cx: &Ctx<'_>, node: &Node, off: u64, len: usize, g: &Guard) -> Step<()> {
    let data = node.data().ok_or(Errno::EINVAL)?;
    let unpaid = || -> Step<_> {
        let absent = |Absent(index)| load(node, index);
        let mut holes = data.holes(off, len as u64, g).map_err(absent)?;
        if holes.is_empty() {
            return Ok(None);
        }
        let promised = cx.core.promises.of(node.number());
        holes.retain(|&hole| !promised.has(hole));
        let is_needed = promised.has_writers() && !holes.is_empty();
        Ok(is_needed.then_some((promised, holes)))
    };
    {
        let _inside = node.gate.read(node.percpu());
        if unpaid()?.is_none() {
            return Ok(());
        }
    }
    // A write inside may be about to fill a hole that nothing is promised to, and pay for it.
    let _closed = node.gate.write(node.percpu());
    let Some(account) = cx.core.payer(node)? else {
        return Ok(());
    };
    let Some((mut promised, new)) = unpaid()? else {
        return Ok(());
    };
    let more = new.len() as u64;
    let mut room = cx.core.ledger.charge(account, Resource::Blocks, more, g)?;
    room.spend(more);
    promised.add(new);
    // The write that needs it comes after the answer to this read.
    node.marks.set(Mark::Promised);
    Ok(())
}

/// Stores bytes of a file that has promises; answers the pages that had to be installed. Inside the
/// gate.
pub(crate) fn store(
    cx: &Ctx<'_>,
    node: &Node,
    data: &Data,
    (off, src): (u64, &[u8]),
    g: &Guard,
) -> Step<u64> {
    let absent = |Absent(index)| load(node, index);
    // Those that it writes in part must be here.
    data.absent_pages(off, src.len() as u64, g)
        .map_err(absent)?;
    let account = cx.core.payer(node)?.ok_or(Stop::Again)?;
    // Held until the pages are there: of two who write the same page, the second needs nothing.
    let mut promised = cx.core.promises.of(node.number());
    let holes = data.holes(off, src.len() as u64, g).map_err(absent)?;
    let (kept, new): (Vec<u64>, Vec<u64>) = holes.into_iter().partition(|&hole| promised.has(hole));
    let more = new.len() as u64;
    let mut room = cx.core.ledger.charge(account, Resource::Blocks, more, g)?;
    let written = data.store(off, src, g).map_err(absent)?;
    promised.remove(&kept);
    // Others may have brought some of them meanwhile, and paid.
    let from_promises = written.added.min(kept.len() as u64);
    room.spend(written.added - from_promises);
    let unused = kept.len() as u64 - from_promises;
    cx.core.ledger.free(account, Resource::Blocks, unused, g);
    node.percpu().add(COUNT, written.added as i64);
    Ok(written.installed)
}

/// These pages are gone, or others: what was promised of them comes back. The gate is closed.
pub(crate) fn cut(core: &Core, node: &Node, pages: Range<u64>, g: &Guard) {
    if let Some(mut gone) = taken(core, node, pages) {
        gone.spend();
        let account = node.meta.account();
        core.ledger.free(account, Resource::Blocks, gone.count(), g);
    }
}

/// Promised pages that are about to be allocated, and the promises that wait for it.
pub(crate) struct Taken<'a> {
    promised: Promised<'a>,
    pages: Vec<u64>,
}

/// What is promised of these pages; `None` for most files. The gate is closed.
pub(crate) fn taken<'a>(core: &'a Core, node: &Node, pages: Range<u64>) -> Option<Taken<'a>> {
    node.marks.has(Mark::Promised).then(|| {
        let promised = core.promises.of(node.number());
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

/// Blocks that are promised to `node`. The caller keeps others out of the gate, or bears with what
/// they do meanwhile.
pub(crate) fn count(core: &Core, node: &Node) -> u64 {
    match node.marks.has(Mark::Promised) {
        true => core.promises.of(node.number()).count(),
        false => 0,
    }
}

fn load(node: &Node, index: u64) -> Stop {
    let ino = node.number();
    Stop::Load(Load::Page { ino, index })
}
