//! The log of changes that a durable backend has yet to get: `docs/design/log.md`.
//!
//! An operation appends its records under the locks that order it, to the list of its core, so an
//! append writes lines of its core only. A cut ends an epoch: it holds up operations that begin to
//! change something, waits until those that have begun are over, and takes all lists. What it takes
//! is therefore whole operations, and every operation that they depend on is there or was there in
//! an earlier epoch.
//!
//! Settings of the volume wait beside the lists, the last value of each key: they come seldom, from
//! threads that are not pinned as well, and what comes later must not be in an earlier epoch.
//!
//! Lock order: `log.core`, `log.dirty` and `log.settings` are taken last, under any lock of an
//! object; `log.pressure` comes behind them.

mod gaps;
mod records;
mod signal;
mod unwritten;

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

pub(crate) use gaps::GapWait;
pub(crate) use unwritten::Uncommitted;

use crate::cache_padded::CachePadded;
use crate::owed::{LogBounds, Owed, Pressure};
use crate::tenant::TenantId;
use crate::write_streams::WrittenRange;
use gaps::Gaps;
use hearth_backend::{Attrs, Extent, Inode, Place, Record, Target, Xattr};
use hearth_sync::epoch;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use records::{Added, CoreRecords};
use signal::CommitSignal;
use std::collections::BTreeMap;
use unwritten::{Counted, PressureLock, Unwritten};

lock_class! {
    CoreLock = "log.core", 980;
    SettingsLock = "log.settings", 982;
}

/// Bytes of contents in the records of an epoch from which on a sync of everything ends it.
const HEAVY_BYTES: u64 = 8 << 20;

/// Written bytes of one core between two looks at the backend's room.
const LOOK_BYTES: u64 = 1 << 20;
/// The modulus of a tag: see [`ChangeLog::is_tag_pending`].
const TAGS: u64 = 256;

/// The log of a volume with a durable backend.
pub(crate) struct ChangeLog {
    clock: CachePadded<EpochClock>,
    /// The last epoch that the backend has. Written by the committer.
    applied: CachePadded<AtomicU64>,
    /// Immutable.
    bounds: LogBounds,
    /// Weights of tenants. Immutable.
    weight: Box<Weight>,
    cores: PerCpu<Lock<CoreLock, CoreRecords>>,
    settings: Lock<SettingsLock, Settings>,
    /// Whether settings are taken. Relaxed: a flag of its own.
    keeps_settings: AtomicBool,
    /// Tenants that wait, if [`EpochClock::overfull`] says that some do.
    pressure: Lock<PressureLock, Pressure>,
    /// Bytes of contents in the records of this epoch. Relaxed: an estimate.
    inline: AtomicU64,
    /// Contents that wait for a write-back.
    pub unwritten: Unwritten,
    /// What the kernel in front may have yet to write.
    pub gaps: Gaps,
    /// Wakes the threads that commit and write back by themselves.
    pub signal: Arc<CommitSignal>,
}

/// Read by every operation that changes something; written by cuts, and where tenants begin or end
/// to wait.
struct EpochClock {
    epoch: AtomicU64,
    cutting: AtomicBool,
    /// Whether tenants wait for a commit and a write-back before they change something. Relaxed:
    /// a bound that may be met a little late.
    overfull: AtomicBool,
}

/// The weight of the tenant with a number of the scheduler's.
pub(crate) type Weight = dyn Fn(u64) -> u32 + Send + Sync;

/// The value of a setting; `None`: there is none any more.
type SettingValue = Option<Box<[u8]>>;

/// Settings that the backend has yet to get.
#[derive(Default)]
struct Settings {
    /// Number of the last change.
    version: u32,
    /// By key: the number of its last change, and its value.
    changed: BTreeMap<Box<[u8]>, (u32, SettingValue)>,
}

/// What a cut took.
pub(crate) struct Cut {
    pub epoch: u64,
    pub records: Vec<Record>,
}

impl ChangeLog {
    /// An empty log behind epoch `applied`.
    pub fn new(applied: u64, bounds: LogBounds, weight: Box<Weight>) -> ChangeLog {
        let epoch = epoch_behind(applied);
        let applied = epoch - 1;
        ChangeLog {
            clock: CachePadded(EpochClock {
                epoch: AtomicU64::new(epoch),
                cutting: AtomicBool::new(false),
                overfull: AtomicBool::new(false),
            }),
            applied: CachePadded(AtomicU64::new(applied)),
            bounds,
            weight,
            cores: PerCpu::new(|_| Lock::new(CoreRecords::default())),
            settings: Lock::new(Settings::default()),
            keeps_settings: AtomicBool::new(true),
            pressure: Lock::new(Pressure::None),
            inline: AtomicU64::new(0),
            unwritten: Unwritten::new(),
            gaps: Gaps::new(),
            signal: Arc::new(CommitSignal::default()),
        }
    }

