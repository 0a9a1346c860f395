//! Large writes: whole segments, part by part.
//!
//! A part is packed in a buffer that stays in the cache of the core and is handed to the file
//! before the next one is packed, so a segment of 32 MiB takes one buffer of a MiB. Several
//! segments of one write are made by several threads: one packs while another waits for the disk.

use super::coder::{BlockOwner, Coder, Target};
use super::disk_folder::DiskUpload;
use super::folder::Folder;
use super::layout::{HEADER, PAGE, STORED_MAX, Summary, head};
use super::stored::{Stored, Written};
use crate::error::Result;
use hearth_backend::PageSource;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use hearth_sync::primitive::{Mutex, cores, thread};
use std::ops::Range;

/// Pages of a segment.
const SEGMENT_PAGES: u64 = (32 << 20) / PAGE as u64;
/// Bytes of a part.
const PART: usize = 1 << 20;
/// Threads of one write at most.
const THREADS_MAX: usize = 4;

/// Stores the pages of `source`, cut into `blocks`, in segments of their own; `next` gives a new
/// one.
pub fn write(
    coder: &Coder,
    files: &Folder,
    next: &(dyn Fn() -> Target + Sync),
    owner: BlockOwner,
    source: &dyn PageSource,
    blocks: &[Range<u64>],
) -> Result<Vec<Written>> {
    let chunks = chunks(blocks);
    let threads = chunks.len().min(cores().max(2)).min(THREADS_MAX);
    let taken = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<Vec<Written>>>>> = Mutex::new(vec![None; chunks.len()]);
    let work = || {
        loop {
            // Relaxed: the number alone says whose the chunk is.
            let at = taken.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = chunks.get(at) else { break };
            let result = segment(coder, files, next(), owner, source, chunk);
            if result.is_err() {
                // The others end with the segments that they have begun.
                taken.fetch_max(chunks.len(), Ordering::Relaxed);
            }
            results.lock()[at] = Some(result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Where no thread can be made this one does all.
            let _ = thread::spawn_scoped(scope, "hearth-segment", work);
        }
        work();
    });
    let results = results.into_inner();
    if let Some(Some(Err(error))) = results.iter().find(|r| matches!(r, Some(Err(_)))) {
        // No record names those that are whole, and the caller will try again on a full disk.
        for written in results.iter().flatten().flatten() {
            if let Some(block) = written.first() {
                let _ = files.delete(block.stored.segment);
            }
        }
        return Err(error.clone());
    }
    let mut written = Vec::with_capacity(blocks.len());
    for result in results.into_iter().flatten() {
        written.append(&mut result?);
    }
    Ok(written)
}

/// Cuts blocks into those of segments.
fn chunks(blocks: &[Range<u64>]) -> Vec<&[Range<u64>]> {
    let mut chunks = Vec::new();
    let (mut start, mut pages) = (0, 0);
    for (at, block) in blocks.iter().enumerate() {
        pages += block.end - block.start;
        if pages >= SEGMENT_PAGES || at + 1 == blocks.len() {
            chunks.push(&blocks[start..=at]);
            (start, pages) = (at + 1, 0);
        }
    }
    chunks
}

/// Stores the pages of `blocks` in one segment.
fn segment(
    coder: &Coder,
    files: &Folder,
    target: Target,
    owner: BlockOwner,
    source: &dyn PageSource,
    blocks: &[Range<u64>],
) -> Result<Vec<Written>> {
    let mut stream = Stream::begin(coder, files, target)?;
    let mut packed = Vec::new();
    let mut written = Vec::with_capacity(blocks.len());
    for block in blocks {
        let pages = (source, block.clone());
        let mut block = coder.encode(target, owner, pages, &mut packed, stream.buffer());
        stream.appended(&mut block.stored)?;
        written.push(block);
    }
    stream.finish()?;
    Ok(written)
}

/// A segment that is being stored, block by block. Dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct Stream<'a> {
    upload: DiskUpload<'a>,
    buffer: Vec<u8>,
    /// Bytes of the segment before `buffer`.
    before: usize,
    summary: Summary,
}

impl<'a> Stream<'a> {
    /// Begins a segment.
    pub fn begin(coder: &Coder, files: &'a Folder, target: Target) -> Result<Stream<'a>> {
        let head = head(coder.place(target.segment), target.epoch);
        let mut buffer = Vec::with_capacity(PART + STORED_MAX + HEADER);
        buffer.extend_from_slice(&head);
        Ok(Stream {
            upload: files.upload(target.segment)?,
            buffer,
            before: 0,
            summary: Summary::new(&head),
        })
    }

    /// Where the next block is to be appended, header first.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Takes note of the block that was appended to the buffer: `at` counts from the beginning of
    /// the segment afterwards.
    pub fn appended(&mut self, stored: &mut Stored) -> Result<()> {
        let at = stored.at as usize;
        self.summary.add(&self.buffer[at..at + HEADER]);
        stored.at = (self.before + at) as u32;
        if self.buffer.len() >= PART {
            let len = self.buffer.len();
            self.hand_on()?;
            self.upload.start_writeback(len);
        }
        Ok(())
    }

    /// Bytes of the segment so far.
    pub fn len(&self) -> usize {
        self.before + self.buffer.len()
    }

    /// Ends the segment; it is durable when this returns.
    pub fn finish(mut self) -> Result<()> {
        self.buffer.extend_from_slice(&self.summary.trailer());
        self.hand_on()?;
        self.upload.finish()
    }

    fn hand_on(&mut self) -> Result<()> {
        self.before += self.buffer.len();
        self.upload.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
