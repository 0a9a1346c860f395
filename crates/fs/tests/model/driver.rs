//! Operations of the model as calls of `hearth::Process`.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use hearth::{Credentials, FsXAttr, Process, Result, Time, Volume};
use hearth_model::{
    Attr, Bytes, CWD, Entry, Fd, Fill, Kind, LockInfo, LockKind, LockSpec, Op, Outcome, PROCESSES,
    PageCount, STATUS, SetTime, Stamp, StatX, System, Target,
};

/// A volume and the processes that use it.
pub struct Library {
    volume: Volume,
    processes: Vec<Option<Arc<Process>>>,
}

impl Library {
    /// The processes of [`PROCESSES`] on a new volume.
    pub fn new(volume: Volume) -> Library {
        let processes = PROCESSES
            .iter()
            .map(|(uid, gid, groups)| volume.process(credentials(*uid, *gid, groups)))
            .map(|process| Some(Arc::new(process)))
            .collect();
        Library { volume, processes }
    }

    /// A driver like that of `new`, with the directory `root` as the root of each.
    #[allow(
        dead_code,
        reason = "not every test program that has a driver shares a volume"
    )]
    pub fn below(volume: Volume, root: &str) -> Library {
        let library = Library::new(volume);
        for process in library.processes.iter().flatten() {
            let own = process.credentials();
            process.set_credentials(Credentials::root());
            process.chroot(root).expect("it is a directory");
            process.chdir("/").expect("it is a directory");
            process.set_credentials(own);
        }
        library
    }

    /// The volume.
    #[allow(
        dead_code,
        reason = "not every test program that has a driver asks for it"
    )]
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// A process that has not ended.
    #[allow(
        dead_code,
        reason = "not every test program that has a driver has threads"
    )]
    pub fn process(&self, p: usize) -> Option<Arc<Process>> {
        self.processes.get(p)?.clone()
    }

    /// Closes every descriptor of every process and answers how many are open all the same.
    #[allow(
        dead_code,
        reason = "not every test program that has a driver looks at descriptors"
    )]
    pub fn close_all(&mut self) -> usize {
        let processes = self.processes.iter().flatten();
        processes.fold(0, |left, process| {
            for fd in process.open_fds() {
                process.close(fd).expect("it is open");
            }
            left + process.open_fds().len()
        })
    }

    /// Lets every process end.
    #[allow(
        dead_code,
        reason = "not every test program that has a driver ends its processes"
    )]
    pub fn exit_all(&mut self) {
        self.processes.clear();
    }
}

impl System for Library {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        let Some(Some(process)) = self.processes.get(p) else {
            return Outcome::Unspecified;
        };
        match op {
            Op::Fork => {
                let child = process.fork();
                self.processes.push(Some(Arc::new(child)));
                Outcome::Process(self.processes.len() - 1)
            }
            Op::Exit => {
                self.processes[p] = None;
                Outcome::Done
            }
            op => Call {
                process,
                volume: &self.volume,
            }
            .apply(op),
        }
    }
}

/// One call under way.
struct Call<'a> {
    process: &'a Process,
    volume: &'a Volume,
}

