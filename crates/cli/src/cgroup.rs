//! The memory that a container lets this program have, which is less than the machine's: a volume
//! may be promised more than that, and then the kernel ends the daemon before the volume is full.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit from here on is none: what version 1 of control groups says where there is no limit,
/// 2^63 - 1 in whole pages, of 64 KiB at most.
const NO_LIMIT: u64 = (i64::MAX as u64) & !0xffff;

/// The least limit of memory of this process's control groups, and the file that has it.
pub fn memory_limit() -> Option<(u64, PathBuf)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let limits = files(&groups, &mounts).into_iter().filter_map(|file| {
        let limit = limit(&fs::read_to_string(&file).ok()?)?;
        Some((limit, file))
    });
    limits.min()
}

/// The limit in the text of a file, if it is one.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&limit| limit < NO_LIMIT)
}

/// Where the limits of a process stand: those of its group and of each above that is seen here.
/// `groups` and `mounts` are its `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in mounts.lines() {
        let Some(mount) = Mount::parse(line) else {
            continue;
        };
        for group in groups.lines().filter_map(|line| mount.group(line)) {
            // What lies above the group that is mounted is not seen.
            let below = Path::new(group).strip_prefix(mount.root);
            let below = below.unwrap_or(Path::new(""));
            let above = below.ancestors();
            files.extend(above.map(|part| mount.place.join(part).join(mount.file)));
        }
    }
    files
}

/// A place where control groups are mounted.
struct Mount<'t> {
    /// The group that is mounted there.
    root: &'t str,
    place: &'t Path,
    /// The file that has the limit.
    file: &'static str,
}

impl<'t> Mount<'t> {
    fn parse(line: &'t str) -> Option<Mount<'t>> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, place) = (place.next()?, Path::new(place.next()?));
        let mut kind = kind.split(' ');
        let file = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => "memory.max",
            ("cgroup", options) if options.split(',').any(|word| word == "memory") => {
                "memory.limit_in_bytes"
            }
            _ => return None,
        };
        Some(Mount { root, place, file })
    }

    /// The group that a line of `/proc/self/cgroup` names, if it counts memory here.
    fn group(&self, line: &'t str) -> Option<&'t str> {
        let (_, line) = line.split_once(':')?;
        let (controllers, group) = line.split_once(':')?;
        let is_ours = match self.file {
            "memory.max" => controllers.is_empty(),
            _ => controllers.split(',').any(|word| word == "memory"),
        };
        is_ours.then_some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_that_there_is_no_limit_is_none() {
        assert_eq!(limit("1073741824\n"), Some(1 << 30));
        for none in ["max\n", "9223372036854771712\n", "9223372036854710272\n"] {
            assert_eq!(limit(none), None, "{none}");
        }
    }

    fn names(groups: &str, mounts: &str) -> Vec<String> {
        let shown = |file: PathBuf| file.display().to_string();
        files(groups, mounts).into_iter().map(shown).collect()
    }

    #[test]
    fn a_group_is_limited_by_those_above_it() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n\
                      31 24 0:27 / /proc rw - proc proc rw\n";
        assert_eq!(
            names("0::/a.slice/b.scope\n", mounts),
            [
                "/sys/fs/cgroup/a.slice/b.scope/memory.max",
                "/sys/fs/cgroup/a.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let shown = "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(names("0::/\n", shown), ["/sys/fs/cgroup/memory.max"]);
        // Without a namespace of groups: a part of the tree is mounted.
        let part = "30 24 0:26 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let own = names("0::/docker/1f\n", part);
        assert_eq!(own, ["/sys/fs/cgroup/memory.max"]);
    }

    #[test]
    fn the_first_version_has_a_tree_for_memory() {
        let mounts = "33 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      34 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(
            names("5:cpu,cpuacct:/x\n4:memory:/y\n0::/\n", mounts),
            [
                "/sys/fs/cgroup/memory/y/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
    }
}
