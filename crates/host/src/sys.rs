//! System calls that `rustix` does not have: file handles, the identity of a thread, and the
//! `ioctl` numbers of inode flags. The only home of `unsafe` in this crate.

use hearth::{Errno, Result};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ffi::CStr;
use std::ops::Range;

/// The longest handle that the kernel gives.
const MAX_HANDLE_SZ: usize = 128;

/// `struct file_handle` with room for its bytes.
#[repr(C)]
struct RawHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; MAX_HANDLE_SZ],
}

/// `struct fsxattr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct FsxAttr {
    pub xflags: u32,
    pub extsize: u32,
    pub nextents: u32,
    pub projid: u32,
    pub cowextsize: u32,
    pub pad: [u8; 8],
}

/// What `file_getattr(2)` tells: `struct file_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FileAttr {
    pub xflags: u64,
    pub extsize: u32,
    pub nextents: u32,
    pub projid: u32,
    pub cowextsize: u32,
}

/// `file_getattr`, and the number behind it `file_setattr`, on x86-64 and arm64.
const SYS_FILE_GETATTR: i64 = 468;
const SYS_FILE_SETATTR: i64 = 469;

const FS_IOC_GETFLAGS: u64 = 0x8008_6601;
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_FSGETXATTR: u64 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
const XFS_IOC_GETBMAPX: u64 = 0xc020_5838;
/// `BMV_IF_ATTRFORK` and `BMV_IF_NO_HOLES`.
const XFS_ATTRIBUTES: i32 = 1;
const XFS_NO_HOLES: i32 = 0x10;
const FS_IOC_GETFSUUID: u64 = 0x8011_1500;
const FS_IOC_FIEMAP: u64 = 0xc020_660b;

/// `struct getbmapx`: a question, and behind it the extents. Offset and length in 512 bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct XfsExtent {
    offset: i64,
    block: i64,
    length: i64,
    count: i32,
    entries: i32,
    flags: i32,
    rest: [i32; 3],
}

/// Extents that one call of [`extents`] has room for.
const EXTENTS: usize = 32;

/// `struct fiemap` with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

/// `struct fiemap_extent`, in bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_flags: [u32; 3],
}

/// `cachestat`, on all architectures, and what it tells: pages.
const SYS_CACHESTAT: i64 = 451;

#[derive(Default)]
#[repr(C)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// `struct fsuuid2`.
#[derive(Default)]
#[repr(C)]
struct FsUuid {
    len: u8,
    uuid: [u8; 16],
}

/// The handle of the open file `fd`: calls `take` with its type and bytes.
///
/// # Errors
/// `EOPNOTSUPP` where the filesystem has none.
pub fn name_to_handle<R>(fd: BorrowedFd<'_>, take: impl FnOnce(i32, &[u8]) -> R) -> Result<R> {
    let mut raw = RawHandle {
        bytes: MAX_HANDLE_SZ as u32,
        kind: 0,
        handle: [0; MAX_HANDLE_SZ],
    };
    let mut mount = 0i32;
    // SAFETY: an empty C string, a structure whose first field says how many bytes follow its
    // second, and a place for the mount; all live through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_raw_fd(),
            c"".as_ptr(),
            &raw mut raw,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    check(done)?;
    let len = (raw.bytes as usize).min(MAX_HANDLE_SZ);
    Ok(take(raw.kind, &raw.handle[..len]))
}

/// Opens the inode with this handle on the filesystem that `mount` is on.
///
/// # Errors
/// `ESTALE` if the inode is gone, `EPERM` without `CAP_DAC_READ_SEARCH`.
pub fn open_by_handle(mount: BorrowedFd<'_>, kind: i32, bytes: &[u8]) -> Result<OwnedFd> {
    let mut raw = RawHandle {
        bytes: bytes.len() as u32,
        kind,
        handle: [0; MAX_HANDLE_SZ],
    };
    let place = raw.handle.get_mut(..bytes.len()).ok_or(Errno::EINVAL)?;
    place.copy_from_slice(bytes);
    // SAFETY: the structure says how many of its bytes count, and lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut raw,
            libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW,
        )
    };
    let fd = match check(fd) {
        // The number is being given to a new inode right now (`I_CREATING`), which the kernel takes
        // for a lack of memory. The old one is gone.
        Err(Errno(libc::ENOMEM)) => return Err(Errno::ESTALE),
        fd => fd?,
    };
    // SAFETY: the kernel has just given this descriptor to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Makes `uid` the user of this thread for files. False if the kernel did not.
