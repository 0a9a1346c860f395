//! Random operations on one file, compared byte by byte with what must be in it.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Mounted, Random, Transport, registry_tool, seed, succeed};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::os::unix::fs::FileExt;

harness::on_both_transports!(
    a_file_written_back_later_keeps_its_bytes,
    a_file_written_through_keeps_its_bytes,
    a_file_past_the_page_cache_keeps_its_bytes,
    a_file_whose_requests_are_all_suspended_keeps_its_bytes,
    zeroed_ranges_read_as_zeros_and_the_rest_stays,
);

/// 200,000 operations over each transport as it is mounted by default.
const OPERATIONS: u64 = 50_000;
const SEEDS: u64 = 4;

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

fn a_file_written_back_later_keeps_its_bytes(transport: Transport) {
    (0..SEEDS).for_each(|more| fsx(transport, "writeback", OPERATIONS, seed() + more));
}

fn a_file_written_through_keeps_its_bytes(transport: Transport) {
    fsx(transport, "no_writeback", OPERATIONS, seed() + 10);
}

fn a_file_past_the_page_cache_keeps_its_bytes(transport: Transport) {
    fsx(transport, "direct_io", 5_000, seed() + 20);
}

fn a_file_whose_requests_are_all_suspended_keeps_its_bytes(transport: Transport) {
    for (more, options) in ["writeback", "no_writeback", "direct_io"]
        .iter()
        .enumerate()
    {
        let options = format!("park=every,{options}");
        fsx(transport, &options, 3_000, seed() + 30 + more as u64);
    }
}

fn fsx(transport: Transport, options: &str, operations: u64, seed: u64) {
    let mounted = Mounted::new(transport, options);
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

/// fsx 0.3.2 has no zeroing of ranges, so this is it: on the volume and in a vector.
fn zeroed_ranges_read_as_zeros_and_the_rest_stays(transport: Transport) {
    const LENGTH: u64 = 1 << 20;
    for options in ["writeback", "no_writeback", "park=every,no_writeback"] {
        let mounted = Mounted::new(transport, options);
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = options.open(mounted.at("file")).unwrap();
        let (mut model, mut random) = (Vec::new(), Random(seed()));
        for step in 0..4_000 {
            let start = random.below(LENGTH);
            let length = 1 + random.below(128 << 10);
            let (from, end) = (start as usize, (start + length) as usize);
            match random.below(4) {
                0 => {
                    let bytes = random.bytes(length as usize);
                    file.write_all_at(&bytes, start).unwrap();
                    model.resize(model.len().max(end), 0);
                    model[from..end].copy_from_slice(&bytes);
                }
                1 => {
                    fallocate(&file, FallocateFlags::ZERO_RANGE, start, length).unwrap();
                    model.resize(model.len().max(end), 0);
                    model[from..end].fill(0);
                }
                2 => {
                    let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                    fallocate(&file, flags, start, length).unwrap();
                    let end = end.min(model.len());
                    model[from.min(end)..end].fill(0);
                }
                _ => {
                    let mut bytes = vec![1; length as usize];
                    let have = file.read_at(&mut bytes, start).unwrap();
                    let end = end.min(model.len());
                    assert!(bytes[..have] == model[from.min(end)..end], "step {step}");
                }
            }
            assert_eq!(
                file.metadata().unwrap().len(),
                model.len() as u64,
                "step {step}"
            );
        }
    }
}
