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
//! object.

use crate::cache_padded::CachePadded;
use crate::owed::{LogBounds, Owed, Pressure, payer};
use crate::tenant::TenantId;
use crate::write_streams::{WriteStreams, WrittenRange};
use hearth_backend::{Extent, Place, Record};
use hearth_sync::epoch;
use hearth_sync::lock::{Lock, LockGuard};
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use hearth_sync::primitive::{Arc, Condvar, Mutex};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

lock_class! {
    CoreLock = "log.core", 980;
    DirtyLock = "log.dirty", 981;
    SettingsLock = "log.settings", 982;
    PressureLock = "log.pressure", 983;
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
    dirty: PerCpu<Lock<DirtyLock, DirtyFiles>>,
    settings: Lock<SettingsLock, Settings>,
    /// Whether settings are taken. Relaxed: a flag of its own.
    keeps_settings: AtomicBool,
    /// What tenants owe of the files that were taken to be written back.
    taken: Lock<PressureLock, Owed>,
    /// Tenants that wait, if [`EpochClock::overfull`] says that some do.
    pressure: Lock<PressureLock, Pressure>,
    /// Bytes of contents in the records of this epoch. Relaxed: an estimate.
    inline: AtomicU64,
    /// What tenants owe of the bytes that wait for an early write-back.
    early: Lock<PressureLock, Owed>,
    /// Wakes the thread that commits by itself.
    pub signal: Arc<CommitSignal>,
}

/// Read by every operation that changes something, written by cuts alone.
struct EpochClock {
    epoch: AtomicU64,
    cutting: AtomicBool,
    /// Whether tenants wait for a commit and a write-back before they change something. Relaxed:
    /// a bound that may be met a little late.
    overfull: AtomicBool,
}

/// The weight of the tenant with a number of the scheduler's.
pub(crate) type Weight = dyn Fn(u64) -> u32 + Send + Sync;

/// Records of one core, and whose they are.
#[derive(Default)]
struct CoreRecords {
    records: Vec<Record>,
    owed: Owed,
}

/// Files whose contents are to be written, by number.
#[derive(Default)]
pub(crate) struct DirtyFiles {
    /// All files with unwritten contents, each at least once.
    pub all: Vec<u64>,
    /// Those whose contents the next commit waits for: they replaced another file, or were cut to
    /// nothing, and a commit that holds that must not lose both.
    pub first: Vec<u64>,
    /// Bytes written since the lists were taken, without those of `early`, and whose they are.
    pub bytes: u64,
    owed: Owed,
    /// Files of which a lot is written.
    streams: WriteStreams,
    /// What is to be written back early, and for whom.
    early: Vec<(WrittenRange, TenantId)>,
}

