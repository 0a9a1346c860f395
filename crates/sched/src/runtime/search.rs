//! Stealing from other run queues, and sleeping when there is nothing to steal.

use super::{BEHIND, Owner, Runtime};
use crate::class::{Job, Weights};
use hearth_sync::primitive::atomic::{Ordering, fence};
use std::time::Duration;

/// The result of a steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stolen {
    /// Tasks, which are now in the thief's queue.
    Some,
    /// Nothing; tasks with affinity were left.
    Left,
    /// Nothing.
    None,
}

impl<T: Job, W: Weights> Runtime<T, W> {
    /// Tries to steal from two random run queues. Returns whether there is work here now.
    pub fn search(&self, owner: &mut Owner, now: u64) -> bool {
        let own = &self.run_queues[owner.run_queue];
        if own.is_pinned() {
            // Tasks here go first, whatever waits elsewhere.
            owner.search_failed = true;
            return own.hint() > 0;
        }
        if !owner.searching {
            owner.searching = true;
            self.sleepers.start_searching();
        }
        let (one, other) = (self.victim(owner), self.victim(owner));
        let (first, second) = match self.run_queues[one].hint() < self.run_queues[other].hint() {
            true => (other, one),
            false => (one, other),
        };
        let found = [first, second].into_iter().any(|victim| {
            let has_some = victim != owner.run_queue && self.run_queues[victim].hint() > 0;
            has_some && self.steal(owner, victim, now, false) == Stolen::Some
        });
        owner.search_failed = !found;
        found || own.hint() > 0
    }

    /// Sleeps, unless there is work after all: calls `wait` with a time limit, if there is one. To
    /// be called after [`Runtime::search`] found nothing.
    pub fn sleep(&self, owner: &mut Owner, now: u64, wait: impl FnOnce(Option<Duration>)) {
        if self.run_queues[owner.run_queue].is_pinned() {
            return self.sleep_pinned(owner.run_queue, wait);
        }
        // S1, S2.
        self.sleepers.enter(owner.run_queue);
        if owner.searching {
            self.sleepers.stop_searching();
        }
        // S3: partner W2.
        fence(Ordering::SeqCst);
        let stolen = self.steal_from_any(owner, now);
        // Relaxed: `stop` unparks after its fence, and a token that comes early is kept.
        if stolen != Stolen::Some && !self.stopped.load(Ordering::Relaxed) {
            let watch = stolen == Stolen::Left && self.sleepers.watch();
            wait(watch.then_some(BEHIND));
            self.run_queues[owner.run_queue].lock().stats_mut().sleeps += 1;
            if watch {
                // The next look follows the fence of the next sleep, or of `stop_searching`.
                self.sleepers.end_watch();
            }
        }
        if self.sleepers.claim(owner.run_queue) {
            self.sleepers.start_searching();
        }
        owner.searching = true;
    }

    /// Sleeps like [`Runtime::sleep`], for a pinned owner, which is never counted as searching.
    fn sleep_pinned(&self, run_queue: usize, wait: impl FnOnce(Option<Duration>)) {
        // S1.
        self.sleepers.enter_pinned(run_queue);
        // S3: partner W2.
        fence(Ordering::SeqCst);
        // Relaxed: as in `sleep`.
        if self.run_queues[run_queue].hint() == 0 && !self.stopped.load(Ordering::Relaxed) {
            wait(None);
            self.run_queues[run_queue].lock().stats_mut().sleeps += 1;
        }
        self.sleepers.claim_pinned(run_queue);
    }

    /// W4, after W2: wakes a sleeper unless a thread searches already.
    pub(super) fn wake_one(&self, is_affine: bool) {
        if self.sleepers.is_searching() || is_affine && self.sleepers.is_watched() {
            return;
        }
        if let Some(sleeper) = self.sleepers.claim_any() {
            self.sleepers.start_searching();
            self.run_queues[sleeper].parker().unpark();
        }
    }

    /// Stops searching because the owner found work. The last thread to do so checks for more work.
    #[cold]
    pub(super) fn stop_searching(&self, owner: &mut Owner) {
        owner.searching = false;
        if self.sleepers.stop_searching() {
            // Partner: W2 of the threads that relied on this search.
            fence(Ordering::SeqCst);
            self.wake_if_work();
        }
    }

    /// Wakes a sleeper if anything waits. To be called after a fence.
    pub(super) fn wake_if_work(&self) {
        if self.sleepers.any() && self.run_queues.iter().any(|run_queue| run_queue.hint() > 0) {
            self.wake_one(false);
        }
    }

    pub(super) fn no_user_work_elsewhere(&self, owner: &Owner) -> bool {
        // Not `victim`: the switch borrows the owner, and any two will do.
        let count = self.run_queues.len();
        let first = owner.random as usize % count;
        [first, (first + count / 2 + 1) % count]
            .iter()
            .all(|&at| at == owner.run_queue || self.run_queues[at].user_hint() == 0)
    }

    /// S4: steals from any run queue.
    fn steal_from_any(&self, owner: &mut Owner, now: u64) -> Stolen {
        let first = self.victim(owner);
        let mut seen = Stolen::None;
        for at in 0..self.run_queues.len() {
            let at = (first + at) % self.run_queues.len();
            if self.run_queues[at].hint() == 0 {
                continue;
            }
            if at == owner.run_queue {
                return Stolen::Some;
            }
            match self.steal(owner, at, now, true) {
                Stolen::Some => return Stolen::Some,
                Stolen::Left => seen = Stolen::Left,
                Stolen::None => {}
            }
        }
        seen
    }

    /// Steals at most half of what waits at `victim`.
    fn steal(&self, owner: &mut Owner, victim: usize, now: u64, patient: bool) -> Stolen {
        let from = &self.run_queues[victim];
        let behind = self.is_behind(victim, now);
        let mut stolen = Vec::new();
        let locked = match patient {
            true => Some(from.lock()),
            false => from.try_lock(),
        };
        let Some(mut queue) = locked else {
            return Stolen::None;
        };
        from.receive(&mut queue, &self.weights);
        let left = queue.steal(behind, &mut stolen);
        from.publish(&queue);
        drop(queue);
        if stolen.is_empty() {
            return if left { Stolen::Left } else { Stolen::None };
        }
        let own = &self.run_queues[owner.run_queue];
        let mut queue = own.lock();
        queue.stats_mut().steals += 1;
        queue.stats_mut().stolen += stolen.len() as u64;
        let mut refused = Vec::new();
        for ready in stolen {
            refused.extend(queue.push(ready, &self.weights).err());
        }
        own.publish(&queue);
        drop(queue);
        drop(refused);
        Stolen::Some
    }

    /// Returns a random run queue other than the owner's.
    fn victim(&self, owner: &mut Owner) -> usize {
        owner.random ^= owner.random << 13;
        owner.random ^= owner.random >> 7;
        owner.random ^= owner.random << 17;
        let run_queues = self.run_queues.len();
        let others = (run_queues as u64 - 1).max(1);
        (owner.run_queue + 1 + (owner.random % others) as usize) % run_queues
    }
}
