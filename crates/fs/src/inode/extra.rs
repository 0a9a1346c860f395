//! Extended attributes and ACLs: what few inodes have, replaced as a whole.

use crate::acl::Acl;
use std::collections::BTreeMap;

/// Everything beyond the plain attributes. Immutable once published.
#[derive(Clone, Default)]
pub(crate) struct Extra {
    /// `user.`, `trusted.` and `security.` attributes by full name.
    pub xattrs: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Access ACL; absent when the mode says everything.
    pub access: Option<Acl>,
    /// Default ACL of a directory.
    pub default: Option<Acl>,
}

impl Extra {
    pub fn is_empty(&self) -> bool {
        self.xattrs.is_empty() && self.access.is_none() && self.default.is_none()
    }
}
