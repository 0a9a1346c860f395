//! Reading and writing file contents, and the size of a file.
//!
//! Writers of bytes below the size run side by side inside the gate. Operations that change the
//! size (append, extension, truncate) hold `growth`. Those that take pages away also close the
//! gate. Reads take no lock.

use super::privilege::{drop_capability, kills_suid, strip_suidgid};
use super::reserve;
use crate::attr::Time;
use crate::data::MAX_SIZE;
use crate::data::{Data, PAGE, PAGES, PageMiss};
use crate::errno::Errno;
use crate::flags;
use crate::heat::Access;
use crate::inode::{COUNT, GrowthLock, Inode, InodeExt, StateBit};
use crate::log::ChangeLog;
use crate::ops::ctx::Ctx;
use crate::quota::Resource;
use crate::superblock::{AtimeMode, Attempt, Fetch, Stop, resident_bytes};
use crate::write_streams::WrittenRange;
use hearth_sync::epoch::{Guard, pin};
use hearth_sync::lock;
use hearth_sync::object::WriteGuard;
use std::io::IoSliceMut;
use std::ops::Range;

/// Reads at `off`; returns the bytes read, 0 at the end of the file. If the backend fails to give a
/// page, the read ends before that page, as in Linux, and the next call returns the error.
pub(crate) fn read(
    cx: &Ctx<'_>,
    inode: &Inode,
    off: u64,
    out: &mut [u8],
    noatime: bool,
    g: &Guard,
) -> Attempt<usize> {
    let len = fill(cx, inode, off, out, g)?;
    if !out.is_empty() {
        touch_atime(cx, inode, noatime)?;
    }
    cx.sb
        .heat
        .note(cx.caller.origin, inode, Access::Read, off, len);
    Ok(len)
}

/// [`read`] into several buffers: one access, which leaves no trace unless it succeeds.
pub(crate) fn read_vector(
    cx: &Ctx<'_>,
    inode: &Inode,
    off: u64,
    outs: &mut [IoSliceMut<'_>],
    noatime: bool,
    g: &Guard,
) -> Attempt<usize> {
    let mut total = 0;
    for out in outs.iter_mut().filter(|out| !out.is_empty()) {
        let got = match fill(cx, inode, off + total as u64, out, g) {
            Ok(got) => got,
            Err(Stop::Miss(_)) if total > 0 && cx.allow_partial => break,
            Err(stop) => return Err(stop),
        };
        total += got;
        if got < out.len() {
            break;
        }
    }
    if outs.iter().any(|out| !out.is_empty()) {
        touch_atime(cx, inode, noatime)?;
    }
    cx.sb
        .heat
        .note(cx.caller.origin, inode, Access::Read, off, total);
    Ok(total)
}

fn fill(cx: &Ctx<'_>, inode: &Inode, off: u64, out: &mut [u8], g: &Guard) -> Attempt<usize> {
    let data = data_of(inode)?;
    let mut len = below_size(inode, off, out.len());
    if len > 0
        && let Err(absent) = data.read(off, &mut out[..len], g)
    {
        let before = (absent.0 * PAGE).saturating_sub(off) as usize;
        if before == 0 || !cx.allow_partial {
            let pages = (off + len as u64).div_ceil(PAGE) - absent.0;
            return Err(Stop::miss(Fetch::Page {
                ino: inode.number(),
                index: absent.0,
                pages,
            }));
        }
        len = before;
    }
    // A concurrent truncate may have shown zeros that were never in the file.
    Ok(below_size(inode, off, len))
}

/// How many of `len` bytes at `off` lie in the file.
fn below_size(inode: &Inode, off: u64, len: usize) -> usize {
    if inode.reaches(off.saturating_add(len as u64)) {
        return len;
    }
    inode.meta.size().saturating_sub(off).min(len as u64) as usize
}

/// The target offset of a write.
#[derive(Clone, Copy, Debug)]
pub enum WriteAt {
    /// At this offset.
    At(u64),
    /// At the end of the file (`O_APPEND`).
    End,
    /// At this offset, which the writer believes to be the end, or at the end of the file if that
    /// is behind it.
    EndFrom(u64),
}

impl WriteAt {
    /// The target of the rest of a write after `done` bytes are written.
    pub fn after(self, done: usize) -> WriteAt {
        match self {
            WriteAt::At(off) => WriteAt::At(off + done as u64),
            WriteAt::End => WriteAt::End,
            WriteAt::EndFrom(off) => WriteAt::EndFrom(off + done as u64),
        }
    }

    /// The offset in a file of `size` bytes.
    pub(crate) fn offset(self, size: u64) -> u64 {
        match self {
            WriteAt::At(off) => off,
            WriteAt::End => size,
            WriteAt::EndFrom(off) => off.max(size),
        }
    }
}

/// The writer of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A caller, who waits for it.
    Caller,
    /// A kernel, out of its page cache and in an order of its own. Without `touches` it keeps the
    /// times as well.
    PageCache { touches: bool },
}

