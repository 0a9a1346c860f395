//! User, groups and capabilities of the process that waits for a request, as `/proc` has them.

use hearth_sync::primitive::OnceLock;
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, capabilities};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

/// Capabilities that Linux grants over inodes whose owners a user namespace has. All others it asks
/// of the machine's own namespace.
const OVER_INODES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETFCAP);

/// What `/proc/PID/status` says of a process now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStatus {
    /// The filesystem user (`fsuid`).
    pub uid: u32,
    pub groups: Vec<u32>,
    /// The effective ones; none of a process in another user namespace, where anybody may have all.
    pub capabilities: CapabilitySet,
    /// The user namespace of the process, if it is another one and gives it a capability.
    pub namespace: Option<UserNamespace>,
}

/// What a process may do in a user namespace that is not the daemon's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserNamespace {
    /// Those over inodes whose owners the namespace has.
    pub capabilities: CapabilitySet,
    users: Vec<Range<u64>>,
    groups: Vec<Range<u64>>,
}

impl UserNamespace {
    /// That of a process with these effective capabilities; `None` if its ids cannot be seen.
    fn of(pid: u32, effective: CapabilitySet) -> Option<UserNamespace> {
        let ids = |map: &str| {
            let map = std::fs::read_to_string(format!("/proc/{pid}/{map}")).ok()?;
            map.lines().map(outside).collect::<Option<Vec<_>>>()
        };
        Some(UserNamespace {
            capabilities: effective & OVER_INODES,
            users: ids("uid_map")?,
            groups: ids("gid_map")?,
        })
    }

    /// Whether it has this user and this group.
    pub fn has(&self, uid: u32, gid: u32) -> bool {
        let is_in = |ids: &[Range<u64>], id: u32| ids.iter().any(|ids| ids.contains(&id.into()));
        is_in(&self.users, uid) && is_in(&self.groups, gid)
    }
}

/// The ids of this process that a line of `uid_map` or `gid_map` maps: those that are the first in
/// the other namespace, the first in this one, and how many.
fn outside(line: &str) -> Option<Range<u64>> {
    let mut fields = line.split_whitespace().skip(1);
    let begin: u64 = fields.next()?.parse().ok()?;
    let count: u64 = fields.next()?.parse().ok()?;
    // What this namespace lacks is told as the last id, which nobody has.
    let end = begin.checked_add(count)?.min(u32::MAX.into());
    Some(begin..end.max(begin))
}

impl ProcStatus {
    /// The process with this number; `None` if it cannot be seen.
    pub fn of(pid: u32) -> Option<ProcStatus> {
        if pid == 0 {
            return None;
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.trim_start_matches(':').trim())
        };
        let groups = field("Groups")?.split_whitespace();
        let effective = u64::from_str_radix(field("CapEff")?, 16).ok()?;
        let effective = CapabilitySet::from_bits_retain(effective);
        let is_own = effective.is_empty() || is_in_own_namespace(pid);
        Some(ProcStatus {
            // Real, effective, saved, and the one for files.
            uid: field("Uid")?.split_whitespace().nth(3)?.parse().ok()?,
            groups: groups.filter_map(|group| group.parse().ok()).collect(),
            capabilities: match is_own {
                true => effective,
                false => CapabilitySet::empty(),
            },
            namespace: match is_own {
                true => None,
                false => UserNamespace::of(pid, effective),
            },
        })
    }
}

/// Whether a process of root has what makes it root to files, as far as that can be seen. It costs
/// little: root's calls are many.
pub fn is_root_to_files(pid: u32) -> bool {
    let root = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let sets = pid.and_then(|pid| capabilities(Some(pid)).ok());
    sets.is_none_or(|sets| sets.effective.contains(root))
}

/// Whether a process is in the user namespace of this one. One that hides it is not.
fn is_in_own_namespace(pid: u32) -> bool {
    static OWN: OnceLock<Option<(u64, u64)>> = OnceLock::new();
    let of = |process: &str| {
        let namespace = std::fs::metadata(format!("/proc/{process}/ns/user")).ok()?;
        Some((namespace.dev(), namespace.ino()))
    };
    let own = *OWN.get_or_init(|| of("self"));
    own.is_some() && of(&pid.to_string()) == own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn a_namespace_of_its_own_gives_a_process_no_capability_of_the_machine() {
        let own = ProcStatus::of(std::process::id()).expect("this process");
        assert!(
            !OVER_INODES.contains(own.capabilities),
            "this test needs root"
        );
        let mut command = Command::new("unshare");
        command.args(["-Ur", "sh", "-c", "echo; read end"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("unshare of util-linux");
        let mut is_ready = [0];
        let out = child.stdout.as_mut().expect("a pipe");
        out.read_exact(&mut is_ready).expect("it runs");
        let status = ProcStatus::of(child.id()).expect("a process that runs");
        drop(child.stdin.take());
        child.wait().expect("a child");
        assert_eq!(status.uid, own.uid);
        assert_eq!(status.capabilities, CapabilitySet::empty());
        let namespace = status.namespace.expect("another one");
        assert_eq!(namespace.capabilities, OVER_INODES);
        let (uid, gid) = (own.uid, rustix::process::getegid().as_raw());
        assert!(namespace.has(uid, gid), "{namespace:?}");
        for (uid, gid) in [(uid + 1, gid), (uid, gid + 1), (u32::MAX, u32::MAX)] {
            assert!(!namespace.has(uid, gid), "{namespace:?}");
        }
        assert_eq!(ProcStatus::of(0), None);
    }
}
