//! What a side touches in a window, as the recorder sees it.

use super::cores::{Cores, Watch, empty_epoch};
use super::overlap::{Conflict, Line, overlap};
use super::recorder;
use hearth_sync::epoch;

/// More calls than there ever are between two clock readings of the throttle.
const LOOKS: usize = 64;

/// The recorder as an observer.
#[derive(Clone, Copy)]
pub struct Recording;

impl Watch for Recording {
    type Seen = Vec<Line>;

    /// Records `work` from a known point of the epoch. Nothing retired waits, and the next
    /// collection is as far away as possible, so that a short window never meets one by chance. It
    /// does not meet a clock reading either, which threads make every few calls while much garbage
    /// waits.
    fn window(self, _: usize, work: &mut dyn FnMut()) -> Vec<Line> {
        empty_epoch();
        (0..LOOKS).for_each(|_| epoch::throttle());
        let mut least = usize::MAX;
        for _ in 0..1_000 {
            let lines = recorder::count(|| drop(epoch::pin()));
            // A pin that collects touches more.
            if lines > least {
                break;
            }
            least = least.min(lines);
        }
        // What `work` owns is dropped after the window.
        recorder::record(work)
    }
}

/// Lets each side work alone, one after the other, and returns the lines that both touched and one
/// wrote.
pub fn conflicts<F>(cores: &Cores, mut side: impl FnMut(usize) -> F) -> Vec<Conflict>
where
    F: FnMut() + Send + 'static,
{
    let [a, b] = [0, 1].map(|n| {
        let mut work = side(n);
        cores.run(n, move || Recording.window(n, &mut work))
    });
    overlap(&a, &b)
}
