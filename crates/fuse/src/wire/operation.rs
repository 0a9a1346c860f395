//! A typed operation.

use super::*;

/// What is asked for, with names and data borrowed from the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    /// Packed [`ForgetOne`]s.
    BatchForget {
        items: &'a [u8],
    },
    /// By number: the handle that the kernel may add says nothing more.
    Getattr,
    Statx,
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        args: MknodIn,
        name: &'a [u8],
    },
    Mkdir {
        args: MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        args: Rename2In,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    Link {
        ino: u64,
        name: &'a [u8],
    },
    Open(OpenIn),
    Opendir(OpenIn),
    Create {
        args: CreateIn,
        name: &'a [u8],
    },
    Tmpfile(CreateIn),
    Read(ReadIn),
    Readdir(ReadIn),
    Readdirplus(ReadIn),
    Write {
        args: WriteIn,
        data: &'a [u8],
    },
    Flush(FlushIn),
    Release(ReleaseIn),
    Releasedir(ReleaseIn),
    Fsync(FsyncIn),
    Fsyncdir(FsyncIn),
    Syncfs,
    Statfs,
    Access {
        mask: u32,
    },
    Setxattr {
        args: SetxattrIn,
        name: &'a [u8],
        value: &'a [u8],
    },
    Getxattr {
        size: u32,
        name: &'a [u8],
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Getlk(LkIn),
    Setlk {
        args: LkIn,
        wait: bool,
    },
    Ioctl {
        args: IoctlIn,
        data: &'a [u8],
    },
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    CopyFileRange {
        args: CopyFileRangeIn,
        wide: bool,
    },
    Interrupt {
        unique: u64,
    },
    Init,
    Destroy,
    /// Known and left to the kernel: BMAP, POLL, NOTIFY_REPLY.
    Unsupported,
}