impl Call<'_> {
    fn apply(&self, op: &Op) -> Outcome {
        let result = self
            .descriptors(op)
            .or_else(|| self.data(op))
            .or_else(|| self.attributes(op))
            .or_else(|| self.names(op))
            .or_else(|| self.others(op))
            .expect("every operation belongs to a family");
        result.unwrap_or_else(|errno| Outcome::Error(errno.0))
    }

    fn descriptors(&self, op: &Op) -> Option<Result<Outcome>> {
        let process = self.process;
        Some(match op {
            Op::Open {
                dirfd: CWD,
                path,
                flags,
                mode,
            } => process
                .open(&**path, *flags, (mode & 0o7777) as u16)
                .map(Outcome::Fd),
            Op::Open {
                dirfd,
                path,
                flags,
                mode,
            } => process
                .openat(*dirfd, &**path, *flags, (mode & 0o7777) as u16)
                .map(Outcome::Fd),
            Op::Close { fd } => process.close(*fd).map(done),
            Op::Dup { fd } => process.dup(*fd).map(Outcome::Fd),
            Op::Dup2 { fd, to } => process.dup2(*fd, *to).map(Outcome::Fd),
            Op::Dup3 { fd, to, flags } => process.dup3(*fd, *to, *flags).map(Outcome::Fd),
            Op::DupFrom { fd, least, cloexec } => {
                process.dupfd(*fd, *least, *cloexec).map(Outcome::Fd)
            }
            Op::GetFdFlags { fd } => process
                .cloexec(*fd)
                .map(|cloexec| Outcome::Number(u64::from(cloexec))),
            Op::SetFdFlags { fd, cloexec } => process.set_cloexec(*fd, *cloexec).map(done),
            Op::GetStatus { fd } => {
                let status = |flags: i32| Outcome::Number((flags & STATUS) as u64);
                process.status_flags(*fd).map(status)
            }
            Op::SetStatus { fd, flags } => process.set_status_flags(*fd, *flags).map(done),
            _ => return None,
        })
    }

    fn data(&self, op: &Op) -> Option<Result<Outcome>> {
        let process = self.process;
        let count = |count: usize| Outcome::Number(count as u64);
        Some(match op {
            Op::Read { fd, len } => read(&[*len], |outs| process.read(*fd, &mut outs[0])),
            Op::ReadV { fd, lens } => read(lens, |outs| process.readv(*fd, outs)),
            Op::ReadAt { fd, len, offset } => read(&[*len], |outs| {
                process.pread(*fd, &mut outs[0], *offset as u64)
            }),
            Op::ReadVAt { fd, lens, offset } => {
                read(lens, |outs| process.preadv(*fd, outs, *offset as u64))
            }
            Op::Write { fd, data } => process.write(*fd, &data.bytes()).map(count),
            Op::WriteV { fd, parts } => write(parts, |data| process.writev(*fd, data)),
            Op::WriteAt { fd, data, offset } => process
                .pwrite(*fd, &data.bytes(), *offset as u64)
                .map(count),
            Op::WriteVAt { fd, parts, offset } => {
                write(parts, |data| process.pwritev(*fd, data, *offset as u64))
            }
            Op::Seek { fd, offset, whence } => {
                process.lseek(*fd, *offset, *whence).map(Outcome::Number)
            }
            Op::Truncate { path, len } => process.truncate(&**path, *len as u64).map(done),
            Op::TruncateFd { fd, len } => process.ftruncate(*fd, *len as u64).map(done),
            Op::Allocate {
                fd,
                mode,
                offset,
                len,
            } => process
                .fallocate(*fd, *mode, *offset as u64, *len as u64)
                .map(done),
            Op::Copy {
                from,
                from_at,
                to,
                to_at,
                len,
                flags,
            } => {
                let mut from_at = from_at.map(|at| at as u64);
                let mut to_at = to_at.map(|at| at as u64);
                let (source, target) = ((*from, from_at.as_mut()), (*to, to_at.as_mut()));
                let copied = process.copy_file_range(source, target, *len as u64, *flags);
                copied.map(Outcome::Number)
            }
            Op::Sync {
                fd,
                data_only: false,
            } => process.fsync(*fd).map(done),
            Op::Sync {
                fd,
                data_only: true,
            } => process.fdatasync(*fd).map(done),
            Op::SyncFs { fd } => process.syncfs(*fd).map(done),
            _ => return None,
        })
    }

    fn attributes(&self, op: &Op) -> Option<Result<Outcome>> {
        let process = self.process;
        Some(match op {
            Op::Stat {
                dirfd: CWD,
                path,
                flags: 0,
            } => process.stat(&**path).map(attr),
            Op::Stat {
                dirfd: CWD,
                path,
                flags: libc::AT_SYMLINK_NOFOLLOW,
            } => process.lstat(&**path).map(attr),
            Op::Stat { dirfd, path, flags } => process.statat(*dirfd, &**path, *flags).map(attr),
            Op::StatFd { fd } => process.fstat(*fd).map(attr),
            Op::StatX {
                dirfd,
                path,
                flags,
                mask,
            } => process.statx(*dirfd, &**path, *flags, *mask).map(statx),
            Op::Access {
                dirfd,
                path,
                mask,
                flags,
            } => process
                .faccessat(*dirfd, &**path, *mask as u32, *flags)
                .map(done),
            Op::Chmod {
                dirfd,
                path,
                mode,
                flags,
            } => process
                .fchmodat(*dirfd, &**path, *mode as u16, *flags)
                .map(done),
            Op::ChmodFd { fd, mode } => process.fchmod(*fd, *mode as u16).map(done),
            Op::Chown {
                dirfd: CWD,
                path,
                uid,
                gid,
                flags: 0,
            } => process.chown(&**path, *uid, *gid).map(done),
            Op::Chown {
                dirfd,
                path,
                uid,
                gid,
                flags,
            } => process
                .fchownat(*dirfd, &**path, *uid, *gid, *flags)
                .map(done),
            Op::ChownFd { fd, uid, gid } => process.fchown(*fd, *uid, *gid).map(done),
            Op::SetTimes {
                dirfd,
                path,
                times,
                flags,
            } => {
                let [atime, mtime] = times.map(set_time);
                process
                    .utimensat(*dirfd, &**path, atime, mtime, *flags)
                    .map(done)
            }
            Op::SetTimesFd { fd, times } => {
                let [atime, mtime] = times.map(set_time);
                process.futimens(*fd, atime, mtime).map(done)
            }
            Op::GetFlags { fd } => process
                .get_flags(*fd)
                .map(|flags| Outcome::Number(u64::from(flags))),
            Op::SetFlags { fd, flags } => process.set_flags(*fd, *flags).map(done),
            Op::GetProject { fd } => process
                .get_fsxattr(*fd)
                .map(|attr| Outcome::Project(attr.xflags, attr.project)),
            Op::SetProject {
                fd,
                xflags,
                project,
            } => {
                let (xflags, project) = (*xflags, *project);
                let attr = FsXAttr {
                    xflags,
                    project,
                    extsize: 0,
                    nextents: 0,
                    cowextsize: 0,
                };
                process.set_fsxattr(*fd, &attr).map(done)
            }
            _ => return None,
        })
    }

    fn names(&self, op: &Op) -> Option<Result<Outcome>> {
        let process = self.process;
        Some(match op {
            Op::Link {
                old_dirfd,
                old,
                new_dirfd,
                new,
                flags,
            } => process
                .linkat(*old_dirfd, &**old, *new_dirfd, &**new, *flags)
                .map(done),
            Op::Symlink {
                target,
                dirfd,
                path,
            } => process.symlinkat(&**target, *dirfd, &**path).map(done),
            Op::ReadLink { dirfd, path } => process.readlinkat(*dirfd, &**path).map(data),
            Op::Unlink { dirfd, path, flags } => {
                process.unlinkat(*dirfd, &**path, *flags).map(done)
            }
            Op::MakeDir { dirfd, path, mode } => {
                process.mkdirat(*dirfd, &**path, *mode as u16).map(done)
            }
            Op::MakeNode {
                dirfd,
                path,
                mode,
                rdev,
            } => process.mknodat(*dirfd, &**path, *mode, *rdev).map(done),
            Op::Rename {
                old_dirfd: CWD,
                old,
                new_dirfd: CWD,
                new,
                flags: 0,
            } => process.rename(&**old, &**new).map(done),
            Op::Rename {
                old_dirfd,
                old,
                new_dirfd,
                new,
                flags,
            } => process
                .renameat2(*old_dirfd, &**old, *new_dirfd, &**new, *flags)
                .map(done),
            Op::List { path } => process.read_dir(&**path).and_then(|entries| {
                let entries = entries
                    .into_iter()
                    .map(|e| self.entry(e.ino, e.kind, &e.name));
                Ok(sorted(entries.collect::<Result<_>>()?))
            }),
            Op::ListFd { fd, split } => self.list(*fd, *split),
            _ => return None,
        })
    }

    fn others(&self, op: &Op) -> Option<Result<Outcome>> {
        let process = self.process;
        Some(match op {
            Op::GetXattr { target, name } => match target {
                Target::Path(path) => process.getxattr(&**path, name),
                Target::Link(path) => process.lgetxattr(&**path, name),
                Target::Fd(fd) => process.fgetxattr(*fd, name),
            }
            .map(data),
            Op::SetXattr {
                target,
                name,
                value,
                flags,
            } => match target {
                Target::Path(path) => process.setxattr(&**path, name, value, *flags),
                Target::Link(path) => process.lsetxattr(&**path, name, value, *flags),
                Target::Fd(fd) => process.fsetxattr(*fd, name, value, *flags),
            }
            .map(done),
            Op::ListXattr { target } => match target {
                Target::Path(path) => process.listxattr(&**path),
                Target::Link(path) => process.llistxattr(&**path),
                Target::Fd(fd) => process.flistxattr(*fd),
            }
            .map(|names| {
                let names = names.split(|b| *b == 0).filter(|name| !name.is_empty());
                let mut names: Vec<Bytes> = names.map(|name| Bytes(name.to_vec())).collect();
                names.sort();
                Outcome::Names(names)
            }),
            Op::RemoveXattr { target, name } => match target {
                Target::Path(path) => process.removexattr(&**path, name),
                Target::Link(path) => process.lremovexattr(&**path, name),
                Target::Fd(fd) => process.fremovexattr(*fd, name),
            }
            .map(done),
            Op::Flock { fd, op } => process.flock(*fd, *op).map(done),
            Op::SetLock { fd, lock } if lock.ofd => {
                process.set_ofd_lock(*fd, &lock_spec(lock), None).map(done)
            }
            Op::SetLock { fd, lock } => process.set_lock(*fd, &lock_spec(lock), None).map(done),
            Op::GetLock { fd, lock } if lock.ofd => {
                process.get_ofd_lock(*fd, &lock_spec(lock)).map(lock_found)
            }
            Op::GetLock { fd, lock } => process.get_lock(*fd, &lock_spec(lock)).map(lock_found),
            Op::ChangeDir { path } => process.chdir(&**path).map(done),
            Op::ChangeDirFd { fd } => process.fchdir(*fd).map(done),
            Op::GetCwd => process.getcwd().map(data),
            Op::ChangeRoot { path } => process.chroot(&**path).map(done),
            Op::Umask { mask } => Ok(Outcome::Number(u64::from(process.umask(*mask as u16)))),
            Op::SetCredentials { uid, gid, groups } => {
                process.set_credentials(credentials(*uid, *gid, groups));
                Ok(Outcome::Done)
            }
            _ => return None,
        })
    }

    fn list(&self, fd: Fd, split: Option<usize>) -> Result<Outcome> {
        let is_dir = self.process.fstat(fd)?.kind == hearth::Kind::Directory;
        if is_dir {
            self.process.lseek(fd, 0, libc::SEEK_SET)?;
        }
        let mut entries = Vec::new();
        if let Some(split @ 1..) = split {
            self.entries(fd, split, &mut entries)?;
            let cookie = self.process.telldir(fd)?;
            self.process.lseek(fd, 0, libc::SEEK_SET)?;
            self.process.lseek(fd, cookie as i64, libc::SEEK_SET)?;
        }
        self.entries(fd, usize::MAX, &mut entries)?;
        Ok(sorted(entries))
    }

    /// At most `most` further entries.
    fn entries(&self, fd: Fd, most: usize, out: &mut Vec<Entry>) -> Result<()> {
        let mut found = Vec::new();
        self.process.getdents(fd, &mut |entry| {
            let room = found.len() < most;
            if room {
                found.push((entry.ino, entry.kind, entry.name.to_vec()));
            }
            room
        })?;
        for (ino, kind, name) in found {
            out.push(self.entry(ino, kind, &name)?);
        }
        Ok(())
    }

    fn entry(&self, ino: u64, of: hearth::Kind, name: &[u8]) -> Result<Entry> {
        let ino = match name {
            b".." => 0,
            _ => identity(ino, self.volume.vfs().getattr(ino)?.generation),
        };
        Ok(Entry {
            name: Bytes(name.to_vec()),
            kind: kind(of),
            ino,
        })
    }
}

