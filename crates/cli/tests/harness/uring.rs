//! The switch of FUSE over io_uring, for the whole machine: turned on for a handshake and put back.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// While it lives the switch is on; one process at a time holds it, so that each puts back what it
/// found.
pub struct UringOn {
    before: String,
    _lock: File,
}

impl UringOn {
    /// Waits for its turn and turns the switch on.
    pub fn new() -> UringOn {
        let path = std::env::temp_dir().join("hearth-test-uring.lock");
        let lock = File::create(path).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let before = fs::read_to_string(SWITCH)
            .unwrap_or_else(|error| panic!("{SWITCH}: {error}; this needs Linux 6.14 or newer"));
        set("Y");
        UringOn {
            before: before.trim().to_owned(),
            _lock: lock,
        }
    }
}

impl Drop for UringOn {
    fn drop(&mut self) {
        set(&self.before);
    }
}

fn set(value: &str) {
    fs::write(SWITCH, value).unwrap_or_else(|error| panic!("{SWITCH}: {error}; are you root?"));
}
