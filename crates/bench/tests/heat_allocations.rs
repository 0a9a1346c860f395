//! Recording an access allocates nothing, whichever way it goes.

use hearth::{Credentials, Process, Volume};
use hearth_bench::allocations::{Counting, of_this_thread};
use hearth_bench::pinned::{allowed_cores, pin};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// Three times as many as a core has lines, so that lines change hands.
const FILES: usize = 3_072;
const ROUNDS: usize = 32;
const MIB: usize = 1 << 20;

/// Reads and overwrites every file, and reads one over the border of two ranges.
fn work(process: &Process, fds: &[i32], large: i32) {
    for _ in 0..ROUNDS {
        for &fd in fds {
            assert_eq!(process.pread(fd, &mut [0; 16], 0), Ok(16));
            assert_eq!(process.pwrite(fd, &[7; 16], 0), Ok(16));
            assert_eq!(process.pread(large, &mut [0; 16], MIB as u64 - 8), Ok(16));
        }
    }
}

#[test]
fn recording_allocates_nothing_one_by_one_where_lines_spill_and_as_a_sample() {
    // A file that a second core comes to gets parts for each core.
    pin(allowed_cores()[0]).expect("the core is one that this process may use");
    let built = Volume::builder().hot_track(true).workers(0).build();
    let volume = built.expect("the defaults are a valid volume");
    let process = volume.process(Credentials::root());
    let limit = process.set_fd_limit(FILES as u32 + 16);
    limit.expect("so many descriptors are allowed");
    let create = |name: String, bytes: usize| {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = process.open(name, flags, 0o600).expect("it is made");
        assert_eq!(process.pwrite(fd, &vec![7; bytes], 0), Ok(bytes));
        fd
    };
    let fds: Vec<i32> = (0..FILES).map(|n| create(format!("/{n}"), 16)).collect();
    let large = create("/large".to_owned(), 2 * MIB);
    // Nobody drains: what finds no room goes aside, where a place is made for each range once.
    work(&process, &fds, large);
    let before = of_this_thread();
    work(&process, &fds, large);
    assert_eq!(of_this_thread() - before, 0);
    // More was recorded than a core has lines, so that lines were spilled; then it was a sample.
    let gauges = volume.heat().gauges();
    assert!(gauges.recorded > 2_048, "{}", gauges.recorded);
    assert!(
        gauges.accesses > 10 * gauges.recorded,
        "{}",
        gauges.accesses
    );
    let before = of_this_thread();
    drop(std::hint::black_box(vec![7]));
    assert_eq!(of_this_thread() - before, 1, "the allocator counts");
}
