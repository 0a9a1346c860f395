//! How the memory that a store is given is divided among what it keeps beside the volume's own
//! objects.

/// The parts of a store's memory, in bytes. Each has a least, below which it is of no use, and a
/// most, above which it gains nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryParts {
    /// Blocks of the engine's tables.
    pub tables: u64,
    /// Unpacked blocks of data.
    pub blocks: u64,
    /// What was committed since the last checkpoint, in one of two layers.
    pub overlay: u64,
    /// Data that idle work reads and writes at once; the same bytes lie there several times.
    pub work: u64,
}

const MIB: u64 = 1 << 20;

impl MemoryParts {
    /// The parts of a store that may take about `memory` bytes with the objects of its volume.
    pub fn of(memory: u64) -> MemoryParts {
        MemoryParts {
            tables: (memory / 8).clamp(2 * MIB, 64 * MIB),
            blocks: (memory / 16).clamp(MIB, 64 * MIB),
            overlay: (memory / 16).clamp(MIB, 32 * MIB),
            work: (memory / 32).clamp(MIB, 32 * MIB),
        }
    }

    /// What is kept, all together.
    pub fn sum(&self) -> u64 {
        self.tables + self.blocks + 2 * self.overlay
    }
}

impl Default for MemoryParts {
    /// The most of each.
    fn default() -> MemoryParts {
        MemoryParts::of(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_leave_most_of_the_memory_to_the_volume() {
        for memory in [16 * MIB, 64 * MIB, 512 * MIB, 3 << 30, 1 << 40] {
            let sum = MemoryParts::of(memory).sum();
            assert!(sum * 3 <= memory, "{sum} of {memory}");
        }
        assert_eq!(MemoryParts::default().sum(), 192 * MIB);
    }
}
