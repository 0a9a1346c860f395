//! A file of a racer: what was acknowledged of it, and which of its pages are charged.

use super::bus::touch;
use super::mapping::Mapping;
use super::notes::{Span, now};
use super::{PAGE, SPAN};
use hearth::Errno;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use std::collections::BTreeSet;
use std::fs::{File, remove_file};
use std::io::Error;
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, fchown};
use std::path::{Path, PathBuf};

/// What came of an operation, and when it ran.
pub(crate) type Timed<T> = (T, Span);

/// Runs an operation between two looks at the clock.
pub(crate) fn timed<T>(operation: impl FnOnce() -> T) -> Timed<T> {
    let begin = now();
    let done = operation();
    (done, (begin, now()))
}

/// The error of who was refused for want of room; no other is expected.
pub(crate) fn refusal(error: impl Into<Error>) -> Errno {
    let error = error.into();
    let errno = Errno(error.raw_os_error().unwrap_or_default());
    assert!(matches!(errno, Errno::EDQUOT | Errno::ENOSPC), "{error}");
    errno
}

pub(crate) struct Kept {
    path: PathBuf,
    file: File,
    mapping: Option<Mapping>,
    /// The group that pays.
    pub(crate) gid: u32,
    /// What it holds.
    bytes: Vec<u8>,
    /// Pages that are charged, also those that are promised only.
    held: BTreeSet<u64>,
    /// Holes that are charged since they were looked at through the mapping.
    promised: BTreeSet<u64>,
}

impl Kept {
    /// A new file.
    pub(crate) fn create(path: PathBuf, gid: u32) -> Timed<Result<Kept, Errno>> {
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .clone();
        let (made, span) = timed(|| options.open(&path));
        let kept = made.map_err(refusal).map(|file| Kept {
            path,
            file,
            mapping: None,
            gid,
            bytes: Vec::new(),
            held: BTreeSet::new(),
            promised: BTreeSet::new(),
        });
        (kept, span)
    }

    /// How many pages are charged.
    pub(crate) fn pages(&self) -> u64 {
        self.held.len() as u64
    }

    /// A page that is promised and not used, if there is one.
    pub(crate) fn promised(&self) -> Option<u64> {
        self.promised.first().copied()
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether a page is charged.
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.held.contains(&page)
    }

    /// Writes so many bytes: how many were, and if not all of them, perhaps why.
    pub(crate) fn write(&mut self, off: u64, len: u64, tag: u8) -> Timed<(u64, Option<Errno>)> {
        let bytes = vec![tag; len as usize];
        let (written, span) = timed(|| self.file.write_at(&bytes, off));
        let outcome = match written {
            Ok(done) => (done as u64, None),
            Err(error) => (0, Some(refusal(error))),
        };
        (outcome, span)
    }

    /// These bytes were acknowledged. How many pages more are charged.
    pub(crate) fn has_written(&mut self, off: u64, len: u64, tag: u8) -> u64 {
        if len == 0 {
            return 0;
        }
        self.reach(off + len);
        self.bytes[off as usize..(off + len) as usize].fill(tag);
        self.hold(off / PAGE..(off + len).div_ceil(PAGE))
    }

    /// Makes room for a range of pages; how many it lacked.
    pub(crate) fn allocate(&mut self, pages: Range<u64>) -> Timed<Result<u64, Errno>> {
        let (off, len) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
        let mode = FallocateFlags::empty();
        let (done, span) = timed(|| fallocate(&self.file, mode, off, len));
        let done = done.map_err(refusal).map(|()| {
            self.reach(off + len);
            self.hold(pages)
        });
        (done, span)
    }

    /// How many pages of a range are not charged.
    pub(crate) fn lacks(&self, pages: Range<u64>) -> u64 {
        pages.filter(|page| !self.holds(*page)).count() as u64
    }

    /// Makes it longer by a hole, so that its first pages may be touched.
    pub(crate) fn stretch(&mut self, pages: u64) {
        if self.size() < pages * PAGE {
            self.file
                .set_len(pages * PAGE)
                .expect("a hole takes no room");
            self.reach(pages * PAGE);
        }
    }

    /// Fills a page through the mapping: whether there was room, and how many pages more are
    /// charged.
    pub(crate) fn store(&mut self, page: u64, tag: u8) -> Timed<Option<u64>> {
        let (mapping, file) = (mapped(&mut self.mapping, &self.file), &self.file);
        let (stored, span) = timed(|| touch((mapping, file), page, |m| m.store(page, tag)));
        let new = stored.map(|()| self.has_written(page * PAGE, PAGE, tag));
        (new, span)
    }

    /// Looks at a page through the mapping: whether there was room for a promise, and how many
    /// pages more are charged.
    pub(crate) fn look(&mut self, page: u64) -> Timed<Option<u64>> {
        let (mapping, file) = (mapped(&mut self.mapping, &self.file), &self.file);
        let (seen, span) = timed(|| touch((mapping, file), page, |m| m.load(page)));
        let new = seen.map(|byte| {
            let path = self.path.display();
            assert_eq!(byte, self.bytes[(page * PAGE) as usize], "{path}, {page}");
            let new = self.held.insert(page);
            if new {
                self.promised.insert(page);
            }
            u64::from(new)
        });
        (new, span)
    }

