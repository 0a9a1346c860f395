//! Looking for work at other stations, and sleeping where there is none.

use super::{BEHIND, Driver, Fleet};
use crate::class::{Job, Weights};
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::time::Duration;

/// What a thief came back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loot {
    /// Tasks, now in the own queue.
    Some,
    /// Nothing, but there are tasks that had to stay.
    Left,
    /// Nothing.
    None,
}

impl<T: Job, W: Weights> Fleet<T, W> {
    /// Looks for work at two stations; false when there was none, or none to be had.
    pub fn search(&self, driver: &mut Driver, now: u64) -> bool {
        let own = &self.stations[driver.station];
        if own.is_alone() {
            // What is here goes first, whatever waits elsewhere.
            driver.tried = true;
            return own.hint() > 0;
        }
        if !driver.searching {
            driver.searching = true;
            self.sleepers.start_searching();
        }
        let (one, other) = (self.victim(driver), self.victim(driver));
        let (first, second) = match self.stations[one].hint() < self.stations[other].hint() {
            true => (other, one),
            false => (one, other),
        };
        let found = [first, second].into_iter().any(|victim| {
            let has_some = victim != driver.station && self.stations[victim].hint() > 0;
            has_some && self.steal(driver, victim, now, false) == Loot::Some
        });
        driver.tried = !found;
        found || own.hint() > 0
    }

    /// Sleeps, unless there is work after all: calls `wait` with the longest time that it may
    /// take, if there is one. To be called when [`Fleet::search`] found nothing.
    pub fn sleep(&self, driver: &mut Driver, now: u64, wait: impl FnOnce(Option<Duration>)) {
        if self.stations[driver.station].is_alone() {
            return self.sleep_alone(driver.station, wait);
        }
        // S1, S2.
        self.sleepers.enter(driver.station);
        if driver.searching {
            self.sleepers.stop_searching();
        }
        // S3: partner W2.
        fence(Ordering::SeqCst);
        let loot = self.look_everywhere(driver, now);
        // Relaxed: `stop` unparks after its fence, and a token that comes early is kept.
        if loot != Loot::Some && !self.stopped.load(Ordering::Relaxed) {
            let watch = loot == Loot::Left && self.sleepers.watch();
            wait(watch.then_some(BEHIND));
            self.stations[driver.station].lock().stats_mut().sleeps += 1;
            if watch {
                // The next look is behind the fence of the next sleep, or `stop_searching`.
                self.sleepers.end_watch();
            }
        }
        if self.sleepers.claim(driver.station) {
            self.sleepers.start_searching();
        }
        driver.searching = true;
    }

    /// [`Fleet::sleep`] of who helps nobody, and is never counted as searching.
    fn sleep_alone(&self, station: usize, wait: impl FnOnce(Option<Duration>)) {
        // S1.
        self.sleepers.enter_alone(station);
        // S3: partner W2.
        fence(Ordering::SeqCst);
        // Relaxed: as in `sleep`.
        if self.stations[station].hint() == 0 && !self.stopped.load(Ordering::Relaxed) {
            wait(None);
            self.stations[station].lock().stats_mut().sleeps += 1;
        }
        self.sleepers.claim_alone(station);
    }

    /// W4, after W2: somebody looks for work, or will.
    pub(super) fn wake_one(&self, stays: bool) {
        if self.sleepers.is_searching() || stays && self.sleepers.is_watched() {
            return;
        }
        if let Some(sleeper) = self.sleepers.claim_any() {
            self.sleepers.start_searching();
            self.stations[sleeper].parker().unpark();
        }
    }

    /// The driver found work: the last one that did so sees to what else waits.
    #[cold]
    pub(super) fn stop_searching(&self, driver: &mut Driver) {
        driver.searching = false;
        if self.sleepers.stop_searching() {
            // Partner W2 of those who relied on us.
            fence(Ordering::SeqCst);
            self.hand_on();
        }
    }

    /// After a fence: wakes a sleeper if anything waits.
    pub(super) fn hand_on(&self) {
        if self.sleepers.any() && self.stations.iter().any(|station| station.hint() > 0) {
            self.wake_one(false);
        }
    }

    pub(super) fn no_user_work_elsewhere(&self, driver: &Driver) -> bool {
        // Not `victim`: the driver is borrowed by the switch, and any two will do.
        let count = self.stations.len();
        let first = driver.random as usize % count;
        [first, (first + count / 2 + 1) % count]
            .iter()
            .all(|&at| at == driver.station || self.stations[at].user_hint() == 0)
    }

    /// S4: takes what is anywhere.
    fn look_everywhere(&self, driver: &mut Driver, now: u64) -> Loot {
        let first = self.victim(driver);
        let mut seen = Loot::None;
        for at in 0..self.stations.len() {
            let at = (first + at) % self.stations.len();
            if self.stations[at].hint() == 0 {
                continue;
            }
            if at == driver.station {
                return Loot::Some;
            }
            match self.steal(driver, at, now, true) {
                Loot::Some => return Loot::Some,
                Loot::Left => seen = Loot::Left,
                Loot::None => {}
            }
        }
        seen
    }

    /// Moves at most half of what waits at `victim` into the driver's queue.
    fn steal(&self, driver: &mut Driver, victim: usize, now: u64, patient: bool) -> Loot {
        let from = &self.stations[victim];
        let behind = self.is_behind(victim, now);
        let mut loot = Vec::new();
        let locked = match patient {
            true => Some(from.lock()),
            false => from.try_lock(),
        };
        let Some(mut queue) = locked else {
            return Loot::None;
        };
        from.receive(&mut queue, &self.weights);
        let left = queue.steal(behind, &mut loot);
        from.publish(&queue);
        drop(queue);
        if loot.is_empty() {
            return if left { Loot::Left } else { Loot::None };
        }
        let own = &self.stations[driver.station];
        let mut queue = own.lock();
        queue.stats_mut().steals += 1;
        queue.stats_mut().stolen += loot.len() as u64;
        let mut refused = Vec::new();
        for ready in loot {
            refused.extend(queue.push(ready, &self.weights).err());
        }
        own.publish(&queue);
        drop(queue);
        drop(refused);
        Loot::Some
    }

    /// A random station besides the driver's own.
    fn victim(&self, driver: &mut Driver) -> usize {
        driver.random ^= driver.random << 13;
        driver.random ^= driver.random >> 7;
        driver.random ^= driver.random << 17;
        let stations = self.stations.len();
        let others = (stations as u64 - 1).max(1);
        (driver.station + 1 + (driver.random % others) as usize) % stations
    }
}
