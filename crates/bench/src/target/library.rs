//! The library in process.

use super::{About, Client, Entries, Handle, Target};
use crate::failure::Context;
use hearth::fdtable::FdPolicy;
use hearth::{AT_FDCWD, Credentials, Kind, LockKind, LockSpec, Process, Volume};
use std::borrow::Borrow;
use std::cell::Cell;
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
    pub fn new(sharing: Sharing) -> Result<Library, String> {
        Library::of(Volume::memory(), sharing)
    }

    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    pub fn of(volume: Volume, sharing: Sharing) -> Result<Library, String> {
        let mut shared = volume.process(Credentials::root());
        if sharing == Sharing::PerCore {
            shared.set_fd_policy(FdPolicy::PerCore).text()?;
        }
        let shared = (sharing != Sharing::Processes).then_some(shared);
        Ok(Library { volume, shared })
    }
}

impl From<Volume> for Library {
    /// Wraps this volume, with each task as a process.
    fn from(volume: Volume) -> Library {
        Library {
            volume,
            shared: None,
        }
    }
}

impl Drop for Library {
    /// Ends the volume now: its committer may hold it a little longer than this does.
    fn drop(&mut self) {
        if let Err(errno) = self.volume.close() {
            eprintln!("closing a volume: {errno}");
        }
    }
}

impl Target for Library {
    fn client(&self) -> Box<dyn Client + '_> {
        let at = Cell::new(AT_FDCWD);
        match &self.shared {
            Some(process) => Box::new(LibraryClient {
                process,
                is_thread: true,
                at,
            }),
            None => Box::new(LibraryClient {
                process: self.volume.process(Credentials::root()),
                is_thread: false,
                at,
            }),
        }
    }
}

struct LibraryClient<P: Borrow<Process>> {
    process: P,
    /// Whether other clients use the same process.
    is_thread: bool,
    /// Where relative paths begin: a directory that a thread keeps open, or the process's.
    at: Cell<Handle>,
}

impl<P: Borrow<Process>> LibraryClient<P> {
    #[inline]
    fn process(&self) -> &Process {
        self.process.borrow()
    }

    /// Makes a call that takes a path.
    #[inline]
    fn on<T>(
        &self,
        path: &CStr,
        call: impl FnOnce(&Process, Handle, &[u8]) -> hearth::Result<T>,
    ) -> Result<T, String> {
        call(self.process(), self.at.get(), path.to_bytes()).context(path.to_string_lossy())
    }

    fn each(&self, path: &CStr, f: &mut dyn FnMut(&[u8], Kind)) -> Result<(), String> {
        let dir = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let listed = self.process().getdents(dir, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                f(entry.name, entry.kind);
            }
            true
        });
        self.close(dir)?;
        listed.context(path.to_string_lossy())
    }
}

impl<P: Borrow<Process>> Client for LibraryClient<P> {
    fn stat(&self, path: &CStr) -> bool {
        let at = self.at.get();
        self.process().statat(at, path.to_bytes(), 0).is_ok()
    }

    fn about(&self, path: &CStr) -> Result<About, String> {
        let attr = self.on(path, |process, at, path| process.statat(at, path, 0))?;
        Ok(About {
            ino: attr.ino,
            size: attr.size,
            links: attr.nlink,
            mode: attr.perm,
            is_dir: attr.kind == Kind::Directory,
        })
    }

    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String> {
        self.on(path, |process, at, path| {
            process.openat(at, path, flags, 0o644)
        })
    }

    fn refuses(&self, path: &CStr, flags: i32) -> bool {
        let at = self.at.get();
        let opened = self.process().openat(at, path.to_bytes(), flags, 0o644);
        opened.map(|file| self.process().close(file)).is_err()
    }

    fn close(&self, file: Handle) -> Result<(), String> {
        self.process().close(file).context("close")
    }

    fn read(&self, file: Handle, out: &mut [u8], off: u64) -> Result<usize, String> {
        self.process().pread(file, out, off).context("pread")
    }

    fn write(&self, file: Handle, data: &[u8], off: u64) -> Result<usize, String> {
        self.process().pwrite(file, data, off).context("pwrite")
    }

    fn read_next(&self, file: Handle, out: &mut [u8]) -> Result<usize, String> {
        self.process().read(file, out).context("read")
    }

    fn write_next(&self, file: Handle, data: &[u8]) -> Result<usize, String> {
        self.process().write(file, data).context("write")
    }

    fn truncate(&self, file: Handle, size: u64) -> Result<(), String> {
        self.process().ftruncate(file, size).context("ftruncate")
    }

    fn sync(&self, file: Handle) -> Result<(), String> {
        self.process().fsync(file).context("fsync")
    }

    fn lock(&self, file: Handle, at: u64, is_taken: bool) -> Result<(), String> {
        let kinds = [LockKind::Unlock, LockKind::Write];
        let spec = LockSpec {
            kind: kinds[usize::from(is_taken)],
            whence: libc::SEEK_SET,
            start: at.cast_signed(),
            len: 1,
        };
        self.process().set_lock(file, &spec, None).context("lock")
    }

    fn unlink(&self, path: &CStr) -> Result<(), String> {
        self.on(path, |process, at, path| process.unlinkat(at, path, 0))
    }

    fn rename(&self, old: &CStr, new: &CStr) -> Result<(), String> {
        self.on(old, |process, at, old| {
            process.renameat2(at, old, at, new.to_bytes(), 0)
        })
    }

    fn chmod(&self, path: &CStr, mode: u16) -> Result<(), String> {
        self.on(path, |process, at, path| {
            process.fchmodat(at, path, mode, 0)
        })
    }

    fn mkdir(&self, path: &CStr) -> Result<(), String> {
        self.on(path, |process, at, path| process.mkdirat(at, path, 0o755))
    }

    fn rmdir(&self, path: &CStr) -> Result<(), String> {
        self.on(path, |process, at, path| {
            process.unlinkat(at, path, libc::AT_REMOVEDIR)
        })
    }

    fn list(&self, path: &CStr) -> Result<usize, String> {
        let mut entries = 0;
        self.each(path, &mut |_, _| entries += 1)?;
        Ok(entries)
    }

    fn entries(&self, path: &CStr) -> Result<Entries, String> {
        let mut entries = Entries::default();
        self.each(path, &mut |name, kind| {
            entries.push(name, kind == Kind::Directory);
        })?;
        Ok(entries)
    }

    fn chdir(&self, path: &CStr) -> Result<(), String> {
        if !self.is_thread {
            return self.on(path, |process, _, path| process.chdir(path));
        }
        let dir = self.open(path, libc::O_PATH | libc::O_DIRECTORY)?;
        match self.at.replace(dir) {
            AT_FDCWD => Ok(()),
            left => self.close(left),
        }
    }

    fn allow_open(&self, descriptors: usize) -> Result<usize, String> {
        let limit = u32::try_from(descriptors).unwrap_or(u32::MAX);
        let allowed = self.process().set_fd_limit(limit);
        let refused = |errno| format!("{descriptors} descriptors: {errno}; take fewer");
        allowed.map(|()| descriptors).map_err(refused)
    }

    fn end(self: Box<Self>) {}
}

impl<P: Borrow<Process>> Drop for LibraryClient<P> {
    fn drop(&mut self) {
        if self.at.get() != AT_FDCWD {
            let _ = self.process().close(self.at.get());
        }
    }
}
