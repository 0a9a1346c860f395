//! The stream itself: members behind each other, a head before and a digest behind them.

use super::block::{BLOCK, TarHeader, kind, padding};
use super::entry::{Entry, Following, INO, What, rises};
use super::error::{DumpError, Dumped, StreamFault};
use super::pax::Records;
use super::seen::SeenNumbers;
use hearth_backend::{Errno, Setting};
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;

/// What stands before all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The commit whose state this is.
    pub epoch: u64,
    /// No inode number above it was ever used.
    pub last_inode: u64,
    /// Size of the volume in bytes, 0 for as much as its disk has, and of dumps that do not say it.
    pub size: u64,
    /// Settings of the volume, such as limits and heat: key and value.
    pub settings: Vec<Setting>,
}

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// Records longer than this are none: memory has a bound.
const RECORDS_MAX: u64 = 1 << 30;

/// Numbers from here on are of control files, which every volume has.
const OWN_NUMBERS: u64 = 1 << 59;

mod own {
    pub const VERSION: &str = "HEARTH.dump";
    pub const EPOCH: &str = "HEARTH.epoch";
    pub const LAST_INODE: &str = "HEARTH.last_inode";
    pub const SIZE: &str = "HEARTH.size";
    pub const SETTING: &str = "HEARTH.setting.";
    pub const MEMBERS: &str = "HEARTH.members";
    pub const DIGEST: &str = "HEARTH.blake3";
}

/// Writes a dump.
pub struct DumpWriter<W> {
    out: W,
    hash: blake3::Hasher,
    members: u64,
}

impl<W: Write> DumpWriter<W> {
    /// Writes the head.
    pub fn new(out: W, head: &Head) -> Dumped<DumpWriter<W>> {
        let mut writer = DumpWriter {
            out,
            hash: blake3::Hasher::new(),
            members: 0,
        };
        let mut records = Records::default();
        records.put_number(own::VERSION, VERSION);
        records.put_number(own::EPOCH, head.epoch);
        records.put_number(own::LAST_INODE, head.last_inode);
        if head.size > 0 {
            records.put_number(own::SIZE, head.size);
        }
        for (key, value) in &head.settings {
            records.put(format!("{}{}", own::SETTING, hex(key)), value);
        }
        writer.records(kind::GLOBAL, &records)?;
        Ok(writer)
    }

    /// Begins a member behind which `stored` bytes follow.
    pub fn member(&mut self, entry: &Entry, stored: u64) -> Dumped<()> {
        let (records, header) = entry.encode(stored);
        self.records(kind::RECORDS, &records)?;
        self.members += 1;
        self.write(&header.encode())
    }

    /// Bytes behind a member.
    pub fn write(&mut self, bytes: &[u8]) -> Dumped<()> {
        self.hash.update(bytes);
        self.out.write_all(bytes).map_err(stream("write"))
    }

    /// Ends contents of `len` bytes.
    pub fn pad(&mut self, len: u64) -> Dumped<()> {
        self.write(&[0; BLOCK][..padding(len)])
    }

    /// Writes the digest and the end; the output is flushed.
    pub fn finish(mut self) -> Dumped<()> {
        let mut records = Records::default();
        records.put_number(own::MEMBERS, self.members);
        records.put(own::DIGEST, self.hash.finalize().to_hex().as_str());
        self.records(kind::GLOBAL, &records)?;
        self.write(&[0; 2 * BLOCK])?;
        self.out.flush().map_err(stream("write"))
    }

    fn records(&mut self, kind: u8, records: &Records) -> Dumped<()> {
        let bytes = records.encode();
        let len = bytes.len() as u64;
        self.write(&TarHeader::new(kind, b"records", len).encode())?;
        self.write(&bytes)?;
        self.pad(len)
    }
}

/// Reads a dump.
pub struct DumpReader<R> {
    from: R,
    hash: blake3::Hasher,
    offset: u64,
    members: u64,
    /// Bytes of the member's contents that were not read, and zeros behind them.
    left: (u64, usize),
    numbers: SeenNumbers,
}

