//! Questions to what may never answer.

use hearth_sync::primitive::{Arc, Condvar, Mutex, thread};
use std::time::Instant;

/// Something that a thread of its own finds out. The thread may be stuck in the kernel for ever;
/// who asked waits no longer than it wants to.
pub struct Question<T>(Arc<Answer<T>>);

struct Answer<T> {
    /// Written once, by the thread that asks.
    slot: Mutex<Slot<T>>,
    arrived: Condvar,
}

enum Slot<T> {
    Open,
    Here(T),
    Taken,
}

impl<T: Send + 'static> Question<T> {
    /// Begins to ask.
    ///
    /// # Errors
    /// The machine refuses another thread.
    pub fn ask(find: impl FnOnce() -> T + Send + 'static) -> std::io::Result<Question<T>> {
        let answer = Arc::new(Answer {
            slot: Mutex::new(Slot::Open),
            arrived: Condvar::new(),
        });
        let own = Arc::clone(&answer);
        let asker = move || {
            let found = find();
            *own.slot.lock() = Slot::Here(found);
            own.arrived.notify_all();
        };
        let builder = thread::Builder::new().name("hearth-ask".into());
        builder.spawn(asker)?;
        Ok(Question(answer))
    }

    /// The answer, if it comes by then and nobody has had it.
    pub fn wait(&self, until: Instant) -> Option<T> {
        let mut slot = self.0.slot.lock();
        loop {
            match std::mem::replace(&mut *slot, Slot::Taken) {
                Slot::Here(answer) => return Some(answer),
                Slot::Taken => return None,
                Slot::Open => *slot = Slot::Open,
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.0.arrived.wait_for(&mut slot, left);
        }
    }

    /// Whether its thread is still at it.
    pub fn is_open(&self) -> bool {
        matches!(*self.0.slot.lock(), Slot::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_asks_gets_the_answer_once_and_waits_no_longer_than_it_said() {
        let now = Question::ask(|| 7).unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!((now.wait(later), now.wait(later)), (Some(7), None));
        assert!(!now.is_open());
        let never = Question::ask(|| thread::sleep(Duration::from_secs(3600))).unwrap();
        assert!(
            never
                .wait(Instant::now() + Duration::from_millis(20))
                .is_none()
        );
        assert!(never.is_open());
    }
}