pub fn set_fs_uid(uid: u32) -> bool {
    // SAFETY: plain numbers; the second call changes nothing and tells what is set.
    unsafe {
        libc::syscall(libc::SYS_setfsuid, uid);
        libc::syscall(libc::SYS_setfsuid, u32::MAX) as u32 == uid
    }
}

/// Makes `gid` the group of this thread for files. False if the kernel did not.
pub fn set_fs_gid(gid: u32) -> bool {
    // SAFETY: as above.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsgid, u32::MAX) as u32 == gid
    }
}

/// Gives this thread a working directory and a file mode creation mask of its own.
///
/// # Errors
/// `ENOMEM`.
pub fn unshare_fs() -> Result<()> {
    // SAFETY: `CLONE_FS` touches no memory and no descriptors.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_FS) }).map(drop)
}

/// Inode flags of an open file.
///
/// # Errors
/// `ENOTTY` where the filesystem has none.
pub fn get_flags(fd: BorrowedFd<'_>) -> Result<u32> {
    // The kernel writes 4 bytes, whatever the number says.
    let mut flags = [0u32; 2];
    // SAFETY: a place of 8 bytes, as the number says.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_GETFLAGS as _, flags.as_mut_ptr()) }.into())?;
    Ok(flags[0])
}

/// Sets inode flags of an open file.
///
/// # Errors
/// `EPERM`, `EOPNOTSUPP`, `ENOTTY`.
pub fn set_flags(fd: BorrowedFd<'_>, flags: u32) -> Result<()> {
    let flags = [flags, 0];
    // SAFETY: 8 bytes are there to be read, as the number says.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_SETFLAGS as _, flags.as_ptr()) }.into())
        .map(drop)
}

/// Flags and project of an open file.
///
/// # Errors
/// `ENOTTY` where the filesystem has none.
pub fn get_fsxattr(fd: BorrowedFd<'_>) -> Result<FsxAttr> {
    let mut found = FsxAttr::default();
    // SAFETY: a structure of the size that the number says.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FSGETXATTR as _, &raw mut found) }.into())?;
    Ok(found)
}

/// The UUID of the filesystem of an open file, where it has one and the kernel tells (Linux 6.9).
pub fn filesystem_uuid(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let mut found = FsUuid::default();
    // SAFETY: a structure of the size that the number says.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_GETFSUUID as _, &raw mut found) };
    check(done.into()).ok()?;
    let len = usize::from(found.len).min(found.uuid.len());
    Some(found.uuid[..len].to_vec())
}

/// The first extents of an open file in a range of bytes, also those that no byte was written to
/// yet, as bytes from and to. At most [`EXTENTS`], and not cut to the range.
///
/// # Errors
/// `EOPNOTSUPP`, `ENOTTY` where the filesystem does not tell.
pub fn extents(fd: BorrowedFd<'_>, range: &Range<u64>) -> Result<Vec<Range<u64>>> {
    let mut found = Fiemap {
        start: range.start,
        length: range.end - range.start,
        flags: 0,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); EXTENTS],
    };
    // SAFETY: a structure that says how many extents there is room for behind its head.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut found) }.into())?;
    let found = found.extents.iter().take(found.mapped as usize);
    Ok(found
        .map(|one| one.logical..one.logical + one.length)
        .collect())
}

/// Bytes that the extended attributes of an open file or directory of XFS have, beside the inode.
///
/// # Errors
/// Another filesystem.
pub fn xfs_attribute_bytes(fd: BorrowedFd<'_>) -> Result<u64> {
    let (mut bytes, mut from) = (0, 0);
    loop {
        let mut map = [XfsExtent::default(); EXTENTS];
        map[0] = XfsExtent {
            offset: from,
            length: -1,
            count: EXTENTS as i32,
            flags: XFS_ATTRIBUTES | XFS_NO_HOLES,
            ..XfsExtent::default()
        };
        // SAFETY: a head, and as many structures behind it as it says.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), XFS_IOC_GETBMAPX as _, &raw mut map) }.into())?;
        let found = map.iter().skip(1).take(map[0].entries.max(0) as usize);
        let found: Vec<_> = found.collect();
        bytes += found.iter().map(|one| one.length as u64 * 512).sum::<u64>();
        match found.last() {
            Some(last) if found.len() == EXTENTS - 1 => from = last.offset + last.length,
            _ => return Ok(bytes),
        }
    }
}

