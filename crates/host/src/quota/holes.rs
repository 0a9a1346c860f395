//! The blocks that a write may allocate.

use super::known_blocks::KnownBlocks;
use crate::errno::PassOn;
use crate::sys;
use hearth::{BLOCK, Errno, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, seek};
use std::ops::Range;

/// Blocks of `off..off + len` that are not allocated in a file of this size, in order. All of them
/// where the filesystem does not tell. What is not known of the file is asked.
pub fn holes(
    fd: BorrowedFd<'_>,
    off: u64,
    len: u64,
    size: u64,
    known: &mut KnownBlocks,
) -> Vec<Range<u64>> {
    seen(fd, off, len, size, known).unwrap_or_else(|_| {
        known.forget();
        let mut all = Vec::new();
        push(
            &mut all,
            off / BLOCK..off.saturating_add(len).div_ceil(BLOCK),
        );
        all
    })
}

fn seen(
    fd: BorrowedFd<'_>,
    off: u64,
    len: u64,
    size: u64,
    known: &mut KnownBlocks,
) -> Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let end = off.saturating_add(len);
    let (first, last) = (off / BLOCK, end.div_ceil(BLOCK));
    let end_of_file = size.div_ceil(BLOCK);
    if len == 0 {
        return Ok(found);
    }
    let (mut at, within) = (first, last.min(end_of_file));
    while at < within {
        if let Some(end) = known.data_to(at) {
            at = end;
        } else if let Some(end) = known.hole_to(at) {
            push(&mut found, at..end.min(within));
            at = end;
        } else if !look(fd, at, end, size, known)? {
            break;
        }
    }
    push(&mut found, first.max(end_of_file)..last);
    Ok(found)
}

/// Asks what the block `at` belongs to, which is within the file. False if there is no hole from
/// there up to the byte `end`. A block of which a part is a hole is one.
fn look(fd: BorrowedFd<'_>, at: u64, end: u64, size: u64, known: &mut KnownBlocks) -> Result<bool> {
    let (from, end_of_file) = (at * BLOCK, size.div_ceil(BLOCK));
    let up_to = |data: u64| data.min(size).div_ceil(BLOCK).max(at + 1);
    if known.goes_into_holes {
        let data = next_data(fd, from, size)?;
        if data > from {
            known.saw_hole(at..up_to(data));
            return Ok(true);
        }
    }
    note_question();
    let hole = seek(fd, SeekFrom::Hole(from)).pass_on()?;
    let data_to = match hole >= size {
        true => end_of_file,
        false => hole / BLOCK,
    };
    if hole >= end.min(size) || data_to > at {
        known.saw_data(at..data_to);
        return Ok(hole < end.min(size));
    }
    let data = next_data(fd, hole, size)?;
    known.saw_hole(at..up_to(data));
    Ok(true)
}

/// Where data begins from this byte on: the end of the file if there is none.
fn next_data(fd: BorrowedFd<'_>, from: u64, size: u64) -> Result<u64> {
    note_question();
    match seek(fd, SeekFrom::Data(from)).pass_on() {
        Err(Errno::ENXIO) => Ok(size.max(from)),
        data => data,
    }
}

/// Whether nothing is allocated in a hole, in bytes, as far as extents are told.
pub fn is_bare(fd: BorrowedFd<'_>, hole: &Range<u64>) -> bool {
    note_question();
    sys::extents(fd, hole).is_ok_and(|found| found.is_empty())
}

/// A file is asked for its blocks.
fn note_question() {
    #[cfg(test)]
    tests::QUESTIONS.with(|questions| questions.set(questions.get() + 1));
}

/// How many blocks these are.
pub fn count(holes: &[Range<u64>]) -> u64 {
    holes.iter().map(|hole| hole.end - hole.start).sum()
}

/// The first `blocks` blocks of these.
pub fn first(holes: &[Range<u64>], mut blocks: u64) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    for hole in holes {
        let taken = blocks.min(hole.end - hole.start);
        push(&mut found, hole.start..hole.start + taken);
        blocks -= taken;
    }
    found
}

