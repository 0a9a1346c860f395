//! Windows that a memory trace shows by what is stored around them.

use super::cores::{Watch, empty_epoch};
use hearth_sync::epoch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is stored to: at the begin and the end of the first and of the second side's windows. On a
/// line that nothing else is on.
#[repr(align(64))]
struct Marks([AtomicU64; 4]);

static MARKS: Marks = Marks([const { AtomicU64::new(0) }; 4]);

/// Marks windows and sees nothing itself.
#[derive(Clone, Copy)]
pub struct Marking;

/// Where the marks are; the ends come after the begins, eight bytes each.
pub fn address() -> usize {
    std::ptr::from_ref(&MARKS) as usize
}

impl Watch for Marking {
    type Seen = ();

    fn window(self, side: usize, work: &mut dyn FnMut()) {
        empty_epoch();
        await_collection();
        // SeqCst: no access of the window may move across its marks, in the compiler either.
        MARKS.0[side * 2].store(1, Ordering::SeqCst);
        work();
        // SeqCst: as above.
        MARKS.0[side * 2 + 1].store(1, Ordering::SeqCst);
    }
}

/// Pins until a round of collection has been, so that the next is as far away as it can be. A value
/// that is due tells of it.
fn await_collection() {
    for _ in 0..8 {
        let is_gone = Arc::new(AtomicBool::new(false));
        let guard = epoch::pin();
        epoch::retire(Box::new(Canary(is_gone.clone())), &guard);
        guard.flush();
        drop(guard);
        // Relaxed: this thread alone pins, so this thread drops the value.
        if is_gone.load(Ordering::Relaxed) {
            continue;
        }
        for _ in 0..1_000 {
            drop(epoch::pin());
            // Relaxed: as above.
            if is_gone.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Tells when it is dropped.
struct Canary(Arc<AtomicBool>);

impl Drop for Canary {
    fn drop(&mut self) {
        // Relaxed: see `await_collection`.
        self.0.store(true, Ordering::Relaxed);
    }
}
