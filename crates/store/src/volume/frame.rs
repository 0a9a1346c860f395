//! Frames of the commit log: a header, and records or the sealed form of them.

use super::fields::{array, put, u16_at, u32_at, u64_at};
use super::{BLOCK, FrameCipher, FrameDigest};
use crate::error::{Error, Result};
use crate::kv::{KvOp, Table};
use std::ops::Range;

pub(crate) const MAGIC: &[u8; 8] = b"HEARTHF1";
pub(crate) const HEADER: usize = 136;
const NONCE: usize = 80;
const DIGEST: usize = 104;
const ENCRYPTED: u32 = 1;
/// Flag of a frame whose payload names the file of an epoch.
pub(crate) const IN_FILE: u32 = 2;
/// The part of the header that a cipher binds the payload to: incarnation, epoch and part.
const CONTEXT: Range<usize> = 8..40;
const RECORD: usize = 8;
const PUT: u8 = 1;
const REMOVE: u8 = 2;
/// Puts too, a value that is data of a file.
const PUT_INLINE: u8 = 3;
/// What a cipher may add to a payload, in bytes.
pub(crate) const SEAL_MOST: usize = 64;

/// The header of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub incarnation: [u8; 16],
    pub epoch: u64,
    pub part: u32,
    pub parts: u32,
    pub length: u32,
    pub flags: u32,
    /// Digest of the frame before this one.
    pub before: FrameDigest,
    pub nonce: [u8; 24],
    pub digest: FrameDigest,
}

impl Header {
    /// The header in these bytes, if they look like one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Header> {
        (bytes.len() >= HEADER && bytes.starts_with(MAGIC)).then(|| Header {
            incarnation: array(bytes, 8),
            epoch: u64_at(bytes, 24),
            part: u32_at(bytes, 32),
            parts: u32_at(bytes, 36),
            length: u32_at(bytes, 40),
            flags: u32_at(bytes, 44),
            before: array(bytes, 48),
            nonce: array(bytes, NONCE),
            digest: array(bytes, DIGEST),
        })
    }

    /// Bytes of the log that the frame takes.
    pub(crate) fn stored(&self) -> u64 {
        (HEADER as u64 + u64::from(self.length)).next_multiple_of(BLOCK)
    }
}

/// The most bytes of a record: the length of a frame has 32 bits.
const LARGEST: u64 = 1 << 31;

/// The digest of a frame: of its header before the digest, and of its payload.
pub(crate) fn digest(header: &[u8], payload: &[u8]) -> FrameDigest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header[..DIGEST]);
    hasher.update(payload);
    *hasher.finalize().as_bytes()
}

/// Cuts an epoch into parts of about `usual` bytes of records. A larger record is a part of its
/// own; none is larger than [`LARGEST`].
pub(crate) fn split(ops: &[KvOp], usual: u64) -> Result<Vec<Range<usize>>> {
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, op) in ops.iter().enumerate() {
        let size = record_len(op) as u64;
        if op.key.len() > usize::from(u16::MAX) {
            let (what, most) = ("a key", u64::from(u16::MAX));
            return Err(Error::TooLarge { what, most });
        }
        if size > LARGEST {
            let (what, most) = ("a key with its value", LARGEST);
            return Err(Error::TooLarge { what, most });
        }
        if bytes + size > usual && from < at {
            parts.push(from..at);
            (from, bytes) = (at, 0);
        }
        bytes += size;
    }
    parts.push(from..ops.len());
    Ok(parts)
}

fn record_len(op: &KvOp) -> usize {
    RECORD + op.key.len() + op.value.as_ref().map_or(0, |value| value.len())
}