    /// The epoch of records that are appended now. It does not change while an operation that has
    /// passed [`ChangeLog::may_begin`] is pinned.
    #[inline]
    pub fn epoch(&self) -> u64 {
        // Acquire: partner of the store in `cut`.
        self.clock.0.epoch.load(Ordering::Acquire)
    }

    /// Whether an operation that is pinned may begin to change something. Otherwise it unpins and
    /// tries again: a cut waits until all that are pinned are gone.
    #[inline]
    pub fn may_begin(&self) -> bool {
        // SeqCst: partner of the store in `cut`. Either this load sees the cut, or the cut's
        // grace period began after this thread was pinned and waits for it.
        !self.clock.0.cutting.load(Ordering::SeqCst)
    }

    /// The last epoch that the backend has.
    pub fn applied(&self) -> u64 {
        // Acquire: partner of the store in `set_applied`: what the backend gives from here on is
        // at least as new.
        self.applied.0.load(Ordering::Acquire)
    }

    /// The backend has everything up to `epoch`.
    pub fn set_applied(&self, epoch: u64) {
        // Release: see `applied`.
        self.applied.0.fetch_max(epoch, Ordering::Release);
    }

    /// Whether something that was last recorded in `epoch` has yet to reach the backend. 0 is an
    /// epoch before all others.
    pub fn is_pending(&self, epoch: u64) -> bool {
        epoch > self.applied()
    }

    /// [`ChangeLog::is_pending`] for the low bits of an epoch. May say true for what is long
    /// applied, until the epoch moves on.
    pub fn is_tag_pending(&self, tag: u8) -> bool {
        let (epoch, applied) = (self.epoch(), self.applied());
        let age = (epoch as u8).wrapping_sub(tag);
        u64::from(age) < epoch.saturating_sub(applied)
    }

    /// Whether the tenant that `tenant` names waits for a commit and a write-back before it changes
    /// something.
    #[inline]
    pub fn is_overfull(&self, tenant: impl FnOnce() -> TenantId) -> bool {
        self.is_pressed() && self.holds(tenant())
    }

    #[cold]
    fn holds(&self, tenant: TenantId) -> bool {
        self.pressure.lock().holds(tenant.number())
    }

    /// Lets operations go on although nothing could be committed.
    pub fn go_on(&self) {
        self.set_pressure(Pressure::None);
    }

    /// Finds out who waits from now on.
    pub fn weigh(&self) {
        let mut all = Owed::default();
        self.cores
            .iter()
            .for_each(|core| all.add_all(&core.lock().owed));
        self.unwritten.add_owed(&mut all);
        self.set_pressure(all.pressure(self.bounds.most, &*self.weight));
    }

    /// [`ChangeLog::weigh`], if somebody waits.
    fn weigh_again(&self) {
        if self.is_pressed() {
            self.weigh();
        }
    }

    fn set_pressure(&self, pressure: Pressure) {
        let mut now = self.pressure.lock();
        let is_overfull = pressure != Pressure::None;
        *now = pressure;
        // Relaxed: see the field.
        self.clock.0.overfull.store(is_overfull, Ordering::Relaxed);
    }

    /// Appends a record of an operation that is pinned.
    pub fn append(&self, record: Record) {
        let added = self.cores.get().lock().add(record);
        self.look_at_records(added);
    }

    /// [`ChangeLog::append`] of a new inode.
    pub fn append_new(&self, inode: Box<Inode>) {
        let mut core = self.cores.get().lock();
        let before = core.extra;
        let added = core.add_new(inode, self.bounds.operation());
        let after = core.extra;
        drop(core);
        self.look_at_records(added);
        self.look_at_extra(before, after);
    }

    /// [`ChangeLog::append`] of attributes. Returns whether an earlier record has taken them.
    pub fn append_attrs(&self, ino: u64, version: u32, attrs: &Attrs) -> bool {
        let cost = self.bounds.operation();
        let added = (self.cores.get().lock()).add_attrs(ino, version, attrs, cost);
        self.look_at_records(added);
        added == Added::Absorbed
    }

