//! Blocks of a tar archive: the header of 512 bytes that stands before each member.

use super::error::StreamFault;

/// Everything in an archive takes whole blocks of so many bytes.
pub const BLOCK: usize = 512;

/// Kinds of members that a dump has.
pub mod kind {
    /// Regular file.
    pub const FILE: u8 = b'0';
    /// Another name of an earlier member.
    pub const LINK: u8 = b'1';
    /// Symbolic link.
    pub const SYMLINK: u8 = b'2';
    /// Character device.
    pub const CHAR: u8 = b'3';
    /// Block device.
    pub const BLOCK: u8 = b'4';
    /// Directory.
    pub const DIRECTORY: u8 = b'5';
    /// Named pipe.
    pub const FIFO: u8 = b'6';
    /// Records about the next member.
    pub const RECORDS: u8 = b'x';
    /// Records about the whole archive.
    pub const GLOBAL: u8 = b'g';
}

/// What the header itself says; the records before it say the rest and win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarHeader {
    /// As much of the name as there is room for.
    pub name: Vec<u8>,
    /// One of [`kind`].
    pub kind: u8,
    /// Bytes of contents behind the header.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Whole seconds of the last change of contents.
    pub mtime: i64,
    /// Owner and group.
    pub owner: (u32, u32),
    /// As much of the target of a link as there is room for.
    pub target: Vec<u8>,
}

/// Where the fields are: (first byte, length).
const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const UID: (usize, usize) = (108, 8);
const GID: (usize, usize) = (116, 8);
const SIZE: (usize, usize) = (124, 12);
const MTIME: (usize, usize) = (136, 12);
const SUM: (usize, usize) = (148, 8);
const KIND: usize = 156;
const TARGET: (usize, usize) = (157, 100);
const MAGIC: (usize, usize) = (257, 8);
const MAJOR: (usize, usize) = (329, 8);
const MINOR: (usize, usize) = (337, 8);

const USTAR: &[u8; 8] = b"ustar\x0000";

impl TarHeader {
    /// A header of `kind` with contents of `size` bytes.
    pub fn new(kind: u8, name: &[u8], size: u64) -> TarHeader {
        TarHeader {
            name: name.to_vec(),
            kind,
            size,
            mode: 0o600,
            device: (0, 0),
            mtime: 0,
            owner: (0, 0),
            target: Vec::new(),
        }
    }

    /// The block. Numbers that have no room in it become 0: the records before it say them.
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        text(&mut block, NAME, &self.name);
        number(&mut block, MODE, u64::from(self.mode));
        number(&mut block, UID, u64::from(self.owner.0));
        number(&mut block, GID, u64::from(self.owner.1));
        number(&mut block, SIZE, self.size);
        number(&mut block, MTIME, u64::try_from(self.mtime).unwrap_or(0));
        block[KIND] = self.kind;
        text(&mut block, TARGET, &self.target);
        block[MAGIC.0..][..MAGIC.1].copy_from_slice(USTAR);
        number(&mut block, MAJOR, u64::from(self.device.0));
        number(&mut block, MINOR, u64::from(self.device.1));
        let sum = format!("{:06o}\0 ", sum(&block));
        block[SUM.0..][..SUM.1].copy_from_slice(sum.as_bytes());
        block
    }

    /// Reads a block; `None` for one of zeros, which ends an archive.
    ///
    /// # Errors
    /// It is no header.
    pub fn decode(block: &[u8; BLOCK]) -> Result<Option<TarHeader>, StreamFault> {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if &block[MAGIC.0..][..5] != b"ustar" || octal(block, SUM)? != sum(block) {
            return Err(StreamFault::NoHeader);
        }
        let small = |field| {
            octal(block, field).and_then(|n| u32::try_from(n).or(Err(StreamFault::NoHeader)))
        };
        Ok(Some(TarHeader {
            name: until_zero(block, NAME),
            kind: block[KIND],
            size: octal(block, SIZE)?,
            mode: small(MODE)?,
            device: (small(MAJOR)?, small(MINOR)?),
            mtime: octal(block, MTIME)? as i64,
            owner: (small(UID)?, small(GID)?),
            target: until_zero(block, TARGET),
        }))
    }
}

/// Zeros that fill up the last block of `size` bytes of contents.
pub fn padding(size: u64) -> usize {
    let over = (size % BLOCK as u64) as usize;
    if over == 0 { 0 } else { BLOCK - over }
}

fn text(block: &mut [u8; BLOCK], (at, len): (usize, usize), value: &[u8]) {
    let value = &value[..value.len().min(len)];
    block[at..][..value.len()].copy_from_slice(value);
}

fn number(block: &mut [u8; BLOCK], (at, len): (usize, usize), value: u64) {
    let digits = format!("{value:0width$o}\0", width = len - 1);
    if digits.len() == len {
        block[at..][..len].copy_from_slice(digits.as_bytes());
    } else {
        let zero = format!("{:0width$o}\0", 0, width = len - 1);
        block[at..][..len].copy_from_slice(zero.as_bytes());
    }
}

/// The sum of all bytes, those of the sum itself taken as spaces.
fn sum(block: &[u8; BLOCK]) -> u64 {
    let inside = SUM.0..SUM.0 + SUM.1;
    let value =
        |(at, byte): (usize, &u8)| u64::from(if inside.contains(&at) { b' ' } else { *byte });
    block.iter().enumerate().map(value).sum()
}

fn octal(block: &[u8; BLOCK], (at, len): (usize, usize)) -> Result<u64, StreamFault> {
    let field = &block[at..][..len];
    let digits = field
        .split(|byte| matches!(byte, 0 | b' '))
        .find(|part| !part.is_empty());
    let digits = std::str::from_utf8(digits.unwrap_or(b"0")).map_err(|_| StreamFault::NoHeader)?;
    u64::from_str_radix(digits, 8).map_err(|_| StreamFault::NoHeader)
}

fn until_zero(block: &[u8; BLOCK], (at, len): (usize, usize)) -> Vec<u8> {
    let field = &block[at..][..len];
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(len);
    field[..end].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut header = TarHeader::new(kind::CHAR, b"dir/name", 77);
        header.device = (4095, 0xfffff);
        header.owner = (1000, 65534);
        header.target = b"elsewhere".to_vec();
        header.mtime = 1_700_000_000;
        assert_eq!(TarHeader::decode(&header.encode()), Ok(Some(header)));
        assert_eq!(TarHeader::decode(&[0; BLOCK]), Ok(None));
    }

    #[test]
    fn a_flipped_bit_is_no_header() {
        let mut block = TarHeader::new(kind::FILE, b"name", 1).encode();
        block[3] ^= 1;
        assert_eq!(TarHeader::decode(&block), Err(StreamFault::NoHeader));
        assert_eq!(TarHeader::decode(&[7; BLOCK]), Err(StreamFault::NoHeader));
    }

    #[test]
    fn contents_are_filled_up_to_whole_blocks() {
        assert_eq!([0, 1, 511, 512, 513].map(padding), [0, 511, 1, 0, 511]);
    }
}
