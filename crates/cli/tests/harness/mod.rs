//! What every suite needs: a volume mounted by the program `hearth`, and programs run on it.
//!
//! Client and daemon are different processes, and a watchdog kills the daemon and takes the mount
//! away when a suite takes too long: what waits inside the kernel then gets an error, and a hang
//! becomes a failure.

// Each suite is a program of its own and uses a part of this.
#![allow(dead_code, unused_imports, unused_macros)]

mod below;
mod damage;
mod devices;
mod mounted;
mod peer;
mod private;
mod programs;
mod random;
mod refusal;
mod stuck;
mod switch;
mod table;
mod tree;
mod watchdog;

pub use below::Below;
pub use damage::flip;
pub use devices::with_devices;
pub use mounted::{Mounted, Transport, hearth};
pub use peer::root_attr;
pub use private::Private;
pub use programs::{Said, demand_root, git, program, registry_tool, said, shell, succeed, tool};
pub use random::{Random, seed};
pub use refusal::{refused, state};
pub use stuck::Lookout;
pub use switch::Turn;
pub use table::{mounts_below, pids_naming};
pub use tree::assert_same;
pub use watchdog::{Watchdog, kill};

use std::time::{Duration, Instant};

/// Declares for each function `fn fact(transport: Transport)` a test over io_uring and one over
/// `/dev/fuse`.
macro_rules! on_both_transports {
    ($($fact:ident),* $(,)?) => {
        $(mod $fact {
            #[test]
            fn over_uring() {
                super::$fact(super::harness::Transport::Uring);
            }

            #[test]
            fn over_dev() {
                super::$fact(super::harness::Transport::Dev);
            }
        })*
    };
}
pub(crate) use on_both_transports;

/// Waits until something is so, and fails with `what` when it does not come.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "this did not come: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
