//! What a daemon looks after once a second, whether somebody calls it or not.

use crate::allocator::GiveBack;
use crate::disk_silence::DiskSilence;
use hearth::Volume;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::time::Duration;

/// The pause between two looks.
const PACE: Duration = Duration::from_secs(1);

/// The thread that looks, until it is dropped.
pub struct Maintenance {
    ends: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Maintenance {
    /// Begins to look. `source` is the volume as it was typed.
    pub fn start(volume: &Volume, source: &str) -> Maintenance {
        let ends = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ends);
        let mut disk = DiskSilence::new(volume, source);
        let mut memory = GiveBack::new(volume);
        let maintain = move || {
            // Relaxed: a flag of its own; who sets it wakes this thread and waits for it.
            while !asked.load(Ordering::Relaxed) {
                thread::park_timeout(PACE);
                disk.look();
                memory.look();
            }
        };
        let builder = thread::Builder::new().name("hearth-upkeep".to_owned());
        Maintenance {
            ends,
            // Without a thread a silent disk is still in `.hearth/stats`, and memory goes back
            // while the daemon is called.
            thread: builder.spawn(maintain).ok(),
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        // Relaxed: see `start`.
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It says lines and gives memory back, and nothing else.
            let _ = thread.join();
        }
    }
}
