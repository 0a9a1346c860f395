//! A thread that acts as somebody else: user, groups and capabilities while it makes a system call.

use crate::errno::PassOn;
use crate::sys;
use hearth::Result;
use hearth_sync::primitive::thread_local;
use rustix::fs::Mode;
use rustix::process::{Gid, umask};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::cell::RefCell;

/// What the daemon itself has: its group, and what it may do. Its user is root.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    pub gid: u32,
    pub capabilities: CapabilitySets,
    /// It is the root of all users, not of a user namespace.
    pub is_first: bool,
}

/// The credentials that a thread acts with.
#[derive(Clone, Copy, Debug)]
pub struct Cred<'a> {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'a [u32],
    /// Those that the daemon lacks are left out.
    pub capabilities: CapabilitySet,
}

/// What is set on this thread, and stays between calls.
#[derive(Default)]
struct Kept {
    is_unshared: bool,
    groups: Option<Vec<u32>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The thread acts for somebody until this is dropped.
pub struct Acting<'a> {
    own: &'a Own,
    /// User and capabilities are changed as well.
    as_user: bool,
}

impl<'a> Acting<'a> {
    /// Acts in another group; user and capabilities stay the daemon's.
    pub fn in_group(own: &'a Own, gid: u32) -> Acting<'a> {
        let acting = Acting {
            own,
            as_user: false,
        };
        must(sys::set_fs_gid(gid));
        acting
    }

    /// Acts as `who`.
    ///
    /// # Errors
    /// Groups or capabilities cannot be set.
    pub fn begin(own: &'a Own, who: &Cred<'_>) -> Result<Acting<'a>> {
        set_groups(who.groups)?;
        let acting = Acting { own, as_user: true };
        must(sys::set_fs_gid(who.gid));
        must(sys::set_fs_uid(who.uid));
        let sets = CapabilitySets {
            effective: who.capabilities & own.capabilities.permitted,
            ..own.capabilities
        };
        set_capabilities(None, sets).pass_on()?;
        Ok(acting)
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        if self.as_user {
            must(set_capabilities(None, self.own.capabilities).is_ok());
            must(sys::set_fs_uid(0));
        }
        must(sys::set_fs_gid(self.own.gid));
    }
}

/// A thread with somebody else's rights must not go on.
fn must(done: bool) {
    if !done {
        std::process::abort();
    }
}

/// Sets the supplementary groups of this thread, which stay: root's own calls need none.
fn set_groups(groups: &[u32]) -> Result<()> {
    KEPT.with_borrow_mut(|kept| {
        if kept.groups.as_deref() == Some(groups) {
            return Ok(());
        }
        let raw: Vec<Gid> = groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
        rustix::thread::set_thread_groups(&raw).pass_on()?;
        kept.groups = Some(groups.to_vec());
        Ok(())
    })
}

/// The thread has a caller's file mode creation mask until this is dropped.
pub struct CallersUmask {
    own: Mode,
}

impl CallersUmask {
    /// Sets the mask of this thread alone.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn set(mask: u16) -> Result<CallersUmask> {
        KEPT.with_borrow_mut(|kept| {
            if !kept.is_unshared {
                sys::unshare_fs()?;
                kept.is_unshared = true;
            }
            let own = umask(Mode::from_raw_mode(mask.into()));
            Ok(CallersUmask { own })
        })
    }
}

impl Drop for CallersUmask {
    fn drop(&mut self) {
        umask(self.own);
    }
}

/// User and group `nobody`, if they exist in the user namespace of this process; else its own.
pub fn nobody(own: &Own) -> (u32, u32) {
    const NOBODY: u32 = 65_534;
    let is_known = sys::set_fs_gid(NOBODY) && sys::set_fs_uid(NOBODY);
    must(sys::set_fs_uid(0) && sys::set_fs_gid(own.gid));
    must(set_capabilities(None, own.capabilities).is_ok());
    match is_known {
        true => (NOBODY, NOBODY),
        false => (0, own.gid),
    }
}
