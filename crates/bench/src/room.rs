//! Whether there is enough of what the workloads use up.

use rustix::fs::statfs;
use std::path::{Path, PathBuf};

/// Free memory that the workloads need: pages of FxMark's files, most of all.
const MEMORY: u64 = 5 << 30;
/// Free memory that a first look needs.
const MEMORY_QUICK: u64 = 1 << 30;
/// Free bytes that a directory needs.
const BYTES: u64 = 1 << 29;
/// Free inodes that a directory needs: descriptors of distinct files, for all cores.
const INODES: u64 = 200_000;

/// `statfs(2)` of the kernel's tmpfs.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Whether there is memory.
pub fn memory(is_quick: bool) -> Result<(), String> {
    let table = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    enough_memory(&table, if is_quick { MEMORY_QUICK } else { MEMORY })
}

fn enough_memory(meminfo: &str, needed: u64) -> Result<(), String> {
    let available = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    match available.map(|kib| kib << 10) {
        Some(bytes) if bytes < needed => Err(format!(
            "memory: {} MiB are free and {} are needed: end other programs or take more",
            bytes >> 20,
            needed >> 20
        )),
        _ => Ok(()),
    }
}

/// Whether `place` has room for files and bytes.
pub fn check(place: &Path) -> Result<(), String> {
    let Ok(free) = statfs(place) else {
        return Ok(());
    };
    let bytes = free.f_bavail * free.f_bsize.cast_unsigned();
    enough(place, bytes, free.f_files, free.f_ffree)
}

/// `inodes` is 0 where a filesystem does not count them.
fn enough(place: &Path, bytes: u64, inodes: u64, free_inodes: u64) -> Result<(), String> {
    let place = place.display();
    if bytes < BYTES {
        return Err(format!(
            "{place}: {} MiB are free and {} are needed: make room, or name another directory",
            bytes >> 20,
            BYTES >> 20
        ));
    }
    if inodes > 0 && free_inodes < INODES {
        return Err(format!(
            "{place}: {free_inodes} files are free and {INODES} are needed: remove some, or name \
             another directory"
        ));
    }
    Ok(())
}

/// A directory on tmpfs that this program may write to, where it may not mount one.
pub fn memory_directory() -> Option<PathBuf> {
    let place = Path::new("/dev/shm");
    let is_tmpfs = statfs(place).is_ok_and(|free| free.f_type == TMPFS_MAGIC);
    is_tmpfs.then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_said_in_one_line_with_the_remedy() {
        let table = "MemFree: 9 kB\nMemAvailable:  500000 kB\n";
        assert_eq!(enough_memory(table, 400 << 20), Ok(()));
        let said = enough_memory(table, MEMORY_QUICK).unwrap_err();
        assert!(
            said.contains("488 MiB are free and 1024 are") && said.contains("end other"),
            "{said}"
        );
        // A kernel that does not tell is no reason to stop.
        assert_eq!(enough_memory("", MEMORY), Ok(()));
    }

    #[test]
    fn too_few_files_or_bytes_name_the_directory() {
        let place = Path::new("/some/where");
        assert_eq!(enough(place, BYTES, 0, 0), Ok(()));
        assert_eq!(enough(place, BYTES, INODES, INODES), Ok(()));
        let said = enough(place, BYTES, INODES, INODES - 1).unwrap_err();
        assert!(
            said.contains("/some/where") && said.contains("files are free"),
            "{said}"
        );
        let said = enough(place, 5 << 20, 0, 0).unwrap_err();
        assert!(said.contains("/some/where: 5 MiB are free"), "{said}");
    }
}
