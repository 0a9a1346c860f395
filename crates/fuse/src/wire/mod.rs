//! The kernel's FUSE interface, ABI 7.45: structures, numbers and flags, nothing else.
//!
//! Names follow `linux/fuse.h` without its prefix: `struct fuse_entry_out` is [`EntryOut`]. Every
//! structure carries its size, checked when the crate is compiled; all fields are little endian on
//! little-endian machines, as the kernel is.

mod decode;
mod flags;
mod input;
mod opcode;
pub(crate) mod operation;
mod output;
pub(crate) mod reply;
pub(crate) mod request;
mod ring;

pub(crate) use flags::*;
pub(crate) use input::*;
pub(crate) use opcode::Opcode;
pub(crate) use output::*;
pub(crate) use ring::{CMD_COMMIT_AND_FETCH, CMD_REGISTER, RingCmd, RingEntInOut, RingHeader};

/// Major version of the interface.
pub(crate) const KERNEL_VERSION: u32 = 7;
/// Newest minor version that this crate speaks.
pub(crate) const KERNEL_MINOR_VERSION: u32 = 45;
/// Oldest minor version that this crate accepts (Linux 5.4): all structures have their present size
/// but one.
pub(crate) const OLDEST_MINOR_VERSION: u32 = 31;
/// First minor version with NOTIFY_PRUNE.
pub(crate) const PRUNE_MINOR_VERSION: u32 = 45;
/// Unit of `max_pages`.
pub(crate) const PAGE_SIZE: usize = 4096;
/// Room that a read from `/dev/fuse` needs beside the data of a WRITE.
pub(crate) const READ_OVERHEAD: usize = 2 * PAGE_SIZE;

/// Declares one structure of the interface together with its size in bytes.
macro_rules! wire {
    ($(#[$meta:meta])* $name:ident = $size:literal { $($field:ident: $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, zerocopy::FromBytes, zerocopy::IntoBytes,
            zerocopy::Immutable, zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub(crate) struct $name { $(pub $field: $ty),* }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}
use wire;
