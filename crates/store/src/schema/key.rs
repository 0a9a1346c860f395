//! Keys: a letter, then numbers in big-endian order so that they sort.

use super::Owner;
use super::bytes::corrupt;
use crate::error::Result;

/// The counters of the volume.
pub const COUNTERS: &[u8] = b"M";
/// How many pages are allocated and not written.
pub const UNWRITTEN: &[u8] = b"R";
/// The prefix of all usage.
pub const USAGE: &[u8] = b"U";
/// The prefix of all settings.
pub const SETTINGS: &[u8] = b"S";
/// The prefix of all orphans.
pub const ORPHANS: &[u8] = b"O";
/// The prefix of all segments.
pub const SEGMENTS: &[u8] = b"G";
/// The prefix of all maps that are to be deleted.
pub const DYING: &[u8] = b"Z";
/// The prefix of all inodes.
pub const INODES: &[u8] = b"I";
/// The prefix of all inline data (keyspace of extents).
pub const INLINES: &[u8] = b"B";
/// The prefix of all extents (keyspace of extents).
pub const EXTENTS: &[u8] = b"E";

type Key = Box<[u8]>;

fn numbered(letter: u8, number: u64) -> Key {
    let mut key = Vec::with_capacity(9);
    key.push(letter);
    key.extend_from_slice(&number.to_be_bytes());
    key.into()
}

fn of_page(letter: u8, map: u64, last: u64) -> Key {
    let mut key = Vec::with_capacity(17);
    key.push(letter);
    key.extend_from_slice(&map.to_be_bytes());
    key.extend_from_slice(&last.to_be_bytes());
    key.into()
}

/// Attributes and target of an inode.
pub fn inode(ino: u64) -> Key {
    numbered(b'I', ino)
}

/// Size, pages and time of the contents of a file.
pub fn contents(ino: u64) -> Key {
    numbered(b'C', ino)
}

/// Counts and parent of a directory.
pub fn directory(ino: u64) -> Key {
    numbered(b'D', ino)
}

/// Extended attributes of an inode.
pub fn xattrs(ino: u64) -> Key {
    numbered(b'X', ino)
}

/// An inode without a name.
pub fn orphan(ino: u64) -> Key {
    numbered(b'O', ino)
}

/// Live pages of a segment.
pub fn segment(segment: u64) -> Key {
    numbered(b'G', segment)
}

/// A map whose extents are to be deleted.
pub fn dying(map: u64) -> Key {
    numbered(b'Z', map)
}

/// The entry `name` of directory `dir`.
pub fn name(dir: u64, name: &[u8]) -> Key {
    let mut key = Vec::with_capacity(9 + name.len());
    key.push(b'N');
    key.extend_from_slice(&dir.to_be_bytes());
    key.extend_from_slice(name);
    key.into()
}

/// What the names of directory `dir` begin with.
pub fn names(dir: u64) -> Key {
    numbered(b'N', dir)
}

/// Usage of one set of owners.
pub fn usage(owner: &Owner) -> Key {
    let mut key = Vec::with_capacity(13);
    key.push(b'U');
    for id in [owner.uid, owner.gid, owner.project] {
        key.extend_from_slice(&id.to_be_bytes());
    }
    key.into()
}

/// A setting.
pub fn setting(name: &[u8]) -> Key {
    [SETTINGS, name].concat().into()
}

/// The extent of `map` whose last page is `last`. Extents are found by their end, so the first one
/// that a range may meet is the first key at or behind the range's first page.
pub fn extent(map: u64, last: u64) -> Key {
    of_page(b'E', map, last)
}

/// The bytes of the inline extent of `map` whose last page is `last`.
pub fn inline(map: u64, last: u64) -> Key {
    of_page(b'B', map, last)
}

/// The first key behind all that begin with `prefix`, or `None` if there is none.
pub fn behind(prefix: &[u8]) -> Option<Key> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut key = prefix[..=kept].to_vec();
    key[kept] += 1;
    Some(key.into())
}

/// The number of a key that has one number behind its letter.
pub fn number(key: &[u8]) -> Result<u64> {
    match key.get(1..).map(<[u8; 8]>::try_from) {
        Some(Ok(bytes)) => Ok(u64::from_be_bytes(bytes)),
        _ => Err(corrupt(key, "a key of another length")),
    }
}

/// Map and last page of the key of an extent or its inline bytes.
pub fn page(key: &[u8]) -> Result<(u64, u64)> {
    match key.get(1..).map(<[u8; 16]>::try_from) {
        Some(Ok(bytes)) => {
            let both = u128::from_be_bytes(bytes);
            Ok(((both >> 64) as u64, both as u64))
        }
        _ => Err(corrupt(key, "a key of another length")),
    }
}

/// The owners of a key of usage.
pub fn owner(key: &[u8]) -> Result<Owner> {
    let Some(Ok(bytes)) = key.get(1..).map(<[u8; 12]>::try_from) else {
        return Err(corrupt(key, "a key of another length"));
    };
    let (ids, _) = bytes.as_chunks::<4>();
    let [uid, gid, project] = [ids[0], ids[1], ids[2]].map(u32::from_be_bytes);
    Ok(Owner { uid, gid, project })
}
