//! Acting for a caller: the identity of a thread while it makes a system call for somebody.
//!
//! A daemon of root acts with the caller's user, group and supplementary groups, and without the
//! capabilities that the caller lacks, so that the host decides and owns what is made as if the
//! caller had made the call. A daemon of another user acts as that user. Where ids may be mapped,
//! the kernel alone has checked what the caller may (`checked.rs`).
//!
//! The kernel tells user and group of a request. Supplementary groups and capabilities are read
//! from `/proc` where they may matter: when the call is refused without them, or decides by them
//! without refusing (`exact`). A call that is refused has changed nothing and is repeated. What the
//! caller has in a user namespace of its own counts over inodes that the namespace has (`over.rs`).

use crate::acting::{Acting, CallersUmask, Cred, Own};
use crate::checked::{ActAs, Checked, SuidSgid};
use crate::over::Over;
use crate::proc_status::{ProcStatus, is_root_to_files};
use crate::user::User;
use hearth::{Caller, Errno, Result};
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, capabilities};

/// For whom threads act.
#[derive(Debug)]
pub struct Rights(Acts);

#[derive(Debug)]
enum Acts {
    /// As this process.
    AsItself,
    /// As the caller of each request.
    ForCallers(Own),
    /// As whoever the kernel has checked.
    Checked(Checked),
}

/// What a caller may, beside user and group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct More {
    groups: Vec<u32>,
    capabilities: CapabilitySet,
}

/// Why this process cannot act for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unable {
    /// A root without the capabilities to act for others.
    Powerless,
    /// Ids may be mapped, and this is not root.
    NotRoot,
}

impl Rights {
    /// The rights of this process. With `are_mapped` the kernel alone checks what callers may.
    ///
    /// # Errors
    /// It cannot act so.
    pub fn of_this_process(are_mapped: bool) -> std::result::Result<Rights, Unable> {
        if !geteuid().is_root() {
            return match are_mapped {
                true => Err(Unable::NotRoot),
                false => Ok(Rights(Acts::AsItself)),
            };
        }
        let sets = capabilities(None).map_err(|_| Unable::Powerless)?;
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        if !sets.effective.contains(needed) {
            return Err(Unable::Powerless);
        }
        let own = Own {
            gid: getegid().as_raw(),
            capabilities: sets,
            is_first: is_in_first_namespace(),
        };
        Ok(Rights(match are_mapped {
            true => Acts::Checked(Checked::new(own)),
            false => Acts::ForCallers(own),
        }))
    }

    /// Whether this daemon acts for its callers.
    pub fn switches(&self) -> bool {
        !matches!(self.0, Acts::AsItself)
    }

    /// Whether this daemon may read and write any file by a right of its own, whatever its mode. On
    /// filesystems that decide by themselves it may not all the same.
    pub fn overrides_modes(&self) -> bool {
        let own = match &self.0 {
            Acts::AsItself => return false,
            Acts::ForCallers(own) => own,
            Acts::Checked(checked) => &checked.own,
        };
        let of_root = own.capabilities.effective & own.capabilities.permitted;
        own.is_first && of_root.contains(CapabilitySet::DAC_OVERRIDE)
    }

    /// Whether the kernel alone has checked what callers may, and names them when they make
    /// something only.
    pub fn are_checked(&self) -> bool {
        matches!(self.0, Acts::Checked(_))
    }

