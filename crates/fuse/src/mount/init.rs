//! INIT: what the kernel offers, what the options want, what is agreed.

use crate::mount::options::{MountOptions, ReadDirPlus};
use crate::wire::*;

/// The outcome of INIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// Agreed minor version.
    pub minor: u32,
    /// Agreed bits of [`init`].
    pub flags: u64,
    /// Largest data of one WRITE or READ in bytes.
    pub max_write: usize,
}

impl Agreed {
    /// Whether all of `bits` were agreed on.
    pub fn has(&self, bits: u64) -> bool {
        self.flags & bits == bits
    }
}

/// Requests that the kernel may have under way in the background: readahead, asynchronous I/O and
/// pages that it writes back, of all tenants together. Those that a rate limit delays keep their
/// place; when none is left, everybody waits. So there are more than thousands of streams take, but
/// not more than have their data, which a delayed request may hold here, in a sixteenth of the
/// memory. From as many on the kernel reads ahead no more and writes back only what it must.
fn places(memory: u64, max_write: u32) -> u16 {
    const FEWEST: u64 = 1024;
    const MOST: u64 = 8192;
    (memory / 16 / u64::from(max_write.max(1))).clamp(FEWEST, MOST) as u16
}

/// Bytes of memory of this machine.
fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

/// Bits that are always taken when offered.
const ALWAYS: u64 = init::ASYNC_READ
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::HAS_IOCTL_DIR
    | init::ASYNC_DIO
    | init::POSIX_ACL
    | init::ABORT_ERROR
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::CREATE_SUPP_GROUP
    | init::DIRECT_IO_ALLOW_MMAP;

/// All bits that the kernel offers.
pub(crate) fn offered(request: &InitIn) -> u64 {
    let low = u64::from(request.flags);
    if low & init::INIT_EXT == 0 {
        low
    } else {
        low | u64::from(request.flags2) << 32
    }
}

/// Whether this kernel speaks a version that this crate speaks; otherwise its (major, minor).
pub(crate) fn supported(request: &InitIn) -> Result<(), (u32, u32)> {
    let (major, minor) = (request.major, request.minor);
    let good = major > KERNEL_VERSION || (major == KERNEL_VERSION && minor >= OLDEST_MINOR_VERSION);
    if good { Ok(()) } else { Err((major, minor)) }
}

/// The reply to INIT. `uring` says whether the queues are ready to be used, `charges_first`
/// whether the volume does (`docs/design/quota.md`).
pub(crate) fn agree(
    request: &InitIn,
    options: &MountOptions,
    uring: bool,
    charges_first: bool,
) -> (InitOut, Agreed) {
    let offered = offered(request);
    // Only a file that is opened and may be mapped directly can be charged first.
    let can_charge = offered & init::DIRECT_IO_ALLOW_MMAP != 0 && !options.no_open;
    let may_collect = can_charge || !charges_first;
    let flags = offered & wanted(options, request.minor, uring, may_collect);
    let agreed = Agreed {
        minor: request.minor.min(KERNEL_MINOR_VERSION),
        flags,
        max_write: options.max_write as usize,
    };
    let places = places(memory(), options.max_write);
    let answer = InitOut {
        major: KERNEL_VERSION,
        minor: agreed.minor,
        max_readahead: request.max_readahead,
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: places,
        congestion_threshold: places,
        max_write: options.max_write,
        time_gran: 1,
        max_pages: (agreed.max_write / PAGE_SIZE) as u16,
        // Files that lie on no other filesystem can be passed through.
        max_stack_depth: u32::from(agreed.has(init::PASSTHROUGH)),
        ..Default::default()
    };
    (answer, agreed)
}

fn wanted(options: &MountOptions, minor: u32, uring: bool, may_collect: bool) -> u64 {
    let mut bits = ALWAYS;
    let mut add = |condition: bool, bit: u64| bits |= if condition { bit } else { 0 };
    // Pages are dropped when a notification says that they are stale; where nobody notifies, when
    // the size or the time of the last change has moved.
    add(!options.changed_behind, init::EXPLICIT_INVAL_DATA);
    add(options.changed_behind, init::AUTO_INVAL_DATA);
    add(
        // A kernel that believes its own times does not move them for writes that it passes on, nor
        // for those of others.
        may_collect
            && !options.changed_behind
            && options
                .writeback
                .unwrap_or(minor >= PRUNE_MINOR_VERSION && !options.direct_io),
        init::WRITEBACK_CACHE,
    );
    add(options.parallel_dirops, init::PARALLEL_DIROPS);
    let readdirplus = options.agreed_readdirplus();
    add(readdirplus != ReadDirPlus::No, init::DO_READDIRPLUS);
    add(readdirplus == ReadDirPlus::Auto, init::READDIRPLUS_AUTO);
    // Without handles there is nothing that a lock could belong to, and without FLUSH nobody says
    // when record locks end: the kernel then keeps them itself. It does so too where nobody else
    // would see them.
    let shares_locks = !options.no_open && !options.changed_behind;
    add(shares_locks, init::FLOCK_LOCKS);
    add(shares_locks && !options.no_flush, init::POSIX_LOCKS);
    // A kernel that sends no opens has to send the cut. Elsewhere it refuses the cut of a program
    // that runs only after an OPEN for reading has made it; below a directory of the host that
    // would kill the program, whose pages are those of the file below.
    add(
        !options.no_open && !options.changed_behind,
        init::ATOMIC_O_TRUNC,
    );
    add(options.no_open, init::NO_OPEN_SUPPORT);
    add(options.no_opendir, init::NO_OPENDIR_SUPPORT);
    add(options.passes_through(), init::PASSTHROUGH);
    // The kernel then names no user in most requests, so it is never asked for unasked.
    add(options.idmap, init::ALLOW_IDMAP);
    add(uring, init::OVER_IO_URING);
    bits
}

#[cfg(test)]
#[path = "init_tests.rs"]
mod tests;
