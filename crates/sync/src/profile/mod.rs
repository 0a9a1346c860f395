//! Which locks threads wait for, who holds them meanwhile, and for how long.
//!
//! Off, nothing is recorded and takers of locks look at one flag. On, every contention is counted
//! and timed, and of what was free a thread draws some, so that a busy thread pays little. Each
//! thread writes cells of its own; [`snapshot`] adds them up. `docs/design/lock-profile.md`.
//!
//! The profile is of the process: locks of one class count together whichever object they are in.

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

/// Which of the locks that are free when they are asked for are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// All by threads that take few; of a busy thread one in about 64 microseconds, which then
    /// stands for the others.
    Adaptive,
    /// All. Costs what it costs: two looks at the clock for every lock.
    All,
}
