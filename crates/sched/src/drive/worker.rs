//! A worker whose loop belongs to the caller.

use super::Drive;
use crate::fleet::{Manner, Unpark};
use crate::shared::Seat;
use crate::tenant::Tenant;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::time::Duration;

/// Tasks between two looks at the source.
const TASKS_PER_POLL: usize = 8;

/// The right to drive a station from the caller's thread. Dropping it leaves the station.
///
/// `docs/design/scheduler.md` section 12 shows the loop.
pub struct Worker {
    seat: Arc<Seat>,
    manner: Manner,
    drive: Option<Drive>,
}

/// Where a worker's thread gets work from besides the scheduler: a queue of requests.
pub trait Source {
    /// Takes what has come: finishes it by [`Worker::serve`] or spawns it. True if there was
    /// any; a source that goes on for ever keeps the tasks waiting, so it takes a bounded part.
    fn poll(&mut self, worker: &mut Worker) -> bool;
    /// Waits until something comes or the worker is unparked, no longer than `limit`.
    fn wait(&mut self, limit: Option<Duration>);
    /// Whether the loop ends.
    fn is_finished(&self) -> bool;
}

impl Worker {
    /// Takes the seat, or gives `unpark` back when somebody has it.
    pub(crate) fn take(
        seat: &Arc<Seat>,
        manner: Manner,
        unpark: Option<Unpark>,
    ) -> Result<Worker, Option<Unpark>> {
        let Some(drive) = Drive::take(seat, manner, true) else {
            return Err(unpark);
        };
        seat.shared.fleet.stations()[seat.station]
            .parker()
            .set_elsewhere(unpark);
        Ok(Worker {
            seat: Arc::clone(seat),
            manner,
            drive: Some(drive),
        })
    }

    /// The station's number, below the number of stations: the key `station` leads to it.
    pub fn station(&self) -> usize {
        self.seat.station
    }

    /// Runs one task, from here or, unless it is [alone](crate::Handle::worker_alone), from another
    /// station; false when there is none to be had.
    pub fn tick(&mut self) -> bool {
        self.run(1) > 0
    }

    /// Takes turns between a source and tasks until the source is finished or the scheduler
    /// stops.
    pub fn run_source(&mut self, source: &mut impl Source) {
        while !source.is_finished() && !self.is_stopped() {
            let came = source.poll(self);
            if self.run(TASKS_PER_POLL) == 0 && !came {
                self.wait(|limit| source.wait(limit));
            }
        }
    }

    /// Runs `f` here and now, and counts it as service of a tenant.
    pub fn serve<R>(&mut self, tenant: Tenant, f: impl FnOnce() -> R) -> R {
        let clock = &self.seat.shared.clock;
        let begin = clock.now();
        let result = f();
        let now = clock.now();
        let ns = self.used(now.since(begin).as_nanos() as u64);
        let fleet = &self.seat.shared.fleet;
        fleet.serve(self.seat.station, tenant.index(), ns, now.ns());
        result
    }

    /// [`Worker::serve`] after the fact, for work that took `ns`: noted down and charged some time
    /// later, so that it costs next to nothing. For when nothing waits here.
    #[inline]
    pub fn note(&mut self, tenant: Tenant, ns: u64) {
        if self.drive.as_ref().is_some_and(Drive::is_kept) {
            let ns = self.used(ns);
            let fleet = &self.seat.shared.fleet;
            fleet.note(self.seat.station, tenant.index(), ns);
        }
    }

    /// Charges what was noted: before work is queued here, so that it finds the accounts true.
    pub fn settle(&mut self) {
        if self.drive.as_ref().is_some_and(Drive::is_kept) {
            let shared = &self.seat.shared;
            shared
                .fleet
                .settle(self.seat.station, shared.clock.now().ns());
        }
    }

    /// Whether a task waits here, or a timer is due.
    pub fn has_work(&self) -> bool {
        let (shared, station) = (&self.seat.shared, self.seat.station);
        let timer = || match shared.timers[station].next() {
            u64::MAX => false,
            next => next <= shared.clock.now().ns(),
        };
        shared.fleet.stations()[station].hint() > 0 || timer()
    }

    /// Whether any task waits here, or a timer.
    pub fn has_any(&self) -> bool {
        let (shared, station) = (&self.seat.shared, self.seat.station);
        shared.fleet.stations()[station].hint() > 0 || shared.timers[station].next() != u64::MAX
    }

    /// Sleeps, unless a task is runnable that may run here: calls `wait` with the longest time that
    /// it may take. `wait` returns when the worker is unparked.
    pub fn wait(&mut self, wait: impl FnOnce(Option<Duration>)) {
        if self.reclaim()
            && let Some(drive) = &mut self.drive
            && !drive.search()
        {
            drive.sleep(wait);
        }
    }

    /// [`Worker::wait`] for a worker without a source: sleeps until unparked.
    pub fn park(&mut self) {
        let seat = Arc::clone(&self.seat);
        let parker = seat.shared.fleet.stations()[seat.station].parker();
        self.wait(|limit| parker.park(limit));
    }

    /// Whether the scheduler has stopped: nothing runs any more.
    pub fn is_stopped(&self) -> bool {
        self.seat.shared.fleet.is_stopped()
    }

    /// How long this thread ran in the last `ns` nanoseconds.
    #[inline]
    fn used(&mut self, ns: u64) -> u64 {
        let driver = self.drive.as_mut().and_then(|drive| drive.driver.as_mut());
        driver.map_or(ns, |driver| driver.used(ns))
    }

    fn run(&mut self, most: usize) -> usize {
        if !self.reclaim() {
            return 0;
        }
        let Some(drive) = &mut self.drive else {
            return 0;
        };
        match drive.run(most) {
            0 if drive.is_kept() && drive.search() => drive.run(most),
            ran => ran,
        }
    }

    /// Takes the seat back from the substitute that got it when a task blocked.
    fn reclaim(&mut self) -> bool {
        if self.drive.as_ref().is_some_and(Drive::is_kept) {
            return !self.is_stopped();
        }
        let (seat, shared) = (&self.seat, &self.seat.shared);
        // Relaxed: the substitute sees it at its next switch; if it is about to sleep, the fence
        // makes it see it or us see that it sleeps. Partner: S3 and `Drive::sleep`.
        seat.wanted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        shared.fleet.wake(seat.station, shared.clock.now().ns());
        let (manner, drive) = (self.manner, &mut self.drive);
        *drive = None;
        let ended = &shared.ended;
        ended.wait_until(None, || {
            if drive.is_none() {
                *drive = Drive::take(seat, manner, true);
            }
            drive.is_some() || shared.fleet.is_stopped()
        });
        // Relaxed: as above.
        seat.wanted.store(false, Ordering::Relaxed);
        drive.is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let station = &self.seat.shared.fleet.stations()[self.seat.station];
        station.parker().set_elsewhere(None);
    }
}
