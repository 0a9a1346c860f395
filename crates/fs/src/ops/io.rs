//! Reading and writing file contents, and the size of a file.
//!
//! Bytes below the size are written inside the gate, side by side; what changes the size (append,
//! extension, truncate) holds `growth`, and what takes pages away closes the gate as well. Reads
//! take nothing.

use super::privilege::{drop_capability, kills_suid, strip_suidgid};
use super::promise;
use crate::attr::Time;
use crate::data::{Absent, Data, PAGE};
use crate::errno::Errno;
use crate::flags;
use crate::heat::Access;
use crate::home;
use crate::inode::{COUNT, GrowthLock, Mark, Node, NodeExt};
use crate::quota::Resource;
use crate::volume::{AtimeMode, Ctx, Load, MAX_SIZE, PAGE_BYTES, Step, Stop};
use hearth_sync::epoch::Guard;
use hearth_sync::lock;
use hearth_sync::object::WriteGuard;
use std::io::IoSliceMut;

/// Reads at `off`; answers the bytes read, 0 at the end of the file. What comes before a page that
/// the home fails is a short read, as in Linux; the error is the next call's.
pub(crate) fn read(
    cx: &Ctx<'_>,
    node: &Node,
    off: u64,
    out: &mut [u8],
    noatime: bool,
    g: &Guard,
) -> Step<usize> {
    let len = fill(cx, node, off, out, g)?;
    if !out.is_empty() {
        touch_atime(cx, node, noatime);
    }
    cx.core.heat.note(node, Access::Read, off, len);
    Ok(len)
}

/// [`read`] into one part after the other: one access, which leaves no trace unless it succeeds.
pub(crate) fn read_vector(
    cx: &Ctx<'_>,
    node: &Node,
    off: u64,
    outs: &mut [IoSliceMut<'_>],
    noatime: bool,
    g: &Guard,
) -> Step<usize> {
    let mut total = 0;
    for out in outs.iter_mut().filter(|out| !out.is_empty()) {
        let got = match fill(cx, node, off + total as u64, out, g) {
            Ok(got) => got,
            Err(Stop::Load(_)) if total > 0 && cx.settles => break,
            Err(stop) => return Err(stop),
        };
        total += got;
        if got < out.len() {
            break;
        }
    }
    if outs.iter().any(|out| !out.is_empty()) {
        touch_atime(cx, node, noatime);
    }
    cx.core.heat.note(node, Access::Read, off, total);
    Ok(total)
}

fn fill(cx: &Ctx<'_>, node: &Node, off: u64, out: &mut [u8], g: &Guard) -> Step<usize> {
    let data = data_of(node)?;
    let mut len = below_size(node, off, out.len());
    if len > 0
        && let Err(absent) = data.read(off, &mut out[..len], g)
    {
        let before = (absent.0 * PAGE).saturating_sub(off) as usize;
        if before == 0 || !cx.settles {
            return Err(page(node, absent));
        }
        len = before;
    }
    // A truncate that ran along may have shown zeros that were never in the file.
    Ok(below_size(node, off, len))
}

/// How many of `len` bytes at `off` the file has.
fn below_size(node: &Node, off: u64, len: usize) -> usize {
    if node.reaches(off.saturating_add(len as u64)) {
        return len;
    }
    node.meta.size().saturating_sub(off).min(len as u64) as usize
}

/// Where a write goes.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// At this offset.
    At(u64),
    /// At the end of the file (`O_APPEND`).
    End,
    /// At this offset, where who writes believes the end to be, or at the end if that is behind it.
    EndFrom(u64),
}

impl Place {
    /// Where the rest of a write goes of which `done` bytes are written.
    pub fn after(self, done: usize) -> Place {
        match self {
            Place::At(off) => Place::At(off + done as u64),
            Place::End => Place::End,
            Place::EndFrom(off) => Place::EndFrom(off + done as u64),
        }
    }

    /// The offset in a file of `size` bytes.
    pub(crate) fn offset(self, size: u64) -> u64 {
        match self {
            Place::At(off) => off,
            Place::End => size,
            Place::EndFrom(off) => off.max(size),
        }
    }
}

fn is_immutable(node: &Node) -> bool {
    node.meta.flags() & flags::IMMUTABLE != 0
}

/// Whether somebody who has `node` open for writing can change what it holds.
pub(crate) fn is_changeable(cx: &Ctx<'_>, node: &Node) -> bool {
    node.data().is_some() && cx.core.check_writable().is_ok() && !is_immutable(node)
}

/// Writes and answers (where, how many bytes).
pub(crate) fn write(
    cx: &Ctx<'_>,
    node: &Node,
    place: Place,
    src: &[u8],
    kill_suidgid: bool,
    g: &Guard,
) -> Step<(u64, usize)> {
    data_of(node)?;
    cx.core.check_writable()?;
    if is_immutable(node) {
        return Err(Errno::EPERM.into());
    }
    let written = write_acknowledged(cx, node, place, src, kill_suidgid, true, g)?;
    if written.1 > 0 {
        drop_capability(cx, node, g);
    }
    Ok(written)
}

