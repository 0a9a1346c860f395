//! The Rust side of `recorder.c`.

use super::overlap::Line;

unsafe extern "C" {
    fn recorder_begin();
    fn recorder_end() -> isize;
    fn recorder_lines() -> *const Line;
}

/// Runs `f` and returns the cache lines that it touched on this thread.
///
/// # Panics
/// When they are more than the recorder can hold.
pub fn record(f: impl FnOnce()) -> Vec<Line> {
    let count = count(f);
    // SAFETY: the recorder of this thread holds `count` lines until the next begin, which this
    // thread alone can call.
    let lines = unsafe { std::slice::from_raw_parts(recorder_lines(), count) };
    lines.to_vec()
}

/// Runs `f` and returns how many cache lines it touched on this thread.
///
/// # Panics
/// When they are more than the recorder can hold.
pub fn count(f: impl FnOnce()) -> usize {
    // SAFETY: begin and end only change what belongs to this thread.
    unsafe { recorder_begin() };
    f();
    // SAFETY: as above; this thread has begun.
    let count = unsafe { recorder_end() };
    usize::try_from(count).expect("a window touches fewer lines than the recorder can note")
}
