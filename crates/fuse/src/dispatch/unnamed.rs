//! Requests that do not say who asks.
//!
//! A kernel that may map ids (`ALLOW_IDMAP`) names user and group in requests that make an inode
//! alone, on every mount of the volume: whether somebody may do something it decides itself. All
//! other requests have [`NOBODY`]. The rights of Hearth's own commands, privilege and tenants then
//! go by the process that asks, which waits in its call meanwhile: by its ids as the daemon sees
//! them, which no mapping of a mount changes. A process that cannot be seen has no rights.

use crate::wire::{InHeader, Opcode};

/// In place of a user or group that the kernel does not name.
pub(crate) const NOBODY: u32 = u32::MAX;

/// The user and the groups of the process that waits for the answer.
#[derive(Debug, PartialEq, Eq)]
struct Asker {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Completes the header of a request that names nobody, if its answer depends on who asks. Returns
/// the supplementary groups.
pub(super) fn identify(header: &mut InHeader) -> Option<Vec<u32>> {
    if header.uid != NOBODY || !depends_on_asker(header) {
        return None;
    }
    let path = format!("/proc/{}/status", header.pid);
    // 0: a process of which the daemon's namespace knows nothing.
    let status = (header.pid != 0).then(|| std::fs::read_to_string(path));
    let asker = asker(&status?.ok()?)?;
    (header.uid, header.gid) = (asker.uid, asker.gid);
    Some(asker.groups)
}

/// Whether the core, or a control file, asks who it is. What is left out is what a program does
/// most often.
fn depends_on_asker(header: &InHeader) -> bool {
    use Opcode::*;
    let is_never = matches!(
        Opcode::from_number(header.opcode),
        Some(Forget | BatchForget | Interrupt | Destroy | Init | Release | Releasedir | Flush)
    );
    let is_free = matches!(
        Opcode::from_number(header.opcode),
        Some(
            Lookup
                | Getattr
                | Statx
                | Read
                | Write
                | Readdir
                | Readdirplus
                | Readlink
                | Access
                | Statfs
                | Fsync
                | Fsyncdir
                | Lseek
        )
    );
    !is_never && (!is_free || hearth::is_control(header.nodeid))
}

/// The ids for files in the text of `/proc/PID/status`.
fn asker(status: &str) -> Option<Asker> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // Real, effective, saved, and the one for files.
    let id = |name| field(name)?.split_whitespace().nth(3)?.parse().ok();
    let groups = field("Groups:").unwrap_or_default().split_whitespace();
    Some(Asker {
        uid: id("Uid:")?,
        gid: id("Gid:")?,
        groups: groups.filter_map(|group| group.parse().ok()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_for_files_count() {
        let status = "Name:\tuid: 7\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n";
        let expected = Asker {
            uid: 4,
            gid: 8,
            groups: vec![9, 10],
        };
        assert_eq!(asker(status), Some(expected));
        assert_eq!(asker("Uid:\t1\t2\t3\n"), None);
    }

    #[test]
    fn who_asks_is_looked_up_where_nobody_is_named_and_it_matters() {
        let header = |uid, opcode: Opcode, pid| InHeader {
            uid,
            gid: uid,
            opcode: opcode as u32,
            nodeid: 1,
            pid,
            ..Default::default()
        };
        let own = std::process::id();
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let mut unnamed = header(NOBODY, Opcode::Unlink, own);
        assert!(identify(&mut unnamed).is_some());
        assert_eq!((unnamed.uid, unnamed.gid), (uid, gid));
        for mut same in [
            header(5, Opcode::Unlink, own),
            header(NOBODY, Opcode::Read, own),
            header(NOBODY, Opcode::Forget, own),
            header(NOBODY, Opcode::Unlink, 0),
            header(NOBODY, Opcode::Unlink, i32::MAX as u32),
        ] {
            let before = same.uid;
            assert_eq!((identify(&mut same), same.uid), (None, before));
        }
    }
}
