//! The bytes of a regular file: written pages by number; everything else reads as zeros.

use std::collections::{BTreeMap, BTreeSet};

/// Granularity of allocation, as on tmpfs.
pub const PAGE: u64 = 4096;

/// Largest offset and size of a file.
pub const MAX: u64 = i64::MAX as u64;

/// Start of the last page that a file can have. Kernels miscount in it when they look for data.
pub const LAST_PAGE: u64 = MAX / PAGE * PAGE;

/// Content of a regular file.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    size: u64,
    /// Pages that hold data (which may be zeros).
    written: BTreeMap<u64, Box<[u8]>>,
    /// Zero pages that a filesystem may report as data or as a hole: they were preallocated or
    /// copied.
    either: BTreeSet<u64>,
    /// Preallocated pages beyond the end that were punched: absent, though ext4 keeps them.
    kept: BTreeSet<u64>,
}

/// How many pages a file holds, as far as that is determined. A preallocated page of zeros may be
/// there or not. Two counts are equal if one may be the other.
#[derive(Debug, Clone, Copy)]
pub struct PageCount {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl PageCount {
    /// Returns `st_blocks` as systems report it, in units of 512 bytes.
    pub fn of_blocks(blocks: u64) -> PageCount {
        let pages = blocks / (PAGE / 512);
        PageCount {
            least: pages,
            most: pages,
        }
    }
}

impl PartialEq for PageCount {
    fn eq(&self, other: &PageCount) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

/// What `SEEK_DATA` and `SEEK_HOLE` find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The offset.
    At(u64),
    /// Nothing: ENXIO.
    Nothing,
    /// Undetermined: the file has pages that count either way.
    Unspecified,
}

impl Pages {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the pages that use space.
    pub fn allocated(&self) -> u64 {
        (self.written.len() + self.either.len()) as u64
    }

    /// Returns how many pages there are.
    pub fn count(&self) -> PageCount {
        let least = self.written.len() as u64;
        PageCount {
            least,
            most: least + (self.either.len() + self.kept.len()) as u64,
        }
    }

    /// Returns the bytes of `offset..offset + len` up to the end of the file.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(len as u64));
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        for (page, from, to) in parts(offset, end) {
            if let Some(bytes) = self.written.get(&page) {
                let at = (page * PAGE + from as u64 - offset) as usize;
                out[at..at + (to - from)].copy_from_slice(&bytes[from..to]);
            }
        }
        out
    }

