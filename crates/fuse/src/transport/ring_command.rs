//! The two commands of FUSE over io_uring, as submissions to a ring whose first file is the device.

use super::region::Region;
use crate::wire::reply::out_header;
use crate::wire::{CMD_COMMIT_AND_FETCH, CMD_REGISTER, RingCmd, RingEntInOut};
use hearth::Errno;
use io_uring::types::Fixed;
use io_uring::{opcode, squeue::Entry128};
use zerocopy::IntoBytes;

/// Gives a new entry with this memory to the kernel, for requests of CPU `queue`.
pub(super) fn register(region: &Region, queue: u16) -> Entry128 {
    let command = RingCmd {
        qid: queue,
        ..Default::default()
    };
    entry(CMD_REGISTER, &command, region.parts(), 2)
}

/// Writes the reply's header into an entry, whose payload has the body, and gives the entry back to
/// the kernel for the next request.
pub(super) fn commit(region: &mut Region, queue: u16, result: Result<usize, Errno>) -> Entry128 {
    let unique = region.request().0.unique;
    let (head, _) = region.split();
    let commit_id = head.ent.commit_id;
    let out = out_header(unique, result);
    head.in_out[..out.as_bytes().len()].copy_from_slice(out.as_bytes());
    head.ent = RingEntInOut {
        commit_id,
        payload_sz: result.unwrap_or_default() as u32,
        ..Default::default()
    };
    let command = RingCmd {
        commit_id,
        qid: queue,
        ..Default::default()
    };
    entry(CMD_COMMIT_AND_FETCH, &command, 0, 0)
}

fn entry(number: u32, command: &RingCmd, addr: u64, len: u32) -> Entry128 {
    let mut bytes = [0; 80];
    bytes[..size_of::<RingCmd>()].copy_from_slice(command.as_bytes());
    let mut sqe = opcode::UringCmd80::new(Fixed(0), number)
        .cmd(bytes)
        .addr(Some(addr))
        .build();
    // SAFETY: Entry128 is `struct io_uring_sqe` with 64 bytes behind it, repr(C); its field `len`
    // is the u32 at byte 24. The builder of this command leaves it 0.
    unsafe { (&raw mut sqe).cast::<u8>().add(24).cast::<u32>().write(len) };
    sqe
}
