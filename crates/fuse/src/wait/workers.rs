//! Threads for requests that may block, so that no queue thread ever does.
//!
//! Seven pools do not wait for each other. A waiting lock may need an fsync of its holder to go on,
//! so fsyncs never queue behind locks. One lock may need the release of another, so locks never
//! queue at all: each has its own thread, and beyond a limit the reply is `ENOLCK`. Where work
//! queues, tenants are served by weight, and CPU time counts in their shares. No tenant takes all
//! threads, however long its work blocks: each pool has some to spare ([`PoolQueue`]).
//!
//! Where the machine starts no thread, work waits for the threads that there are. Without any of
//! them it is refused: a lock with `ENOLCK`, and what is no lock with `ENOMEM`.

mod call_turn;

pub(crate) use call_turn::CallTurn;

use super::outcome::{BlockingClass, Finish, Offload, Work};
use super::pool_queue::PoolQueue;
use hearth::sched::{ExternalTask, Handle};
use hearth::{Errno, TenantId};
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::thread::{self, JoinHandle};
use hearth_sync::primitive::{Arc, thread_time};
use std::time::Duration;

/// The number of requests that may wait for other users at the same time. Here and below without
/// the threads to spare.
const WAIT_THREADS: usize = 4096;
/// Threads for fsync.
const IO_THREADS: usize = 32;
/// Threads for work that cannot be divided. That work keeps a core busy, not a device.
const WHOLE_THREADS: usize = 4;
/// Threads that fetch from the backend what requests missed.
const LOAD_THREADS: usize = 16;
/// Threads that make room: one writes everything back, and the others wait for it.
const ROOM_THREADS: usize = 8;
/// Threads for searches, as many as may wait for pages of limited tenants while others go on.
const SEEK_THREADS: usize = 256;
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
    seeks: Arc<Pool>,
    calls: Arc<Pool>,
}

lock_class!(PoolLock = "fuse.workers", 872);

struct Pool {
    /// Knows the weights of tenants.
    sched: Handle,
    name: &'static str,
    /// Bytes of stack of each thread.
    stack: usize,
    state: Lock<PoolLock, PoolState>,
    changed: Condition,
}

struct PoolState {
    queue: PoolQueue<QueuedWork>,
    /// Threads inside `wait_for`. Invariant: unless all threads exist, or one could not be
    /// started, work that may begin has a thread that is about to take it.
    idle: usize,
    /// Threads that exist or are being started. Invariant: while nobody has the lock, `queue` is
    /// empty if this is 0 (after `close` always).
    threads: usize,
    handles: Vec<JoinHandle<()>>,
    closed: bool,
}

/// The thread that takes work.
enum Starts {
    Idle,
    New,
}

/// Work that waits for a thread.
struct QueuedWork {
    outside: ExternalTask,
    work: Work,
    finish: Finish,
}

impl Workers {
    /// Makes the pools, without threads. Work that is submitted here is the system's. Of requests
    /// that are system calls no more than `most_calls` are made at a time.
    pub fn new(sched: &Handle, most_calls: usize) -> Workers {
        let pool = |name, limit, queues| Arc::new(Pool::new(sched, name, limit, queues));
        let pools = Pools {
            waits: pool("hearth-wait", WAIT_THREADS, false),
            io: pool("hearth-io", IO_THREADS, true),
            whole: pool("hearth-whole", WHOLE_THREADS, true),
            loads: pool("hearth-load", LOAD_THREADS, true),
            rooms: pool("hearth-room", ROOM_THREADS, true),
            seeks: pool("hearth-seek", SEEK_THREADS, true),
            calls: pool("hearth-call", CALL_THREADS.min(most_calls), true),
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
            BlockingClass::Seek => &self.pools.seeks,
            BlockingClass::Call => &self.pools.calls,
        };
        pool.submit(self.tenant, work, finish);
    }

    /// Begins a call on the calling thread, as one of the class [`BlockingClass::Call`], until it
    /// is dropped. `None` if that is for another one to begin.
    pub fn begin_call(&self) -> Option<CallTurn> {
        self.pools.calls.begin_here(self.tenant)
    }

    /// Waits for all work and ends the threads. Waiting locks must have been interrupted before.
    pub fn close(&self) {
        self.pools.waits.close();
        self.pools.io.close();
        self.pools.whole.close();
        self.pools.loads.close();
        self.pools.rooms.close();
        self.pools.seeks.close();
        self.pools.calls.close();
    }
}

impl PoolState {
    /// Takes all that is queued.
    fn drain(&mut self, sched: &Handle) -> Vec<QueuedWork> {
        std::iter::from_fn(|| self.queue.take_back(sched)).collect()
    }

    /// Whether one more thread may exist.
    fn has_room(&self) -> bool {
        self.threads < self.queue.most()
    }

    /// Which thread is to take what may begin, if none is about to. A new one is counted.
    fn begins_more(&mut self) -> Option<Starts> {
        if self.closed || !self.queue.lacks_thread(self.threads, self.idle) {
            return None;
        }
        if self.idle > 0 {
            return Some(Starts::Idle);
        }
        self.has_room().then(|| {
            self.threads += 1;
            Starts::New
        })
    }
}

