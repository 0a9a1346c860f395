//! The external form of ACLs in `system.posix_acl_access` and `system.posix_acl_default`: a 4-byte
//! version (2), then per entry a tag (2 bytes), a permission (2) and an id (4), all little endian.
//! Entries without an id hold all ones, which parsing ignores.

use super::{Acl, AclEntry, Tag};
use crate::errno::Errno;

const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
const NO_ID: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

impl Acl {
    /// Parses the attribute's value. No bytes, or no entries, is `None`: "remove the ACL".
    ///
    /// `EOPNOTSUPP` for another version, `EINVAL` for every other fault.
    pub fn from_xattr(value: &[u8]) -> Result<Option<Acl>, Errno> {
        if value.is_empty() {
            return Ok(None);
        }
        let (version, body) = value
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        let (chunks, rest) = body.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(Errno::EINVAL);
        }
        if chunks.is_empty() {
            return Ok(None);
        }
        let entries = chunks.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
        Acl::new(entries).map(Some).map_err(|_| Errno::EINVAL)
    }

    /// Whether the value consists of entries with known tags, valid or not.
    pub fn is_well_formed(value: &[u8]) -> bool {
        let Some((version, body)) = value.split_first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let (chunks, rest) = body.as_chunks::<ENTRY_BYTES>();
        let known = |raw: &[u8; ENTRY_BYTES]| {
            let tag = u16::from_le_bytes([raw[0], raw[1]]);
            matches!(tag, USER_OBJ | USER | GROUP_OBJ | GROUP | MASK | OTHER)
        };
        *version == VERSION.to_le_bytes() && rest.is_empty() && chunks.iter().all(known)
    }

    /// The attribute's value.
    pub fn to_xattr(&self) -> Vec<u8> {
        let bytes = HEADER_BYTES + self.entries().count() * ENTRY_BYTES;
        let mut value = Vec::with_capacity(bytes);
        value.extend_from_slice(&VERSION.to_le_bytes());
        for entry in self.entries() {
            let (tag, id) = encode(entry.tag);
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&u16::from(entry.perm).to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }
}

fn decode(raw: &[u8; ENTRY_BYTES]) -> Result<AclEntry, Errno> {
    let [t0, t1, p0, p1, id @ ..] = *raw;
    let id = u32::from_le_bytes(id);
    let tag = match u16::from_le_bytes([t0, t1]) {
        USER_OBJ => Tag::UserObj,
        USER => Tag::User(id),
        GROUP_OBJ => Tag::GroupObj,
        GROUP => Tag::Group(id),
        MASK => Tag::Mask,
        OTHER => Tag::Other,
        _ => return Err(Errno::EINVAL),
    };
    // A permission that does not fit becomes invalid; `Acl::new` refuses the bits in between.
    let perm = u8::try_from(u16::from_le_bytes([p0, p1])).map_err(|_| Errno::EINVAL)?;
    Ok(AclEntry { tag, perm })
}

fn encode(tag: Tag) -> (u16, u32) {
    match tag {
        Tag::UserObj => (USER_OBJ, NO_ID),
        Tag::User(id) => (USER, id),
        Tag::GroupObj => (GROUP_OBJ, NO_ID),
        Tag::Group(id) => (GROUP, id),
        Tag::Mask => (MASK, NO_ID),
        Tag::Other => (OTHER, NO_ID),
    }
}