/// Pages that the kernel has of a range of bytes of an open file, in memory or swapped out
/// (Linux 6.5).
///
/// # Errors
/// `ENOSYS`, `EPERM`.
pub fn cached_pages(fd: BorrowedFd<'_>, range: &Range<u64>) -> Result<u64> {
    let bytes = [range.start, range.end - range.start];
    let mut found = CacheStat::default();
    // SAFETY: two numbers to be read, and a structure to be written.
    let done = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd.as_raw_fd(),
            bytes.as_ptr(),
            &raw mut found,
            0,
        )
    };
    check(done)?;
    Ok(found.cached + found.evicted)
}

/// Sets flags and project of an open file.
///
/// # Errors
/// `EPERM`, `EOPNOTSUPP`, `ENOTTY`.
pub fn set_fsxattr(fd: BorrowedFd<'_>, new: &FsxAttr) -> Result<()> {
    // SAFETY: a structure of the size that the number says.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FSSETXATTR as _, &raw const *new) }.into())
        .map(drop)
}

/// `file_getattr(2)` of a name: project and flags of an inode of any type (Linux 6.17). Links are
/// followed unless `flags` say no.
///
/// # Errors
/// `EOPNOTSUPP` where the filesystem has none, `ENOSYS`.
pub fn file_attributes(dir: BorrowedFd<'_>, name: &CStr, flags: i32) -> Result<FileAttr> {
    let mut found = FileAttr::default();
    // SAFETY: a C string, and a structure of the size that is given.
    let done = unsafe {
        libc::syscall(
            SYS_FILE_GETATTR,
            dir.as_raw_fd(),
            name.as_ptr(),
            &raw mut found,
            size_of::<FileAttr>(),
            flags,
        )
    };
    check(done)?;
    Ok(found)
}

/// `file_setattr(2)`, as [`file_attributes`].
///
/// # Errors
/// `EPERM`, `EOPNOTSUPP`, `ENOSYS`.
pub fn set_file_attributes(dir: BorrowedFd<'_>, name: &CStr, new: &FileAttr) -> Result<()> {
    // SAFETY: as above; nothing is written to.
    let done = unsafe {
        libc::syscall(
            SYS_FILE_SETATTR,
            dir.as_raw_fd(),
            name.as_ptr(),
            &raw const *new,
            size_of::<FileAttr>(),
            0,
        )
    };
    check(done).map(drop)
}

/// `pwritev2(2)` of one buffer; `offset` is ignored where `flags` append.
///
/// # Errors
/// Those of `pwrite(2)`; `EOPNOTSUPP` for flags that the kernel does not know.
pub fn write_at(fd: BorrowedFd<'_>, data: &[u8], offset: u64, flags: i32) -> Result<usize> {
    let part = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    let at = i64::try_from(offset).map_err(|_| Errno::EFBIG)?;
    // SAFETY: one buffer of its length, which is only read and lives through the call.
    let done = unsafe { libc::pwritev2(fd.as_raw_fd(), &raw const part, 1, at, flags) };
    check(done as i64).map(|done| done as usize)
}

/// Reads a symbolic link that is open by itself, or of `name` below it.
///
/// # Errors
/// `EINVAL` if it is no link.
pub fn read_link(fd: BorrowedFd<'_>, name: &CStr) -> Result<Box<[u8]>> {
    let mut target = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: a C string, and a buffer of its length.
    let len = unsafe {
        libc::readlinkat(
            fd.as_raw_fd(),
            name.as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        )
    };
    target.truncate(check(len as i64)? as usize);
    Ok(target.into())
}

fn check(result: i64) -> Result<i64> {
    match result {
        -1 => Err(std::io::Error::last_os_error().into()),
        result => Ok(result),
    }
}

