//! Between the types of the crate `fuser` and those of Hearth.

use fuser::{
    Errno as FuserErrno, FileAttr, FileType, INodeNo, ReplyEmpty, ReplyXattr, Request, TimeOrNow,
};
use hearth::{Attr, Caller, Errno, Kind, Origin, SetTime, Time};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn caller(request: &Request, umask: u32) -> Caller<'static> {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        groups: &[],
        pid: request.pid(),
        umask: (umask & 0o777) as u16,
        origin: Origin::Kernel,
    }
}

pub fn empty(result: hearth::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(error(errno)),
    }
}

pub fn error(errno: Errno) -> FuserErrno {
    FuserErrno::from_i32(errno.0)
}

pub fn time(time: Time) -> SystemTime {
    let nsec = Duration::from_nanos(u64::from(time.nsec));
    match u64::try_from(time.sec) {
        Ok(sec) => UNIX_EPOCH + Duration::from_secs(sec) + nsec,
        Err(_) => UNIX_EPOCH - Duration::from_secs(time.sec.unsigned_abs()) + nsec,
    }
}

pub fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(at) => SetTime::At(since_epoch(at)),
    }
}

pub fn since_epoch(at: SystemTime) -> Time {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => Time {
            sec: after.as_secs() as i64,
            nsec: after.subsec_nanos(),
        },
        Err(before) => Time {
            sec: -(before.duration().as_secs() as i64),
            nsec: 0,
        },
    }
}

pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::Char => FileType::CharDevice,
        Kind::Block => FileType::BlockDevice,
    }
}

pub fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: time(attr.btime),
        kind: file_type(attr.kind),
        perm: attr.perm,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.blksize,
        flags: 0,
    }
}

/// Attributes of nothing, for names that are absent.
pub const NOTHING: Attr = Attr {
    ino: 0,
    shown_ino: 0,
    generation: 0,
    kind: Kind::File,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    size: 0,
    blocks: 0,
    blksize: 0,
    atime: Time { sec: 0, nsec: 0 },
    mtime: Time { sec: 0, nsec: 0 },
    ctime: Time { sec: 0, nsec: 0 },
    btime: Time { sec: 0, nsec: 0 },
    flags: 0,
    project: 0,
};

pub fn value_or_size(value: &[u8], size: u32, reply: ReplyXattr) {
    match size as usize {
        0 => reply.size(value.len() as u32),
        size if value.len() > size => reply.error(error(Errno(libc::ERANGE))),
        _ => reply.data(value),
    }
}
