//! Extended attributes and ACLs of an inode, replaced as a whole. Few inodes have any.

use super::meta::{ACCESS, DEFAULT};
use super::xattrs::Xattrs;
use crate::acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
use crate::quota::BLOCK;
use hearth_backend::Xattr;

/// The extended attributes and ACLs of an inode. Immutable once published. It has cache lines of
/// its own, because every look at an attribute or an ACL reads it.
#[derive(Clone, Default)]
#[repr(align(64))]
pub(crate) struct XattrsAcls {
    /// `user.`, `trusted.` and `security.` attributes by full name.
    pub xattrs: Xattrs,
    /// Access ACL; `None` when the mode bits say everything.
    pub access: Option<Acl>,
    /// Default ACL of a directory.
    pub default: Option<Acl>,
    /// They have left memory: there are attributes, of which only the backend knows, and no ACL.
    pub is_at_backend: bool,
}

/// Attributes of an inode in use leave memory if they take more bytes than this.
const LARGE: usize = 256;

/// The extended attribute in which Linux keeps the capabilities of a program.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

impl XattrsAcls {
    pub fn has_capability(&self) -> bool {
        self.xattrs.contains(CAPABILITY)
    }

    /// The ACLs that exist, as bits of [`super::Fields::acls`].
    pub fn acls(&self) -> u32 {
        let has = |acl: &Option<Acl>, bit| if acl.is_some() { bit } else { 0 };
        has(&self.access, ACCESS) | has(&self.default, DEFAULT)
    }

    pub fn is_empty(&self) -> bool {
        self.xattrs.is_empty() && self.acls() == 0 && !self.is_at_backend
    }

    /// Whether they may leave memory while their inode is in use. Not what every access of the
    /// inode asks for: ACLs, and whether there are capabilities.
    pub fn may_leave(&self) -> bool {
        self.xattrs.memory() > LARGE && self.acls() == 0 && !self.has_capability()
    }

    /// Bytes of memory that they take; none if there are none, which is then not kept. What a
    /// backend gives back takes as many as what it was given.
    pub fn memory(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let acls = [&self.access, &self.default].into_iter().flatten();
        size_of::<XattrsAcls>() + self.xattrs.memory() + acls.map(Acl::memory).sum::<usize>()
    }

    /// Blocks that they take: none while names and values fit into [`INLINE`] bytes.
    pub fn blocks(&self) -> u64 {
        let plain = self.xattrs.iter();
        let plain: usize = plain.map(|(name, value)| name.len() + value.len()).sum();
        let acls = [(ACL_ACCESS, &self.access), (ACL_DEFAULT, &self.default)];
        let acls = acls.into_iter().filter_map(|(name, acl)| {
            let value = acl.as_ref()?.to_xattr();
            Some(name.len() + value.len())
        });
        let bytes = (plain + acls.sum::<usize>()) as u64;
        if bytes <= INLINE {
            0
        } else {
            bytes.div_ceil(BLOCK)
        }
    }
}

/// Bytes of extended attributes that count as part of the inode.
const INLINE: u64 = 256;

/// Extended attributes and ACLs as a backend keeps them: ACLs in their Linux form.
pub(crate) fn xattrs_of(extra: &XattrsAcls) -> Vec<Xattr> {
    let mut xattrs: Vec<Xattr> = Vec::new();
    xattrs.extend(extra.xattrs.iter().map(|(n, v)| (n.into(), v.into())));
    let acls = [(ACL_ACCESS, &extra.access), (ACL_DEFAULT, &extra.default)];
    for (name, acl) in acls {
        if let Some(acl) = acl {
            xattrs.push((name.into(), acl.to_xattr().into()));
        }
    }
    xattrs
}
