//! Memory for what is read: used again, because memory that is new to the process costs more than
//! the read.

use bytes::Bytes;
use hearth_sync::primitive::Mutex;

/// Buffers that are kept.
const KEPT: usize = 8;

/// Buffers that nobody uses.
#[derive(Debug, Default)]
pub struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// A buffer of `len` bytes, whatever they are.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let free = self.free.lock().pop();
        let mut buffer = free.unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// Gives back what was taken, unless somebody still uses it.
    pub fn give(&self, bytes: Bytes) {
        if bytes.is_unique() {
            let buffer = Vec::from(bytes);
            let mut free = self.free.lock();
            if free.len() < KEPT {
                free.push(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_unless_somebody_still_has_a_part_of_it() {
        let buffers = Buffers::default();
        let first = buffers.take(1000);
        let place = first.as_ptr();
        buffers.give(Bytes::from(first));
        let again = Bytes::from(buffers.take(900));
        assert_eq!((again.as_ptr(), again.len()), (place, 900));
        let part = again.slice(10..20);
        buffers.give(again);
        let other = buffers.take(900);
        assert_ne!(other.as_ptr(), place);
        assert_eq!(part.len(), 10);
    }
}
