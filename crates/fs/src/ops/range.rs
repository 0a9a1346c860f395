//! Operations on ranges of a file: fallocate, SEEK_DATA and SEEK_HOLE, copy_file_range.

use super::io::{self, Place, data_of, free_pages, page};
use super::privilege::{drop_capability_held, kills_suid_untold, strip_suidgid};
use super::promise;
use crate::data::{Absent, Data, PAGE};
use crate::errno::Errno;
use crate::flags;
use crate::home;
use crate::inode::{COUNT, Node, NodeExt};
use crate::quota::Resource;
use crate::volume::{Core, Ctx, MAX_SIZE, Step, Stop};
use hearth_sync::epoch::Guard;
use std::ops::Range;

const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE;
const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
const COLLAPSE: i32 = libc::FALLOC_FL_COLLAPSE_RANGE;
const UNSHARE: i32 = libc::FALLOC_FL_UNSHARE_RANGE;
const INSERT: i32 = libc::FALLOC_FL_INSERT_RANGE;

/// `fallocate(2)`.
pub(crate) fn fallocate(
    cx: &Ctx<'_>,
    node: &Node,
    mode: i32,
    off: u64,
    len: u64,
    g: &Guard,
) -> Step<()> {
    let (data, end) = permitted(cx, node, mode, off, len)?;
    let _kept = cx.keep(node, g)?;
    let change = node.meta.change.lock();
    let _growth = node.meta.growth.lock();
    let _closed = node.gate.write(node.percpu());
    if mode & (PUNCH | COLLAPSE | INSERT | ZERO) != 0 && cx.core.home.evictable() {
        rewrite(cx, node, data, g)?;
    }
    let size = node.meta.size();
    let new_size = io::edit(cx, data, g, || edit(cx, node, data, mode, off..end, g))?;
    if new_size > size {
        node.set_size(new_size);
    }
    if new_size < size {
        cx.core.heat.truncate(cx.core, node, new_size);
    }
    if kills_suid_untold(cx.caller) {
        strip_suidgid(cx.caller, node);
    }
    drop_capability_held(cx, node, &change, g);
    node.touch(cx.core.now());
    cx.node_changed(node, Some(off..u64::MAX));
    Ok(())
}

/// The contents of a file of which this range may be changed so, and the range's end.
fn permitted<'n>(
    cx: &Ctx<'_>,
    node: &'n Node,
    mode: i32,
    off: u64,
    len: u64,
) -> Result<(&'n Data, u64), Errno> {
    check_request(mode, off, len)?;
    cx.core.check_writable()?;
    let fixed = node.meta.flags();
    if fixed & flags::IMMUTABLE != 0 || (fixed & flags::APPEND != 0 && mode & !KEEP_SIZE != 0) {
        return Err(Errno::EPERM);
    }
    if node.is_dir() {
        return Err(Errno::EISDIR);
    }
    let data = node.data().ok_or(Errno::ENODEV)?;
    let end = off
        .checked_add(len)
        .filter(|&end| end <= MAX_SIZE)
        .ok_or(Errno::EFBIG)?;
    if mode & UNSHARE != 0 {
        // Linux knows it; here no two files share a page.
        return Err(Errno::EOPNOTSUPP);
    }
    Ok((data, end))
}

/// Changes the pages and answers the new size, which is published only if it is smaller. The gate
/// is closed.
fn edit(
    cx: &Ctx<'_>,
    node: &Node,
    data: &Data,
    mode: i32,
    range: Range<u64>,
    g: &Guard,
) -> Step<u64> {
    let (off, end, len) = (range.start, range.end, range.end - range.start);
    let size = node.meta.size();
    let absent = |absent| page(node, absent);
    match mode & !KEEP_SIZE {
        PUNCH => {
            let removed = data.punch(off, len, g).map_err(absent)?;
            free_pages(cx, node, removed, g);
            // Of a page that is punched in part the kernel keeps the rest; a hole may be in one.
            let first = off.div_ceil(PAGE);
            promise::cut(cx.core, node, first..first.max(end / PAGE), g);
            Ok(size)
        }
        COLLAPSE => {
            check_shift(off, len)?;
            if end >= size {
                return Err(Errno::EINVAL.into());
            }
            data.check_collapse(off, len, g).map_err(absent)?;
            // Before any page moves: who finds none where the end was sees that the end is nearer.
            node.set_size(size - len);
            let removed = data.collapse(off, len, g).map_err(absent)?;
            free_pages(cx, node, removed, g);
            promise::cut(cx.core, node, off / PAGE..u64::MAX, g);
            Ok(size - len)
        }
        INSERT => {
            check_shift(off, len)?;
            if off >= size {
                return Err(Errno::EINVAL.into());
            }
            if len > MAX_SIZE - size {
                return Err(Errno::EFBIG.into());
            }
            // What was preallocated behind the end moves along; ext4 and XFS say so too.
            if data.insert_overflows(off, len, g).map_err(absent)? {
                return Err(Errno::EINVAL.into());
            }
            data.insert(off, len, g).map_err(absent)?;
            promise::cut(cx.core, node, off / PAGE..u64::MAX, g);
            Ok(size + len)
        }
        zero => {
            allocate(cx, node, zero == ZERO, off, len, g)?;
            Ok(if mode & KEEP_SIZE != 0 {
                size
            } else {
                size.max(end)
            })
        }
    }
}

