//! The pages of one file: a radix tree of 4 KiB pages that readers walk without a lock.
//!
//! Lock order (nothing here is taken while another lock of this module is held):
//! ```text
//! the inode's gate (caller): shared by writers, load and flush; closed by truncate, punch, ...
//! └─ shift count of the file (Far::shift): collapse and insert only
//! the inode's gate (caller)
//! └─ page lock (Head::seq): one page at a time, while its bytes change
//! ```
//!
//! Which calls may run at the same time, and why that is right, is in `docs/design/data.md`. In
//! short:
//!
//! | call | gate | runs beside |
//! |---|---|---|
//! | `read` | none | everything |
//! | `write`, `absent_pages`, `flush`, `seek_*` | entered | each other, readers; one flush only |
//! | `load` | entered or closed since *before* the backend was asked | each other, readers |
//! | the others | closed | readers |

mod allocated;
mod edit;
mod leaf;
mod page;
mod read;
mod resident;
mod rewrite;
mod root;
mod seek;
mod shift;
mod slot_state;
mod slots;
mod span;
mod tree;
mod write;
mod writeback;

#[cfg(test)]
#[cfg_attr(
    feature = "shuttle",
    allow(dead_code, reason = "counts on real threads only")
)]
mod live_count;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

pub(crate) use resident::Resident;
pub use root::{Data, PageMiss};
pub use span::{PAGE, PAGES};
pub(crate) use write::Written;
pub(crate) use writeback::DirtyPages;

/// Longest size of a file in bytes.
pub(crate) const MAX_SIZE: u64 = i64::MAX as u64;