/// Where a write must end that may allocate `blocks` of these.
pub fn end_of(holes: &[Range<u64>], mut blocks: u64) -> u64 {
    for hole in holes {
        let has = hole.end - hole.start;
        if blocks < has {
            return (hole.start + blocks) * BLOCK;
        }
        blocks -= has;
    }
    u64::MAX
}

fn push(found: &mut Vec<Range<u64>>, range: Range<u64>) {
    // Two holes of smaller blocks may lie in one of these.
    let start = found.last().map_or(0, |last| last.end).max(range.start);
    if start < range.end {
        found.push(start..range.end);
    }
}

#[cfg(test)]
mod tests {
    use crate::{HostOptions, HostVfs};
    use hearth::{Caller, ROOT, SetAttr, Vfs, Volume, WriteAt};
    use hearth_testing::place::Place;
    use std::cell::Cell;
    use std::fs::File;
    use std::process::Command;

    thread_local! {
        /// How often this thread has asked for data, holes or extents.
        pub(super) static QUESTIONS: Cell<u64> = const { Cell::new(0) };
    }

    const BLOCK: u64 = hearth::BLOCK;

    fn questions(run: impl FnOnce()) -> u64 {
        let before = QUESTIONS.get();
        run();
        QUESTIONS.get() - before
    }

    /// Once, each write into a hole asked where it began and where it ended, and on ext4 for its
    /// extents.
    #[test]
    fn a_hole_is_asked_for_once_however_many_writes_go_into_it() {
        let place = Place::new("holes").unwrap();
        let source = place.directory("source").unwrap();
        let disk = place.path().join("disk");
        File::create(&disk).unwrap().set_len(32 << 20).unwrap();
        let run = |words: &[&str]| {
            let status = Command::new(words[0]).args(&words[1..]).status();
            assert!(status.unwrap().success(), "{words:?}");
        };
        let (on, at) = (disk.to_str().unwrap(), source.to_str().unwrap());
        for kind in ["ext4", "tmpfs"] {
            match kind {
                "ext4" => {
                    run(&["mkfs.ext4", "-q", "-F", "-b", "4096", on]);
                    run(&["mount", "-o", "loop", on, at]);
                }
                kind => run(&["mount", "-t", kind, "-o", "size=32m", kind, at]),
            }
            let volume = Volume::builder().build().unwrap();
            let options = HostOptions {
                state: Some(place.directory(kind).unwrap()),
                ..HostOptions::default()
            };
            let vfs = HostVfs::open(&source, options, &volume).unwrap();
            let vfs = vfs.with_quotas(&source, &volume, true, |_, _| ()).unwrap();
            let flags = libc::O_CREAT | libc::O_RDWR;
            let made = vfs.create(&Caller::ROOT, ROOT, b"f", 0o644, flags);
            let (attr, file) = made.unwrap();
            let resize = |blocks: u64| {
                let set = SetAttr {
                    size: Some(blocks * BLOCK),
                    ..SetAttr::default()
                };
                vfs.setattr(&Caller::ROOT, attr.ino, Some(&file), &set)
                    .unwrap();
            };
            let write = |block: u64| {
                let at = WriteAt::At(block * BLOCK);
                let written = vfs.write(&Caller::ROOT, &file, at, &[7; 4096], false);
                assert_eq!(written.unwrap(), 4096);
            };
            let punch = |block: u64| {
                let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                let range = (block * BLOCK, BLOCK);
                vfs.fallocate(&Caller::ROOT, &file, how, range.0, range.1)
                    .unwrap();
            };
            resize(1 << 20);
            let into_hole = questions(|| (100..400).for_each(write));
            let over_data = questions(|| (100..400).rev().for_each(write));
            assert!(into_hole <= 3, "{kind}: {into_hole}");
            assert!(over_data <= 1, "{kind}: {over_data}");
            // What is known changes with the file.
            punch(200);
            assert!(questions(|| write(200)) > 0, "{kind}");
            resize(150);
            resize(1 << 20);
            (140..160).for_each(write);
            let appended = questions(|| ((1 << 20)..(1 << 20) + 50).for_each(write));
            assert_eq!(appended, 0, "{kind}");
            assert!(volume.quota().check().unwrap().differences.is_empty());
            vfs.release(&file, None);
            vfs.forget_all();
            drop((file, vfs, volume));
            run(&["umount", at]);
        }
    }
}
