//! The operations that are tried against each other.

use hearth::{Errno, Fd, Kind, Process};
use std::hash::{DefaultHasher, Hash, Hasher};

/// An operation of a [`Process`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// `stat` of a file.
    Stat,
    /// `stat` of a name that is not there.
    Missing,
    /// `access` of a file.
    Access,
    /// `open` and `close` of a file.
    Open,
    /// `fstat`.
    FStat,
    /// `pread` of a page.
    Read,
    /// `pwrite` of a page below the size.
    Write,
    /// `write` with `O_APPEND`.
    Append,
    /// `open` that creates, and `close`.
    Create,
    /// `unlink`.
    Unlink,
    /// `mkdir`.
    Mkdir,
    /// `rmdir`.
    Rmdir,
    /// `rename` inside a directory.
    Rename,
    /// All of `readdir`.
    List,
    /// `dup` and `close`.
    Dup,
}

/// What one side of a case works on; the names are its own.
#[derive(Clone, Debug, Default)]
pub struct Operand {
    /// A directory.
    pub dir: Vec<u8>,
    /// A file in it.
    pub file: Vec<u8>,
    /// A name in it that is not there.
    pub missing: Vec<u8>,
    /// Names to be made or removed, one for each repetition.
    pub names: Vec<Vec<u8>>,
    /// New names for them.
    pub renamed: Vec<Vec<u8>>,
    /// The file, open to read and write.
    pub fd: Fd,
    /// The file, open to append.
    pub append: Fd,
    /// The page to read or write.
    pub page: u64,
}

/// Bytes of a page.
pub const PAGE: usize = 4096;

impl Verb {
    /// Every verb.
    pub const ALL: [Verb; 15] = [
        Verb::Stat,
        Verb::Missing,
        Verb::Access,
        Verb::Open,
        Verb::FStat,
        Verb::Read,
        Verb::Write,
        Verb::Append,
        Verb::Create,
        Verb::Unlink,
        Verb::Mkdir,
        Verb::Rmdir,
        Verb::Rename,
        Verb::List,
        Verb::Dup,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Stat => "stat",
            Verb::Missing => "missing",
            Verb::Access => "access",
            Verb::Open => "open",
            Verb::FStat => "fstat",
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Append => "append",
            Verb::Create => "create",
            Verb::Unlink => "unlink",
            Verb::Mkdir => "mkdir",
            Verb::Rmdir => "rmdir",
            Verb::Rename => "rename",
            Verb::List => "list",
            Verb::Dup => "dup",
        }
    }

    /// Whether it changes nothing at all, the table of descriptors included.
    pub fn only_reads(self) -> bool {
        use Verb::{Access, FStat, List, Missing, Read, Stat};
        matches!(self, Stat | Missing | Access | FStat | Read | List)
    }

    /// Whether it reads or writes a page, so that the page matters.
    pub fn has_page(self) -> bool {
        matches!(self, Verb::Read | Verb::Write)
    }

    /// Whether the names that it works on exist before.
    pub fn takes_existing(self) -> bool {
        matches!(self, Verb::Unlink | Verb::Rmdir | Verb::Rename)
    }

    /// Whether it needs a name of its own for each repetition.
    pub fn has_names(self) -> bool {
        self.takes_existing() || matches!(self, Verb::Create | Verb::Mkdir)
    }

    /// Runs it for the `i`-th time and answers its result, without numbers that the volume is free
    /// to choose. A time counts as old or, after `moment`, as new.
    pub fn run(self, p: &Process, on: &Operand, i: usize, page: &mut [u8], moment: i64) -> u64 {
        let at = on.page * PAGE as u64;
        match self {
            Verb::Stat => digest(p.stat(&on.file).map(|attr| plain(&attr, moment))),
            Verb::Missing => digest(p.stat(&on.missing).map(|_| ())),
            Verb::Access => digest(p.access(&on.file, 4)),
            Verb::Open => digest(
                p.open(&on.file, libc::O_RDONLY, 0)
                    .and_then(|fd| p.close(fd)),
            ),
            Verb::FStat => digest(p.fstat(on.fd).map(|attr| plain(&attr, moment))),
            Verb::Read => {
                let got = p.pread(on.fd, page, at);
                digest(got.map(|got| (got, page[0], page[PAGE - 1])))
            }
            Verb::Write => digest(p.pwrite(on.fd, page, at)),
            Verb::Append => digest(p.write(on.append, &page[..64])),
            Verb::Create => {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
                digest(
                    p.open(&on.names[i], flags, 0o644)
                        .and_then(|fd| p.close(fd)),
                )
            }
            Verb::Unlink => digest(p.unlink(&on.names[i])),
            Verb::Mkdir => digest(p.mkdir(&on.names[i], 0o755)),
            Verb::Rmdir => digest(p.rmdir(&on.names[i])),
            Verb::Rename => digest(p.rename(&on.names[i], &on.renamed[i])),
            Verb::List => digest(list(p, &on.dir)),
            Verb::Dup => digest(p.dup(on.fd).and_then(|fd| p.close(fd))),
        }
    }
}

/// The names and types of a directory, whatever their order.
fn list(p: &Process, dir: &[u8]) -> Result<u64, Errno> {
    let entries = p.read_dir(dir)?;
    let each = entries
        .iter()
        .map(|entry| hash((&entry.name, entry.kind as u8)));
    Ok(each.fold(0, u64::wrapping_add))
}

/// Attributes without number and with times as old or new.
pub fn plain(attr: &hearth::Attr, moment: i64) -> impl Hash + use<> {
    let is_new = |time: hearth::Time| time.sec > moment;
    let kept = (attr.kind as u8, attr.perm, attr.nlink, attr.uid, attr.gid);
    let size = if attr.kind == Kind::Directory {
        0
    } else {
        attr.blocks
    };
    (
        kept,
        attr.size,
        size,
        is_new(attr.atime),
        is_new(attr.mtime),
        is_new(attr.ctime),
    )
}

/// A hash with fixed keys.
pub fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn digest<T: Hash>(result: Result<T, Errno>) -> u64 {
    match result {
        Ok(value) => hash((0, value)),
        Err(errno) => hash((1, errno.0)),
    }
}
