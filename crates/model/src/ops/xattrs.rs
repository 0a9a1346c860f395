//! Extended attributes and the ACLs among them.

use libc::{E2BIG, EACCES, EEXIST, EINVAL, ENODATA, EOPNOTSUPP, EPERM, ERANGE};
use libc::{XATTR_CREATE, XATTR_REPLACE};

use crate::acl::Acl;
use crate::bytes::Bytes;
use crate::model::{Answer, Model};
use crate::node::NodeId;
use crate::op::{CWD, Target};
use crate::outcome::{Kind, Outcome};
use crate::permission::{READ, WRITE};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const VALUE_MAX: usize = 65536;

impl Model {
    pub(crate) fn get_xattr(&mut self, p: usize, target: &Target, name: &[u8]) -> Answer {
        check_name(name)?;
        let id = self.xattr_target(p, target)?;
        if name == ACCESS || name == DEFAULT {
            let node = self.node(id);
            if node.is_symlink() {
                return Err(EOPNOTSUPP);
            }
            let acl = if name == ACCESS {
                &node.acl
            } else {
                &node.default_acl
            };
            return acl
                .as_ref()
                .map(|acl| Outcome::Data(Bytes(acl.serialise())))
                .ok_or(ENODATA);
        }
        self.may_xattr(p, id, name, false)?;
        check_space(name)?;
        let value = self.node(id).xattrs.get(name).ok_or(ENODATA)?;
        Ok(Outcome::Data(Bytes(value.clone())))
    }

    pub(crate) fn set_xattr(
        &mut self,
        p: usize,
        target: &Target,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Answer {
        if flags & !(XATTR_CREATE | XATTR_REPLACE) != 0 {
            return Err(EINVAL);
        }
        check_name(name)?;
        if value.len() > VALUE_MAX {
            return Err(E2BIG);
        }
        let id = self.xattr_target(p, target)?;
        if name == ACCESS || name == DEFAULT {
            return self.set_acl(p, id, name == ACCESS, Acl::parse(value)?);
        }
        self.may_xattr(p, id, name, true)?;
        self.may_security(p, name)?;
        check_space(name)?;
        let xattrs = &mut self.node_mut(id).xattrs;
        let exists = xattrs.contains_key(name);
        if exists && flags & XATTR_CREATE != 0 {
            return Err(EEXIST);
        }
        if !exists && flags & XATTR_REPLACE != 0 {
            return Err(ENODATA);
        }
        xattrs.insert(name.to_vec(), value.to_vec());
        Ok(Outcome::Done)
    }

    pub(crate) fn list_xattr(&mut self, p: usize, target: &Target) -> Answer {
        let id = self.xattr_target(p, target)?;
        let root = self.credentials(p).is_root();
        let node = self.node(id);
        let mut names: Vec<Bytes> = node
            .xattrs
            .keys()
            .filter(|name| root || !name.starts_with(b"trusted."))
            .map(|name| Bytes(name.clone()))
            .collect();
        names.extend(node.acl.iter().map(|_| Bytes(ACCESS.to_vec())));
        names.extend(node.default_acl.iter().map(|_| Bytes(DEFAULT.to_vec())));
        names.sort();
        Ok(Outcome::Names(names))
    }

    pub(crate) fn remove_xattr(&mut self, p: usize, target: &Target, name: &[u8]) -> Answer {
        check_name(name)?;
        let id = self.xattr_target(p, target)?;
        if name == ACCESS || name == DEFAULT {
            return self.set_acl(p, id, name == ACCESS, None);
        }
        self.may_xattr(p, id, name, true)?;
        self.may_security(p, name)?;
        check_space(name)?;
        self.node_mut(id)
            .xattrs
            .remove(name)
            .map(|_| Outcome::Done)
            .ok_or(ENODATA)
    }

    fn xattr_target(&mut self, p: usize, target: &Target) -> Answer<NodeId> {
        match target {
            Target::Path(path) => self.lookup(p, CWD, path, true),
            Target::Link(path) => self.lookup(p, CWD, path, false),
            Target::Fd(fd) => Ok(self.file(p, *fd)?.node),
        }
    }

    fn set_acl(&mut self, p: usize, id: NodeId, access: bool, acl: Option<Acl>) -> Answer {
        let node = self.node(id);
        if node.immutable() || node.append_only() {
            return Err(EPERM);
        }
        if node.is_symlink() {
            return Err(EOPNOTSUPP);
        }
        if !access && !node.is_dir() {
            return if acl.is_some() {
                Err(EACCES)
            } else {
                Ok(Outcome::Done)
            };
        }
        if !self.owns(p, id) {
            return Err(EPERM);
        }
        if acl.as_ref().is_some_and(|acl| !acl.is_valid()) {
            return Err(EINVAL);
        }
        let keeps_setgid = self.keeps_setgid(p, node.gid);
        let node = self.node_mut(id);
        if !access {
            node.default_acl = acl;
            return Ok(Outcome::Done);
        }
        if !keeps_setgid {
            node.perm &= !0o2000;
        }
        node.acl = acl.filter(|acl| {
            let (bits, minimal) = acl.mode();
            node.perm = (node.perm & !0o777) | bits;
            !minimal
        });
        Ok(Outcome::Done)
    }

    /// Rules of the namespaces.
    fn may_xattr(&self, p: usize, id: NodeId, name: &[u8], write: bool) -> Answer<()> {
        let node = self.node(id);
        let refused = if write { EPERM } else { ENODATA };
        if write && (node.immutable() || node.append_only()) {
            return Err(EPERM);
        }
        if name.starts_with(b"security.") || name.starts_with(b"system.") {
            return Ok(());
        }
        if name.starts_with(b"trusted.") {
            return if self.credentials(p).is_root() {
                Ok(())
            } else {
                Err(refused)
            };
        }
        if name.starts_with(b"user.") {
            if !matches!(node.kind(), Kind::File | Kind::Directory) {
                return Err(refused);
            }
            if write && node.is_dir() && node.perm & 0o1000 != 0 && !self.owns(p, id) {
                return Err(EPERM);
            }
        }
        self.may(p, id, if write { WRITE } else { READ })
    }

    fn may_security(&self, p: usize, name: &[u8]) -> Answer<()> {
        let guarded = name.starts_with(b"security.");
        if guarded && !self.credentials(p).is_root() {
            Err(EPERM)
        } else {
            Ok(())
        }
    }
}

fn check_name(name: &[u8]) -> Answer<()> {
    if (1..=255).contains(&name.len()) {
        Ok(())
    } else {
        Err(ERANGE)
    }
}

/// There are three namespaces beside the ACLs, and a name must not end with its prefix.
fn check_space(name: &[u8]) -> Answer<()> {
    let prefix = [&b"user."[..], b"trusted.", b"security."]
        .into_iter()
        .find(|s| name.starts_with(s));
    match prefix {
        None => Err(EOPNOTSUPP),
        Some(prefix) if prefix.len() == name.len() => Err(EINVAL),
        Some(_) => Ok(()),
    }
}