    /// [`ChangeLog::append`] of the extended attributes of an inode, number and generation, which
    /// `tenant` owes. `is_apart`: others may have been recorded before. Leaves in `xattrs` what is
    /// no longer needed. Returns whether an earlier record has taken them.
    pub fn append_xattrs(
        &self,
        of: (u64, u32),
        version: u32,
        xattrs: &mut Vec<Xattr>,
        is_apart: bool,
        tenant: TenantId,
    ) -> bool {
        let mut core = self.cores.get().lock();
        let before = core.extra;
        let added = core.add_xattrs(of, version, xattrs, is_apart, tenant.number());
        let after = core.extra;
        drop(core);
        self.look_at_records(added);
        self.look_at_extra(before, after);
        added == Added::Absorbed
    }

    /// [`ChangeLog::append`] of what a name in a directory, inode and generation, means from now
    /// on.
    pub fn append_name(&self, dir: (u64, u32), name: &[u8], version: u32, to: Option<Target>) {
        let added = (self.cores.get().lock()).add_name(dir, name, version, to);
        self.look_at_records(added);
    }

    /// [`ChangeLog::append`] of entries of a directory, inode and generation, that came or went:
    /// all and subdirectories. `touch` is the order of the touch and its time.
    pub fn append_entries(&self, dir: (u64, u32), delta: (i64, i64), touch: (u64, u64)) {
        let added = (self.cores.get().lock()).add_entries(dir, delta, touch);
        self.look_at_records(added);
    }

    /// [`ChangeLog::append`] of the end of an inode, number and generation; `is_apart`: more was
    /// recorded of it than its first record has taken. Returns false if the backend never hears of
    /// the inode. Else `leave` is called before a commit can have the record.
    pub fn append_end(&self, of: (u64, u32), is_apart: bool, leave: impl FnOnce()) -> bool {
        let mut core = self.cores.get().lock();
        let added = core.add_end(of, is_apart, self.bounds.operation());
        if added == Added::Brief {
            return false;
        }
        leave();
        drop(core);
        self.look_at_records(added);
        true
    }

    /// Asks for a commit where the list of this core has grown to many records.
    #[inline]
    fn look_at_records(&self, added: Added) {
        if let Added::Behind(length) = added
            && self.bounds.asks_at(length)
        {
            self.press();
        }
    }

    /// Counts pages of a file of `tenant` that a record of an operation is about to carry.
    pub fn count_carried(&self, bytes: u64, tenant: TenantId) {
        let mut core = self.cores.get().lock();
        let before = core.extra;
        core.owe(tenant.number(), bytes);
        let after = core.extra;
        drop(core);
        self.look_at_extra(before, after);
    }

    /// Asks for a commit where the records of this core have come to carry many bytes.
    #[inline]
    fn look_at_extra(&self, before: u64, after: u64) {
        if after > before && self.bounds.asks_between(before, after) {
            self.press();
        }
    }

    /// Records a setting, or with `None` that there is none; nothing while the volume is read-only.
    /// Under the lock that orders the changes of this key. The caller need not be pinned: a sync
    /// that begins after this has it.
    pub fn set(&self, key: Box<[u8]>, value: Option<Box<[u8]>>) {
        if self.keeps_settings() {
            let mut settings = self.settings.lock();
            settings.version = settings.version.wrapping_add(1);
            let version = settings.version;
            settings.changed.insert(key, (version, value));
        }
    }

    /// Whether settings are taken.
    pub fn keeps_settings(&self) -> bool {
        // Relaxed: see the field.
        self.keeps_settings.load(Ordering::Relaxed)
    }

    /// Takes or refuses settings from now on.
    pub fn keep_settings(&self, keeps: bool) {
        // Relaxed: see the field.
        self.keeps_settings.store(keeps, Ordering::Relaxed);
    }

    /// Asks for a commit, and lets tenants wait for it who have more than their share.
    #[cold]
    fn press(&self) {
        self.weigh();
        self.signal.want();
    }

    /// Counts bytes that were written to a file of `tenant`. Returns whether room should be looked
    /// at again.
    pub fn count_bytes(&self, written: WrittenRange, tenant: TenantId) -> bool {
        self.look_at(self.unwritten.add_written(written, tenant))
    }

    /// Whether tenants wait for a commit and a write-back.
    pub fn is_pressed(&self) -> bool {
        // Relaxed: see the field.
        self.clock.0.overfull.load(Ordering::Relaxed)
    }

    /// Counts bytes that a write-back has left.
    pub fn count_left(&self, bytes: u64, tenant: TenantId) {
        self.look_at(self.unwritten.add(bytes, tenant));
    }

