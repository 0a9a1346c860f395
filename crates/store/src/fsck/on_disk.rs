//! The segments of a store in a directory.

use super::data::{Data, Listed, StoredHeader};
use crate::backend::{block_of, segments_of};
use crate::codec::{Codec, Passphrase};
use crate::error::{Error, Result};
use crate::schema::Block;
use crate::segment::{Segments, Stored};
use std::path::Path;

/// The segments of a store, which are read and never changed.
#[derive(Debug)]
pub struct Segmented(Segments);

impl Segmented {
    /// Those of the store in `dir`.
    ///
    /// # Errors
    /// There is no store, or it is encrypted and the passphrase does not open it.
    pub fn open(dir: &Path, passphrase: Option<&Passphrase>) -> Result<Segmented> {
        segments_of(dir, passphrase).map(Segmented)
    }

    /// These.
    pub(crate) fn of(segments: Segments) -> Segmented {
        Segmented(segments)
    }
}

impl Data for Segmented {
    fn list(&self) -> Result<Listed> {
        let (numbers, strange) = self.0.everything()?;
        let mut segments = Vec::with_capacity(numbers.len());
        for number in numbers {
            match self.0.len_of(number) {
                Ok(len) => segments.push((number, len)),
                // Removed meanwhile, or nothing can be read of it: extents in it are reported.
                Err(error) if error.is_lost() => {}
                Err(error) => return Err(error),
            }
        }
        let strange = strange.iter().map(|path| path.display().to_string());
        Ok(Listed {
            segments,
            strange: strange.collect(),
        })
    }

    fn ends(&self, segment: u64) -> Result<Option<String>> {
        let mut wrong = None;
        for header in self.0.headers(segment) {
            match header {
                Ok(_) => {}
                Err(Error::Corrupt { offset, what, .. }) => {
                    wrong.get_or_insert(format!("byte {offset}: {what}"));
                }
                Err(error) if error.is_unreadable() => {
                    wrong.get_or_insert(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(wrong)
    }

    fn headers(&self, segment: u64) -> Result<Vec<StoredHeader>> {
        let mut headers = Vec::new();
        for found in self.0.headers(segment) {
            match found {
                Ok(found) => headers.push(StoredHeader {
                    ino: found.header.ino,
                    generation: found.header.generation,
                    page: found.header.offset / 4096,
                    epoch: found.header.epoch,
                    block: block_of(&found.stored),
                }),
                // Reported by another pass.
                Err(error) if error.is_lost() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(headers)
    }

    fn block(&self, block: &Block) -> Result<Option<String>> {
        let Some(codec) = Codec::from_number(block.codec) else {
            return Ok(Some(format!("codec {} is unknown", block.codec)));
        };
        let stored = Stored {
            segment: block.segment,
            at: block.at,
            stored_len: block.stored,
            len: block.length,
            within: 0,
            codec,
            digest: block.digest,
        };
        match self.0.read_shared(&stored) {
            Ok(_) => Ok(None),
            Err(Error::Corrupt { what, .. }) => Ok(Some(what)),
            Err(error) if error.is_unreadable() => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}
