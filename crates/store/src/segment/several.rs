//! Pages of several files in as few segments as they fit in: idle work brings many small ones.

use super::coder::{BlockOwner, Page, Target, cut};
use super::stream::Stream;
use super::{Segments, Written};
use crate::error::Result;
use hearth_backend::PageSource;

/// Bytes of a segment of several files.
const SEGMENT: usize = 32 << 20;

impl Segments {
    /// Stores pages of files, each inode, generation and pages as for [`Segments::write`], and
    /// returns where those of each are once all are durable.
    ///
    /// # Errors
    /// See [`Segments::write`].
    pub fn write_files(&self, of: &[(u64, u32, &[Page])]) -> Result<Vec<Vec<Written>>> {
        let mut made = Vec::new();
        let result = self.write_files_into(of, &mut made);
        if result.is_err() {
            // No record names them, and idle work will try again on a full disk.
            for segment in made {
                let _ = self.delete(segment);
            }
        }
        result
    }

    /// [`Segments::write_files`], which adds the numbers of new segments to `made`.
    fn write_files_into(
        &self,
        of: &[(u64, u32, &[Page])],
        made: &mut Vec<u64>,
    ) -> Result<Vec<Vec<Written>>> {
        let mut open: Option<(Target, Stream)> = None;
        let mut packed = Vec::new();
        let mut all = Vec::with_capacity(of.len());
        for (ino, generation, pages) in of {
            let owner = BlockOwner {
                ino: *ino,
                generation: *generation,
            };
            let mut written = Vec::new();
            for block in cut(pages.runs()) {
                let (target, stream) = match &mut open {
                    Some(open) => open,
                    None => {
                        let target = self.target();
                        made.push(target.segment);
                        open.insert((target, Stream::begin(&self.coder, &self.files, target)?))
                    }
                };
                let buffer = stream.buffer();
                let mut block =
                    self.coder
                        .encode(*target, owner, (pages, block), &mut packed, buffer);
                stream.appended(&mut block.stored)?;
                written.push(block);
                let is_full = stream.len() >= SEGMENT;
                if is_full && let Some((_, stream)) = open.take() {
                    stream.finish()?;
                }
            }
            all.push(written);
        }
        if let Some((_, stream)) = open {
            stream.finish()?;
        }
        Ok(all)
    }
}
