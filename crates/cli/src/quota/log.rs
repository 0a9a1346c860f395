//! Events of quotas as lines in the log of the daemon.

use crate::output::say;
use hearth::Volume;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use std::time::Duration;

/// The pause between two looks.
const PACE: Duration = Duration::from_secs(1);

/// Writes events to standard error until it is dropped.
///
/// Events are looked for once a second, away from the operations that caused them: a log that
/// cannot be written to delays nobody.
pub struct EventLog {
    ends: Arc<AtomicBool>,
    writer: Option<thread::JoinHandle<()>>,
}

impl EventLog {
    /// Begins with the events that come from now on.
    pub fn start(volume: &Volume) -> EventLog {
        let ends = Arc::new(AtomicBool::new(false));
        let (volume, asked) = (volume.clone(), Arc::clone(&ends));
        let write = move || {
            let mut after = 0;
            // Relaxed: a flag of its own; who sets it wakes this thread and waits for it.
            while !asked.load(Ordering::Relaxed) {
                thread::park_timeout(PACE);
                after = tell(&volume, after);
            }
        };
        let writer = thread::Builder::new().name("hearth-quota-log".to_owned());
        EventLog {
            ends,
            // Without a thread the events are still in `.hearth/quota/events`.
            writer: writer.spawn(write).ok(),
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        // Relaxed: see `start`.
        self.ends.store(true, Ordering::Relaxed);
        if let Some(writer) = self.writer.take() {
            writer.thread().unpark();
            // The thread has written the rest; a panic was reported when it happened.
            let _ = writer.join();
        }
    }
}

/// Writes the events after number `after`. Returns the number of the last one.
fn tell(volume: &Volume, after: u64) -> u64 {
    let quota = volume.quota();
    if quota.latest_event() == after {
        return after;
    }
    let events = quota.events(after).unwrap_or_default();
    let mut last = after;
    for event in events {
        if event.sequence > last + 1 {
            let untold = event.sequence - last - 1;
            say(format_args!("quota: {untold} events went by untold"));
        }
        say(format_args!("quota: {event}"));
        last = event.sequence;
    }
    last
}
