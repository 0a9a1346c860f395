//! The stations together: putting tasks in, taking them out, and waking who sleeps.

mod search;
mod sleepers;
mod station;

pub use sleepers::{Parker, Unpark};
pub use station::{Manner, Station};

use crate::class::{Job, Weights};
use crate::meter::Meter;
use crate::queue::Ready;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering, fence};
use sleepers::Sleepers;
use std::time::Duration;

/// A station whose driver has not switched for this long is behind.
pub const BEHIND: Duration = Duration::from_millis(1);
/// So many switches in a row need no reading of the clock while tasks run very short.
const COAST: u32 = 7;
/// Service of a tenant that makes one request of it.
const SLICE_NS: u64 = 200_000;

/// All stations.
#[derive(Debug)]
pub struct Fleet<T, W> {
    stations: Box<[Station<T>]>,
    sleepers: Sleepers,
    weights: W,
    stopped: AtomicBool,
}

/// What the thread that drives a station knows.
#[derive(Debug)]
pub struct Driver {
    station: usize,
    /// Counted among those who look for work.
    searching: bool,
    /// Looked for user work elsewhere since the last task, in vain.
    tried: bool,
    /// So many switches may go without a reading of the clock.
    coast: u32,
    random: u64,
    meter: Meter,
}

impl<T: Job, W: Weights> Fleet<T, W> {
    /// So many stations, all empty and without a driver.
    pub fn new(stations: usize, weights: W) -> Fleet<T, W> {
        Fleet {
            stations: (0..stations).map(|_| Station::new(SLICE_NS)).collect(),
            sleepers: Sleepers::new(stations),
            weights,
            stopped: AtomicBool::new(false),
        }
    }

    /// The stations.
    pub fn stations(&self) -> &[Station<T>] {
        &self.stations
    }

    /// Who knows the weights.
    pub fn weights(&self) -> &W {
        &self.weights
    }

    /// Takes the seat of a station, if it is free.
    pub fn drive(&self, station: usize, manner: Manner) -> Option<Driver> {
        let sits = self.stations[station].sit(manner);
        sits.then(|| Driver::of(station))
    }

    /// Ends what ran, puts it back if it is to run `again`, and takes the next task of the
    /// driver's station.
    #[inline]
    pub fn switch(&self, driver: &mut Driver, again: Option<T>, now: u64) -> Option<T> {
        let station = &self.stations[driver.station];
        station.mark_switch(now);
        let mut queue = station.lock();
        queue.finish(now, |ns| driver.meter.used(ns), &self.weights);
        let again = again.map(|task| queue.push(Ready { task, since: now }, &self.weights));
        station.receive(&mut queue, &self.weights);
        let next = queue.pick(now, || driver.tried || self.no_user_work_elsewhere(driver));
        driver.coast = if queue.may_coast() { COAST } else { 0 };
        station.publish(&queue);
        drop(queue);
        // A closed queue gave the task back: dropped without the lock.
        drop(again);
        if next.is_some() {
            driver.tried = false;
            if driver.searching {
                self.stop_searching(driver);
            }
        }
        next
    }

    /// [`Fleet::switch`] without a clock, after a task of a tenant that is alone here and whose
    /// tasks run for less than a reading of the clock is worth: a few times in a row.
    ///
    /// # Errors
    /// It is time for a full switch; the task comes back.
    #[inline]
    pub fn coast(&self, driver: &mut Driver, again: T) -> Result<T, T> {
        let station = &self.stations[driver.station];
        if driver.coast == 0 || station.inbox_hint() > 0 {
            return Err(again);
        }
        driver.coast -= 1;
        let mut queue = station.lock();
        match queue.may_coast() {
            true => Ok(queue.coast(again, station.switched())),
            false => Err(again),
        }
    }

    /// The same with idle work alone.
    pub fn switch_idle(&self, driver: &mut Driver, again: Option<T>, now: u64) -> Option<T> {
        self.pause(driver, again, now);
        let station = &self.stations[driver.station];
        let mut queue = station.lock();
        station.receive(&mut queue, &self.weights);
        let next = queue.pick_idle(now);
        station.publish(&queue);
        next
    }

    /// Idle tasks that wait at a station.
    pub fn idle_len(&self, station: usize) -> usize {
        let station = &self.stations[station];
        let mut queue = station.lock();
        station.receive(&mut queue, &self.weights);
        queue.len() - queue.user_len()
    }

    /// Charges `ns` of work that was never queued, until `now`, to a tenant.
    pub fn serve(&self, station: usize, tenant: usize, ns: u64, now: u64) {
        let station = &self.stations[station];
        station.mark_switch(now);
        station.lock().serve(tenant, ns, 1, &self.weights);
    }

