//! The per-thread part of the profile: its sampling, its timed holds and its recorder.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::clock::now;
use super::counts::{Counts, Key};
use super::recorder::{Recorder, SiteIndex};
use super::switch::{end_of_hold, half, is_exact, on, session};
use crate::primitive::{Mutex, thread_local};

/// The mean time between two samples of a busy thread, in nanoseconds.
const SAMPLE_NS: u64 = 64_000;
/// Samples after which a thread adapts its sampling period.
const BATCH: u32 = 64;
/// The largest sampling period.
const PERIOD_MAX: u32 = 1 << 14;

thread_local! {
    /// The session in the upper half, and the number of uncontended locks until the next sample in
    /// the lower half. Apart from the rest, because every lock operation touches it: it needs no
    /// destructor and no borrow.
    static UNTIL_SAMPLE: Cell<u64> = const { Cell::new(0) };
    static PROFILE: RefCell<ThreadProfile> = RefCell::new(ThreadProfile::new());
}

/// Every recorder, and whether a thread owns it. Recorders stay: the records of a thread are part
/// of the profile when it has exited, and the next thread goes on with its recorder.
static RECORDERS: Mutex<Vec<(&'static Recorder, bool)>> = Mutex::new(Vec::new());

struct ThreadProfile {
    recorder: &'static Recorder,
    /// Timed holds by the address of their lock.
    holds: HashMap<usize, Hold, BuildHasherDefault<ByAddress>>,
    /// The sampling period: the mean number of uncontended locks per sample, and the weight of a
    /// sample.
    period: u32,
    /// Samples since `looked_at`, when the period was last adapted.
    sampled: u32,
    looked_at: u64,
    /// State of a random number generator (xorshift) for the distances between samples.
    random: u64,
}

struct Hold {
    site: SiteIndex,
    session: u32,
    since: u64,
    /// The number of holds that this one stands for.
    weight: u64,
}

/// While the profile is on: takes a lock by `take`, which returns whether it was free, unless the
/// next uncontended lock is a sample. If this returns false, the caller takes the lock on the slow
/// path.
#[inline(always)]
pub(crate) fn try_unsampled(take: impl FnOnce() -> bool) -> bool {
    let next = UNTIL_SAMPLE.get();
    // In another session, or in none, the number is too large.
    let passes = (next ^ on()).wrapping_sub(2) < u64::from(u32::MAX) - 1 && take();
    if passes {
        UNTIL_SAMPLE.set(next - 1);
    }
    passes
}

/// Records that the thread has taken a free lock. True if the hold is timed: [`released`] must then
/// be called with this address.
pub(crate) fn taken(address: usize, key: impl FnOnce() -> Key, bounced: bool) -> bool {
    !try_unsampled(|| true) && sample(address, &key(), bounced)
}

#[cold]
#[inline(never)]
fn sample(address: usize, key: &Key, bounced: bool) -> bool {
    with(|thread_profile| thread_profile.sample(address, key, bounced)).unwrap_or(false)
}

/// Records that the thread has taken a lock after a wait that began at `since`. Returns as
/// [`taken`].
pub(crate) fn waited(address: usize, key: &Key, bounced: bool, since: u64) -> bool {
    let time = now();
    let wait_ns = time.saturating_sub(since);
    let counts = Counts {
        waited: 1,
        bounced: u64::from(bounced),
        wait_ns,
        wait_ns_max: wait_ns,
        ..Counts::default()
    };
    with(|thread_profile| thread_profile.grant(address, key, &counts, 1, time)).unwrap_or(false)
}

/// Records a granted request whose hold is not timed, after a wait that began at `since`, if there
/// was one.
pub(crate) fn granted(key: &Key, since: Option<u64>) {
    let wait_ns = since.map_or(0, |since| now().saturating_sub(since));
    let counts = Counts {
        free: u64::from(since.is_none()),
        waited: u64::from(since.is_some()),
        wait_ns,
        wait_ns_max: wait_ns,
        ..Counts::default()
    };
    with(|thread_profile| thread_profile.count(key, &counts));
}

/// Records a failed try.
pub(crate) fn refused(key: &Key) {
    let counts = Counts {
        refused: 1,
        ..Counts::default()
    };
    with(|thread_profile| thread_profile.count(key, &counts));
}

/// Records that the thread is about to release a lock whose hold is timed.
#[cold]
#[inline(never)]
pub(crate) fn released(address: usize) {
    let time = now();
    with(|thread_profile| thread_profile.end_hold(address, time));
}

/// All recorders.
pub(super) fn recorders() -> Vec<&'static Recorder> {
    RECORDERS.lock().iter().map(|(one, _)| *one).collect()
}

