//! How many descriptors this process may have, and what for. Files that are open stay within their
//! part, so that calls which need a descriptor for a moment find one. Design:
//! `docs/design/host.md`, "Descriptors".

use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::Ordering::{Relaxed, SeqCst};
use hearth_sync::primitive::atomic::{AtomicBool, AtomicUsize};
use hearth_sync::primitive::thread;
use rustix::process::{Resource, geteuid, getrlimit};

/// Descriptors that one call has at most at a time: a rename with quotas while the tree is walked.
const CALL: usize = 8;
/// Calls at a time for which there is room, however small the limit is.
const CALLS_LEAST: usize = 2;
const CALLS_MOST: usize = 1024;
/// The daemon's own: log, mount, state, walks of the tree.
const OWN: usize = 24;
/// The daemon's own for each core: of each of its two readers `/dev/fuse`, and what wakes it.
const OWN_OF_CORE: usize = 4;
/// Bounds of what is kept of inodes that nobody has open.
const KEPT_LEAST: usize = 4;
const KEPT_MOST: usize = 4096;
/// One in so many of the places for open files is for directories alone, so that trees can be
/// listed and removed when files have taken the others.
const FOR_DIRECTORIES: usize = 8;
/// A user has at most so many times the places that are left: all users together never have all.
const SHARE: usize = 3;
/// Users are told apart by their number modulo this.
const USERS: usize = 1024;

/// The parts of the descriptors that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorParts {
    /// Kept of inodes that have no handles, and as many again of what a second look has found.
    pub kept: usize,
    /// Calls at a time.
    pub calls: usize,
    /// Open files, and what has no name any more and is used.
    pub open: usize,
}

impl DescriptorParts {
    /// Those of this process, whose limit was raised before.
    pub fn of_this_process() -> DescriptorParts {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        DescriptorParts::of(usize::try_from(most).unwrap_or(usize::MAX), cores)
    }

    fn of(most: usize, cores: usize) -> DescriptorParts {
        let kept = (most / 16).clamp(KEPT_LEAST, KEPT_MOST);
        let calls = (most / 4 / CALL).clamp(CALLS_LEAST, CALLS_MOST);
        let others = OWN + OWN_OF_CORE * cores + 2 * kept + calls * CALL;
        let open = most.saturating_sub(others).max(1);
        DescriptorParts { kept, calls, open }
    }
}

lock_class!(RoomLock = "host.room", 805);

/// Places that a core takes from the pool at a time.
const BATCH: usize = 32;

/// Places for open files.
#[derive(Debug)]
pub struct DescriptorRoom {
    /// One for each core, so that places refer to what no other core counts.
    shares: PerCpu<Arc<RoomShare>>,
}

#[derive(Debug)]
#[repr(align(128))]
struct RoomShare(Arc<Places>);

/// While more than half of them are free, a core has some in advance, and an open or a close writes
/// lines of its core alone. Nobody's share binds then: it is more than all that is taken. With less
/// the cores' places are recalled, and each open is decided under the lock.
///
/// Takes that find none on their core hold the lock. Closes take no lock, and only add.
///
/// | state | ordering |
/// |---|---|
/// | `pool`: places that no core has | Relaxed: each place is in one count at any time |
/// | `free` of a core | SeqCst, with `is_short` |
/// | `is_short` | SeqCst: a recall sees what a close has added, or the close sees this |
/// | `by_user` of a core | Relaxed: a share goes by about |
#[derive(Debug)]
struct Places {
    most: usize,
    pool: AtomicUsize,
    /// Less than half is free: no core has places.
    is_short: AtomicBool,
    cores: PerCpu<CoreRoom>,
    /// One decides at a time.
    deciding: Lock<RoomLock, ()>,
    /// The daemon's user, who is bound by no share, as root is not.
    own: u32,
}

/// What one core has.
#[derive(Debug)]
struct CoreRoom {
    /// Places that are free, and this core's.
    free: AtomicUsize,
    /// Places that users have taken on this core, less those that they gave back on it: below 0 it
    /// wraps.
    by_user: [AtomicUsize; USERS],
}

