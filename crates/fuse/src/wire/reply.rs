//! Replies: how values of the filesystem become bytes for the kernel.

use crate::wire::{self, Dirent, EntryOut, Kstatfs, OutHeader, Statx, StatxOut, SxTime};
use hearth::{Attr, Errno, StatFs, Time};
use std::time::Duration;
use zerocopy::{Immutable, IntoBytes};

/// The body of one reply, written into a buffer of the transport.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Reply<'a> {
    /// An empty reply.
    pub fn new(buffer: &'a mut [u8]) -> Reply<'a> {
        Reply { buffer, len: 0 }
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that still fit.
    pub fn space(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// What was written, to be filled in further.
    pub fn written(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }

    /// Appends a structure.
    ///
    /// # Errors
    /// `EIO` if it does not fit: the transport's buffer was too small for this request.
    pub fn push<T: IntoBytes + Immutable>(&mut self, value: &T) -> Result<(), Errno> {
        self.bytes(value.as_bytes())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `EIO` if they do not fit.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.buffer
            .get_mut(self.len..self.len + bytes.len())
            .ok_or(Errno::EIO)?
            .copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Hands out up to `size` bytes of the free part; what `fill` reports as filled is appended.
    ///
    /// # Errors
    /// Errors of `fill`.
    pub fn fill<E>(
        &mut self,
        size: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let size = size.min(self.space());
        self.len += fill(&mut self.buffer[self.len..self.len + size])?.min(size);
        Ok(())
    }

    /// Appends one directory entry, preceded by `prefix` zero bytes. `false` if it does not fit
    /// within `limit`.
    pub fn dirent(&mut self, prefix: usize, entry: &Dirent, name: &[u8], limit: usize) -> bool {
        let size = prefix + (size_of::<Dirent>() + name.len()).next_multiple_of(8);
        if self.len + size > limit.min(self.buffer.len()) {
            return false;
        }
        let place = &mut self.buffer[self.len..self.len + size];
        // A listing has thousands of these. The last eight bytes first: of them the name leaves the
        // padding.
        place[size - 8..].copy_from_slice(&[0; 8]);
        if prefix > 0 {
            place[..prefix].fill(0);
        }
        let (head, tail) = place[prefix..].split_at_mut(size_of::<Dirent>());
        head.copy_from_slice(entry.as_bytes());
        tail[..name.len()].copy_from_slice(name);
        self.len += size;
        true
    }
}

/// How long the kernel may cache what it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub entry: Duration,
    pub attr: Duration,
    pub negative: Duration,
}

impl Timeouts {
    /// The name `attr.ino` was looked up by, and its attributes. Control files change by
    /// themselves: never cached.
    pub fn entry_out(&self, attr: &Attr) -> EntryOut {
        let (entry, valid) = match hearth::is_control(attr.ino) {
            true => (Duration::ZERO, Duration::ZERO),
            false => (self.entry, self.attr),
        };
        EntryOut {
            nodeid: attr.ino,
            generation: u64::from(attr.generation),
            entry_valid: entry.as_secs(),
            entry_valid_nsec: entry.subsec_nanos(),
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            attr: attr_out(attr),
        }
    }

    /// "No such name", to be remembered.
    pub fn negative_out(&self) -> EntryOut {
        EntryOut {
            entry_valid: self.negative.as_secs(),
            entry_valid_nsec: self.negative.subsec_nanos(),
            ..Default::default()
        }
    }

    /// Attributes alone.
    pub fn attr_out(&self, attr: &Attr) -> wire::AttrOut {
        let valid = self.attr_valid(attr);
        wire::AttrOut {
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            dummy: 0,
            attr: attr_out(attr),
        }
    }

    /// Attributes with the time of birth.
    pub fn statx_out(&self, attr: &Attr) -> StatxOut {
        let valid = self.attr_valid(attr);
        StatxOut {
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            stat: statx(attr),
            ..Default::default()
        }
    }

    fn attr_valid(&self, attr: &Attr) -> Duration {
        if hearth::is_control(attr.ino) {
            Duration::ZERO
        } else {
            self.attr
        }
    }
}

/// Header of a reply with a body of so many bytes, or with an error.
pub(crate) fn out_header(unique: u64, result: Result<usize, Errno>) -> OutHeader {
    let (error, body) = match result {
        Ok(body) => (0, body),
        Err(errno) => (sendable(errno), 0),
    };
    OutHeader {
        len: (size_of::<OutHeader>() + body) as u32,
        error: -error,
        unique,
    }
}

/// The number by which an error is told to the kernel. It takes 1 to 511 only: 0 is success, and a
/// reply with a larger one is refused, so that its request would wait for ever. Filesystems of a
/// kernel return such numbers now and then, `ENOTSUPP` (524) for example.
fn sendable(errno: Errno) -> i32 {
    match errno.0 {
        1..=511 => errno.0,
        _ => libc::EIO,
    }
}

/// `struct fuse_attr`.
pub(crate) fn attr_out(attr: &Attr) -> wire::Attr {
    wire::Attr {
        ino: attr.shown_ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.sec as u64,
        mtime: attr.mtime.sec as u64,
        ctime: attr.ctime.sec as u64,
        atimensec: attr.atime.nsec,
        mtimensec: attr.mtime.nsec,
        ctimensec: attr.ctime.nsec,
        mode: attr.mode(),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.blksize,
        flags: 0,
    }
}

/// `struct fuse_kstatfs`.
pub(crate) fn statfs_out(st: &StatFs) -> Kstatfs {
    Kstatfs {
        blocks: st.blocks,
        bfree: st.bfree,
        bavail: st.bavail,
        files: st.files,
        ffree: st.ffree,
        bsize: st.bsize,
        namelen: st.namelen,
        frsize: st.frsize,
        ..Default::default()
    }
}

fn statx(attr: &Attr) -> Statx {
    Statx {
        mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
        blksize: attr.blksize,
        attributes: attr.attributes(),
        attributes_mask: Attr::ATTRIBUTES,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode() as u16,
        ino: attr.shown_ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: sx_time(attr.atime),
        btime: sx_time(attr.btime),
        ctime: sx_time(attr.ctime),
        mtime: sx_time(attr.mtime),
        rdev_major: libc::major(u64::from(attr.rdev)),
        rdev_minor: libc::minor(u64::from(attr.rdev)),
        ..Default::default()
    }
}

fn sx_time(time: Time) -> SxTime {
    SxTime {
        tv_sec: time.sec,
        tv_nsec: time.nsec,
        reserved: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_does_not_fit_is_left_out_whole() {
        let mut buffer = [0xff; 64];
        let mut reply = Reply::new(&mut buffer);
        let entry = Dirent {
            ino: 9,
            off: 1,
            namelen: 3,
            kind: 8,
        };
        assert!(reply.dirent(0, &entry, b"abc", 64));
        assert_eq!(reply.len(), 32);
        assert!(!reply.dirent(0, &entry, b"abc", 63));
        assert!(reply.dirent(0, &entry, b"abc", 64));
        assert!(!reply.dirent(0, &entry, b"abc", 1000));
        assert_eq!(reply.written()[24..32], *b"abc\0\0\0\0\0");
    }

    #[test]
    fn entries_have_zeros_around_them_whatever_was_there() {
        for len in 1..20 {
            let mut buffer = [0xff; 128];
            let mut reply = Reply::new(&mut buffer);
            let entry = Dirent {
                ino: 9,
                off: 1,
                namelen: len as u32,
                kind: 8,
            };
            let name = [b'n'; 20];
            assert!(reply.dirent(16, &entry, &name[..len], 128));
            let size = 16 + (24 + len).next_multiple_of(8);
            assert_eq!(reply.len(), size);
            let written = reply.written();
            assert_eq!(written[..16], [0; 16]);
            assert_eq!(written[16..40], *entry.as_bytes());
            assert_eq!(written[40..40 + len], name[..len]);
            assert!(written[40 + len..size].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn an_answer_larger_than_its_buffer_is_eio() {
        let mut buffer = [0; 100];
        let mut reply = Reply::new(&mut buffer);
        assert_eq!(reply.push(&EntryOut::default()), Err(Errno::EIO));
        assert_eq!(reply.len(), 0);
    }

    #[test]
    fn an_error_travels_as_a_negative_number() {
        let header = out_header(5, Err(Errno::ENOENT));
        assert_eq!(
            (header.len, header.error, header.unique),
            (16, -libc::ENOENT, 5)
        );
    }

    /// Regression: the kernel refused a reply with an errno above 511, and the caller hung; with 0
    /// it was a success without a body.
    #[test]
    fn an_error_that_the_kernel_would_not_take_travels_as_eio() {
        for (errno, sent) in [
            (1, 1),
            (511, 511),
            (512, libc::EIO),
            (524, libc::EIO),
            (0, libc::EIO),
            (-5, libc::EIO),
            (i32::MIN, libc::EIO),
        ] {
            let header = out_header(5, Err(Errno(errno)));
            assert_eq!((header.len, header.error), (16, -sent), "{errno}");
        }
    }
}
