//! Operations as system calls of the calling thread.

use std::ffi::CString;
use std::mem::MaybeUninit;

use hearth_model::{
    Attr, Bytes, Entry, Fd, Fill, Kind, Op, Outcome, PageCount, STATUS, SetTime, Stamp, Target,
};

use super::lock_calls::{How, record_lock};
use super::statx::statx;

pub type Answer<T = Outcome> = Result<T, i32>;

const FS_IOC_GETFLAGS: usize = 0x8008_6601;
const FS_IOC_SETFLAGS: usize = 0x4008_6602;
const FS_IOC_FSGETXATTR: usize = 0x801c_581f;
const FS_IOC_FSSETXATTR: usize = 0x401c_5820;

/// Makes a system call; raw, because libc changes credentials in all threads at once.
pub fn call(number: i64, arguments: &[usize]) -> Answer<usize> {
    let mut a = [0; 6];
    a[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: every caller in this test passes live buffers of the lengths that it states.
    let result = unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if result == -1 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    Ok(result as usize)
}

/// Returns a string for the kernel.
pub fn text(bytes: &[u8]) -> CString {
    CString::new(bytes).expect("scripts contain no NUL")
}

/// Gives the calling thread these credentials; saved user 0 lets it change back.
pub fn set_credentials(uid: u32, gid: u32, groups: &[u32]) -> Answer<()> {
    call(libc::SYS_setresuid, &[0, 0, 0])?;
    call(
        libc::SYS_setresgid,
        &[gid as usize, gid as usize, gid as usize],
    )?;
    call(
        libc::SYS_setgroups,
        &[groups.len(), groups.as_ptr() as usize],
    )?;
    call(libc::SYS_setresuid, &[uid as usize, uid as usize, 0])?;
    Ok(())
}

/// Applies one operation.
pub fn apply(op: &Op) -> Outcome {
    let done = descriptors(op)
        .or_else(|| data(op))
        .or_else(|| attributes(op))
        .or_else(|| names(op))
        .or_else(|| others(op));
    done.expect("every operation belongs to a family")
        .unwrap_or_else(Outcome::Error)
}

fn descriptors(op: &Op) -> Option<Answer> {
    let fcntl = |fd: Fd, cmd: i32, arg: i32| call(libc::SYS_fcntl, &[n(fd), n(cmd), n(arg)]);
    let flags = |value: usize| Outcome::Number((value as i32 & STATUS) as u64);
    Some(match op {
        Op::Open {
            dirfd,
            path,
            flags,
            mode,
        } => {
            let path = text(path);
            call(
                libc::SYS_openat,
                &[n(*dirfd), at(&path), n(*flags), *mode as usize],
            )
            .map(fd)
        }
        Op::Close { fd } => call(libc::SYS_close, &[n(*fd)]).map(done),
        Op::Dup { fd: old } => call(libc::SYS_dup, &[n(*old)]).map(fd),
        Op::Dup2 { fd: old, to } => call(libc::SYS_dup2, &[n(*old), n(*to)]).map(fd),
        Op::Dup3 { fd: old, to, flags } => {
            call(libc::SYS_dup3, &[n(*old), n(*to), n(*flags)]).map(fd)
        }
        Op::DupFrom {
            fd: old,
            least,
            cloexec: false,
        } => fcntl(*old, libc::F_DUPFD, *least).map(fd),
        Op::DupFrom {
            fd: old,
            least,
            cloexec: true,
        } => fcntl(*old, libc::F_DUPFD_CLOEXEC, *least).map(fd),
        Op::GetFdFlags { fd } => fcntl(*fd, libc::F_GETFD, 0).map(number),
        Op::SetFdFlags { fd, cloexec } => fcntl(*fd, libc::F_SETFD, i32::from(*cloexec)).map(done),
        Op::GetStatus { fd } => fcntl(*fd, libc::F_GETFL, 0).map(flags),
        Op::SetStatus { fd, flags } => fcntl(*fd, libc::F_SETFL, *flags).map(done),
        _ => return None,
    })
}

fn data(op: &Op) -> Option<Answer> {
    Some(match op {
        Op::Read { fd, len } => read(libc::SYS_read, *fd, &[*len], None),
        Op::ReadV { fd, lens } => read(libc::SYS_readv, *fd, lens, None),
        Op::ReadAt { fd, len, offset } => read(libc::SYS_pread64, *fd, &[*len], Some(*offset)),
        Op::ReadVAt { fd, lens, offset } => read(libc::SYS_preadv, *fd, lens, Some(*offset)),
        Op::Write { fd, data } => write(libc::SYS_write, *fd, &[*data], None),
        Op::WriteV { fd, parts } => write(libc::SYS_writev, *fd, parts, None),
        Op::WriteAt { fd, data, offset } => write(libc::SYS_pwrite64, *fd, &[*data], Some(*offset)),
        Op::WriteVAt { fd, parts, offset } => write(libc::SYS_pwritev, *fd, parts, Some(*offset)),
        Op::Seek { fd, offset, whence } => {
            call(libc::SYS_lseek, &[n(*fd), *offset as usize, n(*whence)]).map(number)
        }
        Op::Truncate { path, len } => {
            let path = text(path);
            call(libc::SYS_truncate, &[at(&path), *len as usize]).map(done)
        }
        Op::TruncateFd { fd, len } => call(libc::SYS_ftruncate, &[n(*fd), *len as usize]).map(done),
        Op::Allocate {
            fd,
            mode,
            offset,
            len,
        } => {
            let arguments = [n(*fd), n(*mode), *offset as usize, *len as usize];
            call(libc::SYS_fallocate, &arguments).map(done)
        }
        Op::Copy {
            from,
            from_at,
            to,
            to_at,
            len,
            flags,
        } => {
            let (mut source, mut target) = (from_at.unwrap_or(0), to_at.unwrap_or(0));
            let source = from_at.map_or(0, |_| &raw mut source as usize);
            let target = to_at.map_or(0, |_| &raw mut target as usize);
            let arguments = [n(*from), source, n(*to), target, *len, *flags as usize];
            call(libc::SYS_copy_file_range, &arguments).map(number)
        }
        Op::Sync {
            fd,
            data_only: false,
        } => call(libc::SYS_fsync, &[n(*fd)]).map(done),
        Op::Sync {
            fd,
            data_only: true,
        } => call(libc::SYS_fdatasync, &[n(*fd)]).map(done),
        Op::SyncFs { fd } => call(libc::SYS_syncfs, &[n(*fd)]).map(done),
        _ => return None,
    })
}

fn attributes(op: &Op) -> Option<Answer> {
    let id = |id: &Option<u32>| id.unwrap_or(u32::MAX) as usize;
    Some(match op {
        Op::Stat { dirfd, path, flags } => stat(*dirfd, path, *flags),
        Op::StatFd { fd } => stat(*fd, b"", libc::AT_EMPTY_PATH),
        Op::StatX {
            dirfd,
            path,
            flags,
            mask,
        } => statx(*dirfd, path, *flags, *mask),
        Op::Access {
            dirfd,
            path,
            mask,
            flags,
        } => {
            let path = text(path);
            call(
                libc::SYS_faccessat2,
                &[n(*dirfd), at(&path), n(*mask), n(*flags)],
            )
            .map(done)
        }
        Op::Chmod {
            dirfd,
            path,
            mode,
            flags,
        } => {
            let path = text(path);
            let arguments = [n(*dirfd), at(&path), *mode as usize, n(*flags)];
            call(libc::SYS_fchmodat2, &arguments).map(done)
        }
        Op::ChmodFd { fd, mode } => call(libc::SYS_fchmod, &[n(*fd), *mode as usize]).map(done),
        Op::Chown {
            dirfd,
            path,
            uid,
            gid,
            flags,
        } => {
            let path = text(path);
            let arguments = [n(*dirfd), at(&path), id(uid), id(gid), n(*flags)];
            call(libc::SYS_fchownat, &arguments).map(done)
        }
        Op::ChownFd { fd, uid, gid } => {
            call(libc::SYS_fchown, &[n(*fd), id(uid), id(gid)]).map(done)
        }
        Op::SetTimes {
            dirfd,
            path,
            times,
            flags,
        } => {
            let (path, times) = (text(path), times.map(timespec));
            let arguments = [n(*dirfd), at(&path), times.as_ptr() as usize, n(*flags)];
            call(libc::SYS_utimensat, &arguments).map(done)
        }
        Op::SetTimesFd { fd, times } => {
            let times = times.map(timespec);
            call(
                libc::SYS_utimensat,
                &[n(*fd), 0, times.as_ptr() as usize, 0],
            )
            .map(done)
        }
        Op::GetFlags { fd } => {
            let mut flags = 0u64;
            let arguments = [n(*fd), FS_IOC_GETFLAGS, &raw mut flags as usize];
            call(libc::SYS_ioctl, &arguments).map(|_| Outcome::Number(flags & 0xffff_ffff))
        }
        Op::SetFlags { fd, flags } => {
            let flags = u64::from(*flags);
            call(
                libc::SYS_ioctl,
                &[n(*fd), FS_IOC_SETFLAGS, &raw const flags as usize],
            )
            .map(done)
        }
        Op::GetProject { fd } => {
            let mut attr = [0u32; 7];
            let arguments = [n(*fd), FS_IOC_FSGETXATTR, attr.as_mut_ptr() as usize];
            call(libc::SYS_ioctl, &arguments).map(|_| Outcome::Project(attr[0], attr[3]))
        }
        Op::SetProject {
            fd,
            xflags,
            project,
        } => {
            let attr = [*xflags, 0, 0, *project, 0, 0, 0];
            call(
                libc::SYS_ioctl,
                &[n(*fd), FS_IOC_FSSETXATTR, attr.as_ptr() as usize],
            )
            .map(done)
        }
        _ => return None,
    })
}

fn names(op: &Op) -> Option<Answer> {
    Some(match op {
        Op::Link {
            old_dirfd,
            old,
            new_dirfd,
            new,
            flags,
        } => {
            let (old, new) = (text(old), text(new));
            let arguments = [n(*old_dirfd), at(&old), n(*new_dirfd), at(&new), n(*flags)];
            call(libc::SYS_linkat, &arguments).map(done)
        }
        Op::Symlink {
            target,
            dirfd,
            path,
        } => {
            let (target, path) = (text(target), text(path));
            call(libc::SYS_symlinkat, &[at(&target), n(*dirfd), at(&path)]).map(done)
        }
        Op::ReadLink { dirfd, path } => {
            let (path, mut out) = (text(path), vec![0; 4096]);
            let arguments = [n(*dirfd), at(&path), out.as_mut_ptr() as usize, out.len()];
            call(libc::SYS_readlinkat, &arguments).map(|len| cut(out, len))
        }
        Op::Unlink { dirfd, path, flags } => {
            let path = text(path);
            call(libc::SYS_unlinkat, &[n(*dirfd), at(&path), n(*flags)]).map(done)
        }
        Op::MakeDir { dirfd, path, mode } => {
            let path = text(path);
            call(libc::SYS_mkdirat, &[n(*dirfd), at(&path), *mode as usize]).map(done)
        }
        Op::MakeNode {
            dirfd,
            path,
            mode,
            rdev,
        } => {
            let path = text(path);
            let arguments = [n(*dirfd), at(&path), *mode as usize, *rdev as usize];
            call(libc::SYS_mknodat, &arguments).map(done)
        }
        Op::Rename {
            old_dirfd,
            old,
            new_dirfd,
            new,
            flags,
        } => {
            let (old, new) = (text(old), text(new));
            let (from, to) = ([n(*old_dirfd), at(&old)], [n(*new_dirfd), at(&new)]);
            let arguments = [from[0], from[1], to[0], to[1], *flags as usize];
            call(libc::SYS_renameat2, &arguments).map(done)
        }
        Op::List { path } => {
            let path = text(path);
            let flags = libc::O_RDONLY | libc::O_DIRECTORY;
            call(libc::SYS_openat, &[n(libc::AT_FDCWD), at(&path), n(flags)]).and_then(|fd| {
                let listed = list(fd as Fd, None);
                call(libc::SYS_close, &[fd])?;
                listed.map(|outcome| match outcome {
                    Outcome::Entries(mut entries) => {
                        entries.retain(|e| !matches!(&e.name[..], b"." | b".."));
                        Outcome::Entries(entries)
                    }
                    other => other,
                })
            })
        }
        Op::ListFd { fd, split } => list(*fd, *split),
        _ => return None,
    })
}

fn others(op: &Op) -> Option<Answer> {
    Some(match op {
        Op::GetXattr { target, name } => {
            let (name, mut out) = (text(name), vec![0; 65536]);
            let buffer = [at(&name), out.as_mut_ptr() as usize, out.len()];
            let numbers = [libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr];
            xattr(target, numbers, &buffer).map(|len| cut(out, len))
        }
        Op::SetXattr {
            target,
            name,
            value,
            flags,
        } => {
            let name = text(name);
            let arguments = [at(&name), value.as_ptr() as usize, value.len(), n(*flags)];
            let numbers = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr];
            xattr(target, numbers, &arguments).map(done)
        }
        Op::ListXattr { target } => {
            let mut out = vec![0; 65536];
            let numbers = [
                libc::SYS_listxattr,
                libc::SYS_llistxattr,
                libc::SYS_flistxattr,
            ];
            xattr(target, numbers, &[out.as_mut_ptr() as usize, out.len()]).map(|len| {
                let names = out[..len]
                    .split(|b| *b == 0)
                    .filter(|name| !name.is_empty());
                let mut names: Vec<Bytes> = names.map(|name| Bytes(name.to_vec())).collect();
                names.sort();
                Outcome::Names(names)
            })
        }
        Op::RemoveXattr { target, name } => {
            let name = text(name);
            let numbers = [
                libc::SYS_removexattr,
                libc::SYS_lremovexattr,
                libc::SYS_fremovexattr,
            ];
            xattr(target, numbers, &[at(&name)]).map(done)
        }
        Op::Flock { fd, op } => call(libc::SYS_flock, &[n(*fd), n(*op)]).map(done),
        Op::SetLock { fd, lock } => record_lock(*fd, lock, How::Set),
        Op::GetLock { fd, lock } => record_lock(*fd, lock, How::Get),
        Op::ChangeDir { path } => call(libc::SYS_chdir, &[at(&text(path))]).map(done),
        Op::ChangeDirFd { fd } => call(libc::SYS_fchdir, &[n(*fd)]).map(done),
        Op::GetCwd => cwd(),
        Op::ChangeRoot { path } => call(libc::SYS_chroot, &[at(&text(path))]).map(done),
        Op::Umask { mask } => call(libc::SYS_umask, &[*mask as usize]).map(number),
        Op::SetCredentials { uid, gid, groups } => {
            set_credentials(*uid, *gid, groups).map(|()| Outcome::Done)
        }
        _ => return None,
    })
}

