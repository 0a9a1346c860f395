//! A thread that takes requests, at its place in the volume's scheduler.
//!
//! What can finish at once does so where it was taken, and is noted down for its tenant. What must
//! wait is parked: it becomes a task with this thread's station as its key, so it goes on here, and
//! the thread takes the next request. `docs/design/scheduler.md` section 13 has the rules.

use crate::dispatch::ops::{PAID, SHORT, brings_blocks};
use crate::placement::idle_policy::ServingThread;
use crate::wait::Park;
use crate::wait::request_task::{Open, PendingRequest, Reason, live, live_in_pieces};
use crate::wait::service::{Absent, Pieces, Service, Span};
use crate::wait::session_shared::SessionShared;
use crate::wire::{CopyFileRangeIn, FallocateIn, InHeader, Opcode, ReadIn, WriteIn};
use hearth::TenantId;
use hearth::sched::{Spec, Tenant, Ticket, Unpark, Worker};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// Tenants whose requests come among so many compete for the core.
const RIVALS: u32 = 4096;
/// Before the first request.
const NOBODY: [(TenantId, Tenant); 2] = [(TenantId::System, Tenant::SYSTEM); 2];

/// A thread that takes requests.
pub(crate) struct RequestQueue<S> {
    hall: Arc<SessionShared<S>>,
    /// The hall of the tenant whose request was parked last.
    own: Option<(TenantId, Arc<SessionShared<S>>)>,
    worker: Worker,
    /// Parked requests that are not answered.
    open: Arc<AtomicUsize>,
    /// The tenants of the last requests, the latest first.
    recent: [(TenantId, Tenant); 2],
    /// What `Handle::endings` was when they were named.
    endings: u64,
    /// So many requests ago another tenant would have been forgotten.
    rivals: u32,
    /// With `sched_policy=auto`.
    answering: Option<ServingThread>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is handled at once.
    Now,
    /// It is parked.
    Park(Reason),
}

impl<S: Service> RequestQueue<S> {
    /// A place for this thread; `unpark` wakes it in [`RequestQueue::wait`], and `source`, which stays open
    /// as long as the desk, is readable while a request waits that nobody has taken. `None` if the
    /// scheduler has no seat left.
    pub fn new(
        hall: &Arc<SessionShared<S>>,
        source: RawFd,
        unpark: Unpark,
    ) -> Option<RequestQueue<S>> {
        Some(RequestQueue {
            worker: hall.sched.worker_alone(Some(unpark)).ok()?,
            hall: Arc::clone(hall),
            own: None,
            open: Arc::new(AtomicUsize::new(0)),
            recent: NOBODY,
            endings: hall.sched.endings(),
            rivals: 0,
            answering: hall
                .idle
                .as_ref()
                .map(|idle| ServingThread::join(idle, source)),
        })
    }

    /// What to do with a request that came. Without ceilings, and outside of tests, that is one
    /// look at whose it is.
    #[inline]
    pub fn look(&mut self, header: &InHeader, args: &[u8]) -> Admission {
        let tenant = self.hall.service.tenant(header);
        self.rivals = self.rivals.saturating_sub(1);
        if tenant != self.recent[0].0 || self.endings != self.hall.sched.endings() {
            self.turn_to(tenant);
        }
        if self.hall.park == Park::Needed && !self.hall.sched.has_ceilings() {
            return Admission::Now;
        }
        self.look_closer(header, args)
    }

    /// A request of the tenant that was last looked at was handled at once.
    #[inline]
    pub fn served(&mut self, span: &Span) {
        self.worker.note(self.recent[0].1, span.ns());
        if let Some(answering) = &mut self.answering {
            answering.served(span);
        }
    }