    /// Counts bytes that were allocated and not written: the backend counts them from the next
    /// commit on.
    pub fn count_allocated(&self, bytes: u64, tenant: TenantId) {
        self.look_at(self.unwritten.add_allocated(bytes, tenant));
    }

    /// Asks for what a count is a reason for. Returns whether room should be looked at again.
    fn look_at(&self, counted: Counted) -> bool {
        match counted {
            Counted::Grown { before, after } => {
                if self.bounds.asks_between(before, after) {
                    self.press();
                }
                before / LOOK_BYTES != after / LOOK_BYTES
            }
            Counted::Early(waiting) => {
                self.signal.want_early();
                if waiting >= self.bounds.most {
                    self.press();
                }
                true
            }
        }
    }

    /// An early write-back of `sum` bytes of `tenant` has ended. Where it failed they wait for the
    /// next sync.
    pub fn end_early(&self, sum: u64, tenant: TenantId, is_done: bool) {
        self.unwritten.end_early(sum, tenant, is_done);
        self.weigh_again();
    }

    /// The files that were taken last are written back. What is returned is dropped behind the
    /// commit of that.
    pub fn end_taken(&self) -> Uncommitted<'_> {
        let uncommitted = self.unwritten.end_taken();
        self.weigh_again();
        uncommitted
    }

    /// Counts the contents that a record is about to carry.
    pub fn count_inline(&self, extents: &[Extent]) {
        let bytes = |extent: &Extent| match &extent.place {
            Place::Inline(bytes) => bytes.len() as u64,
            _ => 0,
        };
        let sum: u64 = extents.iter().map(bytes).sum();
        if sum > 0 {
            // Relaxed: see the field.
            self.inline.fetch_add(sum, Ordering::Relaxed);
        }
    }

    /// Whether the records of this epoch carry so much that whoever adds to it commits it first.
    pub fn is_heavy(&self) -> bool {
        // Relaxed: see the field.
        self.inline.load(Ordering::Relaxed) >= HEAVY_BYTES
    }

    /// Whether no record waits for a commit.
    pub fn is_empty(&self) -> bool {
        self.cores.iter().all(|core| core.lock().is_empty())
            && self.settings.lock().changed.is_empty()
    }

    /// Whether no record waits for a commit but of the attributes of `ino`. May say false where
    /// that is so.
    pub fn has_only_attrs_of(&self, ino: u64) -> bool {
        self.cores
            .iter()
            .all(|core| core.lock().has_only_attrs_of(ino))
            && self.settings.lock().changed.is_empty()
    }

    /// Ends the epoch and takes its records. `settle` runs while no operation changes anything and
    /// may append; if it returns false the epoch goes on and nothing is taken. One thread at a
    /// time; it is not pinned and holds no lock.
    pub fn cut(&self, settle: impl FnOnce() -> bool) -> Option<Cut> {
        // SeqCst: see `may_begin`.
        self.clock.0.cutting.store(true, Ordering::SeqCst);
        let _open = Reopen(&self.clock.0.cutting);
        epoch::synchronize();
        if !settle() {
            return None;
        }
        let mut records = Vec::new();
        for core in self.cores.iter() {
            core.lock().move_to(&mut records);
        }
        self.weigh_again();
        // Relaxed: see the field.
        self.inline.store(0, Ordering::Relaxed);
        // Held until the next epoch has begun: a setting that this cut misses is in that one for
        // whoever syncs it.
        let mut settings = self.settings.lock();
        let changed = std::mem::take(&mut settings.changed).into_iter();
        records.extend(changed.map(|(key, (version, value))| Record::Setting {
            key,
            version,
            value,
        }));
        let next = epoch_behind(self.epoch());
        // Release: partner of `epoch`.
        self.clock.0.epoch.store(next, Ordering::Release);
        let epoch = next - 1;
        Some(Cut { epoch, records })
    }
}

/// The epoch behind this one. None has the low bits 0: these are the tag of what was never
/// recorded, which would be pending until the next commit.
fn epoch_behind(epoch: u64) -> u64 {
    match (epoch + 1).is_multiple_of(TAGS) {
        true => epoch + 2,
        false => epoch + 1,
    }
}

/// Lets operations go on, also after a panic.
struct Reopen<'a>(&'a AtomicBool);

impl Drop for Reopen<'_> {
    fn drop(&mut self) {
        // Release: an operation that goes on sees the next epoch.
        self.0.store(false, Ordering::Release);
    }
}
