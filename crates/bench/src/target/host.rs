//! A directory of the host: a Hearth mount, tmpfs, ext4, a peer's mount.

use super::{About, Client, Entries, Handle, Target};
use crate::failure::Context;
use rustix::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, RawDir};
use rustix::io::{pread, pwrite, read, write};
use rustix::process::{Resource, Rlimit, fchdir, getrlimit, setrlimit};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::cell::Cell;
use std::ffi::CStr;
use std::io::Error;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A directory, used by system calls relative to it.
pub struct HostDir {
    place: PathBuf,
    is_one_process: bool,
}

impl HostDir {
    /// Opens the directory `place`. Its clients act as processes, each with its own descriptors and
    /// working directory.
    pub fn new(place: &Path) -> Result<HostDir, String> {
        if !place.is_dir() {
            return Err(format!("{}: not a directory", place.display()));
        }
        Ok(HostDir {
            place: place.to_owned(),
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

    fn open(&self) -> rustix::io::Result<HostClient> {
        if !self.is_one_process {
            // The thread leaves the tables that it shares with the others. SAFETY: it keeps its
            // open files.
            unsafe { unshare_unsafe(UnshareFlags::FILES | UnshareFlags::FS) }?;
        }
        let root = fs::open(&self.place, PLACE, Mode::empty())?;
        let mut at = root.as_raw_fd();
        if !self.is_one_process {
            // A relative path begins there from now on.
            fchdir(&root)?;
            at = CWD.as_raw_fd();
        }
        Ok(HostClient {
            root: root.into_raw_fd(),
            at: Cell::new(at),
            is_thread: self.is_one_process,
        })
    }
}

impl Target for HostDir {
    fn client(&self) -> Box<dyn Client + '_> {
        let opened = self.open().at(&self.place);
        Box::new(opened.unwrap_or_else(|what| panic!("{what}")))
    }
}

/// Flags of a directory that paths begin in.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NEW: Mode = Mode::from_raw_mode(0o644);

struct HostClient {
    /// The directory that absolute paths begin in.
    root: Handle,
    /// The directory that relative paths begin in.
    at: Cell<Handle>,
    /// Whether others use the same descriptors and working directory.
    is_thread: bool,
}

/// An open file of the client, as the kernel's calls take it.
#[inline]
fn fd<'a>(file: Handle) -> BorrowedFd<'a> {
    // SAFETY: it is open until its client closes it; the kernel refuses any other number.
    unsafe { BorrowedFd::borrow_raw(file) }
}

impl HostClient {
    /// Where a path begins, and what remains of it without the slash.
    #[inline]
    fn place<'p>(&self, path: &'p CStr) -> (BorrowedFd<'_>, &'p CStr) {
        match path.to_bytes_with_nul() {
            b"/\0" => (fd(self.root), c"."),
            // SAFETY: the end of a C string is one.
            [b'/', rest @ ..] => (fd(self.root), unsafe {
                CStr::from_bytes_with_nul_unchecked(rest)
            }),
            _ => (fd(self.at.get()), path),
        }
    }

    /// Makes a call that takes a path: a directory, and the rest of the path.
    #[inline]
    fn on<T>(
        &self,
        path: &CStr,
        call: impl FnOnce(BorrowedFd<'_>, &CStr) -> rustix::io::Result<T>,
    ) -> Result<T, String> {
        let (dir, rest) = self.place(path);
        call(dir, rest).context(path.to_string_lossy())
    }

    fn each(&self, path: &CStr, f: &mut dyn FnMut(&[u8], FileType)) -> Result<(), String> {
        let dir = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(fd(dir), buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.context(path.to_string_lossy())?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => f(name, entry.file_type()),
            }
        }
        self.close(dir)
    }
}

impl Client for HostClient {
    fn stat(&self, path: &CStr) -> bool {
        let (dir, rest) = self.place(path);
        fs::statat(dir, rest, AtFlags::empty()).is_ok()
    }

    fn about(&self, path: &CStr) -> Result<About, String> {
        let attr = self.on(path, |dir, rest| fs::statat(dir, rest, AtFlags::empty()))?;
        Ok(About {
            ino: attr.st_ino,
            size: attr.st_size.cast_unsigned(),
            links: attr.st_nlink as u32,
            mode: (attr.st_mode & 0o7777) as u16,
            is_dir: FileType::from_raw_mode(attr.st_mode).is_dir(),
        })
    }

    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String> {
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        self.on(path, |dir, rest| fs::openat(dir, rest, flags, NEW))
            .map(OwnedFd::into_raw_fd)
    }

