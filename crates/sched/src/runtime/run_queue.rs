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
    /// The ready queue of a run queue.
    pub QueueLock = "sched.queue", 2010;
    /// The inbox of a run queue.
    pub InboxLock = "sched.inbox", 2020;
}

/// The run queue of one core: a ready queue, an inbox, and hints. It has cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct RunQueue<T> {
    queue: Lock<QueueLock, ReadyQueue<T>>,
    /// Written with the lock held; a hint for others.
    waiting: AtomicUsize,
    /// How many of them are not idle work.
    waiting_user: AtomicUsize,
    /// When the owner last took a task, in nanoseconds: a hint.
    switched: AtomicU64,
    /// The owner's mode: [`VACANT`], or a [`WorkerMode`].
    owner_mode: AtomicU8,
    /// What the owner has served directly and not charged yet.
    pending: [PendingCharge; PENDING_SLOTS],
    others: Others<T>,
}

/// How the owner of a run queue works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkerMode {
    /// The owner steals, and sleeps where it can be woken for any work.
    Stealing = 1,
    /// Only tasks with this run queue's key run here. The owner may sleep where nobody can wake it,
    /// as long as no such task is left.
    Pinned = 2,
}

/// No thread owns the run queue.
const VACANT: u8 = 0;

/// Tenants that an owner can serve in turns without charging each time.
const PENDING_SLOTS: usize = 4;
/// Pieces of work after which they are charged.
const MAX_PENDING_RUNS: u64 = 256;

/// Work of one tenant that was served directly. Written by the owner only. Statistics read it with
/// the queue locked, so that it is not charged meanwhile.
#[derive(Debug, Default)]
struct PendingCharge {
    tenant: AtomicUsize,
    runs: AtomicU64,
    ns: AtomicU64,
}

/// What other threads than the owner write: on separate cache lines.
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
    /// Returns an empty run queue without an owner.
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

    /// Acquires the run queue, if it is free.
    pub fn acquire(&self, mode: WorkerMode) -> bool {
        // Acquire: sees what the previous owner did; partner: `release`.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.owner_mode
            .compare_exchange(VACANT, mode as u8, success, failure)
            .is_ok()
    }

    /// Releases the run queue.
    pub fn release(&self) {
        // Release: partner `acquire`.
        self.owner_mode.store(VACANT, Ordering::Release);
    }

    /// Returns whether a thread owns the run queue: a hint.
    pub fn is_owned(&self) -> bool {
        // Relaxed: a hint.
        self.owner_mode.load(Ordering::Relaxed) != VACANT
    }

    /// Returns whether only tasks with its key run here. Exact for the owner, a hint for others.
    pub fn is_pinned(&self) -> bool {
        // Relaxed: written by the owner itself; a hint for others.
        self.owner_mode.load(Ordering::Relaxed) == WorkerMode::Pinned as u8
    }

    /// Returns whether the owner steals: a hint.
    pub fn is_stealing(&self) -> bool {
        // Relaxed: a hint.
        self.owner_mode.load(Ordering::Relaxed) == WorkerMode::Stealing as u8
    }

    /// Returns where the owner sleeps.
    pub fn parker(&self) -> &Parker {
        &self.others.parker
    }

    /// Notes that the owner is about to take a task, or is told to.
    pub fn mark_switch(&self, now: u64) {
        // Relaxed: a hint.
        self.switched.store(now, Ordering::Relaxed);
    }

    /// Returns when the owner last took a task: a hint.
    pub fn switched(&self) -> u64 {
        // Relaxed: a hint.
        self.switched.load(Ordering::Relaxed)
    }

    /// Locks the ready queue. Drop tasks after the guard.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, QueueLock, ReadyQueue<T>> {
        self.queue.lock()
    }

    /// Counts `ns` of work that was served directly, to be charged later. For the owner.
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

    /// Charges what was deferred. For the owner, with the queue locked.
    #[cold]
    pub fn flush_charges(&self, queue: &mut ReadyQueue<T>, weights: &impl Weights) {
        self.for_each_pending(|tenant, runs, ns| queue.serve(tenant, ns, runs, weights));
        for defer_charge in &self.pending {
            // Relaxed: readers have the queue's lock.
            defer_charge.runs.store(0, Ordering::Relaxed);
            defer_charge.ns.store(0, Ordering::Relaxed);
        }
    }

    /// Calls `each` with tenant, pieces and time of what was deferred. The caller has locked the
    /// queue.
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

    /// Locks the ready queue, unless it is locked.
    pub fn try_lock(&self) -> Option<LockGuard<'_, QueueLock, ReadyQueue<T>>> {
        self.queue.try_lock()
    }

    /// Publishes the length of the ready queue, which the caller has locked.
    #[inline]
    pub fn publish(&self, queue: &ReadyQueue<T>) {
        // Relaxed: ordered by the readers' fences. Unchanged values are not stored, so that the
        // line stays in the owner's cache.
        let set = |hint: &AtomicUsize, value: usize| {
            if hint.load(Ordering::Relaxed) != value {
                hint.store(value, Ordering::Relaxed);
            }
        };
        set(&self.waiting, queue.len());
        set(&self.waiting_user, queue.user_len());
    }

    /// Adds a task to the inbox.
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

    /// Moves the inbox into the ready queue, which the caller has locked.
    #[inline]
    pub fn receive(&self, queue: &mut ReadyQueue<T>, weights: &impl Weights) {
        // Relaxed: a thread that must see every task sleeps after a fence.
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
        // Release: a reader of the zero sees the hints above; partner: `hint`.
        self.others.inbox_len.store(0, Ordering::Release);
    }

    /// Returns how many tasks wait here: a hint. After a fence it includes every task that came
    /// before.
    pub fn hint(&self) -> usize {
        // Acquire: partner `receive_some`. The inbox is read first, so that a task on its way into
        // the queue is seen in one of the two.
        let inbox = self.others.inbox_len.load(Ordering::Acquire);
        // Relaxed: see `publish`.
        inbox + self.waiting.load(Ordering::Relaxed)
    }

    /// Returns how many tasks wait here that are not idle work: a hint.
    pub fn user_hint(&self) -> usize {
        // Relaxed: a hint.
        let user = self.waiting_user.load(Ordering::Relaxed);
        user + self.others.inbox_len.load(Ordering::Relaxed)
    }

    /// Returns how many tasks are in the inbox: a hint.
    pub fn inbox_hint(&self) -> usize {
        // Relaxed: a hint.
        self.others.inbox_len.load(Ordering::Relaxed)
    }

    /// Closes the run queue and returns the tasks that waited.
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
