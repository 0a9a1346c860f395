//! What the kernel in front makes of `statx`, and of handles (`open_by_handle_at(2)`).

use crate::harness;

use harness::{Mounted, Transport, until};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

harness::on_both_transports!(
    a_birth_is_told_and_no_attribute,
    without_synchronisation_nobody_is_asked,
    a_handle_of_a_file_opens_it_when_the_kernel_has_dropped_it,
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

/// A `struct file_handle` with room for what filesystems put into it.
#[repr(C)]
struct Handle {
    head: libc::file_handle,
    room: [u8; 128],
}

/// Once, the kernel could look for a directory only.
fn a_handle_of_a_file_opens_it_when_the_kernel_has_dropped_it(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    mounted.shell("echo text > f");
    let top = File::open(mounted.path()).unwrap();
    // SAFETY: all bit patterns are valid for these plain structs.
    let mut handle: Handle = unsafe { std::mem::zeroed() };
    handle.head.handle_bytes = handle.room.len() as u32;
    let (fd, mut mount) = (top.as_raw_fd(), 0);
    // SAFETY: a descriptor, a string that ends, and room for as many bytes as the handle says.
    let done =
        unsafe { libc::name_to_handle_at(fd, c"f".as_ptr(), &raw mut handle.head, &mut mount, 0) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let asked = || mounted.stat("hearth_op_seconds_count{op=\"lookup\"}");
    // To ask looks for the control file each time.
    let first = asked();
    let to_ask = asked() - first;
    until("the kernel has to ask for the file", || {
        std::fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
        let before = asked();
        // SAFETY: a descriptor, and a handle that the kernel has filled.
        let opened = unsafe { libc::open_by_handle_at(fd, &raw mut handle.head, libc::O_RDONLY) };
        assert!(opened >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: it was opened just now and is nobody else's.
        let opened = unsafe { File::from_raw_fd(opened) };
        assert_eq!(std::io::read_to_string(opened).unwrap(), "text\n");
        asked() - before > to_ask
    });
}