/// A place that is taken for as long as this lives. Its drop takes no lock.
#[derive(Debug)]
pub struct TakenPlace {
    share: Arc<RoomShare>,
    user: u32,
}

impl DescriptorRoom {
    /// Room for `most` open files.
    pub fn new(most: usize) -> DescriptorRoom {
        let places = Arc::new(Places::new(most));
        DescriptorRoom {
            shares: PerCpu::new(|_| Arc::new(RoomShare(Arc::clone(&places)))),
        }
    }

    /// A place for what `user` opens; `None` if there is none, or `user` has too many.
    pub fn take(&self, user: u32, is_directory: bool) -> Option<TakenPlace> {
        let share = self.shares.get();
        let places = &*share.0;
        let core = places.cores.get();
        if !places.take_free(core) && !places.decide(core, user, is_directory) {
            return None;
        }
        core.of(user).fetch_add(1, Relaxed);
        Some(TakenPlace {
            share: Arc::clone(share),
            user,
        })
    }
}

impl Places {
    fn new(most: usize) -> Places {
        Places {
            most,
            pool: AtomicUsize::new(most),
            is_short: AtomicBool::new(true),
            cores: PerCpu::new(|_| CoreRoom::new()),
            deciding: Lock::new(()),
            own: geteuid().as_raw(),
        }
    }

    /// Takes a place that a core has. With few left those that are given back are decided about as
    /// well, if one is seen here for a moment.
    fn take_free(&self, core: &CoreRoom) -> bool {
        !self.is_short.load(SeqCst) && core.take_free()
    }

    /// Takes a place from the pool, and more of them for this core while there are plenty.
    #[cold]
    fn decide(&self, core: &CoreRoom, user: u32, is_directory: bool) -> bool {
        let _one = self.deciding.lock();
        let most = match is_directory {
            true => self.most,
            false => self.most - self.most / FOR_DIRECTORIES,
        };
        // Where there were few, the cores have none until there is a batch for each.
        let batches = match self.is_short.load(Relaxed) {
            true => 1 + self.cores.iter().count(),
            false => 1,
        };
        if self.pool.load(Relaxed) >= self.most / 2 + batches * BATCH {
            self.is_short.store(false, SeqCst);
            self.pool.fetch_sub(BATCH, Relaxed);
            core.free.fetch_add(BATCH - 1, SeqCst);
            return true;
        }
        self.is_short.store(true, SeqCst);
        for core in self.cores.iter() {
            self.recall(core);
        }
        let before = self.most - self.pool.load(Relaxed);
        let Some(left) = most.checked_sub(before + 1) else {
            return false;
        };
        let has_share = user != 0 && user != self.own;
        if has_share && self.taken_by(user) >= SHARE * (left + 1) {
            return false;
        }
        self.pool.fetch_sub(1, Relaxed);
        true
    }

    /// Takes back what a core has.
    fn recall(&self, core: &CoreRoom) {
        let free = core.free.swap(0, SeqCst);
        self.pool.fetch_add(free, Relaxed);
    }

    /// How many places users of this number have.
    fn taken_by(&self, user: u32) -> usize {
        let of = |core: &CoreRoom| core.of(user).load(Relaxed);
        // A place that moves from core to core meanwhile may be missing.
        let sum = self.cores.iter().map(of).fold(0, usize::wrapping_add);
        usize::try_from(sum.cast_signed()).unwrap_or(0)
    }
}

impl CoreRoom {
    fn new() -> CoreRoom {
        CoreRoom {
            free: AtomicUsize::new(0),
            by_user: std::array::from_fn(|_| AtomicUsize::new(0)),
        }
    }

    fn take_free(&self) -> bool {
        let one_less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(SeqCst, Relaxed, one_less).is_ok()
    }