/// The same although the file has become immutable, or the volume read-only, since a kernel in
/// front acknowledged it. File capabilities went then, or are younger than the write. Without
/// `touches` the times are that kernel's affair.
pub(crate) fn write_acknowledged(
    cx: &Ctx<'_>,
    node: &Node,
    place: Place,
    src: &[u8],
    kill_suidgid: bool,
    touches: bool,
    g: &Guard,
) -> Step<(u64, usize)> {
    let data = data_of(node)?;
    if src.is_empty() {
        return Ok((place.offset(0), 0));
    }
    let _kept = cx.keep(node, g)?;
    let done = match place {
        Place::At(off) if off < MAX_SIZE && node.reaches(off + src.len() as u64) => {
            write_inside(cx, node, data, off, src, g)?
        }
        _ => None,
    };
    let (at, len) = match done {
        Some(done) => done,
        None => write_extending(cx, node, data, place, src, g)?,
    };
    if kill_suidgid {
        strip_suidgid(cx.caller, node);
    }
    if touches {
        node.touch(cx.core.now());
    }
    cx.node_changed(node, Some(at..at + len as u64));
    cx.core.heat.note(node, Access::Write, at, len);
    Ok((at, len))
}

/// Writes bytes that are all below the size; `None` if the file shrank before the gate was passed.
fn write_inside(
    cx: &Ctx<'_>,
    node: &Node,
    data: &Data,
    off: u64,
    src: &[u8],
    g: &Guard,
) -> Step<Option<(u64, usize)>> {
    let reaches = || node.reaches(off + src.len() as u64);
    let inside = node.gate.read(node.percpu());
    if !reaches() {
        return Ok(None);
    }
    let done = store_all(cx, node, data, off, src, g);
    drop(inside);
    if !is_refused(&done) {
        return done.map(|()| Some((off, src.len())));
    }
    let _closed = node.gate.write(node.percpu());
    if !reaches() {
        return Ok(None);
    }
    let len = store_what_fits(cx, node, data, off, src, g)?;
    Ok(Some((off, len)))
}

fn write_extending(
    cx: &Ctx<'_>,
    node: &Node,
    data: &Data,
    place: Place,
    src: &[u8],
    g: &Guard,
) -> Step<(u64, usize)> {
    let _growth = node.meta.growth.lock();
    let size = node.meta.size();
    let off = place.offset(size);
    if off >= MAX_SIZE {
        return Err(Errno::EFBIG.into());
    }
    let len = (src.len() as u64).min(MAX_SIZE - off) as usize;
    let src = &src[..len];
    let grow = |len: usize| {
        let end = off + len as u64;
        if end > size {
            node.set_size(end);
        }
        Ok((off, len))
    };
    let inside = node.gate.read(node.percpu());
    let done = store_all(cx, node, data, off, src, g);
    if !is_refused(&done) {
        done?;
        return grow(len);
    }
    drop(inside);
    let _closed = node.gate.write(node.percpu());
    grow(store_what_fits(cx, node, data, off, src, g)?)
}

/// Whether there was no room. Two who fill the same holes side by side both ask for room, and one
/// of them gives it back: so who was refused asks again with the gate closed.
fn is_refused(done: &Step<()>) -> bool {
    matches!(done, Err(Stop::Errno(Errno::ENOSPC | Errno::EDQUOT)))
}

/// Writes as far as there is room, and says how far; refused if there is none for the first page.
/// The gate is closed.
fn store_what_fits(
    cx: &Ctx<'_>,
    node: &Node,
    data: &Data,
    off: u64,
    src: &[u8],
    g: &Guard,
) -> Step<usize> {
    let done = store_all(cx, node, data, off, src, g);
    if !is_refused(&done) || !crosses_page(off, src) {
        return done.map(|()| src.len());
    }
    let mut done = 0;
    while done < src.len() {
        let at = off + done as u64;
        let rest = &src[done..];
        let len = rest.len().min((PAGE - at % PAGE) as usize);
        match store_all(cx, node, data, at, &rest[..len], g) {
            Ok(()) => done += len,
            Err(Stop::Errno(_)) if done > 0 => break,
            Err(stop) => return Err(stop),
        }
    }
    Ok(done)
}

fn crosses_page(off: u64, src: &[u8]) -> bool {
    off % PAGE + src.len() as u64 > PAGE
}

