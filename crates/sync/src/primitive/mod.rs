//! Threads, locks and atomics: the only module that names those of std.
//!
//! With the feature `loom` or `shuttle` the same names are the model checker's types, so the
//! checker runs the code that is written against this module. The lock types follow parking_lot:
//! `lock()` returns the guard, and nothing is ever poisoned.

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) mod cpu;
pub(crate) mod dekker;
mod last_core;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod modelled;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native;
mod parking;
mod prefetch;
mod stopwatch;
// A model checker runs its tasks on one thread; `tests/loom_epoch.rs` has the numbers alone.
#[cfg_attr(any(feature = "loom", feature = "shuttle"), allow(dead_code))]
pub(crate) mod thread_number;
mod thread_time;
mod word_lock;

pub use last_core::LastCore;
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use modelled::*;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use native::*;
pub use prefetch::prefetch;
pub use stopwatch::Stopwatch;
pub use thread_time::{clock, resolution, thread_time};
pub use word_lock::WordLock;

/// Atomics that no model checker replaces.
///
/// For bulk bytes that carry no protocol ([`crate::atomic_bytes`]): replacing them would only slow
/// the model checker down.
pub(crate) mod plain {
    pub use std::sync::atomic::{AtomicU64, Ordering};
}

/// Declares a constructor that is `const` except under loom, whose types have no const ones.
macro_rules! const_unless_loom {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(feature = "loom"))]
        $(#[$meta])*
        $vis const fn $($rest)*

        #[cfg(feature = "loom")]
        $(#[$meta])*
        $vis fn $($rest)*
    };
}
pub(crate) use const_unless_loom;

/// The number of rounds of a racy test. Miri takes a thousand times as long as the processor, and
/// tries other orders and older values by itself.
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
pub(crate) fn rounds(usual: u64) -> u64 {
    if cfg!(miri) {
        usual.div_ceil(200)
    } else {
        usual
    }
}
