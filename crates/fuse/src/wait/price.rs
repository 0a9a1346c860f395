//! What requests cost at the rate limits of tenants.

use crate::wire::{CopyFileRangeIn, FallocateIn, InHeader, Opcode, ReadIn, WriteIn};
use zerocopy::FromBytes;

/// The size of the largest WRITE in bytes. Longer copies and allocations are done in chunks.
pub(crate) const SHORT: u64 = 1 << 20;
/// With rate limits a copy ends after this many bytes, as copy_file_range(2) may. Each copy is
/// charged when it begins, so the next one waits for that charge and none comes much too early.
pub(crate) const COPY_MAX: u64 = 4 << 20;

/// Bytes that a request moves or allocates. `None` for a request that only gives something back and
/// is therefore never delayed.
pub(super) fn price(header: &InHeader, args: &[u8]) -> Option<u64> {
    match Opcode::from_number(header.opcode)? {
        Opcode::Forget
        | Opcode::BatchForget
        | Opcode::Interrupt
        | Opcode::Flush
        | Opcode::Release
        | Opcode::Releasedir
        | Opcode::Init
        | Opcode::Destroy => None,
        Opcode::Read => Some(fixed::<ReadIn>(args).map_or(0, |read| u64::from(read.size))),
        Opcode::Write => Some(fixed::<WriteIn>(args).map_or(0, |write| u64::from(write.size))),
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
            Some(fixed::<CopyFileRangeIn>(args).map_or(0, |copy| copy.len.min(COPY_MAX)))
        }
        Opcode::Fallocate => {
            // A longer one is charged chunk by chunk, or when it is done.
            let at_once = |args: &FallocateIn| args.length <= SHORT && brings_blocks(args.mode);
            let paid = fixed::<FallocateIn>(args).filter(at_once);
            Some(paid.map_or(0, |args| args.length))
        }
        _ => Some(0),
    }
}

/// Bytes of data that come with a request, and that it holds while it is delayed.
pub(super) fn data(header: &InHeader, args: &[u8]) -> usize {
    let size = match Opcode::from_number(header.opcode) {
        Some(Opcode::Write) => fixed::<WriteIn>(args).map(|write| write.size),
        // Longer than what an older kernel sends, which begins with the size too.
        Some(Opcode::Setxattr) => fixed::<u32>(args),
        _ => None,
    };
    size.unwrap_or_default() as usize
}

/// The inode that a copy writes to; `None` for other requests.
pub(super) fn copy_target(header: &InHeader, args: &[u8]) -> Option<u64> {
    match Opcode::from_number(header.opcode)? {
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => {
            fixed::<CopyFileRangeIn>(args).map(|copy| copy.nodeid_out)
        }
        _ => None,
    }
}

/// Whether the kernel waits for the reply to a request that only gives something back.
pub(super) fn has_reply(header: &InHeader) -> bool {
    matches!(
        Opcode::from_number(header.opcode),
        Some(Opcode::Flush | Opcode::Release | Opcode::Releasedir)
    )
}

/// Whether an allocation in this mode takes memory, and is therefore charged by its length.
pub(crate) fn brings_blocks(mode: u32) -> bool {
    let mode = mode as i32 & !libc::FALLOC_FL_KEEP_SIZE;
    mode == 0 || mode == libc::FALLOC_FL_ZERO_RANGE
}

fn fixed<T: FromBytes>(args: &[u8]) -> Option<T> {
    T::read_from_prefix(args).ok().map(|(value, _)| value)
}
