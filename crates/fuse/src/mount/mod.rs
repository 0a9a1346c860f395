//! Attaching a connection to a directory, and detaching it: by `mount(2)` who may, through
//! `fusermount3` otherwise.

mod abort;
mod cache_limits;
pub(crate) mod connection;
mod error;
mod fusermount;
mod handshake;
pub(crate) mod init;
mod last_pages;
mod option_error;
mod option_list;
pub(crate) mod options;
mod passthrough;
mod right;
mod security;
pub(crate) mod session;
mod table;
pub(crate) mod uring_switch;

pub use error::MountError;
pub use option_error::OptionError;
pub use option_list::split_options;
pub use right::{MountRight, mount_right};
pub use table::resolved;

use crate::log::say;
use crate::mount::options::MountOptions;
use crate::transport::device::Device;
use hearth::AtimeMode;
use hearth_sync::primitive::Arc;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::process::{getegid, geteuid};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Type of the mount in `/proc/mounts`.
pub(crate) const FS_TYPE: &str = "fuse.hearth";

/// A mount that was made. Dropping it detaches it.
#[derive(Debug)]
pub(crate) struct Mounted {
    /// The directory, absolute and without symbolic links.
    pub path: PathBuf,
    /// The connection.
    pub device: Arc<Device>,
    /// Number of the connection, and minor device number of the mount. The next mount may have the
    /// same when this one is gone.
    number: Option<u32>,
    /// What no other mount was or will be called, where the kernel has such names (Linux 6.8).
    id: Option<u64>,
    /// Whether `fusermount3` made it.
    helper: bool,
}

/// Checks the directory and mounts there.
///
/// # Errors
/// What is in the way, with the remedy; nothing was changed then.
pub(crate) fn mount(mountpoint: &Path, options: &MountOptions) -> Result<Mounted, MountError> {
    let path = check(mountpoint, options.covers)?;
    let (device, helper) = attach(&path, options)?;
    let number = table::find(&path).map(|entry| entry.minor);
    let id = unique_id(&path);
    Ok(Mounted {
        path,
        device: Arc::new(device),
        number,
        id,
        helper,
    })
}

impl Mounted {
    /// Number of the connection, and minor device number of the mount.
    pub fn number(&self) -> Option<u32> {
        self.number
    }

    /// Takes the mount out of the tree, `lazily` also while files of it are in use. A mount that
    /// somebody else has taken out, or another mount at the same place, is left alone.
    ///
    /// # Errors
    /// `EBUSY` while files are in use and `lazily` is not set; `EPERM`.
    pub fn detach(&self, lazily: bool) -> io::Result<()> {
        if !self.is_in_place() {
            return Ok(());
        }
        if self.helper {
            return fusermount::unmount(&self.path, lazily);
        }
        let target = c_string(self.path.as_os_str())?;
        let flags = libc::UMOUNT_NOFOLLOW | if lazily { libc::MNT_DETACH } else { 0 };
        // SAFETY: the path is a C string.
        match unsafe { libc::umount2(target.as_ptr(), flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the limits of the kernel's page cache for this mount, which `collects` what programs
    /// write or not. After INIT, which sets limits of its own.
    pub fn set_cache_limits(&self, collects: bool) {
        if let Some(number) = self.number {
            cache_limits::set(number, collects);
        }
    }

    /// Whether what is mounted at the place is this mount. Who serves it may learn late that it is
    /// gone, when another daemon has the place and the number.
    pub fn is_in_place(&self) -> bool {
        match self.id {
            Some(id) => unique_id(&self.path) == Some(id),
            None => {
                self.number.is_some()
                    && table::find(&self.path).map(|entry| entry.minor) == self.number
            }
        }
    }

    /// Ends the connection: whatever waits for a reply inside the kernel gets an error.
    ///
    /// # Errors
    /// fusectl is not there, or not for this user.
    pub fn abort(&self) -> io::Result<()> {
        abort::abort(self.number.ok_or(io::ErrorKind::NotFound)?)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.detach(true) {
            say(format_args!("unmount {}: {error}", self.path.display()));
        }
    }
}

/// The kernel's name for the mount that `path` is on, which it never gives a second time: statx(2),
/// `STATX_MNT_ID_UNIQUE`. What serves the mount is not asked, and what would mount something there
/// at an access (autofs) is not woken: that mount would wait for this one's daemon, which asks.
fn unique_id(path: &Path) -> Option<u64> {
    const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let quietly = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, path, quietly, MNT_ID_UNIQUE).ok()?;
    StatxFlags::from_bits_retain(found.stx_mask)
        .contains(MNT_ID_UNIQUE)
        .then_some(found.stx_mnt_id)
}

/// Whether `mountpoint` can be mounted on.
///
/// # Errors
/// Why not, as mounting would say it.
pub fn check_mountpoint(mountpoint: &Path) -> Result<(), MountError> {
    check(mountpoint, false).map(drop)
}

/// Whether `/dev/fuse` is there, for what is long before a mount needs it.
///
/// # Errors
/// Why not, as mounting would say it. Whether `fusermount3` may open it is for that to say.
pub fn check_device() -> Result<(), MountError> {
    match Device::open() {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && mount_right() != MountRight::Own =>
        {
            Ok(())
        }
        opened => opened.map(drop).map_err(|error| MountError::device(&error)),
    }
}

/// The directory as an absolute path, if it can be mounted on. `covers`: it may hold files.
fn check(mountpoint: &Path, covers: bool) -> Result<PathBuf, MountError> {
    let path = || mountpoint.to_owned();
    let found = fs::metadata(mountpoint).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT) => MountError::Missing { path: path() },
        Some(libc::ENOTDIR) => MountError::NotADirectory { path: path() },
        Some(libc::ENOTCONN | libc::ECONNABORTED) => MountError::Dead { path: path() },
        // Also for root, of what a user has mounted for himself.
        Some(libc::EACCES | libc::EPERM) if is_ours(&resolved(mountpoint)) => {
            MountError::AlreadyMounted { path: path() }
        }
        Some(libc::EACCES | libc::EPERM) => MountError::NoPermission { path: path() },
        _ => MountError::Io {
            path: path(),
            error,
        },
    })?;
    if !found.is_dir() {
        return Err(MountError::NotADirectory { path: path() });
    }
    let absolute = fs::canonicalize(mountpoint).map_err(|error| MountError::Io {
        path: path(),
        error,
    })?;
    if is_ours(&absolute) {
        return Err(MountError::AlreadyMounted { path: path() });
    }
    match fs::read_dir(&absolute).map(|mut entries| entries.next().is_none()) {
        Ok(is_empty) if is_empty || covers => Ok(absolute),
        Ok(_) => Err(MountError::NotEmpty { path: path() }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(MountError::NoPermission { path: path() })
        }
        Err(error) => Err(MountError::Io {
            path: path(),
            error,
        }),
    }
}

