//! Why a mount could not be made, each with its remedy.

use std::path::PathBuf;
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
            _ => MountError::NoDevice,
        }
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::Missing { path } => {
                write!(
                    f,
                    "mount point {0} does not exist: mkdir -p {0}",
                    path.display()
                )
            }
            MountError::NotADirectory { path } => {
                write!(
                    f,
                    "mount point {} is not a directory: give an empty directory",
                    path.display()
                )
            }
            MountError::NotEmpty { path } => write!(
                f,
                "mount point {} is not empty: give an empty directory, \
                 the mount would hide its files",
                path.display()
            ),
            MountError::AlreadyMounted { path } => {
                write!(
                    f,
                    "{0} is already mounted: hearth umount {0}",
                    path.display()
                )
            }
            MountError::Dead { path } => write!(
                f,
                "{0} is a mount whose program is gone: umount -l {0}",
                path.display()
            ),
            MountError::NoPermission { path } => write!(
                f,
                "no permission to mount on {}: give a directory of your own, or run as root",
                path.display()
            ),
            MountError::Forbidden { path } => write!(
                f,
                "mounting on {} is forbidden here, through fusermount3 as well: start the \
                 container with --cap-add SYS_ADMIN and without no-new-privileges, or mount \
                 outside it",
                path.display()
            ),
            MountError::NoDevice => {
                write!(
                    f,
                    "/dev/fuse is not there: modprobe fuse, or give the container the device"
                )
            }
            MountError::DevicePermission => {
                write!(
                    f,
                    "no permission to open /dev/fuse: run as root, or chmod 666 /dev/fuse; \
                     a container needs --device /dev/fuse"
                )
            }
            MountError::NoHelper => {
                write!(
                    f,
                    "fusermount3 is not installed: apt-get install fuse3, or run as root"
                )
            }
            MountError::Helper { message } => write!(
                f,
                "fusermount3: {message}: hearth doctor says what this machine lacks"
            ),
            MountError::NoUring { reason } => write!(f, "transport=uring: {reason}"),
            MountError::TooOld {
                version: (major, minor),
            } => write!(
                f,
                "the kernel speaks FUSE {major}.{minor}: 7.31 is needed (Linux 5.4 or later)"
            ),
            MountError::Limited { path } => write!(
                f,
                "mount on {}: the first limit of bytes was set meanwhile: mount again",
                path.display()
            ),
            MountError::Unmount { path, error } => write!(
                f,
                "{0} cannot be unmounted: {error}: hearth umount --lazy {0}, as root or as \
                 who mounted it",
                path.display()
            ),
            MountError::Io { path, error } => write!(
                f,
                "mount on {}: {error}: hearth doctor says what this machine lacks, dmesg what \
                 the kernel refused",
                path.display()
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
                MountError::Forbidden { path: path() },
                "--cap-add SYS_ADMIN",
            ),
        ];
        for (error, remedy) in cases {
            let text = error.to_string();
            assert!(text.contains("/mnt") && text.contains(remedy), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}