    /// Everything that was acknowledged is with the volume now.
    pub(crate) fn sync(&mut self) {
        if let Some(mapping) = &mut self.mapping {
            mapping.sync().expect("what was stored is kept");
        }
        self.file.sync_all().expect("what was acknowledged is kept");
    }

    /// Cuts it; how many pages came back.
    pub(crate) fn cut(&mut self, pages: u64) -> u64 {
        self.sync();
        self.file.set_len(pages * PAGE).expect("less needs no room");
        self.bytes.truncate((pages * PAGE) as usize);
        self.let_go(pages..u64::MAX)
    }

    /// Makes a hole; how many pages came back.
    pub(crate) fn punch(&mut self, pages: Range<u64>) -> u64 {
        self.sync();
        let (off, len) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, mode, off, len).expect("a hole takes no room");
        let end = self.bytes.len();
        self.bytes[end.min(off as usize)..end.min((off + len) as usize)].fill(0);
        self.let_go(pages)
    }

    /// Gives it to another group.
    pub(crate) fn give(&mut self, gid: u32) -> Timed<Result<(), Errno>> {
        let (given, span) = timed(|| fchown(&self.file, None, Some(gid)));
        (given.map_err(refusal), span)
    }

    /// Fills these pages through a mapping for which the kernel reads ahead, as far as there is
    /// room, and retires it. When one was refused.
    pub(crate) fn store_ahead(mut self, pages: &[u64], tag: u8) -> (Timed<Kept>, Option<Span>) {
        self.mapping = Some(Mapping::of(&self.file, self.size()));
        let mut stores = pages.iter().map(|&page| self.store(page, tag));
        let refused = stores.find(|(stored, _)| stored.is_none());
        (self.retire(), refused.map(|(_, span)| span))
    }

    /// Closes it for good: what was promised and not used comes back. It can be looked at and
    /// removed after.
    pub(crate) fn retire(mut self) -> Timed<Kept> {
        self.sync();
        let Kept { path, file, .. } = self;
        let ((), span) = timed(|| {
            self.mapping = None;
            close(file);
        });
        // Nobody who could write: the close may be heard of after this.
        let file = File::open(&path).expect("it is there");
        let promised = std::mem::take(&mut self.promised);
        let held = self.held.difference(&promised).copied().collect();
        let kept = Kept {
            path,
            file,
            held,
            ..self
        };
        (kept, span)
    }

    /// Removes it, before or after it is closed.
    pub(crate) fn remove(self, while_open: bool) {
        let remove = |path: &Path| remove_file(path).expect("it is there");
        if while_open {
            remove(&self.path);
        }
        drop(self.mapping);
        close(self.file);
        if !while_open {
            remove(&self.path);
        }
    }

    /// Asserts that the volume has what was acknowledged.
    pub(crate) fn verify(&mut self) {
        self.sync();
        // What the kernel has of it, it may drop now; then the volume is asked.
        fadvise(&self.file, 0, None, Advice::DontNeed).expect("advice");
        let mut there = vec![0; self.bytes.len() + 1];
        let mut len = 0;
        while let got @ 1.. = self
            .file
            .read_at(&mut there[len..], len as u64)
            .expect("it can be read")
        {
            len += got;
        }
        let path = self.path.display();
        assert_eq!(len, self.bytes.len(), "{path} has another size");
        if there[..len] != self.bytes {
            let mut pairs = there.iter().zip(&self.bytes);
            let at = pairs.position(|(one, other)| one != other);
            let at = at.expect("they differ");
            let (is, was) = (there[at], self.bytes[at]);
            panic!("{path}: byte {at} is {is}, and {was} was acknowledged");
        }
    }

    fn reach(&mut self, size: u64) {
        let len = self.bytes.len().max(size as usize);
        self.bytes.resize(len, 0);
    }

    /// These pages are allocated, or promised to what was stored; how many of them are new.
    fn hold(&mut self, pages: Range<u64>) -> u64 {
        let before = self.pages();
        self.held.extend(pages.clone());
        self.promised.retain(|page| !pages.contains(page));
        self.pages() - before
    }

    /// These pages are holes now, and nothing is promised to them; how many came back.
    fn let_go(&mut self, pages: Range<u64>) -> u64 {
        let before = self.pages();
        self.promised.retain(|page| !pages.contains(page));
        self.held.retain(|page| !pages.contains(page));
        before - self.pages()
    }
}

/// The mapping of a file, which begins with the first page that is touched.
fn mapped<'a>(mapping: &'a mut Option<Mapping>, file: &File) -> &'a mut Mapping {
    mapping.get_or_insert_with(|| Mapping::page_by_page(file, SPAN * PAGE))
}

fn close(file: File) {
    // SAFETY: the descriptor is this file's own, which is given up with it.
    let closed = unsafe { rustix::io::try_close(file.into_raw_fd()) };
    closed.expect("what was acknowledged is kept");
}
