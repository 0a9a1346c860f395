//! Records of changes for a durable backend. Each is appended under the lock that orders the
//! change, by an operation that the log lets begin; without such a backend nothing is done.

use super::Superblock;
use crate::attr::Time;
use crate::data::PAGE;
use crate::directory::Locked;
use crate::hashed::Hashed;
use crate::inode::{Fields, Inode, InodeExt, Recorded, StateBit, XattrsAcls, xattrs_of};
use crate::log::ChangeLog;
use crate::number::is_control;
use hearth_backend::{Attrs, Edit, Extent, Place, Record, Xattr};
use hearth_sync::primitive::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use hearth_sync::primitive::atomic::fence;
use std::ops::Range;

/// The order of a touch before all times that were set.
const UNORDERED: u64 = 1;

impl Superblock {
    /// The log, if the backend keeps anything.
    #[inline]
    pub fn log(&self) -> Option<&ChangeLog> {
        self.objects.log.as_deref()
    }

    /// Whether objects may be evicted, because the backend can give them back.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.objects.log.is_some()
    }

    /// Changes attributes, and records them. Every change of an inode that others know comes
    /// through here.
    #[inline(always)]
    #[track_caller]
    pub fn change_attrs<R>(&self, inode: &Inode, change: impl FnOnce(&mut Fields) -> R) -> R {
        let record = |version| self.record_attrs(inode, version);
        inode.meta.update_and(change, record)
    }

    /// Changes attributes at `now`, and records them.
    #[inline(always)]
    #[track_caller]
    pub fn change_attrs_at<R>(
        &self,
        inode: &Inode,
        now: Time,
        change: impl FnOnce(&mut Fields) -> R,
    ) -> R {
        self.let_ctime_go_back(inode, now);
        self.change_attrs(inode, |fields| {
            fields.ctime = now;
            change(fields)
        })
    }

    /// Changes the number of names at `now`, and records that.
    #[inline(always)]
    #[track_caller]
    pub fn change_links_at(&self, inode: &Inode, now: Time, change: impl FnOnce(u32) -> u32) {
        self.let_ctime_go_back(inode, now);
        let record = |version| self.record_attrs(inode, version);
        inode.meta.update_links(change, now, record);
    }

    /// Replaces extended attributes and ACLs, and attributes that go with them; counts what memory
    /// they take. Under `change`, of an inode that has not ended.
    pub fn change_extra(
        &self,
        inode: &Inode,
        extra: XattrsAcls,
        change: impl FnOnce(&mut Fields),
        g: &hearth_sync::epoch::Guard,
    ) {
        let log = self.log().filter(|_| !is_control(inode.number()));
        debug_assert!(!inode.has_extra_at_backend(g), "they were fetched first");
        // Dropped with nothing locked.
        let mut xattrs = log.map_or_else(Vec::new, |_| xattrs_of(&extra));
        let before = inode.extra(g).map_or(0, XattrsAcls::memory);
        let more = extra.memory() as i64 - before as i64;
        self.cache.mem_usage.add(more);
        inode.set_extra(extra, change, g, |version| {
            self.record_attrs(inode, version);
            if let Some(log) = log {
                append_xattrs(log, inode, version, &mut xattrs);
            }
        });
    }

    /// Under the lock of the attributes, which are read again: passed on, they would be put in
    /// memory by every change, also of a volume without a log.
    #[inline]
    fn record_attrs(&self, inode: &Inode, version: u32) {
        if let Some(log) = self.log() {
            append_attrs(log, inode, version);
        }
    }

    /// Records a new inode, which nobody else knows yet.
    #[inline]
    pub fn record_new(&self, inode: &Inode, g: &hearth_sync::epoch::Guard) {
        if let Some(log) = self.log() {
            append_new(log, inode, g);
        }
    }

    /// Records that a name is about to mean `to`. Its bucket is locked.
    #[inline]
    pub fn record_name(
        &self,
        dir: &Inode,
        locked: &Locked<'_>,
        at: Hashed<'_>,
        to: Option<crate::attr::Target>,
    ) {
        if let Some(log) = self.log() {
            append_name(log, dir, locked.note_logged(log), at, to);
        }
    }

    /// Counts an entry that was added or removed, and records that.
    // Always inlined: what it does itself is less than a call of it.
    #[inline(always)]
    pub fn count_entry(&self, dir: &Inode, delta: i64, subdirectory: bool, now: Time) {
        let nanos = now.nanos();
        let before = dir.count_entry(delta, subdirectory, nanos);
        self.let_times_go_back(dir, nanos, before);
        if let Some(log) = self.log() {
            self.append_entries(log, dir, (delta, subdirectory), nanos);
        }
    }

    #[inline(never)]
    fn append_entries(
        &self,
        log: &ChangeLog,
        dir: &Inode,
        (delta, subdirectory): (i64, bool),
        now: u64,
    ) {
        dir.meta.note_recorded(Recorded::Apart);
        let subdirectories = if subdirectory { delta } else { 0 };
        log.append_entries(
            (dir.number(), dir.generation()),
            (delta, subdirectories),
            (self.touch_order(dir), now),
        );
    }

    /// The order of a touch of contents. A clock is read only where times of the inode were set:
    /// nothing else is compared with it.
    fn touch_order(&self, inode: &Inode) -> u64 {
        match inode.meta.has_recorded(Recorded::TimesSet) {
            true => self.order(),
            false => UNORDERED,
        }
    }

    /// Now, by a clock that is fine enough to order what happened in one tick of the volume's.
    fn order(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    /// Records that a directory has another parent. Under the rename lock and in its write section,
    /// whose version is `version`.
    pub fn record_parent(&self, dir: &Inode, parent: u64, version: u32) {
        let Some(log) = self.log() else { return };
        inode_logged(dir, log);
        dir.meta.note_recorded(Recorded::Apart);
        log.append(Record::Parent {
            dir: dir.number(),
            generation: dir.generation(),
            version,
            parent,
        });
    }

    /// Records that times of contents are about to be set.
    pub fn record_untouched(&self, inode: &Inode) {
        let Some(log) = self.log() else { return };
        inode_logged(inode, log);
        inode.meta.note_recorded(Recorded::Apart);
        inode.meta.note_recorded(Recorded::TimesSet);
        log.append(Record::Untouched {
            ino: inode.number(),
            generation: inode.generation(),
            order: self.order(),
        });
    }

    /// Records a change of contents after which the data below `size` is durable. Under `growth`.
    pub fn record_contents(&self, inode: &Inode, size: u64, edit: Edit) {
        let Some(log) = self.log() else { return };
        let contents = &inode.contents;
        if matches!(edit, Edit::Cut(_) | Edit::Shift { .. }) {
            contents.edits.fetch_add(1, Relaxed);
        }
        contents.size.store(size, Relaxed);
        contents.epoch.store(log.epoch(), Relaxed);
        inode.meta.note_recorded(Recorded::Apart);
        // Before the time: if times are set in between, it is an earlier touch.
        let order = self.touch_order(inode);
        log.append(Record::Contents {
            ino: inode.number(),
            generation: inode.generation(),
            version: contents.version.fetch_add(1, Relaxed),
            size,
            touched: inode.touched(),
            order,
            edit,
        });
    }

    /// Records the size of a file that was set. While the file has unwritten contents the larger
    /// size waits for them: no size is durable beyond its data. Under `growth`.
    pub fn record_size(&self, inode: &Inode, size: u64) {
        if self.is_durable() {
            if inode.state.has_unrecorded() {
                return;
            }
            self.record_contents(inode, size, Edit::Size);
        }
    }

    /// Records that pages were cut or moved. Under `growth`, with the gate closed.
    pub fn record_edit(&self, inode: &Inode, edit: Option<Edit>) {
        if let Some(edit) = edit.filter(|_| self.is_durable()) {
            let recorded = inode.contents.size.load(Relaxed);
            let durable = match edit {
                Edit::Shift { from, by } if recorded > from * PAGE => {
                    recorded.saturating_add_signed(by * PAGE as i64)
                }
                // What comes to lie there may not be durable.
                Edit::Shift { from, by } => recorded.min(from.saturating_add_signed(by) * PAGE),
                _ => recorded,
            };
            self.record_contents(inode, durable, edit);
        }
    }

    /// Records that the pages `whole` were cut and that parts of `zeroed` are zeros from now on;
    /// these are pages and their contents. Under `growth`, with the gate closed.
    pub fn record_zeroed(
        &self,
        inode: &Inode,
        whole: Option<Range<u64>>,
        zeroed: Vec<(u64, Box<[u8]>)>,
    ) {
        self.record_edit(inode, whole.map(Edit::Cut));
        let recorded = inode.contents.size.load(Relaxed);
        let extents: Vec<Extent> = zeroed
            .into_iter()
            .filter_map(|(index, mut bytes)| {
                // The backend has nothing behind the size that it knows.
                let end = recorded.saturating_sub(index * PAGE).min(PAGE) as usize;
                bytes[end..].fill(0);
                (end > 0).then(|| inline(index, bytes))
            })
            .collect();
        if !extents.is_empty() {
            // A write-back that is under way may have copied what was there before.
            inode.contents.edits.fetch_add(1, Relaxed);
            self.record_pages(inode, recorded, extents);
        }
    }

    /// Records pages that ride in the record. Under `growth`, with the gate closed.
    fn record_pages(&self, inode: &Inode, size: u64, extents: Vec<Extent>) {
        if let Some(log) = self.log() {
            log.count_carried(extents.len() as u64 * PAGE, inode.tenant());
        }
        self.record_contents(inode, size, Edit::Write(extents));
    }

    /// Records that a file ends at `size`, which is smaller than before; `tail` is the contents of
    /// its last page where a part of that was cut. Under `growth`, with the gate closed.
    pub fn record_truncate(&self, inode: &Inode, size: u64, tail: Option<Box<[u8]>>) {
        let Some(log) = self.log() else { return };
        // Unwritten contents below the new end are still to come.
        let durable = size.min(match inode.state.has_unrecorded() {
            true => inode.contents.size.load(Relaxed),
            false => size,
        });
        self.record_contents(inode, durable, Edit::Cut(size.div_ceil(PAGE)..u64::MAX));
        // The backend has nothing behind the size that it knows, so there is nothing to cut off;
        // and the tail has bytes there.
        if let Some(tail) = tail.filter(|_| durable == size) {
            self.record_pages(inode, durable, vec![inline(size / PAGE, tail)]);
        }
        if size == 0 {
            log.unwritten.note_first(inode.number());
            inode.state.set(StateBit::Emptied);
        }
    }

    /// A writer closes the file. If it was written anew the next commit does not come without its
    /// contents: programs replace a file in this way and do not sync it.
    pub fn note_closed(&self, inode: &Inode) {
        if let Some(log) = self.log()
            && inode.state.has(StateBit::Emptied)
        {
            inode.state.clear(StateBit::Emptied);
            log.unwritten.note_first(inode.number());
        }
    }

    /// Contents were written: they are to be given to the backend. After the write, inside the
    /// gate.
    pub fn note_dirty(&self, inode: &Inode) {
        let Some(log) = self.log() else { return };
        // SeqCst: partner is the fence in a write-back, which clears the bit and then looks for
        // what was written.
        fence(SeqCst);
        if !inode.state.has(StateBit::Dirty) && inode.state.set_first(StateBit::Dirty) {
            log.unwritten.note(inode.number());
        }
    }

    /// Whether the backend has the contents of a file as they are now.
    pub fn has_durable_contents(&self, inode: &Inode) -> bool {
        let Some(log) = self.log() else { return false };
        let is_recorded = !inode.state.has_unrecorded();
        // Acquire: partner is the fence at the end of a write-back, which sets the epoch before.
        fence(Acquire);
        is_recorded
            && !log.is_pending(inode.contents.epoch.load(Relaxed))
            && self.cache.latched().is_none()
    }

    /// Whether something of `inode` that was recorded has yet to reach the backend. Exact if the
    /// inode has been evicted from the table, where it may say true without need.
    pub fn is_inode_pending(&self, inode: &Inode) -> bool {
        let Some(log) = self.log() else { return false };
        log.is_tag_pending(inode.meta.logged.load(Relaxed))
            || log.is_pending(inode.contents.epoch.load(Relaxed))
    }
}

