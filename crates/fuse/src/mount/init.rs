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
    | init::EXPLICIT_INVAL_DATA
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
        ..Default::default()
    };
    (answer, agreed)
}

fn wanted(options: &MountOptions, minor: u32, uring: bool, may_collect: bool) -> u64 {
    let mut bits = ALWAYS;
    let mut add = |condition: bool, bit: u64| bits |= if condition { bit } else { 0 };
    add(
        // A kernel that believes its own times does not move them for writes that it passes on.
        may_collect
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
    // when record locks end: the kernel then keeps them itself.
    add(!options.no_open, init::FLOCK_LOCKS);
    add(!options.no_open && !options.no_flush, init::POSIX_LOCKS);
    // A kernel that sends no opens has to send the cut.
    add(!options.no_open, init::ATOMIC_O_TRUNC);
    add(options.no_open, init::NO_OPEN_SUPPORT);
    add(options.no_opendir, init::NO_OPENDIR_SUPPORT);
    add(uring, init::OVER_IO_URING);
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn places_are_as_many_as_have_their_data_in_memory() {
        const GIB: u64 = 1 << 30;
        let few = [0, GIB, 16 * GIB].map(|memory| places(memory, 1 << 20));
        assert_eq!(few, [1024; 3]);
        assert_eq!(places(64 * GIB, 1 << 20), 4096);
        assert_eq!(places(64 * GIB, 4096), 8192);
        assert_eq!(places(u64::MAX, 1 << 20), 8192);
    }

    fn kernel(minor: u32, flags: u64) -> InitIn {
        let (low, high) = (flags as u32, (flags >> 32) as u32);
        InitIn {
            major: 7,
            minor,
            flags: low,
            flags2: high,
            ..Default::default()
        }
    }

    #[test]
    fn nothing_is_taken_that_was_not_offered() {
        let (answer, agreed) = agree(
            &kernel(45, init::BIG_WRITES),
            &MountOptions::default(),
            true,
            false,
        );
        assert_eq!(agreed.flags, init::BIG_WRITES);
        assert_eq!((answer.flags, answer.flags2), (init::BIG_WRITES as u32, 0));
    }

    #[test]
    fn the_upper_bits_count_only_with_the_extension_bit() {
        assert_eq!(offered(&kernel(45, init::OVER_IO_URING)), 0);
        let both = init::OVER_IO_URING | init::INIT_EXT;
        assert_eq!(offered(&kernel(45, both)), both);
    }

    #[test]
    fn io_uring_is_agreed_only_when_the_queues_are_ready() {
        let all = kernel(45, !0);
        assert!(
            !agree(&all, &MountOptions::default(), false, false)
                .1
                .has(init::OVER_IO_URING)
        );
        assert!(
            agree(&all, &MountOptions::default(), true, false)
                .1
                .has(init::OVER_IO_URING)
        );
    }

    #[test]
    fn attributes_that_nobody_would_believe_do_not_come_along_with_names() {
        let comes = |timeout, readdirplus| {
            let options = MountOptions {
                entry_timeout: Duration::ZERO,
                attr_timeout: timeout,
                readdirplus,
                ..Default::default()
            };
            let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
            (
                agreed.has(init::DO_READDIRPLUS),
                agreed.has(init::READDIRPLUS_AUTO),
            )
        };
        let (never, second) = (Duration::ZERO, Duration::from_secs(1));
        assert_eq!(comes(second, ReadDirPlus::Auto), (true, true));
        assert_eq!(comes(never, ReadDirPlus::Auto), (false, false));
        assert_eq!(comes(never, ReadDirPlus::Yes), (true, false));
    }

    #[test]
    fn calls_on_one_directory_come_side_by_side_unless_the_options_say_not() {
        let comes = |parallel_dirops| {
            let options = MountOptions {
                parallel_dirops,
                ..Default::default()
            };
            let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
            agreed.has(init::PARALLEL_DIROPS)
        };
        assert!(comes(MountOptions::default().parallel_dirops) && !comes(false));
    }

    #[test]
    fn no_open_leaves_locks_to_the_kernel() {
        let options = MountOptions {
            no_open: true,
            ..Default::default()
        };
        let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
        assert!(agreed.has(init::NO_OPEN_SUPPORT) && !agreed.has(init::POSIX_LOCKS));
    }

    #[test]
    fn record_locks_whose_end_nobody_tells_are_left_to_the_kernel() {
        let options = MountOptions {
            no_flush: true,
            ..Default::default()
        };
        let (_, agreed) = agree(&kernel(45, !0), &options, false, false);
        assert!(agreed.has(init::FLOCK_LOCKS) && !agreed.has(init::POSIX_LOCKS));
    }

    #[test]
    fn writes_are_collected_by_default_only_where_sizes_can_be_dropped() {
        let collects = |minor, options| {
            agree(&kernel(minor, !0), &options, false, false)
                .1
                .has(init::WRITEBACK_CACHE)
        };
        assert!(collects(45, MountOptions::default()) && !collects(44, MountOptions::default()));
        let forced = MountOptions {
            writeback: Some(true),
            ..Default::default()
        };
        assert!(collects(40, forced));
        let refused = MountOptions {
            writeback: Some(false),
            ..Default::default()
        };
        assert!(!collects(45, refused));
    }

    #[test]
    fn writes_that_cannot_be_charged_first_are_not_collected_of_a_volume_that_does() {
        let collects = |offered, no_open, charges_first| {
            let options = MountOptions {
                no_open,
                ..Default::default()
            };
            let (_, agreed) = agree(&kernel(45, offered), &options, false, charges_first);
            agreed.has(init::WRITEBACK_CACHE)
        };
        let old = !init::DIRECT_IO_ALLOW_MMAP;
        assert!(
            collects(!0, false, true),
            "files are asked for as they are opened"
        );
        assert!(!collects(!0, true, true) && !collects(old, false, true));
        assert!(collects(!0, true, false) && collects(old, false, false));
    }

    #[test]
    fn an_older_kernel_sets_the_minor_version_and_a_too_old_one_is_refused() {
        assert_eq!(
            agree(&kernel(39, !0), &MountOptions::default(), false, false)
                .0
                .minor,
            39
        );
        assert_eq!(
            agree(&kernel(99, !0), &MountOptions::default(), false, false)
                .0
                .minor,
            45
        );
        assert_eq!(supported(&kernel(30, 0)), Err((7, 30)));
        assert_eq!(supported(&kernel(31, 0)), Ok(()));
    }
}
