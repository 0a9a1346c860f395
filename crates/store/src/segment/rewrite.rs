//! Live blocks move to new segments, so that those they were in can be removed.

use super::coder::Target;
use super::stream::Stream;
use super::{Segments, Stored};
use crate::error::Result;
use std::collections::HashMap;

/// Bytes of a segment of moved blocks.
const SEGMENT: usize = 32 << 20;

impl Segments {
    /// Stores the blocks of `live` in new segments and returns where each is now, in the same
    /// order, once that is durable; `within` stays. A block that several extents share moves once.
    /// What cannot be read stays where it is and is an error of its own: the segment that it is in
    /// is not to be removed then.
    ///
    /// Blocks are moved as they are packed, and keep their inode, offset and epoch.
    ///
    /// # Errors
    /// What the operating system says of the new segments. The old ones are as before.
    pub fn rewrite(&self, live: &[Stored]) -> Result<Vec<Result<Stored>>> {
        let mut made = Vec::new();
        let result = self.rewrite_into(live, &mut made);
        if result.is_err() {
            // No record names them, and the collector will try again on a full disk.
            for segment in made {
                let _ = self.delete(segment);
            }
        }
        result
    }

    /// [`Segments::rewrite`], which adds the numbers of new segments to `made`.
    fn rewrite_into(&self, live: &[Stored], made: &mut Vec<u64>) -> Result<Vec<Result<Stored>>> {
        let mut moved: HashMap<(u64, u32), Result<Stored>> = HashMap::new();
        let mut open: Option<(Target, Stream<'_>)> = None;
        for old in live {
            let key = (old.segment, old.at);
            if moved.contains_key(&key) {
                continue;
            }
            let read = match self.packed(old) {
                Ok(read) => read,
                Err(error) => {
                    moved.insert(key, Err(error));
                    continue;
                }
            };
            let (target, stream) = match &mut open {
                Some(open) => open,
                None => {
                    let target = self.target();
                    made.push(target.segment);
                    open.insert((target, Stream::begin(&self.coder, &self.files, target)?))
                }
            };
            let (header, packed) = read;
            let segment = target.segment;
            let mut new = self
                .coder
                .encode_packed(segment, &header, &packed, stream.buffer());
            stream.appended(&mut new)?;
            let full = stream.len() >= SEGMENT;
            moved.insert(key, Ok(new));
            if full && let Some((_, stream)) = open.take() {
                stream.finish()?;
            }
        }
        if let Some((_, stream)) = open {
            stream.finish()?;
        }
        let result = live.iter().filter_map(|old| {
            let new = moved.get(&(old.segment, old.at))?.clone();
            Some(new.map(|new| Stored {
                within: old.within,
                ..new
            }))
        });
        Ok(result.collect())
    }
}
