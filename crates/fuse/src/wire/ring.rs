//! FUSE over io_uring: the shared header of a ring entry and the command in a submission.

use super::wire;

/// First registration of an entry.
pub(crate) const CMD_REGISTER: u32 = 1;
/// The reply to a request; the entry is free for the next one.
pub(crate) const CMD_COMMIT_AND_FETCH: u32 = 2;

wire! { RingEntInOut = 32 {
    flags: u64, commit_id: u64, payload_sz: u32, padding: u32, reserved: u64,
} }

/// Bytes of the area that holds the request header on the way in and the reply header on the way
/// out.
pub(crate) const IN_OUT_SIZE: usize = 128;
/// Bytes of the area that holds the first argument of the request.
pub(crate) const OP_IN_SIZE: usize = 128;

/// `struct fuse_uring_req_header`.
#[derive(
    Clone,
    Copy,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C)]
pub(crate) struct RingHeader {
    pub in_out: [u8; IN_OUT_SIZE],
    pub op_in: [u8; OP_IN_SIZE],
    pub ent: RingEntInOut,
}
const _: () = assert!(size_of::<RingHeader>() == 288);

wire! { RingCmd = 24 { flags: u64, commit_id: u64, qid: u16, padding: [u8; 6] } }
