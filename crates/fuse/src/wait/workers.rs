//! Threads for requests that may block, so that no queue thread ever does.
//!
//! Six pools do not wait for each other. A waiting lock may need an fsync of its holder to go on,
//! so fsyncs never queue behind locks. One lock may need the release of another, so locks never
//! queue at all: each has its own thread, and beyond a limit the reply is `ENOLCK`. Where work
//! queues, tenants are served by weight, and CPU time counts in their shares.

use super::outcome::{BlockingClass, Finish, Offload, Work};
use hearth::sched::{ExternalTask, FairQueue, Handle};
use hearth::{Errno, TenantId};
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::thread::{self, JoinHandle};
use hearth_sync::primitive::{Arc, thread_time};
use std::time::Duration;

/// The number of requests that may wait for other users at the same time.
const WAIT_THREADS: usize = 4096;
/// Threads for fsync.
const IO_THREADS: usize = 32;
/// Threads for work that cannot be divided. That work keeps a core busy, not a device.
const WHOLE_THREADS: usize = 4;
/// Threads that fetch from the backend what requests missed.
const LOAD_THREADS: usize = 16;
/// Threads that make room: one writes everything back, and the others wait for it.
const ROOM_THREADS: usize = 8;
/// Threads for requests that are system calls. As many as may be stuck at a device that does not
/// answer while others go on.
const CALL_THREADS: usize = 1024;
/// An idle thread ends after this time.
const IDLE: Duration = Duration::from_secs(10);
/// Stack of a worker: it only calls into the filesystem.
const STACK: usize = 256 << 10;

/// Worker threads of one session, at the service of one tenant.
pub(crate) struct Workers {
    pools: Arc<Pools>,
    tenant: TenantId,
}

struct Pools {
    waits: Arc<Pool>,
    io: Arc<Pool>,
    whole: Arc<Pool>,
    loads: Arc<Pool>,
    rooms: Arc<Pool>,
    calls: Arc<Pool>,
}

lock_class!(PoolLock = "fuse.workers", 872);

struct Pool {
    /// Knows the weights of tenants.
    sched: Handle,
    name: &'static str,
    limit: usize,
    /// Whether work may wait for a thread when `limit` threads are busy.
    queues: bool,
    state: Lock<PoolLock, PoolState>,
    changed: Condition,
}

#[derive(Default)]
struct PoolState {
    queue: FairQueue<QueuedWork>,
    /// Threads inside `wait_for`. Invariant: unless `limit` threads exist, `queue` is at most this
    /// long, so each queued work has a thread that is about to take it.
    idle: usize,
    threads: usize,
    handles: Vec<JoinHandle<()>>,
    closed: bool,
}

/// Work that waits for a thread.
struct QueuedWork {
    outside: ExternalTask,
    work: Work,
    finish: Finish,
}

impl Workers {
    /// Makes the pools, without threads. Work that is submitted here is the system's.
    pub fn new(sched: &Handle) -> Workers {
        let pool = |name, limit, queues| {
            let (state, changed) = (Lock::new(PoolState::default()), Condition::new());
            Arc::new(Pool {
                sched: sched.clone(),
                name,
                limit,
                queues,
                state,
                changed,
            })
        };
        let pools = Pools {
            waits: pool("hearth-wait", WAIT_THREADS, false),
            io: pool("hearth-io", IO_THREADS, true),
            whole: pool("hearth-whole", WHOLE_THREADS, true),
            loads: pool("hearth-load", LOAD_THREADS, true),
            rooms: pool("hearth-room", ROOM_THREADS, true),
            calls: pool("hearth-call", CALL_THREADS, true),
        };
        Workers {
            pools: Arc::new(pools),
            tenant: TenantId::System,
        }
    }

    /// These pools, for work of `tenant`.
    pub fn of(&self, tenant: TenantId) -> Workers {
        Workers {
            pools: Arc::clone(&self.pools),
            tenant,
        }
    }

    /// The tenant whose work is submitted here.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Lets a worker run `offload` and call `finish` with the outcome, or begins it.
    pub fn submit(&self, offload: Offload, finish: Finish) {
        let (class, work) = match offload {
            Offload::Blocks { class, work } => (class, work),
            Offload::Later(begin) => return begin(finish),
        };
        let pool = match class {
            BlockingClass::Wait => &self.pools.waits,
            BlockingClass::Io => &self.pools.io,
            BlockingClass::Whole => &self.pools.whole,
            BlockingClass::Fetch => &self.pools.loads,
            BlockingClass::Room => &self.pools.rooms,
            BlockingClass::Call => &self.pools.calls,
        };
        pool.submit(self.tenant, work, finish);
    }