// Functions of their own, so that a volume without a log saves no registers for them.
#[inline(never)]
fn append_attrs(log: &ChangeLog, inode: &Inode, version: u32) {
    if is_control(inode.number()) {
        return;
    }
    inode_logged(inode, log);
    let attrs = attrs_of(inode, &inode.meta.held());
    if !log.append_attrs(inode.number(), version, &attrs) {
        inode.meta.note_recorded(Recorded::Apart);
    }
}

#[inline(never)]
fn append_xattrs(log: &ChangeLog, inode: &Inode, version: u32, xattrs: &mut Vec<Xattr>) {
    let is_apart = inode.meta.has_recorded(Recorded::Apart);
    let of = (inode.number(), inode.generation());
    if !log.append_xattrs(of, version, xattrs, is_apart, inode.tenant()) {
        inode.meta.note_recorded(Recorded::Apart);
    }
}

#[inline(never)]
fn append_new(log: &ChangeLog, inode: &Inode, g: &hearth_sync::epoch::Guard) {
    inode_logged(inode, log);
    log.append_new(Box::new(inode_record(inode, g)));
}

#[inline(never)]
fn append_name(
    log: &ChangeLog,
    dir: &Inode,
    version: u32,
    at: Hashed<'_>,
    to: Option<crate::attr::Target>,
) {
    dir.meta.note_recorded(Recorded::Apart);
    log.append_name((dir.number(), dir.generation()), at.name, version, to);
}