fn is_ours(place: &Path) -> bool {
    table::find(place).is_some_and(|mount| mount.fs_type == FS_TYPE)
}

/// Makes the mount; the connection, and whether `fusermount3` made it.
fn attach(path: &Path, options: &MountOptions) -> Result<(Device, bool), MountError> {
    let right = mount_right();
    if right == MountRight::Own {
        match direct(path, options) {
            // A container may forbid the call to who has the capability, and have a helper.
            Err(MountError::Forbidden { .. }) => {}
            done => return done.map(|device| (device, false)),
        }
    }
    match fusermount::mount(path, options) {
        Ok(device) => Ok((device, true)),
        // Neither another directory nor the helper's package would help.
        Err(MountError::NoHelper | MountError::NoPermission { .. })
            if right != MountRight::Helper =>
        {
            Err(MountError::Forbidden {
                path: path.to_owned(),
            })
        }
        Err(error) => Err(error),
    }
}

fn direct(path: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let device = Device::open().map_err(|error| MountError::device(&error))?;
    let failed = |error| MountError::Io {
        path: path.to_owned(),
        error,
    };
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.raw(),
        geteuid().as_raw(),
        getegid().as_raw(),
    );
    if options.allow_other != Some(false) {
        data.push_str(",allow_other");
    }
    for option in security::handed_over(&options.security) {
        data = data + "," + option;
    }
    let source = c_string(OsStr::new(&options.fsname)).map_err(failed)?;
    let target = c_string(path.as_os_str()).map_err(failed)?;
    let kind = c_string(OsStr::new(FS_TYPE)).map_err(failed)?;
    let data = c_string(OsStr::new(&data)).map_err(failed)?;
    // SAFETY: four C strings that live through the call.
    let done = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags(options),
            data.as_ptr().cast(),
        )
    };
    if done == 0 {
        return Ok(device);
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => MountError::Forbidden {
            path: path.to_owned(),
        },
        Some(libc::ENODEV) => MountError::NoDevice,
        _ => failed(error),
    })
}

fn flags(options: &MountOptions) -> libc::c_ulong {
    let when = |condition: bool, flag: libc::c_ulong| if condition { flag } else { 0 };
    when(options.volume.read_only, libc::MS_RDONLY)
        | when(options.nodev, libc::MS_NODEV)
        | when(options.nosuid, libc::MS_NOSUID)
        | when(options.noexec, libc::MS_NOEXEC)
        | match options.volume.atime {
            AtimeMode::No => libc::MS_NOATIME,
            AtimeMode::Strict => libc::MS_STRICTATIME,
            AtimeMode::Relatime => libc::MS_RELATIME,
        }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

#[cfg(test)]
mod tests;
