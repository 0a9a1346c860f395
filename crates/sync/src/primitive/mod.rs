//! Threads, locks and atomics: the only place that names std's.
//!
//! With the feature `loom` or `shuttle` the same names are the model checker's types, so that
//! code written against this module is what the model checker runs. The lock types follow
//! parking_lot: `lock()` gives the guard, nothing is ever poisoned.

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod cpu;
pub(crate) mod dekker;
mod last_core;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod modelled;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native;
mod parking;
mod prefetch;
mod stopwatch;
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
/// For bulk bytes that carry no protocol ([`crate::atomic_bytes`]): replacing them would only slow the
/// model checker down.
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

/// How often a test does something that is a race: Miri takes a thousand times as long as the
/// processor, and tries other orders and older values of its own accord.
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
pub(crate) fn rounds(usual: u64) -> u64 {
    if cfg!(miri) {
        usual.div_ceil(200)
    } else {
        usual
    }
}
