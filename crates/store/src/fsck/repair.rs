//! Repairs: a stage, a commit, and the next check.

use super::data::Data;
use super::report::Report;
use super::{Options, Watch, check};
use crate::backend::KeyValues;
use crate::error::{Error, Result};

/// Rounds after which a repair has not come to an end.
const ROUNDS: usize = 1000;

/// Puts right what `first`, the result of a check of the same state, can put right. Returns what is
/// left. May be killed at any moment and started again.
///
/// # Errors
/// Something cannot be read or written. What was put right up to then stays.
pub fn repair(
    kv: &dyn KeyValues,
    data: &dyn Data,
    first: &Report,
    options: Options,
    watch: Watch<'_>,
) -> Result<Report> {
    let mut report = first.clone();
    for _ in 0..ROUNDS {
        let Some((_, fixes)) = report.first_stage() else {
            kv.checkpoint()?;
            return Ok(report);
        };
        kv.commit(kv.epoch() + 1, fixes)?;
        // Blocks do not change by a repair: one look at them is enough.
        let next = check(kv, data, Options { data: false }, watch)?;
        report = if options.data && !next.is_repairable() {
            check(kv, data, options, watch)?
        } else {
            next
        };
    }
    Err(Error::Corrupt {
        file: "engine".into(),
        offset: 0,
        what: "a repair comes to no end; load a dump".to_owned(),
    })
}
