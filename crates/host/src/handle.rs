//! File handles: the names by which a filesystem finds an inode again, and no other.

use crate::chunks::{take, take_slice};
use crate::sys;
use hearth::Result;
use rustix::fd::{BorrowedFd, OwnedFd};

/// Bytes that a handle may have here. ext4 has 8, XFS and tmpfs 12, btrfs 20.
const MOST: usize = 24;

/// `FILEID_INO32_GEN`, and the same of XFS with a number of 64 bits.
const INO32_GEN: i32 = 1;
const XFS_INO64_GEN: i32 = 0x81;

/// The handle of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle {
    kind: i32,
    len: u8,
    bytes: [u8; MOST],
}

impl FileHandle {
    /// Of type and bytes; `None` if it is too long.
    pub fn new(kind: i32, bytes: &[u8]) -> Option<FileHandle> {
        let mut handle = FileHandle {
            kind,
            len: bytes.len() as u8,
            bytes: [0; MOST],
        };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// The handle of an open file; `None` if its filesystem has none, or one that is too long.
    pub fn of(fd: BorrowedFd<'_>) -> Option<FileHandle> {
        sys::name_to_handle(fd, FileHandle::new).ok().flatten()
    }

    /// Appends type, length and bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.kind.to_le_bytes());
        out.push(self.len);
        out.extend(&self.bytes[..usize::from(self.len)]);
    }

    /// What [`FileHandle::put`] wrote.
    pub fn take_from(bytes: &mut &[u8]) -> Option<FileHandle> {
        let kind = i32::from_le_bytes(take(bytes)?);
        let [len] = take(bytes)?;
        let given = take_slice(bytes, len.into())?;
        let mut bytes = [0; MOST];
        bytes.get_mut(..given.len())?.copy_from_slice(given);
        Some(FileHandle { kind, len, bytes })
    }

    /// Opens the inode by `O_PATH`, on the mount of `mount`.
    ///
    /// # Errors
    /// `ESTALE` if it is gone.
    pub fn open(&self, mount: BorrowedFd<'_>) -> Result<OwnedFd> {
        sys::open_by_handle(mount, self.kind, &self.bytes[..usize::from(self.len)])
    }

    /// As text.
    pub fn text(&self) -> String {
        let bytes = &self.bytes[..usize::from(self.len)];
        let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
        format!("h{}.{}", self.kind, hex.collect::<String>())
    }

    /// Whether a text has the form of [`FileHandle::text`].
    pub fn is_text(text: &str) -> bool {
        let is_hex = |hex: &str| {
            let mut digits = hex.bytes();
            hex.len().is_multiple_of(2)
                && digits.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let parts = text.strip_prefix('h').and_then(|text| text.split_once('.'));
        parts.is_some_and(|(kind, hex)| kind.parse::<i32>().is_ok() && is_hex(hex))
    }

    /// The generation of the inode, where the handle is known to hold it.
    pub fn generation(&self) -> u32 {
        let at = match (self.kind, self.len) {
            (INO32_GEN, 8) => 4,
            (XFS_INO64_GEN, 12) => 8,
            _ => return 0,
        };
        let bytes = &self.bytes[at..at + 4];
        bytes.try_into().map_or(0, u32::from_ne_bytes)
    }
}
