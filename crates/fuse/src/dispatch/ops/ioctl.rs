//! Inode flags and heat through ioctl. The kernel sends numbers whose size says how many bytes go
//! in and come out, and for `chattr(1)` and friends it converts between 32 and 64 bits itself:
//! flags are 4 bytes whatever the number says.

use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::outcome::Outcome;
use crate::wire::reply::Reply;
use crate::wire::{IoctlIn, IoctlOut};
use hearth::heat::HeatInfo;
use hearth::{Errno, FsXAttr, KernelCache};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_GETVERSION: u32 = 0x8008_7601;
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
/// `_IOR('f', 17, struct hot_heat_info)`. A number that says that nothing goes in brings nothing
/// along, so `live` cannot be seen: it is taken for set.
const FS_IOC_GET_HEAT_INFO: u32 = 0x8050_6611;
/// `_IOWR` of that number, which brings `live` along.
const FS_IOC_GET_HEAT_INFO_BY: u32 = 0xc050_6611;
/// Direction and size of a number.
const READS: u32 = 0x8000_0000;

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

/// `struct hot_heat_info`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct HotHeatInfo {
    /// Not 0: the temperature of now; 0: that of the last pass.
    live: u8,
    /// [`SAMPLED`], or 0. Reserved in the patches, as all below.
    flags: u8,
    resv: [u8; 2],
    temp: u32,
    avg_delta_reads: u64,
    avg_delta_writes: u64,
    last_read_time: u64,
    last_write_time: u64,
    num_reads: u32,
    num_writes: u32,
    /// With [`SAMPLED`]: how many of `num_reads` and `num_writes` nobody saw.
    estimated: u64,
    future: [u64; 3],
}
/// Some of the accesses were sampled: `num_reads` and `num_writes` are estimates.
const SAMPLED: u8 = 1;
const _: () = assert!(size_of::<HotHeatInfo>() == 80);

impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn ioctl(
        &self,
        cx: &Context<'_>,
        args: &IoctlIn,
        data: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let out = args.out_size as usize;
        match args.cmd {
            FS_IOC_GETFLAGS => answer(out, self.vfs.get_flags(cx.ino())?.as_bytes(), reply),
            FS_IOC_GETVERSION => answer(
                out,
                self.vfs
                    .getattr(&cx.caller(0), cx.ino())?
                    .generation
                    .as_bytes(),
                reply,
            ),
            FS_IOC_SETFLAGS => {
                self.vfs
                    .set_flags(&cx.caller(0), cx.ino(), argument::<u32>(data)?)?;
                self.changed_by_ioctl(cx.ino());
                answer(0, &[], reply)
            }
            FS_IOC_FSGETXATTR => {
                let attr = self.vfs.get_fsxattr(cx.ino())?;
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
                self.vfs.set_fsxattr(&cx.caller(0), cx.ino(), &attr)?;
                self.changed_by_ioctl(cx.ino());
                answer(0, &[], reply)
            }
            FS_IOC_GET_HEAT_INFO => self.heat_info(cx, true, out, reply),
            FS_IOC_GET_HEAT_INFO_BY => {
                let asked: HotHeatInfo = argument(data)?;
                self.heat_info(cx, asked.live != 0, out, reply)
            }
            // The number of heat with another size: its caller has another structure.
            cmd if cmd & (READS | 0xffff) == FS_IOC_GET_HEAT_INFO & (READS | 0xffff) => {
                Err(Errno::EINVAL.into())
            }
            _ => Err(Errno::ENOTTY.into()),
        }
    }

    /// The kernel takes nothing for stale after an ioctl, and the time of change has moved. The
    /// inode is open, so telling waits for nobody. A kernel that keeps the times of files itself
    /// drops this one at its close.
    fn changed_by_ioctl(&self, ino: u64) {
        self.notifier.inval_inode(ino, None);
        self.notifier.mark_stale(ino);
    }

    fn heat_info(
        &self,
        cx: &Context<'_>,
        live: bool,
        out: usize,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let heat = self.volume.heat();
        // Records have the numbers that programs see.
        let attr = self.vfs.getattr(&cx.caller(0), cx.ino())?;
        if cx.header.uid != attr.uid && !heat.may_see(cx.header.uid, Some(attr.shown_ino)) {
            return Err(Errno::EACCES.into());
        }
        let info = heat.info(attr.shown_ino, live)?;
        answer(out, HotHeatInfo::of(&info, live).as_bytes(), reply)
    }
}

impl HotHeatInfo {
    fn of(info: &HeatInfo, live: bool) -> HotHeatInfo {
        HotHeatInfo {
            live: u8::from(live),
            flags: if info.estimated > 0 { SAMPLED } else { 0 },
            resv: [0; 2],
            temp: info.temperature,
            avg_delta_reads: info.average_between_reads_ns,
            avg_delta_writes: info.average_between_writes_ns,
            last_read_time: info.last_read_ns,
            last_write_time: info.last_write_ns,
            num_reads: info.reads,
            num_writes: info.writes,
            estimated: info.estimated,
            future: [0; 3],
        }
    }
}

fn argument<T: FromBytes>(data: &[u8]) -> Result<T, Errno> {
    T::read_from_prefix(data)
        .map(|(value, _)| value)
        .map_err(|_| Errno::EINVAL)
}

/// Success with exactly `size` bytes, as the kernel wants them: `value`, cut or padded with zeros.
fn answer(size: usize, value: &[u8], reply: &mut Reply<'_>) -> OpResult {
    reply.push(&IoctlOut::default())?;
    let copied = value.len().min(size);
    reply.bytes(&value[..copied])?;
    for _ in copied..size.min(copied + 4096) {
        reply.bytes(&[0])?;
    }
    Ok(Outcome::Done(()))
}
