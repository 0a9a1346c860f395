//! Checks of a whole store, and repairs.
//!
//! A check reads every key, in order, and changes nothing. What has to meet in another order is
//! sorted with files (`sorted`), so memory does not grow with the number of files: at most 32
//! bytes for each directory, and buffers. It finds what contradicts itself, and collects for each
//! the change that puts it right. A repair makes those changes stage by stage (values, tree,
//! contents, counts), each stage as one commit, and checks again until nothing is left to change:
//! what a stage changes is counted anew before the next one, and a repair that is killed between
//! two commits goes on when it is started again.
//!
//! A repair takes nothing away that can be read: files without a name go to `lost+found`, and an
//! extent whose bytes are gone stays, so that reads of it fail and do not give zeros.
//! `docs/fsck.md` lists the codes.

mod block;
mod code;
mod contents;
mod cursor;
mod data;
mod edits;
mod inodes;
mod meta;
mod on_disk;
mod paths;
mod rebuild;
mod repair;
mod report;
mod segments;
mod sorted;
mod suspects;
mod tree;
mod usage;

#[cfg(test)]
mod tests;

pub use code::{Code, Meaning, Severity};
pub use data::{Data, Listed, StoredHeader};
pub use on_disk::Segmented;
pub use repair::repair;
pub use report::{About, Counted, Finding, Report};

use crate::error::{Error, Result};
use crate::kv::{Read, Table};
use meta::Meta;
use report::report_of_engine;

/// Inode number of the root.
const ROOT: u64 = 1;

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is being read.
    pub what: &'static str,
    /// How many of them are done.
    pub done: u64,
    /// Of how many, where that is known.
    pub of: Option<u64>,
}

/// Is told how far a check is, often.
pub type Watch<'a> = &'a mut dyn FnMut(Step);

/// How thorough a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Read and verify every block; otherwise only keys, values and the ends of segments.
    pub data: bool,
}

/// Finds damage in parts of the engine's tables that the passes above have not read: scans ask no
/// filter, which every look at one key does.
fn tables(view: &dyn Read, report: &mut Report) -> Result<()> {
    if report
        .findings
        .iter()
        .any(|known| known.code == Code::Engine)
    {
        return Ok(());
    }
    let files = view.damaged_tables()?;
    if !files.is_empty() {
        let what = "a part of a table does not fit its checksum".to_owned();
        // As where names cannot be read: a repair would look at single keys.
        report_of_engine(report, &Error::Engine { files, what }, Table::Meta);
    }
    Ok(())
}

/// Checks everything. `view` must not change meanwhile.
///
/// # Errors
/// Something cannot be read at all, for another reason than damage.
pub fn check(
    view: &dyn Read,
    data: &dyn Data,
    options: Options,
    watch: Watch<'_>,
) -> Result<Report> {
    let mut report = Report::default();
    let mut meta = Meta::read(view, &mut report, watch)?;
    let segments = segments::list(data, &mut report)?;
    let mut named = contents::check(view, &mut meta, &segments, &mut report, options.data, watch)?;
    let found = (&mut meta, &mut named);
    rebuild::check(view, data, &segments, found, &mut report, watch)?;
    let pages = std::mem::take(&mut named.pages);
    segments::check(
        data,
        options.data,
        &meta,
        &segments,
        named,
        &mut report,
        watch,
    )?;
    let mut joined = inodes::check(view, &mut meta, pages, &mut report, watch)?;
    let used = std::mem::take(&mut joined.used);
    let dirs = tree::check(view, &mut meta, joined, &mut report)?;
    usage::check(&meta, &used, &mut report);
    paths::find(view, &dirs, &mut report)?;
    tables(view, &mut report)?;
    Ok(report)
}