/// Whether an allocation of a range is the same as of its parts, one after the other.
pub(crate) fn is_parted(core: &Core, mode: i32) -> bool {
    match mode & !KEEP_SIZE {
        0 => true,
        ZERO => !core.home.evictable(),
        _ => false,
    }
}

/// Whether an allocation of a long range may begin: what may not be, and what cannot fit, is
/// refused before a part of it is done. Looks at pages that there are, however long the range is.
pub(crate) fn check_allocate(
    cx: &Ctx<'_>,
    node: &Node,
    mode: i32,
    off: u64,
    len: u64,
    g: &Guard,
) -> Step<()> {
    let (data, end) = permitted(cx, node, mode, off, len)?;
    let pages = off / PAGE..end.div_ceil(PAGE);
    let need = {
        let _inside = node.gate.read(node.percpu());
        data.absent_pages(pages.start * PAGE, (pages.end - pages.start) * PAGE, g)
            .map_err(|absent| page(node, absent))?
    };
    // Others may change both meanwhile.
    let paid = promise::taken(cx.core, node, pages).map_or(0, |taken| taken.count());
    // The account stays for as long as it is held.
    let _change = node.meta.change.lock();
    if let Some(account) = cx.core.payer(node)? {
        let blocks = need.saturating_sub(paid);
        drop(
            cx.core
                .ledger
                .charge(account, Resource::Blocks, blocks, g)?,
        );
    }
    Ok(())
}

/// Pages are about to move or go: everything comes to memory, and the home is told to forget it and
/// get it again.
fn rewrite(cx: &Ctx<'_>, node: &Node, data: &Data, g: &Guard) -> Step<()> {
    if let Some(index) = data.first_held(g) {
        return Err(page(node, Absent(index)));
    }
    cx.core
        .home
        .commit(&[home::Change::Rewrite(node.number())])?;
    data.mark_all_dirty(g);
    Ok(())
}

/// Takes room for every page of the range first, so that a write into it cannot fail for room.
fn allocate(cx: &Ctx<'_>, node: &Node, zero: bool, off: u64, len: u64, g: &Guard) -> Step<()> {
    let data = data_of(node)?;
    let absent = |absent| page(node, absent);
    let pages = off / PAGE..(off + len).div_ceil(PAGE);
    let need = data
        .absent_pages(pages.start * PAGE, (pages.end - pages.start) * PAGE, g)
        .map_err(absent)?;
    // What is promised of them is holes that are paid.
    let mut promised = promise::taken(cx.core, node, pages);
    let paid = promised.as_ref().map_or(0, |taken| taken.count());
    debug_assert!(paid <= need, "{paid} promised of {need} holes");
    // Preallocated pages are memory: a range that cannot fit is refused before it is tried.
    let account = node.meta.account();
    let mut room = cx
        .core
        .ledger
        .charge(account, Resource::Blocks, need - paid, g)?;
    let added = match zero {
        true => data.zero_range(off, len, g),
        false => data.allocate(off, len, g),
    };
    let added = added.map_err(absent)?;
    if let Some(promised) = &mut promised {
        promised.spend();
    }
    room.spend(added - paid);
    node.percpu().add(COUNT, added as i64);
    Ok(())
}

