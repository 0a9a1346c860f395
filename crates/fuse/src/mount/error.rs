//! Why a mount could not be made, each with its remedy.

use hearth::io_reason;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// A mount that could not be made. Its text names the input and says what to do, in one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum MountError {
    /// The mount point does not exist.
    Missing {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point is no directory.
    NotADirectory {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point has entries that the mount would hide.
    NotEmpty {
        /// The mount point.
        path: PathBuf,
    },
    /// A Hearth volume is mounted there.
    AlreadyMounted {
        /// The mount point.
        path: PathBuf,
    },
    /// The volume is mounted elsewhere by this program, and one mount of it cannot be told of what
    /// another changes.
    Served {
        /// The mount point.
        path: PathBuf,
        /// Where the volume is mounted.
        first: PathBuf,
    },
    /// A mount is there whose program is gone.
    Dead {
        /// The mount point.
        path: PathBuf,
    },
    /// The caller may not mount there.
    NoPermission {
        /// The mount point.
        path: PathBuf,
    },
    /// Nobody may mount there from here, root included.
    Forbidden {
        /// The mount point.
        path: PathBuf,
    },
    /// The kernel offers no FUSE.
    NoDevice,
    /// `/dev/fuse` is another device, or a file.
    OtherDevice,
    /// The caller may not open `/dev/fuse`.
    DevicePermission,
    /// `fusermount3` is needed and not installed.
    NoHelper,
    /// `fusermount3` refused.
    Helper {
        /// What it printed.
        message: String,
    },
    /// `transport=uring` was asked for and cannot be had.
    NoUring {
        /// What is missing and how to get it.
        reason: String,
    },
    /// `passthrough=on` was asked for and cannot be had.
    NoPassthrough {
        /// What is missing.
        reason: &'static str,
    },
    /// `idmap` was asked for and the kernel's FUSE does not have it.
    NoIdmap,
    /// The kernel's FUSE is too old.
    TooOld {
        /// What the kernel speaks.
        version: (u32, u32),
    },
    /// The first limit of bytes was set while the mount was made.
    Limited {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount cannot be taken away.
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something else went wrong.
    Io {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl MountError {
    /// What a failed open of `/dev/fuse` means.
    pub(crate) fn device(error: &io::Error) -> MountError {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => MountError::DevicePermission,
            Some(libc::ENXIO) => MountError::OtherDevice,
            _ => MountError::NoDevice,
        }
    }

    /// The mount point; empty where the reason is the machine's.
    fn place(&self) -> &Path {
        match self {
            MountError::Missing { path }
            | MountError::NotADirectory { path }
            | MountError::NotEmpty { path }
            | MountError::AlreadyMounted { path }
            | MountError::Served { path, .. }
            | MountError::Dead { path }
            | MountError::NoPermission { path }
            | MountError::Forbidden { path }
            | MountError::Limited { path }
            | MountError::Unmount { path, .. }
            | MountError::Io { path, .. } => path,
            MountError::NoDevice
            | MountError::OtherDevice
            | MountError::DevicePermission
            | MountError::NoHelper
            | MountError::Helper { .. }
            | MountError::NoUring { .. }
            | MountError::NoPassthrough { .. }
            | MountError::NoIdmap
            | MountError::TooOld { .. } => Path::new(""),
        }
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.place().display();
        match self {
            MountError::Missing { .. } => {
                write!(f, "mount point {at} does not exist: mkdir -p {at}")
            }
            MountError::NotADirectory { .. } => write!(
                f,
                "mount point {at} is not a directory: give an empty directory"
            ),
            MountError::NotEmpty { .. } => write!(
                f,
                "mount point {at} is not empty: give an empty directory, \
                 the mount would hide its files"
            ),
            MountError::AlreadyMounted { .. } => {
                write!(f, "{at} is already mounted: hearth umount {at}")
            }
            MountError::Served { first, .. } => {
                let first = first.display();
                write!(
                    f,
                    "mount on {at}: this program has the volume mounted on {first}, and a second \
                     mount would not see what the first one changes: use {first}, unmount it, or \
                     mount --bind {first} {at}"
                )
            }
            MountError::Dead { .. } => {
                write!(f, "{at} is a mount whose program is gone: umount -l {at}")
            }
            MountError::NoPermission { .. } => write!(
                f,
                "no permission to mount on {at}: give a directory of your own, or run as root"
            ),
            MountError::Forbidden { .. } => write!(
                f,
                "mounting on {at} is forbidden here, through fusermount3 as well: start the \
                 container with --cap-add SYS_ADMIN and without no-new-privileges, or mount \
                 outside it"
            ),
            MountError::NoDevice => f.write_str(
                "/dev/fuse is not there: modprobe fuse, or give the container the device",
            ),
            MountError::OtherDevice => f.write_str(
                "/dev/fuse is not the device of FUSE: a container that masks it needs \
                 --device /dev/fuse, elsewhere: rmmod fuse; modprobe fuse",
            ),
            MountError::DevicePermission => f.write_str(
                "no permission to open /dev/fuse: run as root, or chmod 666 /dev/fuse; \
                 a container needs --device /dev/fuse",
            ),
            MountError::NoHelper => {
                f.write_str("fusermount3 is not installed: apt-get install fuse3, or run as root")
            }
            MountError::Helper { message } => write!(
                f,
                "fusermount3: {message}: hearth doctor says what this machine lacks"
            ),
            MountError::NoUring { reason } => write!(f, "transport=uring: {reason}"),
            MountError::NoPassthrough { reason } => {
                write!(f, "passthrough=on: {reason}; use passthrough=auto")
            }
            MountError::NoIdmap => f.write_str(
                "idmap: this kernel's FUSE has no mapped ids (Linux 6.12 or later has): leave the \
                 option out",
            ),
            MountError::TooOld { version } => {
                let (major, minor) = version;
                write!(
                    f,
                    "the kernel speaks FUSE {major}.{minor}: 7.31 is needed (Linux 5.4 or later)"
                )
            }
            MountError::Limited { .. } => write!(
                f,
                "mount on {at}: the first limit of bytes was set meanwhile: mount again"
            ),
            MountError::Unmount { error, .. } => write!(
                f,
                "{at} cannot be unmounted: {}: hearth umount --lazy {at}, as root or as who \
                 mounted it",
                io_reason(error)
            ),
            MountError::Io { error, .. } => write!(
                f,
                "mount on {at}: {}: hearth doctor says what this machine lacks, dmesg what the \
                 kernel refused",
                io_reason(error)
            ),
        }
    }
}

impl std::error::Error for MountError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MountError::Io { error, .. } | MountError::Unmount { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_comes_with_the_place_and_a_remedy_in_one_line() {
        let path = || PathBuf::from("/mnt");
        let error = || io::Error::from_raw_os_error(libc::EIO);
        let cases = [
            (
                MountError::Io {
                    path: path(),
                    error: error(),
                },
                "hearth doctor",
            ),
            (
                MountError::Unmount {
                    path: path(),
                    error: error(),
                },
                "hearth umount --lazy /mnt",
            ),
            (MountError::Limited { path: path() }, "mount again"),
            (
                MountError::Served {
                    path: path(),
                    first: "/first".into(),
                },
                "mount --bind /first /mnt",
            ),
            (
                MountError::Forbidden { path: path() },
                "--cap-add SYS_ADMIN",
            ),
        ];
        for (error, remedy) in cases {
            let text = error.to_string();
            assert!(text.contains("/mnt") && text.contains(remedy), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(!text.contains("os error"), "{text}");
        }
    }
}