    fn refuses(&self, path: &CStr, flags: i32) -> bool {
        let (dir, rest) = self.place(path);
        fs::openat(
            dir,
            rest,
            OFlags::from_bits_retain(flags.cast_unsigned()),
            NEW,
        )
        .is_err()
    }

    fn close(&self, file: Handle) -> Result<(), String> {
        // SAFETY: the descriptor is this client's.
        done(unsafe { libc::close(file) }).context("close")
    }

    fn read(&self, file: Handle, out: &mut [u8], off: u64) -> Result<usize, String> {
        pread(fd(file), out, off).context("pread")
    }

    fn write(&self, file: Handle, data: &[u8], off: u64) -> Result<usize, String> {
        pwrite(fd(file), data, off).context("pwrite")
    }

    fn read_next(&self, file: Handle, out: &mut [u8]) -> Result<usize, String> {
        read(fd(file), out).context("read")
    }

    fn write_next(&self, file: Handle, data: &[u8]) -> Result<usize, String> {
        write(fd(file), data).context("write")
    }

    fn truncate(&self, file: Handle, size: u64) -> Result<(), String> {
        fs::ftruncate(fd(file), size).context("ftruncate")
    }

    fn sync(&self, file: Handle) -> Result<(), String> {
        fs::fsync(fd(file)).context("fsync")
    }

    fn lock(&self, file: Handle, at: u64, is_taken: bool) -> Result<(), String> {
        let kinds = [libc::F_UNLCK, libc::F_WRLCK];
        let lock = libc::flock {
            l_type: kinds[usize::from(is_taken)] as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: at.cast_signed(),
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the structure lives throughout the call.
        done(unsafe { libc::fcntl(file, libc::F_SETLK, &raw const lock) }).context("lock")
    }

    fn unlink(&self, path: &CStr) -> Result<(), String> {
        self.on(path, |dir, rest| fs::unlinkat(dir, rest, AtFlags::empty()))
    }

    fn rename(&self, old: &CStr, new: &CStr) -> Result<(), String> {
        let (to, new) = self.place(new);
        self.on(old, |dir, old| fs::renameat(dir, old, to, new))
    }

    fn chmod(&self, path: &CStr, mode: u16) -> Result<(), String> {
        let mode = Mode::from_raw_mode(mode.into());
        self.on(path, |dir, rest| {
            fs::chmodat(dir, rest, mode, AtFlags::empty())
        })
    }

    fn mkdir(&self, path: &CStr) -> Result<(), String> {
        let mode = Mode::from_raw_mode(0o755);
        self.on(path, |dir, rest| fs::mkdirat(dir, rest, mode))
    }

    fn rmdir(&self, path: &CStr) -> Result<(), String> {
        self.on(path, |dir, rest| {
            fs::unlinkat(dir, rest, AtFlags::REMOVEDIR)
        })
    }

    fn list(&self, path: &CStr) -> Result<usize, String> {
        let mut entries = 0;
        self.each(path, &mut |_, _| entries += 1)?;
        Ok(entries)
    }

    fn entries(&self, path: &CStr) -> Result<Entries, String> {
        let mut entries = Entries::default();
        self.each(path, &mut |name, kind| entries.push(name, kind.is_dir()))?;
        Ok(entries)
    }

    fn chdir(&self, path: &CStr) -> Result<(), String> {
        let dir = self.open(path, PLACE.bits().cast_signed())?;
        let left = if self.is_thread {
            self.at.replace(dir)
        } else {
            fchdir(fd(dir)).context(path.to_string_lossy())?;
            dir
        };
        match left {
            root if root == self.root => Ok(()),
            left => self.close(left),
        }
    }

    fn allow_open(&self, descriptors: usize) -> Result<usize, String> {
        let wanted = (descriptors + OWN) as u64;
        let limit = || getrlimit(Resource::Nofile);
        let Rlimit { current, maximum } = limit();
        if current.is_some_and(|soft| soft < wanted) {
            let may_open = |soft, maximum| {
                let current = Some(soft);
                setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_ok()
            };
            // The hard limit moves only if the process has the right to raise it. The soft one may
            // always move up to it.
            if !may_open(wanted, maximum.map(|hard| hard.max(wanted))) {
                may_open(maximum.map_or(wanted, |hard| hard.min(wanted)), maximum);
            }
        }
        let allowed = limit().current.map_or(usize::MAX, |soft| soft as usize);
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

fn done(result: i32) -> std::io::Result<()> {
    match result {
        -1 => Err(Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Drop for HostClient {
    fn drop(&mut self) {
        let _ = self.close(self.root);
        if self.is_thread && self.at.get() != self.root {
            let _ = self.close(self.at.get());
        }
    }
}
