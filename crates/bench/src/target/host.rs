//! A directory of the host: a Hearth mount, tmpfs, ext4, a peer's mount.

use super::listing::{Record, records};
use super::{About, Client, Entries, Handle, Target};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory, used by system calls relative to it.
pub struct HostDir {
    place: CString,
    is_one_process: bool,
}

impl HostDir {
    /// Opens the directory `place`. Its clients act as processes, each with its own descriptors and
    /// working directory.
    pub fn new(place: &Path) -> Result<HostDir, String> {
        if !place.is_dir() {
            return Err(format!("{}: not a directory", place.display()));
        }
        let place = CString::new(place.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        Ok(HostDir {
            place,
            is_one_process: false,
        })
    }

    /// Makes the clients act as threads of one process, with one table of descriptors.
    pub fn for_threads(self) -> HostDir {
        HostDir {
            is_one_process: true,
            ..self
        }
    }
}

impl Target for HostDir {
    fn client(&self) -> Box<dyn Client + '_> {
        if !self.is_one_process {
            // The thread leaves the tables that it shares with the others. SAFETY: the call takes
            // no pointer, and the thread keeps its open files.
            let left = unsafe { libc::unshare(libc::CLONE_FILES | libc::CLONE_FS) };
            assert!(left == 0, "unshare: {}", Error::last_os_error());
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path is a C string.
        let dir = unsafe { libc::open(self.place.as_ptr(), flags) };
        assert!(dir >= 0, "{:?}: {}", self.place, Error::last_os_error());
        let client = HostClient {
            root: dir,
            at: Cell::new(dir),
            is_thread: self.is_one_process,
        };
        if !self.is_one_process {
            // SAFETY: the descriptor is open. A relative path begins there from now on.
            let moved = unsafe { libc::fchdir(dir) };
            assert!(moved == 0, "{:?}: {}", self.place, Error::last_os_error());
            client.at.set(libc::AT_FDCWD);
        }
        Box::new(client)
    }
}

struct HostClient {
    /// The directory that absolute paths begin in.
    root: Handle,
    /// The directory that relative paths begin in.
    at: Cell<Handle>,
    /// Whether others use the same descriptors and working directory.
    is_thread: bool,
}

impl HostClient {
    /// Where a path begins, and what remains of it without the slash.
    #[inline]
    fn place(&self, path: &CStr) -> (Handle, *const libc::c_char) {
        match path.to_bytes() {
            b"/" => (self.root, c".".as_ptr()),
            [b'/', ..] => (self.root, path.as_ptr().wrapping_add(1)),
            _ => (self.at.get(), path.as_ptr()),
        }
    }

    fn each(&self, path: &CStr, f: &mut dyn FnMut(Record<'_>)) -> Result<(), String> {
        let dir = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let mut buffer = vec![0u8; 32 << 10];
        loop {
            // SAFETY: the buffer is as long as is said.
            let got = unsafe {
                libc::syscall(libc::SYS_getdents64, dir, buffer.as_mut_ptr(), buffer.len())
            };
            match of_path(got, path)? as usize {
                0 => break,
                got => records(&buffer[..got]).for_each(&mut *f),
            }
        }
        self.close(dir)
    }
}

fn checked(result: i64, what: &dyn Fn() -> String) -> Result<i64, String> {
    if result < 0 {
        return Err(format!("{}: {}", what(), Error::last_os_error()));
    }
    Ok(result)
}

fn of_call(result: impl Into<i64>, call: &'static str) -> Result<i64, String> {
    checked(result.into(), &|| call.to_owned())
}

fn of_path(result: impl Into<i64>, path: &CStr) -> Result<i64, String> {
    checked(result.into(), &|| path.to_string_lossy().into_owned())
}

impl Client for HostClient {
    fn stat(&self, path: &CStr) -> bool {
        let mut attr = std::mem::MaybeUninit::<libc::stat>::uninit();
        let (dir, path) = self.place(path);
        // SAFETY: the path is a C string, the buffer is a `stat`.
        unsafe { libc::fstatat(dir, path, attr.as_mut_ptr(), 0) == 0 }
    }

