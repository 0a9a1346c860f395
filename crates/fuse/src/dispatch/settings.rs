//! What the mount options and the outcome of INIT mean for single requests.

use crate::mount::init::Agreed;
use crate::mount::options::MountOptions;
use crate::wire::init;
use crate::wire::reply::Timeouts;

/// What the options and INIT mean for single requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub timeouts: Timeouts,
    pub direct_io: bool,
    /// Direct files may be mapped.
    pub direct_mmap: bool,
    pub no_open: bool,
    pub no_opendir: bool,
    pub no_flush: bool,
    pub writeback: bool,
}

impl Settings {
    pub fn new(options: &MountOptions, agreed: &Agreed) -> Settings {
        Settings {
            timeouts: Timeouts {
                entry: options.entry_timeout,
                attr: options.attr_timeout,
                negative: options.negative_timeout,
            },
            direct_io: options.direct_io,
            direct_mmap: agreed.has(init::DIRECT_IO_ALLOW_MMAP),
            no_open: agreed.has(init::NO_OPEN_SUPPORT),
            no_opendir: agreed.has(init::NO_OPENDIR_SUPPORT),
            no_flush: options.no_flush,
            writeback: agreed.has(init::WRITEBACK_CACHE),
        }
    }

    /// Whether the kernel acknowledges writes by itself, if only stores through mappings, but for
    /// files that are charged first.
    pub fn collects(&self) -> bool {
        self.direct_mmap && !self.no_open
    }

    /// Whether it does so for files that are charged first too.
    pub fn collects_anyway(&self) -> bool {
        self.writeback && (self.no_open || !self.direct_mmap)
    }
}