    /// Stores `data` at `offset`, growing the file.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        for (page, from, to) in parts(offset, end) {
            let at = (page * PAGE + from as u64 - offset) as usize;
            self.page(page)[from..to].copy_from_slice(&data[at..at + (to - from)]);
        }
        self.size = self.size.max(end);
    }

    /// Stores bytes copied from a file, like [`write`](Self::write). Stretches of zeros over absent
    /// pages may or may not become data.
    pub fn write_copy(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        for (page, from, to) in parts(offset, end) {
            let at = (page * PAGE + from as u64 - offset) as usize;
            let piece = &data[at..at + (to - from)];
            if piece.iter().all(|b| *b == 0) && !self.written.contains_key(&page) {
                self.preallocate(page);
            } else {
                self.page(page)[from..to].copy_from_slice(piece);
            }
        }
        self.size = self.size.max(end);
    }

    /// Sets the size; bytes beyond it are lost.
    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size.next_multiple_of(PAGE).min(MAX));
        }
        // Also what was allocated beyond the remaining end.
        if size <= self.size {
            let first = size.div_ceil(PAGE);
            self.written.retain(|page, _| *page < first);
            self.either.retain(|page| *page < first);
            self.kept.retain(|page| *page < first);
        }
        self.size = size;
    }

    /// Allocates without changing what is read; grows the file unless `keep_size`.
    pub fn allocate(&mut self, offset: u64, len: u64, keep_size: bool) {
        let end = offset + len;
        for page in offset / PAGE..end.div_ceil(PAGE) {
            if !self.written.contains_key(&page) {
                self.preallocate(page);
            }
        }
        if !keep_size {
            self.size = self.size.max(end);
        }
    }

    /// Punches a hole: whole pages become absent, the rest becomes zeros. A hole that reaches
    /// beyond the end of the file may remove its last page, as on ext4, or not, as on tmpfs.
    pub fn punch(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        self.zero(offset, end);
        let whole = offset.div_ceil(PAGE)..end / PAGE;
        self.written.retain(|page, _| !whole.contains(page));
        let beyond = self.size.div_ceil(PAGE);
        let kept = |page: &&u64| whole.contains(page) && **page >= beyond;
        self.kept.extend(self.either.iter().filter(kept));
        self.either.retain(|page| !whole.contains(page));
        self.kept
            .retain(|page| *page >= beyond || !whole.contains(page));
        let last = self.size / PAGE;
        if end > self.size && offset <= last * PAGE {
            self.may_be_hole(last);
        }
    }

    /// `FALLOC_FL_ZERO_RANGE`: zeros that may stay allocated.
    pub fn zero_range(&mut self, offset: u64, len: u64, keep_size: bool) {
        self.punch(offset, len);
        self.allocate(offset, len, keep_size);
        // A page of zeros at either edge may have become a hole as well.
        for page in [offset / PAGE, (offset + len - 1) / PAGE] {
            self.may_be_hole(page);
        }
    }

    /// Makes a page of zeros count either way from now on.
    fn may_be_hole(&mut self, page: u64) {
        let zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        if self.written.get(&page).is_some_and(|bytes| zeros(bytes)) {
            self.written.remove(&page);
            self.preallocate(page);
        }
    }

    fn preallocate(&mut self, page: u64) {
        self.kept.remove(&page);
        self.either.insert(page);
    }

    /// Removes whole pages and closes the gap.
    pub fn collapse(&mut self, offset: u64, len: u64) {
        self.punch(offset, len);
        self.shift(offset / PAGE, |page| page - len / PAGE);
        self.size -= len;
    }

    /// Returns whether a page would move beyond the last one that a file can have.
    pub fn insert_overflows(&self, offset: u64, len: u64) -> bool {
        let moved = (offset / PAGE).max((MAX - len) / PAGE + 1)..;
        let written = self.written.range(moved.clone()).next().is_some();
        written || self.either.range(moved).next().is_some()
    }

    /// Inserts whole absent pages.
    pub fn insert(&mut self, offset: u64, len: u64) {
        self.shift(offset / PAGE, |page| page + len / PAGE);
        self.size += len;
    }

    /// Returns the first offset from `offset` on that lies in data (`data`) or in a hole.
    pub fn seek(&self, offset: u64, data: bool) -> Found {
        if offset >= self.size {
            return Found::Nothing;
        }
        let sure = self.either.is_empty() && self.kept.is_empty();
        if !sure || self.size > LAST_PAGE {
            return Found::Unspecified;
        }
        let mut page = offset / PAGE;
        if data {
            return match self.written.range(page..).next() {
                Some((next, _)) if next * PAGE < self.size => Found::At(offset.max(next * PAGE)),
                _ => Found::Nothing,
            };
        }
        while self.written.contains_key(&page) {
            page += 1;
        }
        Found::At(offset.max(page * PAGE).min(self.size))
    }

    /// Returns the pages that are not all zero, cut at the end of the file: the canonical content.
    pub fn nonzero(&self) -> BTreeMap<u64, Vec<u8>> {
        let end = |page: u64| (self.size - page * PAGE).min(PAGE) as usize;
        self.written
            .iter()
            .filter(|(page, bytes)| **page * PAGE < self.size && bytes.iter().any(|b| *b != 0))
            .map(|(page, bytes)| (*page, bytes[..end(*page)].to_vec()))
            .collect()
    }

    fn page(&mut self, page: u64) -> &mut [u8] {
        self.either.remove(&page);
        self.kept.remove(&page);
        self.written
            .entry(page)
            .or_insert_with(|| vec![0; PAGE as usize].into())
    }

    fn zero(&mut self, from: u64, to: u64) {
        let touched: Vec<u64> = match to.div_ceil(PAGE) {
            last if last > from / PAGE => self
                .written
                .range(from / PAGE..last)
                .map(|(page, _)| *page)
                .collect(),
            _ => Vec::new(),
        };
        for page in touched {
            let start = from.saturating_sub(page * PAGE).min(PAGE) as usize;
            let end = to.saturating_sub(page * PAGE).min(PAGE) as usize;
            if let Some(bytes) = self.written.get_mut(&page) {
                bytes[start..end].fill(0);
            }
        }
    }

    fn shift(&mut self, first: u64, to: impl Fn(u64) -> u64) {
        let place = |page: u64| if page >= first { to(page) } else { page };
        self.written = std::mem::take(&mut self.written)
            .into_iter()
            .map(|(page, bytes)| (place(page), bytes))
            .collect();
        self.either = self.either.iter().map(|page| place(*page)).collect();
        self.kept = self.kept.iter().map(|page| place(*page)).collect();
    }
}

/// Returns the pages that `from..to` touches, each with the range inside it.
fn parts(from: u64, to: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let pages = if to > from {
        from / PAGE..to.div_ceil(PAGE)
    } else {
        0..0
    };
    pages.map(move |page| {
        let base = page * PAGE;
        (
            page,
            from.saturating_sub(base) as usize,
            (to - base).min(PAGE) as usize,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shrunk_file_grows_back_with_zeros() {
        let mut pages = Pages::default();
        pages.write(10, b"abcdef");
        pages.truncate(12);
        pages.truncate(20);
        assert_eq!(pages.read(8, 100), b"\0\0ab\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn holes_and_data_are_found_by_page() {
        let mut pages = Pages::default();
        pages.write(PAGE * 2 + 5, b"x");
        pages.truncate(PAGE * 5);
        assert_eq!(pages.seek(0, true), Found::At(PAGE * 2));
        assert_eq!(pages.seek(PAGE * 2 + 9, true), Found::At(PAGE * 2 + 9));
        assert_eq!(pages.seek(PAGE * 2 + 9, false), Found::At(PAGE * 3));
        assert_eq!(pages.seek(PAGE * 3, true), Found::Nothing);
        assert_eq!(pages.seek(PAGE * 5, false), Found::Nothing);
    }

    #[test]
    fn collapse_undoes_insert() {
        let mut pages = Pages::default();
        pages.write(0, &[7; 3 * PAGE as usize]);
        let before = pages.nonzero();
        pages.insert(PAGE, 2 * PAGE);
        assert_eq!(pages.size(), 5 * PAGE);
        assert_eq!(pages.read(PAGE, 3), [0, 0, 0]);
        pages.collapse(PAGE, 2 * PAGE);
        assert_eq!(pages.nonzero(), before);
    }

    #[test]
    fn the_last_byte_of_the_largest_file_can_be_written() {
        let mut pages = Pages::default();
        pages.write(MAX - 1, b"z");
        assert_eq!(pages.size(), MAX);
        assert_eq!(pages.read(MAX - 1, 10), b"z");
        assert_eq!(
            pages.nonzero().values().next().map(Vec::len),
            Some(PAGE as usize - 1)
        );
    }
}