    /// Makes a system call for `caller`. One that is refused is repeated with all of the caller's
    /// groups and capabilities.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn act<T>(
        &self,
        caller: &Caller<'_>,
        over: Over<'_>,
        call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.perform(caller, over, (ActAs::Nobody, SuidSgid::Keep), false, call)
    }

    /// [`Rights::act`] for a call that decides by groups without refusing.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn act_exactly<T>(
        &self,
        caller: &Caller<'_>,
        over: Over<'_>,
        suid_sgid: SuidSgid,
        call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.perform(caller, over, (ActAs::Nobody, suid_sgid), true, call)
    }

    /// [`Rights::act`] for a call that takes setuid and setgid of a file from a stranger: the host
    /// does by itself what it does for the caller, where it knows who that is.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn change<T>(
        &self,
        caller: &Caller<'_>,
        over: Over<'_>,
        suid_sgid: SuidSgid,
        call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.perform(caller, over, (ActAs::Nobody, suid_sgid), false, call)
    }

    /// [`Rights::act`] for a call that makes something with this mode.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn make<T>(
        &self,
        caller: &Caller<'_>,
        over: Over<'_>,
        mode: u16,
        call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let _umask = CallersUmask::set(caller.umask)?;
        let exact = mode & libc::S_ISGID as u16 != 0;
        self.perform(caller, over, (ActAs::Caller, SuidSgid::Keep), exact, call)
    }

    /// Makes a call with which the kernel takes down whose rights count from now on: the caller's,
    /// and `CAP_SYS_ADMIN`, which the call itself needs. So the host's reserve and quotas bind
    /// whoever writes.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn register<T>(&self, caller: &Caller<'_>, call: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.0 {
            Acts::Checked(checked) => checked.register(caller, call),
            Acts::ForCallers(own) if caller.uid != 0 => {
                let more = More {
                    groups: caller.groups.to_vec(),
                    capabilities: CapabilitySet::SYS_ADMIN,
                };
                let _acting = Acting::begin(own, &more.of(caller))?;
                call()
            }
            _ => call(),
        }
    }

    /// In whose room `caller` stores through a mapping of what it opens now.
    pub fn writer(&self, caller: &Caller<'_>) -> User {
        match &self.0 {
            Acts::Checked(checked) => checked.writer(caller),
            _ => User {
                uid: caller.uid,
                gid: caller.gid,
            },
        }
    }

    /// Stores what nobody waits for, with the daemon's own right to do so, in the room that `user`
    /// may use: the reserve of a filesystem and its quotas bind who is not root.
    ///
    /// # Errors
    /// Those of `call`.
    pub fn store<T>(&self, user: User, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let own = match &self.0 {
            _ if user.uid == 0 => return call(),
            Acts::AsItself => return call(),
            Acts::Checked(checked) => &checked.own,
            Acts::ForCallers(own) => own,
        };
        let who = Cred {
            uid: user.uid,
            gid: user.gid,
            groups: &[],
            capabilities: own.capabilities.permitted - CapabilitySet::SYS_RESOURCE,
        };
        let _acting = Acting::begin(own, &who)?;
        call()
    }

    fn perform<T>(
        &self,
        caller: &Caller<'_>,
        over: Over<'_>,
        how: (ActAs, SuidSgid),
        exact: bool,
        mut call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let own = match &self.0 {
            Acts::AsItself => return call(),
            Acts::Checked(checked) => return checked.perform(caller, how, call),
            Acts::ForCallers(own) => own,
        };
        if caller.uid == 0 && is_root_to_files(caller.pid) {
            let _acting = (caller.gid != own.gid).then(|| Acting::in_group(own, caller.gid));
            return call();
        }
        let told = More {
            groups: caller.groups.to_vec(),
            capabilities: CapabilitySet::empty(),
        };
        let more = match exact {
            true => More::of_now(caller, over),
            false => None,
        };
        let first = more.as_ref().unwrap_or(&told);
        let result = {
            let _acting = Acting::begin(own, &first.of(caller))?;
            call()
        };
        if exact || !result.as_ref().is_err_and(is_for_lack_of_rights) {
            return result;
        }
        match More::of_now(caller, over) {
            Some(more) if more != told => {
                let _acting = Acting::begin(own, &more.of(caller))?;
                call()
            }
            _ => result,
        }
    }
}

/// Whether this process is in a user namespace that has all users: in another one it has no rights
/// over the files of those who are missing.
fn is_in_first_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Whether groups or capabilities may change this: a filesystem may keep room for them, too.
fn is_for_lack_of_rights(refused: &Errno) -> bool {
    [Errno::EACCES, Errno::EPERM, Errno::ENOSPC, Errno::EDQUOT].contains(refused)
}

impl More {
    /// Groups of the caller, and capabilities over what the call is about, as they are now; `None`
    /// if its process cannot be seen.
    fn of_now(caller: &Caller<'_>, over: Over<'_>) -> Option<More> {
        // Another process may have the number by now.
        let status = ProcStatus::of(caller.pid).filter(|status| status.uid == caller.uid)?;
        Some(More {
            groups: status.groups,
            capabilities: match &status.namespace {
                Some(namespace) => over.granted(namespace),
                None => status.capabilities,
            },
        })
    }

