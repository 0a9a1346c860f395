//! What the kernel in front makes of `statx`.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Mounted, Transport};
use std::fs::File;
use std::os::fd::AsRawFd;

harness::on_both_transports!(
    a_birth_is_told_and_no_attribute,
    without_synchronisation_nobody_is_asked,
);

const ALL: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;

/// Of what is open, so that nothing is asked of the way to it.
fn statx(file: &File, flags: i32) -> libc::statx {
    let (fd, flags) = (file.as_raw_fd(), flags | libc::AT_EMPTY_PATH);
    // SAFETY: all bit patterns are valid for this plain struct.
    let mut told: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor, a string that ends, and room for the answer.
    let done = unsafe { libc::statx(fd, c"".as_ptr(), flags, ALL, &mut told) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    told
}

fn a_birth_is_told_and_no_attribute(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    mounted.shell("echo text > f; chattr +ad f");
    let shown = mounted.shell("lsattr f");
    let flags = shown.split(' ').next().unwrap();
    assert!(flags.contains('a') && flags.contains('d'), "{shown}");
    let told = statx(
        &File::open(mounted.at("f")).unwrap(),
        libc::AT_STATX_FORCE_SYNC,
    );
    assert_eq!(told.stx_mask & ALL, ALL);
    let birth = told.stx_btime.tv_sec;
    assert!(0 < birth && birth <= told.stx_mtime.tv_sec, "{birth}");
    let ours = libc::STATX_ATTR_APPEND | libc::STATX_ATTR_NODUMP | libc::STATX_ATTR_IMMUTABLE;
    assert_eq!(told.stx_attributes & ours as u64, 0);
    assert_eq!(
        told.stx_attributes_mask & ours as u64,
        0,
        "so it is not known"
    );
    mounted.shell("chattr -ad f");
}

fn without_synchronisation_nobody_is_asked(transport: Transport) {
    const TIMES: u32 = 200;
    // Nothing that the kernel knows holds for long.
    let mounted = Mounted::new(transport, "attr_timeout=0");
    mounted.shell("echo text > f");
    let file = File::open(mounted.at("f")).unwrap();
    let asked = || mounted.stat("hearth_op_seconds_count{op=\"getattr\"}");
    let more = |flags| {
        let before = asked();
        for _ in 0..TIMES {
            assert_eq!(statx(&file, flags).stx_size, 5);
        }
        asked() - before
    };
    assert!(more(libc::AT_STATX_FORCE_SYNC) >= f64::from(TIMES));
    assert!(more(0) >= f64::from(TIMES));
    // What is asked here is for the statistics.
    assert!(more(libc::AT_STATX_DONT_SYNC) < f64::from(TIMES));
}
