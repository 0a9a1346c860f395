//! The operations: one variant per call of a process, with Linux's numbers as arguments.
//!
//! An `Op` names files by path and descriptor number only. So a script runs on the model, on the
//! kernel and on the library, and a shrunk script still makes sense.

use crate::bytes::Bytes;

/// A descriptor number.
pub type Fd = i32;

/// The current directory as `dirfd`.
pub const CWD: Fd = libc::AT_FDCWD;

/// Content to write, given by a recipe so that scripts print short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// First byte; the following bytes count up, modulo 251.
    pub seed: u8,
    /// Length in bytes.
    pub len: usize,
}

impl Fill {
    /// The bytes themselves.
    pub fn bytes(self) -> Vec<u8> {
        (0..self.len)
            .map(|i| ((usize::from(self.seed) + i) % 251) as u8)
            .collect()
    }
}

/// One time of `utimensat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// `UTIME_NOW`.
    Now,
    /// `UTIME_OMIT`.
    Omit,
    /// Seconds and nanoseconds; nanoseconds of 10^9 and more are invalid.
    At(i64, u32),
}

/// The object of an extended-attribute call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A path, followed to its end (`getxattr`).
    Path(Bytes),
    /// A path whose last symlink is not followed (`lgetxattr`).
    Link(Bytes),
    /// A descriptor (`fgetxattr`).
    Fd(Fd),
}

/// Kind of a record lock request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockKind {
    /// `F_RDLCK`
    Read,
    /// `F_WRLCK`
    Write,
    /// `F_UNLCK`
    Unlock,
}

/// Arguments of a record lock call (`struct flock`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockSpec {
    /// Open-file-description lock (`F_OFD_*`) instead of a lock of the process.
    pub ofd: bool,
    /// The requested kind.
    pub kind: LockKind,
    /// `SEEK_SET`, `SEEK_CUR` or `SEEK_END`.
    pub whence: i32,
    /// Start relative to `whence`.
    pub start: i64,
    /// Length; 0 means to the end, negative means before `start`.
    pub len: i64,
}

/// One call of one process. Flags and modes are the bits of the system call.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // The fields carry the names of the system call's parameters.
pub enum Op {
    // Descriptors.
    Open {
        dirfd: Fd,
        path: Bytes,
        flags: i32,
        mode: u32,
    },
    Close {
        fd: Fd,
    },
    Dup {
        fd: Fd,
    },
    Dup2 {
        fd: Fd,
        to: Fd,
    },
    Dup3 {
        fd: Fd,
        to: Fd,
        flags: i32,
    },
    /// `F_DUPFD` and `F_DUPFD_CLOEXEC`.
    DupFrom {
        fd: Fd,
        least: Fd,
        cloexec: bool,
    },
    /// `F_GETFD`
    GetFdFlags {
        fd: Fd,
    },
    /// `F_SETFD`
    SetFdFlags {
        fd: Fd,
        cloexec: bool,
    },
    /// `F_GETFL`
    GetStatus {
        fd: Fd,
    },
    /// `F_SETFL`
    SetStatus {
        fd: Fd,
        flags: i32,
    },

    // Data.
    Read {
        fd: Fd,
        len: usize,
    },
    ReadV {
        fd: Fd,
        lens: Vec<usize>,
    },
    ReadAt {
        fd: Fd,
        len: usize,
        offset: i64,
    },
    ReadVAt {
        fd: Fd,
        lens: Vec<usize>,
        offset: i64,
    },
    Write {
        fd: Fd,
        data: Fill,
    },
    WriteV {
        fd: Fd,
        parts: Vec<Fill>,
    },
    WriteAt {
        fd: Fd,
        data: Fill,
        offset: i64,
    },
    WriteVAt {
        fd: Fd,
        parts: Vec<Fill>,
        offset: i64,
    },
    Seek {
        fd: Fd,
        offset: i64,
        whence: i32,
    },
    Truncate {
        path: Bytes,
        len: i64,
    },
    TruncateFd {
        fd: Fd,
        len: i64,
    },
    Allocate {
        fd: Fd,
        mode: i32,
        offset: i64,
        len: i64,
    },
    /// `copy_file_range`; an offset of `None` uses and moves the file position.
    Copy {
        from: Fd,
        from_at: Option<i64>,
        to: Fd,
        to_at: Option<i64>,
        len: usize,
        flags: u32,
    },
    /// `fsync` and `fdatasync`.
    Sync {
        fd: Fd,
        data_only: bool,
    },
    /// `syncfs`
    SyncFs {
        fd: Fd,
    },

