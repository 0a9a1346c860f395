//! The switch, and the whole of what the threads recorded.

use std::collections::BTreeMap;

use super::clock::now;
use super::counts::{Row, Snapshot};
use super::local::recorders;
use super::{Counts, Draw, Side};
use crate::primitive::Mutex;
use crate::primitive::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What every taker of a lock looks at. Written when somebody turns the profile on or off, and on
/// lines where nothing else is written.
///
/// Relaxed everywhere: flags of their own. Who sees a change late records a lock more or less.
#[repr(align(128))]
struct Switch {
    on: AtomicBool,
    /// Records every lock.
    exact: AtomicBool,
    /// The bits of a sequence count of which one at least makes a writer go the slow way: the one
    /// that says that somebody writes, or, while the profile is on, all.
    odd: AtomicU32,
    /// Number of the session; 0 before the first one.
    session: AtomicU32,
    /// Holds that end later end then.
    until: AtomicU64,
}

/// Only the lowest bit.
const WRITING: u32 = 1;
/// The profile goes on.
const OPEN: u64 = u64::MAX;

static SWITCH: Switch = Switch {
    on: AtomicBool::new(false),
    exact: AtomicBool::new(false),
    odd: AtomicU32::new(WRITING),
    session: AtomicU32::new(0),
    until: AtomicU64::new(OPEN),
};

/// When the session began. Who has it may turn the switch.
static BEGAN: Mutex<u64> = Mutex::new(0);

/// Whether locks are to be recorded.
#[inline(always)]
pub(crate) fn watched() -> bool {
    SWITCH.on.load(Ordering::Relaxed)
}

/// See [`Switch::odd`].
#[inline(always)]
pub(crate) fn odd() -> u32 {
    SWITCH.odd.load(Ordering::Relaxed)
}

#[inline]
pub(super) fn session() -> u32 {
    SWITCH.session.load(Ordering::Relaxed)
}

pub(super) fn is_exact() -> bool {
    SWITCH.exact.load(Ordering::Relaxed)
}

/// The end of a hold that ends at `now`.
pub(super) fn end_of_hold(now: u64) -> u64 {
    now.min(SWITCH.until.load(Ordering::Relaxed))
}

/// Begins a profile from nothing. Nothing happens if one is on that draws the same way. True
/// unless this build has no profile.
pub fn start(draw: Draw) -> bool {
    let mut began = BEGAN.lock();
    let exact = draw == Draw::All;
    if !watched() || is_exact() != exact {
        SWITCH.exact.store(exact, Ordering::Relaxed);
        SWITCH.until.store(OPEN, Ordering::Relaxed);
        begin_session(&mut began);
        SWITCH.odd.store(u32::MAX, Ordering::Relaxed);
        SWITCH.on.store(true, Ordering::Relaxed);
    }
    true
}

/// Records no more; what was recorded stays until the next start or reset.
pub fn stop() {
    let _turning = BEGAN.lock();
    if watched() {
        SWITCH.on.store(false, Ordering::Relaxed);
        SWITCH.odd.store(WRITING, Ordering::Relaxed);
        SWITCH.until.store(now(), Ordering::Relaxed);
    }
}

/// Forgets what was recorded. A profile that is on begins again.
pub fn reset() {
    let mut began = BEGAN.lock();
    begin_session(&mut began);
    if !watched() {
        SWITCH.until.store(*began, Ordering::Relaxed);
    }
}

/// What was recorded since the start or the last reset.
pub fn snapshot() -> Snapshot {
    let began = BEGAN.lock();
    let session = session();
    let mut lost = 0;
    let mut sums: BTreeMap<(&str, Side, &str, u32, u32), Counts> = BTreeMap::new();
    for recorder in recorders() {
        let Some((cells, missing)) = recorder.copy(session) else {
            continue;
        };
        lost += missing;
        for (key, counts) in cells {
            let (file, line) = (key.site.file(), key.site.line());
            let row = (key.class, key.side, file, line, key.site.column());
            *sums.entry(row).or_default() += counts;
        }
    }
    let running = watched();
    let rows = sums
        .into_iter()
        .map(|((class, side, file, line, column), counts)| Row {
            class,
            side,
            file,
            line,
            column,
            counts,
        });
    Snapshot {
        running,
        exact: is_exact(),
        elapsed_ns: if session == 0 {
            0
        } else {
            end_of_hold(now()).saturating_sub(*began)
        },
        lost,
        rows: rows.collect(),
    }
}

/// Recorders find out by themselves that theirs is over.
fn begin_session(began: &mut u64) {
    *began = now();
    let next = session().wrapping_add(1).max(1);
    SWITCH.session.store(next, Ordering::Relaxed);
}
