//! What tests and benchmarks of the store stand on, from outside: a filesystem that forgets what
//! was not synced, a slow disk, programs that check what they were promised, and the rounds in
//! which the daemon is killed under them.
//!
//! Nothing here knows Hearth but by its command line, so that everything runs on any directory.

pub mod disk;
pub mod forgetting;
pub mod place;
pub mod random;
pub mod rounds;
