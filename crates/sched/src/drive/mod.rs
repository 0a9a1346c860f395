//! Driving a station: taking its tasks and running them, on whatever thread holds its seat.

mod blocking;
mod worker;

pub use blocking::block_in_place;
pub use worker::{Source, Worker};

use crate::fleet::{Driver, Manner};
use crate::shared::{Here, Seat, Shared, Work, enter_service};
use crate::spares::Offer;
use hearth_sync::primitive::atomic::Ordering;
use hearth_sync::primitive::{Arc, thread};
use std::time::Duration;

/// A thread's hold on a station.
pub struct Drive {
    seat: Arc<Seat>,
    /// `None` while a substitute drives, after a task has blocked.
    driver: Option<Driver>,
    lends: bool,
}

impl Drive {
    /// Takes the seat, if it is free. It `lends` when a substitute may drive while a task blocks.
    pub fn take(seat: &Arc<Seat>, manner: Manner, lends: bool) -> Option<Drive> {
        let shared = &seat.shared;
        let driver = shared.fleet.drive(seat.station, manner)?;
        let driver = driver.with_meter(shared.clock.meter());
        Some(Drive {
            seat: Arc::clone(seat),
            driver: Some(driver),
            lends,
        })
    }

    /// Runs tasks until none is here or `most` were run; how many. Ends early when the seat is
    /// lost or wanted, or the scheduler stops.
    pub fn run(&mut self, most: usize) -> usize {
        self.run_with(most, |shared, driver, again, now| {
            shared.fleet.switch(driver, again, now)
        })
    }

    /// The same with idle work alone, until `end` in nanoseconds.
    pub fn run_idle(&mut self, most: usize, end: u64) -> usize {
        self.run_with(most, |shared, driver, again, now| match now < end {
            true => shared.fleet.switch_idle(driver, again, now),
            false => {
                shared.fleet.pause(driver, again, now);
                None
            }
        })
    }

    /// Looks for work elsewhere; whether there is some here now.
    pub fn search(&mut self) -> bool {
        let now = self.seat.shared.clock.now().ns();
        let driver = self.driver.as_mut();
        driver.is_some_and(|driver| self.seat.shared.fleet.search(driver, now))
    }

    /// Sleeps by `wait`, until the next timer at most, unless something is runnable.
    pub fn sleep(&mut self, wait: impl FnOnce(Option<Duration>)) {
        let Some(driver) = &mut self.driver else {
            return;
        };
        let (seat, shared) = (&self.seat, &self.seat.shared);
        let now = shared.clock.now().ns();
        shared.fleet.sleep(driver, now, |limit| {
            // After the fence S3: partners `Shared::tell_of_timer` and `Worker::reclaim`.
            let next = shared.timers[seat.station].next();
            let timer = Duration::from_nanos(next.saturating_sub(now));
            let limit = match (limit, next) {
                (limit, u64::MAX) => limit,
                (limit, _) => Some(limit.map_or(timer, |limit| limit.min(timer))),
            };
            // Relaxed: see above.
            if !seat.wanted.load(Ordering::Relaxed) {
                wait(limit);
            }
        });
    }

    /// Whether this thread still drives the station.
    pub fn is_kept(&self) -> bool {
        self.driver.is_some()
    }

    fn is_wanted(&self) -> bool {
        // Relaxed: seen sooner or later; who wants the seat wakes the driver.
        self.seat.wanted.load(Ordering::Relaxed)
    }

    #[inline]
    fn run_with(
        &mut self,
        most: usize,
        mut switch: impl FnMut(&Shared, &mut Driver, Option<Work>, u64) -> Option<Work>,
    ) -> usize {
        let Some(driver) = &mut self.driver else {
            return 0;
        };
        let (seat, shared) = (&*self.seat, &*self.seat.shared);
        let here = Here::enter(&self.seat, self.lends);
        let timers = &shared.timers[seat.station];
        let (mut ran, mut again) = (0, None);
        'switch: loop {
            let now = shared.clock.now().ns();
            if timers.next() <= now {
                timers.fire(now);
            }
            // Relaxed: see `is_wanted`.
            let leave = shared.fleet.is_stopped() || seat.wanted.load(Ordering::Relaxed);
            if ran == most || leave {
                shared.fleet.pause(driver, again, now);
                break;
            }
            let Some(mut work) = switch(shared, driver, again.take(), now) else {
                break;
            };
            loop {
                run_one(work, seat.station);
                ran += 1;
                let Some(woken) = here.after() else {
                    // Given away with everything that belongs to it.
                    self.driver = None;
                    break 'switch;
                };
                again = woken;
                match again.take_if(|_| ran < most) {
                    None => continue 'switch,
                    Some(task) => match shared.fleet.coast(driver, task) {
                        Ok(next) => work = next,
                        Err(task) => {
                            again = Some(task);
                            continue 'switch;
                        }
                    },
                }
            }
        }
        ran
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        if let Some(mut driver) = self.driver.take() {
            let now = self.seat.shared.clock.now().ns();
            self.seat.shared.fleet.leave(&mut driver, now);
            // An owner that wants its seat back fires its timers itself.
            if !self.is_wanted() {
                move_timers(&self.seat, now);
            }
            self.seat.shared.ended.tell();
        }
    }
}

/// Starts a thread for a station whose seat is taken, or gives it to one that waits; the reason
/// when neither can be, and the seat is the caller's as before.
pub fn employ(seat: &Arc<Seat>) -> Result<(), String> {
    let spares = &seat.shared.spares;
    match spares.offer(Arc::clone(seat)) {
        Offer::Taken => Ok(()),
        Offer::Refused => Err("too many tasks block".to_owned()),
        Offer::Start(first) => {
            seat.shared.thread_begins();
            let name = format!("hearth-{}", seat.station);
            let started = thread::Builder::new()
                .name(name)
                .spawn(move || serve(first));
            started.map(drop).map_err(|error| {
                spares.lose();
                error.to_string()
            })
        }
    }
}

/// What the scheduler's own threads do.
fn serve(first: Arc<Seat>) {
    let shared = &Arc::clone(&first.shared);
    enter_service(shared);
    let mut next = Some(first);
    while let Some(seat) = next.take().or_else(|| shared.spares.next()) {
        let mut drive = Drive {
            driver: Some(Driver::of(seat.station).with_meter(shared.clock.meter())),
            seat,
            lends: true,
        };
        while drive.is_kept() && !drive.is_wanted() && !shared.fleet.is_stopped() {
            if drive.run(usize::MAX) == 0 && drive.is_kept() && !drive.search() {
                let seat = Arc::clone(&drive.seat);
                let parker = shared.fleet.stations()[seat.station].parker();
                drive.sleep(|limit| parker.park(limit));
            }
        }
    }
}

fn run_one(work: Work, station: usize) {
    // Relaxed: a hint; stored only when the task has moved.
    let home = &work.0.metadata().home;
    if home.load(Ordering::Relaxed) as usize != station {
        home.store(station as u32, Ordering::Relaxed);
    }
    // A panic of the future is caught inside of it, see `task`.
    work.0.run();
}

/// A station without a driver fires no timers: those that wait go to one whose driver helps.
fn move_timers(seat: &Seat, now: u64) {
    let shared = &seat.shared;
    let stations = shared.fleet.stations();
    let other = (0..stations.len()).find(|&at| at != seat.station && stations[at].helps());
    let Some(other) = other else { return };
    for (at, waker) in shared.timers[seat.station].take() {
        if let Err(waker) = shared.timers[other].insert(at, waker) {
            waker.wake();
        }
    }
    shared.tell_of_timer(other, now);
}