    /// Whether to let whoever is answered go on before this thread waits;
    /// [`ServingThread::is_pressed`].
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.answering
            .as_ref()
            .is_some_and(ServingThread::is_pressed)
    }

    /// Calls `give`, which gives an answer that is ready since `ended`, where this thread has
    /// nothing else to do; [`ServingThread::give_way`].
    #[inline]
    pub fn give_way<R>(&mut self, ended: Instant, most: Duration, give: impl FnOnce() -> R) -> R {
        match &mut self.answering {
            Some(answering) => answering.give_way(ended, most, give),
            None => give(),
        }
    }

    /// Whether a request may be put behind others at all: not if it gives something back.
    pub fn may_wait(header: &InHeader) -> bool {
        price(header, &[]).is_some()
    }

    /// Whether requests of more than one tenant come here: then those that wait at the same time
    /// are put in order.
    pub fn has_rivals(&self) -> bool {
        self.rivals > 0
    }

    /// Parks a request of the tenant that was last looked at, because of `reason` or because it
    /// lacked something.
    pub fn park(
        &mut self,
        parcel: impl PendingRequest,
        reason: Option<Reason>,
        absent: Option<Absent>,
    ) {
        let (hall, open) = (self.own_hall(), Open::new(&self.open));
        self.spawn(live(hall, parcel, reason, absent, open));
    }

    /// Parks a request of that tenant which is done in pieces.
    pub fn park_pieces(&mut self, parcel: impl PendingRequest, work: Pieces) {
        let (hall, open) = (self.own_hall(), Open::new(&self.open));
        self.spawn(live_in_pieces(hall, parcel, work, open));
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.worker.settle();
        let spec = Spec::of(self.recent[0].1).with_key(self.worker.station() as u64);
        drop(self.hall.sched.spawn(spec, task));
    }

    /// Whether parked requests of this desk are not answered, or its seat had something left from
    /// before. Then its thread sleeps in [`RequestQueue::wait`] only.
    pub fn is_busy(&self) -> bool {
        self.has_open() || self.worker.has_any()
    }

    /// The hall of the tenant that was last looked at.
    fn own_hall(&mut self) -> Arc<SessionShared<S>> {
        let tenant = self.recent[0].0;
        if let Some((own, hall)) = &self.own
            && *own == tenant
        {
            return Arc::clone(hall);
        }
        let hall = Arc::new(self.hall.of(tenant));
        self.own = Some((tenant, Arc::clone(&hall)));
        hall
    }

    fn has_open(&self) -> bool {
        // Relaxed: only this thread raises it.
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Whether parked requests could go on now.
    pub fn has_work(&self) -> bool {
        self.worker.has_work()
    }

    /// Lets up to `most` go on; false if none could.
    pub fn run(&mut self, most: usize) -> bool {
        let mut ran = false;
        for _ in 0..most {
            if !self.worker.has_work() || !self.worker.tick() {
                break;
            }
            ran = true;
        }
        ran
    }

    /// Sleeps by `wait`, which takes the longest time, unless something can go on here.
    pub fn wait(&mut self, wait: impl FnOnce(Option<Duration>)) {
        self.worker.wait(wait);
    }

    /// Lets all parked requests end, when the mount is gone. `wait` sleeps for a time at most.
    pub fn close(&mut self, wait: impl Fn(Option<Duration>)) {
        self.hall.waiting.close();
        while self.has_open() && !self.worker.is_stopped() {
            if !self.run(8) {
                // The last one may end on another core, which tells nobody.
                let soon = Duration::from_millis(10);
                self.wait(|limit| wait(Some(limit.map_or(soon, |limit| limit.min(soon)))));
            }
        }
    }

    #[cold]
    fn turn_to(&mut self, tenant: TenantId) {
        let endings = self.hall.sched.endings();
        if std::mem::replace(&mut self.endings, endings) != endings {
            // Some of these may be of those that ended.
            self.recent = NOBODY;
        }
        if self.recent[0].0 != TenantId::System {
            self.rivals = RIVALS;
        }
        self.recent.swap(0, 1);
        if self.recent[0].0 != tenant {
            let known = self.hall.sched.tenant(tenant.number());
            self.recent[0] = (tenant, known);
        }
    }

    /// A copy that brings bytes to another tenant is held to that one's ceilings too.
    fn charge_target(&self, header: &InHeader, args: &[u8], bytes: u64) -> Option<Ticket> {
        let (copy, _) = match Opcode::from_number(header.opcode)? {
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
                CopyFileRangeIn::read_from_prefix(args).ok()?
            }
            _ => return None,
        };
        let target = InHeader {
            nodeid: copy.nodeid_out,
            ..*header
        };
        let target = self.hall.service.tenant(&target);
        if target == self.recent[0].0 {
            return None;
        }
        let sched = &self.hall.sched;
        sched.charge(sched.tenant(target.number()), 0, bytes)
    }

    #[cold]
    fn look_closer(&mut self, header: &InHeader, args: &[u8]) -> Admission {
        let Some(bytes) = price(header, args) else {
            return match self.hall.park {
                Park::Every if is_answered(header) => Admission::Park(Reason::Test),
                _ => Admission::Now,
            };
        };
        let sched = &self.hall.sched;
        if sched.has_ceilings() && !hearth::is_control(header.nodeid) {
            let own = sched.charge(self.recent[0].1, 1, bytes);
            let tickets = [own, self.charge_target(header, args, bytes)];
            if tickets.iter().any(Option::is_some) {
                return Admission::Park(Reason::Ceiling(tickets));
            }
        }
        match self.hall.park {
            Park::Every => Admission::Park(Reason::Test),
            Park::Needed => Admission::Now,
        }
    }
}

/// Whether a request that only gives something back is answered.
fn is_answered(header: &InHeader) -> bool {
    let opcode = Opcode::from_number(header.opcode);
    matches!(
        opcode,
        Some(Opcode::Flush | Opcode::Release | Opcode::Releasedir)
    )
}

/// Bytes that a request moves or allocates. `None` for what only gives something back, and is never
/// delayed.
fn price(header: &InHeader, args: &[u8]) -> Option<u64> {
    match Opcode::from_number(header.opcode)? {
        Opcode::Forget
        | Opcode::BatchForget
        | Opcode::Interrupt
        | Opcode::Flush
        | Opcode::Release
        | Opcode::Releasedir
        | Opcode::Init
        | Opcode::Destroy => None,
        Opcode::Read => {
            let read = ReadIn::read_from_prefix(args).ok();
            Some(read.map_or(0, |(read, _)| u64::from(read.size)))
        }
        Opcode::Write => {
            let write = WriteIn::read_from_prefix(args).ok();
            Some(write.map_or(0, |(write, _)| u64::from(write.size)))
        }
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
            let copy = CopyFileRangeIn::read_from_prefix(args).ok();
            Some(copy.map_or(0, |(copy, _)| copy.len.min(PAID)))
        }
        Opcode::Fallocate => {
            let allocate = FallocateIn::read_from_prefix(args).ok();
            // A longer one pays as it goes on.
            let at_once = |args: &FallocateIn| args.length <= SHORT && brings_blocks(args.mode);
            let paid = allocate.filter(|(args, _)| at_once(args));
            Some(paid.map_or(0, |(args, _)| args.length))
        }
        _ => Some(0),
    }
}
