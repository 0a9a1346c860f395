//! The state that loading, write-back, eviction and the end of inodes share. Only `cache` changes
//! it.
//!
//! Lock order:
//! ```text
//! syncing                (blocking; taken with nothing held)
//!   commit, flushing     (blocking)
//! volume.inode_io        one inode is evicted, or comes back
//!   volume.ghosts        inodes that the backend has yet to forget
//! volume.kept            references that stay for ever
//! ```

use super::Superblock;
use super::crowd::Crowd;
use super::ghosts::Ghosts;
use super::inode_ahead::InodeAhead;
use super::leader_signal::LeaderSignal;
use super::mem_usage::MemUsage;
use super::page_flights::PageFlights;
use super::promises::Promises;
use crate::cache_padded::CachePadded;
use crate::errno::{Errno, Result};
use crate::inode::InodeRef;
use hearth_sync::lock::{Lock, RawLock};
use hearth_sync::lock_class;
use hearth_sync::percpu::Counter;
use hearth_sync::primitive::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use hearth_sync::primitive::{Arc, Condvar, Mutex};

lock_class! {
    pub(crate) InodeIoLock = "volume.inode_io", 20;
    PinnedLock = "volume.kept", 970;
}

/// Locks by inode number, see [`Superblock::inode_io_lock`]. Neighbours have different ones: they
/// are often wanted together, and a fetch holds its lock while the backend works.
const IO_LOCKS: u64 = 64;

/// What the inodes whose numbers share a lock share.
struct InodeIo {
    lock: RawLock<InodeIoLock>,
    /// Counts inodes that left memory, under the lock.
    left: AtomicU64,
}

/// Where sweeps of reclaim go on, by number of an inode. All Relaxed: hints and sums.
#[derive(Default)]
pub(crate) struct Sweeps {
    /// The next number that a step looks at.
    pub next: AtomicU64,
    /// The next number below it that is looked at once more.
    pub again: AtomicU64,
    /// Steps that have begun.
    pub steps: AtomicU64,
    /// Bytes that all sweeps have freed: one that frees little beside others has found no end of
    /// what can be freed.
    pub freed: AtomicU64,
}

/// The state of the inode and page cache.
pub(crate) struct CacheState {
    /// Bytes in memory, and the budget for them.
    pub mem_usage: MemUsage,
    /// The number of unlinked inodes that are still referred to. Their space will come back.
    pub unlinked: Counter,
    /// By inode number: held while an inode is evicted or comes back.
    inode_io: [CachePadded<InodeIo>; IO_LOCKS as usize],
    /// How many inodes a fetch brings along.
    pub inode_ahead: InodeAhead,
    /// Inodes that have ended and that the backend has yet to forget.
    pub ghosts: Ghosts,
    /// On a line of its own, because every operation reads the budget beside it.
    pub sweeps: Box<CachePadded<Sweeps>>,
    /// Keeps the root and the control files in memory for ever.
    pinned: Lock<PinnedLock, Vec<InodeRef>>,
    /// Orders who writes which file back: see `cache::flush`.
    pub flushing: Mutex<()>,
    /// A write-back has ended.
    pub flushed: Condvar,
    /// Held while everything is written back.
    pub syncing: Mutex<()>,
    /// Pages that are being fetched.
    pub page_flights: PageFlights,
    pub commit: Mutex<CommitState>,
    /// A commit has ended.
    pub committed: Condvar,
    /// The next commit has all the callers that it waits for.
    pub gathered: Condvar,
    /// Wakes the thread that leads commits for callers that left a function to call. Immutable.
    pub leader: Arc<LeaderSignal>,
    /// Calls of the backend that wait for its disk. Relaxed: a hint.
    disk_calls: AtomicUsize,
    /// When the last of them ended, or the first of them began, in milliseconds of the clock.
    /// Relaxed: a hint.
    disk_answered: AtomicU64,
    /// What is known of the backend's room: see `room`. Relaxed: a hint that is looked at again
    /// before anything is refused.
    pub room: AtomicU8,
    /// Room that allocations under way were promised.
    pub promises: Promises,
    /// When the backend was found full, in milliseconds of the clock. Relaxed: see `room`.
    pub full_since: AtomicU64,
    /// The errno with which the backend failed for good; 0 for none. Relaxed: a number of its own.
    latched: AtomicI64,
    /// Whether what is not kept because of that was reported. Relaxed: see `latched`.
    is_failure_told: AtomicBool,
}

/// A call of the backend; it has ended when this is dropped, also by a panic.
struct DiskCall<'a, N: Fn() -> u64> {
    cache: &'a CacheState,
    now: &'a N,
}

impl<N: Fn() -> u64> Drop for DiskCall<'_, N> {
    fn drop(&mut self) {
        self.cache.disk_answered.store((self.now)(), Relaxed);
        self.cache.disk_calls.fetch_sub(1, Relaxed);
    }
}

