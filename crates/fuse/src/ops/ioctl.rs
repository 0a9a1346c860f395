//! Inode flags through ioctl. The kernel sends numbers whose size says how many bytes go in and
//! come out, and for `chattr(1)` and friends it converts between 32 and 64 bits itself: flags are 4
//! bytes whatever the number says.

use crate::dispatch::{Context, Dispatcher, Done};
use crate::reply::Reply;
use crate::wire::{IoctlIn, IoctlOut};
use hearth::{Errno, FsXAttr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_GETVERSION: u32 = 0x8008_7601;
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;

/// `struct fsxattr`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Fsxattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
    pad: [u8; 8],
}
const _: () = assert!(size_of::<Fsxattr>() == 28);

impl Dispatcher {
    pub(crate) fn ioctl(
        &self,
        cx: &Context<'_>,
        args: &IoctlIn,
        data: &[u8],
        reply: &mut Reply<'_>,
    ) -> Result<Done, Errno> {
        let out = args.out_size as usize;
        match args.cmd {
            FS_IOC_GETFLAGS => answer(out, self.door.get_flags(cx.ino())?.as_bytes(), reply),
            FS_IOC_GETVERSION => answer(
                out,
                self.door.getattr(cx.ino())?.generation.as_bytes(),
                reply,
            ),
            FS_IOC_SETFLAGS => {
                self.door
                    .set_flags(&cx.caller(0), cx.ino(), argument::<u32>(data)?)?;
                answer(0, &[], reply)
            }
            FS_IOC_FSGETXATTR => {
                let attr = self.door.get_fsxattr(cx.ino())?;
                let value = Fsxattr {
                    xflags: attr.xflags,
                    extsize: attr.extsize,
                    nextents: attr.nextents,
                    projid: attr.project,
                    cowextsize: attr.cowextsize,
                    pad: [0; 8],
                };
                answer(out, value.as_bytes(), reply)
            }
            FS_IOC_FSSETXATTR => {
                let value: Fsxattr = argument(data)?;
                let attr = FsXAttr {
                    xflags: value.xflags,
                    extsize: value.extsize,
                    nextents: value.nextents,
                    project: value.projid,
                    cowextsize: value.cowextsize,
                };
                self.door.set_fsxattr(&cx.caller(0), cx.ino(), &attr)?;
                answer(0, &[], reply)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}

fn argument<T: FromBytes>(data: &[u8]) -> Result<T, Errno> {
    T::read_from_prefix(data)
        .map(|(value, _)| value)
        .map_err(|_| Errno::EINVAL)
}

/// Success with exactly `size` bytes, as the kernel wants them: `value`, cut or padded with zeros.
fn answer(size: usize, value: &[u8], reply: &mut Reply<'_>) -> Result<Done, Errno> {
    reply.push(&IoctlOut::default())?;
    let copied = value.len().min(size);
    reply.bytes(&value[..copied])?;
    for _ in copied..size.min(copied + 4096) {
        reply.bytes(&[0])?;
    }
    Ok(Done::Reply)
}
