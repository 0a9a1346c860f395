//! Whether heat has records of a file: what its end and a truncate ask.

use hearth_sync::primitive::atomic::{AtomicU8, Ordering::Relaxed};

const NEVER: u8 = 0;
const TOGETHER: u8 = 1;
const APART: u8 = 2;

/// Which records heat has, or will have. Only grows; written by folds, one at a time.
pub(crate) struct Tracked(AtomicU8);

impl Tracked {
    pub fn never() -> Tracked {
        Tracked(AtomicU8::new(NEVER))
    }

    /// There will be one, `apart` from that of the file.
    pub fn mark(&self, apart: bool) {
        let mark = if apart { APART } else { TOGETHER };
        // Relaxed: one word; a fold looks again afterwards, see `docs/design/heat.md`. Read before,
        // so that a file in use is not written each time.
        if self.0.load(Relaxed) < mark {
            self.0.store(mark, Relaxed);
        }
    }

    /// Whether there may be any.
    pub fn is_any(&self) -> bool {
        // Relaxed: as `mark`.
        self.0.load(Relaxed) != NEVER
    }

    /// Whether some may lie apart from that of the file.
    pub fn is_apart(&self) -> bool {
        // Relaxed: as `mark`.
        self.0.load(Relaxed) == APART
    }
}
