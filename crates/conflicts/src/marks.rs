//! Marks: stores around a window, for a memory trace.

use super::cores::{Watch, empty_epoch};
use hearth_sync::epoch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Targets of the stores: at the begin and the end of the first and of the second side's windows.
/// They have a cache line of their own.
#[repr(align(64))]
struct Marks([AtomicU64; 4]);

static MARKS: Marks = Marks([const { AtomicU64::new(0) }; 4]);

/// An observer that only marks windows.
#[derive(Clone, Copy)]
pub struct Marking;

/// Returns the address of the marks: eight bytes each, the ends after the begins.
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
        // SeqCst: as for the store before the window.
        MARKS.0[side * 2 + 1].store(1, Ordering::SeqCst);
    }
}

/// Pins until a collection has run, so that the next is as far away as possible. A retired value
/// tells when it is freed.
fn await_collection() {
    for _ in 0..8 {
        let is_gone = Arc::new(AtomicBool::new(false));
        let guard = epoch::pin();
        epoch::retire(Box::new(Canary(is_gone.clone())), &guard);
        guard.flush();
        drop(guard);
        // Relaxed: only this thread pins, so this thread drops the value.
        if is_gone.load(Ordering::Relaxed) {
            continue;
        }
        for _ in 0..1_000 {
            drop(epoch::pin());
            // Relaxed: only this thread drops the value.
            if is_gone.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// A value that notes its drop.
struct Canary(Arc<AtomicBool>);

impl Drop for Canary {
    fn drop(&mut self) {
        // Relaxed: see `await_collection`.
        self.0.store(true, Ordering::Relaxed);
    }
}
