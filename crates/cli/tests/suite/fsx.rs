//! Random operations on one file, compared byte by byte with what must be in it.

use crate::harness;
#[path = "fsx/zeroing.rs"]
mod zeroing;

use harness::{Below, Mounted, Transport, registry_tool, seed, succeed};
use zeroing::Zeroing;

harness::on_both_transports!(
    a_file_written_back_later_keeps_its_bytes,
    a_file_written_through_keeps_its_bytes,
    a_file_past_the_page_cache_keeps_its_bytes,
    a_file_whose_requests_are_all_suspended_keeps_its_bytes,
    zeroed_ranges_read_as_zeros_and_the_rest_stays,
);

/// Operations on one mount, unless `HEARTH_OPERATIONS` says how many: `cargo xtask soak suites`
/// makes more, and others.
const OPERATIONS: u64 = 20_000;
/// A mount on which each operation is slow gets one in so many of them.
const SLOW: u64 = 6;

/// Mapped reads and writes, punched holes and copied ranges among the others.
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
punch_hole = 3
posix_fallocate = 2
copy_file_range = 3
sendfile = 2
posix_fadvise = 1
";

#[test]
fn a_file_on_a_store_keeps_its_bytes() {
    let options = "create,memory=16M,commit=0.05";
    fsx(Transport::Dev, options, operations() / 4, seed() + 40);
    let options = "create,memory=16M,commit=0.05,no_writeback,compress=zstd";
    fsx(Transport::Dev, options, operations() / 10, seed() + 41);
}

fn a_file_written_back_later_keeps_its_bytes(transport: Transport) {
    fsx(transport, "writeback", operations(), seed());
}

fn a_file_written_through_keeps_its_bytes(transport: Transport) {
    fsx(transport, "no_writeback", operations(), seed() + 10);
}

fn a_file_past_the_page_cache_keeps_its_bytes(transport: Transport) {
    fsx(transport, "direct_io", operations() / SLOW, seed() + 20);
}

fn a_file_whose_requests_are_all_suspended_keeps_its_bytes(transport: Transport) {
    for (more, options) in ["writeback", "no_writeback", "direct_io"]
        .iter()
        .enumerate()
    {
        let options = format!("park=every,{options}");
        fsx(
            transport,
            &options,
            operations() / SLOW,
            seed() + 30 + more as u64,
        );
    }
}

#[test]
fn a_file_in_a_directory_of_the_host_keeps_its_bytes() {
    let below = Below::ext4();
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    fsx_on(&mounted, operations() / 2, seed() + 50);
    Zeroing::new(mounted.at("zeroed"), seed() + 60).run(operations() / SLOW);
}

fn operations() -> u64 {
    match std::env::var("HEARTH_OPERATIONS") {
        Ok(text) => text.parse().expect("HEARTH_OPERATIONS is a number"),
        Err(_) => OPERATIONS,
    }
}

fn fsx(transport: Transport, options: &str, operations: u64, seed: u64) {
    fsx_on(&Mounted::new(transport, options), operations, seed);
}

fn fsx_on(mounted: &Mounted, operations: u64, seed: u64) {
    let outside = mounted.outside("fsx");
    let configuration = outside.join("fsx.toml");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    let mut fsx = registry_tool("fsx");
    fsx.arg("-f")
        .arg(&configuration)
        .args(["-N", &operations.to_string()]);
    fsx.args(["-S", &seed.to_string(), "-P"])
        .arg(&outside)
        .arg(mounted.at("file"));
    let text = succeed(&mut fsx);
    assert!(text.contains("All operations completed A-OK!"), "{text}");
}

/// fsx 0.3.2 has no zeroing of ranges: `fsx/zeroing.rs` does it, with mapped reads and writes,
/// holes, cuts and copies of one file beside it.
fn zeroed_ranges_read_as_zeros_and_the_rest_stays(transport: Transport) {
    let park = "park=every,no_writeback";
    let ways = [
        ("writeback", operations()),
        ("no_writeback", operations()),
        (park, operations() / SLOW),
    ];
    for (more, (options, steps)) in ways.into_iter().enumerate() {
        let mounted = Mounted::new(transport, options);
        Zeroing::new(mounted.at("file"), seed() + more as u64).run(steps);
    }
}
