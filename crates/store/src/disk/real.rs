//! Files of the operating system.

use super::{Access, Disk, File};
use crate::error::{Error, Result};
use hearth_sync::primitive::Arc;
use rustix::fs::{FallocateFlags, FlockOperation};
use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
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
        Ok(Arc::new(RealFile { file, path }))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.path(name);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        Ok(Arc::new(RealFile { file, path }))
    }

    fn make_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::create_dir(&path).map_err(|error| Error::io("make the folder", &path, error))
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

    fn sync_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::File::open(&path)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| Error::io("sync", &path, error))
    }

    fn lock(&self, name: &str, owner: Option<&str>) -> Result<Box<dyn Send + Sync>> {
        let path = self.path(name);
        let failed = |op| move |error| Error::io(op, &self.path(name), error);
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(owner.is_some())
            .create(owner.is_some())
            .truncate(false)
            .open(&path)
            .map_err(failed("open"))?;
        let how = match owner {
            Some(_) => FlockOperation::NonBlockingLockExclusive,
            None => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&file, how) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Error::InUse {
                    path: self.place.clone(),
                    who: holder(&mut file),
                });
            }
            Err(error) => return Err(failed("lock")(error.into())),
        }
        if let Some(owner) = owner {
            file.set_len(0).map_err(failed("write"))?;
            // A full disk keeps nobody from opening: the name is for messages.
            let _ = file.write_all(owner.as_bytes());
        }
        Ok(Box::new(HeldLock {
            file,
            process: std::process::id(),
        }))
    }

    fn room(&self) -> Result<(u64, u64)> {
        let is = rustix::fs::statvfs(&self.place)
            .map_err(|error| Error::io("measure", &self.place, error.into()))?;
        Ok((is.f_blocks * is.f_frsize, is.f_bavail * is.f_frsize))
    }
}

/// A lock of a file. It ends with this value although forks of the process share the open file,
/// and not with their copies of this value.
struct HeldLock {
    file: fs::File,
    /// The process that took the lock.
    process: u32,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // Without it the lock would last until the last fork has closed the file.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// The name of who holds a lock that was refused. Readers write none: where another reader would
/// be let in, the text is of a writer that is gone.
fn holder(file: &mut fs::File) -> String {
    if rustix::fs::flock(&*file, FlockOperation::NonBlockingLockShared).is_ok() {
        return "a reader".to_owned();
    }
    let mut text = String::new();
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_string(&mut text));
    match read {
        Ok(_) if !text.is_empty() => text.trim_end().to_owned(),
        _ => "somebody who wrote no name".to_owned(),
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