fn is_immutable(inode: &Inode) -> bool {
    inode.meta.flags() & flags::IMMUTABLE != 0
}

/// Whether a writer of `inode` can change its contents.
pub(crate) fn is_changeable(cx: &Ctx<'_>, inode: &Inode) -> bool {
    inode.data().is_some() && cx.sb.check_writable().is_ok() && !is_immutable(inode)
}

/// Writes; returns the offset and the number of bytes.
pub(crate) fn write(
    cx: &Ctx<'_>,
    inode: &Inode,
    place: WriteAt,
    src: &[u8],
    kill_suidgid: bool,
    g: &Guard,
) -> Attempt<(u64, usize)> {
    data_of(inode)?;
    cx.begin_change(inode)?;
    if is_immutable(inode) {
        return Err(Errno::EPERM.into());
    }
    let written = write_acknowledged(cx, inode, place, src, kill_suidgid, Writer::Caller, g)?;
    if written.1 > 0 {
        drop_capability(cx, inode, g);
    }
    Ok(written)
}

/// [`write()`] of what a kernel in front has acknowledged, even if the file has become immutable or
/// the volume read-only since. File capabilities were dropped at the acknowledgement, or are
/// younger than the write.
pub(crate) fn write_acknowledged(
    cx: &Ctx<'_>,
    inode: &Inode,
    place: WriteAt,
    src: &[u8],
    kill_suidgid: bool,
    writer: Writer,
    g: &Guard,
) -> Attempt<(u64, usize)> {
    let data = data_of(inode)?;
    if writer != Writer::Caller
        && let Some(errno) = cx.sb.cache.latched()
    {
        // Nothing is stored any more. Who has written it is told by `close` and `fsync`, and the
        // front end reports what is lost.
        return Err(errno.into());
    }
    cx.begin_acknowledged(inode)?;
    if src.is_empty() {
        return Ok((place.offset(0), 0));
    }
    let _kept = cx.pin_inode(inode, g)?;
    let done = match place {
        WriteAt::At(off) if off < MAX_SIZE && inode.reaches(off + src.len() as u64) => {
            write_inside(cx, inode, data, off, src, g)?
        }
        _ => None,
    };
    let Stored { at, len, dirtied } = match done {
        Some(done) => done,
        None => write_extending(cx, inode, data, (place, writer), src, g)?,
    };
    if kill_suidgid {
        strip_suidgid(cx, inode);
    }
    if writer != (Writer::PageCache { touches: false }) {
        cx.sb.touch(inode, cx.sb.now());
    }
    // Again, for a write-back that ran since the bytes were stored has not seen size and times.
    cx.sb.note_dirty(inode);
    let written = at..at + len as u64;
    cx.sb
        .log()
        .inspect(|log| log.gaps.fill(inode.number(), &written));
    let count = |log: &ChangeLog| {
        let part = WrittenRange {
            ino: inode.number(),
            bytes: written.clone(),
            sum: dirtied * PAGE,
            is_cached: writer != Writer::Caller,
        };
        log.count_bytes(part, inode.tenant())
    };
    // What is written again before the backend has got it takes no more memory.
    if dirtied > 0 && cx.sb.log().is_some_and(count) {
        cx.sb.look_at_room();
    }
    cx.inode_changed(inode, Some(written));
    cx.sb
        .heat
        .note(cx.caller.origin, inode, Access::Write, at, len);
    Ok((at, len))
}

/// What a write has done.
struct Stored {
    at: u64,
    len: usize,
    /// Pages that the backend has yet to get because of it.
    dirtied: u64,
}

/// Writes bytes that all lie below the size; `None` if the file shrank before the gate was entered.
fn write_inside(
    cx: &Ctx<'_>,
    inode: &Inode,
    data: &Data,
    off: u64,
    src: &[u8],
    g: &Guard,
) -> Attempt<Option<Stored>> {
    let reaches = || inode.reaches(off + src.len() as u64);
    let inside = inode.gate.read(inode.percpu());
    if !reaches() {
        return Ok(None);
    }
    let done = store_all(cx, inode, data, off, src, g);
    drop(inside);
    if !is_refused(&done) {
        let stored = |dirtied| Stored {
            at: off,
            len: src.len(),
            dirtied,
        };
        return done.map(|dirtied| Some(stored(dirtied)));
    }
    let _closed = inode.gate.write(inode.percpu());
    if !reaches() {
        return Ok(None);
    }
    store_what_fits(cx, inode, data, off, src, g).map(Some)
}