    fn of<'m>(&'m self, caller: &Caller<'_>) -> Cred<'m> {
        Cred {
            uid: caller.uid,
            gid: caller.gid,
            groups: &self.groups,
            capabilities: self.capabilities,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::Origin;
    use hearth_sync::primitive::thread;
    use rustix::fs::Mode;
    use rustix::process::{getgroups, umask};

    const NOTHING: Over<'static> = Over::Inodes(&[]);

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
        let rights = Rights::of_this_process(false).expect("root with its capabilities");
        assert!(rights.switches(), "this test needs root");
        let groups = getgroups().unwrap();
        let acting = thread::spawn(move || {
            let before = identity();
            let inside = rights.act(&caller(1000, 1001, &[5, 7]), NOTHING, || Ok(identity()));
            let (uid, gid, groups, capabilities) = inside.unwrap();
            assert_eq!((&*uid, &*gid, groups.trim()), ("1000", "1001", "5 7"));
            assert_eq!(u64::from_str_radix(&capabilities, 16), Ok(0));
            let after = identity();
            assert_eq!((&before.0, &before.1), (&after.0, &after.1));
            assert_eq!(before.3, after.3);
            let inside = rights.act(&caller(0, 1001, &[]), NOTHING, || Ok(identity()));
            let (uid, gid, _, capabilities) = inside.unwrap();
            assert_eq!((&*uid, &*gid), ("0", "1001"));
            assert_eq!(capabilities, before.3);
            assert_eq!(identity().1, before.1);
        });
        acting.join().unwrap();
        assert_eq!(getgroups().unwrap(), groups, "other threads keep theirs");
    }

    #[test]
    fn a_mask_is_that_of_one_thread_and_ends_with_the_call() {
        let own = umask(Mode::from_raw_mode(0o022));
        let rights = Rights(Acts::AsItself);
        let masked = thread::spawn(move || {
            let look = || Ok(umask(Mode::empty()).as_raw_mode());
            let inside = rights.make(&caller(0, 0, &[]), NOTHING, 0o666, look);
            (inside.unwrap(), umask(Mode::empty()).as_raw_mode())
        });
        assert_eq!(masked.join().unwrap(), (0o027, 0o022));
        assert_eq!(umask(own).as_raw_mode(), 0o022);
    }

    #[test]
    fn who_is_checked_acts_under_no_name_and_makes_under_the_name_that_is_told() {
        let rights = Rights::of_this_process(true).expect("root with its capabilities");
        let acting = thread::spawn(move || {
            let before = identity();
            let own = u64::from_str_radix(&before.3, 16).unwrap();
            let without = |gone: CapabilitySet| format!("{:016x}", own & !gone.bits());
            // Nobody is named.
            let unnamed = caller(u32::MAX, u32::MAX, &[]);
            let (uid, gid, groups, capabilities) =
                rights.act(&unnamed, NOTHING, || Ok(identity())).unwrap();
            assert_eq!((&*uid, &*gid, groups.trim()), ("65534", "65534", ""));
            assert_eq!(capabilities, without(CapabilitySet::SYS_RESOURCE));
            let stripped = rights
                .change(&unnamed, NOTHING, SuidSgid::Kill, || Ok(identity()))
                .unwrap();
            let both = CapabilitySet::SYS_RESOURCE | CapabilitySet::FSETID;
            assert_eq!(stripped.3, without(both));
            let made = rights.make(&unnamed, NOTHING, 0o644, || Ok(identity()));
            assert_eq!(made, Err(Errno(libc::EOVERFLOW)));
            let (uid, gid, groups, _) = rights
                .make(&caller(0, 1001, &[5]), NOTHING, 0o644, || Ok(identity()))
                .unwrap();
            assert_eq!((&*uid, &*gid, groups.trim()), ("0", "1001", "5"));
            // Refused: once more as root, who has no more than that.
            let mut seen = Vec::new();
            let refused: Result<()> = rights.act(&unnamed, NOTHING, || {
                seen.push((identity().0, identity().3));
                Err(Errno::EACCES)
            });
            assert_eq!(refused, Err(Errno::EACCES));
            let as_root = ("0".to_owned(), without(CapabilitySet::SYS_RESOURCE));
            assert_eq!((seen.len(), &seen[1]), (2, &as_root));
            assert_eq!((identity().0, identity().3), (before.0, before.3));
        });
        acting.join().unwrap();
    }

    #[test]
    fn who_has_no_room_gets_the_reserve_if_its_process_is_root() {
        let rights = Rights::of_this_process(true).expect("root with its capabilities");
        let acting = thread::spawn(move || {
            for (pid, calls) in [(std::process::id(), 2), (0, 1)] {
                let (own, mut seen) = (identity().3, Vec::new());
                let caller = Caller {
                    pid,
                    ..caller(0, 0, &[])
                };
                let refused: Result<()> = rights.make(&caller, NOTHING, 0o644, || {
                    seen.push(identity().3);
                    Err(Errno::ENOSPC)
                });
                assert_eq!(refused, Err(Errno::ENOSPC));
                assert_eq!(seen.len(), calls, "{pid}");
                assert!(seen.get(1).is_none_or(|again| *again == own), "{seen:?}");
            }
        });
        acting.join().unwrap();
    }
}
