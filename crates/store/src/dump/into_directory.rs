//! From a stream into a plain directory of any filesystem.
//!
//! A directory is open while its names come, and every name is made relative to it: nothing that
//! somebody puts in the way leads elsewhere. Owners, modes and times of a directory come when it is
//! left, flags at the very end, so that nothing made later is in the way or moves them.

use super::entry::{Entry, FileMap, What, device_parts};
use super::error::{DumpError, Dumped, StreamFault};
use super::order::Order;
use super::stream::DumpReader;
use super::{DumpWatch, PAGE, Progress};
use hearth_backend::{Errno, Inode, Kind, flags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Gid, IFlags, Mode, OFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};
use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a plain directory did not take, by what it is: how many times, and the first path.
pub type LeftOut = BTreeMap<&'static str, (u64, Vec<u8>)>;

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
    let mut load = DirectoryLoad {
        root,
        order: Order::default(),
        first_names: HashSet::new(),
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

/// A directory whose names come.
struct OpenDirectory {
    directory: OwnedFd,
    path: Vec<u8>,
    inode: Inode,
}

struct DirectoryLoad<'a> {
    root: OwnedFd,
    order: Order<OpenDirectory>,
    /// Paths of files that have several names.
    first_names: HashSet<Vec<u8>>,
    /// Flags that forbid changes: path and flags.
    flags: Vec<(Vec<u8>, u32)>,
    left_out: LeftOut,
    is_root: bool,
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
        let place = place.map(|(open, name)| {
            let directory = open.directory.try_clone();
            (directory, name.to_vec())
        });
        for open in left {
            self.leave(open)?;
        }
        match (place, what) {
            (None, What::Inode(inode, _)) if inode.attrs.kind == Kind::Directory => {
                let directory = self.root.try_clone();
                let directory = directory.map_err(|e| DumpError::at(b"", "open")(e.into()))?;
                self.enter(directory, path, *inode);
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
        if kind != Kind::Directory && inode.attrs.nlink > 1 {
            self.first_names.insert(path.clone());
        }
        let private = Mode::RUSR | Mode::WUSR;
        match kind {
            Kind::Directory => {
                rustix::fs::mkdirat(at, name, Mode::RWXU).map_err(failed("make"))?;
                let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(at, name, flags, Mode::empty());
                let opened = opened.map_err(failed("open"))?;
                self.enter(opened, path, inode);
                return Ok(());
            }
            Kind::File => {
                let made = rustix::fs::openat(at, name, NEW_FILE, private);
                let file = std::fs::File::from(made.map_err(failed("make"))?);
                self.contents(reader, &file, &path, &inode, map)?;
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
                        self.first_names.remove(&path);
                        self.leave_out(what, &path);
                        return Ok(());
                    }
                    done => done.map_err(failed("make"))?,
                }
            }
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
        if !self.first_names.contains(to) {
            return if self.left_out.is_empty() {
                Err(reader.fault(StreamFault::LinkToNothing))
            } else {
                self.leave_out("names of what was left out", path);
                Ok(())
            };
        }
        // All directories of `to` were made by this load.
        let linked = rustix::fs::linkat(&self.root, to, at, name, AtFlags::empty());
        linked.map_err(|error| DumpError::at(path, "link")(of(error)))
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

    fn enter(&mut self, directory: OwnedFd, path: Vec<u8>, inode: Inode) {
        let open = OpenDirectory {
            directory,
            path: path.clone(),
            inode,
        };
        self.order.enter(&path, open);
    }

    fn leave(&mut self, open: OpenDirectory) -> Dumped<()> {
        self.dress(open.directory.as_fd(), &open.path, &open.inode)
    }

    /// Owner, attributes, mode and times of an open file or directory, in the order in which none
    /// undoes another.
    fn dress(&mut self, file: BorrowedFd<'_>, path: &[u8], inode: &Inode) -> Dumped<()> {
        let attrs = &inode.attrs;
        if self.is_root {
            let owned = rustix::fs::fchown(file, uid(attrs.uid), gid(attrs.gid));
            self.allowed(owned, "owners", path)?;
        } else {
            self.leave_out("owners", path);
        }
        for (name, value) in &inode.xattrs {
            let set = rustix::fs::fsetxattr(file, &**name, value, XattrFlags::empty());
            self.allowed(set, "extended attributes", path)?;
        }
        let mode = Mode::from_raw_mode(u32::from(attrs.perm));
        let failed = DumpError::at(path, "set attributes");
        rustix::fs::fchmod(file, mode).map_err(|error| failed(of(error)))?;
        rustix::fs::futimens(file, &times(inode)).map_err(|error| failed(of(error)))?;
        if attrs.flags & flags::SETTABLE != 0 {
            self.flags.push((path.to_vec(), attrs.flags));
        }
        if attrs.project != 0 {
            self.leave_out("projects", path);
        }
        Ok(())
    }

    /// Owner, mode and times of what is not opened: links, pipes, sockets and devices.
    fn dress_name(
        &mut self,
        at: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        inode: &Inode,
    ) -> Dumped<()> {
        let attrs = &inode.attrs;
        let no_follow = AtFlags::SYMLINK_NOFOLLOW;
        let failed = DumpError::at(path, "set attributes");
        if self.is_root {
            let (uid, gid) = (uid(attrs.uid), gid(attrs.gid));
            let owned = rustix::fs::chownat(at, name, uid, gid, no_follow);
            self.allowed(owned, "owners", path)?;
        }
        if !inode.xattrs.is_empty() {
            // There is no call for them that takes a directory and follows no link.
            self.leave_out("extended attributes of links and special files", path);
        }
        if attrs.kind != Kind::Symlink {
            let mode = Mode::from_raw_mode(u32::from(attrs.perm));
            let set = rustix::fs::chmodat(at, name, mode, AtFlags::empty());
            set.map_err(|error| failed(of(error)))?;
        }
        let set = rustix::fs::utimensat(at, name, &times(inode), no_follow);
        set.map_err(|error| failed(of(error)))
    }

    /// Passes errors on but for those that say that this user or filesystem cannot have it.
    fn allowed(
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

    fn leave_out(&mut self, what: &'static str, path: &[u8]) {
        let (count, _) = self.left_out.entry(what).or_insert((0, path.to_vec()));
        *count += 1;
    }

    fn end<R: Read>(mut self, reader: &DumpReader<R>) -> Dumped<(Progress, LeftOut)> {
        if self.done.members == 0 {
            return Err(reader.fault(StreamFault::Orphan));
        }
        for open in std::mem::take(&mut self.order).end() {
            self.leave(open)?;
        }
        for (path, flags) in std::mem::take(&mut self.flags).into_iter().rev() {
            self.flag(&path, flags)?;
        }
        Ok((self.done, self.left_out))
    }

    fn flag(&mut self, path: &[u8], flags: u32) -> Dumped<()> {
        let name = if path.is_empty() { b"." } else { path };
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.root, name, how, Mode::empty());
        let Ok(file) = opened else {
            self.leave_out("flags", path);
            return Ok(());
        };
        let wanted = IFlags::from_bits_retain(flags & flags::SETTABLE);
        let set = rustix::fs::ioctl_getflags(&file)
            .and_then(|now| rustix::fs::ioctl_setflags(&file, now | wanted));
        if set.is_err() {
            self.leave_out("flags", path);
        }
        Ok(())
    }
}

fn times(inode: &Inode) -> Timestamps {
    let time = |time: hearth_backend::Time| Timespec {
        tv_sec: time.sec,
        tv_nsec: time.nsec.into(),
    };
    Timestamps {
        last_access: time(inode.attrs.atime),
        last_modification: time(inode.attrs.mtime),
    }
}

fn uid(uid: u32) -> Option<Uid> {
    Some(Uid::from_raw(uid))
}

fn gid(gid: u32) -> Option<Gid> {
    Some(Gid::from_raw(gid))
}

fn of(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
