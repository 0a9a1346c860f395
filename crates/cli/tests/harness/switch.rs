//! The kernel's switch for FUSE over io_uring.

use std::fs::File;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Held for as long as this lives, then what it was; all test programs of the machine take turns.
pub struct Turn {
    before: String,
    _turn: File,
}

impl Turn {
    /// Waits for its turn and switches on.
    pub fn with_uring() -> Turn {
        Turn::with("Y")
    }

    /// Waits for its turn and switches off.
    pub fn without_uring() -> Turn {
        Turn::with("N")
    }

    fn with(value: &str) -> Turn {
        let lock = std::env::temp_dir().join("hearth-enable-uring.lock");
        let turn = File::create(lock).expect("the lock file of the switch is made");
        turn.lock().expect("the lock file of the switch is locked");
        let before = std::fs::read_to_string(SWITCH).unwrap_or_else(|error| {
            panic!(
                "{SWITCH}: {error}; do: modprobe fuse, on Linux 6.14 or newer with \
                 CONFIG_FUSE_IO_URING"
            )
        });
        std::fs::write(SWITCH, value).expect("root switches FUSE over io_uring");
        Turn {
            before,
            _turn: turn,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(SWITCH, self.before.trim()) {
            eprintln!("{SWITCH}: {error}");
        }
    }
}