fn credentials(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
    Credentials {
        uid,
        gid,
        groups: groups.to_vec(),
    }
}

/// Numbers are used again, with another generation.
fn identity(ino: u64, generation: u32) -> u64 {
    ino | u64::from(generation) << 40
}

fn done((): ()) -> Outcome {
    Outcome::Done
}

fn data(bytes: Vec<u8>) -> Outcome {
    Outcome::Data(Bytes(bytes))
}

fn attr(attr: hearth::Attr) -> Outcome {
    Outcome::Attr(attributes(attr))
}

fn statx(told: hearth::StatX) -> Outcome {
    let birth = (told.attr.btime.sec, told.attr.btime.nsec);
    Outcome::StatX(StatX {
        mask: told.mask,
        attributes: told.attributes & StatX::ATTRIBUTES,
        attributes_mask: told.attributes_mask & StatX::ATTRIBUTES,
        blksize: told.attr.blksize,
        attr: attributes(told.attr),
        birth,
    })
}

fn attributes(attr: hearth::Attr) -> Attr {
    let stamp = |time: Time| Stamp::of(time.sec, time.nsec);
    let kind = kind(attr.kind);
    let has_size = matches!(kind, Kind::File | Kind::Symlink);
    Attr {
        ino: identity(attr.ino, attr.generation),
        kind,
        perm: attr.perm,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        size: if has_size { attr.size } else { 0 },
        atime: stamp(attr.atime),
        mtime: stamp(attr.mtime),
        ctime: stamp(attr.ctime),
        pages: PageCount::of_blocks(if kind == Kind::File { attr.blocks } else { 0 }),
    }
}

