//! What a thread knows of its own: what it draws next, what it holds, where it records.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::clock::now;
use super::counts::{Counts, Key};
use super::recorder::{Recorder, SiteIndex};
use super::switch::{end_of_hold, half, is_exact, on, session};
use crate::primitive::{Mutex, thread_local};

/// A busy thread draws one lock in about so many nanoseconds.
const SAMPLE_NS: u64 = 64_000;
/// How many draws a thread looks back at to see how busy it is.
const BATCH: u32 = 64;
/// A drawn lock stands for this many at most.
const PERIOD_MAX: u32 = 1 << 14;

thread_local! {
    /// A session in the upper half, and how many free locks to go in it until one is drawn. Apart
    /// from the rest, because it is touched by every lock: it needs no destructor and no borrow.
    static UNTIL_SAMPLE: Cell<u64> = const { Cell::new(0) };
    static PROFILE: RefCell<ThreadProfile> = RefCell::new(ThreadProfile::new());
}

/// Every recorder there is, and whether a thread has it. They stay: what a thread recorded is
/// part of the profile when it has ended, and the next thread goes on with its recorder.
static RECORDERS: Mutex<Vec<(&'static Recorder, bool)>> = Mutex::new(Vec::new());

struct ThreadProfile {
    recorder: &'static Recorder,
    /// Timed holds by the address of their lock.
    holds: HashMap<usize, Hold, BuildHasherDefault<ByAddress>>,
    /// How many free locks lie between two draws, on average; what a draw stands for.
    period: u32,
    /// Draws since `looked_at`, the last time that the period was chosen.
    sampled: u32,
    looked_at: u64,
    /// State of a generator (xorshift): which draws fall where.
    random: u64,
}

struct Hold {
    site: SiteIndex,
    session: u32,
    since: u64,
    /// How many holds this one stands for.
    weight: u64,
}

/// While the profile is on: takes a lock by `take`, which answers whether it was free, if the next
/// free lock is not drawn. Who gets false takes it in the slow way.
#[inline(always)]
pub(crate) fn try_unsampled(take: impl FnOnce() -> bool) -> bool {
    let next = UNTIL_SAMPLE.get();
    // Of another session, or of none, the number is too great.
    let passes = (next ^ on()).wrapping_sub(2) < u64::from(u32::MAX) - 1 && take();
    if passes {
        UNTIL_SAMPLE.set(next - 1);
    }
    passes
}

/// The thread has taken a lock that was free. True if the hold is timed: [`released`] must be
/// called with the same address.
pub(crate) fn taken(address: usize, key: impl FnOnce() -> Key, bounced: bool) -> bool {
    !try_unsampled(|| true) && sample(address, &key(), bounced)
}

#[cold]
#[inline(never)]
fn sample(address: usize, key: &Key, bounced: bool) -> bool {
    with(|thread_profile| thread_profile.sample(address, key, bounced)).unwrap_or(false)
}

/// The thread has taken a lock for which it waited `since`. As [`taken`].
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

/// A request is granted whose hold is not timed, after a wait that began `since`, if there was one.
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

/// The thread has tried a lock in vain.
pub(crate) fn refused(key: &Key) {
    let counts = Counts {
        refused: 1,
        ..Counts::default()
    };
    with(|thread_profile| thread_profile.count(key, &counts));
}

/// The thread is about to give up a lock whose hold is timed.
#[cold]
#[inline(never)]
pub(crate) fn released(address: usize) {
    let time = now();
    with(|thread_profile| thread_profile.end_hold(address, time));
}

/// Every recorder there is.
pub(super) fn recorders() -> Vec<&'static Recorder> {
    RECORDERS.lock().iter().map(|(one, _)| *one).collect()
}

/// `None` when the thread is ending and has given its recorder back.
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

    /// Goes over to the present session, where everything is drawn at first.
    fn catch_up(&mut self, time: u64) -> u32 {
        let session = session();
        if self.recorder.session() != session {
            self.recorder.begin(session);
            (self.period, self.sampled, self.looked_at) = (1, 0, time);
            UNTIL_SAMPLE.set(half(session) + 1);
        }
        session
    }

    /// As many free locks between two draws as pass in [`SAMPLE_NS`].
    fn choose_period(&mut self, time: u64) {
        let passed = time.saturating_sub(self.looked_at).max(1);
        let locks = u64::from(BATCH) * u64::from(self.period);
        let period = (locks * SAMPLE_NS / passed).clamp(1, u64::from(PERIOD_MAX));
        self.period = if is_exact() { 1 } else { period as u32 };
        (self.sampled, self.looked_at) = (0, time);
    }

    /// How many locks to the next draw: from 1 to twice the period, the period on average.
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

/// One that no thread has, or a new one.
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

/// An address is its own hash, spread by a multiplication.
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
