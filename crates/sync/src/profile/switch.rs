//! The switch of the profile, which every lock operation reads.

use crate::primitive::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Written when the profile is started, stopped or reset, and on cache lines where nothing else is
/// written.
///
/// Relaxed everywhere: independent flags. A thread that sees a change late records one lock more or
/// less.
#[repr(align(128))]
struct Switch {
    /// 0 while the profile is off, else the number of the session in the upper half.
    on: AtomicU64,
    /// Every lock operation is recorded.
    exact: AtomicBool,
    /// The bits of a sequence count that send a writer to the slow path: the bit of a writer at
    /// work, or, while the profile is on, all.
    write_mask: AtomicU32,
    /// The number of the session; 0 before the first one.
    session: AtomicU32,
    /// Holds that end later are counted up to this time.
    until: AtomicU64,
}

/// The bit of a writer at work.
const WRITING: u32 = 1;
/// The profile is on.
const OPEN: u64 = u64::MAX;

static SWITCH: Switch = Switch {
    on: AtomicU64::new(0),
    exact: AtomicBool::new(false),
    write_mask: AtomicU32::new(WRITING),
    session: AtomicU32::new(0),
    until: AtomicU64::new(OPEN),
};

/// Whether the profile is on.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    on() != 0
}

/// See [`Switch::on`].
#[inline(always)]
pub(super) fn on() -> u64 {
    SWITCH.on.load(Ordering::Relaxed)
}

/// See [`Switch::write_mask`].
#[inline(always)]
pub(crate) fn write_mask() -> u32 {
    SWITCH.write_mask.load(Ordering::Relaxed)
}

#[inline]
pub(super) fn session() -> u32 {
    SWITCH.session.load(Ordering::Relaxed)
}

pub(super) fn is_exact() -> bool {
    SWITCH.exact.load(Ordering::Relaxed)
}

/// The recorded end of a hold that ends at `now`.
pub(super) fn end_of_hold(now: u64) -> u64 {
    now.min(SWITCH.until.load(Ordering::Relaxed))
}

pub(super) fn turn_on(exact: bool) {
    SWITCH.exact.store(exact, Ordering::Relaxed);
    SWITCH.until.store(OPEN, Ordering::Relaxed);
    begin_session();
    SWITCH.write_mask.store(u32::MAX, Ordering::Relaxed);
    SWITCH.on.store(half(session()), Ordering::Relaxed);
}

pub(super) fn turn_off(now: u64) {
    SWITCH.on.store(0, Ordering::Relaxed);
    SWITCH.write_mask.store(WRITING, Ordering::Relaxed);
    end_at(now);
}

/// Holds that end later are counted up to this time.
pub(super) fn end_at(until: u64) {
    SWITCH.until.store(until, Ordering::Relaxed);
}

/// Begins a session. Recorders notice by themselves that theirs is over.
pub(super) fn begin_session() {
    let next = session().wrapping_add(1).max(1);
    SWITCH.session.store(next, Ordering::Relaxed);
    if is_on() {
        SWITCH.on.store(half(next), Ordering::Relaxed);
    }
}

/// The number of a session as [`on`] has it.
pub(super) fn half(session: u32) -> u64 {
    u64::from(session) << 32
}
