//! Hearth: a multicore-scalable filesystem as a library.
//!
//! A [`Volume`] is a filesystem; a [`Process`] uses it by paths and descriptors, with the semantics
//! and error numbers of Linux; a [`VolumeVfs`] serves front ends that speak inode numbers, such as
//! FUSE, by the trait [`Vfs`].
//! Operations that commute write no cache line in common: see `ARCHITECTURE.md`.
//!
//! ```
//! let process = hearth::Volume::memory().process(hearth::Credentials::root());
//! let fd = process.open("/hello", libc::O_CREAT | libc::O_RDWR, 0o644)?;
//! process.write(fd, b"world")?;
//! assert_eq!(process.stat("/hello")?.size, 5);
//! # Ok::<(), hearth::Errno>(())
//! ```
//!
//! The feature `store`, on by default, gives volumes that are kept in a directory (`store:DIR`).
//! Without it [`open`] refuses such a source, and neither `is_free` nor `OpenError::Store` exist.
#![forbid(unsafe_code)]
// A print to a closed standard error would panic the thread.
#![deny(clippy::print_stderr)]

pub mod acl;
pub mod amount;
pub mod backend;
mod builder;
mod cache;
mod cache_padded;
mod caller;
mod calls;
mod clock;
mod control;
mod data;
mod directory;
pub mod fdtable;
mod gauges;
mod hashed;
pub mod heat;
mod inode;
mod locks;
mod log;
mod name;
mod named;
mod number;
mod observer;
mod op_rate;
mod ops;
mod owed;
mod process;
mod profile;
pub mod provisional;
mod quota;
mod quotactl;
mod service;
mod settings;
mod source;
mod stats;
mod superblock;
mod tenant;
mod throttle;
mod trim;
mod unprintable;
mod vfs;
mod volume;
mod walk;
mod watch;
mod write_streams;

pub use hearth_backend::flags;
use hearth_backend::{attr, errno};

pub use attr::{Attr, DirEntry, FsXAttr, Kind, SetAttr, SetTime, StatFs, StatX, Target, Time};
pub use builder::VolumeBuilder;
pub use caller::{Caller, Credentials, Origin};
pub use calls::{Call, CallStats};
pub use clock::{Clock, SystemClock};
pub use control::{ControlError, ControlFile, ControlInput, ControlStream};
pub use errno::{Errno, Result, io_reason};
pub use gauges::{StoreGauges, VolumeGauges};
pub use locks::{Interrupt, ListedLock, LockKind, LockRequest};
pub use name::NAME_MAX;
pub use number::{ROOT, is_control};
pub use observer::Observer;
pub use ops::io::WriteAt;
pub use ops::open::OpenFile;
pub use process::{AT_FDCWD, Fd, LockSpec, OwnedDirEntry, Process};
pub use profile::{
    Columns, LockCounts, LockProfile, LockRow, LockSampling, LockSide, LockSort, SiteRow,
};
pub use quota::{
    BLOCK, CountedElsewhere, DEFAULT_GRACE, EVENTS_KEPT, KeepError, Limit, Owners, QuotaCheck,
    QuotaDifference, QuotaEvent, QuotaEventFile, QuotaEventKind, QuotaId, QuotaKind, QuotaRecord,
    QuotaUsage, RefusalReason, Resource, SetProjectError, TreeChange,
};
pub use quotactl::{
    Amounts, Charges, KeptSetting, LimitChange, LimitUpdate, Quota, QuotaDefaults, QuotaError,
    QuotaNumber,
};
#[cfg(feature = "store")]
pub use source::is_free;
pub use source::{
    Compress, HostQuotaMode, HostSourceOptions, OpenError, OptionError, Source, SourceError,
    SourceFault, StoreOptions, VolumeOptions, open,
};
pub use stats::{BUCKETS, Event, Op, OpStats, Stats};
pub use superblock::{AtimeMode, OnError, Protection};
pub use tenant::TenantId;
pub use trim::Trimmer;
pub use unprintable::is_unprintable;
pub use vfs::{
    Blocking, BlockingWork, KernelCache, Miss, NonBlocking, SyncPoint, Vfs, VfsError, VfsFile,
    VfsResult, VolumeVfs, WhenDurable,
};
pub use volume::{BuildError, FileLockReport, FileLockRow, KernelInFront, Volume};
pub use watch::{
    EventInode, NAME_EVENTS_KEPT, NameChange, NameChanger, NameEvent, NameEvents, NamePlace,
    NameTeller, NameWatch,
};

/// Lets threads yield between operations: for a program with more threads than cores.
pub use hearth_sync::epoch::yield_between_operations;

/// The scheduler of volumes: see [`Volume::scheduler`].
pub use hearth_sched as sched;

/// Compiles and runs the example of the README with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of `docs/embedding.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;
