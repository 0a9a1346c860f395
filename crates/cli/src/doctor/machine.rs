//! What the machine says about itself, read from files below a root directory.

use hearth_fuse::MountRight;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The machine whose files lie below `root`.
#[derive(Debug)]
pub struct Machine {
    root: PathBuf,
    right: MountRight,
}

/// The result of opening `/dev/fuse`.
#[derive(Debug, PartialEq, Eq)]
pub enum Device {
    /// It can be used.
    Open,
    /// There is none.
    Missing,
    /// This user may not.
    Denied,
    /// Anything else.
    Broken(String),
}

impl Machine {
    /// The machine below `root`, for a process with this right to mount; `/` is this machine.
    pub fn at(root: &Path, right: MountRight) -> Machine {
        Machine {
            root: root.to_owned(),
            right,
        }
    }

    /// Whether the kernel knows FUSE.
    pub fn has_fuse(&self) -> bool {
        let list = self.text("proc/filesystems").unwrap_or_default();
        list.lines()
            .any(|line| line.split_whitespace().next_back() == Some("fuse"))
    }

    /// The device every FUSE daemon opens.
    pub fn device(&self) -> Device {
        let path = self.root.join("dev/fuse");
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) if is_another(&file) => Device::Broken("it is another device".to_owned()),
            Ok(_) => Device::Open,
            Err(error) => match error.kind() {
                ErrorKind::NotFound => Device::Missing,
                ErrorKind::PermissionDenied => Device::Denied,
                _ => Device::Broken(crate::failure::reason(&error)),
            },
        }
    }

    /// How this process may mount.
    pub fn right(&self) -> MountRight {
        self.right
    }

    /// The `fusermount3` that a mount would start, if it is setuid.
    pub fn fusermount(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or("/bin:/usr/bin".into());
        std::env::split_paths(&path)
            .map(|place| self.below(&place).join("fusermount3"))
            .find(|file| file.is_file())
            .filter(|file| {
                let mode = std::fs::metadata(file).map(|data| data.permissions().mode());
                mode.is_ok_and(|mode| mode & 0o4000 != 0)
            })
    }

    /// The switch of FUSE over io_uring: `None` if the kernel does not have it.
    pub fn uring_switch(&self) -> Option<bool> {
        let text = self.text("sys/module/fuse/parameters/enable_uring")?;
        Some(matches!(text.trim(), "Y" | "1"))
    }

    /// Major and minor version of the kernel.
    pub fn release(&self) -> Option<(u32, u32)> {
        let text = self.text("proc/sys/kernel/osrelease")?;
        let mut numbers = text.split(|byte: char| !byte.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// `kernel.io_uring_disabled`: 0 for nobody, 1 for those without privilege, 2 for everybody.
    pub fn uring_disabled(&self) -> u8 {
        let text = self.text("proc/sys/kernel/io_uring_disabled");
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// Whether users other than root may pass `allow_other`.
    pub fn user_allow_other(&self) -> bool {
        let text = self.text("etc/fuse.conf").unwrap_or_default();
        text.lines().any(|line| line.trim() == "user_allow_other")
    }

    /// Whether `mount -t hearth` finds its helper.
    pub fn has_helper(&self) -> bool {
        self.has_program("mount.hearth")
    }

    /// Whether `mount -t fuse.hearth` does, and `mount -o remount`, which knows the type by the
    /// kernel's table.
    pub fn has_typed_helper(&self) -> bool {
        self.has_program("mount.fuse.hearth")
    }

    /// Which tools are installed that ask for quotas by `quotactl(2)`.
    pub fn quota_tools(&self) -> Vec<&'static str> {
        let tools = ["quota", "repquota", "setquota", "edquota", "xfs_quota"];
        tools
            .into_iter()
            .filter(|tool| self.has_program(tool))
            .collect()
    }

    fn has_program(&self, name: &str) -> bool {
        let places = ["sbin", "usr/sbin", "bin", "usr/bin"];
        places
            .iter()
            .any(|place| self.root.join(place).join(name).exists())
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn text(&self, path: &str) -> Option<String> {
        let file = File::open(self.root.join(path)).ok()?;
        std::io::read_to_string(file).ok()
    }
}

/// Whether an open `/dev/fuse` is the device of something else: containers are given `/dev/null`
/// there to mask it. Machines of tests have files.
fn is_another(file: &File) -> bool {
    let fuse = rustix::fs::makedev(10, 229);
    file.metadata()
        .is_ok_and(|is| is.file_type().is_char_device() && is.rdev() != fuse)
}
