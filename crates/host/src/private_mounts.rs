//! Mounts of FUSE below that are their owner's alone: without `allow_other` the kernel answers
//! nobody else. It goes by the real user of who asks, which is the daemon, whomever it acts for.

use rustix::fd::AsFd;
use rustix::fs::{Statx, StatxAttributes, fstatfs};

/// `f_type` of FUSE.
const FUSE: u64 = 0x6573_5546;

/// To whom alone a mount that was entered belongs, by the inode it begins with. `None`: to all, as
/// far as its modes go.
pub fn owner(fd: impl AsFd, stat: &Statx) -> Option<u32> {
    // It has to be asked what is mounted here now: numbers of mounts are given out again.
    let is_root = stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    if !is_root || !fstatfs(fd).is_ok_and(|found| found.f_type as u64 == FUSE) {
        return None;
    }
    let Ok(list) = std::fs::read("/proc/self/mountinfo") else {
        return Some(0);
    };
    owner_in(&list, stat.stx_mnt_id)
}

/// The owner in a list of mountinfo(5). A mount that is gone by now was root's.
fn owner_in(list: &[u8], mount: u64) -> Option<u32> {
    let number = mount.to_string();
    let mut lines = list.split(|&byte| byte == b'\n');
    let line =
        lines.find(|line| line.split(|&byte| byte == b' ').next() == Some(number.as_bytes()));
    let Some(options) = line.and_then(|line| line.split(|&byte| byte == b' ').next_back()) else {
        return Some(0);
    };
    let has = |word: &[u8]| options.split(|&byte| byte == b',').any(|one| one == word);
    let mut words = options.split(|&byte| byte == b',');
    // virtiofs has no owner, and answers all.
    let owner = words.find_map(|word| word.strip_prefix(b"user_id="))?;
    let owner = str::from_utf8(owner)
        .ok()
        .and_then(|owner| owner.parse().ok());
    (!has(b"allow_other")).then(|| owner.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_owns_a_mount_is_in_its_last_column() {
        let list = b"30 22 0:40 / /a rw shared:7 - fuse.x x rw,user_id=1000,group_id=1000\n\
            31 30 0:41 / /a/allow_other rw - fuse.y y rw,user_id=0,group_id=0,max_read=1\n\
            32 30 0:42 / /b rw - fuse.z z rw,user_id=0,group_id=0,default_permissions,allow_other\n\
            33 30 0:43 / /c rw - virtiofs v rw\n";
        let owners = [30, 31, 32, 33, 3].map(|mount| owner_in(list, mount));
        assert_eq!(owners, [Some(1000), Some(0), None, None, Some(0)]);
    }
}
