//! Operations on ranges of a file: fallocate, SEEK_DATA and SEEK_HOLE, copy_file_range.

use super::io::{self, WriteAt, data_of, free_pages, miss_page};
use super::privilege::{drop_capability_held, kills_suid_untold, strip_suidgid};
use super::reserve;
use crate::data::{Data, MAX_SIZE, PAGE, PAGES, PageMiss};
use crate::errno::Errno;
use crate::flags;
use crate::inode::{COUNT, Inode, StateBit};
use crate::ops::ctx::Ctx;
use crate::quota::Resource;
use crate::superblock::{Attempt, Stop};
use hearth_backend::Edit;
use hearth_sync::epoch::Guard;
use std::ops::Range;

const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE;
const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
const COLLAPSE: i32 = libc::FALLOC_FL_COLLAPSE_RANGE;
const UNSHARE: i32 = libc::FALLOC_FL_UNSHARE_RANGE;
const INSERT: i32 = libc::FALLOC_FL_INSERT_RANGE;

/// Bytes that are allocated in one step: all that is to be known of them takes some 150 KiB.
const STEP: u64 = 64 << 20;

/// One step of `fallocate(2)`.
fn fallocate(cx: &Ctx<'_>, inode: &Inode, mode: i32, off: u64, len: u64, g: &Guard) -> Attempt<()> {
    cx.begin_acknowledged(inode)?;
    let (data, end) = permitted(cx, inode, mode, off, len)?;
    let _kept = cx.pin_inode(inode, g)?;
    let change = inode.meta.change.lock();
    let _growth = inode.meta.growth.lock();
    let _closed = inode.gate.write(inode.percpu());
    if mode & (COLLAPSE | INSERT) != 0 && inode.state.has(StateBit::Flushing) {
        // Pages keep their places until the write-back that is under way has ended.
        return Err(Stop::Restart);
    }
    let size = inode.meta.size();
    let moved = mode & (COLLAPSE | INSERT) != 0;
    let pages = off / PAGE..if moved { PAGES } else { end.div_ceil(PAGE) };
    let new_size = io::edit(cx, data, pages, g, || {
        edit(cx, inode, data, mode, off..end, g)
    })?;
    if new_size > size {
        inode.set_size(new_size);
    }
    if new_size < size {
        cx.sb.heat.truncate(&cx.sb.objects, inode, new_size);
    }
    if kills_suid_untold(cx.caller) {
        strip_suidgid(cx, inode);
    }
    drop_capability_held(cx, inode, &change, g);
    cx.sb.touch(inode, cx.sb.now());
    // What is left of it, such as pages that are allocated and not written, is written back.
    cx.sb.note_dirty(inode);
    cx.inode_changed(inode, Some(off..u64::MAX));
    Ok(())
}

/// The contents of a file whose range may be changed in this mode, and the range's end.
fn permitted<'n>(
    cx: &Ctx<'_>,
    inode: &'n Inode,
    mode: i32,
    off: u64,
    len: u64,
) -> Result<(&'n Data, u64), Errno> {
    check_request(mode, off, len)?;
    cx.sb.check_writable()?;
    let fixed = inode.meta.flags();
    if fixed & flags::IMMUTABLE != 0 || (fixed & flags::APPEND != 0 && mode & !KEEP_SIZE != 0) {
        return Err(Errno::EPERM);
    }
    if inode.is_dir() {
        return Err(Errno::EISDIR);
    }
    let data = inode.data().ok_or(Errno::ENODEV)?;
    let end = off
        .checked_add(len)
        .filter(|&end| end <= MAX_SIZE)
        .ok_or(Errno::EFBIG)?;
    if mode & UNSHARE != 0 {
        // Linux knows this mode; here no two files share a page.
        return Err(Errno::EOPNOTSUPP);
    }
    Ok((data, end))
}

