//! Heat: which files and ranges are used, how much, how lately, and by whom.
//!
//! The protocol, the model and its bounds are in `docs/design/heat.md`.
//!
//! Lock order:
//! ```text
//! heat.fold        one fold at a time
//!   heat.shard     records of a part of the files
//!   heat.tenants   sums of users, groups and projects
//!   heat.late      files that have ended unheard of
//! heat.listeners   who is told of changes
//! ```

mod ageing;
mod allowance;
mod cells;
mod directories;
mod gauges;
mod grade;
mod handle;
mod info;
mod key;
mod line;
mod lot;
mod parse;
mod paths;
mod report;
mod settings;
mod shard;
mod subscribe;
mod tenants;
mod transfer;
mod warmth;

pub(crate) use ageing::Pass;
pub use directories::DirectoryHeat;
pub use gauges::HeatGauges;
pub use grade::{Grade, HOT_FROM, WARM_FROM};
pub use handle::Heat;
pub use info::HeatInfo;
pub(crate) use key::Access;
pub use parse::{BadLine, bad_lines};
pub use paths::Names;
pub(crate) use paths::path_fields;
pub use report::{FileHeat, HeatRank, RangeHeat, TenantHeat, Warm, WhatIf, WhatIfPoint};
pub(crate) use settings::Settings;
pub use settings::{HEAT_INTERVAL_MAX, HEAT_MEMORY_MAX};
pub use subscribe::{HeatChange, Subscription};
pub use tenants::Tenant;
pub use transfer::{Exported, Imported};

use crate::errno::{Errno, Result};
use crate::inode::{Inode, InodeExt, StateBit};
use crate::superblock::Superblock;
use allowance::PERIOD;
use cells::{Cells, Found, RANGE_SHIFT, Seen};
use hearth_sync::epoch::pin;
use hearth_sync::lock::{Class, Lock};
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use hearth_sync::primitive::{Arc, OnceLock};
use key::Key;
use lot::{Term, Terms};
use shard::{FileId, RECORD_BYTES, Shard, WHOLE};
use std::task::Waker;
use std::time::Duration;
use subscribe::Listeners;
use tenants::{Owners, Sums, Tenants};
use warmth::{Change, Counts, HalfLives, Millis};

/// Parts of the records.
pub(crate) const SHARDS: usize = 16;
/// Ranges of a file that lie in one shard, as a shift.
const STRIPE_SHIFT: u32 = 6;
/// Entries of a fold between two looks at the epoch.
const CHUNK: usize = 256;

struct FoldLock;
impl Class for FoldLock {
    const NAME: &'static str = "heat.fold";
    const RANK: u32 = 940;
}

struct ShardLock;
impl Class for ShardLock {
    const NAME: &'static str = "heat.shard";
    const RANK: u32 = 950;
}

struct LateLock;
impl Class for LateLock {
    const NAME: &'static str = "heat.late";
    const RANK: u32 = 970;
}

struct TenantsLock;
impl Class for TenantsLock {
    const NAME: &'static str = "heat.tenants";
    const RANK: u32 = 960;
}

/// The heat of one volume.
pub(crate) struct Tracker {
    terms: Terms,
    pub settings: Settings,
    /// Made when tracking is first switched on.
    state: OnceLock<Box<State>>,
    folder: OnceLock<Waker>,
    listeners: Arc<Listeners>,
}

struct State {
    cells: Cells,
    fold: Lock<FoldLock, Folding>,
    /// [`SHARDS`] of them; made one by one, since a thread's stack may be small.
    shards: Box<[Lock<ShardLock, Shard>]>,
    tenants: Lock<TenantsLock, Tenants>,
    /// Files that have ended, and of which the cells had no room for word.
    late: Lock<LateLock, Vec<Key>>,
    /// A core samples, or has begun to drop. Relaxed: a hint.
    pressed: AtomicBool,
    /// Folds so far. Relaxed: a statistic.
    folds: AtomicU64,
}

struct Folding {
    seen: Seen,
    batch: Vec<(Key, Counts)>,
    /// Files that have ended, and whether records of them may lie apart.
    ended: Vec<(Key, bool)>,
    /// Those of the fold before, of a backend that has inodes elsewhere: accesses before the end of a
    /// file may have been looked for before they came, and be found by the next fold only.
    ended_before: Vec<(Key, bool)>,
    /// When the period began that allowances are for.
    since: Millis,
}

impl Tracker {
    pub fn new(on: bool) -> Tracker {
        let heat = Tracker {
            terms: Terms::off(),
            settings: Settings::default(),
            state: OnceLock::new(),
            folder: OnceLock::new(),
            listeners: Arc::default(),
        };
        heat.switch(on);
        heat
    }