    /// Waits for all work and ends the threads. Waiting locks must have been interrupted before.
    pub fn close(&self) {
        self.pools.waits.close();
        self.pools.io.close();
        self.pools.whole.close();
        self.pools.loads.close();
        self.pools.rooms.close();
        self.pools.calls.close();
    }
}

impl QueuedWork {
    /// Runs the work and replies. Returns the CPU time used in nanoseconds.
    fn run(self) -> u64 {
        let begin = thread_time();
        (self.finish)((self.work)());
        let used = thread_time().zip(begin);
        let ns = used.map_or(0, |(end, begin)| end.saturating_sub(begin));
        self.outside.finish(ns);
        ns
    }
}

impl Pool {
    fn submit(self: &Arc<Pool>, tenant: TenantId, work: Work, finish: Finish) {
        let tenant = self.sched.tenant(tenant.number());
        let outside = self.sched.external_task(tenant);
        let mut state = self.state.lock();
        let spawn = state.queue.len() >= state.idle;
        if state.closed || (spawn && state.threads >= self.limit && !self.queues) {
            drop(state);
            return finish(Err(Errno(libc::ENOLCK)));
        }
        let work = QueuedWork {
            outside,
            work,
            finish,
        };
        state.queue.push(&self.sched, tenant, work);
        if spawn && state.threads < self.limit {
            state.threads += 1;
            drop(state);
            self.spawn();
        } else {
            drop(state);
            self.changed.notify_one();
        }
    }

    fn spawn(self: &Arc<Pool>) {
        self.sched.run_thread_start_hook();
        let pool = Arc::clone(self);
        let builder = thread::Builder::new()
            .name(self.name.to_owned())
            .stack_size(STACK);
        match builder.spawn(move || pool.work()) {
            Ok(handle) => {
                let mut state = self.state.lock();
                state.handles.retain(|handle| !handle.is_finished());
                state.handles.push(handle);
            }
            Err(_) => {
                // The thread could not be started: give work back unless another thread will take
                // it.
                let mut state = self.state.lock();
                state.threads -= 1;
                let orphan = if state.threads == 0 || !self.queues {
                    state.queue.pop(&self.sched)
                } else {
                    None
                };
                drop(state);
                if let Some(orphan) = orphan {
                    (orphan.finish)(Err(Errno(libc::EAGAIN)));
                }
            }
        }
    }

