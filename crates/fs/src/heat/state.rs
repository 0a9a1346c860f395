//! What tracking holds, and the drain that moves counts of the CPUs into the records.

use super::key::{Access, Key};
use super::listeners::{self, HeatChange};
use super::percpu::{DrainProgress, Drained, PerCpuTable, RANGE_SHIFT};
use super::place::{SHARDS, STRIPE_SHIFT, shard_of};
use super::portion::KeepCursor;
use super::record::{FileId, WHOLE};
use super::sample_budget::PERIOD;
use super::score::{Counts, HalfLives, Millis};
use super::settings::HeatSettings;
use super::shard::Shard;
use super::tenants::{TenantCounts, TenantTable};
use super::tracked::Tracked;
use crate::inode::{Inode, StateBit};
use crate::superblock::Objects;
use hearth_sync::epoch::pin;
use hearth_sync::lock::{Class, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashMap;

/// Entries that a drain handles under one epoch guard.
const CHUNK: usize = 256;
/// Most ranges whose counts are set aside between two drains.
const ASIDE: usize = 1 << 16;

lock_class! {
    /// One portion is kept at a time.
    pub(super) KeepLock = "heat.keep", 930;
    /// Below `heat.drain`, under which a drain takes what is there.
    pub(super) AsideLock = "heat.aside", 945;
    pub(super) UnseenLock = "heat.unseen", 970;
}

pub(super) struct DrainLock;
impl Class for DrainLock {
    const NAME: &'static str = "heat.drain";
    const RANK: u32 = 940;
}

pub(super) struct ShardLock;
impl Class for ShardLock {
    const NAME: &'static str = "heat.shard";
    const RANK: u32 = 950;
}

pub(super) struct LateLock;
impl Class for LateLock {
    const NAME: &'static str = "heat.late";
    const RANK: u32 = 970;
}

pub(super) struct TenantLock;
impl Class for TenantLock {
    const NAME: &'static str = "heat.tenants";
    const RANK: u32 = 960;
}

pub(super) struct HeatState {
    pub table: PerCpuTable,
    pub drain: Lock<DrainLock, DrainState>,
    /// [`SHARDS`] shards, made one by one because the stack of a thread may be small.
    pub shards: Box<[Lock<ShardLock, Shard>]>,
    pub tenants: Lock<TenantLock, TenantTable>,
    /// Counts of accesses that found no room in the table of their CPU.
    pub aside: Lock<AsideLock, HashMap<Key, Counts>>,
    /// Files that have ended and whose notice did not fit a ring.
    pub late: Lock<LateLock, Vec<Key>>,
    /// How far the portion is that is being kept.
    pub keep: Lock<KeepLock, KeepCursor>,
    /// Files whose heat was kept and that nobody has looked for yet.
    pub unseen: Lock<UnseenLock, Vec<FileId>>,
    /// A CPU samples, or has begun to drop accesses. Relaxed: a hint.
    pub pressed: AtomicBool,
    /// A ring fills, and its accesses are not sampled: the next drain does not wait. Relaxed: a
    /// hint.
    pub urgent: AtomicBool,
    /// Number of drains. Relaxed: a statistic.
    pub drains: AtomicU64,
}

pub(super) struct DrainState {
    seen: DrainProgress,
    batch: Vec<(Key, Counts)>,
    /// Files that have ended, and whether their records may lie in several shards.
    ended: Vec<(Key, bool)>,
    /// The ended files of the previous drain, if the backend can evict inodes: accesses before the
    /// end of a file may have arrived after that drain read their slot, so this drain finds them.
    ended_before: Vec<(Key, bool)>,
    /// When the period of the sample budgets began.
    since: Millis,
}

impl HeatState {
    pub fn new() -> HeatState {
        let table = PerCpuTable::new();
        let seen = table.seen();
        HeatState {
            table,
            drain: Lock::new(DrainState {
                seen,
                batch: Vec::new(),
                ended: Vec::new(),
                ended_before: Vec::new(),
                since: 0,
            }),
            shards: (0..SHARDS).map(|_| Lock::new(Shard::new())).collect(),
            tenants: Lock::new(TenantTable::default()),
            aside: Lock::new(HashMap::new()),
            late: Lock::new(Vec::new()),
            keep: Lock::new(KeepCursor::default()),
            unseen: Lock::new(Vec::new()),
            pressed: AtomicBool::new(false),
            urgent: AtomicBool::new(false),
            drains: AtomicU64::new(0),
        }
    }

    /// The shard of the record of a file, and of its first ranges.
    pub fn file_shard(&self, file: FileId) -> &Lock<ShardLock, Shard> {
        self.range_shard(file, WHOLE)
    }

    /// The shard of the record of a range.
    pub fn range_shard(&self, file: FileId, range: u64) -> &Lock<ShardLock, Shard> {
        &self.shards[shard_of(file, range)]
    }

    /// All shards in which the file may have records.
    pub fn shards_of(
        &self,
        file: FileId,
        striped: bool,
    ) -> impl Iterator<Item = &Lock<ShardLock, Shard>> {
        let all = striped.then_some(&self.shards);
        let backend = all.is_none().then(|| self.file_shard(file));
        all.into_iter().flatten().chain(backend)
    }

    /// Adds all counts of the CPUs to the records. True if the sampling epoch should end.
    pub fn drain(
        &self,
        objects: &Objects,
        settings: &HeatSettings,
        changes: &mut Option<Vec<HeatChange>>,
    ) -> bool {
        let mut draining = self.drain.lock();
        let DrainState {
            seen,
            batch,
            ended,
            ended_before,
            since,
        } = &mut *draining;
        self.pressed.store(false, Ordering::Relaxed);
        self.urgent.store(false, Ordering::Relaxed);
        batch.clear();
        let now = now(objects);
        self.table.drain(seen, |found| match found {
            Drained::Counts(key, counts) => batch.push((key, *counts)),
            Drained::Ended(key, striped) => ended.push((key, striped)),
        });
        // In a statement of its own: accesses wait for the lock until its end.
        let aside = std::mem::take(&mut *self.aside.lock());
        batch.extend(aside);
        let draws_end = self.renew(since, now);
        let lives = settings.half_lives();
        let mut owners = TenantCounts::new();
        for chunk in batch.chunks(CHUNK) {
            let g = pin();
            for (key, counts) in chunk {
                let Some(file) = Tracked::of(objects, key.file(), &g) else {
                    continue;
                };
                let inode = file.inode();
                let beyond = is_behind(file.size(), key.range());
                if let Some(inode) = inode {
                    mark(inode, key.range());
                }
                let at = (now, &lives);
                self.credit(*key, counts, settings, at, !beyond, changes);
                if let Some(tenants) = file.tenants() {
                    owners.add(tenants, &of_file(*key, counts));
                }
                let Some(inode) = inode else { continue };
                // Truncated meanwhile: a truncate sets the size before it looks for records.
                if !beyond && is_beyond(inode, key.range()) {
                    let shard = self.range_shard(key.file(), key.range());
                    shard.lock().truncate(key.file(), key.range());
                }
                // The inode is marked, so an end from now on leaves a notice. This check is for an
                // end that looked at the mark before.
                if inode.is_dead() {
                    ended.push((*key, true));
                }
            }
        }
        ended.extend(self.late.lock().drain(..).map(|key| (key, true)));
        for &(key, striped) in ended.iter().chain(&*ended_before) {
            self.forget(key.file(), striped);
        }
        ended_before.clear();
        if objects.log.is_some() {
            std::mem::swap(ended_before, ended);
        }
        ended.clear();
        self.tenants.lock().touch(owners, now, &lives);
        self.drains.fetch_add(1, Ordering::Relaxed);
        draws_end
    }

    /// Counts an access that found no room in the table of its CPU. One beyond [`ASIDE`] ranges is
    /// dropped.
    #[cold]
    pub fn set_aside(&self, key: Key, access: Access, weight: u64, bytes: u64) {
        let mut aside = self.aside.lock();
        if aside.len() >= ASIDE && !aside.contains_key(&key) {
            drop(aside);
            return self.table.drop_accesses(weight);
        }
        aside
            .entry(key)
            .or_default()
            .add(&Counts::sampled(access, weight, bytes));
    }

    /// Ends the period of the budgets, unless it has hardly begun. True if the sampling epoch
    /// should end.
    fn renew(&self, since: &mut Millis, now: Millis) -> bool {
        let millis = now.saturating_sub(*since);
        let is_over = millis >= PERIOD;
        if is_over {
            *since = now;
        }
        let draws_end = is_over && self.table.renew(millis);
        if self.table.is_sampled() {
            // The next drain checks soon whether sampling is still needed.
            self.pressed.store(true, Ordering::Relaxed);
        }
        draws_end
    }

    /// Drops the records of a file.
    pub fn forget(&self, file: FileId, striped: bool) {
        self.shards_of(file, striped)
            .for_each(|shard| shard.lock().forget(file));
    }

    /// Adds the counts of one range to the file and, unless the file now ends before it, to the
    /// range.
    fn credit(
        &self,
        key: Key,
        counts: &Counts,
        settings: &HeatSettings,
        (now, lives): (Millis, &HalfLives),
        has_range: bool,
        changes: &mut Option<Vec<HeatChange>>,
    ) {
        let (file, range) = (key.file(), key.range());
        let both = [of_file(key, counts), *counts];
        let (file_shard, range_shard) = (self.file_shard(file), self.range_shard(file, range));
        let mut shard = file_shard.lock();
        // Read with the shard locked, so that it never grows past a limit that was set before.
        shard.set_max(settings.max_records() / SHARDS);
        if !has_range {
            let of_file = shard.touch_file(file, &both[0], now, lives);
            listeners::note(changes, (key.ino, WHOLE), of_file.0, of_file.1);
            return;
        }
        let [of_file, of_range] = if std::ptr::eq(file_shard, range_shard) {
            shard.touch(file, range, &both, now, lives)
        } else {
            let of_file = shard.touch_file(file, &both[0], now, lives);
            drop(shard);
            shard = range_shard.lock();
            shard.set_max(settings.max_records() / SHARDS);
            [of_file, shard.touch_range(file, range, counts, now, lives)]
        };
        listeners::note(changes, (key.ino, WHOLE), of_file.0, of_file.1);
        listeners::note(changes, (key.ino, range), of_range.0, of_range.1);
    }
}

/// The counts of a range as counts of the file: an access that continues into the range was counted
/// where it began.
fn of_file(key: Key, counts: &Counts) -> Counts {
    match key.goes_on() {
        true => Counts {
            reads: 0,
            writes: 0,
            estimated: 0,
            ..*counts
        },
        false => *counts,
    }
}

/// Marks that the inode will have a record of the range.
pub(super) fn mark(inode: &Inode, range: u64) {
    inode.state.set(StateBit::Tracked);
    if range >> STRIPE_SHIFT > 0 {
        inode.state.set(StateBit::TrackedApart);
    }
}

/// Whether a file ends before the range.
pub(super) fn is_beyond(inode: &Inode, range: u64) -> bool {
    is_behind(inode.data().map(|_| inode.meta.size()), range)
}

/// Whether a range lies behind the end of a file of this size. One that is no range does.
pub(super) fn is_behind(size: Option<u64>, range: u64) -> bool {
    range == Key::NO_RANGE || size.is_some_and(|size| size <= range << RANGE_SHIFT)
}

/// Whether the inode of a record has ended. An evicted inode has not.
pub(super) fn is_gone(objects: &Objects, file: FileId) -> bool {
    let g = pin();
    match Tracked::of(objects, file, &g) {
        // Another inode has its number.
        Some(Tracked::Evicted) => objects.inodes.get(file.0, &g).is_some(),
        found => found.is_none(),
    }
}

/// The current time of the records.
pub(super) fn now(objects: &Objects) -> Millis {
    BEFORE + objects.clock.monotonic()
}

/// Room for times before the clock began: records may be older than the machine is up.
const BEFORE: Millis = 1 << 42;