/// Changes the pages and returns the new size, which is published here only if it is smaller. The
/// gate is closed.
fn edit(
    cx: &Ctx<'_>,
    inode: &Inode,
    data: &Data,
    mode: i32,
    range: Range<u64>,
    g: &Guard,
) -> Attempt<u64> {
    let (off, end, len) = (range.start, range.end, range.end - range.start);
    let size = inode.meta.size();
    let absent = |absent| miss_page(inode, absent);
    let unmoved = |absent| miss_moved(cx, inode, data.allocated_in(off / PAGE..PAGES, g), absent);
    match mode & !KEEP_SIZE {
        PUNCH => {
            let removed = data.punch(off, len, g).map_err(absent)?;
            record_zeroed(cx, inode, data, off..end, g);
            free_pages(cx, inode, removed, g);
            // The kernel keeps the rest of a page that is punched in part; a hole may be in one.
            let first = off.div_ceil(PAGE);
            reserve::cut(cx.sb, inode, first..first.max(end / PAGE), g);
            Ok(size)
        }
        COLLAPSE => {
            check_shift(off, len)?;
            if end >= size {
                return Err(Errno::EINVAL.into());
            }
            data.check_collapse(off, len, g).map_err(unmoved)?;
            // Before any page moves: a reader that finds no page near the old end also sees the
            // smaller size.
            inode.set_size(size - len);
            let removed = data.collapse(off, len, g).map_err(absent)?;
            let by = -((len / PAGE) as i64);
            let from = end / PAGE;
            cx.sb.record_edit(inode, Some(Edit::Shift { from, by }));
            free_pages(cx, inode, removed, g);
            reserve::cut(cx.sb, inode, off / PAGE..u64::MAX, g);
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
            // Pages that were preallocated behind the end move along; ext4 and XFS refuse this too.
            if data.insert_overflows(off, len, g).map_err(absent)? {
                return Err(Errno::EINVAL.into());
            }
            data.insert(off, len, g).map_err(unmoved)?;
            let (from, by) = (off / PAGE, (len / PAGE) as i64);
            cx.sb.record_edit(inode, Some(Edit::Shift { from, by }));
            reserve::cut(cx.sb, inode, off / PAGE..u64::MAX, g);
            Ok(size + len)
        }
        zero => {
            allocate(cx, inode, zero == ZERO, off, len, g)?;
            if zero == ZERO {
                record_zeroed(cx, inode, data, off..end, g);
            }
            Ok(if mode & KEEP_SIZE != 0 {
                size
            } else {
                size.max(end)
            })
        }
    }
}

/// Records that a range is zeros from now on: all of it or nothing survives a crash. In a single
/// page it does so anyway, with the next write-back.
fn record_zeroed(cx: &Ctx<'_>, inode: &Inode, data: &Data, range: Range<u64>, g: &Guard) {
    let Range { start, end } = range;
    let is_single = start / PAGE == (end - 1) / PAGE;
    let whole = whole_pages(start, end);
    if cx.sb.is_durable() && (whole.is_some() || !is_single) {
        let edges = data.edge_pages(start, end - start, g);
        cx.sb.record_zeroed(inode, whole, edges);
    }
}

/// A page that is to move and is not in memory. All of them are needed at once, `pages` from the
/// first on: where they may not fit they would never be.
///
/// # Errors
/// `ENOMEM`: they take more than half of the memory that the volume may have.
fn miss_moved(cx: &Ctx<'_>, inode: &Inode, pages: u64, absent: PageMiss) -> Stop {
    let budget = cx.sb.cache.mem_usage.budget();
    match budget > 0 && pages.saturating_mul(PAGE) > budget / 2 {
        true => Errno::ENOMEM.into(),
        false => miss_page(inode, absent),
    }
}

/// A step of a call of fallocate. What only the backend knows of the pages of one step has to be in
/// memory at once.
pub(crate) struct Step {
    is_check: bool,
    mode: i32,
    off: u64,
    len: u64,
}

/// The steps of `fallocate(2)`: a long allocation is looked at first, and the last one of its parts
/// moves the end of the file.
pub(crate) fn steps(mode: i32, off: u64, len: u64) -> impl Iterator<Item = Step> {
    let end = off.saturating_add(len);
    let is_long = is_parted(mode) && len > STEP;
    let step = |is_check, mode, from: u64, to: u64| Step {
        is_check,
        mode,
        off: from,
        len: to - from,
    };
    let check = is_long.then(|| step(true, mode, off, end));
    let mut at = Some(off);
    let parts = std::iter::from_fn(move || {
        let from = at?;
        let to = if is_long {
            from + STEP.min(end - from)
        } else {
            end
        };
        at = (to < end).then_some(to);
        let keeps = if to < end { KEEP_SIZE } else { 0 };
        Some(step(false, mode | keeps, from, to))
    });
    check.into_iter().chain(parts)
}

/// Makes one step.
pub(crate) fn make_step(cx: &Ctx<'_>, inode: &Inode, step: &Step, g: &Guard) -> Attempt<()> {
    let Step {
        is_check,
        mode,
        off,
        len,
    } = *step;
    match is_check {
        true => check_allocate(cx, inode, mode, off, len, g),
        false => fallocate(cx, inode, mode, off, len, g),
    }
}

/// Whether allocating a range in parts, one after the other, has the result of allocating it at
/// once.
pub(crate) fn is_parted(mode: i32) -> bool {
    matches!(mode & !KEEP_SIZE, 0 | ZERO)
}

