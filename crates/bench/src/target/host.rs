//! A directory of the host: a Hearth mount, tmpfs, ext4, a peer's mount.

use super::{Client, Handle, Target};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory, used by system calls relative to it.
///
/// Each client has a table of descriptors of its own, as a process has.
pub struct HostDir {
    place: CString,
}

impl HostDir {
    /// The directory `place`.
    ///
    /// # Errors
    /// It is no directory.
    pub fn new(place: &Path) -> Result<HostDir, String> {
        if !place.is_dir() {
            return Err(format!("{}: not a directory", place.display()));
        }
        let place = CString::new(place.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        Ok(HostDir { place })
    }
}

impl Target for HostDir {
    fn client(&self) -> Box<dyn Client + '_> {
        // The thread leaves the table that it shares with the others, so that tasks are like
        // processes. SAFETY: the call takes no pointer; what this thread has open it keeps.
        unsafe { libc::unshare(libc::CLONE_FILES) };
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path is a C string.
        let dir = unsafe { libc::open(self.place.as_ptr(), flags) };
        assert!(
            dir >= 0,
            "{:?}: {}",
            self.place,
            std::io::Error::last_os_error()
        );
        Box::new(HostClient { dir })
    }
}

struct HostClient {
    /// The directory that paths begin in.
    dir: Handle,
}

/// Skips the slash: paths are relative to the directory.
fn inside(path: &CStr) -> *const libc::c_char {
    debug_assert_eq!(path.to_bytes().first(), Some(&b'/'));
    path.as_ptr().wrapping_add(1)
}

fn checked(result: i64, what: &dyn Fn() -> String) -> Result<i64, String> {
    if result < 0 {
        return Err(format!("{}: {}", what(), std::io::Error::last_os_error()));
    }
    Ok(result)
}

impl Client for HostClient {
    fn stat(&self, path: &CStr) -> bool {
        let mut attr = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the path is a C string behind its slash, the buffer is a `stat`.
        unsafe { libc::fstatat(self.dir, inside(path), attr.as_mut_ptr(), 0) == 0 }
    }

    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String> {
        // SAFETY: the path is a C string behind its slash.
        let file = unsafe { libc::openat(self.dir, inside(path), flags, 0o644) };
        Ok(checked(file.into(), &|| path.to_string_lossy().into_owned())? as Handle)
    }

    fn close(&self, file: Handle) -> Result<(), String> {
        // SAFETY: the descriptor is this client's.
        checked(unsafe { libc::close(file) }.into(), &|| "close".into()).map(drop)
    }

    fn read(&self, file: Handle, out: &mut [u8], off: u64) -> Result<usize, String> {
        // SAFETY: the buffer is as long as is said.
        let got =
            unsafe { libc::pread(file, out.as_mut_ptr().cast(), out.len(), off.cast_signed()) };
        Ok(checked(got as i64, &|| "read".into())? as usize)
    }

    fn write(&self, file: Handle, data: &[u8], off: u64) -> Result<usize, String> {
        // SAFETY: the buffer is as long as is said.
        let done =
            unsafe { libc::pwrite(file, data.as_ptr().cast(), data.len(), off.cast_signed()) };
        Ok(checked(done as i64, &|| "write".into())? as usize)
    }

    fn unlink(&self, path: &CStr) -> Result<(), String> {
        // SAFETY: the path is a C string behind its slash.
        let done = unsafe { libc::unlinkat(self.dir, inside(path), 0) };
        checked(done.into(), &|| path.to_string_lossy().into_owned()).map(drop)
    }

    fn mkdir(&self, path: &CStr) -> Result<(), String> {
        // SAFETY: the path is a C string behind its slash.
        let done = unsafe { libc::mkdirat(self.dir, inside(path), 0o755) };
        checked(done.into(), &|| path.to_string_lossy().into_owned()).map(drop)
    }

    fn list(&self, path: &CStr) -> Result<usize, String> {
        let dir = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let mut buffer = vec![0u8; 32 << 10];
        let mut entries = 0usize;
        loop {
            // SAFETY: the buffer is as long as is said.
            let got = unsafe {
                libc::syscall(libc::SYS_getdents64, dir, buffer.as_mut_ptr(), buffer.len())
            };
            match checked(got, &|| path.to_string_lossy().into_owned())? as usize {
                0 => break,
                got => entries += records(&buffer[..got]),
            }
        }
        self.close(dir)?;
        Ok(entries.saturating_sub(2))
    }
}

impl Drop for HostClient {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this client's.
        unsafe { libc::close(self.dir) };
    }
}

/// Counts the records of `getdents64`: each has its length in the bytes 16 and 17.
fn records(mut buffer: &[u8]) -> usize {
    let mut count = 0;
    while buffer.len() > 18 {
        let length = usize::from(u16::from_ne_bytes([buffer[16], buffer[17]]));
        count += 1;
        buffer = &buffer[length.min(buffer.len()).max(19)..];
    }
    count
}
