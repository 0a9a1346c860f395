//! fsx 0.3.2: 200,000 random operations on one file, each read compared with what was written,
//! through read and write as well as through maps.

mod harness;

use harness::{Mount, seed, tool};
use std::process::Command;

const OPERATIONS: u32 = 200_000;

const CONFIGURATION: &str = "
flen = 1048576
[opsize]
max = 131072
min = 0
align = 1
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
truncate = 5
invalidate = 1
fsync = 1
fdatasync = 1
punch_hole = 2
posix_fallocate = 2
copy_file_range = 2
sendfile = 2
posix_fadvise = 1
";

#[test]
fn a_file_over_io_uring_holds_what_was_written() {
    check("uring", &[], seed());
}

#[test]
fn a_file_over_dev_fuse_holds_what_was_written() {
    check("dev", &[], seed() + 1_000);
}

#[test]
fn a_file_without_writeback_holds_what_was_written() {
    check("uring", &["no_writeback"], seed() + 2_000);
}

#[test]
fn a_file_with_direct_io_holds_what_was_written() {
    check("dev", &["direct_io"], seed() + 3_000);
}

fn check(transport: &str, options: &[&str], seed: u64) {
    let mount = Mount::start(transport, options);
    let configuration = mount.outside().join("fsx.toml");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    let output = Command::new("timeout")
        .args(["-k", "10", "600"])
        .arg(tool("fsx"))
        .args(["-q", "-N", &OPERATIONS.to_string(), "-S", &seed.to_string()])
        .arg("-f")
        .arg(&configuration)
        .arg("-P")
        .arg(mount.outside())
        .arg(mount.path().join("file"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let good = output.status.success() && text.contains("All operations completed A-OK!");
    assert!(good, "{transport} {options:?} seed {seed}: {}\n{text}", output.status);
    mount.finish();
}