    /// Whether accesses are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.terms.is_on()
    }

    /// Records accesses from now on, or no longer. What is known stays.
    pub fn switch(&self, on: bool) {
        if on {
            self.state.get_or_init(|| Box::new(State::new()));
        }
        self.terms.switch(on);
    }

    /// Counts an access to the bytes `off .. off + len` of a file, or lets it pass for a sample.
    #[inline(always)]
    pub fn note(&self, inode: &Inode, access: Access, off: u64, len: usize) {
        if let Some(term) = self.terms.counts() {
            self.record(term, inode, (access, off, len as u64));
        }
    }

    #[inline(never)]
    fn record(&self, term: Term, inode: &Inode, (access, off, len): (Access, u64, u64)) {
        let Some(state) = self.state.get() else {
            return;
        };
        if len == 0 {
            term.draw_again();
            return;
        }
        let weight = term.weight();
        let mut next = 1;
        let first = off >> RANGE_SHIFT;
        for range in first..=(off + len - 1) >> RANGE_SHIFT {
            let from = off.max(range << RANGE_SHIFT);
            let to = (off + len).min((range + 1) << RANGE_SHIFT);
            let key = Key::new(inode.id.number, inode.id.generation, range);
            let key = if range == first { key } else { key.going_on() };
            let noted = state.cells.note(key, access, weight, to - from);
            if noted.is_pressed {
                self.press(state);
            }
            next = noted.weight;
        }
        if (weight, next) != (1, 1) {
            term.draw(next);
        }
    }

    /// The backend was asked for the page at `off`. Off the fast path, and before the access that
    /// wants the page, so that records are made here if there are none.
    pub fn note_load(&self, inode: &Inode, off: u64) {
        let (true, Some(state)) = (self.is_on(), self.state.get()) else {
            return;
        };
        let (file, range) = (
            file_id(inode.number(), inode.generation()),
            off >> RANGE_SHIFT,
        );
        mark(inode, range);
        let most = self.settings.most_records() / SHARDS;
        let (home, part) = (state.home(file), state.part(file, range));
        let mut shard = home.lock();
        shard.loaded(file, WHOLE, most);
        // Under one lock where it is one shard: the file's own record is not to go between.
        if !std::ptr::eq(home, part) {
            drop(shard);
            shard = part.lock();
        }
        shard.loaded(file, range, most);
        drop(shard);
        // As after a fold: whoever ends it from now on says so.
        if inode.is_dead() {
            state.forget(file, true);
        }
    }

    /// An inode ends: its records go with the next fold. If there are more of them than a fold
    /// should take, it is left to the sweep to find that the inode is gone; where an inode that is
    /// not in memory may be somewhere else, word of it is kept beside the cells.
    pub fn forget(&self, sb: &Superblock, inode: &Inode) {
        let Some((state, apart)) = self.tracking(sb, inode) else {
            return;
        };
        let file = Key::new(inode.number(), inode.generation(), 0);
        let ended = state.cells.end(file, apart);
        if !ended.is_told && sb.objects.backend.evictable() {
            state.late.lock().push(file);
        }
        if ended.is_pressed {
            self.press(state);
        }
    }

    /// A file now ends at `size`: what is known of the ranges behind goes.
    pub fn truncate(&self, sb: &Superblock, inode: &Inode, size: u64) {
        let Some((state, apart)) = self.tracking(sb, inode) else {
            return;
        };
        let file = file_id(inode.number(), inode.generation());
        let first_gone = size.div_ceil(1 << RANGE_SHIFT);
        let parts = state.parts_of(file, apart);
        parts.for_each(|shard| shard.lock().truncate(file, first_gone));
    }

    /// Wakes this task when a core begins to sample. The first one stays.
    pub fn wakes(&self, folder: Waker) {
        self.folder.get_or_init(|| folder);
    }

    /// Sets how fast things cool. Counts are scaled, so that they stand for the same rates.
    pub fn set_half_lives(&self, sb: &Superblock, short: Duration, long: Duration) -> Result<()> {
        let millis = |life: Duration| u64::try_from(life.as_millis()).map_err(|_| Errno::EINVAL);
        let (short, long) = (millis(short)?, millis(long)?);
        self.fold(sb);
        // No fold meanwhile.
        let _folding = self.state.get().map(|state| state.fold.lock());
        let old = self.settings.half_lives();
        self.settings.set_half_lives(short, long)?;
        let change = Change {
            now: sb.objects.clock.monotonic(),
            old,
            new: self.settings.half_lives(),
        };
        if let Some(state) = self.state.get() {
            for shard in &state.shards {
                shard.lock().adapt(&change);
            }
            state.tenants.lock().adapt(&change);
        }
        Ok(())
    }

    /// Whether a fold is due soon, whatever the clock says: a core samples, or files have ended
    /// that are to be forgotten.
    pub fn is_pressed(&self) -> bool {
        let state = self.state.get();
        state.is_some_and(|state| state.pressed.load(Ordering::Relaxed))
    }

    /// Whether there may be records.
    pub fn has_records(&self) -> bool {
        self.state.get().is_some()
    }

    /// Folds what the cores have counted into the records.
    pub fn fold(&self, sb: &Superblock) {
        if let Some(state) = self.state.get() {
            let mut changes = self.listeners.wanted();
            if state.fold(sb, &self.settings, &mut changes) {
                self.terms.renew();
            }
            self.listeners.tell(changes);
        }
    }

    /// A core begins to sample: somebody should fold. Asks once for each fold.
    #[cold]
    fn press(&self, state: &State) {
        if !state.pressed.load(Ordering::Relaxed)
            && !state.pressed.swap(true, Ordering::Relaxed)
            && let Some(folder) = self.folder.get()
        {
            folder.wake_by_ref();
        }
    }

    /// What was made when tracking was first switched on, if `inode` may have records, and whether
    /// they may lie apart.
    fn tracking(&self, sb: &Superblock, inode: &Inode) -> Option<(&State, bool)> {
        let state: &State = self.state.get()?;
        // Whoever was out of memory meanwhile has lost its marks.
        let evictable = sb.objects.backend.evictable();
        let marked = |mark| evictable || inode.state.has(mark);
        // A fold that sets it beside us looks again whether the inode has ended; what both miss the
        // sweep finds.
        marked(StateBit::Tracked).then(|| (state, marked(StateBit::TrackedApart)))
    }
}