    /// [`Fleet::serve`] for the station's driver while nothing waits there: noted down, and
    /// charged some time later.
    #[inline]
    pub fn note(&self, station: usize, tenant: usize, ns: u64) {
        self.stations[station].note(tenant, ns, &self.weights);
    }

    /// Charges what the station's driver has noted until `now`; for the driver.
    pub fn settle(&self, station: usize, now: u64) {
        let station = &self.stations[station];
        station.mark_switch(now);
        station.charge_notes(&mut station.lock(), &self.weights);
    }

    /// Ends what ran, and puts it back if it is to run `again`, without taking a next.
    pub fn pause(&self, driver: &mut Driver, again: Option<T>, now: u64) {
        self.end(driver.station, again, now, |ns| driver.meter.used(ns));
    }

    /// What runs at a station stops to be its driver's.
    pub fn give_up(&self, station: usize, now: u64) {
        self.end(station, None, now, |ns| ns);
    }

    fn end(&self, station: usize, again: Option<T>, now: u64, used: impl FnOnce(u64) -> u64) {
        let station = &self.stations[station];
        let mut queue = station.lock();
        queue.finish(now, used, &self.weights);
        let again = again.map(|task| queue.push(Ready { task, since: now }, &self.weights));
        station.publish(&queue);
        drop(queue);
        // A closed queue gave the task back: dropped without the lock.
        drop(again);
    }

    /// Puts a task into the queue of a station that the caller drives.
    ///
    /// # Errors
    /// The fleet is closed; the task comes back.
    pub fn push(&self, own: usize, task: T, now: u64) -> Result<(), T> {
        let station = &self.stations[own];
        let stays = task.stays();
        let mut queue = station.lock();
        queue.push(Ready { task, since: now }, &self.weights)?;
        station.publish(&queue);
        drop(queue);
        // W2: partner S3. Either the sleeper sees the task or we see that it sleeps.
        fence(Ordering::SeqCst);
        self.wake_one(stays);
        Ok(())
    }

    /// Puts a task into the inbox of a station.
    ///
    /// # Errors
    /// The fleet is closed; the task comes back.
    pub fn send(&self, to: usize, task: T, now: u64) -> Result<(), T> {
        let station = &self.stations[to];
        let stays = task.stays();
        station.send(Ready { task, since: now })?;
        // W2: partner S3.
        fence(Ordering::SeqCst);
        if self.wake(to, now) {
            return Ok(());
        }
        self.wake_one(stays && station.is_driven());
        Ok(())
    }

    /// Wakes the driver of a station, if it sleeps.
    pub fn wake(&self, station: usize, now: u64) -> bool {
        // W3.
        let helps = self.sleepers.claim(station);
        if helps {
            self.sleepers.start_searching();
        }
        let claimed = helps || self.sleepers.claim_alone(station);
        if claimed {
            self.stations[station].mark_switch(now);
            self.stations[station].parker().unpark();
        }
        claimed
    }

    /// Gives the seat back; tasks that wait are left to thieves.
    pub fn leave(&self, driver: &mut Driver, now: u64) {
        self.pause(driver, None, now);
        self.stations[driver.station].stand();
        if driver.searching {
            self.stop_searching(driver);
        } else {
            fence(Ordering::SeqCst);
            self.hand_on();
        }
    }

    /// Nobody sleeps any more.
    pub fn stop(&self) {
        // Relaxed: the fence and the parkers' locks order it.
        self.stopped.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for station in &self.stations {
            station.parker().unpark();
        }
    }

    /// Whether [`Fleet::stop`] was called.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        // Relaxed: seen sooner or later; sleepers are woken.
        self.stopped.load(Ordering::Relaxed)
    }

    /// Takes no task any more, and gives those that wait.
    pub fn close(&self) -> Vec<T> {
        self.stations.iter().flat_map(Station::close).collect()
    }

    /// Whether a station falls behind: a task with its key may go elsewhere.
    pub fn is_behind(&self, station: usize, now: u64) -> bool {
        let station = &self.stations[station];
        let late = now.saturating_sub(station.switched()) >= BEHIND.as_nanos() as u64;
        !station.is_driven() || late && station.hint() > 0
    }
}

impl Driver {
    /// Who drives a station whose seat the caller holds.
    pub fn of(station: usize) -> Driver {
        Driver {
            station,
            searching: false,
            tried: false,
            coast: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ ((station as u64 + 1) << 17),
            meter: Meter::by_clock(),
        }
    }

    /// Work is measured by `meter`, of the driver's thread, and not by the clock.
    pub fn with_meter(self, meter: Meter) -> Driver {
        Driver { meter, ..self }
    }

    /// How long work ran that the driver did itself and that took `ns` by the clock.
    #[inline]
    pub fn used(&mut self, ns: u64) -> u64 {
        self.meter.used(ns)
    }

    /// The station that is driven.
    pub fn station(&self) -> usize {
        self.station
    }
}
