//! Acting for a caller: the identity of a thread while it makes a system call for somebody.
//!
//! A daemon of root acts with the caller's user, group and supplementary groups, and without the
//! capabilities that the caller lacks, so that the host decides and owns what is made as if the
//! caller had made the call. A daemon of another user acts as that user.
//!
//! The kernel tells user and group of a request. Supplementary groups and capabilities are read
//! from `/proc` where they may matter: when the call is refused without them, or decides by them
//! without refusing (`exact`). A call that is refused has changed nothing and is repeated.

use crate::errno::PassOn;
use crate::sys;
use hearth::{Caller, Errno, Result};
use hearth_sync::primitive::thread_local;
use rustix::fs::Mode;
use rustix::process::{Gid, getegid, geteuid, umask};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::cell::RefCell;

/// For whom threads act.
#[derive(Debug)]
pub struct Rights {
    /// Of the daemon: user and group, and what it may do. `None`: it acts as itself.
    own: Option<Own>,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    gid: u32,
    capabilities: CapabilitySets,
}

/// What a caller may, beside user and group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct More {
    groups: Vec<u32>,
    capabilities: u64,
}

/// What is set on this thread, and stays between calls.
#[derive(Default)]
struct Kept {
    is_unshared: bool,
    umask: Option<u16>,
    groups: Option<Vec<u32>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

impl Rights {
    /// The rights of this process. `None` for a root that cannot act for others.
    pub fn of_this_process() -> Option<Rights> {
        if !geteuid().is_root() {
            return Some(Rights { own: None });
        }
        let sets = capabilities(None).ok()?;
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        let own = Own {
            gid: getegid().as_raw(),
            capabilities: sets,
        };
        sets.effective
            .contains(needed)
            .then_some(Rights { own: Some(own) })
    }

    /// Whether this daemon acts for its callers.
    pub fn switches(&self) -> bool {
        self.own.is_some()
    }

    /// Makes a system call for `caller`. One that is refused is repeated with all of the caller's
    /// groups and capabilities.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn act<T>(&self, caller: &Caller<'_>, call: impl FnMut() -> Result<T>) -> Result<T> {
        self.perform(caller, false, call)
    }

    /// [`Rights::act`] for a call that decides by groups without refusing.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn act_exactly<T>(
        &self,
        caller: &Caller<'_>,
        call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.perform(caller, true, call)
    }

    /// [`Rights::act`] for a call that makes something with this mode.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn make<T>(
        &self,
        caller: &Caller<'_>,
        mode: u16,
        call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        set_umask(caller.umask)?;
        self.perform(caller, mode & libc::S_ISGID as u16 != 0, call)
    }

    /// Makes a call with which the kernel takes down whose rights count from now on: the caller's,
    /// and `CAP_SYS_ADMIN`, which the call itself needs. So the host's reserve and quotas bind
    /// whoever writes.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn register<T>(&self, caller: &Caller<'_>, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(own) = self.own.as_ref().filter(|_| caller.uid != 0) else {
            return call();
        };
        let more = More {
            groups: caller.groups.to_vec(),
            capabilities: CapabilitySet::SYS_ADMIN.bits(),
        };
        let _acting = Acting::begin(own, caller, &more)?;
        call()
    }

    fn perform<T>(
        &self,
        caller: &Caller<'_>,
        exact: bool,
        mut call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let Some(own) = &self.own else {
            return call();
        };
        if caller.uid == 0 {
            let _acting = (caller.gid != own.gid).then(|| Acting::in_group(own, caller.gid));
            return call();
        }
        let told = More {
            groups: caller.groups.to_vec(),
            capabilities: 0,
        };
        let more = match exact {
            true => more_of(caller),
            false => None,
        };
        let first = more.as_ref().unwrap_or(&told);
        let result = {
            let _acting = Acting::begin(own, caller, first)?;
            call()
        };
        if exact || !matches!(result, Err(Errno::EACCES | Errno::EPERM)) {
            return result;
        }
        match more_of(caller) {
            Some(more) if more != told => {
                let _acting = Acting::begin(own, caller, &more)?;
                call()
            }
            _ => result,
        }
    }
}

/// The thread acts for somebody until this is dropped.
struct Acting<'a> {
    own: &'a Own,
    /// User and capabilities are changed as well.
    as_user: bool,
}