impl State {
    fn new() -> State {
        let cells = Cells::new();
        let seen = cells.seen();
        State {
            cells,
            fold: Lock::new(Folding {
                seen,
                batch: Vec::new(),
                ended: Vec::new(),
                ended_before: Vec::new(),
                since: 0,
            }),
            shards: (0..SHARDS).map(|_| Lock::new(Shard::new())).collect(),
            tenants: Lock::new(Tenants::default()),
            late: Lock::new(Vec::new()),
            pressed: AtomicBool::new(false),
            folds: AtomicU64::new(0),
        }
    }

    /// Where the record of a file is, and those of its first ranges.
    fn home(&self, file: FileId) -> &Lock<ShardLock, Shard> {
        self.part(file, 0)
    }

    /// Where the record of a range is. Large files are spread, so that each shard can bound its
    /// part of the memory by itself.
    fn part(&self, file: FileId, range: u64) -> &Lock<ShardLock, Shard> {
        let stripe = (range >> STRIPE_SHIFT).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let mixed = file
            .0
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(stripe);
        &self.shards[(mixed >> 60) as usize]
    }

    /// Every shard where the file may have records.
    fn parts_of(&self, file: FileId, apart: bool) -> impl Iterator<Item = &Lock<ShardLock, Shard>> {
        let all = apart.then_some(&self.shards);
        let home = all.is_none().then(|| self.home(file));
        all.into_iter().flatten().chain(home)
    }

    /// Whether what threads have drawn should end.
    fn fold(
        &self,
        sb: &Superblock,
        settings: &Settings,
        changes: &mut Option<Vec<HeatChange>>,
    ) -> bool {
        let mut folding = self.fold.lock();
        let Folding {
            seen,
            batch,
            ended,
            ended_before,
            since,
        } = &mut *folding;
        self.pressed.store(false, Ordering::Relaxed);
        batch.clear();
        let now = sb.objects.clock.monotonic();
        self.cells.fold(seen, |found| match found {
            Found::Counts(key, counts) => batch.push((key, *counts)),
            Found::Ended(key, apart) => ended.push((key, apart)),
        });
        let draws_end = self.renew(since, now);
        let lives = settings.half_lives();
        let mut owners = Sums::new();
        for chunk in batch.chunks(CHUNK) {
            let g = pin();
            for (key, counts) in chunk {
                let inode = sb.objects.inodes.get(key.ino, &g);
                let inode = inode.filter(|inode| key.is_of(inode.generation()) && !inode.is_dead());
                if inode.is_none() && !sb.objects.backend.evictable() {
                    continue;
                }
                let beyond = inode.is_some_and(|inode| is_beyond(inode, key.range()));
                if let Some(inode) = inode {
                    mark(inode, key.range());
                }
                let at = (now, &lives);
                self.credit(*key, counts, settings, at, !beyond, changes);
                let Some(inode) = inode else { continue };
                // Cut meanwhile: whoever cuts has set the size before it looks for records.
                if !beyond && is_beyond(inode, key.range()) {
                    let part = self.part(key.file(), key.range());
                    part.lock().truncate(key.file(), key.range());
                }
                owners.add(Owners::of(&inode.fields()), &of_file(*key, counts));
                // It was marked before, so whoever ends it from now on says so; this is for who
                // looked at the mark before that.
                if inode.is_dead() {
                    ended.push((*key, true));
                }
            }
        }
        ended.extend(self.late.lock().drain(..).map(|key| (key, true)));
        for &(key, apart) in ended.iter().chain(&*ended_before) {
            self.forget(key.file(), apart);
        }
        ended_before.clear();
        if sb.objects.backend.evictable() {
            std::mem::swap(ended_before, ended);
        }
        ended.clear();
        self.tenants.lock().touch(owners, now, &lives);
        self.folds.fetch_add(1, Ordering::Relaxed);
        draws_end
    }