/// A page that rides in its record.
fn inline(index: u64, bytes: Box<[u8]>) -> Extent {
    Extent {
        pages: index..index + 1,
        place: Place::Inline(bytes),
    }
}

fn inode_logged(inode: &Inode, log: &ChangeLog) {
    inode.meta.logged.store(log.epoch() as u8, Relaxed);
}

fn attrs_of(inode: &Inode, fields: &Fields) -> Attrs {
    Attrs {
        generation: inode.generation(),
        kind: inode.kind(),
        perm: fields.perm,
        uid: fields.uid,
        gid: fields.gid,
        project: fields.project,
        flags: fields.flags,
        nlink: fields.nlink,
        extra_blocks: inode.extra_blocks() as u32,
        rdev: inode.rdev(),
        atime: fields.atime,
        mtime: fields.mtime,
        ctime: fields.ctime,
        btime: fields.btime,
    }
}

/// The record of an inode that nobody changes.
pub(crate) fn inode_record(inode: &Inode, g: &hearth_sync::epoch::Guard) -> hearth_backend::Inode {
    let entries = match inode.is_dir() {
        true => crate::inode::split(inode.count()),
        false => (0, 0),
    };
    let fields = inode.meta.read();
    hearth_backend::Inode {
        ino: inode.number(),
        attrs: attrs_of(inode, &fields),
        size: inode.data().map_or(0, |_| fields.size),
        pages: inode.pages(),
        touched: inode.touched(),
        entries,
        parent: inode
            .directory()
            .map_or(0, crate::directory::Directory::parent),
        target: match &inode.body {
            crate::inode::Body::Symlink(target) => (**target).into(),
            _ => Box::default(),
        },
        xattrs: inode.extra(g).map_or_else(Vec::new, xattrs_of),
    }
}
