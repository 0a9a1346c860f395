//! What all threads of a scheduler share.

use crate::class::{Class, Job};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::spares::Spares;
use crate::tenant::{Tenant, Tenants};
use crate::timers::Timers;
use async_task::{Runnable, ScheduleInfo};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use hearth_sync::primitive::{Arc, Condvar, Mutex, OnceLock, core};
use std::cell::{Cell, RefCell};
use std::time::Duration;

lock_class! {
    /// Ending and freeing tenants, by one at a time. It is only tried.
    pub ForgetLock = "sched.forget", 1985;
}

/// Everything but the seats.
pub struct Shared {
    pub fleet: Fleet<Work, Tenants>,
    /// By station.
    pub timers: Box<[Timers]>,
    pub clock: Clock,
    pub spares: Spares<Arc<Seat>>,
    pub panics: AtomicU64,
    /// Held by who ends and frees tenants.
    pub forgetting: Lock<ForgetLock, ()>,
    /// No task is taken from outside any more.
    pub closing: AtomicBool,
    /// A task ended, or a seat became free; for who waits for that.
    pub ended: Ended,
    /// Called by who starts a thread for the scheduler, and by that one first.
    pub begin: OnceLock<fn()>,
}

impl Shared {
    /// This thread was started to work for the scheduler, or starts one that does.
    pub fn thread_begins(&self) {
        if let Some(begin) = self.begin.get() {
            begin();
        }
    }

    /// A station for what has no place of its own: one whose driver helps, else one without a
    /// driver.
    pub fn any_station(&self) -> usize {
        let stations = self.fleet.stations();
        let first = core() % stations.len();
        let mut all = (0..stations.len()).map(|at| (first + at) % stations.len());
        all.clone()
            .find(|&at| stations[at].helps())
            .or_else(|| all.find(|&at| !stations[at].is_driven()))
            .unwrap_or(first)
    }

    /// The station `here`, if what has no place of its own may stay there.
    pub fn open(&self, here: Option<usize>) -> Option<usize> {
        here.filter(|&at| !self.fleet.stations()[at].is_alone())
    }

    /// Somebody who does not drive a station put the earliest timer into it.
    pub fn tell_of_timer(&self, station: usize, now: u64) {
        // Partner: S3. Either the driver sees the timer before it sleeps or we see that it sleeps.
        fence(Ordering::SeqCst);
        self.fleet.wake(station, now);
    }
}

/// One station as tasks and threads hold it: a reference of its own per core, so that counting
/// references is no shared write.
pub struct Seat {
    pub shared: Arc<Shared>,
    pub station: usize,
    /// Tasks that began here. Written by any thread.
    pub spawned: AtomicU64,
    /// Tasks of those that ended. Written by any thread.
    pub finished: AtomicU64,
    /// The owner wants the seat back from a substitute.
    pub wanted: AtomicBool,
}

/// What a task carries along.
pub struct Meta {
    pub seat: Arc<Seat>,
    pub class: Class,
    pub tenant: Tenant,
    /// Whether the station was chosen by a key.
    pub stays: bool,
    /// The station where it runs next, unless it is woken elsewhere.
    pub home: AtomicU32,
}

/// A task that is runnable.
pub struct Work(pub Runnable<Meta>);

impl Job for Work {
    fn class(&self) -> Class {
        self.0.metadata().class
    }
    fn tenant(&self) -> usize {
        self.0.metadata().tenant.index()
    }
    fn stays(&self) -> bool {
        self.0.metadata().stays
    }
}

/// Lets threads wait until a task has ended.
#[derive(Default)]
pub struct Ended {
    /// How many wait.
    waiters: AtomicU32,
    turn: Mutex<()>,
    changed: Condvar,
}

impl Ended {
    /// Tells those that wait.
    pub fn tell(&self) {
        // Partner: the fence in `wait_until`. Either the waiter sees what ended or we see it.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.waiters.load(Ordering::Relaxed) > 0 {
            let _turn = self.turn.lock();
            self.changed.notify_all();
        }
    }

    /// Waits until `done`, which is asked again after every [`Ended::tell`], or for `limit`
    /// without one; whether it is done.
    pub fn wait_until(&self, limit: Option<Duration>, mut done: impl FnMut() -> bool) -> bool {
        // Relaxed: ordered by the fence.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut turn = self.turn.lock();
        let mut late = false;
        while !done() && !late {
            match limit {
                None => self.changed.wait(&mut turn),
                Some(limit) => late = self.changed.wait_for(&mut turn, limit),
            }
        }
        // Relaxed: one tells in vain at most.
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        !late || done()
    }
}

hearth_sync::primitive::thread_local! {
    static PLACE: Place = Place::default();
}

/// Which station this thread drives.
#[derive(Default)]
struct Place {
    seat: RefCell<Option<Arc<Seat>>>,
    /// Address of the scheduler whose station this thread drives, else 0.
    scheduler: Cell<usize>,
    station: Cell<usize>,
    /// A task that was woken while it ran here.
    again: Cell<Option<Work>>,
    /// Whether a substitute may drive while a task blocks.
    lends: Cell<bool>,
    /// Address of the scheduler that started this thread, else 0.
    employer: Cell<usize>,
    /// Tasks that are cancelled here, but for the one whose turn it is.
    cancelled: RefCell<Vec<Work>>,
    /// Whether somebody below on the stack goes through them.
    cancels: Cell<bool>,
}

