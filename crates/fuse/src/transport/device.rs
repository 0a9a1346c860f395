//! A descriptor of `/dev/fuse`.

use crate::wire::reply::out_header;
use hearth::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use zerocopy::IntoBytes;

const DEVICE: &std::ffi::CStr = c"/dev/fuse";
/// The number of the device of FUSE, of all machines.
pub const NUMBER: libc::dev_t = libc::makedev(10, 229);
/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, u32)`.
const IOC_CLONE: libc::c_ulong = 0x8004_e500;

/// `FUSE_DEV_IOC_BACKING_OPEN`: `_IOW(229, 1, struct fuse_backing_map)`.
const IOC_BACKING_OPEN: libc::c_ulong = 0x4010_e501;
/// `FUSE_DEV_IOC_BACKING_CLOSE`: `_IOW(229, 2, u32)`.
const IOC_BACKING_CLOSE: libc::c_ulong = 0x4004_e502;

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// One end of the connection to the kernel. The reply to a request goes through the
/// descriptor that it was read from.
#[derive(Debug)]
pub(crate) struct Device {
    fd: OwnedFd,
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// This many bytes of one request.
    Request(usize),
    /// Nothing this time: a signal, a request that was taken back, or none there without waiting.
    Nothing,
    /// The mount is gone.
    End,
}

impl Device {
    /// Opens `/dev/fuse`, not yet connected to a mount.
    pub fn open() -> io::Result<Device> {
        // SAFETY: the path is a C string; the result is checked before it is owned.
        let fd = unsafe { libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        let device = Device::own(fd)?;
        let is = File::from(device.fd.try_clone()?).metadata()?;
        match is.rdev() == NUMBER {
            true => Ok(device),
            // The kernel's mount would say that some argument is invalid.
            false => Err(io::Error::from_raw_os_error(libc::ENXIO)),
        }
    }

    /// Takes a connected descriptor over.
    pub fn from_fd(fd: OwnedFd) -> Device {
        Device { fd }
    }

    /// Another descriptor of the same connection, with its own list of requests in progress.
    pub fn duplicate(&self) -> io::Result<Device> {
        let clone = Device::open()?;
        let mut source = self.raw() as u32;
        // SAFETY: the ioctl reads one u32 from the pointer, which outlives the call.
        match unsafe { libc::ioctl(clone.raw(), IOC_CLONE, &mut source) } {
            0 => Ok(clone),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Tells the kernel of a file below that it may use by itself; its number there. The kernel
    /// uses it with the rights that this thread has now.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN`, `ELOOP` for a file of a filesystem that lies on another
    /// one, `EINVAL` and `EISDIR` for what is no regular file.
    pub fn open_backing(&self, fd: BorrowedFd<'_>) -> Result<i32, Errno> {
        let map = BackingMap {
            fd: fd.as_raw_fd(),
            flags: 0,
            padding: 0,
        };
        // SAFETY: the ioctl reads one structure of 16 bytes, as the number says.
        let number = unsafe { libc::ioctl(self.raw(), IOC_BACKING_OPEN, &raw const map) };
        match number {
            ..0 => Err(io::Error::last_os_error().into()),
            number => Ok(number),
        }
    }

    /// The kernel opens no more files by this number.
    pub fn close_backing(&self, number: i32) {
        // SAFETY: the ioctl reads one u32. Nothing can be done if the mount is gone.
        unsafe { libc::ioctl(self.raw(), IOC_BACKING_CLOSE, &raw const number) };
    }

    /// The descriptor's number.
    pub fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Whether [`Device::receive`] waits; for every thread that shares the descriptor.
    pub fn set_waiting(&self, waits: bool) -> io::Result<()> {
        let flags = libc::O_RDWR | if waits { 0 } else { libc::O_NONBLOCK };
        // SAFETY: no pointers.
        match unsafe { libc::fcntl(self.raw(), libc::F_SETFL, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits until a request is there or `event` is set, or for `limit`; whether a request is
    /// there, or the mount gone.
    pub fn poll(&self, event: Option<i32>, limit: Option<Duration>) -> bool {
        let fd = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // A negative descriptor is skipped.
        let mut fds = [fd(self.raw()), fd(event.unwrap_or(-1))];
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: an array of two that lives through the call, and a time or none.
        let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), 2, limit, std::ptr::null()) };
        ready > 0 && fds[0].revents != 0
    }

    /// Waits for one request.
    ///
    /// # Errors
    /// Errors of `read(2)` beyond the cases of [`Incoming`].
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Incoming> {
        // SAFETY: the buffer is valid for writes of its length during the call.
        let size = unsafe { libc::read(self.raw(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if size > 0 {
            return Ok(Incoming::Request(size as usize));
        }
        if size == 0 {
            return Ok(Incoming::End);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => Ok(Incoming::Nothing),
            Some(libc::ENODEV | libc::ECONNABORTED | libc::ENOTCONN) => Ok(Incoming::End),
            _ => Err(error),
        }
    }

    /// Replies to a request. It is no error if the client does not wait any more.
    ///
    /// # Errors
    /// Errors of `writev(2)`, `EINVAL` above all: the kernel found the reply malformed.
    pub fn answer(&self, unique: u64, result: Result<&[u8], Errno>) -> io::Result<()> {
        let header = out_header(unique, result.map(<[u8]>::len));
        match self.send(header.as_bytes(), result.unwrap_or_default(), &[]) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    /// Sends one message in three parts.
    ///
    /// # Errors
    /// Errors of `writev(2)`.
    pub fn send(&self, head: &[u8], body: &[u8], tail: &[u8]) -> io::Result<()> {
        let part = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let parts = [part(head), part(body), part(tail)];
        // SAFETY: three valid ranges that live through the call, which only reads them.
        let sent = unsafe { libc::writev(self.raw(), parts.as_ptr(), 3) };
        if sent >= 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn own(fd: i32) -> io::Result<Device> {
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Device { fd })
    }
}