impl<R: Read> DumpReader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// The stream is no dump, or one of a newer version.
    pub fn new(from: R) -> Dumped<(DumpReader<R>, Head)> {
        let mut reader = DumpReader {
            from,
            hash: blake3::Hasher::new(),
            offset: 0,
            members: 0,
            left: (0, 0),
            numbers: SeenNumbers::new(0),
        };
        let head = reader.head()?;
        if head.last_inode >= OWN_NUMBERS {
            let key = own::LAST_INODE;
            return Err(reader.fault(StreamFault::Record { key }));
        }
        reader.numbers = SeenNumbers::new(head.last_inode);
        Ok((reader, head))
    }

    /// The next member; its contents are to be read next. `None` at the end, whose digest was
    /// right.
    ///
    /// # Errors
    /// The stream cannot be read, is damaged, or ends too early.
    pub fn member(&mut self) -> Dumped<Option<Entry>> {
        self.skip()?;
        let until_here = self.hash.clone();
        let Some(header) = self.header()? else {
            return Err(self.fault(StreamFault::Truncated));
        };
        match header.kind {
            kind::GLOBAL => {
                let records = self.records(&header)?;
                self.end(&records, &until_here)?;
                return Ok(None);
            }
            kind::RECORDS => {}
            other => return Err(self.fault(StreamFault::Kind(other))),
        }
        let records = self.records(&header)?;
        let header = self
            .header()?
            .ok_or_else(|| self.fault(StreamFault::Truncated))?;
        let stored: u64 = records
            .number("size", header.size)
            .map_err(|f| self.fault(f))?;
        let decoded = Entry::decode(&records, &header);
        let (mut entry, contents) = decoded.map_err(|fault| self.fault(fault))?;
        if let What::Inode(inode, _) = &entry.what
            && !self.numbers.take(inode.ino, entry.path.is_empty())
        {
            return Err(self.fault(StreamFault::Record { key: INO }));
        }
        self.left = (stored, padding(stored));
        if let (Following::Sparse, What::Inode(inode, map)) = (contents, &mut entry.what) {
            map.written = self.map(inode.size)?;
            if map.bytes() != self.left.0 {
                return Err(self.fault(StreamFault::Map));
            }
        }
        self.members += 1;
        Ok(Some(entry))
    }

    /// Fills `buffer` with the next bytes of the member's contents: the written ranges one behind
    /// the other.
    ///
    /// # Errors
    /// The stream cannot be read or ends too early.
    pub fn contents(&mut self, buffer: &mut [u8]) -> Dumped<()> {
        match self.left.0.checked_sub(buffer.len() as u64) {
            Some(left) => self.left.0 = left,
            None => return Err(self.fault(StreamFault::Map)),
        }
        self.read(buffer)
    }

    /// A fault at the byte that was read last.
    pub fn fault(&self, fault: StreamFault) -> DumpError {
        let offset = self.offset;
        DumpError::Damaged { offset, fault }
    }

    fn head(&mut self) -> Dumped<Head> {
        let no_dump = |error| match error {
            DumpError::Damaged { .. } => DumpError::Damaged {
                offset: 0,
                fault: StreamFault::NoDump,
            },
            other => other,
        };
        let header = self.header().map_err(no_dump)?;
        let header = header.filter(|header| header.kind == kind::GLOBAL);
        let header = header.ok_or_else(|| self.fault(StreamFault::NoDump))?;
        let records = self.records(&header)?;
        let number = |key| records.number(key, 0);
        let version = number(own::VERSION).map_err(|fault| self.fault(fault))?;
        match u32::try_from(version).unwrap_or(u32::MAX) {
            0 => return Err(self.fault(StreamFault::NoDump)),
            VERSION => {}
            newer => return Err(self.fault(StreamFault::Newer(newer))),
        }
        let mut settings = Vec::new();
        for (key, value) in records.below(own::SETTING) {
            let key = from_hex(key).ok_or_else(|| self.fault(StreamFault::NoRecords))?;
            settings.push((key, value.into()));
        }
        Ok(Head {
            epoch: number(own::EPOCH).map_err(|fault| self.fault(fault))?,
            last_inode: number(own::LAST_INODE).map_err(|fault| self.fault(fault))?,
            size: number(own::SIZE).map_err(|fault| self.fault(fault))?,
            settings,
        })
    }

    fn end(&mut self, records: &Records, until_here: &blake3::Hasher) -> Dumped<()> {
        let digest = until_here.finalize().to_hex();
        let members: u64 = records.number(own::MEMBERS, 0).map_err(|f| self.fault(f))?;
        let is_right = records.get(own::DIGEST) == Some(digest.as_str().as_bytes());
        if !is_right || members != self.members {
            return Err(self.fault(StreamFault::Digest));
        }
        // Who writes into a pipe is read to the end.
        std::io::copy(&mut self.from, &mut std::io::sink()).map_err(stream("read"))?;
        Ok(())
    }

    /// The map before the bytes of a sparse file of `size` bytes.
    fn map(&mut self, size: u64) -> Dumped<Vec<Range<u64>>> {
        let before = self.left.0;
        let count = self.line()?;
        let mut ranges = Vec::new();
        for _ in 0..count {
            let (start, len) = (self.line()?, self.line()?);
            let end = start.checked_add(len).filter(|&end| end <= size);
            ranges.push(start..end.ok_or_else(|| self.fault(StreamFault::Map))?);
        }
        let mut rest = [0; BLOCK];
        self.contents(&mut rest[..padding(before - self.left.0)])?;
        if rises(&ranges) {
            Ok(ranges)
        } else {
            Err(self.fault(StreamFault::Map))
        }
    }

    /// A number and the end of its line.
    fn line(&mut self) -> Dumped<u64> {
        let mut number: u64 = 0;
        for digits in 0.. {
            let mut byte = [0];
            self.contents(&mut byte)?;
            let more = match byte[0] {
                b'\n' if digits > 0 => return Ok(number),
                digit @ b'0'..=b'9' => {
                    let tens = number.checked_mul(10);
                    tens.and_then(|tens| tens.checked_add(u64::from(digit - b'0')))
                }
                _ => None,
            };
            number = more.ok_or_else(|| self.fault(StreamFault::Map))?;
        }
        Err(self.fault(StreamFault::Map))
    }

    fn header(&mut self) -> Dumped<Option<TarHeader>> {
        let mut block = [0; BLOCK];
        self.read(&mut block)?;
        TarHeader::decode(&block).map_err(|fault| self.fault(fault))
    }

    fn records(&mut self, header: &TarHeader) -> Dumped<Records> {
        if header.size > RECORDS_MAX {
            return Err(self.fault(StreamFault::NoRecords));
        }
        let mut bytes = Vec::new();
        let mut piece = [0; 16 * BLOCK];
        while (bytes.len() as u64) < header.size {
            let len = (header.size - bytes.len() as u64).min(piece.len() as u64) as usize;
            self.read(&mut piece[..len])?;
            bytes.extend_from_slice(&piece[..len]);
        }
        let rest = &mut piece[..padding(header.size)];
        self.read(rest)?;
        if rest.iter().any(|&byte| byte != 0) {
            return Err(self.fault(StreamFault::NoRecords));
        }
        Records::decode(&bytes).map_err(|fault| self.fault(fault))
    }

    fn skip(&mut self) -> Dumped<()> {
        let mut piece = [0; 16 * BLOCK];
        let (mut bytes, zeros) = std::mem::take(&mut self.left);
        while bytes > 0 {
            let len = bytes.min(piece.len() as u64) as usize;
            self.read(&mut piece[..len])?;
            bytes -= len as u64;
        }
        self.read(&mut piece[..zeros])
    }

    fn read(&mut self, buffer: &mut [u8]) -> Dumped<()> {
        self.from
            .read_exact(buffer)
            .map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => self.fault(StreamFault::Truncated),
                _ => stream("read")(error),
            })?;
        self.hash.update(buffer);
        self.offset += buffer.len() as u64;
        Ok(())
    }
}

fn stream(op: &'static str) -> impl Fn(std::io::Error) -> DumpError {
    move |error| DumpError::Stream {
        op,
        errno: Errno::from(error),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &[u8]) -> Option<Box<[u8]>> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len().is_multiple_of(2))?;
    let pairs = (0..text.len()).step_by(2);
    let bytes = pairs.map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
    bytes.collect()
}