    /// Ends the period of the allowances, unless it has hardly begun. Whether what threads have
    /// drawn should end.
    fn renew(&self, since: &mut Millis, now: Millis) -> bool {
        let millis = now.saturating_sub(*since);
        let is_over = millis >= PERIOD;
        if is_over {
            *since = now;
        }
        let draws_end = is_over && self.cells.renew(millis);
        if self.cells.is_sampled() {
            // The next fold is to see soon whether that is still needed.
            self.pressed.store(true, Ordering::Relaxed);
        }
        draws_end
    }

    /// Drops the records of a file.
    fn forget(&self, file: FileId, apart: bool) {
        self.parts_of(file, apart)
            .for_each(|shard| shard.lock().forget(file));
    }

    /// Takes what was counted of one range, for the file and, unless the file ends before it by
    /// now, for the range.
    fn credit(
        &self,
        key: Key,
        counts: &Counts,
        settings: &Settings,
        (now, lives): (Millis, &HalfLives),
        has_range: bool,
        changes: &mut Option<Vec<HeatChange>>,
    ) {
        let (file, range) = (key.file(), key.range());
        let both = [of_file(key, counts), *counts];
        let (home, part) = (self.home(file), self.part(file, range));
        let mut shard = home.lock();
        // Asked with the shard held, so that none grows past a limit that was set before.
        shard.keep_below(settings.most_records() / SHARDS);
        if !has_range {
            let of_file = shard.touch_file(file, &both[0], now, lives);
            subscribe::note(changes, (key.ino, WHOLE), of_file.0, of_file.1);
            return;
        }
        let [of_file, of_range] = if std::ptr::eq(home, part) {
            shard.touch(file, range, &both, now, lives)
        } else {
            let of_file = shard.touch_file(file, &both[0], now, lives);
            drop(shard);
            shard = part.lock();
            shard.keep_below(settings.most_records() / SHARDS);
            [of_file, shard.touch_range(file, range, counts, now, lives)]
        };
        subscribe::note(changes, (key.ino, WHOLE), of_file.0, of_file.1);
        subscribe::note(changes, (key.ino, range), of_range.0, of_range.1);
    }
}

/// What the counts of a range are of the file: an access that goes on in it is counted where it
/// began.
fn of_file(key: Key, counts: &Counts) -> Counts {
    match key.goes_on() {
        true => Counts {
            reads: 0,
            writes: 0,
            ..*counts
        },
        false => *counts,
    }
}

/// There will be a record of the range.
fn mark(inode: &Inode, range: u64) {
    inode.state.set(StateBit::Tracked);
    if range >> STRIPE_SHIFT > 0 {
        inode.state.set(StateBit::TrackedApart);
    }
}

/// Whether a file ends before the range.
fn is_beyond(inode: &Inode, range: u64) -> bool {
    inode.data().is_some() && inode.meta.size() <= range << RANGE_SHIFT
}

/// A file as records know it: the bits of the generation that [`Key`] keeps.
fn file_id(ino: u64, generation: u32) -> FileId {
    Key::new(ino, generation, 0).file()
}

/// Whether the inode of a record has ended. An evicted one has not.
fn is_gone(sb: &Superblock, (ino, generation): FileId) -> bool {
    let g = pin();
    match sb.objects.inodes.get(ino, &g) {
        Some(inode) => file_id(ino, inode.generation()).1 != generation || inode.is_dead(),
        None => !sb.objects.backend.evictable(),
    }
}

/// Most records that `bytes` hold.
fn records_in(bytes: u64) -> usize {
    usize::try_from(bytes / RECORD_BYTES).unwrap_or(usize::MAX)
}

/// Now, in the time of the records.
fn now(sb: &Superblock) -> Millis {
    sb.objects.clock.monotonic()
}