/// `None` when the thread is exiting and has returned its recorder.
fn with<R>(record: impl FnOnce(&mut ThreadProfile) -> R) -> Option<R> {
    let record = |thread_profile: &RefCell<ThreadProfile>| {
        thread_profile
            .try_borrow_mut()
            .ok()
            .map(|mut l| record(&mut l))
    };
    PROFILE.try_with(record).ok().flatten()
}

impl ThreadProfile {
    fn new() -> ThreadProfile {
        let recorder = take_recorder();
        ThreadProfile {
            recorder,
            holds: HashMap::default(),
            period: 1,
            sampled: 0,
            looked_at: 0,
            random: std::ptr::from_ref(recorder).addr() as u64 | 1,
        }
    }

    fn sample(&mut self, address: usize, key: &Key, bounced: bool) -> bool {
        let time = now();
        let session = self.catch_up(time);
        let weight = u64::from(self.period);
        let counts = Counts {
            free: weight,
            bounced: u64::from(bounced) * weight,
            ..Counts::default()
        };
        let timed = self.grant(address, key, &counts, weight, time);
        self.sampled += 1;
        if self.sampled == BATCH {
            self.choose_period(time);
        }
        UNTIL_SAMPLE.set(half(session) + u64::from(self.distance()));
        timed
    }

    /// Counts a grant and begins to time its hold.
    fn grant(&mut self, address: usize, key: &Key, counts: &Counts, weight: u64, at: u64) -> bool {
        let session = self.catch_up(at);
        let requests = counts.total();
        let Some(site) = self.recorder.site(key, requests) else {
            return false;
        };
        self.recorder.add(site, counts);
        let hold = Hold {
            site,
            session,
            since: at,
            weight,
        };
        self.holds.insert(address, hold);
        true
    }

    fn count(&mut self, key: &Key, counts: &Counts) {
        self.catch_up(self.looked_at);
        if let Some(site) = self.recorder.site(key, counts.total()) {
            self.recorder.add(site, counts);
        }
    }

    fn end_hold(&mut self, address: usize, time: u64) {
        let Some(hold) = self.holds.remove(&address) else {
            return;
        };
        if hold.session != session() || hold.session != self.recorder.session() {
            return;
        }
        let length = end_of_hold(time).saturating_sub(hold.since);
        let counts = Counts {
            timed: 1,
            hold_ns: length * hold.weight,
            hold_ns_max: length,
            ..Counts::default()
        };
        self.recorder.add(hold.site, &counts);
    }

    /// Switches to the current session, in which every operation is a sample at first.
    fn catch_up(&mut self, time: u64) -> u32 {
        let session = session();
        if self.recorder.session() != session {
            self.recorder.begin(session);
            (self.period, self.sampled, self.looked_at) = (1, 0, time);
            UNTIL_SAMPLE.set(half(session) + 1);
        }
        session
    }

    /// Sets the period to the number of uncontended locks in [`SAMPLE_NS`].
    fn choose_period(&mut self, time: u64) {
        let passed = time.saturating_sub(self.looked_at).max(1);
        let locks = u64::from(BATCH) * u64::from(self.period);
        let period = (locks * SAMPLE_NS / passed).clamp(1, u64::from(PERIOD_MAX));
        self.period = if is_exact() { 1 } else { period as u32 };
        (self.sampled, self.looked_at) = (0, time);
    }

    /// The number of locks to the next sample: from 1 to twice the period, the period on average.
    fn distance(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + (self.random >> 32) as u32 % (2 * self.period - 1)
    }
}

impl Drop for ThreadProfile {
    fn drop(&mut self) {
        let mut recorders = RECORDERS.lock();
        if let Some((_, taken)) = recorders
            .iter_mut()
            .find(|(one, _)| std::ptr::eq(*one, self.recorder))
        {
            *taken = false;
        }
    }
}

/// A recorder without an owner, or a new one.
fn take_recorder() -> &'static Recorder {
    let mut recorders = RECORDERS.lock();
    if let Some((recorder, taken)) = recorders.iter_mut().find(|(_, taken)| !*taken) {
        *taken = true;
        return recorder;
    }
    let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
    recorders.push((recorder, true));
    recorder
}

/// Hashes an address by a multiplication.
#[derive(Default)]
struct ByAddress(u64);

impl Hasher for ByAddress {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
