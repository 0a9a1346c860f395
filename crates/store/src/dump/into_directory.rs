//! From a stream into a plain directory of any filesystem.
//!
//! The target is the loader's alone until all is made. A directory is open while its names come,
//! and every name is made relative to it: nothing that somebody puts in the way leads elsewhere. Of
//! a deep tree the lowest directories are open, and those above are opened again when their names
//! go on.
//! Owners, modes and times of a directory come when it is left, flags at the very end, so that
//! nothing made later is in the way or moves them.

use super::beneath::MadeFile;
use super::entry::{Entry, FileMap, What, device_parts};
use super::error::{DumpError, Dumped, StreamFault, of};
use super::open_directory::{OPEN_MOST, OpenDirectory, found_again};
use super::order::Order;
use super::stream::DumpReader;
use super::{DumpWatch, PAGE, Progress};
use hearth_backend::{Errno, Inode, Kind, flags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Gid, IFlags, Mode, OFlags, Uid};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a plain directory did not take, by what it is: how many times, and the first path.
pub type LeftOut = BTreeMap<&'static str, (u64, Vec<u8>)>;

/// The key of files that are larger than the filesystem of the directory takes: nothing of them is
/// there, nor any of their names.
pub const TOO_LARGE: &str = "files";

/// Loads all that `reader` gives into `directory`, which is empty. What belongs to a volume alone
/// (limits, projects, heat, times of creation) stays out, and what this user or filesystem may not
/// have is counted.
///
/// # Errors
/// The directory is not empty, the stream is damaged, or a file cannot be made. What was loaded up
/// to then stays.
pub fn into_directory(
    reader: &mut DumpReader<impl Read>,
    directory: &Path,
    watch: DumpWatch<'_>,
) -> Dumped<(Progress, LeftOut)> {
    let open = DumpError::at(b"", "open");
    let root = rustix::fs::open(directory, DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|error| open(of(error)))?;
    let mut names = std::fs::read_dir(directory).map_err(|error| open(error.into()))?;
    if names.next().is_some() {
        return Err(DumpError::NotEmpty);
    }
    close_to_others(&root);
    let mut load = DirectoryLoad {
        root,
        order: Order::default(),
        first_names: HashMap::new(),
        flags: Vec::new(),
        left_out: LeftOut::new(),
        is_root: rustix::process::geteuid().is_root(),
        done: Progress::default(),
        watch,
    };
    while let Some(entry) = reader.member()? {
        load.member(reader, entry)?;
    }
    load.end(reader)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
const NEW_FILE: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Flags that a file gets at the end.
struct LateFlags {
    path: Vec<u8>,
    file: MadeFile,
    flags: u32,
}

/// A load that is under way.
pub(super) struct DirectoryLoad<'a> {
    root: OwnedFd,
    order: Order<OpenDirectory>,
    /// Files that have several names, by the first path of each.
    first_names: HashMap<Vec<u8>, MadeFile>,
    /// Flags that forbid changes.
    flags: Vec<LateFlags>,
    left_out: LeftOut,
    pub(super) is_root: bool,
    done: Progress,
    watch: DumpWatch<'a>,
}

