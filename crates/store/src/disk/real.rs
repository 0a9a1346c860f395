//! Files of the operating system.

use super::modes::{OTHERS, OWN_FILE, OWN_FOLDER};
use super::{Access, Disk, File, lock};
use crate::error::{Error, Result};
use hearth_sync::primitive::Arc;
use rustix::fs::{FallocateFlags, OFlags};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A directory of the host.
pub(crate) struct RealDisk {
    place: PathBuf,
}

impl RealDisk {
    pub(crate) fn new(place: &Path) -> RealDisk {
        RealDisk {
            place: place.to_path_buf(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.place.clone(),
            name => self.place.join(name),
        }
    }
}

impl Disk for RealDisk {
    fn place(&self) -> &Path {
        &self.place
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn File>> {
        let path = self.path(name);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        let is = file.metadata();
        let is = is.map_err(|error| Error::io("look at", &path, error))?;
        if access == Access::Write && is.is_file() && is.nlink() > 1 {
            return Err(Error::Linked { path });
        }
        Ok(Arc::new(RealFile { file, path }))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.path(name);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(OWN_FILE)
            .open(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        Ok(Arc::new(RealFile { file, path }))
    }

    fn make_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let made = fs::DirBuilder::new().mode(OWN_FOLDER).create(&path);
        made.map_err(|error| Error::io("make the folder", &path, error))
    }

    fn list(&self, name: &str) -> Result<Vec<String>> {
        let path = self.path(name);
        let failed = |error| Error::io("list", &path, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.path(from);
        fs::rename(&path, self.path(to)).map_err(|error| Error::io("rename", &path, error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(is) if is.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn make_private(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let failed = |error| Error::io("keep others from", &path, error);
        // Not through a link: what that leads to is somebody's own.
        let here = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = fs::OpenOptions::new();
        let opened = options.read(true).custom_flags(here.bits() as i32);
        let file = match opened.open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(failed)?,
        };
        let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
        if mode & OTHERS == 0 {
            return Ok(());
        }
        let own = fs::Permissions::from_mode(mode & !OTHERS);
        file.set_permissions(own).map_err(failed)
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::File::open(&path)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| Error::io("sync", &path, error))
    }

    fn lock(&self, name: &str, owner: Option<&str>) -> Result<Box<dyn Send + Sync>> {
        let lock = lock::take(&self.path(name), &self.place, owner)?;
        Ok(Box::new(lock))
    }

    fn share(&self, name: &str) -> Option<Box<dyn Send + Sync>> {
        let lock = lock::share(&self.path(name))?;
        Some(Box::new(lock))
    }

    fn is_shared(&self, name: &str) -> bool {
        lock::is_shared(&self.path(name))
    }

    fn room(&self) -> Result<(u64, u64)> {
        let is = rustix::fs::statvfs(&self.place)
            .map_err(|error| Error::io("measure", &self.place, error.into()))?;
        Ok((is.f_blocks * is.f_frsize, is.f_bavail * is.f_frsize))
    }
}

struct RealFile {
    file: fs::File,
    path: PathBuf,
}

impl RealFile {
    fn failed(&self, op: &'static str) -> impl Fn(std::io::Error) -> Error + '_ {
        move |error| Error::io(op, &self.path, error)
    }
}

impl File for RealFile {
    fn size(&self) -> Result<u64> {
        let is = self.file.metadata().map_err(self.failed("look at"))?;
        Ok(is.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read")(error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(self.failed("write"))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(self.failed("sync"))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len)
            .map_err(|error| self.failed("reserve room in")(error.into()))
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(self.failed("cut off"))
    }
}
