//! What tests and benchmarks stand on, from outside: a filesystem that forgets what was not synced,
//! a slow disk, programs that check what they were promised, the rounds in which the daemon is
//! killed under them, and the end of a test's threads.
//!
//! Nothing here knows Hearth but by its command line, so that everything runs on any directory.

pub mod aio;
#[cfg(feature = "disks")]
pub mod disk;
#[cfg(feature = "disks")]
pub mod forgetting;
#[cfg(feature = "disks")]
pub mod place;
pub mod random;
#[cfg(feature = "disks")]
pub mod rounds;
pub mod threads;
