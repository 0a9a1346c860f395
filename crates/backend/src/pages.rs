//! Pages on their way to a backend.

use std::ops::Range;

/// Bytes of a page.
const PAGE: usize = 4096;

/// A page of a file: its index and up to 4,096 bytes; zeros follow.
pub type Page = (u64, Box<[u8]>);

/// Pages of a file that are to be stored. A backend copies them to where it packs them, and
/// only then: nothing else holds copies.
pub trait PageSource: Sync {
    /// Runs of adjacent pages, by rising index. Two runs may meet.
    fn runs(&self) -> Vec<Range<u64>>;

    /// Appends the bytes of `pages`, which lie in one run, to `out`: 4,096 bytes each. May wait a
    /// moment for changes of the file. From any thread, and with nothing held that a load needs.
    fn append_to(&self, pages: Range<u64>, out: &mut Vec<u8>);
}

/// Pages by rising index.
impl PageSource for &[Page] {
    fn runs(&self) -> Vec<Range<u64>> {
        let adjacent = |one: &Page, next: &Page| one.0.checked_add(1) == Some(next.0);
        let runs = self.chunk_by(adjacent);
        runs.map(|run| run[0].0..run[0].0 + run.len() as u64)
            .collect()
    }

    fn append_to(&self, pages: Range<u64>, out: &mut Vec<u8>) {
        let first = self.partition_point(|(index, _)| *index < pages.start);
        for (_, bytes) in &self[first..first + (pages.end - pages.start) as usize] {
            let end = out.len() + PAGE;
            out.extend_from_slice(bytes);
            out.resize(end, 0);
        }
    }
}

impl PageSource for Vec<Page> {
    fn runs(&self) -> Vec<Range<u64>> {
        self.as_slice().runs()
    }

    fn append_to(&self, pages: Range<u64>, out: &mut Vec<u8>) {
        self.as_slice().append_to(pages, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_in_runs_and_filled_up_with_zeros() {
        let page = |index: u64, len: usize| (index, vec![index as u8; len].into_boxed_slice());
        let pages = vec![page(3, PAGE), page(4, 1), page(9, PAGE)];
        assert_eq!(pages.runs(), [3..5, 9..10]);
        let mut out = vec![0];
        pages.append_to(4..5, &mut out);
        pages.append_to(9..10, &mut out);
        assert_eq!(out.len(), 1 + 2 * PAGE);
        assert_eq!((out[1], out[2], out[1 + PAGE]), (4, 0, 9));
    }
}
