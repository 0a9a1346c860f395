//! As whom a process of a volume acts.

use hearth::Credentials;

/// User, groups: those that were given, else those of this process.
pub fn credentials(uid: Option<u32>, gid: Option<u32>, groups: Option<Vec<u32>>) -> Credentials {
    let is_own = uid.is_none() && gid.is_none();
    let own_groups = || match is_own {
        true => rustix::process::getgroups().map_or_else(
            |_| Vec::new(),
            |groups| groups.iter().map(|group| group.as_raw()).collect(),
        ),
        false => Vec::new(),
    };
    Credentials {
        uid: uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        gid: gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        groups: groups.unwrap_or_else(own_groups),
    }
}
