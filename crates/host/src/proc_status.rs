//! User, groups and capabilities of the process that waits for a request, as `/proc` has them.

use hearth_sync::primitive::OnceLock;
use rustix::thread::CapabilitySet;
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
    /// The effective ones. Of a process in another user namespace, where anybody may have all, only
    /// those over inodes: the kernel has checked whether it has them over this inode.
    pub capabilities: CapabilitySet,
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
        Some(ProcStatus {
            // Real, effective, saved, and the one for files.
            uid: field("Uid")?.split_whitespace().nth(3)?.parse().ok()?,
            groups: groups.filter_map(|group| group.parse().ok()).collect(),
            capabilities: match effective.is_empty() || is_in_own_namespace(pid) {
                true => effective,
                false => effective & OVER_INODES,
            },
        })
    }
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
        assert_eq!(status.capabilities, OVER_INODES);
        assert_eq!(ProcStatus::of(0), None);
    }
}