fn read(nr: i64, fd: Fd, lens: &[usize], offset: Option<i64>) -> Answer {
    let mut buffers: Vec<Vec<u8>> = lens.iter().map(|len| vec![0; *len]).collect();
    let vectors: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|b| libc::iovec {
            iov_base: b.as_mut_ptr().cast(),
            iov_len: b.len(),
        })
        .collect();
    let len = transfer(nr, fd, &vectors, offset)?;
    Ok(cut(buffers.concat(), len))
}

fn write(nr: i64, fd: Fd, parts: &[Fill], offset: Option<i64>) -> Answer {
    let mut buffers: Vec<Vec<u8>> = parts.iter().map(|part| part.bytes()).collect();
    let vectors: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|b| libc::iovec {
            iov_base: b.as_mut_ptr().cast(),
            iov_len: b.len(),
        })
        .collect();
    transfer(nr, fd, &vectors, offset).map(number)
}

fn transfer(nr: i64, fd: Fd, vectors: &[libc::iovec], offset: Option<i64>) -> Answer<usize> {
    let plain = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
    ];
    let (buffer, len) = match vectors {
        [one] if plain.contains(&nr) => (one.iov_base as usize, one.iov_len),
        many => (many.as_ptr() as usize, many.len()),
    };
    call(nr, &[n(fd), buffer, len, offset.unwrap_or(0) as usize])
}