    fn work(&self) {
        self.sched.run_thread_start_hook();
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.queue.pop(&self.sched) {
                drop(state);
                let (tenant, ns) = (work.outside.tenant(), work.run());
                state = self.state.lock();
                state.queue.finish(&self.sched, tenant, ns);
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let timed_out = state.wait_for(&self.changed, IDLE);
            state.idle -= 1;
            if timed_out && state.queue.is_empty() && !state.closed {
                break;
            }
        }
        state.threads -= 1;
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        self.changed.notify_all();
        for handle in handles {
            // A worker that panicked has reported it; the kernel's abort ended its
            // request.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::cpu;
    use crate::wait::outcome::InlineReply;
    use hearth::sched::Scheduler;
    use hearth_sync::primitive::atomic::{AtomicUsize, Ordering::SeqCst};
    use hearth_sync::primitive::{Condvar, Mutex};

    fn offload(class: BlockingClass, work: impl FnOnce() + Send + 'static) -> Offload {
        Offload::Blocks {
            class,
            work: Box::new(move || {
                work();
                Ok(InlineReply::default())
            }),
        }
    }

    #[test]
    fn an_fsync_is_done_while_many_locks_wait() {
        let scheduler = Scheduler::builder().start().unwrap();
        let workers = Workers::new(&scheduler);
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..64 {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
            let wait = move || {
                let mut open = gate.0.lock();
                while !*open {
                    gate.1.wait(&mut open);
                }
                done.fetch_add(1, SeqCst);
            };
            workers.submit(offload(BlockingClass::Wait, wait), Box::new(|_| {}));
        }
        // The gate is opened by the work that must not queue behind the waiting ones.
        let opener = Arc::clone(&gate);
        let open = move || {
            *opener.0.lock() = true;
            opener.1.notify_all();
        };
        workers.submit(offload(BlockingClass::Io, open), Box::new(|_| {}));
        workers.close();
        assert_eq!(done.load(SeqCst), 64);
    }

    #[test]
    fn a_worker_takes_over_no_policy_from_the_thread_that_starts_it() {
        let scheduler = Scheduler::builder().start().unwrap();
        scheduler.on_thread_start(crate::placement::idle_policy::be_usual);
        let workers = Workers::new(&scheduler);
        let policies = thread::spawn(move || {
            cpu::be_idle(0).unwrap();
            let own = Arc::new(Mutex::new(None));
            let workers_own = Arc::clone(&own);
            let look = move || *workers_own.lock() = Some(cpu::is_idle(0));
            workers.submit(offload(BlockingClass::Io, look), Box::new(|_| {}));
            workers.close();
            (cpu::is_idle(0), *own.lock())
        });
        assert_eq!(policies.join().unwrap(), (false, Some(false)));
    }

    #[test]
    fn all_queued_work_is_done_before_the_threads_end() {
        let scheduler = Scheduler::builder().start().unwrap();
        let workers = Workers::new(&scheduler);
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..10_000 {
            let count = Arc::clone(&done);
            let finish = Box::new(move |_| {
                count.fetch_add(1, SeqCst);
            });
            workers.submit(offload(BlockingClass::Io, || {}), finish);
        }
        workers.close();
        assert_eq!(done.load(SeqCst), 10_000);
        let refused = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&refused);
        workers.submit(
            offload(BlockingClass::Io, || {}),
            Box::new(move |r| *seen.lock() = Some(r)),
        );
        assert_eq!(*refused.lock(), Some(Err(Errno(libc::ENOLCK))));
    }

    #[test]
    fn a_quiet_tenant_does_not_wait_for_all_that_another_has_queued() {
        for (class, threads) in [
            (BlockingClass::Io, IO_THREADS),
            (BlockingClass::Fetch, LOAD_THREADS),
            (BlockingClass::Room, ROOM_THREADS),
        ] {
            let scheduler = Scheduler::builder().start().unwrap();
            let workers = Workers::new(&scheduler);
            // The tenants in the order of their begins, and how many works may end.
            let turns = Arc::new((Mutex::new((Vec::new(), 0)), Condvar::new()));
            let total = 20 * threads + 1;
            for (tenant, works) in [(1, total - 1), (2, 1)] {
                for _ in 0..works {
                    let turns = Arc::clone(&turns);
                    let work = move || {
                        let (lock, changed) = &*turns;
                        let mut inside = lock.lock();
                        inside.0.push(tenant);
                        changed.notify_all();
                        while inside.1 == 0 {
                            changed.wait(&mut inside);
                        }
                        inside.1 -= 1;
                    };
                    let workers = workers.of(TenantId::User(tenant));
                    workers.submit(offload(class, work), Box::new(|_| {}));
                }
            }
            let (lock, changed) = &*turns;
            for ended in 0..total {
                // One after the other: whoever has taken something and not begun it is waited for.
                let mut inside = lock.lock();
                while inside.0.len() < total.min(threads + ended) {
                    changed.wait(&mut inside);
                }
                inside.1 += 1;
                changed.notify_all();
            }
            workers.close();
            let place = lock.lock().0.iter().position(|&tenant| tenant == 2);
            // Each thread may have taken something before, and one more since.
            assert!(place.unwrap() <= 3 * threads, "{class:?}: {place:?}");
        }
    }

    #[test]
    fn what_a_thread_uses_counts_in_the_share_of_who_asked_for_it() {
        let scheduler = Scheduler::builder().start().unwrap();
        let workers = Workers::new(&scheduler.handle());
        let used = || thread_time().unwrap_or_default();
        let work = move || {
            let begin = used();
            while used() < begin + 1_000_000 {}
        };
        let of = workers.of(TenantId::User(7));
        of.submit(offload(BlockingClass::Whole, work), Box::new(|_| {}));
        workers.close();
        let tenants = scheduler.stats().tenants;
        let seen = tenants.iter().find(|tenant| tenant.id == 7).unwrap();
        assert_eq!(seen.service.runs, 1);
        assert!(seen.service.run_ns >= 1_000_000, "{seen:?}");
        assert_eq!(seen.share, 1.0);
    }
}
