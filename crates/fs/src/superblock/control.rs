//! The control files below `/.hearth`, as operations see them: traits that make their text and take
//! what is written. A layer above, which sees all of a volume, implements them.

use super::Superblock;
use super::attempt::Attempt;
use crate::caller::Caller;
use hearth_sync::primitive::{Arc, OnceLock};

/// All control files of a volume.
pub(crate) trait ControlFiles: Send + Sync {
    /// Opens control file number `file` for `caller`; `OpenControl` is dropped with the open file.
    fn open(&self, file: usize, sb: &Superblock, caller: &Caller<'_>) -> OpenControl;
}

/// One open control file.
pub(crate) trait ControlIo: Send + Sync {
    /// Reads at `off`; returns the bytes read.
    fn read(self: Arc<Self>, off: u64, out: &mut [u8]) -> Attempt<usize>;

    /// Takes data written at `off`; returns the number of bytes taken.
    fn write(
        self: Arc<Self>,
        sb: &Superblock,
        caller: &Caller<'_>,
        off: u64,
        src: &[u8],
    ) -> Attempt<usize>;
}

/// One open control file, as an open file holds it.
#[derive(Clone)]
pub(crate) struct OpenControl(pub Arc<dyn ControlIo>);

impl OpenControl {
    /// See [`ControlIo::read`].
    pub fn read(&self, off: u64, out: &mut [u8]) -> Attempt<usize> {
        Arc::clone(&self.0).read(off, out)
    }

    /// See [`ControlIo::write`].
    pub fn write(
        &self,
        sb: &Superblock,
        caller: &Caller<'_>,
        off: u64,
        src: &[u8],
    ) -> Attempt<usize> {
        Arc::clone(&self.0).write(sb, caller, off, src)
    }
}

/// The control files of a volume, once it is built.
pub(crate) struct ControlSlot(OnceLock<Box<dyn ControlFiles>>);

impl ControlSlot {
    pub fn new() -> ControlSlot {
        ControlSlot(OnceLock::new())
    }

    /// Gives the volume its control files. A later call changes nothing.
    pub fn set(&self, files: Box<dyn ControlFiles>) {
        self.0.get_or_init(|| files);
    }

    /// Opens control file number `file` for `caller`; `None` before the volume has any.
    pub fn open(&self, file: usize, sb: &Superblock, caller: &Caller<'_>) -> Option<OpenControl> {
        Some(self.0.get()?.open(file, sb, caller))
    }
}