fn stat(dirfd: Fd, path: &[u8], flags: i32) -> Answer {
    let path = text(path);
    let mut out = MaybeUninit::<libc::stat>::zeroed();
    call(
        libc::SYS_newfstatat,
        &[n(dirfd), at(&path), out.as_mut_ptr() as usize, n(flags)],
    )?;
    // SAFETY: all bit patterns are valid for this plain struct, and it was zeroed before.
    let out = unsafe { out.assume_init() };
    let kind = Kind::from_mode(out.st_mode).expect("the kernel knows no other kinds");
    let has_size = matches!(kind, Kind::File | Kind::Symlink);
    Ok(Outcome::Attr(Attr {
        ino: out.st_ino,
        kind,
        perm: (out.st_mode & 0o7777) as u16,
        nlink: out.st_nlink as u32,
        uid: out.st_uid,
        gid: out.st_gid,
        rdev: out.st_rdev as u32,
        size: if has_size { out.st_size as u64 } else { 0 },
        atime: Stamp::of(out.st_atime, out.st_atime_nsec as u32),
        mtime: Stamp::of(out.st_mtime, out.st_mtime_nsec as u32),
        ctime: Stamp::of(out.st_ctime, out.st_ctime_nsec as u32),
        pages: PageCount::of_blocks(if kind == Kind::File {
            out.st_blocks as u64
        } else {
            0
        }),
    }))
}

