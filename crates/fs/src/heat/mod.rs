//! Heat: which files and ranges are used, how much, how lately, and by which tenants.
//!
//! `docs/design/heat.md` has the protocol, the model and its bounds. `Tracker` and what it needs
//! lie below the superblock and know only its `Objects`; [`Heat`], with paths,
//! directories, export and subscriptions, lies above the operations.
//!
//! Lock order:
//! ```text
//! heat.keep        one portion is kept at a time
//! heat.drain       one drain at a time
//!   heat.shard     records of a shard of the files
//!   heat.tenants   sums of users, groups and projects
//!   heat.late      files that have ended and whose notice did not fit
//!   heat.unseen    files whose heat was kept, and that may be gone
//! heat.listeners   subscribers
//! ```

mod ageing;
mod band;
mod directories;
mod foreign;
mod foreign_handle;
mod gauges;
mod handle;
mod info;
mod keep;
mod keep_foreign;
mod kept;
mod key;
mod listeners;
mod path_info;
mod paths;
mod percpu;
mod place;
mod portion;
mod record;
mod recording;
mod report;
mod rows;
mod sample_budget;
mod sampler;
mod score;
mod settings;
mod shard;
mod slot;
mod state;
mod subscribe;
mod tenants;
mod tracked;
mod tracker;
mod transfer;
mod view;

pub(crate) use ageing::AgeingCursor;
pub use band::{Band, HOT_FROM, WARM_FROM};
pub use directories::DirectoryHeat;
pub use foreign::{ForeignFacts, ForeignFile, ForeignFiles, KeptGroup};
pub use gauges::HeatGauges;
pub use handle::Heat;
pub use info::HeatInfo;
pub(crate) use kept::KeptHeat;
pub(crate) use key::Access;
pub use listeners::HeatChange;
pub use path_info::PathInfo;
pub use rows::{FileHeat, HeatRank, HeatStats, RangeHeat, TenantHeat, WhatIf, WhatIfPoint};
pub use settings::{HEAT_INTERVAL_MAX, HEAT_MEMORY_MAX};
pub use subscribe::Subscription;
pub use tenants::HeatTenant;
pub(crate) use tracker::Tracker;
pub use transfer::{ExportedHeat, HeatExport, HeatImport, HeatRates};
