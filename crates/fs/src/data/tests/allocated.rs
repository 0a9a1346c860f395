//! Data whose allocated pages a backend has told.

use super::*;
use hearth_sync::epoch::is_pinned;
use std::ops::Range;

#[test]
fn each_page_that_a_backend_has_is_allocated_and_no_other() {
    let mut random = 1_u64;
    for _ in 0..200 {
        let mut below = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let (mut held, mut next) = (Vec::<(Range<u64>, bool)>::new(), 0);
        for _ in 0..below(30) {
            let start = next + below(5) * below(40);
            let end = start + 1 + below(4) * below(90);
            // As `allocation` gives them: those that meet differ.
            let is_written = match held.last() {
                Some((run, is_written)) if run.end == start => !is_written,
                _ => below(2) == 0,
            };
            held.push((start..end, is_written));
            next = end;
        }
        let g = pin();
        let (data, came) = Data::allocated(held.clone());
        assert_eq!(came, data.resident(&g));
        assert_eq!(data.allocation(&g), held);
        let pages: u64 = held.iter().map(|(run, _)| run.end - run.start).sum();
        assert_eq!(data.pages(&g), pages);
        for (run, is_written) in &held {
            for index in run.clone() {
                assert_eq!(page_at(&data, index, &g).is_err(), *is_written, "{index}");
            }
            assert!(data.absent_pages(run.end * PAGE, PAGE, &g).is_ok());
        }
    }
}

#[test]
fn nobody_is_pinned_for_all_of_a_large_file() {
    let each = (0..1000).map(|index| {
        assert!(!is_pinned());
        (64 * index..64 * index + 40, true)
    });
    let (data, came) = Data::allocated(each);
    let g = pin();
    assert_eq!((came.pages, data.pages(&g)), (0, 40_000));
    assert!(came.nodes >= 1000, "{came:?}");
}