impl DirectoryLoad<'_> {
    fn member<R: Read>(&mut self, reader: &mut DumpReader<R>, entry: Entry) -> Dumped<()> {
        let Entry { path, what } = entry;
        let mut left = Vec::new();
        let found = self.order.find(&path, |open| {
            left.push(open);
            Ok::<(), StreamFault>(())
        });
        let place = found.map_err(|fault| reader.fault(fault))?;
        let place = match place {
            Some((open, name)) => {
                let directory = open.open(&self.root)?.try_clone();
                Some((directory, name.to_vec()))
            }
            None => None,
        };
        for open in left {
            self.leave(open)?;
        }
        match (place, what) {
            (None, What::Inode(inode, _)) if inode.attrs.kind == Kind::Directory => {
                let directory = self.root.try_clone();
                let directory = directory.map_err(|e| DumpError::at(b"", "open")(e.into()))?;
                self.enter(directory, path, *inode)?;
            }
            (None, _) => return Err(reader.fault(StreamFault::Orphan)),
            (Some((directory, name)), what) => {
                let directory = directory.map_err(|e| DumpError::at(&path, "open")(e.into()))?;
                match what {
                    What::Inode(inode, map) => {
                        self.inode(reader, directory.as_fd(), &name, path, *inode, &map)?;
                    }
                    What::Link(to) => self.link(reader, directory.as_fd(), &name, &path, &to)?,
                }
            }
        }
        self.done.members += 1;
        (self.watch)(&self.done);
        Ok(())
    }

    fn inode<R: Read>(
        &mut self,
        reader: &mut DumpReader<R>,
        at: BorrowedFd<'_>,
        name: &[u8],
        path: Vec<u8>,
        inode: Inode,
        map: &FileMap,
    ) -> Dumped<()> {
        let failed = |op| {
            let failed = DumpError::at(&path, op);
            move |error| failed(of(error))
        };
        let kind = inode.attrs.kind;
        let has_several = kind != Kind::Directory && inode.attrs.nlink > 1;
        let private = Mode::RUSR | Mode::WUSR;
        match kind {
            Kind::Directory => {
                rustix::fs::mkdirat(at, name, Mode::RWXU).map_err(failed("make"))?;
                let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(at, name, flags, Mode::empty());
                let opened = opened.map_err(failed("open"))?;
                return self.enter(opened, path, inode);
            }
            Kind::File => {
                let made = rustix::fs::openat(at, name, NEW_FILE, private);
                let file = std::fs::File::from(made.map_err(failed("make"))?);
                match self.contents(reader, &file, &path, &inode, map) {
                    Err(DumpError::At { errno, .. }) if errno == Errno::EFBIG => {
                        let none = AtFlags::empty();
                        rustix::fs::unlinkat(at, name, none).map_err(failed("remove"))?;
                        self.leave_out(TOO_LARGE, &path);
                        return Ok(());
                    }
                    done => done?,
                }
                if has_several {
                    let made = MadeFile::of(&file).map_err(failed("look at"))?;
                    self.first_names.insert(path.clone(), made);
                }
                return self.dress(file.as_fd(), &path, &inode);
            }
            Kind::Symlink => {
                rustix::fs::symlinkat(&*inode.target, at, name).map_err(failed("make"))?;
            }
            Kind::Fifo | Kind::Socket | Kind::Char | Kind::Block => {
                let (kind, what) = match kind {
                    Kind::Fifo => (FileType::Fifo, "named pipes"),
                    Kind::Socket => (FileType::Socket, "sockets"),
                    Kind::Char => (FileType::CharacterDevice, "devices"),
                    _ => (FileType::BlockDevice, "devices"),
                };
                let (major, minor) = device_parts(inode.attrs.rdev);
                let device = rustix::fs::makedev(major, minor);
                match rustix::fs::mknodat(at, name, kind, private, device) {
                    Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) if !self.is_root => {
                        self.leave_out(what, &path);
                        return Ok(());
                    }
                    done => done.map_err(failed("make"))?,
                }
            }
        }
        if has_several {
            let made = MadeFile::named(at, name).map_err(failed("look at"))?;
            self.first_names.insert(path.clone(), made);
        }
        self.dress_name(at, name, &path, &inode)
    }

    fn link<R: Read>(
        &mut self,
        reader: &DumpReader<R>,
        at: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        to: &[u8],
    ) -> Dumped<()> {
        let Some(first) = self.first_names.get(to) else {
            return if self.left_out.is_empty() {
                Err(reader.fault(StreamFault::LinkToNothing))
            } else {
                self.leave_out("names of what was left out", path);
                Ok(())
            };
        };
        let linked = first.link(self.root.as_fd(), to, at, name);
        linked.map_err(|error| found_again(error, to, path, "link"))
    }

    fn contents<R: Read>(
        &mut self,
        reader: &mut DumpReader<R>,
        file: &std::fs::File,
        path: &[u8],
        inode: &Inode,
        map: &FileMap,
    ) -> Dumped<()> {
        let failed = DumpError::at(path, "write");
        file.set_len(inode.size)
            .map_err(|error| failed(error.into()))?;
        for pages in &map.unwritten {
            let (at, len) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
            let keep = FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(file, keep, at, len) {
                Err(rustix::io::Errno::OPNOTSUPP) => self.leave_out("reserved room", path),
                done => done.map_err(|error| failed(of(error)))?,
            }
        }
        let mut buffer = vec![0; 1 << 20];
        for Range { start, end } in map.written.iter().cloned() {
            let mut at = start;
            while at < end {
                let piece = (end - at).min(buffer.len() as u64) as usize;
                reader.contents(&mut buffer[..piece])?;
                let written = file.write_all_at(&buffer[..piece], at);
                written.map_err(|error| failed(error.into()))?;
                at += piece as u64;
                self.done.bytes += piece as u64;
                (self.watch)(&self.done);
            }
        }
        Ok(())
    }

    fn enter(&mut self, directory: OwnedFd, path: Vec<u8>, inode: Inode) -> Dumped<()> {
        let made = MadeFile::of(&directory);
        let made = made.map_err(|error| DumpError::at(&path, "look at")(of(error)))?;
        let open = OpenDirectory {
            directory: Some(directory),
            made,
            path: path.clone(),
            inode,
        };
        self.order.enter(&path, open);
        if let Some(above) = self.order.above(OPEN_MOST) {
            above.directory = None;
        }
        Ok(())
    }

    fn leave(&mut self, mut open: OpenDirectory) -> Dumped<()> {
        open.open(&self.root)?;
        let OpenDirectory {
            directory,
            path,
            inode,
            ..
        } = open;
        match directory {
            Some(directory) => self.dress(directory.as_fd(), &path, &inode),
            None => Ok(()),
        }
    }

    /// Passes errors on but for those that say that this user or filesystem cannot have it.
    pub(super) fn allowed(
        &mut self,
        done: rustix::io::Result<()>,
        what: &'static str,
        path: &[u8],
    ) -> Dumped<()> {
        use rustix::io::Errno as E;
        match done {
            Err(E::PERM | E::ACCESS | E::OPNOTSUPP | E::INVAL | E::NOSPC | E::TOOBIG) => {
                self.leave_out(what, path);
                Ok(())
            }
            done => done.map_err(|error| DumpError::at(path, "set attributes")(of(error))),
        }
    }

    /// Notes flags that come at the end.
    pub(super) fn flag_later(&mut self, file: MadeFile, path: &[u8], flags: u32) {
        let path = path.to_vec();
        self.flags.push(LateFlags { path, file, flags });
    }

    pub(super) fn leave_out(&mut self, what: &'static str, path: &[u8]) {
        let (count, _) = self.left_out.entry(what).or_insert((0, path.to_vec()));
        *count += 1;
    }

    fn end<R: Read>(mut self, reader: &DumpReader<R>) -> Dumped<(Progress, LeftOut)> {
        if self.done.members == 0 {
            return Err(reader.fault(StreamFault::Orphan));
        }
        let mut open: Vec<_> = std::mem::take(&mut self.order).end().collect();
        let root = open.pop();
        for open in open {
            self.leave(open)?;
        }
        self.set_flags();
        // The last of all: with it others may come in.
        if let Some(root) = root {
            self.leave(root)?;
        }
        self.set_flags();
        Ok((self.done, self.left_out))
    }

    fn set_flags(&mut self) {
        for LateFlags { path, file, flags } in std::mem::take(&mut self.flags).into_iter().rev() {
            let file = match &*path {
                b"" => rustix::io::fcntl_dupfd_cloexec(&self.root, 0),
                path => file.open(self.root.as_fd(), path),
            };
            let wanted = IFlags::from_bits_retain(flags & flags::SETTABLE);
            let set = file.and_then(|file| {
                let now = rustix::fs::ioctl_getflags(&file)?;
                rustix::fs::ioctl_setflags(&file, now | wanted)
            });
            if set.is_err() {
                self.leave_out("flags", &path);
            }
        }
    }
}

/// Lets nobody else into the target before the end, as far as this user may say so: what is dressed
/// belongs to others, who could put something else in its place. At the end it is dressed as well.
fn close_to_others(root: &OwnedFd) {
    if rustix::process::geteuid().is_root() {
        let _ = rustix::fs::fchown(root, Some(Uid::ROOT), Some(Gid::ROOT));
    }
    let _ = rustix::fs::fchmod(root, Mode::RWXU);
}