impl<'a> Acting<'a> {
    fn in_group(own: &'a Own, gid: u32) -> Acting<'a> {
        let acting = Acting {
            own,
            as_user: false,
        };
        must(sys::set_fs_gid(gid));
        acting
    }

    fn begin(own: &'a Own, caller: &Caller<'_>, more: &More) -> Result<Acting<'a>> {
        set_groups(&more.groups)?;
        let acting = Acting { own, as_user: true };
        must(sys::set_fs_gid(caller.gid));
        must(sys::set_fs_uid(caller.uid));
        let wanted = CapabilitySet::from_bits_retain(more.capabilities);
        let sets = CapabilitySets {
            effective: wanted & own.capabilities.permitted,
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

/// Sets the file mode creation mask of this thread, which stays: the daemon makes nothing by
/// itself on such a thread.
fn set_umask(mask: u16) -> Result<()> {
    KEPT.with_borrow_mut(|kept| {
        if !kept.is_unshared {
            sys::unshare_fs()?;
            kept.is_unshared = true;
        }
        if kept.umask != Some(mask) {
            umask(Mode::from_raw_mode(mask.into()));
            kept.umask = Some(mask);
        }
        Ok(())
    })
}

/// Groups and capabilities of the caller as they are now; `None` if its process cannot be seen.
fn more_of(caller: &Caller<'_>) -> Option<More> {
    if caller.pid == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", caller.pid)).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.trim_start_matches(':').trim())
    };
    // Real, effective, saved, and the one for files. Another process may have the number by now.
    let fs_uid = field("Uid")?.split_whitespace().nth(3)?;
    if fs_uid.parse() != Ok(caller.uid) {
        return None;
    }
    let groups = field("Groups")?.split_whitespace();
    Some(More {
        groups: groups.filter_map(|group| group.parse().ok()).collect(),
        capabilities: u64::from_str_radix(field("CapEff")?, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::Origin;
    use hearth_sync::primitive::thread;
    use rustix::process::getgroups;

    fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller<'_> {
        Caller {
            uid,
            gid,
            groups,
            pid: 0,
            umask: 0o027,
            origin: Origin::Kernel,
        }
    }

    /// User, group, groups and capabilities of this thread, as the kernel tells them.
    fn identity() -> (String, String, String, String) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_start_matches(':').trim().to_owned()
        };
        let last = |name: &str| field(name).split_whitespace().nth(3).unwrap().to_owned();
        (last("Uid"), last("Gid"), field("Groups"), field("CapEff"))
    }

    #[test]
    fn a_thread_has_the_rights_of_its_caller_during_the_call_and_its_own_after() {
        let rights = Rights::of_this_process().expect("root with its capabilities");
        assert!(rights.switches(), "this test needs root");
        let groups = getgroups().unwrap();
        let acting = thread::spawn(move || {
            let before = identity();
            let inside = rights.act(&caller(1000, 1001, &[5, 7]), || Ok(identity()));
            let (uid, gid, groups, capabilities) = inside.unwrap();
            assert_eq!((&*uid, &*gid, groups.trim()), ("1000", "1001", "5 7"));
            assert_eq!(u64::from_str_radix(&capabilities, 16), Ok(0));
            let after = identity();
            assert_eq!((&before.0, &before.1), (&after.0, &after.1));
            assert_eq!(before.3, after.3);
            let inside = rights.act(&caller(0, 1001, &[]), || Ok(identity()));
            let (uid, gid, _, capabilities) = inside.unwrap();
            assert_eq!((&*uid, &*gid), ("0", "1001"));
            assert_eq!(capabilities, before.3);
            assert_eq!(identity().1, before.1);
        });
        acting.join().unwrap();
        assert_eq!(getgroups().unwrap(), groups, "other threads keep theirs");
    }

    #[test]
    fn a_mask_is_that_of_one_thread() {
        let own = umask(Mode::from_raw_mode(0o022));
        let rights = Rights { own: None };
        let masked = thread::spawn(move || {
            let make = rights.make(&caller(0, 0, &[]), 0o666, || Ok(()));
            make.unwrap();
            umask(Mode::empty()).as_raw_mode()
        });
        assert_eq!(masked.join().unwrap(), 0o027);
        assert_eq!(umask(own).as_raw_mode(), 0o022);
    }
}
