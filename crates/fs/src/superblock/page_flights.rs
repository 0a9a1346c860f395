//! Fetches of pages that are under way. A kernel that reads ahead sends several requests for one
//! file at a time: each page is fetched for one of them.

use hearth_sync::primitive::{Condvar, Mutex};
use std::ops::Range;

/// The pages that are being fetched, of all files.
#[derive(Default)]
pub(crate) struct PageFlights {
    /// Inode and pages. Those of one inode are disjoint.
    under_way: Mutex<Vec<(u64, Range<u64>)>>,
    landed: Condvar,
}

/// A fetch. It ends when this is dropped.
pub(crate) struct PageFlight<'a> {
    flights: &'a PageFlights,
    ino: u64,
    /// What is to be fetched.
    pub pages: Range<u64>,
}

impl PageFlights {
    /// Begins to fetch `pages`, those before the first that somebody else is fetching. Where that
    /// is the first of them this waits until the other has ended, and returns nothing. Called with
    /// nothing held.
    pub fn begin(&self, ino: u64, mut pages: Range<u64>) -> Option<PageFlight<'_>> {
        let mut under_way = self.under_way.lock();
        let is_fetched = |under_way: &[(u64, Range<u64>)]| {
            let mut all = under_way.iter();
            all.any(|(of, range)| *of == ino && range.contains(&pages.start))
        };
        if is_fetched(&under_way) {
            while is_fetched(&under_way) {
                self.landed.wait(&mut under_way);
            }
            return None;
        }
        for (of, range) in under_way.iter() {
            if *of == ino && range.start > pages.start {
                pages.end = pages.end.min(range.start);
            }
        }
        under_way.push((ino, pages.clone()));
        Some(PageFlight {
            flights: self,
            ino,
            pages,
        })
    }
}

impl Drop for PageFlight<'_> {
    fn drop(&mut self) {
        let mut under_way = self.flights.under_way.lock();
        under_way.retain(|(of, range)| *of != self.ino || *range != self.pages);
        self.flights.landed.notify_all();
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_fetched_once_and_whoever_wants_it_too_waits() {
        let flights = PageFlights::default();
        let flight = flights.begin(7, 10..20).expect("nobody else");
        assert_eq!(flight.pages, 10..20);
        let before = flights.begin(7, 5..30).expect("page 5 is free");
        assert_eq!(before.pages, 5..10);
        assert_eq!(
            flights.begin(8, 10..20).expect("another file").pages,
            10..20
        );
        drop(before);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| flights.begin(7, 12..13).is_none());
            drop(flight);
            // It came before or after the end.
            let came_before = waiting.join().expect("no panic");
            assert!(came_before || flights.under_way.lock().is_empty());
        });
        assert!(flights.begin(7, 12..13).is_some());
    }
}
