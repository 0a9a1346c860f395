//! A disk that neither answers nor fails, said as a line in the log of the daemon.

use crate::output::say;
use hearth::Volume;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::time::Duration;

/// The pause between two looks.
const PACE: Duration = Duration::from_secs(1);
/// How long a disk may be silent before that is said.
const SILENCE: Duration = Duration::from_secs(8);

/// Says once that the disk of a volume does not answer, and once that it does again, until it is
/// dropped.
pub struct DiskWatch {
    ends: Arc<AtomicBool>,
    watcher: Option<thread::JoinHandle<()>>,
}

impl DiskWatch {
    /// Begins to look. `source` is the volume as it was typed.
    pub fn start(volume: &Volume, source: &str) -> DiskWatch {
        let ends = Arc::new(AtomicBool::new(false));
        let (volume, asked) = (volume.clone(), Arc::clone(&ends));
        let source = source.to_owned();
        let watch = move || {
            let mut is_told = false;
            // Relaxed: a flag of its own; who sets it wakes this thread and waits for it.
            while !asked.load(Ordering::Relaxed) {
                thread::park_timeout(PACE);
                is_told = tell(&source, volume.disk_silent(), is_told);
            }
        };
        let watcher = thread::Builder::new().name("hearth-disk".to_owned());
        DiskWatch {
            ends,
            // Without a thread it is still in `.hearth/stats`.
            watcher: watcher.spawn(watch).ok(),
        }
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        // Relaxed: see `start`.
        self.ends.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // It says lines and does nothing else.
            let _ = watcher.join();
        }
    }
}

/// Says what has changed; returns whether the disk is known to be silent.
fn tell(source: &str, silent: Duration, is_told: bool) -> bool {
    let is_silent = silent >= SILENCE;
    if is_silent && !is_told {
        let seconds = silent.as_secs();
        say(format_args!(
            "{source}: a commit or a write-back has waited {seconds} s for the disk; syncs wait \
             with it, what is in memory is served"
        ));
    } else if is_told && !is_silent {
        say(format_args!("{source}: the disk answers again"));
    }
    is_silent
}