    fn about(&self, path: &CStr) -> Result<About, String> {
        let (dir, rest) = self.place(path);
        // SAFETY: an all-zero `stat` is one.
        let mut attr: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the path is a C string, the buffer is a `stat`.
        of_path(unsafe { libc::fstatat(dir, rest, &raw mut attr, 0) }, path)?;
        Ok(About {
            ino: attr.st_ino,
            size: attr.st_size.cast_unsigned(),
            links: attr.st_nlink as u32,
            mode: (attr.st_mode & 0o7777) as u16,
            is_dir: attr.st_mode & libc::S_IFMT == libc::S_IFDIR,
        })
    }

    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String> {
        let (dir, rest) = self.place(path);
        // SAFETY: the path is a C string.
        let file = unsafe { libc::openat(dir, rest, flags, 0o644) };
        Ok(of_path(file, path)? as Handle)
    }

    fn refuses(&self, path: &CStr, flags: i32) -> bool {
        let (dir, rest) = self.place(path);
        // SAFETY: the path is a C string.
        match unsafe { libc::openat(dir, rest, flags, 0o644) } {
            opened if opened >= 0 => {
                // SAFETY: the descriptor is this client's.
                unsafe { libc::close(opened) };
                false
            }
            _ => true,
        }
    }

    fn close(&self, file: Handle) -> Result<(), String> {
        // SAFETY: the descriptor is this client's.
        of_call(unsafe { libc::close(file) }, "close").map(drop)
    }

    fn read(&self, file: Handle, out: &mut [u8], off: u64) -> Result<usize, String> {
        let off = off.cast_signed();
        // SAFETY: the buffer is as long as is said.
        let got = unsafe { libc::pread(file, out.as_mut_ptr().cast(), out.len(), off) };
        Ok(of_call(got as i64, "pread")? as usize)
    }

    fn write(&self, file: Handle, data: &[u8], off: u64) -> Result<usize, String> {
        let off = off.cast_signed();
        // SAFETY: the buffer is as long as is said.
        let done = unsafe { libc::pwrite(file, data.as_ptr().cast(), data.len(), off) };
        Ok(of_call(done as i64, "pwrite")? as usize)
    }

    fn read_next(&self, file: Handle, out: &mut [u8]) -> Result<usize, String> {
        // SAFETY: the buffer is as long as is said.
        let got = unsafe { libc::read(file, out.as_mut_ptr().cast(), out.len()) };
        Ok(of_call(got as i64, "read")? as usize)
    }

    fn write_next(&self, file: Handle, data: &[u8]) -> Result<usize, String> {
        // SAFETY: the buffer is as long as is said.
        let done = unsafe { libc::write(file, data.as_ptr().cast(), data.len()) };
        Ok(of_call(done as i64, "write")? as usize)
    }

    fn truncate(&self, file: Handle, size: u64) -> Result<(), String> {
        // SAFETY: the call takes no pointer.
        of_call(
            unsafe { libc::ftruncate(file, size.cast_signed()) },
            "ftruncate",
        )
        .map(drop)
    }

    fn sync(&self, file: Handle) -> Result<(), String> {
        // SAFETY: the call takes no pointer.
        of_call(unsafe { libc::fsync(file) }, "fsync").map(drop)
    }

    fn lock(&self, file: Handle, at: u64, is_taken: bool) -> Result<(), String> {
        let kind = if is_taken {
            libc::F_WRLCK
        } else {
            libc::F_UNLCK
        };
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: at.cast_signed(),
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the structure lives throughout the call.
        of_call(
            unsafe { libc::fcntl(file, libc::F_SETLK, &raw const lock) },
            "lock",
        )
        .map(drop)
    }