/// Appends a frame to `log`, whose payload `payload` appends, and pads it. Returns its digest.
pub(crate) fn append(
    log: &mut Vec<u8>,
    header: &Header,
    payload: impl FnOnce(&mut Vec<u8>),
    cipher: Option<&dyn FrameCipher>,
) -> Result<FrameDigest> {
    let mut flags = header.flags;
    let mut head = [0; HEADER];
    put(&mut head, 0, MAGIC);
    put(&mut head, 8, &header.incarnation);
    put(&mut head, 24, &header.epoch.to_le_bytes());
    put(&mut head, 32, &header.part.to_le_bytes());
    put(&mut head, 36, &header.parts.to_le_bytes());
    put(&mut head, 48, &header.before);
    let start = log.len();
    log.resize(start + HEADER, 0);
    payload(log);
    if let Some(cipher) = cipher {
        let mut payload = log.split_off(start + HEADER);
        let nonce = cipher.seal(&head[CONTEXT], &mut payload)?;
        put(&mut head, NONCE, &nonce);
        flags |= ENCRYPTED;
        log.append(&mut payload);
    }
    put(&mut head, 44, &flags.to_le_bytes());
    let length = (log.len() - start - HEADER) as u32;
    put(&mut head, 40, &length.to_le_bytes());
    let digest = digest(&head, &log[start + HEADER..]);
    put(&mut head, DIGEST, &digest);
    put(log, start, &head);
    log.resize(
        start + (log.len() - start).next_multiple_of(BLOCK as usize),
        0,
    );
    Ok(digest)
}

/// Appends records: the payload of most frames.
pub(crate) fn encode_records(log: &mut Vec<u8>, ops: &[KvOp]) {
    ops.iter().for_each(|op| encode_record(log, op));
}

fn encode_record(log: &mut Vec<u8>, op: &KvOp) {
    let value = op.value.as_deref();
    let kind = if value.is_some() { PUT } else { REMOVE };
    log.extend_from_slice(&[kind, op.table as u8]);
    log.extend_from_slice(&(op.key.len() as u16).to_le_bytes());
    log.extend_from_slice(&(value.map_or(0, <[u8]>::len) as u32).to_le_bytes());
    log.extend_from_slice(&op.key);
    log.extend_from_slice(value.unwrap_or_default());
}

/// The plain payload of a frame whose digest is good. `file` and `at` say where it is from.
pub(crate) fn open_payload(
    header_bytes: &[u8],
    header: &Header,
    mut payload: Vec<u8>,
    cipher: Option<&dyn FrameCipher>,
    (file, at): (&str, u64),
) -> Result<Vec<u8>> {
    if header.flags & !(ENCRYPTED | IN_FILE) != 0 {
        let what = format!("flags {:#x} of the frame are unknown", header.flags);
        return Err(Error::corrupt(file, at, what));
    }
    match (cipher, header.flags & ENCRYPTED != 0) {
        (None, false) => {}
        (Some(cipher), true) => {
            cipher.open(&header_bytes[CONTEXT], &header.nonce, &mut payload)?;
        }
        (None, true) => {
            let why = "a frame of the log is encrypted";
            return Err(Error::WrongKey { why });
        }
        // Frames without records are sealed too: a plain one was written without the key.
        (Some(_), false) => {
            let what = "the frame is not encrypted and the volume is";
            return Err(Error::corrupt(file, at, what));
        }
    }
    Ok(payload)
}

/// The records of a plain payload. `file` and `at` say where it is from.
pub(crate) fn records(payload: &[u8], (file, at): (&str, u64)) -> Result<Vec<KvOp>> {
    let wrong = || Error::corrupt(file, at, "a record of the frame makes no sense");
    let mut ops = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let (op, length) = decode_record(rest).ok_or_else(wrong)?;
        ops.push(op);
        rest = &rest[length..];
    }
    Ok(ops)
}

fn decode_record(bytes: &[u8]) -> Option<(KvOp, usize)> {
    let head = bytes.get(..RECORD)?;
    let table = match head[1] {
        0 => Table::Meta,
        1 => Table::Extents,
        _ => return None,
    };
    let key_end = RECORD + usize::from(u16_at(head, 2));
    let end = key_end.checked_add(u32_at(head, 4) as usize)?;
    let key = bytes.get(RECORD..key_end)?.into();
    let value = bytes.get(key_end..end)?;
    let value = match head[0] {
        PUT | PUT_INLINE => Some(value.into()),
        REMOVE if value.is_empty() => None,
        _ => return None,
    };
    Some((KvOp { table, key, value }, end))
}