impl QueuedWork {
    /// Runs the work and replies. Returns the CPU time used in nanoseconds.
    fn run(self) -> u64 {
        let begin = thread_time();
        (self.finish)((self.work)());
        let ns = used_since(begin);
        self.outside.finish(ns);
        ns
    }

    /// Replies with an error: no thread will run the work.
    fn refuse(self, errno: Errno) {
        (self.finish)(Err(errno));
    }
}

/// Processor time of the calling thread since `begin`, in nanoseconds.
fn used_since(begin: Option<u64>) -> u64 {
    let used = thread_time().zip(begin);
    used.map_or(0, |(end, begin)| end.saturating_sub(begin))
}

impl Pool {
    /// A pool of at most `each` threads and those to spare, without any. `queues`: work may wait
    /// for one.
    fn new(sched: &Handle, name: &'static str, each: usize, queues: bool) -> Pool {
        let state = PoolState {
            queue: PoolQueue::new(each, queues),
            idle: 0,
            threads: 0,
            handles: Vec::new(),
            closed: false,
        };
        Pool {
            sched: sched.clone(),
            name,
            stack: STACK,
            state: Lock::new(state),
            changed: Condition::new(),
        }
    }

    fn submit(self: &Arc<Pool>, tenant: TenantId, work: Work, finish: Finish) {
        if self.push(tenant, work, finish) {
            self.spawn();
        }
    }

    /// Queues work. Whether a thread has to be started for it, which is counted already.
    fn push(&self, tenant: TenantId, work: Work, finish: Finish) -> bool {
        let tenant = self.sched.tenant(tenant.number());
        let outside = self.sched.external_task(tenant);
        let work = QueuedWork {
            outside,
            work,
            finish,
        };
        let mut state = self.state.lock();
        let errno = refusal(state.queue.queues);
        let begins = state.queue.admits(tenant);
        let lacks_thread = state.queue.len() >= state.idle;
        let pushed = match state.closed {
            true => Err(work),
            false => state.queue.push(&self.sched, tenant, work),
        };
        let spawn = pushed.is_ok() && begins && lacks_thread && state.has_room();
        if spawn {
            state.threads += 1;
        }
        drop(state);
        match pushed {
            Err(work) => work.refuse(errno),
            Ok(()) if begins && !spawn => self.changed.notify_one(),
            Ok(()) => {}
        }
        spawn
    }

    /// Has a thread take what may begin.
    fn start(self: &Arc<Pool>, more: Option<Starts>) {
        match more {
            Some(Starts::Idle) => self.changed.notify_one(),
            Some(Starts::New) => self.spawn(),
            None => {}
        }
    }

    fn spawn(self: &Arc<Pool>) {
        self.sched.run_thread_start_hook();
        let pool = Arc::clone(self);
        let builder = thread::Builder::new()
            .name(self.name.to_owned())
            .stack_size(self.stack);
        match builder.spawn(move || pool.work()) {
            Ok(handle) => {
                let mut state = self.state.lock();
                state.handles.retain(|handle| !handle.is_finished());
                state.handles.push(handle);
            }
            Err(_) => self.not_spawned(),
        }
    }

    /// A thread could not be started. What is queued is left to the others, also to those that are
    /// being started; the last one of these that is not started refuses all of it.
    fn not_spawned(&self) {
        let mut state = self.state.lock();
        state.threads -= 1;
        let queues = state.queue.queues;
        let orphans = match state.threads {
            0 => state.drain(&self.sched),
            // The others may never be done with what they have.
            _ if !queues => state.queue.take_back(&self.sched).into_iter().collect(),
            _ => Vec::new(),
        };
        drop(state);
        refuse(orphans, queues);
    }

    fn work(self: &Arc<Pool>) {
        self.sched.run_thread_start_hook();
        let (mut state, mut timed_out) = (self.state.lock(), false);
        loop {
            if let Some(work) = state.queue.pop(&self.sched) {
                let more = state.begins_more();
                drop(state);
                self.start(more);
                let (tenant, ns) = (work.outside.tenant(), work.run());
                state = self.state.lock();
                state.queue.finish(&self.sched, tenant, ns);
                timed_out = false;
                continue;
            }
            if timed_out || state.closed {
                break;
            }
            state.idle += 1;
            timed_out = state.wait_for(&self.changed, IDLE);
            state.idle -= 1;
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
        // A thread that is being started meanwhile finds nothing.
        let mut state = self.state.lock();
        let (orphans, queues) = (state.drain(&self.sched), state.queue.queues);
        drop(state);
        refuse(orphans, queues);
    }
}

fn refuse(orphans: Vec<QueuedWork>, queues: bool) {
    for orphan in orphans {
        orphan.refuse(refusal(queues));
    }
}

/// The reply to what no thread runs. Not `EAGAIN`, which programs take for that of a descriptor
/// that does not block.
fn refusal(queues: bool) -> Errno {
    match queues {
        true => Errno(libc::ENOMEM),
        false => Errno(libc::ENOLCK),
    }
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
