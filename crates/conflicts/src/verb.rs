//! Verbs: the operations that are tried against each other.

/// A call of a process. Where one call does different things by its flags, each is a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the variants are the calls of their names")]
pub enum Verb {
    Open,
    /// `open` with `O_CREAT` of a missing name.
    CreateNew,
    /// `open` with `O_CREAT` of a file.
    CreateExisting,
    /// `open` with `O_CREAT` and `O_EXCL`.
    Exclusive,
    Close,
    Read,
    PRead,
    Write,
    PWrite,
    /// `write` with `O_APPEND`.
    Append,
    Stat,
    FStat,
    LSeek,
    Truncate,
    Link,
    Unlink,
    Rename,
    MkDir,
    RmDir,
    ReadDir,
    Symlink,
    ReadLink,
    ChMod,
    UTimens,
    Access,
    Dup,
    Dup2,
    GetXattr,
    SetXattr,
    FLock,
    /// `fcntl` with `F_SETLK`.
    SetLock,
    StatFs,
    Fork,
    /// The end of a process.
    Exit,
}

use Verb::{
    Access, Append, ChMod, Close, CreateExisting, CreateNew, Dup, Dup2, Exclusive, Exit, FLock,
    FStat, Fork, GetXattr, LSeek, Link, MkDir, Open, PRead, PWrite, Read, ReadDir, ReadLink,
    Rename, RmDir, SetLock, SetXattr, Stat, StatFs, Symlink, Truncate, UTimens, Unlink, Write,
};

impl Verb {
    /// Every verb, in the order of the matrix.
    #[rustfmt::skip]
    pub const ALL: [Verb; 34] = [
        Open, CreateNew, CreateExisting, Exclusive, Close, Read, PRead, Write, PWrite, Append,
        Stat, FStat, LSeek, Truncate, Link, Unlink, Rename, MkDir, RmDir, ReadDir, Symlink,
        ReadLink, ChMod, UTimens, Access, Dup, Dup2, GetXattr, SetXattr, FLock, SetLock,
        StatFs, Fork, Exit,
    ];

    /// Returns its name in reports and in the allow-list.
    pub fn name(self) -> &'static str {
        match self {
            Open => "open",
            CreateNew => "creat",
            CreateExisting => "creat-old",
            Exclusive => "excl",
            Close => "close",
            Read => "read",
            PRead => "pread",
            Write => "write",
            PWrite => "pwrite",
            Append => "append",
            Stat => "stat",
            FStat => "fstat",
            LSeek => "lseek",
            Truncate => "truncate",
            Link => "link",
            Unlink => "unlink",
            Rename => "rename",
            MkDir => "mkdir",
            RmDir => "rmdir",
            ReadDir => "readdir",
            Symlink => "symlink",
            ReadLink => "readlink",
            ChMod => "chmod",
            UTimens => "utimensat",
            Access => "access",
            Dup => "dup",
            Dup2 => "dup2",
            GetXattr => "getxattr",
            SetXattr => "setxattr",
            FLock => "flock",
            SetLock => "setlk",
            StatFs => "statfs",
            Fork => "fork",
            Exit => "exit",
        }
    }

    /// Returns the verb of a name.
    pub fn of(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// Returns whether it works on an open descriptor.
    pub fn has_descriptor(self) -> bool {
        let io = matches!(self, Read | PRead | Write | PWrite | Append | LSeek | FStat);
        io || matches!(self, Close | Dup | Dup2 | FLock | SetLock)
    }

    /// Returns whether it moves or uses the offset of the open file.
    pub fn has_offset(self) -> bool {
        matches!(self, Read | Write)
    }

    /// Returns whether it changes nothing, offsets and descriptors included.
    pub fn only_reads(self) -> bool {
        let files = matches!(self, Stat | FStat | PRead | Access | GetXattr);
        files || matches!(self, ReadLink | ReadDir | StatFs)
    }

    /// Returns whether it stores a value that another call may store as well.
    pub fn has_value(self) -> bool {
        matches!(self, Write | PWrite | ChMod | UTimens | SetXattr)
    }
}