    // Attributes.
    Stat {
        dirfd: Fd,
        path: Bytes,
        flags: i32,
    },
    StatFd {
        fd: Fd,
    },
    StatX {
        dirfd: Fd,
        path: Bytes,
        flags: i32,
        mask: u32,
    },
    Access {
        dirfd: Fd,
        path: Bytes,
        mask: i32,
        flags: i32,
    },
    Chmod {
        dirfd: Fd,
        path: Bytes,
        mode: u32,
        flags: i32,
    },
    ChmodFd {
        fd: Fd,
        mode: u32,
    },
    Chown {
        dirfd: Fd,
        path: Bytes,
        uid: Option<u32>,
        gid: Option<u32>,
        flags: i32,
    },
    ChownFd {
        fd: Fd,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    SetTimes {
        dirfd: Fd,
        path: Bytes,
        times: [SetTime; 2],
        flags: i32,
    },
    SetTimesFd {
        fd: Fd,
        times: [SetTime; 2],
    },
    /// `FS_IOC_GETFLAGS`
    GetFlags {
        fd: Fd,
    },
    /// `FS_IOC_SETFLAGS`
    SetFlags {
        fd: Fd,
        flags: u32,
    },
    /// `FS_IOC_FSGETXATTR`
    GetProject {
        fd: Fd,
    },
    /// `FS_IOC_FSSETXATTR`
    SetProject {
        fd: Fd,
        xflags: u32,
        project: u32,
    },

    // Names.
    Link {
        old_dirfd: Fd,
        old: Bytes,
        new_dirfd: Fd,
        new: Bytes,
        flags: i32,
    },
    Symlink {
        target: Bytes,
        dirfd: Fd,
        path: Bytes,
    },
    ReadLink {
        dirfd: Fd,
        path: Bytes,
    },
    Unlink {
        dirfd: Fd,
        path: Bytes,
        flags: i32,
    },
    MakeDir {
        dirfd: Fd,
        path: Bytes,
        mode: u32,
    },
    MakeNode {
        dirfd: Fd,
        path: Bytes,
        mode: u32,
        rdev: u32,
    },
    Rename {
        old_dirfd: Fd,
        old: Bytes,
        new_dirfd: Fd,
        new: Bytes,
        flags: u32,
    },
    /// All entries of a directory except "." and "..", opened by path.
    List {
        path: Bytes,
    },
    /// Rewinds an open directory, reads `split` entries, remembers the position, rewinds again,
    /// seeks back to it and reads the rest. Without `split` reads it at once.
    ListFd {
        fd: Fd,
        split: Option<usize>,
    },

    // Extended attributes.
    GetXattr {
        target: Target,
        name: Bytes,
    },
    SetXattr {
        target: Target,
        name: Bytes,
        value: Bytes,
        flags: i32,
    },
    ListXattr {
        target: Target,
    },
    RemoveXattr {
        target: Target,
        name: Bytes,
    },

    // Locks, never waiting.
    Flock {
        fd: Fd,
        op: i32,
    },
    SetLock {
        fd: Fd,
        lock: LockSpec,
    },
    GetLock {
        fd: Fd,
        lock: LockSpec,
    },

    // The process itself.
    ChangeDir {
        path: Bytes,
    },
    ChangeDirFd {
        fd: Fd,
    },
    GetCwd,
    ChangeRoot {
        path: Bytes,
    },
    Umask {
        mask: u32,
    },
    SetCredentials {
        uid: u32,
        gid: u32,
        groups: Vec<u32>,
    },
    /// Makes a process with the next free index.
    Fork,
    /// Closes everything; the index is not used again.
    Exit,
}
