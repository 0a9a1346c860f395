//! The lock profile: which locks threads wait for, which call sites hold them, and for how long.
//!
//! While the profile is off, nothing is recorded and lock operations read one flag. While it is on,
//! every contention is counted and timed, and uncontended locks are sampled, so that a busy thread
//! pays little. Each thread writes cells of its own; [`snapshot`] adds them up.
//! `docs/design/lock-profile.md`.
//!
//! The profile covers the process: locks of one class count together, whatever object they are in.

mod clock;
mod counts;
#[cfg(any(feature = "loom", feature = "shuttle", feature = "unprofiled"))]
mod disabled;
mod recorder;
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "unprofiled")))]
mod session;
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "unprofiled")))]
mod switch;
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "unprofiled")))]
mod thread_profile;

pub use clock::TestClock;
pub use counts::{Counts, Key, Row, Side, Snapshot};
pub use recorder::Recorder;

#[cfg(any(feature = "loom", feature = "shuttle", feature = "unprofiled"))]
pub(crate) use disabled::{
    granted, is_on, now, refused, released, taken, try_unsampled, waited, write_mask,
};
#[cfg(any(feature = "loom", feature = "shuttle", feature = "unprofiled"))]
pub use disabled::{reset, snapshot, start, stop};
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "unprofiled")))]
pub use session::{reset, snapshot, start, stop};
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "unprofiled")))]
pub(crate) use {
    clock::now,
    switch::{is_on, write_mask},
    thread_profile::{granted, refused, released, taken, try_unsampled, waited},
};

/// Which of the uncontended lock operations are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// All operations of threads that take few locks. Of a busy thread one in about 64
    /// microseconds, which then stands for the others.
    Adaptive,
    /// All operations, at the cost of reading the clock twice for every lock.
    All,
}