/// What is wrong with a request whatever the file: first the range, then the mode.
pub(crate) fn check_request(mode: i32, off: u64, len: u64) -> Result<(), Errno> {
    if len == 0 || len > MAX_SIZE || off > MAX_SIZE {
        return Err(Errno::EINVAL);
    }
    match (mode & !KEEP_SIZE, mode & KEEP_SIZE != 0) {
        (0 | ZERO | UNSHARE, _) | (PUNCH, true) | (COLLAPSE | INSERT, false) => Ok(()),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

fn check_shift(off: u64, len: u64) -> Result<(), Errno> {
    if off.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// `lseek(2)` with `SEEK_DATA` or `SEEK_HOLE`.
pub(crate) fn seek(node: &Node, off: u64, hole: bool, g: &Guard) -> Step<u64> {
    let data = data_of(node)?;
    let size = node.meta.size();
    if off >= size {
        return Err(Errno::ENXIO.into());
    }
    let absent = |absent| page(node, absent);
    if hole {
        return data.seek_hole(off, size, g).map_err(absent);
    }
    data.seek_data(off, size, g)
        .map_err(absent)?
        .ok_or(Errno::ENXIO.into())
}

/// Bytes that a copy moves at a time.
const CHUNK: usize = 128 << 10;

/// Bytes that are copied under one guard of the epoch.
const PIECE: u64 = 1 << 20;

/// A copy on its way.
pub(crate) struct Copying {
    /// Where it begins in the source, and in the target.
    offs: (u64, u64),
    /// Bytes to copy; what there is from the first attempt on.
    len: u64,
    done: u64,
    /// Reading leaves the access time alone.
    noatime: bool,
}

impl Copying {
    pub fn new(offs: (u64, u64), len: u64, noatime: bool) -> Copying {
        Copying {
            offs,
            len,
            done: 0,
            noatime,
        }
    }

    /// Has `piece` call [`copy`] until that answers false. Answers how many bytes were copied, and
    /// an error only if there were none.
    pub fn in_pieces(
        mut self,
        mut piece: impl FnMut(&mut Copying) -> Result<bool, Errno>,
    ) -> Result<u64, Errno> {
        loop {
            match piece(&mut self) {
                Ok(true) => {}
                Err(errno) if self.done == 0 => return Err(errno),
                _ => return Ok(self.done),
            }
        }
    }
}

/// Copies a piece from `from` to `to`; answers whether there may be more. Stops early at the end of
/// `from`, and on an error after the first chunk.
pub(crate) fn copy(
    cx: &Ctx<'_>,
    from: &Node,
    to: &Node,
    copying: &mut Copying,
    g: &Guard,
) -> Step<bool> {
    let (from_off, to_off) = copying.offs;
    if copying.done == 0 {
        copying.len = check_copy((from, from_off), (to, to_off), copying.len)?;
    }
    let len = copying.len;
    let end = len.min(copying.done + PIECE);
    let mut chunk = vec![0; CHUNK.min(len.min(usize::MAX as u64) as usize)];
    while copying.done < end {
        let want = (end - copying.done).min(chunk.len() as u64) as usize;
        match copy_chunk(cx, from, to, copying, &mut chunk[..want], g) {
            Ok(0) => return Ok(false),
            Ok(n) => copying.done += n as u64,
            Err(Stop::Errno(_)) if copying.done > 0 => return Ok(false),
            Err(stop) => return Err(stop),
        }
    }
    Ok(copying.done < len)
}

fn copy_chunk(
    cx: &Ctx<'_>,
    from: &Node,
    to: &Node,
    copying: &Copying,
    chunk: &mut [u8],
    g: &Guard,
) -> Step<usize> {
    let (from_off, to_off) = copying.offs;
    let at = from_off + copying.done;
    let got = io::read(cx, from, at, chunk, copying.noatime, g)?;
    if got == 0 {
        return Ok(0);
    }
    let place = Place::At(to_off + copying.done);
    let kill = kills_suid_untold(cx.caller);
    io::write(cx, to, place, &chunk[..got], kill, g).map(|(_, n)| n)
}

/// The length that can be copied: a file that is copied into itself does not grow under the copy.
pub(crate) fn check_copy(
    (from, from_off): (&Node, u64),
    (to, to_off): (&Node, u64),
    len: u64,
) -> Result<u64, Errno> {
    if to.meta.flags() & flags::IMMUTABLE != 0 {
        return Err(Errno::EPERM);
    }
    if from_off.checked_add(len).is_none() || to_off.checked_add(len).is_none() {
        return Err(Errno::EOVERFLOW);
    }
    if to_off == MAX_SIZE {
        return Err(Errno::EFBIG);
    }
    if from_off > MAX_SIZE || to_off > MAX_SIZE {
        return Err(Errno::EINVAL);
    }
    let len = len
        .min(from.meta.size().saturating_sub(from_off))
        .min(MAX_SIZE - to_off);
    let same = from.number() == to.number();
    if same && from_off < to_off.saturating_add(len) && to_off < from_off.saturating_add(len) {
        return Err(Errno::EINVAL);
    }
    Ok(len)
}
