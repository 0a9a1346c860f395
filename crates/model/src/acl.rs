//! POSIX access control lists in the form of `system.posix_acl_access` and `_default`.

const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// One entry: a subject and its rwx bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AclEntry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A valid list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

/// The credentials that [`Acl::allows`] checks.
pub struct Asker<'a> {
    /// User id of the process.
    pub uid: u32,
    /// Owner of the inode.
    pub owner: u32,
    /// Group of the inode.
    pub group: u32,
    /// Returns whether the process is in a group.
    pub in_group: &'a dyn Fn(u32) -> bool,
}

impl Acl {
    /// Parses the attribute's bytes. `Ok(None)` is the empty list, which removes an ACL.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>, i32> {
        if value.is_empty() {
            return Ok(None);
        }
        if value.len() < 4 {
            return Err(libc::EINVAL);
        }
        if value[..4] != VERSION.to_le_bytes() {
            return Err(libc::EOPNOTSUPP);
        }
        if !(value.len() - 4).is_multiple_of(8) {
            return Err(libc::EINVAL);
        }
        let entries: Vec<AclEntry> = value[4..]
            .chunks_exact(8)
            .map(|c| AclEntry {
                tag: u16::from_le_bytes([c[0], c[1]]),
                perm: u16::from_le_bytes([c[2], c[3]]),
                id: u32::from_le_bytes([c[4], c[5], c[6], c[7]]),
            })
            .collect();
        if entries
            .iter()
            .any(|e| !matches!(e.tag, 1 | 2 | 4 | 8 | 0x10 | 0x20))
        {
            return Err(libc::EINVAL);
        }
        Ok((!entries.is_empty()).then_some(Acl(entries)))
    }

    /// Checks order, completeness and ranges of the entries.
    pub fn is_valid(&self) -> bool {
        let mut rest = self.0.iter().peekable();
        let mut named = 0;
        let mut take = |tag: u16, one: bool| {
            let mut count = 0;
            while rest
                .next_if(|e| e.tag == tag && (!one || count == 0))
                .is_some()
            {
                count += 1;
            }
            count
        };
        let order = take(USER_OBJ, true) == 1
            && {
                named += take(USER, false);
                true
            }
            && take(GROUP_OBJ, true) == 1
            && {
                named += take(GROUP, false);
                true
            }
            && { take(MASK, true) == 1 || named == 0 }
            && take(OTHER, true) == 1
            && rest.next().is_none();
        order
            && self
                .0
                .iter()
                .all(|e| e.perm <= 7 && (!matches!(e.tag, USER | GROUP) || e.id != NO_ID))
    }

    /// Returns the attribute's bytes.
    pub fn serialise(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        for e in &self.0 {
            let id = if matches!(e.tag, USER | GROUP) {
                e.id
            } else {
                NO_ID
            };
            out.extend(e.tag.to_le_bytes());
            out.extend(e.perm.to_le_bytes());
            out.extend(id.to_le_bytes());
        }
        out
    }

    /// Returns whether the list grants `want` (rwx bits).
    pub fn allows(&self, asker: &Asker<'_>, want: u16) -> bool {
        let grants = |perm: u16| perm & want == want;
        let mask = self.0.iter().find(|e| e.tag == MASK).map_or(7, |e| e.perm);
        let mut in_some_group = false;
        for e in &self.0 {
            match e.tag {
                USER_OBJ if asker.uid == asker.owner => return grants(e.perm),
                USER if asker.uid == e.id => return grants(e.perm & mask),
                GROUP_OBJ | GROUP => {
                    let group = if e.tag == GROUP { e.id } else { asker.group };
                    if (asker.in_group)(group) {
                        in_some_group = true;
                        if grants(e.perm) {
                            return grants(e.perm & mask);
                        }
                    }
                }
                OTHER => return !in_some_group && grants(e.perm),
                _ => {}
            }
        }
        false
    }

    /// Returns the nine mode bits equivalent to the list, and whether they express all of it.
    pub fn mode(&self) -> (u16, bool) {
        let mut mode = 0;
        let mut minimal = true;
        for e in &self.0 {
            match e.tag {
                USER_OBJ => mode |= e.perm << 6,
                GROUP_OBJ => mode |= e.perm << 3,
                OTHER => mode |= e.perm,
                MASK => {
                    mode = (mode & !0o070) | (e.perm << 3);
                    minimal = false;
                }
                _ => minimal = false,
            }
        }
        (mode, minimal)
    }

    /// Returns the list after a chmod.
    pub fn chmod(&mut self, mode: u16) {
        let class = self.group_class();
        for e in &mut self.0 {
            match e.tag {
                USER_OBJ => e.perm = (mode >> 6) & 7,
                OTHER => e.perm = mode & 7,
                tag if tag == class => e.perm = (mode >> 3) & 7,
                _ => {}
            }
        }
    }

    /// Inherits from a default list: returns the nine mode bits of the new inode and, if they do
    /// not express all of it, its access list.
    pub fn inherit(&self, mode: u16) -> (u16, Option<Acl>) {
        let mut acl = self.clone();
        let class = acl.group_class();
        let mut granted = mode & 0o777;
        for e in &mut acl.0 {
            let shift = match e.tag {
                USER_OBJ => 6,
                OTHER => 0,
                tag if tag == class => 3,
                _ => continue,
            };
            e.perm &= mode >> shift;
            granted &= (e.perm << shift) | !(7 << shift);
        }
        let minimal = acl.mode().1;
        ((mode & !0o777) | granted, (!minimal).then_some(acl))
    }

    /// Returns the entry that the group bits of the mode stand for.
    fn group_class(&self) -> u16 {
        if self.0.iter().any(|e| e.tag == MASK) {
            MASK
        } else {
            GROUP_OBJ
        }
    }
}
