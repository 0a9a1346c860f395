//! One core's queue, with its inbox and what others may know of it without a lock.
//!
//! ```text
//! sched.queue (2010)      the queue; the driver each switch, thieves, statistics
//!   sched.inbox (2020)    tasks put in by others
//! ```

use super::sleepers::Parker;
use crate::class::{Job, Weights};
use crate::queue::{Queue, Ready};
use hearth_sync::lock::{Lock, LockGuard};
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

lock_class! {
    /// The queue of a station.
    pub QueueLock = "sched.queue", 2010;
    /// The inbox of a station.
    pub InboxLock = "sched.inbox", 2020;
}

/// A core of the scheduler. On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Station<T> {
    queue: Lock<QueueLock, Queue<T>>,
    /// Written with the lock held; a hint for others.
    waiting: AtomicUsize,
    /// Those of them that are no idle work.
    waiting_user: AtomicUsize,
    /// When the driver last took a task, in nanoseconds: a hint.
    switched: AtomicU64,
    /// Who drives this station: [`VACANT`], or a [`Manner`].
    driven: AtomicU8,
    /// What the driver has served at once and not charged yet.
    notes: [Note; NOTES],
    others: Others<T>,
}

/// How a station is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Manner {
    /// The driver looks for work elsewhere, and sleeps where it can be woken for any.
    Helping = 1,
    /// What has the station's key runs here and nothing else does: the driver may sleep where
    /// nobody can wake it, as long as no such task is left.
    Alone = 2,
}

/// Nobody drives the station.
const VACANT: u8 = 0;

/// Tenants that a driver can serve in turns without charging them each time.
const NOTES: usize = 4;
/// Pieces of work after which they are charged.
const MOST_NOTED: u64 = 256;

/// Work of one tenant that was served at once. Written by the driver only; statistics read it with
/// the queue locked, so that it is not charged meanwhile.
#[derive(Debug, Default)]
struct Note {
    tenant: AtomicUsize,
    runs: AtomicU64,
    ns: AtomicU64,
}

/// What threads write that do not drive the station: on lines apart from what the driver writes.
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

impl<T: Job> Station<T> {
    /// Nothing waits, nobody drives.
    pub fn new(slice_ns: u64) -> Station<T> {
        Station {
            queue: Lock::new(Queue::new(slice_ns)),
            waiting: AtomicUsize::new(0),
            waiting_user: AtomicUsize::new(0),
            switched: AtomicU64::new(0),
            driven: AtomicU8::new(VACANT),
            notes: Default::default(),
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

    /// Takes the seat, if it is free.
    pub fn sit(&self, manner: Manner) -> bool {
        // Acquire: what the previous driver did; partner: `stand`.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.driven
            .compare_exchange(VACANT, manner as u8, success, failure)
            .is_ok()
    }

    /// Gives the seat back.
    pub fn stand(&self) {
        // Release: partner `sit`.
        self.driven.store(VACANT, Ordering::Release);
    }

    /// Whether somebody drives the station: a hint.
    pub fn is_driven(&self) -> bool {
        // Relaxed: a hint.
        self.driven.load(Ordering::Relaxed) != VACANT
    }

    /// Whether only what has its key runs here. For the driver it is the truth, for others a hint.
    pub fn is_alone(&self) -> bool {
        // Relaxed: written by who sat down here; see above.
        self.driven.load(Ordering::Relaxed) == Manner::Alone as u8
    }

    /// Whether the driver takes any work: a hint.
    pub fn helps(&self) -> bool {
        // Relaxed: a hint.
        self.driven.load(Ordering::Relaxed) == Manner::Helping as u8
    }

    /// Where the driver sleeps.
    pub fn parker(&self) -> &Parker {
        &self.others.parker
    }

    /// The driver is about to take a task, or is told to.
    pub fn mark_switch(&self, now: u64) {
        // Relaxed: a hint.
        self.switched.store(now, Ordering::Relaxed);
    }

    /// When the driver last took a task: a hint.
    pub fn switched(&self) -> u64 {
        // Relaxed: a hint.
        self.switched.load(Ordering::Relaxed)
    }

    /// The queue, to be changed. Tasks are dropped after the guard.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, QueueLock, Queue<T>> {
        self.queue.lock()
    }

    /// Notes `ns` of work that was served at once; for the driver.
    #[inline]
    pub fn note(&self, tenant: usize, ns: u64, weights: &impl Weights) {
        let note = &self.notes[tenant % NOTES];
        // Relaxed: the driver's own.
        let runs = note.runs.load(Ordering::Relaxed);
        let of = note.tenant.load(Ordering::Relaxed);
        if runs >= MOST_NOTED || of != tenant && runs > 0 {
            self.charge_notes(&mut self.queue.lock(), weights);
            return self.note(tenant, ns, weights);
        }
        // Relaxed: statistics may miss the last one.
        note.tenant.store(tenant, Ordering::Relaxed);
        let sum = note.ns.load(Ordering::Relaxed) + ns;
        note.ns.store(sum, Ordering::Relaxed);
        note.runs.store(runs + 1, Ordering::Relaxed);
    }

    /// Charges what was noted; for the driver, with the queue locked.
    #[cold]
    pub fn charge_notes(&self, queue: &mut Queue<T>, weights: &impl Weights) {
        self.noted(|tenant, runs, ns| queue.serve(tenant, ns, runs, weights));
        for note in &self.notes {
            // Relaxed: readers have the queue's lock.
            note.runs.store(0, Ordering::Relaxed);
            note.ns.store(0, Ordering::Relaxed);
        }
    }

    /// Calls `each` with tenant, pieces and time of what was noted and not charged. The caller has
    /// locked the queue.
    pub fn noted(&self, mut each: impl FnMut(usize, u32, u64)) {
        for note in &self.notes {
            // Relaxed: see `note`.
            let (runs, ns) = (&note.runs, &note.ns);
            let (runs, ns) = (runs.load(Ordering::Relaxed), ns.load(Ordering::Relaxed));
            if runs > 0 {
                each(note.tenant.load(Ordering::Relaxed), runs as u32, ns);
            }
        }
    }

    /// The queue, unless somebody is at it.
    pub fn try_lock(&self) -> Option<LockGuard<'_, QueueLock, Queue<T>>> {
        self.queue.try_lock()
    }

    /// Tells the others what waits in the queue, which the caller has locked.
    #[inline]
    pub fn publish(&self, queue: &Queue<T>) {
        // Relaxed: the readers' fences order it; the stores are left out where nothing changes,
        // so that the line stays in the driver's cache.
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
    /// The station is closed; the task comes back.
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
    pub fn receive(&self, queue: &mut Queue<T>, weights: &impl Weights) {
        // Relaxed: who must not miss a task sleeps after a fence.
        if self.others.inbox_len.load(Ordering::Relaxed) > 0 {
            self.receive_some(queue, weights);
        }
    }

    #[cold]
    fn receive_some(&self, queue: &mut Queue<T>, weights: &impl Weights) {
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
        // Relaxed: nobody sleeps for a closed station.
        self.others.inbox_len.store(0, Ordering::Relaxed);
        all
    }
}