/// Settings that the backend has yet to get.
#[derive(Default)]
struct Settings {
    /// Number of the last change.
    version: u32,
    /// By key: the number of its last change, and its value.
    changed: BTreeMap<Box<[u8]>, (u32, Option<Box<[u8]>>)>,
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
            dirty: PerCpu::new(|_| Lock::new(DirtyFiles::default())),
            settings: Lock::new(Settings::default()),
            keeps_settings: AtomicBool::new(true),
            taken: Lock::new(Owed::default()),
            pressure: Lock::new(Pressure::None),
            inline: AtomicU64::new(0),
            early: Lock::new(Owed::default()),
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
        // Relaxed: see the field.
        self.clock.0.overfull.load(Ordering::Relaxed) && self.holds(tenant())
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
        self.dirty
            .iter()
            .for_each(|core| all.add_all(&core.lock().owed));
        all.add_all(&self.taken.lock());
        all.add_all(&self.early.lock());
        self.set_pressure(all.pressure(self.bounds.most, &*self.weight));
    }

    /// [`ChangeLog::weigh`], if somebody waits.
    fn weigh_again(&self) {
        // Relaxed: see the field.
        if self.clock.0.overfull.load(Ordering::Relaxed) {
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
        let mut core = self.cores.get().lock();
        if let Some(tenant) = payer(&record) {
            core.owed.add(tenant, self.bounds.operation());
        }
        core.records.push(record);
        let length = core.records.len();
        drop(core);
        if self.bounds.asks_at(length) {
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

    /// A file has unwritten contents.
    pub fn note_dirty(&self, ino: u64) {
        self.dirty.get().lock().all.push(ino);
    }

    /// The next commit must not come without the contents of this file.
    pub fn note_first(&self, ino: u64) {
        self.dirty.get().lock().first.push(ino);
    }

    /// Counts bytes that were written to a file of `tenant`. Returns whether room should be looked
    /// at again.
    pub fn count_bytes(&self, ino: u64, written: Range<u64>, tenant: TenantId) -> bool {
        let mut dirty = self.dirty.get().lock();
        let bytes = written.end - written.start;
        if let Some(file) = dirty.streams.note(ino, written) {
            dirty.bytes += bytes;
            dirty.owed.add(tenant.number(), bytes);
            self.begin_early(dirty, file, tenant);
            return true;
        }
        self.add_bytes(dirty, bytes, tenant)
    }

    /// Counts bytes that were allocated and not written: the backend counts them from the next
    /// commit on.
    pub fn count_allocated(&self, bytes: u64, tenant: TenantId) {
        self.add_bytes(self.dirty.get().lock(), bytes, tenant);
    }

    fn add_bytes(
        &self,
        mut dirty: LockGuard<'_, DirtyLock, DirtyFiles>,
        bytes: u64,
        tenant: TenantId,
    ) -> bool {
        let before = dirty.bytes;
        dirty.owed.add(tenant.number(), bytes);
        let after = before + bytes;
        dirty.bytes = after;
        drop(dirty);
        if self.bounds.asks_between(before, after) {
            self.press();
        }
        before / LOOK_BYTES != after / LOOK_BYTES
    }

    /// Asks for an early write-back.
    #[cold]
    fn begin_early(
        &self,
        mut dirty: LockGuard<'_, DirtyLock, DirtyFiles>,
        file: WrittenRange,
        tenant: TenantId,
    ) {
        dirty.bytes -= file.sum;
        dirty.owed.take(tenant.number(), file.sum);
        let mut early = self.early.lock();
        early.add(tenant.number(), file.sum);
        let waiting = early.sum();
        drop(early);
        dirty.early.push((file, tenant));
        drop(dirty);
        self.signal.want_early();
        if waiting >= self.bounds.most {
            self.press();
        }
    }

    /// Takes what is to be written back early, each file once.
    pub fn take_early(&self) -> Vec<(WrittenRange, TenantId)> {
        let mut all: Vec<(WrittenRange, TenantId)> = Vec::new();
        for core in self.dirty.iter() {
            for (file, tenant) in core.lock().early.drain(..) {
                let is_it = |(known, of): &&mut (WrittenRange, TenantId)| {
                    known.ino == file.ino && *of == tenant
                };
                match all.iter_mut().find(is_it) {
                    Some((known, _)) => known.add(&file),
                    None => all.push((file, tenant)),
                }
            }
        }
        all
    }

    /// An early write-back of `sum` bytes of `tenant` has ended. Where it failed they wait for the
    /// next sync.
    pub fn end_early(&self, sum: u64, tenant: TenantId, is_done: bool) {
        if !is_done {
            let mut dirty = self.dirty.get().lock();
            dirty.bytes += sum;
            dirty.owed.add(tenant.number(), sum);
        }
        self.early.lock().take(tenant.number(), sum);
        self.weigh_again();
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

    /// Bytes that were written and may not have reached the backend.
    pub fn dirty_bytes(&self) -> u64 {
        let waiting: u64 = self.dirty.iter().map(|core| core.lock().bytes).sum();
        let taken = self.taken.lock().sum();
        let early = self.early.lock().sum();
        waiting + taken + early
    }

    /// The files that were taken last are written back.
    pub fn end_taken(&self) {
        let taken = std::mem::take(&mut *self.taken.lock());
        drop(taken);
        self.weigh_again();
    }

    /// Takes the files that the next commit waits for.
    pub fn take_first(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for core in self.dirty.iter() {
            all.append(&mut core.lock().first);
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Takes the files with unwritten contents.
    pub fn take_dirty(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for core in self.dirty.iter() {
            let mut dirty = core.lock();
            all.append(&mut dirty.all);
            dirty.streams.clear();
            dirty.bytes = 0;
            let early = std::mem::take(&mut dirty.early);
            let mut taken = self.taken.lock();
            taken.add_all(&std::mem::take(&mut dirty.owed));
            for (file, tenant) in &early {
                taken.add(tenant.number(), file.sum);
            }
            drop(taken);
            let mut waiting = self.early.lock();
            for (file, tenant) in &early {
                waiting.take(tenant.number(), file.sum);
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether no record waits for a commit.
    pub fn is_empty(&self) -> bool {
        self.cores.iter().all(|core| core.lock().records.is_empty())
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
            let taken = std::mem::take(&mut *core.lock());
            records.extend(taken.records);
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

/// What the threads that commit and write back by themselves wait for. It outlives the volume as
/// long as these threads, which therefore hold no volume while they wait.
#[derive(Default)]
pub(crate) struct CommitSignal {
    state: Mutex<Signalled>,
    /// A commit is wanted, or the volume has ended.
    changed: Condvar,
    /// An early write-back is wanted, or the volume has ended.
    early: Condvar,
}

#[derive(Default)]
struct Signalled {
    /// Whether a commit of everything is to come soon.
    is_wanted: bool,
    /// Whether an early write-back is to come.
    is_early: bool,
    /// Whether the volume has ended.
    is_closed: bool,
}

impl CommitSignal {
    /// Waits until `interval` is over or a commit is wanted; false if the volume has ended.
    pub fn wait(&self, interval: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed && !state.is_wanted {
            self.changed.wait_for(&mut state, interval);
        }
        state.is_wanted = false;
        !state.is_closed
    }

    /// Asks for a commit of everything soon.
    pub fn want(&self) {
        if !std::mem::replace(&mut self.state.lock().is_wanted, true) {
            self.changed.notify_all();
        }
    }

    /// Waits until an early write-back is wanted; false if the volume has ended.
    pub fn wait_early(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_closed && !state.is_early {
            self.early.wait(&mut state);
        }
        state.is_early = false;
        !state.is_closed
    }

    /// Asks for an early write-back.
    pub fn want_early(&self) {
        if !std::mem::replace(&mut self.state.lock().is_early, true) {
            self.early.notify_all();
        }
    }

    /// Whether a commit is wanted, or the volume has ended.
    pub fn is_wanted(&self) -> bool {
        let state = self.state.lock();
        state.is_wanted || state.is_closed
    }

    /// The volume ends. False if it has ended already.
    pub fn close(&self) -> bool {
        let is_first = !std::mem::replace(&mut self.state.lock().is_closed, true);
        self.changed.notify_all();
        self.early.notify_all();
        is_first
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

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    fn new_log(applied: u64) -> ChangeLog {
        ChangeLog::new(applied, LogBounds::of(0), Box::new(|_| 100))
    }

    fn gone(ino: u64) -> Record {
        Record::Gone { ino, generation: 0 }
    }

    #[test]
    fn a_cut_takes_what_was_appended_and_begins_the_next_epoch() {
        let log = new_log(7);
        log.append(gone(5));
        assert!(log.is_pending(log.epoch()));
        let cut = log.cut(|| true).expect("taken");
        assert_eq!((cut.epoch, cut.records.len()), (8, 1));
        assert_eq!(log.epoch(), 9);
        log.set_applied(8);
        assert!(!log.is_pending(8) && log.is_pending(9) && log.is_empty());
    }

    #[test]
    fn a_cut_that_does_not_settle_takes_nothing_and_lets_operations_go_on() {
        let log = new_log(0);
        log.append(gone(1));
        assert!(log.cut(|| false).is_none());
        assert!(log.may_begin() && !log.is_empty() && log.epoch() == 1);
    }

    #[test]
    fn a_cut_takes_the_last_value_of_each_setting_once() {
        let log = new_log(0);
        let value = |text: &str| Some(Box::from(text.as_bytes()));
        log.set(Box::from(*b"a"), value("1"));
        log.set(Box::from(*b"b"), value("2"));
        log.set(Box::from(*b"a"), None);
        assert!(!log.is_empty());
        let setting = |key: &[u8], version, value| Record::Setting {
            key: key.into(),
            version,
            value,
        };
        let cut = log.cut(|| true).expect("taken");
        let expected = [setting(b"a", 3, None), setting(b"b", 2, value("2"))];
        assert_eq!(cut.records, expected);
        log.keep_settings(false);
        log.set(Box::from(*b"c"), None);
        assert!(log.is_empty(), "the volume is read-only");
    }

    #[test]
    fn a_setting_is_in_the_epoch_that_its_writer_sees_then_or_in_an_earlier_one() {
        let log = std::sync::Arc::new(new_log(0));
        let is_over = std::sync::Arc::new(AtomicBool::new(false));
        let writer = {
            let (log, is_over) = (log.clone(), is_over.clone());
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let number = seen.len() as u64;
                    log.set(Box::from(*b"n"), Some(number.to_be_bytes().into()));
                    seen.push(log.epoch());
                }
                seen
            })
        };
        // The last number that each epoch and those before it hold.
        let mut held = vec![None];
        for _ in 0..2000 {
            let cut = log.cut(|| true).expect("taken");
            let last = held.last().copied().flatten();
            let number = cut.records.first().map(|record| match record {
                Record::Setting { value, .. } => value.clone().expect("a number"),
                _ => unreachable!("nothing else is appended"),
            });
            held.push(
                number
                    .or(last.map(u64::to_be_bytes).map(Into::into))
                    .map(|bytes| u64::from_be_bytes((*bytes).try_into().expect("eight bytes"))),
            );
        }
        is_over.store(true, Ordering::Relaxed);
        for (number, epoch) in writer.join().expect("ends").into_iter().enumerate() {
            if let Some(held) = held.get(epoch as usize) {
                assert!(
                    *held >= Some(number as u64),
                    "{number} in {epoch}: {held:?}"
                );
            }
        }
    }

    #[test]
    fn tags_are_pending_from_their_epoch_until_it_is_applied() {
        let log = new_log(62);
        let tag = log.epoch() as u8;
        assert!(log.is_tag_pending(tag));
        let cut = log.cut(|| true).expect("taken");
        assert!(log.is_tag_pending(tag), "cut and not applied");
        log.set_applied(cut.epoch);
        assert!(!log.is_tag_pending(tag));
    }

    #[test]
    fn what_was_never_recorded_is_not_pending_in_any_epoch() {
        let log = new_log(0);
        for _ in 0..300 {
            assert!(!log.is_tag_pending(0));
            let cut = log.cut(|| true).expect("taken");
            assert!(cut.epoch < log.epoch());
            log.set_applied(cut.epoch);
        }
        assert!(!new_log(255).is_tag_pending(0));
    }

    #[test]
    fn an_operation_is_in_one_epoch_however_many_records_it_appends() {
        let log = std::sync::Arc::new(new_log(0));
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let (log, stop) = (log.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut operation = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let _g = epoch::pin();
                        if !log.may_begin() || log.is_overfull(|| TenantId::System) {
                            continue;
                        }
                        operation += 1;
                        for _ in 0..3 {
                            log.append(gone(writer << 32 | operation));
                        }
                    }
                })
            })
            .collect();
        let mut halves = 0;
        for _ in 0..300 {
            let cut = log.cut(|| true).expect("taken");
            let mut seen = std::collections::HashMap::new();
            for record in cut.records {
                let Record::Gone { ino, .. } = record else {
                    continue;
                };
                *seen.entry(ino).or_insert(0) += 1;
            }
            halves += seen.values().filter(|&&records| records != 3).count();
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|w| w.join().expect("ends"));
        assert_eq!(halves, 0, "operations torn by a cut");
    }
}
