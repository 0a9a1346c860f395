//! Heat: which files and ranges are used, how much, how lately, and by whom.
//!
//! The protocol, the model and its bounds are in `docs/design/heat.md`.
//!
//! Lock order:
//! ```text
//! heat.drain        one drain at a time
//!   heat.shard     records of a part of the files
//!   heat.tenants   sums of users, groups and projects
//!   heat.late      files that have ended unheard of
//! heat.listeners   who is told of changes
//! ```

mod ageing;
mod band;
mod directories;
mod gauges;
mod handle;
mod info;
mod key;
mod listeners;
mod paths;
mod percpu;
mod record;
mod report;
mod sample_budget;
mod sampler;
mod score;
mod settings;
mod shard;
mod slot;
mod state;
mod subscribe;
mod tenants;
mod tracker;
mod transfer;

pub(crate) use ageing::AgeingCursor;
pub use band::{Band, HOT_FROM, WARM_FROM};
pub use directories::DirectoryHeat;
pub use gauges::HeatGauges;
pub use handle::Heat;
pub use info::HeatInfo;
pub(crate) use key::Access;
pub use listeners::HeatChange;
pub use paths::PathInfo;
pub use report::{FileHeat, HeatRank, HeatStats, RangeHeat, TenantHeat, WhatIf, WhatIfPoint};
pub use settings::{HEAT_INTERVAL_MAX, HEAT_MEMORY_MAX};
pub use subscribe::Subscription;
pub use tenants::HeatTenant;
pub(crate) use tracker::Tracker;
pub use transfer::{ExportedHeat, HeatExport, HeatImport, HeatRates};
