//! Work that no request waits for: folding and ageing of heat.

use super::{Core, Volume};
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use hearth_sync::primitive::{Weak, thread};
use std::time::Duration;

/// Between two looks at what there is to do.
const PERIOD: Duration = Duration::from_millis(1000);

/// When what was done last, in the clock's milliseconds.
pub(crate) struct Background {
    /// Relaxed: only the thread that does the work writes it, and doing it twice is harmless.
    aged: AtomicU64,
}

impl Background {
    pub fn new() -> Background {
        Background {
            aged: AtomicU64::new(0),
        }
    }
}

impl Volume {
    /// Does what the background would do now, and returns: for programs that have no thread to
    /// spare (see [`crate::VolumeBuilder::background`]) and call it about once a second.
    pub fn run_background_once(&self) {
        self.core.background();
    }

    /// Starts the thread that does the background's work. It ends within a second after the last
    /// handle of the volume is gone.
    pub(super) fn start_background(&self) {
        let core = self.core.downgrade();
        // Without a thread the work is left to `run_background_once` and to who asks for reports.
        let _ = thread::Builder::new()
            .name("hearth-background".to_owned())
            .spawn(move || run(&core));
    }
}

fn run(core: &Weak<Core>) {
    loop {
        match core.upgrade() {
            Some(core) => {
                core.heat.wakes(thread::current());
                core.background();
            }
            None => return,
        }
        thread::park_timeout(PERIOD);
    }
}

impl Core {
    fn background(&self) {
        if !self.heat.is_on() {
            return;
        }
        self.heat.fold(self);
        let now = self.clock.monotonic();
        let due = self.heat.settings.interval() * 1000;
        let aged = self.background.aged.load(Ordering::Relaxed);
        // A pass over everything in eight parts, one interval for all of them.
        if now.saturating_sub(aged) >= due / 8 {
            self.background.aged.store(now, Ordering::Relaxed);
            self.heat.sweep(self);
        }
    }
}
