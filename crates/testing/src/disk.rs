//! Disks of our own: ext4 on a loop device over a file, slow and forgetful if that file lies on the
//! forgetting filesystem. Root makes them.

use crate::forgetting::{Fault, Forgetting, Options};
use crate::place::Place;
use rustix::fs::{major, minor};
use rustix::mount::{UnmountFlags, unmount};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// ext4 on a loop device; dropping it unmounts, and the device goes with it.
pub struct LoopDisk {
    at: PathBuf,
}

/// What a block device was asked to do so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Requests to write.
    pub writes: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Requests to make durable what was written.
    pub flushes: u64,
}

/// A disk whose flushes take as long as they are told, and that can lose its power.
pub struct SlowDisk {
    disk: Option<LoopDisk>,
    forgetting: Forgetting,
    image: PathBuf,
    at: PathBuf,
    // Dropped last: the others lie in it.
    _place: Place,
}

impl LoopDisk {
    /// Mounts the image at `at`.
    pub fn mount(image: &Path, at: &Path) -> Result<LoopDisk, String> {
        attach(image, at, false)?;
        Ok(LoopDisk { at: at.to_owned() })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if unmount(&self.at, UnmountFlags::empty()).is_err() {
            let _ = unmount(&self.at, UnmountFlags::DETACH);
        }
    }
}

/// Makes an image of ext4 of so many bytes. One that is `written` costs the filesystem below no
/// allocation later.
pub fn make_image(image: &Path, bytes: u64, written: bool) -> Result<(), String> {
    let fill = || -> std::io::Result<()> {
        let mut file = File::create(image)?;
        file.set_len(bytes)?;
        if written {
            let block = vec![0; 1 << 20];
            for _ in 0..bytes >> 20 {
                file.write_all(&block)?;
            }
            file.sync_all()?;
        }
        Ok(())
    };
    fill().map_err(|error| format!("{}: {error}", image.display()))?;
    // Tables are written now, not by a thread beside what is measured, and nothing becomes a hole.
    let options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
    let mut mkfs = Command::new("mkfs.ext4");
    // As many inodes as workloads of small files may need.
    let mkfs = mkfs.args(["-q", "-F", "-i", "8192", "-E", options]);
    said(mkfs.arg(image)).map(drop)
}

/// Mounts an image at `at` by a loop device that goes with the mount; a `direct` one passes the
/// page cache of the machine by.
pub fn attach(image: &Path, at: &Path, direct: bool) -> Result<(), String> {
    let mut losetup = Command::new("losetup");
    let mode = if direct { "on" } else { "off" };
    let losetup = losetup.args(["--find", "--show", &format!("--direct-io={mode}")]);
    let device = said(losetup.arg(image))?;
    let device = device.trim();
    let mut mount = Command::new("mount");
    let mount = mount.args(["-t", "ext4", "-o", "noatime", device]);
    let mounted = said(mount.arg(at));
    // While it is mounted this only says that it shall go.
    let detached = said(Command::new("losetup").args(["--detach", device]));
    mounted.and(detached).map(drop)
}

impl DiskCounts {
    /// Those of the device that the filesystem of a directory lies on.
    pub fn below(directory: &Path) -> Result<DiskCounts, String> {
        let found = std::fs::metadata(directory);
        let device = found.map_err(|error| format!("{}: {error}", directory.display()))?;
        let (major, minor) = (major(device.dev()), minor(device.dev()));
        let path = format!("/sys/dev/block/{major}:{minor}/stat");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let fields: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
        match fields[..] {
            // Documentation/block/stat.rst: writes, sectors written, flushes.
            [_, _, _, _, writes, _, sectors, ..] if fields.len() > 15 => Ok(DiskCounts {
                writes,
                bytes_written: sectors * 512,
                flushes: fields[15],
            }),
            _ => Err(format!("{path}: no count of flushes (Linux 5.5 has it)")),
        }
    }

    /// What was added since `before`.
    pub fn since(self, before: DiskCounts) -> DiskCounts {
        DiskCounts {
            writes: self.writes - before.writes,
            bytes_written: self.bytes_written - before.bytes_written,
            flushes: self.flushes - before.flushes,
        }
    }
}

impl SlowDisk {
    /// A disk of so many bytes. A forgetful one can lose its power; what it has not flushed is held
    /// in memory.
    pub fn new(bytes: u64, options: Options) -> Result<SlowDisk, String> {
        let failed = |error: std::io::Error| format!("a slow disk: {error}; it needs root");
        let place = Place::new("disk").map_err(failed)?;
        let directory = |name| place.directory(name).map_err(failed);
        let (below, middle, at) = (directory("below")?, directory("middle")?, directory("at")?);
        // Made in its place, so that nothing has to be synced first.
        make_image(&below.join("image"), bytes, false)?;
        let forgetting = Forgetting::mount(&below, &middle, options).map_err(failed)?;
        let mut disk = SlowDisk {
            disk: None,
            forgetting,
            image: middle.join("image"),
            at,
            _place: place,
        };
        disk.switch_on()?;
        Ok(disk)
    }

    /// Where its ext4 is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Makes each flush take that long from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.forgetting.set_delay(delay);
    }

    /// Makes that go wrong with the disk from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.forgetting.set_fault(fault);
    }

    /// What the disk was asked to do so far.
    pub fn counts(&self) -> Result<DiskCounts, String> {
        DiskCounts::below(&self.at)
    }

    /// A power cut: blocks that were not flushed are lost, or a part of them by the seed. The disk
    /// stays off.
    pub fn cut(&mut self, seed: Option<u64>) -> Result<(), String> {
        // The lowest first: what the layers above it write in their end is lost.
        let done = self.forgetting.cut(seed);
        self.disk = None;
        done.map_err(|error| format!("a power cut: {error}"))
    }

    /// Mounts it again after a power cut.
    pub fn switch_on(&mut self) -> Result<(), String> {
        self.disk = Some(LoopDisk::mount(&self.image, &self.at)?);
        Ok(())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.disk = None;
    }
}

/// Runs a program to its end; what it printed, or in one line why it did not work.
pub fn said(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let why = text(&output.stderr);
    let why = why.lines().find(|line| !line.trim().is_empty());
    Err(format!(
        "{program}: {}: {}",
        output.status,
        why.unwrap_or("no reason given")
    ))
}
