//! Calls of the library as statistics distinguish them, and the counts of each.

use crate::named::named;

named! {
    /// A call of [`crate::Process`], by its system call. The ways to name a path are one call, the
    /// one that takes a directory's descriptor: `open` counts as `openat`, `rmdir` as `unlinkat`. A
    /// descriptor instead of a path is another call: `fstat`.
    Call {
        Openat "openat", Close "close",
        Read "read", Pread "pread", Readv "readv", Preadv "preadv",
        Write "write", Pwrite "pwrite", Writev "writev", Pwritev "pwritev",
        Lseek "lseek", Truncate "truncate", Ftruncate "ftruncate", Fallocate "fallocate",
        CopyFileRange "copy_file_range", Fsync "fsync", Fdatasync "fdatasync", Syncfs "syncfs",
        Fstatat "fstatat", Fstat "fstat", Statx "statx", Faccessat "faccessat",
        Fchmodat "fchmodat", Fchmod "fchmod", Fchownat "fchownat", Fchown "fchown",
        Utimensat "utimensat", Futimens "futimens", Statfs "statfs", Fstatfs "fstatfs",
        Ioctl "ioctl",
        Linkat "linkat", Symlinkat "symlinkat", Readlinkat "readlinkat", Mkdirat "mkdirat",
        Mknodat "mknodat", Unlinkat "unlinkat", Renameat2 "renameat2",
        ReadDir "readdir", Getdents "getdents", Chdir "chdir", Fchdir "fchdir", Chroot "chroot",
        Getcwd "getcwd",
        Getxattr "getxattr", Fgetxattr "fgetxattr", Setxattr "setxattr", Fsetxattr "fsetxattr",
        Listxattr "listxattr", Flistxattr "flistxattr", Removexattr "removexattr",
        Fremovexattr "fremovexattr",
        Dup "dup", Dup2 "dup2", Dup3 "dup3", Fcntl "fcntl", Flock "flock", GetLk "getlk",
        SetLk "setlk",
        Umask "umask", Fork "fork", Execve "execve", Exit "exit",
    }
}

/// Sum over all cores for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Number of times that it returned, errors included.
    pub count: u64,
    /// Number of times that it returned an error.
    pub errors: u64,
}
