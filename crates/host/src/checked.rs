//! Calls for callers whom the kernel has checked and does not name: mounts that may map ids.
//! `docs/design/host.md`, "Mapped ids".

use crate::acting::{Acting, Cred, Own, nobody};
use crate::proc_status::ProcStatus;
use crate::user::User;
use hearth::{Caller, Errno, Result};
use rustix::thread::CapabilitySet;

/// What becomes of setuid and setgid of a file that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuidSgid {
    /// They stay: the caller is privileged, or the kernel has decided.
    Keep,
    /// They are cleared where Linux clears them for a caller without `CAP_FSETID`.
    Kill,
}

impl SuidSgid {
    /// What a request of the kernel says (`FUSE_WRITE_KILL_SUIDGID` and its kin).
    pub fn of_request(kills: bool) -> SuidSgid {
        match kills {
            true => SuidSgid::Kill,
            false => SuidSgid::Keep,
        }
    }

    /// For a request that does not say it.
    pub fn of_caller(caller: &Caller<'_>) -> SuidSgid {
        match caller.privileged() {
            true => SuidSgid::Keep,
            false => SuidSgid::Kill,
        }
    }
}

/// As whom a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActAs {
    /// As the user and the group that the request names: they will own what it makes.
    Caller,
    /// As nobody: the request names no user of the filesystem.
    Nobody,
}

/// Acts for callers whom the kernel has checked.
#[derive(Debug)]
pub struct Checked {
    pub own: Own,
    /// User and group that own nothing, and for which no filesystem has a reserve.
    nobody: (u32, u32),
}

impl Checked {
    /// For a daemon of root.
    pub fn new(own: Own) -> Checked {
        let nobody = nobody(&own);
        Checked { own, nobody }
    }

    /// Makes a system call with the daemon's capabilities except `CAP_SYS_RESOURCE`, which may use
    /// a filesystem's reserve and ignores its quotas. A call that is refused is repeated as root,
    /// whom alone a server below may know, and with that capability if the calling process has it.
    ///
    /// # Errors
    /// Those of `call`; `EOVERFLOW` if the caller of [`ActAs::Caller`] is not named.
    pub fn perform<T>(
        &self,
        caller: &Caller<'_>,
        (act_as, suid_sgid): (ActAs, SuidSgid),
        mut call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let (own, is_nobody) = (&self.own, act_as == ActAs::Nobody);
        if !is_nobody && (caller.uid == u32::MAX || caller.gid == u32::MAX) {
            return Err(Errno(libc::EOVERFLOW));
        }
        let ids = match act_as {
            ActAs::Caller => (caller.uid, caller.gid),
            ActAs::Nobody => self.nobody,
        };
        let mut who = Cred {
            uid: ids.0,
            gid: ids.1,
            groups: if is_nobody { &[] } else { caller.groups },
            capabilities: own.capabilities.permitted - CapabilitySet::SYS_RESOURCE,
        };
        if suid_sgid == SuidSgid::Kill {
            who.capabilities -= CapabilitySet::FSETID;
        }
        let run = |who: &Cred<'_>, call: &mut dyn FnMut() -> Result<T>| {
            let _acting = Acting::begin(own, who)?;
            call()
        };
        let refused = match run(&who, &mut call) {
            Err(errno @ (Errno::EACCES | Errno::EPERM | Errno::ENOSPC | Errno::EDQUOT)) => errno,
            done => return done,
        };
        let is_denied = matches!(refused, Errno::EACCES | Errno::EPERM);
        let root = of_root(caller.pid);
        if root.is_none() && !(is_denied && is_nobody) {
            return Err(refused);
        }
        if is_nobody {
            // Filesystems keep a reserve for this user, with that capability or without.
            (who.uid, who.gid) = (0, own.gid);
        }
        if let Some(has) = root {
            who.capabilities |= has & CapabilitySet::SYS_RESOURCE;
        }
        run(&who, &mut call)
    }

    /// Root of the machine, or nobody.
    pub fn writer(&self, caller: &Caller<'_>) -> User {
        // Who makes a file is told by its mapped id, which may be root's.
        let (uid, gid) = match caller.privileged() && of_root(caller.pid).is_some() {
            true => (0, self.own.gid),
            false => self.nobody,
        };
        User { uid, gid }
    }

    /// Makes a call with which the kernel takes down whose rights count from now on.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn register<T>(&self, caller: &Caller<'_>, call: impl FnOnce() -> Result<T>) -> Result<T> {
        // Who makes a file is told by its mapped id, which may be root's.
        if caller.privileged() && of_root(caller.pid).is_some() {
            return call();
        }
        let who = Cred {
            uid: self.nobody.0,
            gid: self.nobody.1,
            groups: &[],
            capabilities: CapabilitySet::SYS_ADMIN,
        };
        let _acting = Acting::begin(&self.own, &who)?;
        call()
    }
}

/// The capabilities of a process of root; those of other users count for nothing here.
fn of_root(pid: u32) -> Option<CapabilitySet> {
    let status = ProcStatus::of(pid).filter(|status| status.uid == 0);
    status.map(|status| status.capabilities)
}