/// The commit that is under way.
#[derive(Default)]
pub(crate) struct CommitState {
    /// Whether a thread leads a commit.
    pub leads: bool,
    /// Whether the backend has kept records of an earlier epoch, for which it had no room.
    pub is_held: bool,
    /// Callers that left a function to call, in no order.
    pub waiting: Vec<WaitingCaller>,
    /// Whether the thread that leads for them knows that there are any.
    pub is_served: bool,
    /// Callers that may come too.
    pub crowd: Crowd,
}

/// A caller that is told when an epoch is durable, by the thread that made it so.
pub(crate) struct WaitingCaller {
    pub epoch: u64,
    pub then: WhenDurable,
}

/// What is called with the result of a sync. It does not block and does not panic.
pub type WhenDurable = Box<dyn FnOnce(Result<()>) + Send>;

impl CacheState {
    pub fn new(mem_usage: MemUsage) -> CacheState {
        CacheState {
            mem_usage,
            unlinked: Counter::new(),
            inode_io: std::array::from_fn(|_| {
                CachePadded(InodeIo {
                    lock: RawLock::new(),
                    left: AtomicU64::new(0),
                })
            }),
            inode_ahead: InodeAhead::default(),
            ghosts: Ghosts::new(),
            sweeps: Box::new(CachePadded(Sweeps::default())),
            pinned: Lock::new(Vec::new()),
            flushing: Mutex::new(()),
            flushed: Condvar::new(),
            syncing: Mutex::new(()),
            page_flights: PageFlights::default(),
            commit: Mutex::new(CommitState::default()),
            committed: Condvar::new(),
            gathered: Condvar::new(),
            leader: Arc::default(),
            room: AtomicU8::new(0),
            promises: Promises::default(),
            full_since: AtomicU64::new(0),
            disk_calls: AtomicUsize::new(0),
            disk_answered: AtomicU64::new(0),
            latched: AtomicI64::new(0),
            is_failure_told: AtomicBool::new(false),
        }
    }

    fn inode_io(&self, ino: u64) -> &InodeIo {
        &self.inode_io[(ino % IO_LOCKS) as usize].0
    }

    /// Inode `ino` has left memory. The caller holds `inode_io_lock` of it, and has made it a ghost
    /// if it has ended.
    pub fn note_left(&self, ino: u64) {
        // Release: partner of the load in `left`.
        self.inode_io(ino).left.fetch_add(1, Release);
    }

    /// Changes whenever inode `ino` leaves memory; other inodes may change it too. Under
    /// `inode_io_lock` it is exact. Otherwise who sees the count also sees what it counts: that the
    /// backend has the inode, or that it is a ghost.
    pub fn left(&self, ino: u64) -> u64 {
        // Acquire: partner of `note_left`.
        self.inode_io(ino).left.load(Acquire)
    }

    /// Gives back the references of [`Superblock::pin_forever`].
    pub fn unpin(&self) {
        self.pinned.lock().clear();
    }

    /// Runs a call of the backend that waits for its disk. `now` is the clock's.
    pub fn on_disk<T>(&self, now: impl Fn() -> u64, call: impl FnOnce() -> T) -> T {
        if self.disk_calls.fetch_add(1, Relaxed) == 0 {
            self.disk_answered.store(now(), Relaxed);
        }
        let _call = DiskCall {
            cache: self,
            now: &now,
        };
        call()
    }

    /// For how many milliseconds calls have waited for the disk and none has ended.
    pub fn disk_silent(&self, now: u64) -> u64 {
        match self.disk_calls.load(Relaxed) {
            0 => 0,
            _ => now.saturating_sub(self.disk_answered.load(Relaxed)),
        }
    }

    /// The backend has failed for good. The first error stays.
    pub fn latch(&self, errno: Errno) {
        let _ = self
            .latched
            .compare_exchange(0, i64::from(errno.0), Relaxed, Relaxed);
    }

    /// The errno with which the backend failed for good, once: later calls return `None`.
    pub fn take_untold_failure(&self) -> Option<Errno> {
        let errno = self.latched()?;
        (!self.is_failure_told.swap(true, Relaxed)).then_some(errno)
    }

    /// The errno with which the backend failed for good.
    pub fn latched(&self) -> Option<Errno> {
        match self.latched.load(Relaxed) {
            0 => None,
            errno => Some(Errno(errno as i32)),
        }
    }
}

impl Superblock {
    /// The lock under which inode `ino` is evicted or comes back.
    pub fn inode_io_lock(&self, ino: u64) -> &RawLock<InodeIoLock> {
        &self.cache.inode_io(ino).lock
    }

    pub fn pin_forever(&self, inode: InodeRef) {
        self.cache.pinned.lock().push(inode);
    }
}
