//! Reading many blocks: for long reads, for reading ahead and for `fsck`.

use super::ahead::{Ahead, End};
use super::coder::BlockOwner;
use super::folder::FolderReader;
use super::layout::{BLOCK_MAX, HEADER, STORED_MAX};
use super::{Segments, Stored};
use crate::error::Result;
use bytes::Bytes;
use hearth_sync::primitive::thread;

/// Bytes of one call at most: what stays in the cache of a core until it is verified, and room for
/// the blocks of a MiB, which is what a kernel asks for, with their headers.
const RUN_MAX: u64 = ((1 << 20) / BLOCK_MAX * (HEADER + STORED_MAX)) as u64;
/// Runs from which on a thread of its own fetches them while this one verifies.
const RUNS_AHEAD: usize = 3;

impl Segments {
    /// [`Segments::read`] of several blocks, with one call for blocks that lie one behind the
    /// other. Calls `take` for each block in order, with the result of its own.
    pub fn read_run(
        &self,
        blocks: &[Stored],
        ino: u64,
        generation: u32,
        take: &mut dyn FnMut(&Stored, Result<Bytes>),
    ) {
        self.read_runs(blocks, Some(BlockOwner { ino, generation }), take);
    }

    /// [`Segments::read_shared`] of several blocks; see [`Segments::read_run`].
    pub fn read_run_shared(&self, blocks: &[Stored], take: &mut dyn FnMut(&Stored, Result<Bytes>)) {
        self.read_runs(blocks, None, take);
    }

    fn read_runs(
        &self,
        blocks: &[Stored],
        owner: Option<BlockOwner>,
        take: &mut dyn FnMut(&Stored, Result<Bytes>),
    ) {
        let runs = runs(blocks);
        let mut verify = |run: &[Stored], fetched: Result<Bytes>| match fetched {
            Ok(bytes) => {
                let start = run[0].span().start;
                for stored in run {
                    let span = stored.span();
                    let from = ((span.start - start) as usize).min(bytes.len());
                    let to = ((span.end - start) as usize).min(bytes.len());
                    take(stored, self.verified(stored, &bytes.slice(from..to), owner));
                }
                self.buffers.give(bytes);
            }
            Err(error) => run.iter().for_each(|b| take(b, Err(error.clone()))),
        };
        if runs.len() < RUNS_AHEAD {
            for run in runs {
                verify(run, self.fetch(run, &mut None));
            }
            return;
        }
        let ahead = Ahead::new();
        thread::scope(|scope| {
            let fetch = || {
                let _end = End(&ahead);
                let mut open = None;
                for run in &runs {
                    if !ahead.put(self.fetch(run, &mut open)) {
                        break;
                    }
                }
            };
            let _end = End(&ahead);
            let fetching = thread::spawn_scoped(scope, "hearth-read", fetch);
            let mut open = None;
            for run in &runs {
                // Without the thread this one does both.
                let fetched = fetching.as_ref().ok().and_then(|_| ahead.take());
                verify(run, fetched.unwrap_or_else(|| self.fetch(run, &mut open)));
            }
        });
    }

    /// The bytes of all blocks of a run; fewer where the segment ends before. `open` is the segment
    /// of the run before, and becomes that of this one.
    fn fetch<'a>(&'a self, run: &[Stored], open: &mut Option<FolderReader<'a>>) -> Result<Bytes> {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let reader = match open.take() {
            Some(reader) if reader.number() == first.segment => reader,
            _ => self.files.reader(first.segment)?,
        };
        open.insert(reader)
            .range(first.span().start..last.span().end, &self.buffers)
    }
}

/// Cuts blocks into runs: those of a run lie one behind the other and fit one call.
fn runs(blocks: &[Stored]) -> Vec<&[Stored]> {
    let mut start = blocks.first().map_or(0, |first| first.span().start);
    let joins = |one: &Stored, next: &Stored| {
        let (one_span, span) = (one.span(), next.span());
        let joins = one.segment == next.segment
            && one_span.end == span.start
            && span.end - start <= RUN_MAX;
        if !joins {
            start = span.start;
        }
        joins
    };
    blocks.chunk_by(joins).collect()
}
