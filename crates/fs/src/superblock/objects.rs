//! The in-core inodes, the backend behind them, and the clock that stamps them.

use crate::backend::Backend;
use crate::clock::Clock;
use crate::inode::InodeInner;
use crate::log::ChangeLog;
use hearth_sync::object::Table;
use hearth_sync::primitive::Arc;

/// The lowest layer of a volume. Heat and eviction need no other part.
///
/// Immutable after construction; the inode table synchronises itself.
pub(crate) struct Objects {
    /// Inodes in memory by number.
    pub inodes: Table<InodeInner>,
    /// Where absent objects come from and where changes go.
    pub backend: Box<dyn Backend>,
    /// What the backend has yet to get; `None` if it keeps nothing.
    pub log: Option<Arc<ChangeLog>>,
    /// Stamps files, and ages heat.
    pub clock: Arc<dyn Clock>,
}
