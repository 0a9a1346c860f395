//! Segments: their files, their records, and with `data` every block.

use super::block::block_of;
use super::code::Code;
use super::contents::NamedBlocks;
use super::data::{Data, Listed};
use super::edits::{put, remove};
use super::meta::Meta;
use super::report::{About, Report, Stage};
use super::{Step, Watch};
use crate::error::Result;
use crate::kv::Table;
use crate::schema::{Segment, key};
use std::collections::HashSet;

/// Lists what is there.
pub fn list(data: &dyn Data, report: &mut Report) -> Result<Listed> {
    let listed = data.list()?;
    report.counted.segments = listed.segments.len() as u64;
    for file in &listed.strange {
        report.find(Code::Strange, About::File(file.clone()), "");
    }
    Ok(listed)
}

/// Checks segments and what is recorded of them.
pub fn check(
    data: &dyn Data,
    verify: bool,
    meta: &Meta,
    listed: &Listed,
    named: NamedBlocks,
    report: &mut Report,
    watch: Watch<'_>,
) -> Result<()> {
    if !named.is_partial {
        records(meta, listed, &named, report);
    }
    let of = Some(listed.segments.len() as u64);
    for (done, (segment, _)) in listed.segments.iter().enumerate() {
        let (what, done) = ("segments", done as u64);
        watch(Step { what, done, of });
        // A power cut may have come before it was durable, and so before a record named it.
        if !named.is_partial && is_left(meta, &named, *segment) {
            continue;
        }
        if let Some(wrong) = data.ends(*segment)? {
            report.find(Code::SegmentHead, About::Segment(*segment), wrong);
        }
    }
    if verify {
        blocks(data, listed, named, report, watch)?;
    }
    Ok(())
}

/// Compares the records of segments with what extents name and with the files.
fn records(meta: &Meta, listed: &Listed, named: &NamedBlocks, report: &mut Report) {
    let there: HashSet<u64> = listed
        .segments
        .iter()
        .map(|(segment, _)| *segment)
        .collect();
    let mut recorded: Vec<_> = meta.segments.iter().collect();
    recorded.sort_unstable_by_key(|(segment, _)| **segment);
    for (segment, says) in recorded {
        let live = named.live.get(segment).copied().unwrap_or(0);
        let place = About::Segment(*segment);
        // Extents that name it are reported. Without its record the volume opens for writing.
        if !there.contains(segment) {
            report.find(Code::NoFile, place, format!("{} live pages", says.live));
            report.fix(Stage::Counts, remove(Table::Meta, &key::segment(*segment)));
        } else if live != says.live {
            let detail = format!("{}, and {live} are there", says.live);
            report.find(Code::Live, place, detail);
            set_live(report, *segment, live, says.named);
        }
    }
    let mut unrecorded: Vec<_> = named.live.iter().collect();
    unrecorded.retain(|(segment, _)| !meta.segments.contains_key(segment));
    unrecorded.sort_unstable();
    // A segment that is not there needs no record: its extents are reported.
    for (segment, live) in unrecorded.into_iter().filter(|(s, _)| there.contains(s)) {
        let detail = format!("no record, and {live} are there");
        report.find(Code::Live, About::Segment(*segment), detail);
        set_live(report, *segment, *live, 0);
    }
    for (segment, len) in &listed.segments {
        if is_left(meta, named, *segment) {
            let detail = format!("{len} bytes");
            report.find(Code::LeftSegment, About::Segment(*segment), detail);
        }
    }
}

/// Whether no record and no extent names a segment.
fn is_left(meta: &Meta, named: &NamedBlocks, segment: u64) -> bool {
    !meta.segments.contains_key(&segment) && !named.live.contains_key(&segment)
}

fn set_live(report: &mut Report, segment: u64, live: u64, named: u64) {
    let named = named.max(live);
    let value = Segment { live, named }.encode();
    report.fix(Stage::Counts, put(&key::segment(segment), value));
}

/// Verifies every block that an extent names.
fn blocks(
    data: &dyn Data,
    listed: &Listed,
    named: NamedBlocks,
    report: &mut Report,
    watch: Watch<'_>,
) -> Result<()> {
    let there: HashSet<u64> = listed
        .segments
        .iter()
        .map(|(segment, _)| *segment)
        .collect();
    let (mut blocks, mut done, of) = (named.blocks.finish()?, 0, None);
    while let Some(next) = blocks.next()? {
        let (block, ino) = block_of(&next);
        let what = "blocks";
        watch(Step { what, done, of });
        done += 1;
        if !there.contains(&block.segment) {
            continue;
        }
        report.counted.blocks += 1;
        if let Some(wrong) = data.block(&block)? {
            let detail = format!("segment {:016x}, byte {}: {wrong}", block.segment, block.at);
            report.find(Code::Block, About::Inode(ino), detail);
        }
    }
    Ok(())
}
