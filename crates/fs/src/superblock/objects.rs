//! The in-core inodes, the backend behind them, and the clock that stamps them.

use crate::backend::Backend;
use crate::clock::VolumeClock;
use crate::heat::ForeignFiles;
use crate::inode::InodeInner;
use crate::log::ChangeLog;
use hearth_sync::object::Table;
use hearth_sync::primitive::{Arc, OnceLock};

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
    pub clock: VolumeClock,
    /// Files whose heat is tracked instead of that of inodes.
    pub foreign: OnceLock<Arc<dyn ForeignFiles>>,
}

impl Objects {
    /// The files whose heat is tracked, if they are no inodes of this volume.
    pub fn foreign(&self) -> Option<&dyn ForeignFiles> {
        self.foreign.get().map(|files| &**files)
    }

    /// Sets [`Objects::foreign`], once.
    pub fn set_foreign(&self, files: Arc<dyn ForeignFiles>) {
        self.foreign.get_or_init(|| files);
    }
}
