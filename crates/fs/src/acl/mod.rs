//! POSIX access control lists, as Linux understands them.
//!
//! An [`Acl`] is immutable once made: changing a file's list means replacing it, so readers share
//! one copy without a lock. Every `Acl` in memory is *valid*:
//!
//! 1. exactly one owner entry, then named users, one owning-group entry, named groups, at most one
//!    mask, one other entry, in this order;
//! 2. a mask is there whenever a named user or group is;
//! 3. permissions are within [`RWX`].
//!
//! The mode bits of a file and its access list say the same thing: the owner class is the owner
//! entry, the group class is the mask (or the owning group when there is none), the other class is
//! the other entry. [`Acl::equiv_mode`], [`Acl::chmod_masq`] and [`Acl::create_masq`] keep it so.

mod entries;
mod xattr;

use entries::Entries;

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

/// Name of the access ACL.
pub(crate) const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the default ACL.
pub(crate) const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// Read permission.
pub const READ: u8 = 4;
/// Write permission.
pub const WRITE: u8 = 2;
/// Execute (or search) permission.
pub const EXECUTE: u8 = 1;
/// All three permissions.
pub const RWX: u8 = READ | WRITE | EXECUTE;

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The owner of the file.
    UserObj,
    /// The user with this id.
    User(u32),
    /// Members of the file's group.
    GroupObj,
    /// Members of the group with this id.
    Group(u32),
    /// The most that named users and all groups can get.
    Mask,
    /// Everyone else.
    Other,
}

/// One entry: for whom, and the permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whom the entry is about.
    pub tag: Tag,
    /// The permissions, a subset of [`RWX`].
    pub perm: u8,
}

/// A valid access or default list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Entries,
}

/// The user whose access is checked, and the user's groups.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The user.
    pub uid: u32,
    /// The user's own group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
}

/// Why a sequence of entries is not a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

impl Acl {
    /// The ACL of these entries, refused unless it is valid (see the module's first paragraph).
    pub fn new(entries: Vec<AclEntry>) -> Result<Acl, Invalid> {
        if !is_valid(&entries) {
            return Err(Invalid);
        }
        Ok(Acl::of(&entries))
    }

    /// Bytes of memory that its entries take.
    pub(crate) fn memory(&self) -> usize {
        self.entries.memory()
    }

    /// The minimal ACL that is equivalent to the permission bits of `mode`.
    pub fn from_mode(mode: u16) -> Acl {
        let entry = |tag, shift: u16| AclEntry {
            tag,
            perm: class(mode, shift),
        };
        let minimal = [
            entry(Tag::UserObj, OWNER),
            entry(Tag::GroupObj, GROUP),
            entry(Tag::Other, OTHER),
        ];
        Acl::of(&minimal)
    }

    /// The entries in their order.
    pub fn entries(&self) -> impl Iterator<Item = AclEntry> {
        self.entries.iter()
    }

    /// Whether `who` gets all of `want` (a subset of [`RWX`]) on a file of this owner and group.
    ///
    /// The first class that `who` belongs to decides; among several matching group entries, one
    /// that grants everything suffices. No privilege is considered.
    pub fn check(&self, who: Requester<'_>, owner: u32, group: u32, want: u8) -> bool {
        let want = want & RWX;
        let member = |gid: u32| who.gid == gid || who.groups.contains(&gid);
        let grants = |perm: u8| perm & want == want;
        let mut in_a_group = false;
        for entry in self.entries() {
            match entry.tag {
                Tag::UserObj if who.uid == owner => return grants(entry.perm),
                Tag::User(uid) if who.uid == uid => return grants(entry.perm & self.mask()),
                Tag::GroupObj if member(group) => in_a_group = true,
                Tag::Group(gid) if member(gid) => in_a_group = true,
                Tag::Other => return !in_a_group && grants(entry.perm),
                _ => continue,
            }
            if grants(entry.perm) {
                return grants(entry.perm & self.mask());
            }
        }
        false
    }

