//! Memory for messages, placed so that the data in them begins where a page begins.
//!
//! The kernel copies page by page. Data that straddles pages on this side costs it two steps for
//! each page on its own.

use crate::wire::PAGE_SIZE;

/// Bytes at a chosen distance from a page boundary.
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    size: usize,
}

impl Buffer {
    /// `size` bytes, of which the one behind the first `head` begins a page. The memory is not
    /// touched until it is used.
    pub fn new(size: usize, head: usize) -> Buffer {
        let memory = vec![0; size + 2 * PAGE_SIZE];
        let to_page = memory.as_ptr().align_offset(PAGE_SIZE);
        let start = to_page + head.next_multiple_of(PAGE_SIZE) - head;
        Buffer {
            memory,
            start,
            size,
        }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_head_begins_a_page() {
        for (size, head) in [(1, 0), (5000, 80), (1 << 20, 4096)] {
            let mut buffer = Buffer::new(size, head);
            assert_eq!(buffer.bytes().len(), size);
            assert_eq!((buffer.bytes().as_ptr() as usize + head) % PAGE_SIZE, 0);
        }
    }
}