fn write_extending(
    cx: &Ctx<'_>,
    inode: &Inode,
    data: &Data,
    (place, writer): (WriteAt, Writer),
    src: &[u8],
    g: &Guard,
) -> Attempt<Stored> {
    let _growth = inode.meta.growth.lock();
    let size = inode.meta.size();
    let off = place.offset(size);
    if off >= MAX_SIZE {
        return Err(Errno::EFBIG.into());
    }
    let len = (src.len() as u64).min(MAX_SIZE - off) as usize;
    let src = &src[..len];
    let grow = |stored: Stored| {
        let end = off + stored.len as u64;
        if end > size {
            let is_late = writer != Writer::Caller && off > size;
            if let Some(log) = cx.sb.log().filter(|_| is_late) {
                log.gaps.note(inode.number(), size..off);
            }
            inode.set_size(end);
        }
        Ok(stored)
    };
    let inside = inode.gate.read(inode.percpu());
    let done = store_all(cx, inode, data, off, src, g);
    if !is_refused(&done) {
        let (at, dirtied) = (off, done?);
        return grow(Stored { at, len, dirtied });
    }
    drop(inside);
    let _closed = inode.gate.write(inode.percpu());
    grow(store_what_fits(cx, inode, data, off, src, g)?)
}

/// Whether space ran out. If two writers fill the same holes at once, both request space, and one
/// of them gives it back. So a refused writer tries again with the gate closed.
fn is_refused(done: &Attempt<u64>) -> bool {
    matches!(done, Err(Stop::Errno(Errno::ENOSPC | Errno::EDQUOT)))
}

/// Writes until there is no more space. Fails if there is no space
/// for the first page. The gate is closed.
fn store_what_fits(
    cx: &Ctx<'_>,
    inode: &Inode,
    data: &Data,
    off: u64,
    src: &[u8],
    g: &Guard,
) -> Attempt<Stored> {
    let mut all = Stored {
        at: off,
        len: src.len(),
        dirtied: 0,
    };
    let done = store_all(cx, inode, data, off, src, g);
    if !is_refused(&done) || !crosses_page(off, src) {
        all.dirtied = done?;
        return Ok(all);
    }
    all.len = 0;
    while all.len < src.len() {
        let at = off + all.len as u64;
        let rest = &src[all.len..];
        let len = rest.len().min((PAGE - at % PAGE) as usize);
        match store_all(cx, inode, data, at, &rest[..len], g) {
            Ok(dirtied) => {
                all.len += len;
                all.dirtied += dirtied;
            }
            Err(Stop::Errno(_)) if all.len > 0 => break,
            Err(stop) => return Err(stop),
        }
    }
    Ok(all)
}

fn crosses_page(off: u64, src: &[u8]) -> bool {
    off % PAGE + src.len() as u64 > PAGE
}

/// Writes all, or nothing. Returns the pages that the backend has yet to get because of it.
fn store_all(
    cx: &Ctx<'_>,
    inode: &Inode,
    data: &Data,
    off: u64,
    src: &[u8],
    g: &Guard,
) -> Attempt<u64> {
    // Reservations for this write were made before it was requested.
    if inode.state.has(StateBit::Reserved) {
        let written = reserve::store(cx, inode, data, (off, src), g)?;
        cx.sb.note_dirty(inode);
        (cx.sb.cache.mem_usage).add(resident_bytes(written.resident()));
        return Ok(written.dirtied);
    }
    let need = data
        .absent_pages(off, src.len() as u64, g)
        .map_err(|absent| miss_page(inode, absent))?;
    let mut charge = match need {
        0 => None,
        need => {
            cx.sb.check_room()?;
            let account = cx.sb.payer(inode)?.ok_or(Errno::EINVAL)?;
            Some(
                cx.sb
                    .quotas
                    .ledger
                    .charge(account, Resource::Blocks, need, g)?,
            )
        }
    };
    let written = data
        .store(off, src, g)
        .map_err(|absent| miss_page(inode, absent))?;
    cx.sb.note_dirty(inode);
    debug_assert!(
        written.added <= need,
        "pages do not go away inside the gate"
    );
    if let Some(charge) = &mut charge {
        charge.spend(written.added);
        inode.percpu().add(COUNT, written.added as i64);
    }
    let came = resident_bytes(written.resident());
    if came > 0 {
        cx.sb.cache.mem_usage.add(came);
    }
    Ok(written.dirtied)
}