/// Whether an allocation of a long range may begin: what is not allowed, and what cannot fit, is
/// refused before a part of it is done. Reads the pages that exist, however long the range is.
pub(crate) fn check_allocate(
    cx: &Ctx<'_>,
    inode: &Inode,
    mode: i32,
    off: u64,
    len: u64,
    g: &Guard,
) -> Attempt<()> {
    let (data, end) = permitted(cx, inode, mode, off, len)?;
    let pages = off / PAGE..end.div_ceil(PAGE);
    let need = {
        let _inside = inode.gate.read(inode.percpu());
        data.absent_pages(pages.start * PAGE, (pages.end - pages.start) * PAGE, g)
            .map_err(|absent| miss_page(inode, absent))?
    };
    // Other threads may change both meanwhile.
    let paid = reserve::taken(cx.sb, inode, pages).map_or(0, |taken| taken.count());
    // The account stays for as long as `change` is held.
    let _change = inode.meta.change.lock();
    if let Some(account) = cx.sb.payer(inode)? {
        let blocks = need.saturating_sub(paid);
        drop(cx.sb.promise_room(blocks * PAGE)?);
        drop(
            cx.sb
                .quotas
                .ledger
                .charge(account, Resource::Blocks, blocks, g)?,
        );
    }
    Ok(())
}

/// Charges every page of the range first, so that a later write into it cannot fail for lack of
/// space.
fn allocate(cx: &Ctx<'_>, inode: &Inode, zero: bool, off: u64, len: u64, g: &Guard) -> Attempt<()> {
    let data = data_of(inode)?;
    let absent = |absent| miss_page(inode, absent);
    let pages = off / PAGE..(off + len).div_ceil(PAGE);
    let need = data
        .absent_pages(pages.start * PAGE, (pages.end - pages.start) * PAGE, g)
        .map_err(absent)?;
    // Their reservations are holes that are paid for.
    let mut reserved = reserve::taken(cx.sb, inode, pages);
    let paid = reserved.as_ref().map_or(0, |taken| taken.count());
    debug_assert!(paid <= need, "{paid} reserved of {need} holes");
    if need > paid {
        cx.sb.check_room()?;
    }
    let promise = cx.sb.promise_room((need - paid) * PAGE)?;
    // Preallocated pages take memory: a range that cannot fit is refused before it is tried.
    let account = inode.meta.account();
    let mut charge = cx
        .sb
        .quotas
        .ledger
        .charge(account, Resource::Blocks, need - paid, g)?;
    let added = match zero {
        true => data.zero_range(off, len, g),
        false => data.allocate(off, len, g),
    };
    let added = added.map_err(absent)?;
    if let Some(reserved) = &mut reserved {
        reserved.spend();
    }
    charge.spend(added - paid);
    promise.keep(|| {
        if let Some(log) = cx.sb.log() {
            log.count_allocated((added - paid) * PAGE, inode.tenant());
        }
    });
    inode.percpu().add(COUNT, added as i64);
    Ok(())
}

/// The pages that lie wholly in a range of bytes.
fn whole_pages(off: u64, end: u64) -> Option<Range<u64>> {
    let pages = off.div_ceil(PAGE)..end / PAGE;
    (!pages.is_empty()).then_some(pages)
}

/// Errors of a request that do not depend on the file: first the range, then the mode.
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
pub(crate) fn seek(inode: &Inode, off: u64, hole: bool, g: &Guard) -> Attempt<u64> {
    let data = data_of(inode)?;
    // No page moves meanwhile: one that a collapse moves to where the search has been would not be
    // found at all.
    let _inside = inode.gate.read(inode.percpu());
    let size = inode.meta.size();
    if off >= size {
        return Err(Errno::ENXIO.into());
    }
    let absent = |absent| miss_page(inode, absent);
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

/// A copy in progress.
pub(crate) struct Copying {
    /// Start offsets in the source and in the target.
    offs: (u64, u64),
    /// Bytes to copy; from the first attempt on, limited to what the source has.
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

    /// Lets `piece` call [`copy`] until that returns false. Returns how many bytes were copied, or
    /// an error if none were.
    pub fn in_pieces<E>(
        mut self,
        mut piece: impl FnMut(&mut Copying) -> Result<bool, E>,
    ) -> Result<u64, E> {
        loop {
            match piece(&mut self) {
                Ok(true) => {}
                Err(errno) if self.done == 0 => return Err(errno),
                _ => return Ok(self.done),
            }
        }
    }
}

/// Copies a piece from `from` to `to`; returns whether there may be more. Stops early at the end of
/// `from`, and on an error after the first chunk.
pub(crate) fn copy(
    cx: &Ctx<'_>,
    from: &Inode,
    to: &Inode,
    copying: &mut Copying,
    g: &Guard,
) -> Attempt<bool> {
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
    from: &Inode,
    to: &Inode,
    copying: &Copying,
    chunk: &mut [u8],
    g: &Guard,
) -> Attempt<usize> {
    let (from_off, to_off) = copying.offs;
    let at = from_off + copying.done;
    let got = io::read(cx, from, at, chunk, copying.noatime, g)?;
    if got == 0 {
        return Ok(0);
    }
    let place = WriteAt::At(to_off + copying.done);
    let kill = kills_suid_untold(cx.caller);
    io::write(cx, to, place, &chunk[..got], kill, g).map(|(_, n)| n)
}

/// The length that can be copied: a file that is copied into itself does not grow under the copy.
pub(crate) fn check_copy(
    (from, from_off): (&Inode, u64),
    (to, to_off): (&Inode, u64),
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
