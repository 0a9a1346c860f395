//! The library in process.

use super::{Client, Handle, Target};
use hearth::fdtable::FdPolicy;
use hearth::{Credentials, Errno, Process, Volume};
use std::ffi::CStr;

/// Whether the tasks are processes or threads of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each task is a process of its own.
    Processes,
    /// All are threads of one process, whose descriptors are the lowest free ones.
    Lowest,
    /// All are threads of one process, whose descriptors are handed out per core.
    PerCore,
}

/// A volume in memory.
pub struct Library {
    volume: Volume,
    shared: Option<Process>,
}

impl Library {
    /// An empty volume.
    ///
    /// # Errors
    /// The library refuses.
    pub fn new(sharing: Sharing) -> Result<Library, String> {
        let volume = Volume::memory();
        let mut shared = volume.process(Credentials::root());
        if sharing == Sharing::PerCore {
            shared
                .set_fd_policy(FdPolicy::PerCore)
                .map_err(|errno| errno.to_string())?;
        }
        let shared = (sharing != Sharing::Processes).then_some(shared);
        Ok(Library { volume, shared })
    }
}

impl Target for Library {
    fn client(&self) -> Box<dyn Client + '_> {
        match &self.shared {
            Some(process) => Box::new(process),
            None => Box::new(self.volume.process(Credentials::root())),
        }
    }
}

impl<P: std::borrow::Borrow<Process>> Client for P {
    fn stat(&self, path: &CStr) -> bool {
        self.borrow().stat(path.to_bytes()).is_ok()
    }

    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String> {
        self.borrow()
            .open(path.to_bytes(), flags, 0o644)
            .map_err(|errno| at(path, errno))
    }

    fn close(&self, file: Handle) -> Result<(), String> {
        self.borrow()
            .close(file)
            .map_err(|errno| format!("close: {errno}"))
    }

    fn read(&self, file: Handle, out: &mut [u8], off: u64) -> Result<usize, String> {
        self.borrow()
            .pread(file, out, off)
            .map_err(|errno| format!("read: {errno}"))
    }

    fn write(&self, file: Handle, data: &[u8], off: u64) -> Result<usize, String> {
        self.borrow()
            .pwrite(file, data, off)
            .map_err(|errno| format!("write: {errno}"))
    }

    fn unlink(&self, path: &CStr) -> Result<(), String> {
        self.borrow()
            .unlink(path.to_bytes())
            .map_err(|errno| at(path, errno))
    }

    fn mkdir(&self, path: &CStr) -> Result<(), String> {
        self.borrow()
            .mkdir(path.to_bytes(), 0o755)
            .map_err(|errno| at(path, errno))
    }

    fn list(&self, path: &CStr) -> Result<usize, String> {
        let process = self.borrow();
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let dir = self.open(path, flags)?;
        let mut entries = 0usize;
        let listed = process.getdents(dir, &mut |_| {
            entries += 1;
            true
        });
        self.close(dir)?;
        listed.map_err(|errno| at(path, errno))?;
        Ok(entries.saturating_sub(2))
    }
}

fn at(path: &CStr, errno: Errno) -> String {
    format!("{}: {errno}", path.to_string_lossy())
}
