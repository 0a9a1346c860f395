//! ext4 takes blocks from those that are reserved for a file before it counts them as allocated,
//! and who asks in between is told of neither (Linux 6.18, `ext4_da_update_reserve_space`; once in
//! some 100,000 questions during a write-back). What is being written back would be given back, and
//! somebody else could have it. The extents tell the same at every moment. Of a file of many they
//! take long to ask, so an operation says how many blocks it leaves at least
//! ([`Record::spare`](super::charged::Record)), and they are asked only if fewer are told. A
//! file of a million would keep its lock and a thread for some seconds even so: where there are
//! more than some thousand, the most counts that is told within some milliseconds.

use super::Quotas;
use super::amounts::UNIT;
use super::{allocated, amounts::Told};
use crate::attributes;
use crate::identity::device;
use crate::node::Node;
use hearth::{BLOCK, Errno, Kind, Result};
use hearth_sync::primitive::{Arc, thread};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Statx;
use std::ops::Range;
use std::time::Duration;

/// `f_type` of ext2, ext3 and ext4, and of overlayfs, which tells what they do.
pub const DIPPING: [u64; 2] = [0xEF53, 0x794C_7630];

/// How often, and after what pauses, a file of many extents is asked for its blocks.
const LOOKS: usize = 4;
const PAUSE: Duration = Duration::from_millis(2);

impl Quotas {
    /// What the host says of an inode that has `least` blocks, or as many as its size needs if
    /// nobody knows, and perhaps more.
    ///
    /// # Errors
    /// Those of `statx(2)`.
    pub fn stat(&self, fd: BorrowedFd<'_>, kind: Kind, least: Option<u64>) -> Result<Statx> {
        let stat = attributes::stat(fd)?;
        Ok(self.without_dip(stat, fd, kind, least))
    }

    /// [`Quotas::stat`] of what was told a moment ago.
    pub fn without_dip(
        &self,
        stat: Statx,
        fd: BorrowedFd<'_>,
        kind: Kind,
        least: Option<u64>,
    ) -> Statx {
        let least = least.unwrap_or_else(|| stat.stx_size.div_ceil(BLOCK));
        let is_told = kind != Kind::File || Told::by(&stat, kind).all() >= least;
        if is_told || !self.may_dip(device(&stat), fd) {
            return stat;
        }
        // The extents are asked for by a descriptor that is open for reading.
        let Ok(file) = self.tree.open_for_ioctl(fd, kind) else {
            return stat;
        };
        #[cfg(test)]
        tests::note_question();
        let whole = 0..u64::MAX / BLOCK;
        let ask = || attributes::stat(fd).ok();
        match allocated::in_few(file.as_fd(), &whole) {
            Some(extents) => by_extents(stat, ask, extents),
            None => most_told(stat, ask),
        }
    }

    /// Whether fewer blocks may be told for a moment than there are, of a file on this device.
    pub fn may_dip(&self, dev: u64, fd: BorrowedFd<'_>) -> bool {
        DIPPING.contains(&self.magic_of(dev, fd))
    }

    /// Blocks that a file has in this range, in bytes, if that has to be known before they go.
    /// `None` if nobody can say so.
    pub fn in_range(&self, node: &Arc<Node>, range: Range<u64>) -> Option<u64> {
        let open = || {
            let reached = self.tree.reach(node)?;
            match node.kind == Kind::File && self.may_dip(node.id.dev, reached.as_fd()) {
                true => self.tree.open_for_ioctl(reached.as_fd(), node.kind),
                false => Err(Errno::EOPNOTSUPP),
            }
        };
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        open().map_or(Some(0), |file| allocated::in_few(file.as_fd(), &blocks))
    }
}

/// `stat`, if the file has as many blocks by that as its extents are; or what is told next, and no
/// less than they are. Who cuts the file meanwhile settles it after.
fn by_extents(stat: Statx, ask: impl FnOnce() -> Option<Statx>, least: u64) -> Statx {
    if Told::by(&stat, Kind::File).all() >= least {
        return stat;
    }
    // With the blocks that the extents of a fragmented file take themselves, most times.
    let mut next = ask().unwrap_or(stat);
    next.stx_blocks = next.stx_blocks.max(least * (BLOCK / UNIT));
    next
}

