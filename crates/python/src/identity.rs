//! As whom a process of a volume acts.

use hearth::{Credentials, Errno};

/// User, groups: those that were given, else those of this process. `EINVAL` for a number that
/// nobody has.
pub fn credentials(
    uid: Option<u32>,
    gid: Option<u32>,
    groups: Option<Vec<u32>>,
) -> Result<Credentials, Errno> {
    let mut given = uid.iter().chain(&gid).chain(groups.iter().flatten());
    if given.any(|&id| id == u32::MAX) {
        return Err(Errno::EINVAL);
    }
    let is_own = uid.is_none() && gid.is_none();
    let own_groups = || match is_own {
        true => rustix::process::getgroups().map_or_else(
            |_| Vec::new(),
            |groups| groups.iter().map(|group| group.as_raw()).collect(),
        ),
        false => Vec::new(),
    };
    Ok(Credentials {
        uid: uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        gid: gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        groups: groups.unwrap_or_else(own_groups),
    })
}