/// Closes a descriptor and tells what that reports.
///
/// # Errors
/// What earlier writes met, `EIO` or `EDQUOT` on filesystems that tell late.
pub fn close(fd: OwnedFd) -> Result<()> {
    // SAFETY: the descriptor is given up here, whatever the result.
    check(unsafe { libc::close(fd.into_raw_fd()) }.into()).map(drop)
}

/// Tells, once for each open file, what writes met whose data was lost since it was opened or told
/// last. Waits for nothing.
///
/// # Errors
/// `EIO`, `ENOSPC` and others of the filesystem.
pub fn lost_writes(fd: BorrowedFd<'_>) -> Result<()> {
    // The file's last byte there can be: what the kernel tells is about all of the file.
    let (at, len) = (i64::MAX - 1, 1);
    // SAFETY: an open descriptor and numbers.
    let asked = unsafe {
        libc::sync_file_range(fd.as_raw_fd(), at, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
    };
    match check(asked.into()) {
        // It was not asked: there is no such call for it, or not here.
        Err(Errno(
            libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::ESPIPE | libc::EBADF | libc::EINTR,
        )) => Ok(()),
        asked => asked.map(drop),
    }
}

/// A write past the limit of a file's size is refused, and does not end the process.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Type and bytes of a file handle.
pub type RawHandleRef<'a> = (i32, &'a [u8]);

/// One event of fanotify: in the directory with this handle, of this name.
#[derive(Debug)]
pub struct FanEvent<'a> {
    pub mask: u64,
    /// Number of the process that caused it.
    pub process: u32,
    pub handle: RawHandleRef<'a>,
    pub name: &'a [u8],
}

/// A group that tells events by directory and name.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn fanotify_group() -> Result<OwnedFd> {
    let flags = libc::FAN_CLASS_NOTIF
        | libc::FAN_CLOEXEC
        | libc::FAN_NONBLOCK
        | libc::FAN_REPORT_DIR_FID
        | libc::FAN_REPORT_NAME;
    // SAFETY: plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_fanotify_init, flags, libc::O_RDONLY) };
    let fd = check(fd)?;
    // SAFETY: the kernel has just given this descriptor to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Events of the filesystem that the directory `on` is on.
///
/// # Errors
/// `EOPNOTSUPP`, `ENODEV`, `EXDEV` where the filesystem has no handles or no number of its own.
pub fn fanotify_watch(group: BorrowedFd<'_>, mask: u64, on: BorrowedFd<'_>) -> Result<()> {
    let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
    // SAFETY: numbers, open descriptors, and no path: the directory itself is meant.
    let done = unsafe {
        libc::syscall(
            libc::SYS_fanotify_mark,
            group.as_raw_fd(),
            flags,
            mask,
            on.as_raw_fd(),
            std::ptr::null::<libc::c_char>(),
        )
    };
    check(done).map(drop)
}

/// The events that a group has told in `bytes`. Those that lack directory or name have an empty
/// one.
pub fn fanotify_events(bytes: &[u8]) -> impl Iterator<Item = FanEvent<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        // `struct fanotify_event_metadata`.
        let len = u32::from_ne_bytes(array(rest, 0)?) as usize;
        let head = usize::from(u16::from_ne_bytes(array(rest, 6)?));
        let mask = u64::from_ne_bytes(array(rest, 8)?);
        let process = u32::from_ne_bytes(array(rest, 20)?);
        let event = rest.get(..len).filter(|_| len > 0)?;
        rest = &rest[len..];
        let (handle, name) = event.get(head..).and_then(named).unwrap_or_default();
        Some(FanEvent {
            mask,
            process,
            handle,
            name,
        })
    })
}

/// Handle of the directory and name of `struct fanotify_event_info_fid`.
fn named(info: &[u8]) -> Option<(RawHandleRef<'_>, &[u8])> {
    let len = usize::from(u16::from_ne_bytes(array(info, 2)?));
    let info = info.get(..len)?;
    // Behind the header and the number of the filesystem: `struct file_handle`.
    let bytes = u32::from_ne_bytes(array(info, 12)?) as usize;
    let kind = i32::from_ne_bytes(array(info, 16)?);
    let handle = info.get(20..20 + bytes)?;
    let name = &info[20 + bytes..];
    let end = name.iter().position(|&byte| byte == 0);
    Some(((kind, handle), &name[..end.unwrap_or(name.len())]))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}
