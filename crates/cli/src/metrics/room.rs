//! Room of a mount, as `df` shows it.

use super::exposition::{Exposition, Metric};
use rustix::fs::StatVfs;

const SIZE: Metric = Metric::gauge("hearth_filesystem_size_bytes", "Room of the volume.");
const FREE: Metric = Metric::gauge("hearth_filesystem_free_bytes", "Free room.");
const AVAILABLE: Metric = Metric::gauge(
    "hearth_filesystem_avail_bytes",
    "Free room for users other than root.",
);
const FILES: Metric = Metric::gauge(
    "hearth_filesystem_files",
    "Inodes that the volume may have.",
);
const FREE_FILES: Metric = Metric::gauge("hearth_filesystem_files_free", "Free inodes.");

/// Adds them.
pub fn add(page: &mut Exposition, mount: &str, room: &StatVfs) {
    let bytes = |blocks: u64| blocks as f64 * room.f_frsize as f64;
    let values = [
        (SIZE, bytes(room.f_blocks)),
        (FREE, bytes(room.f_bfree)),
        (AVAILABLE, bytes(room.f_bavail)),
        (FILES, room.f_files as f64),
        (FREE_FILES, room.f_ffree as f64),
    ];
    for (metric, value) in values {
        page.add(&metric, &[("mount", mount)], value);
    }
}
