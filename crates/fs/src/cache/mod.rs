//! The inode and page cache: what brings objects from the backend, writes them back, evicts them,
//! and ends those that have neither name nor reference. `docs/design/eviction.md` has the protocol.

mod ahead;
mod attributes;
mod behind;
mod caught;
mod commit;
mod fetch;
mod flush;
mod iput;
mod little;
mod reclaim;
mod record;
mod root;
mod saving;
mod sweep;
mod sync;
mod through;

pub(crate) use sync::check_unpinned;