/// This thread was started by the scheduler, which waits for it when it ends.
pub fn enter_service(shared: &Arc<Shared>) {
    PLACE.with(|place| place.employer.set(address(shared)));
    shared.thread_begins();
}

/// Whether who waits here for the end of this scheduler's threads might wait for itself: the
/// thread is one of them, with or without a station, or drives a station of it.
pub fn is_inside(shared: &Arc<Shared>) -> bool {
    let here = PLACE.try_with(|place| {
        let scheduler = address(shared);
        place.employer.get() == scheduler || place.scheduler.get() == scheduler
    });
    here.unwrap_or(false)
}

/// While it lives, this thread drives the seat's station.
pub struct Here {
    before: (Option<Arc<Seat>>, usize, usize, Option<Work>, bool),
}

impl Here {
    /// This thread drives the seat's station from now on.
    pub fn enter(seat: &Arc<Seat>, lends: bool) -> Here {
        PLACE.with(|place| Here {
            before: (
                place.seat.replace(Some(Arc::clone(seat))),
                place.scheduler.replace(address(&seat.shared)),
                place.station.replace(seat.station),
                place.again.take(),
                place.lends.replace(lends),
            ),
        })
    }

    /// After a task: itself if it was woken meanwhile; `None` when the station was given away
    /// by [`give_away`].
    #[inline]
    pub fn after(&self) -> Option<Option<Work>> {
        PLACE.with(|place| (place.scheduler.get() != 0).then(|| place.again.take()))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        PLACE.with(|place| {
            place.seat.replace(self.before.0.take());
            place.scheduler.set(self.before.1);
            place.station.set(self.before.2);
            place.again.set(self.before.3.take());
            place.lends.set(self.before.4);
        });
    }
}

/// This thread's seat, taken from it: it drives no station any more.
pub fn give_away() -> Option<Arc<Seat>> {
    PLACE.with(|place| {
        if !place.lends.get() {
            return None;
        }
        place.scheduler.set(0);
        place.seat.replace(None)
    })
}

/// Nobody else could take the seat: this thread drives the station as before.
pub fn take_back(seat: Arc<Seat>) {
    PLACE.with(|place| {
        place.scheduler.set(address(&seat.shared));
        place.station.set(seat.station);
        place.seat.replace(Some(seat));
    });
}

/// The station of this scheduler that this thread drives.
#[inline]
pub fn station_here(shared: &Arc<Shared>) -> Option<usize> {
    let here = PLACE.try_with(|place| (place.scheduler.get(), place.station.get()));
    here.ok()
        .filter(|&(scheduler, _)| scheduler == address(shared))
        .map(|(_, station)| station)
}

/// Puts a runnable task where it is to run: called once each time that it becomes runnable.
pub fn schedule(runnable: Runnable<Meta>, info: ScheduleInfo) {
    let work = Work(runnable);
    let meta = work.0.metadata();
    let here = station_here(&meta.seat.shared);
    if let Some(station) = here.filter(|_| info.woken_while_running) {
        keep(work, station);
        return;
    }
    let open = meta.seat.shared.open(here);
    if let Some(station) = open.filter(|_| !meta.stays) {
        put(work, station, true);
        return;
    }
    let station = home(meta, open);
    put(work, station, here == Some(station));
}

/// Where a task goes that is woken and does not simply stay with its waker, who may take it over
/// `here`.
fn home(meta: &Meta, here: Option<usize>) -> usize {
    // Relaxed: a hint.
    let home = meta.home.load(Ordering::Relaxed) as usize;
    let shared = &meta.seat.shared;
    match here {
        Some(here) if here != home && shared.fleet.is_behind(home, shared.clock.now().ns()) => here,
        _ => home,
    }
}

/// Keeps a task that goes on until the end of its poll, when the queue is locked anyway.
#[inline]
fn keep(work: Work, station: usize) {
    let second = PLACE.with(|place| place.again.replace(Some(work)));
    if let Some(second) = second {
        put(second, station, true);
    }
}

fn put(work: Work, station: usize, own: bool) {
    let refused = if own {
        // This thread's seat is a reference to the scheduler already.
        PLACE.with(|place| {
            let seat = place.seat.borrow();
            let shared = seat.as_ref().map(|seat| &*seat.shared);
            match shared {
                Some(shared) => shared.fleet.push(station, work, shared.clock.now().ns()),
                None => Err(work),
            }
        })
    } else {
        // The task may run and end elsewhere as soon as it is in.
        let seat = Arc::clone(&work.0.metadata().seat);
        let now = seat.shared.clock.now().ns();
        seat.shared.fleet.send(station, work, now)
    };
    if let Err(work) = refused {
        cancel(work);
    }
}

/// The scheduler has ended: dropping the task ends it as cancelled. That wakes who awaits it, who
/// comes here as well, and ends after it and not inside of it: a chain of such tasks may be longer
/// than the stack.
fn cancel(work: Work) {
    // A thread that has no place any more, because it ends, drops the task with the closure.
    let _ = PLACE.try_with(move |place| {
        place.cancelled.borrow_mut().push(work);
        if place.cancels.replace(true) {
            return;
        }
        let _until_then = Cancelling(&place.cancels);
        loop {
            let next = place.cancelled.borrow_mut().pop();
            match next {
                Some(work) => drop(work),
                None => break,
            }
        }
    });
}

/// Somebody goes through the cancelled tasks of this thread; a waker of who awaits one may panic.
struct Cancelling<'a>(&'a Cell<bool>);

impl Drop for Cancelling<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn address(shared: &Arc<Shared>) -> usize {
    Arc::as_ptr(shared) as usize
}
