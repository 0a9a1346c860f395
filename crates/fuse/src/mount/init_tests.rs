use super::*;
use std::time::Duration;

#[test]
fn places_are_as_many_as_have_their_data_in_memory() {
    const GIB: u64 = 1 << 30;
    let few = [0, GIB, 16 * GIB].map(|memory| places(memory, 1 << 20));
    assert_eq!(few, [1024; 3]);
    assert_eq!(places(64 * GIB, 1 << 20), 4096);
    assert_eq!(places(64 * GIB, 4096), 8192);
    assert_eq!(places(u64::MAX, 1 << 20), 8192);
}

fn kernel(minor: u32, flags: u64) -> InitIn {
    let (low, high) = (flags as u32, (flags >> 32) as u32);
    InitIn {
        major: 7,
        minor,
        flags: low,
        flags2: high,
        ..Default::default()
    }
}

#[test]
fn nothing_is_taken_that_was_not_offered() {
    let (answer, agreed) = agree(
        &kernel(45, init::BIG_WRITES),
        &MountOptions::default(),
        true,
        false,
    );
    assert_eq!(agreed.flags, init::BIG_WRITES);
    assert_eq!((answer.flags, answer.flags2), (init::BIG_WRITES as u32, 0));
}

#[test]
fn the_upper_bits_count_only_with_the_extension_bit() {
    assert_eq!(offered(&kernel(45, init::OVER_IO_URING)), 0);
    let both = init::OVER_IO_URING | init::INIT_EXT;
    assert_eq!(offered(&kernel(45, both)), both);
}

#[test]
fn io_uring_is_agreed_only_when_the_queues_are_ready() {
    let all = kernel(45, !0);
    assert!(
        !agree(&all, &MountOptions::default(), false, false)
            .1
            .has(init::OVER_IO_URING)
    );
    assert!(
        agree(&all, &MountOptions::default(), true, false)
            .1
            .has(init::OVER_IO_URING)
    );
}

#[test]
fn attributes_that_nobody_would_believe_do_not_come_along_with_names() {
    let comes = |timeout, readdirplus| {
        let options = MountOptions {
            entry_timeout: Duration::ZERO,
            attr_timeout: timeout,
            readdirplus,
            ..Default::default()
        };
        let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
        (
            agreed.has(init::DO_READDIRPLUS),
            agreed.has(init::READDIRPLUS_AUTO),
        )
    };
    let (never, second) = (Duration::ZERO, Duration::from_secs(1));
    assert_eq!(comes(second, ReadDirPlus::Auto), (true, true));
    assert_eq!(comes(never, ReadDirPlus::Auto), (false, false));
    assert_eq!(comes(never, ReadDirPlus::Yes), (true, false));
}

#[test]
fn calls_on_one_directory_come_side_by_side_unless_the_options_say_not() {
    let comes = |parallel_dirops| {
        let options = MountOptions {
            parallel_dirops,
            ..Default::default()
        };
        let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
        agreed.has(init::PARALLEL_DIROPS)
    };
    assert!(comes(MountOptions::default().parallel_dirops) && !comes(false));
}

#[test]
fn no_open_leaves_locks_to_the_kernel() {
    let options = MountOptions {
        no_open: true,
        ..Default::default()
    };
    let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
    assert!(agreed.has(init::NO_OPEN_SUPPORT) && !agreed.has(init::POSIX_LOCKS));
}

#[test]
fn record_locks_whose_end_nobody_tells_are_left_to_the_kernel() {
    let options = MountOptions {
        no_flush: true,
        ..Default::default()
    };
    let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
    assert!(agreed.has(init::FLOCK_LOCKS) && !agreed.has(init::POSIX_LOCKS));
}

#[test]
fn writes_are_collected_by_default_only_where_sizes_can_be_dropped() {
    let collects = |minor, options| {
        agree(&kernel(minor, !0), &options, false, false)
            .1
            .has(init::WRITEBACK_CACHE)
    };
    assert!(collects(45, MountOptions::default()) && !collects(44, MountOptions::default()));
    let forced = MountOptions {
        writeback: Some(true),
        ..Default::default()
    };
    assert!(collects(40, forced));
    let refused = MountOptions {
        writeback: Some(false),
        ..Default::default()
    };
    assert!(!collects(45, refused));
}

#[test]
fn writes_that_cannot_be_charged_first_are_not_collected_of_a_volume_that_does() {
    let collects = |offered, no_open, charges_first| {
        let options = MountOptions {
            no_open,
            ..Default::default()
        };
        let (_, agreed) = agree(&kernel(45, offered), &options, false, charges_first);
        agreed.has(init::WRITEBACK_CACHE)
    };
    let old = !init::DIRECT_IO_ALLOW_MMAP;
    assert!(
        collects(!0, false, true),
        "files are asked for as they are opened"
    );
    assert!(!collects(!0, true, true) && !collects(old, false, true));
    assert!(collects(!0, true, false) && collects(old, false, false));
}

#[test]
fn an_older_kernel_sets_the_minor_version_and_a_too_old_one_is_refused() {
    assert_eq!(
        agree(&kernel(39, !0), &MountOptions::default(), false, false)
            .0
            .minor,
        39
    );
    assert_eq!(
        agree(&kernel(99, !0), &MountOptions::default(), false, false)
            .0
            .minor,
        45
    );
    assert_eq!(supported(&kernel(30, 0)), Err((7, 30)));
    assert_eq!(supported(&kernel(31, 0)), Ok(()));
}
