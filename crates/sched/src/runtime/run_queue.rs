//! One core's queue, with its inbox and what others may know of it without a lock.
//!
//! ```text
//! sched.queue (2010)      the queue; the owner each switch, thieves, statistics
//!   sched.inbox (2020)    tasks put in by others
//! ```

use super::sleepers::Parker;
use crate::class::{Job, Weights};
use crate::queue::{Ready, ReadyQueue};
use hearth_sync::lock::{Lock, LockGuard};
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

lock_class! {
    /// The queue of a run queue.
    pub QueueLock = "sched.queue", 2010;
    /// The inbox of a run queue.
    pub InboxLock = "sched.inbox", 2020;
}

/// A core of the scheduler. On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct RunQueue<T> {
    queue: Lock<QueueLock, ReadyQueue<T>>,
    /// Written with the lock held; a hint for others.
    waiting: AtomicUsize,
    /// Those of them that are no idle work.
    waiting_user: AtomicUsize,
    /// When the owner last took a task, in nanoseconds: a hint.
    switched: AtomicU64,
    /// Who drives this run queue: [`VACANT`], or a [`WorkerMode`].
    owner_mode: AtomicU8,
    /// What the owner has served at once and not charged yet.
    pending: [PendingCharge; PENDING_SLOTS],
    others: Others<T>,
}

/// How a run queue is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkerMode {
    /// The owner looks for work elsewhere, and sleeps where it can be woken for any.
    Stealing = 1,
    /// What has the run queue's key runs here and nothing else does: the owner may sleep where
    /// nobody can wake it, as long as no such task is left.
    Pinned = 2,
}

/// Nobody drives the run queue.
const VACANT: u8 = 0;

/// Tenants that a owner can serve in turns without charging them each time.
const PENDING_SLOTS: usize = 4;
/// Pieces of work after which they are charged.
const MAX_PENDING_RUNS: u64 = 256;

/// Work of one tenant that was served at once. Written by the owner only; statistics read it with
/// the queue locked, so that it is not charged meanwhile.
#[derive(Debug, Default)]
struct PendingCharge {
    tenant: AtomicUsize,
    runs: AtomicU64,
    ns: AtomicU64,
}

/// What threads write that do not drive the run queue: on lines apart from what the owner writes.
#[derive(Debug)]
#[repr(align(128))]
struct Others<T> {
    inbox: Lock<InboxLock, Inbox<T>>,
    /// Written with the inbox's lock held; a hint for others.
    inbox_len: AtomicUsize,
    parker: Parker,
}

#[derive(Debug)]
struct Inbox<T> {
    tasks: Vec<Ready<T>>,
    closed: bool,
}

impl<T: Job> RunQueue<T> {
    /// Nothing waits, nobody drives.
    pub fn new(slice_ns: u64) -> RunQueue<T> {
        RunQueue {
            queue: Lock::new(ReadyQueue::new(slice_ns)),
            waiting: AtomicUsize::new(0),
            waiting_user: AtomicUsize::new(0),
            switched: AtomicU64::new(0),
            owner_mode: AtomicU8::new(VACANT),
            pending: Default::default(),
            others: Others {
                inbox: Lock::new(Inbox {
                    tasks: Vec::new(),
                    closed: false,
                }),
                inbox_len: AtomicUsize::new(0),
                parker: Parker::default(),
            },
        }
    }

    /// Takes the run queue, if it is free.
    pub fn acquire(&self, mode: WorkerMode) -> bool {
        // Acquire: what the previous owner did; partner: `release`.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.owner_mode
            .compare_exchange(VACANT, mode as u8, success, failure)
            .is_ok()
    }

    /// Gives the run queue back.
    pub fn release(&self) {
        // Release: partner `acquire`.
        self.owner_mode.store(VACANT, Ordering::Release);
    }

    /// Whether somebody drives the run queue: a hint.
    pub fn is_owned(&self) -> bool {
        // Relaxed: a hint.
        self.owner_mode.load(Ordering::Relaxed) != VACANT
    }

    /// Whether only what has its key runs here. For the owner it is the truth, for others a hint.
    pub fn is_pinned(&self) -> bool {
        // Relaxed: written by who sat down here; see above.
        self.owner_mode.load(Ordering::Relaxed) == WorkerMode::Pinned as u8
    }

    /// Whether the owner takes any work: a hint.
    pub fn is_stealing(&self) -> bool {
        // Relaxed: a hint.
        self.owner_mode.load(Ordering::Relaxed) == WorkerMode::Stealing as u8
    }

    /// Where the owner sleeps.
    pub fn parker(&self) -> &Parker {
        &self.others.parker
    }

    /// The owner is about to take a task, or is told to.
    pub fn mark_switch(&self, now: u64) {
        // Relaxed: a hint.
        self.switched.store(now, Ordering::Relaxed);
    }

    /// When the owner last took a task: a hint.
    pub fn switched(&self) -> u64 {
        // Relaxed: a hint.
        self.switched.load(Ordering::Relaxed)
    }