/// Runs an edit of `pages` of a file, which leaves the others where they are, with the gate closed.
/// Accounts for the memory that it took or freed.
pub(crate) fn edit<T>(
    cx: &Ctx<'_>,
    data: &Data,
    pages: Range<u64>,
    g: &Guard,
    edit: impl FnOnce() -> Attempt<T>,
) -> Attempt<T> {
    if !cx.sb.is_durable() {
        return edit();
    }
    // Of these alone: a hole in a large file takes no longer than one in a small file.
    let resident = || resident_bytes(data.resident_in(&pages, g));
    let before = resident();
    let result = edit();
    (cx.sb.cache.mem_usage).add(resident() - before);
    result
}

/// Gives the blocks of removed pages back.
pub(crate) fn free_pages(cx: &Ctx<'_>, inode: &Inode, removed: u64, g: &Guard) {
    if removed > 0 {
        inode.percpu().add(COUNT, -(removed as i64));
        let account = inode.meta.account();
        cx.sb
            .quotas
            .ledger
            .free(account, Resource::Blocks, removed, g);
    }
}

/// Truncates or extends; returns whether the size changed. `closed`: the caller has closed the gate
/// already. The caller sets times and drops file capabilities, which needs `change`.
pub(crate) fn set_size(
    cx: &Ctx<'_>,
    inode: &Inode,
    size: u64,
    _growth: &lock::LockGuard<'_, GrowthLock, ()>,
    closed: Option<&WriteGuard<'_>>,
    g: &Guard,
) -> Attempt<bool> {
    let data = data_of(inode)?;
    let old = inode.meta.size();
    // Restarts if the inode has ended since it was found: then nobody pays for its pages.
    cx.sb.payer(inode)?;
    // A truncate to the present size drops pages that were preallocated behind the end, as in ext4,
    // XFS and tmpfs. Under `growth` none are added.
    let behind = size.div_ceil(PAGE);
    if size < old || size == old && data.is_allocated_from(behind, g) {
        let _closed = closed.is_none().then(|| inode.gate.write(inode.percpu()));
        if cx.sb.is_durable() && !size.is_multiple_of(PAGE) {
            // The last page must be in memory before its tail is cut.
            data.absent_pages(size - 1, 1, g)
                .map_err(|absent| miss_page(inode, absent))?;
        }
        inode.set_size(size);
        let removed = edit(cx, data, size / PAGE..PAGES, g, || {
            data.truncate(size, g)
                .map_err(|absent| miss_page(inode, absent))
        })?;
        let tail = cx.sb.is_durable().then(|| data.page_bytes(size / PAGE, g));
        let tail = tail.flatten().filter(|_| !size.is_multiple_of(PAGE));
        cx.sb.record_truncate(inode, size, tail);
        free_pages(cx, inode, removed, g);
        reserve::cut(cx.sb, inode, behind..u64::MAX, g);
        cx.sb.heat.truncate(&cx.sb.objects, inode, size);
    } else {
        inode.set_size(size);
        cx.sb.record_size(inode, size);
    }
    if kills_suid(cx.caller) {
        strip_suidgid(cx, inode);
    }
    Ok(size != old)
}

/// Moves the access time according to the volume's mode.
pub(crate) fn touch_atime(cx: &Ctx<'_>, inode: &Inode, noatime: bool) -> Attempt<()> {
    if noatime || cx.sb.atime() == AtimeMode::No || cx.sb.is_read_only() {
        return Ok(());
    }
    if inode.meta.flags() & flags::NOATIME != 0 {
        return Ok(());
    }
    let times = inode.times();
    let now = cx.sb.now();
    let day_old = now.sec.saturating_sub(times.atime.sec) >= 24 * 60 * 60;
    let stale = times.atime <= times.mtime || times.atime <= times.ctime || day_old;
    if (cx.sb.atime() == AtimeMode::Strict || stale) && times.atime != now {
        set_atime(cx, inode, now)?;
        cx.inode_changed(inode, None);
    }
    Ok(())
}

#[cold]
fn set_atime(cx: &Ctx<'_>, inode: &Inode, now: Time) -> Attempt<()> {
    // Who reads through a name has no reference, and nothing is recorded of what has ended.
    let g = pin();
    let _pinned = cx.pin_inode(inode, &g)?;
    cx.begin_acknowledged(inode)?;
    cx.sb.change_attrs(inode, |fields| fields.atime = now);
    Ok(())
}

pub(crate) fn data_of(inode: &Inode) -> Result<&Data, Errno> {
    match inode.data() {
        Some(data) => Ok(data),
        None if inode.is_dir() => Err(Errno::EISDIR),
        None => Err(Errno::EINVAL),
    }
}

pub(crate) fn miss_page(inode: &Inode, PageMiss(index): PageMiss) -> Stop {
    Stop::miss(Fetch::Page {
        ino: inode.number(),
        index,
        pages: 1,
    })
}
