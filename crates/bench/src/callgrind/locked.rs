//! Which of the instructions that callgrind counted lock a cache line or are full barriers: those
//! with the prefix `lock`, exchanges with memory, `mfence`. They cost twenty cycles where others
//! cost a part of one.

use crate::failure::Context;
use std::collections::HashMap;
use std::path::Path;

/// The executables and libraries whose instructions were counted.
#[derive(Default)]
pub(super) struct Images(HashMap<String, Image>);

/// A program in the format ELF for x86-64.
struct Image {
    bytes: Vec<u8>,
    /// What is loaded: address, length, place in the file.
    segments: Vec<(u64, u64, u64)>,
}

impl Images {
    /// How many instructions that lock one file of callgrind counts, dumped by instruction and
    /// without abbreviations.
    pub fn locked_in(&mut self, text: &str) -> Result<u64, String> {
        let (mut sum, mut object) = (0, String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("ob=") {
                name.clone_into(&mut object);
            } else if line.starts_with("calls=") {
                // The next line has what the called function took as a whole.
                lines.next();
            } else if let Some((address, count)) = executed(line)
                && self.image(&object)?.is_locked(address)
            {
                sum += count;
            }
        }
        Ok(sum)
    }

    fn image(&mut self, object: &str) -> Result<&Image, String> {
        if !self.0.contains_key(object) {
            let image = Image::read(Path::new(object))?;
            self.0.insert(object.to_owned(), image);
        }
        Ok(&self.0[object])
    }
}

/// Address and count of a line such as `0x1234 56 7`.
fn executed(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("0x")?.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let count = words.nth(1)?.parse().ok()?;
    Some((address, count))
}

impl Image {
    /// Code that is in no file, such as the kernel's, is an image without segments.
    fn read(path: &Path) -> Result<Image, String> {
        let bytes = match path.is_file() {
            true => std::fs::read(path).at(path)?,
            false => Vec::new(),
        };
        let segments = segments(&bytes).unwrap_or_default();
        Ok(Image { bytes, segments })
    }

    fn is_locked(&self, address: u64) -> bool {
        let within = |&&(at, length, _): &&(u64, u64, u64)| (at..at + length).contains(&address);
        let Some(&(at, _, place)) = self.segments.iter().find(within) else {
            return false;
        };
        let code = self.bytes.get((address - at + place) as usize..);
        code.is_some_and(is_locked)
    }
}

/// The loaded parts by the program headers.
fn segments(bytes: &[u8]) -> Option<Vec<(u64, u64, u64)>> {
    const LOAD: u64 = 1;
    let number = |at: usize, length: usize| {
        let mut eight = [0; 8];
        eight[..length].copy_from_slice(bytes.get(at..at + length)?);
        Some(u64::from_le_bytes(eight))
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let mut loaded = Vec::new();
    for n in 0..count {
        let header = (table + n * size) as usize;
        if number(header, 4)? == LOAD {
            let (place, at) = (number(header + 8, 8)?, number(header + 16, 8)?);
            loaded.push((at, number(header + 32, 8)?, place));
        }
    }
    Some(loaded)
}

/// Whether the instruction at the start of `code` locks.
fn is_locked(code: &[u8]) -> bool {
    const LOCK: u8 = 0xf0;
    // Segments, operand size, repetition, and the extension of registers.
    let is_prefix = |byte: &u8| {
        matches!(
            byte,
            0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x66 | 0xf2 | 0xf3
        )
    };
    let length = code.iter().take_while(|byte| is_prefix(byte)).count();
    match code[length..] {
        [LOCK, ..] => true,
        // An exchange, unless it is between two registers.
        [0x86 | 0x87, operands, ..] => operands >> 6 != 3,
        // `mfence`
        [0x0f, 0xae, 0xf0, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_lock_are_told_from_others() {
        // lock cmpxchg, lock xadd, xchg with memory, mfence.
        for locks in [
            &[0xf0, 0x0f, 0xb1, 0x0f][..],
            &[0xf0, 0x48, 0x0f, 0xc1, 0x07],
            &[0x48, 0x87, 0x07],
            &[0x86, 0x47, 0x08],
            &[0x0f, 0xae, 0xf0],
        ] {
            assert!(is_locked(locks), "{locks:x?}");
        }
        // mov, xchg of registers, xadd without lock, lfence, nop.
        for plain in [
            &[0x48, 0x89, 0x07][..],
            &[0x48, 0x87, 0xc7],
            &[0x0f, 0xc1, 0x07],
            &[0x0f, 0xae, 0xe8],
            &[0x90],
            &[],
        ] {
            assert!(!is_locked(plain), "{plain:x?}");
        }
    }

    #[test]
    fn the_cost_of_a_call_is_no_instruction_of_the_caller() {
        assert_eq!(executed("0x4010f0 12 345"), Some((0x4010f0, 345)));
        assert_eq!(executed("fn=main"), None);
        let text = "ob=/no/such/file\nfn=x\n0x10 0 5\ncalls=1 0x20 0\n0x15 0 900\n";
        assert_eq!(Images::default().locked_in(text), Ok(0));
    }
}