fn kind(kind: hearth::Kind) -> Kind {
    match kind {
        hearth::Kind::File => Kind::File,
        hearth::Kind::Directory => Kind::Directory,
        hearth::Kind::Symlink => Kind::Symlink,
        hearth::Kind::Fifo => Kind::Fifo,
        hearth::Kind::Socket => Kind::Socket,
        hearth::Kind::Char => Kind::Char,
        hearth::Kind::Block => Kind::Block,
    }
}

fn sorted(mut entries: Vec<Entry>) -> Outcome {
    entries.sort();
    Outcome::Entries(entries)
}

fn read(
    lens: &[usize],
    call: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<usize>,
) -> Result<Outcome> {
    let mut buffers: Vec<Vec<u8>> = lens.iter().map(|len| vec![0xee; *len]).collect();
    let mut outs: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
    let got = call(&mut outs)?;
    let mut bytes = buffers.concat();
    bytes.truncate(got);
    Ok(data(bytes))
}

fn write(parts: &[Fill], call: impl FnOnce(&[IoSlice<'_>]) -> Result<usize>) -> Result<Outcome> {
    let buffers: Vec<Vec<u8>> = parts.iter().map(|part| part.bytes()).collect();
    let slices: Vec<IoSlice<'_>> = buffers.iter().map(|b| IoSlice::new(b)).collect();
    call(&slices).map(|count| Outcome::Number(count as u64))
}

fn set_time(time: SetTime) -> Option<hearth::SetTime> {
    match time {
        SetTime::Now => Some(hearth::SetTime::Now),
        SetTime::Omit => None,
        SetTime::At(sec, nsec) => Some(hearth::SetTime::At(Time { sec, nsec })),
    }
}

pub fn lock_spec(lock: &LockSpec) -> hearth::LockSpec {
    let kind = match lock.kind {
        LockKind::Read => hearth::LockKind::Read,
        LockKind::Write => hearth::LockKind::Write,
        LockKind::Unlock => hearth::LockKind::Unlock,
    };
    hearth::LockSpec {
        kind,
        whence: lock.whence,
        start: lock.start,
        len: lock.len,
    }
}

fn lock_found(found: Option<hearth::LockRequest>) -> Outcome {
    let info = |lock: hearth::LockRequest| LockInfo {
        kind: match lock.kind {
            hearth::LockKind::Read => LockKind::Read,
            hearth::LockKind::Write | hearth::LockKind::Unlock => LockKind::Write,
        },
        start: lock.start,
        end: lock.end_offset() as u64,
    };
    Outcome::Locks(found.map(info).into_iter().collect())
}
