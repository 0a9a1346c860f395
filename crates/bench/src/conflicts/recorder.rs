//! The Rust side of `recorder.c`.

use super::overlap::{FRAMES, Line, Side};

#[repr(C)]
#[derive(Clone, Copy)]
struct RawSide {
    bytes: u64,
    depth: u64,
    frames: [usize; FRAMES],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawLine {
    address: usize,
    read: RawSide,
    write: RawSide,
}

unsafe extern "C" {
    fn recorder_begin();
    fn recorder_end() -> isize;
    fn recorder_lines() -> *const RawLine;
}

/// Runs `f` and answers the cache lines that it touched on this thread.
///
/// # Panics
/// When they are more than the recorder can note.
pub fn record(f: impl FnOnce()) -> Vec<Line> {
    let count = count(f);
    // SAFETY: the recorder of this thread holds `count` lines until the next begin, which this
    // thread alone can call.
    let lines = unsafe { std::slice::from_raw_parts(recorder_lines(), count) };
    lines.iter().map(Line::from).collect()
}

/// Runs `f` and answers how many cache lines it touched on this thread.
///
/// # Panics
/// As [`record`].
pub fn count(f: impl FnOnce()) -> usize {
    // SAFETY: begin and end only change what belongs to this thread.
    unsafe { recorder_begin() };
    f();
    // SAFETY: as above; this thread has begun.
    let count = unsafe { recorder_end() };
    usize::try_from(count).expect("a window touches fewer lines than the recorder can note")
}

impl From<&RawLine> for Line {
    fn from(raw: &RawLine) -> Line {
        Line {
            address: raw.address,
            read: (&raw.read).into(),
            write: (&raw.write).into(),
        }
    }
}

impl From<&RawSide> for Side {
    fn from(raw: &RawSide) -> Side {
        if raw.bytes == 0 {
            return Side::default();
        }
        Side {
            bytes: raw.bytes,
            frames: raw.frames[..raw.depth as usize].to_vec(),
        }
    }
}
