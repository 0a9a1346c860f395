//! Ending a connection by force: what waits inside the kernel gets an error at once.
//!
//! fusectl has a file for that per connection. Where it is not mounted, root mounts it for this
//! process alone and attaches it nowhere.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Aborts connection `number`.
///
/// # Errors
/// fusectl is not mounted and cannot be, or the connection is gone already (`ENOENT`).
pub(super) fn abort(number: u32) -> io::Result<()> {
    let path = format!("{CONNECTIONS}/{number}/abort");
    match OpenOptions::new().write(true).open(path) {
        Ok(mut file) => file.write_all(b"1"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => detached(number),
        Err(error) => Err(error),
    }
}

fn detached(number: u32) -> io::Result<()> {
    let root = fusectl()?;
    let name = CString::new(format!("{number}/abort")).map_err(io::Error::other)?;
    // SAFETY: a valid directory descriptor and a C string.
    let fd = unsafe {
        libc::openat(
            root.as_raw_fd(),
            name.as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        )
    };
    let file = owned(i64::from(fd))?;
    std::fs::File::from(file).write_all(b"1")
}

/// The root of a fusectl that is mounted nowhere.
fn fusectl() -> io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    const FSMOUNT_CLOEXEC: u32 = 1;
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: a C string and flags.
    let context =
        owned(unsafe { libc::syscall(libc::SYS_fsopen, c"fusectl".as_ptr(), FSOPEN_CLOEXEC) })?;
    // SAFETY: this command takes no key and no value.
    let created = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            null,
            null,
            0,
        )
    };
    if created != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor and flags.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

fn owned(fd: i64) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
