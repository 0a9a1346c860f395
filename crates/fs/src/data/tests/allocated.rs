//! Data whose allocated pages a backend has told.

use super::super::resident::Resident;
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
        let pages: u64 = held.iter().map(|(run, _)| run.end - run.start).sum();
        assert_eq!(data.pages(&g), pages);
        while let Err(PageMiss(index)) = data.check_known(&(0..PAGES), &g) {
            let leaf = data.unknown_leaf(index, &g).expect("a leaf is missed");
            assert_eq!(data.load_leaf(leaf, &held, &g).nodes, 1);
        }
        assert_eq!(data.allocation(&g), held);
        assert_eq!(data.at_backend(&g).0.pages(&g), pages);
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
    assert!(came.nodes < 64 + 1000 / 64 + 3, "{came:?}");
}

#[test]
fn a_large_dense_file_takes_a_node_for_64_leaves() {
    let (data, came) = Data::allocated([(0..1 << 20, true)]);
    let g = pin();
    assert_eq!(came, data.resident(&g));
    assert!(came.nodes < (1 << 20) / 64 / 64 + 10, "{came:?}");
    assert_eq!(data.seek_data(9 << 30, 10 << 30, &g), Ok(None));
    assert_eq!(data.seek_hole(PAGE, 1 << 20, &g), Ok(1 << 20));
    assert_eq!(page_at(&data, 99_999, &g), Err(PageMiss(99_999)));
    assert_eq!(data.load(99_999, Some(&filled(3)), &g).pages, 1);
    assert_eq!(page_at(&data, 99_999, &g), Ok(filled(3)));
    assert_eq!(data.punch(100 * PAGE, 1 << 31, &g), Ok(1 << 19));
    assert_eq!(data.pages(&g), 1 << 19);
}

#[test]
fn leaves_go_with_their_pages_unless_the_backend_has_yet_to_hear_of_a_hole() {
    let g = pin();
    let data = dense(64 * 3, &g);
    data.flush(&mut |_, _| Ok::<(), ()>(())).unwrap();
    data.punch(65 * PAGE, PAGE, &g).unwrap();
    let mut gone = Resident::default();
    for _ in 0..2 {
        gone.add(data.evict(999, |_| true, false, &g));
    }
    assert_eq!((gone.pages, gone.nodes), (64 * 3 - 1, 1));
    assert_eq!(data.unknown_leaf(65, &g), None);
    assert_eq!(data.evict(999, |_| true, true, &g).nodes, 1);
    assert_eq!(data.unknown_leaf(65, &g), Some(64..128));
}