fn list(fd: Fd, split: Option<usize>) -> Answer {
    let is_dir = matches!(stat(fd, b"", libc::AT_EMPTY_PATH)?,
        Outcome::Attr(attr) if attr.kind == Kind::Directory);
    let rewind = |to: i64| match is_dir {
        true => call(libc::SYS_lseek, &[n(fd), to as usize, n(libc::SEEK_SET)]).map(|_| ()),
        false => Ok(()),
    };
    rewind(0)?;
    let all = entries(fd)?;
    let mut kept = all;
    if let Some(split @ 1..) = split {
        kept.truncate(split);
        let cookie = kept.last().map_or(0, |(_, cookie)| *cookie);
        rewind(0)?;
        rewind(cookie)?;
        kept.extend(entries(fd)?);
    }
    let mut listed: Vec<Entry> = kept.into_iter().map(|(entry, _)| entry).collect();
    listed.sort();
    Ok(Outcome::Entries(listed))
}

/// Returns the entries from the current position on, each with the cookie behind it.
fn entries(fd: Fd) -> Answer<Vec<(Entry, i64)>> {
    let mut out = Vec::new();
    let mut buffer = vec![0u8; 4096];
    loop {
        let arguments = [n(fd), buffer.as_mut_ptr() as usize, buffer.len()];
        let len = call(libc::SYS_getdents64, &arguments)?;
        if len == 0 {
            return Ok(out);
        }
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            let word =
                |at: usize| u64::from_ne_bytes(rest[at..at + 8].try_into().expect("8 bytes"));
            let size = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            let name: Vec<u8> = rest[19..size]
                .iter()
                .copied()
                .take_while(|b| *b != 0)
                .collect();
            let kind = Kind::from_mode(u32::from(rest[18]) << 12).expect("a known type");
            let ino = if name == b".." { 0 } else { word(0) };
            out.push((
                Entry {
                    name: Bytes(name),
                    kind,
                    ino,
                },
                word(8) as i64,
            ));
            rest = &rest[size..];
        }
    }
}