    fn of(&self, user: u32) -> &AtomicUsize {
        &self.by_user[user as usize % USERS]
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        let places = &*self.share.0;
        let core = places.cores.get();
        core.of(self.user).fetch_sub(1, Relaxed);
        if places.is_short.load(SeqCst) {
            places.pool.fetch_add(1, Relaxed);
            return;
        }
        let before = core.free.fetch_add(1, SeqCst);
        // A core whose files are opened elsewhere keeps no more than it may need, and nothing where
        // few are left since.
        if places.is_short.load(SeqCst) || before >= 2 * BATCH {
            places.recall(core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(room: &Arc<DescriptorRoom>, user: u32, is_directory: bool) -> Vec<TakenPlace> {
        std::iter::from_fn(|| room.take(user, is_directory)).collect()
    }

    #[test]
    fn the_parts_are_within_the_limit() {
        for most in [64, 256, 1024, 4096, 20_000, 1 << 20] {
            let parts = DescriptorParts::of(most, 2);
            let sum = OWN + 2 * OWN_OF_CORE + 2 * parts.kept + parts.calls * CALL + parts.open;
            assert!(sum <= most, "{most}: {parts:?}");
            assert!(parts.open >= most / 8, "{most}: {parts:?}");
        }
        assert_eq!(DescriptorParts::of(1 << 20, 64).calls, CALLS_MOST);
    }

    #[test]
    fn a_user_leaves_places_to_others_and_root_takes_the_last() {
        let room = Arc::new(DescriptorRoom::new(800));
        let of_one = all_of(&room, 1000, false);
        assert!((500..=540).contains(&of_one.len()), "{}", of_one.len());
        let of_other = all_of(&room, 1001, false);
        assert!(of_other.len() > 100, "{}", of_other.len());
        let of_root = all_of(&room, 0, false);
        assert_eq!(of_one.len() + of_other.len() + of_root.len(), 700);
        assert_eq!(all_of(&room, 0, true).len(), 100);
    }

    #[test]
    fn places_that_are_given_back_or_refused_are_free() {
        let room = Arc::new(DescriptorRoom::new(80));
        for _ in 0..3 {
            assert_eq!(all_of(&room, 0, true).len(), 80);
            assert_eq!(all_of(&room, 1000, false).len(), 53);
        }
        assert_eq!(free(&room), 80);
    }

    fn places(room: &DescriptorRoom) -> &Places {
        &room.shares.get().0
    }

    fn free(room: &DescriptorRoom) -> usize {
        let places = places(room);
        let of_cores = places.cores.iter().map(|core| core.free.load(Relaxed));
        places.pool.load(Relaxed) + of_cores.sum::<usize>()
    }

    /// Once, each open and close wrote to one count of all.
    #[test]
    fn opens_of_a_core_write_nothing_of_others_while_there_is_room() {
        let room = Arc::new(DescriptorRoom::new(1 << 16));
        thread::scope(|scope| {
            for user in 0..4 {
                let room = &room;
                scope.spawn(move || {
                    for _ in 0..100_000 {
                        drop(room.take(1000 + user, false).unwrap());
                    }
                });
            }
        });
        // What each core that one of them was on has kept.
        let places = places(&room);
        let with_cores = places.most - places.pool.load(Relaxed);
        assert!(with_cores <= (2 * BATCH + 1) * places.cores.iter().count());
        assert_eq!(free(&room), places.most);
    }

    #[test]
    fn many_threads_take_all_places_and_no_more() {
        let most = 400;
        let room = Arc::new(DescriptorRoom::new(most));
        let taken = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2000 {
                        let wanted = 1 + round % most;
                        let places = (0..wanted).map_while(|_| {
                            let place = room.take(0, true)?;
                            assert!(taken.fetch_add(1, SeqCst) < most);
                            Some(place)
                        });
                        for place in places.collect::<Vec<_>>() {
                            taken.fetch_sub(1, SeqCst);
                            drop(place);
                        }
                    }
                });
            }
        });
        assert_eq!(free(&room), most);
        assert_eq!(all_of(&room, 0, true).len(), most);
    }
}