    fn unlink(&self, path: &CStr) -> Result<(), String> {
        let (dir, rest) = self.place(path);
        // SAFETY: the path is a C string.
        of_path(unsafe { libc::unlinkat(dir, rest, 0) }, path).map(drop)
    }

    fn rename(&self, old: &CStr, new: &CStr) -> Result<(), String> {
        let ((from, from_rest), (to, to_rest)) = (self.place(old), self.place(new));
        // SAFETY: the paths are C strings.
        of_path(unsafe { libc::renameat(from, from_rest, to, to_rest) }, old).map(drop)
    }

    fn chmod(&self, path: &CStr, mode: u16) -> Result<(), String> {
        let (dir, rest) = self.place(path);
        // SAFETY: the path is a C string.
        of_path(unsafe { libc::fchmodat(dir, rest, mode.into(), 0) }, path).map(drop)
    }

    fn mkdir(&self, path: &CStr) -> Result<(), String> {
        let (dir, rest) = self.place(path);
        // SAFETY: the path is a C string.
        of_path(unsafe { libc::mkdirat(dir, rest, 0o755) }, path).map(drop)
    }

    fn rmdir(&self, path: &CStr) -> Result<(), String> {
        let (dir, rest) = self.place(path);
        // SAFETY: the path is a C string.
        of_path(
            unsafe { libc::unlinkat(dir, rest, libc::AT_REMOVEDIR) },
            path,
        )
        .map(drop)
    }

    fn list(&self, path: &CStr) -> Result<usize, String> {
        let mut entries = 0;
        self.each(path, &mut |_| entries += 1)?;
        Ok(entries)
    }

    fn entries(&self, path: &CStr) -> Result<Entries, String> {
        let mut entries = Entries::default();
        self.each(path, &mut |record| {
            entries.push(record.name, record.kind == libc::DT_DIR);
        })?;
        Ok(entries)
    }

    fn chdir(&self, path: &CStr) -> Result<(), String> {
        let dir = self.open(path, libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)?;
        let left = if self.is_thread {
            self.at.replace(dir)
        } else {
            // SAFETY: the call takes no pointer.
            of_path(unsafe { libc::fchdir(dir) }, path)?;
            dir
        };
        match left {
            root if root == self.root => Ok(()),
            left => self.close(left),
        }
    }

    fn allow_open(&self, descriptors: usize) -> Result<usize, String> {
        let wanted = (descriptors + OWN) as u64;
        let limit = limit()?;
        if limit.rlim_cur < wanted {
            let hard = limit.rlim_max;
            // The hard limit moves only if the process has the right to raise it. The soft one may
            // always move up to it.
            if !may_open(wanted, hard.max(wanted)) {
                may_open(hard.min(wanted), hard);
            }
        }
        let allowed = self::limit()?.rlim_cur as usize;
        Ok(allowed.saturating_sub(OWN).min(descriptors))
    }

    fn end(self: Box<Self>) {
        if !self.is_thread {
            // Closes everything but the standard streams, even the copies of the program's own
            // descriptors: the table is this thread's. SAFETY: the call takes no pointer.
            unsafe { libc::close_range(3, u32::MAX, 0) };
            // The descriptors that `drop` would close are closed already.
            std::mem::forget(self);
        }
    }
}

/// An allowance for the program's own descriptors: the table of a task begins as a copy of all of
/// them.
const OWN: usize = 1_000;

fn limit() -> Result<libc::rlimit, String> {
    // SAFETY: an all-zero limit is one.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives throughout the call.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    of_call(got, "getrlimit").map(|_| limit)
}

fn may_open(soft: u64, hard: u64) -> bool {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: the structure lives throughout the call.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0 }
}

impl Drop for HostClient {
    fn drop(&mut self) {
        let mut own = vec![self.root];
        if self.is_thread && self.at.get() != self.root {
            own.push(self.at.get());
        }
        for file in own {
            // SAFETY: the descriptor is this client's.
            unsafe { libc::close(file) };
        }
    }
}
