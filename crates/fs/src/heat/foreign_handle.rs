//! The heat of files that are no inodes of the volume, as whoever serves them uses it.

use super::foreign::{ForeignFile, ForeignFiles, KeptGroup};
use super::handle::Heat;
use super::key::Access;
use hearth_sync::primitive::Arc;

impl Heat<'_> {
    /// Tracks these files from now on, and no inode of the volume. The first ones stay. `kept` is
    /// what [`ForeignFiles::keep`] got; returns how many of its values could not be read.
    pub fn track_foreign(&self, files: Arc<dyn ForeignFiles>, kept: &[KeptGroup]) -> usize {
        self.sb.objects.set_foreign(files);
        self.sb.take_up_heat(kept)
    }

    /// Counts a read of `len` bytes at `off`.
    pub fn note_read(&self, file: ForeignFile, off: u64, len: u64) {
        self.sb.heat.note_file(file.id(), Access::Read, off, len);
    }

    /// Counts a write of `len` bytes at `off`.
    pub fn note_write(&self, file: ForeignFile, off: u64, len: u64) {
        self.sb.heat.note_file(file.id(), Access::Write, off, len);
    }

    /// Counts a use of a whole file of `len` bytes of which no more is known: it has no ranges.
    pub fn note_whole(&self, file: ForeignFile, writes: bool, len: u64) {
        let access = if writes { Access::Write } else { Access::Read };
        self.sb.heat.note_whole(file.id(), access, len);
    }

    /// A file has a new end.
    pub fn truncated(&self, file: ForeignFile, size: u64) {
        self.sb.heat.cut_file(file.id(), size);
    }

    /// A file has ended: its records go.
    pub fn ended(&self, file: ForeignFile) {
        self.sb.heat.forget_file(file.id());
    }

    /// What is counted: see [`ForeignFiles::counts`].
    pub fn counts(&self) -> &'static str {
        let files = self.sb.objects.foreign();
        files.map_or("accesses", |files| files.counts())
    }
}
