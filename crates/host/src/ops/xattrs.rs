//! Extended attributes, ACLs among them.

use crate::attributes;
use crate::checked::SuidSgid;
use crate::errno::PassOn;
use crate::node::Node;
use crate::over::Over;
use crate::tree::Tree;
use hearth::{Caller, Errno, Result};
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use std::ffi::CString;

/// The longest value and the longest list of names that Linux has.
const MOST: usize = 64 << 10;
/// Most values fit.
const USUAL: usize = 1024;
/// Whether setgid stays when this is set depends on the caller's groups.
const ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
/// Shown to root alone.
const TRUSTED: &[u8] = b"trusted.";
const FILE_CAPABILITIES: &[u8] = b"security.capability";

impl Tree {
    /// Value of an attribute.
    pub fn getxattr(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        name: &[u8],
    ) -> Result<Box<[u8]>> {
        let reached = self.reach(node)?;
        let (path, c_name) = (Tree::proc_path(reached.as_fd()), c_string(name)?);
        let get = |value: &mut [u8]| match getxattr(&*path, &*c_name, value).pass_on() {
            // The kernel asks for it to check a right, and would refuse all with this.
            Err(Errno::EOPNOTSUPP) if matches!(name, ACL | DEFAULT_ACL) => Err(Errno::ENODATA),
            done => done,
        };
        let over = [reached.as_fd()];
        self.rights
            .act(caller, Over::Inodes(&over), || filled(get))
            .map(Into::into)
    }

    /// Sets an attribute.
    pub fn setxattr(
        &self,
        caller: &Caller<'_>,
        node: &Arc<Node>,
        name: &[u8],
        value: &[u8],
        flags: i32,
        suid_sgid: SuidSgid,
    ) -> Result<()> {
        let reached = self.reach(node)?;
        let (path, c_name) = (Tree::proc_path(reached.as_fd()), c_string(name)?);
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let set = || setxattr(&*path, &*c_name, value, flags).pass_on();
        let over = [reached.as_fd()];
        let over = Over::Inodes(&over);
        if name != ACL {
            return self.rights.act(caller, over, set);
        }
        let kept = self.take_back_by_rights(node);
        let done = self.rights.act_exactly(caller, over, suid_sgid, set);
        // It sets the mode as well.
        if let Ok(stat) = attributes::stat(reached.as_fd()) {
            node.set_mode(stat.stx_mode.into());
        }
        drop((reached, kept));
        self.give_up_idle(node);
        done
    }

    /// Names of attributes, a NUL behind each.
    pub fn listxattr(&self, caller: &Caller<'_>, node: &Arc<Node>) -> Result<Vec<u8>> {
        let reached = self.reach(node)?;
        let path = Tree::proc_path(reached.as_fd());
        let list = |names: &mut [u8]| listxattr(&*path, names).pass_on();
        let over = [reached.as_fd()];
        let mut names = self
            .rights
            .act(caller, Over::Inodes(&over), || filled(list))?;
        // The kernel leaves out nothing of what it gets.
        if self.rights.are_checked() && !caller.privileged() {
            names = names
                .split_inclusive(|&byte| byte == 0)
                .filter(|name| !name.starts_with(TRUSTED))
                .collect::<Vec<_>>()
                .concat();
        }
        Ok(names)
    }

    /// Removes an attribute.
    pub fn removexattr(&self, caller: &Caller<'_>, node: &Arc<Node>, name: &[u8]) -> Result<()> {
        let reached = self.reach(node)?;
        let (path, c_name) = (Tree::proc_path(reached.as_fd()), c_string(name)?);
        let remove = || removexattr(&*path, &*c_name).pass_on();
        match name {
            // The kernel takes it off a file that anybody writes to, and asks who does so by hand
            // for the capability beforehand.
            FILE_CAPABILITIES => remove(),
            _ => {
                let kept = (name == ACL).then(|| self.take_back_by_rights(node));
                let over = [reached.as_fd()];
                let done = self.rights.act(caller, Over::Inodes(&over), remove);
                drop(kept);
                if name == ACL {
                    self.give_up_idle(node);
                }
                done
            }
        }
    }
}

/// What `get` writes into a buffer that is long enough.
fn filled(get: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    for len in [USUAL, MOST] {
        let mut value = vec![0; len];
        match get(&mut value) {
            Err(Errno::ERANGE) => {}
            done => {
                value.truncate(done?);
                return Ok(value);
            }
        }
    }
    Err(Errno::E2BIG)
}

fn c_string(name: &[u8]) -> Result<CString> {
    CString::new(name).map_err(|_| Errno::EINVAL)
}
