//! How many callers a commit may expect, and how long it waits for them.
//!
//! Callers come back: who was served makes a few more changes and asks again. So a commit expects
//! as many as the last one served, and those that came while it was under way. It waits for them
//! about as long as a commit takes: then it costs at most twice what it must, and where flushes
//! take long all of the callers share one.

use std::time::Duration;

/// The longest wait, however long commits take.
const LONGEST: Duration = Duration::from_millis(10);
/// One part in this many of the usual time is the last commit's.
const WEIGHT: u32 = 4;

/// Counts of callers, under the lock of the commit.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Callers so far, and as of the moment when the last commit began.
    arrived: u64,
    begun: u64,
    /// Callers that the last commit took along.
    taken: u64,
    /// Callers that the next commit waits for.
    expected: u64,
    /// How long commits take.
    usual: Duration,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd {
            arrived: 0,
            begun: 0,
            taken: 0,
            expected: 1,
            usual: Duration::ZERO,
        }
    }
}

impl Crowd {
    /// Somebody begins to wait for a commit. Returns whether the next one has all that it expects.
    pub fn arrive(&mut self) -> bool {
        self.arrived += 1;
        self.is_complete()
    }

    /// Whether the next commit need not wait.
    pub fn is_complete(&self) -> bool {
        self.arrived - self.begun >= self.expected
    }

    /// How long the next commit waits at most.
    pub fn patience(&self) -> Duration {
        self.usual.min(LONGEST)
    }

    /// A commit begins: it serves everybody who has come.
    pub fn begin(&mut self) {
        self.taken = self.arrived - self.begun;
        self.begun = self.arrived;
    }

    /// It has ended after so long.
    pub fn end(&mut self, took: Duration) {
        self.expected = self.taken + (self.arrived - self.begun);
        self.usual = self.usual - self.usual / WEIGHT + took / WEIGHT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_micros(1000);

    /// Callers that ask again some time after each answer.
    struct Callers {
        crowd: Crowd,
        now: Duration,
        /// When each asks next, and whether that has been.
        each: Vec<(Duration, bool)>,
    }

    impl Callers {
        fn pass(&mut self, until: Duration) {
            self.now = self.now.max(until);
            for (at, is_here) in &mut self.each {
                if *at <= self.now && !std::mem::replace(is_here, true) {
                    self.crowd.arrive();
                }
            }
        }

        fn next(&self) -> Option<Duration> {
            let away = self.each.iter().filter(|(_, is_here)| !is_here);
            away.map(|&(at, _)| at).min()
        }

        /// One commit. Returns how long each caller that it served has waited.
        fn commit(&mut self, away: impl Fn(usize) -> Duration) -> Vec<Duration> {
            if self.each.iter().all(|(_, is_here)| !is_here) {
                self.pass(self.next().unwrap_or_default());
            }
            let deadline = self.now + self.crowd.patience();
            while !self.crowd.is_complete() && self.now < deadline {
                self.pass(self.next().unwrap_or(deadline).min(deadline));
            }
            self.crowd.begin();
            let served: Vec<usize> = (0..self.each.len()).filter(|&n| self.each[n].1).collect();
            self.pass(self.now + FLUSH);
            self.crowd.end(FLUSH);
            let waited = served.iter().map(|&n| self.now - self.each[n].0).collect();
            for n in served {
                self.each[n] = (self.now + away(n), false);
            }
            waited
        }
    }

    /// How many calls a commit serves in the long run, and how long one waits on average.
    fn served(callers: usize, away: impl Fn(usize) -> Duration) -> (usize, Duration) {
        let mut callers = Callers {
            crowd: Crowd::default(),
            now: Duration::ZERO,
            each: (0..callers).map(|n| (away(n), false)).collect(),
        };
        for _ in 0..100 {
            callers.commit(&away);
        }
        let waited: Vec<_> = (0..100).flat_map(|_| callers.commit(&away)).collect();
        let sum: Duration = waited.iter().sum();
        (waited.len() / 100, sum / waited.len() as u32)
    }

    #[test]
    fn all_who_come_back_within_the_time_of_a_commit_share_one() {
        let (each, _) = served(16, |caller| Duration::from_micros(50 * caller as u64));
        assert_eq!(each, 16);
    }

    #[test]
    fn those_who_take_longer_to_come_back_still_share_most() {
        let (each, _) = served(16, |caller| Duration::from_micros(200 * caller as u64));
        assert!(each >= 8, "{each}");
    }

    #[test]
    fn who_is_alone_waits_for_nobody() {
        let (each, waited) = served(1, |_| Duration::from_micros(100));
        assert_eq!((each, waited), (1, FLUSH));
    }

    #[test]
    fn who_comes_back_late_costs_the_others_one_commit_more_at_most() {
        let away = |caller| Duration::from_micros([100, 7_700][caller % 2]);
        let (_, waited) = served(2, away);
        assert!(waited <= 2 * FLUSH, "{waited:?}");
    }
}
