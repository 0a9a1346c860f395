//! The end of the threads of a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, also by a panic, so that the threads of a test end with it.
///
/// It is made inside the scope of the threads, before anything there can fail: a scope waits for
/// its threads also when it unwinds, and threads that loop until the flag is set would never end.
#[must_use = "it sets the flag as soon as it is dropped"]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        // Relaxed: a thread that sees it later works a step longer; its join orders the rest.
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;

    fn spin_until(end: &AtomicBool) {
        while !end.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn threads_end_with_a_body_that_panics() {
        let (end, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
        let body = || {
            std::thread::scope(|scope| {
                let _end = SetOnDrop(&end);
                for _ in 0..2 {
                    scope.spawn(|| {
                        spin_until(&end);
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
                }
                // Not by `panic!`: the hook would print what is wanted here.
                std::panic::resume_unwind(Box::new("a failed assertion"));
            })
        };
        let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("the body panics");
        assert_eq!(panic.downcast_ref(), Some(&"a failed assertion"));
        assert_eq!(ended.into_inner(), 2);
    }

    #[test]
    fn the_flag_is_set_where_the_guard_is_dropped_and_not_before() {
        let flag = AtomicBool::new(false);
        let end = SetOnDrop(&flag);
        assert!(!flag.load(Ordering::Relaxed));
        drop(end);
        assert!(flag.load(Ordering::Relaxed));
    }
}
