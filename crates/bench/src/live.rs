//! An allocator that knows how much is allocated: what was retired and not yet freed, and what
//! was leaked, is memory that is still there.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// The program whose allocator counts: it is built beside this one.
pub fn program() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = here.with_file_name("hearth-live");
    if program.is_file() {
        Ok(program)
    } else {
        Err(format!(
            "{}: missing; cargo build -p hearth-bench",
            program.display()
        ))
    }
}

/// Cells that threads count in; two threads rarely share one.
const CELLS: usize = 64;

static COUNTS: [LiveSlot; CELLS] = [const { LiveSlot::new() }; CELLS];
/// The cell of the next new thread.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// What is allocated at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Bytes that were asked for.
    pub bytes: i64,
    /// Allocations.
    pub blocks: i64,
}

impl Live {
    /// Everything now. Exact when nobody allocates meanwhile.
    ///
    /// Zero in a program whose allocator is not [`Counted`].
    pub fn now() -> Live {
        // Relaxed: sums of counters order nothing.
        let sum = |live: Live, count: &LiveSlot| Live {
            bytes: live.bytes + count.bytes.load(Ordering::Relaxed),
            blocks: live.blocks + count.blocks.load(Ordering::Relaxed),
        };
        COUNTS.iter().fold(Live::default(), sum)
    }
}

/// `A`, counting.
pub struct Counted<A>(pub A);

#[repr(align(128))]
struct LiveSlot {
    bytes: AtomicI64,
    blocks: AtomicI64,
}

impl LiveSlot {
    const fn new() -> LiveSlot {
        LiveSlot {
            bytes: AtomicI64::new(0),
            blocks: AtomicI64::new(0),
        }
    }
}

fn add(bytes: i64, blocks: i64) {
    let cell = CELL.get();
    let cell = if cell == usize::MAX {
        // Relaxed: any number will do.
        let cell = NEXT.fetch_add(1, Ordering::Relaxed) % CELLS;
        CELL.set(cell);
        cell
    } else {
        cell
    };
    // Relaxed: see `Live::now`.
    COUNTS[cell].bytes.fetch_add(bytes, Ordering::Relaxed);
    COUNTS[cell].blocks.fetch_add(blocks, Ordering::Relaxed);
}

// SAFETY: every call goes to `A`, which is an allocator; counting allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64, 1);
        // SAFETY: the caller's promise is what `A` asks for.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64), -1);
        // SAFETY: as in `alloc`.
        unsafe { self.0.dealloc(block, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64, 1);
        // SAFETY: as in `alloc`.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64, 0);
        // SAFETY: as in `alloc`.
        unsafe { self.0.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_elsewhere_is_counted_once() {
        // The tests' own allocator is another one: nobody else counts.
        let counted = Counted(std::alloc::System);
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: the layout has a size.
        let block = unsafe { counted.alloc(layout) } as usize;
        assert_eq!(
            Live::now(),
            Live {
                bytes: 100,
                blocks: 1
            }
        );
        std::thread::scope(|scope| {
            let counted = &counted;
            scope.spawn(move || {
                // SAFETY: the block is from this allocator, with this layout and then that one.
                unsafe {
                    let block = counted.realloc(block as *mut u8, layout, 60);
                    assert_eq!(
                        Live::now(),
                        Live {
                            bytes: 60,
                            blocks: 1
                        }
                    );
                    counted.dealloc(block, Layout::from_size_align(60, 8).unwrap());
                }
            });
        });
        assert_eq!(Live::now(), Live::default());
    }
}