    /// The equivalent permission bits (0o777), and whether they say everything: a *minimal* ACL
    /// needs no storage beside the mode.
    pub fn equiv_mode(&self) -> (u16, bool) {
        let mut mode = 0;
        let mut is_minimal = true;
        for entry in self.entries() {
            match entry.tag {
                Tag::UserObj => mode |= bits(entry.perm, OWNER),
                Tag::GroupObj => mode |= bits(entry.perm, GROUP),
                Tag::Other => mode |= bits(entry.perm, OTHER),
                Tag::Mask => {
                    mode = mode & !bits(RWX, GROUP) | bits(entry.perm, GROUP);
                    is_minimal = false;
                }
                Tag::User(_) | Tag::Group(_) => is_minimal = false,
            }
        }
        (mode, is_minimal)
    }

    /// The ACL after `chmod` to `mode`: owner and other take the mode's classes; the group class
    /// goes to the mask, or to the owning group when there is no mask.
    pub fn chmod_masq(&self, mode: u16) -> Acl {
        let mut entries: Vec<AclEntry> = self.entries().collect();
        let group_class = self.group_class();
        for entry in &mut entries {
            match entry.tag {
                Tag::UserObj => entry.perm = class(mode, OWNER),
                Tag::Other => entry.perm = class(mode, OTHER),
                tag if tag == group_class => entry.perm = class(mode, GROUP),
                _ => {}
            }
        }
        Acl::of(&entries)
    }

    /// Mode and access ACL of a new file in a directory whose default ACL is `self`. Both the
    /// requested `mode` and the ACL limit the mode; the access ACL is `None` when the mode says
    /// everything. The umask plays no part. Bits of `mode` beyond 0o777 pass through.
    pub fn create_masq(&self, mode: u16) -> (u16, Option<Acl>) {
        let mut entries: Vec<AclEntry> = self.entries().collect();
        let group_class = self.group_class();
        for entry in &mut entries {
            match entry.tag {
                Tag::UserObj => entry.perm &= class(mode, OWNER),
                Tag::Other => entry.perm &= class(mode, OTHER),
                tag if tag == group_class => entry.perm &= class(mode, GROUP),
                _ => {}
            }
        }
        let access = Acl::of(&entries);
        let (perm, is_minimal) = access.equiv_mode();
        (mode & !0o777 | perm, (!is_minimal).then_some(access))
    }

    /// The ACL of valid entries.
    fn of(entries: &[AclEntry]) -> Acl {
        let entries = Entries::from(entries);
        Acl { entries }
    }

    fn mask(&self) -> u8 {
        self.entries()
            .find(|e| e.tag == Tag::Mask)
            .map_or(RWX, |e| e.perm)
    }

    /// The entry that the group bits of the mode stand for.
    fn group_class(&self) -> Tag {
        let has_mask = self.entries().any(|e| e.tag == Tag::Mask);
        if has_mask { Tag::Mask } else { Tag::GroupObj }
    }
}

const OWNER: u16 = 6;
const GROUP: u16 = 3;
const OTHER: u16 = 0;

/// One class of the mode as a permission.
fn class(mode: u16, shift: u16) -> u8 {
    (mode >> shift) as u8 & RWX
}

/// A permission as one class of the mode.
fn bits(perm: u8, shift: u16) -> u16 {
    u16::from(perm & RWX) << shift
}

/// How far the entries seen so far have come through the order of tags.
#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Owner,
    Users,
    Groups,
    Other,
    End,
}

fn is_valid(entries: &[AclEntry]) -> bool {
    let mut expect = Expect::Owner;
    let mut needs_mask = false;
    for entry in entries {
        if entry.perm & !RWX != 0 {
            return false;
        }
        expect = match (entry.tag, expect) {
            (Tag::UserObj, Expect::Owner) => Expect::Users,
            (Tag::User(id), Expect::Users) if id != u32::MAX => {
                needs_mask = true;
                Expect::Users
            }
            (Tag::GroupObj, Expect::Users) => Expect::Groups,
            (Tag::Group(id), Expect::Groups) if id != u32::MAX => {
                needs_mask = true;
                Expect::Groups
            }
            (Tag::Mask, Expect::Groups) => Expect::Other,
            (Tag::Other, Expect::Other) => Expect::End,
            (Tag::Other, Expect::Groups) if !needs_mask => Expect::End,
            _ => return false,
        };
    }
    expect == Expect::End
}