    /// The queue, to be changed. Tasks are dropped after the guard.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, QueueLock, ReadyQueue<T>> {
        self.queue.lock()
    }

    /// Notes `ns` of work that was served at once; for the owner.
    #[inline]
    pub fn defer_charge(&self, tenant: usize, ns: u64, weights: &impl Weights) {
        let defer_charge = &self.pending[tenant % PENDING_SLOTS];
        // Relaxed: the owner's own.
        let runs = defer_charge.runs.load(Ordering::Relaxed);
        let of = defer_charge.tenant.load(Ordering::Relaxed);
        if runs >= MAX_PENDING_RUNS || of != tenant && runs > 0 {
            self.flush_charges(&mut self.queue.lock(), weights);
            return self.defer_charge(tenant, ns, weights);
        }
        // Relaxed: statistics may miss the last one.
        defer_charge.tenant.store(tenant, Ordering::Relaxed);
        let sum = defer_charge.ns.load(Ordering::Relaxed) + ns;
        defer_charge.ns.store(sum, Ordering::Relaxed);
        defer_charge.runs.store(runs + 1, Ordering::Relaxed);
    }

    /// Charges what was noted; for the owner, with the queue locked.
    #[cold]
    pub fn flush_charges(&self, queue: &mut ReadyQueue<T>, weights: &impl Weights) {
        self.for_each_pending(|tenant, runs, ns| queue.serve(tenant, ns, runs, weights));
        for defer_charge in &self.pending {
            // Relaxed: readers have the queue's lock.
            defer_charge.runs.store(0, Ordering::Relaxed);
            defer_charge.ns.store(0, Ordering::Relaxed);
        }
    }

    /// Calls `each` with tenant, pieces and time of what was noted and not charged. The caller has
    /// locked the queue.
    pub fn for_each_pending(&self, mut each: impl FnMut(usize, u32, u64)) {
        for defer_charge in &self.pending {
            // Relaxed: see `defer_charge`.
            let (runs, ns) = (&defer_charge.runs, &defer_charge.ns);
            let (runs, ns) = (runs.load(Ordering::Relaxed), ns.load(Ordering::Relaxed));
            if runs > 0 {
                each(defer_charge.tenant.load(Ordering::Relaxed), runs as u32, ns);
            }
        }
    }

    /// The queue, unless somebody is at it.
    pub fn try_lock(&self) -> Option<LockGuard<'_, QueueLock, ReadyQueue<T>>> {
        self.queue.try_lock()
    }

    /// Tells the others what waits in the queue, which the caller has locked.
    #[inline]
    pub fn publish(&self, queue: &ReadyQueue<T>) {
        // Relaxed: the readers' fences order it; the stores are left out where nothing changes,
        // so that the line stays in the owner's cache.
        let set = |hint: &AtomicUsize, value: usize| {
            if hint.load(Ordering::Relaxed) != value {
                hint.store(value, Ordering::Relaxed);
            }
        };
        set(&self.waiting, queue.len());
        set(&self.waiting_user, queue.user_len());
    }

    /// Puts a task into the inbox.
    ///
    /// # Errors
    /// The run queue is closed; the task comes back.
    pub fn send(&self, ready: Ready<T>) -> Result<(), T> {
        let mut inbox = self.others.inbox.lock();
        if inbox.closed {
            return Err(ready.task);
        }
        inbox.tasks.push(ready);
        // Relaxed: the sender's fence W2 orders it.
        self.others
            .inbox_len
            .store(inbox.tasks.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Moves the inbox into the queue, which the caller has locked.
    #[inline]
    pub fn receive(&self, queue: &mut ReadyQueue<T>, weights: &impl Weights) {
        // Relaxed: who must not miss a task sleeps after a fence.
        if self.others.inbox_len.load(Ordering::Relaxed) > 0 {
            self.receive_some(queue, weights);
        }
    }

    #[cold]
    fn receive_some(&self, queue: &mut ReadyQueue<T>, weights: &impl Weights) {
        let mut inbox = self.others.inbox.lock();
        for ready in inbox.tasks.drain(..) {
            // The inbox is closed before the queue, so the queue is open.
            let refused = queue.push(ready, weights).is_err();
            debug_assert!(!refused, "the queue closes after its inbox is empty");
        }
        self.publish(queue);
        // Release: who reads the zero sees the hints above; partner: `hint`.
        self.others.inbox_len.store(0, Ordering::Release);
    }

    /// Tasks that wait here: a hint, which after a fence misses none that came before.
    pub fn hint(&self) -> usize {
        // Acquire: partner `receive_some`; the inbox is read first, so that tasks on their way
        // into the queue are seen in one of the two.
        let inbox = self.others.inbox_len.load(Ordering::Acquire);
        // Relaxed: see `publish`.
        inbox + self.waiting.load(Ordering::Relaxed)
    }

    /// Tasks that wait here and are no idle work, as far as is known: a hint.
    pub fn user_hint(&self) -> usize {
        // Relaxed: a hint that nobody relies on.
        let user = self.waiting_user.load(Ordering::Relaxed);
        user + self.others.inbox_len.load(Ordering::Relaxed)
    }

    /// Tasks in the inbox: a hint.
    pub fn inbox_hint(&self) -> usize {
        // Relaxed: a hint.
        self.others.inbox_len.load(Ordering::Relaxed)
    }

    /// Takes no task any more, and gives those that wait.
    pub fn close(&self) -> Vec<T> {
        let mut queue = self.queue.lock();
        let mut inbox = self.others.inbox.lock();
        inbox.closed = true;
        let mut all: Vec<T> = inbox.tasks.drain(..).map(|ready| ready.task).collect();
        all.extend(queue.close());
        self.publish(&queue);
        // Relaxed: nobody sleeps for a closed run queue.
        self.others.inbox_len.store(0, Ordering::Relaxed);
        all
    }
}
