//! Attempts of an operation that are not the last one: a front end tries again where an attempt
//! finds no room, since some may be on its way back. Such a refusal is no answer yet.

use std::cell::Cell;

thread_local! {
    static IS_PROVISIONAL: Cell<bool> = const { Cell::new(false) };
}

/// Makes an attempt on this thread. `is_provisional`: where it finds no room, another one follows.
pub fn attempt<T>(is_provisional: bool, operation: impl FnOnce() -> T) -> T {
    let _restored = Restored(IS_PROVISIONAL.replace(is_provisional));
    operation()
}

/// Whether another attempt follows where the one of this thread finds no room.
pub fn is_provisional() -> bool {
    IS_PROVISIONAL.get()
}

/// Puts back what was so before, also after a panic.
struct Restored(bool);

impl Drop for Restored {
    fn drop(&mut self) {
        IS_PROVISIONAL.set(self.0);
    }
}
