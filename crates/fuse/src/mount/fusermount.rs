//! Mounting without root: `fusermount3` is setuid, mounts, and sends the descriptor back through a
//! socket.

use super::{MountError, security};
use crate::mount::options::MountOptions;
use crate::transport::device::Device;
use hearth::AtimeMode;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const HELPER: &str = "fusermount3";

/// Mounts on `path` and gives the connection.
pub(super) fn mount(path: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let failed = |error| MountError::Io {
        path: path.to_owned(),
        error,
    };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    // SAFETY: clears the close-on-exec flag of a descriptor that this function owns.
    unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
    let child = Command::new(HELPER)
        .args(["-o", &list(options), "--"])
        .arg(path)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    drop(theirs);
    let child = child.map_err(|error| match error.kind() {
        // A directory of PATH that the caller may not search ends the search with the second.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => MountError::NoHelper,
        _ => failed(error),
    })?;
    let received = receive(&ours);
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(refused(&String::from_utf8_lossy(&output.stderr), path));
    }
    received.map(Device::from_fd).map_err(failed)
}

/// Takes the mount at `path` away.
pub(super) fn unmount(path: &Path, lazily: bool) -> io::Result<()> {
    let lazy: &[&str] = if lazily { &["-z"] } else { &[] };
    let output = Command::new(HELPER)
        .args(["-u", "-q"])
        .args(lazy)
        .arg("--")
        .arg(path)
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EBUSY)),
    }
}

/// What the helper's complaint means.
fn refused(complaint: &str, path: &Path) -> MountError {
    let is_denied = |words| complaint.contains(words);
    // "Not permitted" is the error in a container without the device.
    let denied = ["ermission denied", "not permitted", "no write access"]
        .into_iter()
        .any(is_denied);
    match complaint.contains("/dev/fuse") {
        true if denied => MountError::DevicePermission,
        true => MountError::NoDevice,
        false if denied => MountError::NoPermission {
            path: path.to_owned(),
        },
        false => {
            let message = complaint.trim().trim_start_matches("fusermount3: ");
            MountError::Helper {
                message: message.replace('\n', "; "),
            }
        }
    }
}

/// The `-o` list for the helper.
fn list(options: &MountOptions) -> String {
    let fsname = options.fsname.replace('\\', "\\\\").replace(',', "\\,");
    let mut list = format!("fsname={fsname},subtype=hearth,default_permissions");
    let mut add = |condition: bool, option: &str| {
        if condition {
            list.push(',');
            list.push_str(option);
        }
    };
    add(options.allow_other == Some(true), "allow_other");
    add(options.volume.read_only, "ro");
    add(options.noexec, "noexec");
    add(options.volume.atime == AtimeMode::No, "noatime");
    for option in security::handed_over(&options.security) {
        // Handed on to the kernel.
        add(true, &option.replace(',', "\\,"));
    }
    list
}

/// Receives one descriptor.
fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let (mut byte, mut control) = ([0u8; 1], [0u64; 8]);
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: an all-zero msghdr is valid; the pointers set below live through the calls.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the message describes `byte` and `control`, which are valid for writes.
    let size =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if size < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the macros walk the control buffer that recvmsg has filled, which is aligned for
    // cmsghdr; the payload of an SCM_RIGHTS message is at least one descriptor, which now belongs
    // to this process.
    unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if head.is_null() || (*head).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        Ok(OwnedFd::from_raw_fd(
            libc::CMSG_DATA(head).cast::<i32>().read_unaligned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_the_helper_become_errors_with_a_remedy() {
        let text = |complaint| refused(complaint, Path::new("/mnt")).to_string();
        assert!(
            text("fusermount3: failed to open /dev/fuse: Permission denied\n")
                .contains("chmod 666")
        );
        assert!(
            text("fusermount3: failed to open /dev/fuse: Operation not permitted\n")
                .contains("--device /dev/fuse")
        );
        assert!(
            text("fusermount3: fuse device not found, try 'modprobe fuse' first: /dev/fuse")
                .contains("modprobe")
        );
        assert!(
            text("fusermount3: user has no write access to mountpoint /mnt\n")
                .contains("directory of your own")
        );
        let other = "fusermount3: option allow_other only allowed if 'user_allow_other' is set in \
                     /etc/fuse.conf\n";
        assert!(text(other).starts_with("fusermount3: option allow_other only"));
        assert!(text(other).contains("hearth doctor"));
    }

    #[test]
    fn a_comma_in_the_name_does_not_end_the_option() {
        let options = MountOptions {
            fsname: "a,b".to_owned(),
            volume: hearth::VolumeOptions {
                read_only: true,
                ..Default::default()
            },
            allow_other: Some(false),
            ..Default::default()
        };
        assert_eq!(
            list(&options),
            "fsname=a\\,b,subtype=hearth,default_permissions,ro"
        );
    }
}
