//! Whether a volume has every segment that files need: a copy that was made while the volume was in
//! use may have the records of a segment and not its file.
//!
//! Segments come into being whole, by a rename, and never change. So where the names are all there,
//! the bytes are.

use super::key;
use super::load::each;
use crate::error::{Error, Result};
use crate::kv::{Read, Table};
use crate::schema::Segment;
use crate::segment::Segments;

/// Checks that `there`, the numbers of all segments, rising, has those with live pages.
///
/// # Errors
/// [`Error::Corrupt`], which names the first segment that is missing, and what reading records
/// says.
pub(super) fn check(view: &(impl Read + ?Sized), there: &[u64]) -> Result<()> {
    let (mut first, mut missing) = (None, 0_u64);
    each(view, Table::Meta, key::SEGMENTS, &mut |key, value| {
        let number = key::number(key)?;
        if Segment::decode(key, value)?.live > 0 && there.binary_search(&number).is_err() {
            first = first.or(Some(number));
            missing += 1;
        }
        Ok(true)
    })?;
    let Some(first) = first else {
        return Ok(());
    };
    let what = match missing {
        1 => "the segment is missing".to_owned(),
        _ => format!("the segment is missing, and {} more", missing - 1),
    };
    Err(Error::Corrupt {
        file: Segments::file_of(first),
        offset: 0,
        what: format!("{what}, as in a copy of a volume in use"),
    })
}