fn xattr(target: &Target, [path_nr, link_nr, fd_nr]: [i64; 3], rest: &[usize]) -> Answer<usize> {
    match target {
        Target::Path(path) => call(path_nr, &[&[at(&text(path))], rest].concat()),
        Target::Link(path) => call(link_nr, &[&[at(&text(path))], rest].concat()),
        Target::Fd(fd) => call(fd_nr, &[&[n(*fd)], rest].concat()),
    }
}

/// Like libc: a directory outside the root has no path.
fn cwd() -> Answer {
    let mut out = vec![0u8; 65536];
    let len = call(libc::SYS_getcwd, &[out.as_mut_ptr() as usize, out.len()])?;
    if out[0] != b'/' {
        return Err(libc::ENOENT);
    }
    Ok(cut(out, len - 1))
}

fn timespec(time: SetTime) -> libc::timespec {
    match time {
        SetTime::Now => libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_NOW,
        },
        SetTime::Omit => libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_OMIT,
        },
        SetTime::At(sec, nsec) => libc::timespec {
            tv_sec: sec,
            tv_nsec: i64::from(nsec),
        },
    }
}

fn n(value: i32) -> usize {
    value as usize
}

fn at(text: &CString) -> usize {
    text.as_ptr() as usize
}

fn fd(value: usize) -> Outcome {
    Outcome::Fd(value as Fd)
}

fn number(value: usize) -> Outcome {
    Outcome::Number(value as u64)
}

fn done(_: usize) -> Outcome {
    Outcome::Done
}

fn cut(mut bytes: Vec<u8>, len: usize) -> Outcome {
    bytes.truncate(len);
    Outcome::Data(Bytes(bytes))
}