fn store_all(cx: &Ctx<'_>, node: &Node, data: &Data, off: u64, src: &[u8], g: &Guard) -> Step<()> {
    // What is promised to this write was so before it was asked for.
    if node.marks.has(Mark::Promised) {
        let installed = promise::store(cx, node, data, (off, src), g)?;
        cx.core.resident.add(installed as i64 * PAGE_BYTES);
        return Ok(());
    }
    let need = data
        .absent_pages(off, src.len() as u64, g)
        .map_err(|absent| page(node, absent))?;
    let mut room = match need {
        0 => None,
        need => {
            let account = cx.core.payer(node)?.ok_or(Errno::EINVAL)?;
            Some(cx.core.ledger.charge(account, Resource::Blocks, need, g)?)
        }
    };
    let written = data
        .store(off, src, g)
        .map_err(|absent| page(node, absent))?;
    debug_assert!(
        written.added <= need,
        "pages do not go away inside the gate"
    );
    if let Some(room) = &mut room {
        room.spend(written.added);
        node.percpu().add(COUNT, written.added as i64);
    }
    if written.installed > 0 {
        cx.core.resident.add(written.installed as i64 * PAGE_BYTES);
    }
    Ok(())
}

/// Runs an edit of a file with the gate closed and books the memory that it took or gave.
pub(crate) fn edit<T>(
    cx: &Ctx<'_>,
    data: &Data,
    g: &Guard,
    edit: impl FnOnce() -> Step<T>,
) -> Step<T> {
    if !cx.core.home.evictable() {
        return edit();
    }
    let before = data.resident(g) as i64;
    let result = edit();
    cx.core
        .resident
        .add((data.resident(g) as i64 - before) * PAGE_BYTES);
    result
}

/// Books pages that went and gives them back to the pool.
pub(crate) fn free_pages(cx: &Ctx<'_>, node: &Node, removed: u64, g: &Guard) {
    if removed > 0 {
        node.percpu().add(COUNT, -(removed as i64));
        let account = node.meta.account();
        cx.core.ledger.free(account, Resource::Blocks, removed, g);
    }
}

/// Truncates or extends, and answers whether the size was another. `closed`: the caller has closed
/// the gate already. Times and file capabilities are the caller's affair: to drop these takes
/// `change`.
pub(crate) fn set_size(
    cx: &Ctx<'_>,
    node: &Node,
    size: u64,
    _growth: &lock::LockGuard<'_, GrowthLock, ()>,
    closed: Option<&WriteGuard<'_>>,
    g: &Guard,
) -> Step<bool> {
    let data = data_of(node)?;
    let old = node.meta.size();
    // It may have ended since it was found; its pages are nobody's then.
    cx.core.payer(node)?;
    // What is preallocated behind the end goes with a cut to the size that is there, as in ext4,
    // XFS and tmpfs. Under `growth` nobody adds to it.
    let behind = size.div_ceil(PAGE);
    if size < old || size == old && data.is_allocated_from(behind, g) {
        let _closed = closed.is_none().then(|| node.gate.write(node.percpu()));
        let ino = node.number();
        if cx.core.home.evictable() {
            if !size.is_multiple_of(PAGE) {
                // The last page must be here before the home forgets the rest of it.
                data.absent_pages(size - 1, 1, g)
                    .map_err(|absent| page(node, absent))?;
            }
            cx.core
                .home
                .commit(&[home::Change::Truncate { ino, size }])?;
        }
        node.set_size(size);
        let removed = edit(cx, data, g, || {
            data.truncate(size, g).map_err(|absent| page(node, absent))
        })?;
        free_pages(cx, node, removed, g);
        promise::cut(cx.core, node, behind..u64::MAX, g);
        cx.core.heat.truncate(cx.core, node, size);
    } else {
        node.set_size(size);
    }
    if kills_suid(cx.caller) {
        strip_suidgid(cx.caller, node);
    }
    Ok(size != old)
}

/// Moves the access time as the volume's mode says.
pub(crate) fn touch_atime(cx: &Ctx<'_>, node: &Node, noatime: bool) {
    if noatime || cx.core.atime() == AtimeMode::No || cx.core.is_read_only() {
        return;
    }
    let fields = node.fields();
    if fields.flags & flags::NOATIME != 0 {
        return;
    }
    let now = cx.core.now();
    let day_old = now.sec.saturating_sub(fields.atime.sec) >= 24 * 60 * 60;
    let stale = fields.atime <= fields.mtime || fields.atime <= fields.ctime || day_old;
    if (cx.core.atime() == AtimeMode::Strict || stale) && fields.atime != now {
        set_atime(node, now);
        cx.node_changed(node, None);
    }
}

#[cold]
fn set_atime(node: &Node, now: Time) {
    node.meta.update(|fields| fields.atime = now);
}

pub(crate) fn data_of(node: &Node) -> Result<&Data, Errno> {
    match node.data() {
        Some(data) => Ok(data),
        None if node.is_dir() => Err(Errno::EISDIR),
        None => Err(Errno::EINVAL),
    }
}

pub(crate) fn page(node: &Node, Absent(index): Absent) -> Stop {
    Stop::Load(Load::Page {
        ino: node.number(),
        index,
    })
}