/// The most that is told within some milliseconds: a moment is over by then, also where the thread
/// that writes back has lost its core in it.
fn most_told(stat: Statx, mut ask: impl FnMut() -> Option<Statx>) -> Statx {
    let mut most = stat;
    for _ in 0..LOOKS {
        thread::sleep(PAUSE);
        if let Some(next) = ask()
            && next.stx_blocks > most.stx_blocks
        {
            most = next;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostOptions, HostVfs};
    use hearth::{Caller, ROOT, SetAttr, Vfs, Volume, WriteAt};
    use hearth_sync::primitive::thread_local;
    use hearth_testing::place::Place;
    use std::cell::Cell;
    use std::fs::File;
    use std::path::Path;
    use std::process::Command;

    thread_local! {
        /// How often all extents of a file were asked for. Other tests ask at the same time.
        static QUESTIONS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn note_question() {
        QUESTIONS.with(|questions| questions.set(questions.get() + 1));
    }

    fn told(blocks: u64) -> Statx {
        let mut stat = attributes::stat(File::open("/").unwrap().as_fd()).unwrap();
        stat.stx_blocks = blocks * (BLOCK / UNIT);
        stat
    }

    fn all(stat: Statx) -> u64 {
        Told::by(&stat, Kind::File).all()
    }

    #[test]
    fn what_is_told_during_a_write_back_is_no_less_than_the_extents() {
        // What was cut, and what has more than its extents, is taken as it is told.
        let asked = || -> Option<Statx> { panic!("asked again") };
        assert_eq!(all(by_extents(told(3), asked, 3)), 3);
        assert_eq!(all(by_extents(told(5), asked, 3)), 5);
        // Sixteen blocks and one for the extents, all of them in the moment.
        let over = || Some(told(17));
        assert_eq!(all(by_extents(told(0), over, 16)), 17);
        // The next extent is in its moment.
        assert_eq!(all(by_extents(told(0), || Some(told(8)), 16)), 16);
        assert_eq!(all(by_extents(told(0), || None, 16)), 16);
    }

    #[test]
    fn of_a_file_of_many_extents_the_most_counts_that_is_told_while_a_moment_lasts() {
        let mut answers = [Some(told(3)), None, Some(told(900)), Some(told(7))].into_iter();
        assert_eq!(all(most_told(told(5), || answers.next().flatten())), 900);
        assert_eq!(all(most_told(told(5), || Some(told(5)))), 5);
    }

    fn run(program: &str, words: &[&str], place: &Path) {
        let status = Command::new(program).args(words).arg(place).status();
        assert!(status.unwrap().success(), "{program}");
    }

    /// Once, each attribute, each hole that was punched and each write into what was allocated
    /// ahead asked for all extents of the file: of a fragmented one they took a fifth of a second.
    #[test]
    fn what_an_operation_frees_or_leaves_unused_is_no_question_for_all_extents() {
        let place = Place::new("dips").unwrap();
        let (disk, source) = (
            place.path().join("disk"),
            place.directory("source").unwrap(),
        );
        File::create(&disk).unwrap().set_len(16 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", "-b", "4096"], &disk);
        run("mount", &["-o", "loop", disk.to_str().unwrap()], &source);
        let volume = Volume::builder().build().unwrap();
        let options = HostOptions {
            state: Some(place.directory("state").unwrap()),
            ..HostOptions::default()
        };
        let vfs = HostVfs::open(&source, options, &volume).unwrap();
        let vfs = vfs.with_quotas(&source, &volume, true, |_, _| ()).unwrap();
        let root = Caller::ROOT;
        let flags = libc::O_CREAT | libc::O_RDWR;
        let (attr, file) = vfs.create(&root, ROOT, b"f", 0o644, flags).unwrap();
        let write = |block: u64| {
            let at = WriteAt::At(block * BLOCK);
            vfs.write(&root, &file, at, &[1; 4096], false).unwrap();
        };
        let allocate = |mode: i32, block: u64, blocks: u64| {
            let range = (block * BLOCK, blocks * BLOCK);
            vfs.fallocate(&root, &file, mode, range.0, range.1).unwrap();
        };
        for block in (1..64).step_by(2) {
            write(block);
        }
        allocate(0, 1000, 16);
        // A million extents are never asked for.
        let below = File::open(source.join("f")).unwrap();
        below.sync_all().unwrap();
        let in_few = |blocks| allocated::in_few(below.as_fd(), &(0..blocks));
        assert_eq!((in_few(16), in_few(1000)), (Some(8), None));
        QUESTIONS.set(0);
        let set = |value: &[u8]| {
            let done = vfs.setxattr(&root, attr.ino, b"user.a", value, 0, false);
            done.unwrap();
        };
        set(b"1");
        set(&[1; 2000]);
        vfs.removexattr(&root, attr.ino, b"user.a").unwrap();
        write(1003);
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        allocate(libc::FALLOC_FL_PUNCH_HOLE | keep, 8, 12);
        allocate(libc::FALLOC_FL_COLLAPSE_RANGE, 0, 4);
        let cut = SetAttr {
            size: Some(998 * BLOCK),
            ..SetAttr::default()
        };
        vfs.setattr(&root, attr.ino, None, &cut).unwrap();
        assert_eq!(QUESTIONS.get(), 0);
        assert!(volume.quota().check().unwrap().differences.is_empty());
        vfs.release(&file, None);
    }
}
