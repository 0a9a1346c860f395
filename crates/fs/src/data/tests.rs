//! What the pages of a file guarantee, one fact at a time. `model` checks all operations against a
//! plain map, `race` runs them at the same time.

mod allocated;
mod model;
mod race;

use hearth_sync::epoch::{Guard, pin};

use super::live_count;
use super::root::{Data, PageMiss};
use super::slot_state::SlotState;
use super::span::{BYTES, PAGE, PAGE_BYTES, PAGES, Span, edges, spans, touched, whole};

/// The last page of the largest file.
const LAST: u64 = PAGES - 1;

fn page_at(data: &Data, index: u64, g: &Guard) -> Result<Vec<u8>, PageMiss> {
    let mut bytes = vec![0xee; PAGE_BYTES];
    data.read(index * PAGE, &mut bytes, g).map(|()| bytes)
}

fn filled(value: u8) -> Vec<u8> {
    vec![value; PAGE_BYTES]
}

/// Complete data with page i full of `i + 1`.
fn dense(pages: u64, g: &Guard) -> Data {
    let data = Data::new();
    for index in 0..pages {
        assert_eq!(data.write(index * PAGE, &filled(index as u8 + 1), g), Ok(1));
    }
    data
}

#[test]
fn the_root_of_a_file_s_pages_takes_32_bytes() {
    assert!(size_of::<Data>() <= 32);
}

#[test]
fn a_one_page_file_has_no_node() {
    let g = pin();
    let data = Data::new();
    assert_eq!(data.write(17, b"small", &g), Ok(1));
    assert!(data.near.is_empty() && data.far.is_empty());
    assert_eq!(&page_at(&data, 0, &g).unwrap()[15..24], b"\0\0small\0\0");
}

#[test]
fn the_last_byte_of_the_largest_file_is_written_and_found() {
    let g = pin();
    let data = Data::new();
    let last = BYTES - 2;
    assert_eq!(data.write(last, b"z", &g), Ok(1));
    assert_eq!(data.pages(&g), 1);
    assert_eq!(data.seek_data(0, last + 1, &g), Ok(Some(LAST * PAGE)));
    assert_eq!(data.seek_hole(LAST * PAGE, last + 1, &g), Ok(last + 1));
    assert_eq!(data.punch(0, u64::MAX, &g), Ok(1));
    assert_eq!(data.pages(&g), 0);
}

#[test]
fn a_read_past_the_largest_file_is_zeros() {
    let g = pin();
    let data = Data::new();
    for off in [BYTES - 10, BYTES, u64::MAX - 3] {
        let mut out = [7; 64];
        assert_eq!(data.read(off, &mut out, &g), Ok(()));
        assert_eq!(out, [0; 64]);
    }
}

#[test]
#[should_panic(expected = "largest file size")]
fn a_write_past_the_largest_file_is_the_callers_mistake() {
    let _ = Data::new().write(BYTES - 2, b"zz", &pin());
}

/// Data with a leaf of which only the backend knows that pages 64 and 66 are allocated.
fn with_an_unknown_leaf(g: &Guard) -> Data {
    let data = dense(1, g);
    for index in [64, 66] {
        assert_eq!(data.write(index * PAGE, &filled(index as u8), g), Ok(1));
    }
    assert_eq!(data.flush(&mut |_, _| Ok::<(), ()>(())), Ok(3));
    for _ in 0..2 {
        data.evict(9, |_| true, true, g);
    }
    assert_eq!(data.unknown_leaf(65, g), Some(64..128));
    data
}

#[test]
fn pages_that_only_the_backend_knows_are_missed_before_anything_changes() {
    let g = pin();
    let data = with_an_unknown_leaf(&g);
    assert_eq!((data.pages(&g), data.resident(&g).pages), (3, 0));
    assert_eq!(page_at(&data, 65, &g), Err(PageMiss(65)));
    assert_eq!(page_at(&data, 128, &g), Ok(filled(0)));
    let over = vec![9; 3 * PAGE_BYTES];
    assert_eq!(data.write(64 * PAGE, &over, &g), Err(PageMiss(64)));
    assert_eq!(data.seek_data(PAGE, 99 * PAGE, &g), Err(PageMiss(64)));
    assert_eq!(data.punch(66 * PAGE, PAGE, &g), Err(PageMiss(66)));
    assert_eq!(data.truncate(65 * PAGE, &g), Err(PageMiss(65)));
    assert_eq!(data.unknown_leaf(65, &g), Some(64..128));
    let held = [(0..1, true), (64..65, true), (66..67, true)];
    assert_eq!(data.load_leaf(64..128, &held, &g).nodes, 1);
    assert_eq!(page_at(&data, 65, &g), Ok(filled(0)));
    assert_eq!(page_at(&data, 66, &g), Err(PageMiss(66)));
    assert_eq!(data.absent_pages(64 * PAGE, 3 * PAGE, &g), Ok(1));
    assert_eq!(data.write(64 * PAGE, &over, &g), Ok(1));
    assert_eq!(data.pages(&g), 4);
}

#[test]
fn an_unknown_leaf_is_cut_without_a_question() {
    let g = pin();
    let data = with_an_unknown_leaf(&g);
    assert_eq!(data.punch(10 * PAGE, 200 * PAGE, &g), Ok(2));
    assert_eq!(page_at(&data, 66, &g), Ok(filled(0)));
    assert_eq!((data.pages(&g), data.resident(&g).nodes), (1, 0));
}

/// Once, each such leaf came into memory before the next one was looked at: with less memory than
/// all of them take the search had no end.
#[test]
fn data_behind_allocated_pages_is_found_without_a_question_for_each_leaf() {
    const LAST: u64 = 200 * 64;
    let g = pin();
    let unwritten = (1..200).map(|leaf| (leaf * 64..leaf * 64 + leaf % 64 + 1, false));
    let (data, _) = Data::allocated(unwritten.chain([(LAST + 3..LAST + 4, true)]));
    assert_eq!(data.seek_data(0, BYTES - 1, &g), Err(PageMiss(LAST)));
    data.load_leaf(LAST..LAST + 64, &[(LAST + 3..LAST + 4, true)], &g);
    let found = (LAST + 3) * PAGE;
    assert_eq!(data.seek_data(0, BYTES - 1, &g), Ok(Some(found)));
    assert_eq!(data.seek_data(found + PAGE, BYTES - 1, &g), Ok(None));
}

#[test]
fn allocated_leaves_are_counted_and_allocated_again_without_a_question() {
    let g = pin();
    let leaf = 64 * PAGE;
    let (data, came) = Data::allocated([(0..64 * 200, false), (64 * 200..64 * 300, true)]);
    assert_eq!(data.absent_pages(0, 301 * leaf, &g), Ok(64));
    assert_eq!(data.allocate(0, 301 * leaf, &g), Ok(64));
    // The new leaf alone has come.
    assert_eq!(data.resident(&g).nodes, came.nodes + 1);
    assert_eq!(data.pages(&g), 64 * 301);
}

#[test]
fn a_page_list_of_the_backend_makes_counts_exact() {
    let g = pin();
    let held = [0..2, 70..72, 1 << 40..(1 << 40) + 1];
    let (data, came) = Data::allocated(held.map(|pages| (pages, true)));
    assert_eq!(came, data.resident(&g));
    assert_eq!(
        (data.pages(&g), data.resident(&g).pages, data.is_complete()),
        (5, 0, false)
    );
    assert_eq!(page_at(&data, 2, &g), Ok(filled(0)));
    assert_eq!(page_at(&data, 71, &g), Err(PageMiss(71)));
    assert_eq!(data.write(71 * PAGE, &filled(3), &g), Ok(0));
    assert_eq!(data.seek_data(2 * PAGE, BYTES - 1, &g), Ok(Some(70 * PAGE)));
    assert_eq!(data.truncate(0, &g), Ok(5));
    assert!(data.is_complete());
}

#[test]
fn a_late_result_of_the_backend_changes_nothing() {
    let g = pin();
    let data = Data::allocated([(0..4, true)]).0;
    assert_eq!(data.load(1, Some(&filled(1)), &g).pages, 1);
    assert_eq!(data.load(1, Some(&filled(2)), &g).pages, 0);
    assert_eq!(page_at(&data, 1, &g), Ok(filled(1)));
    data.load(1, None, &g);
    assert_eq!(page_at(&data, 1, &g), Ok(filled(1)));
    assert_eq!(data.truncate(PAGE, &g), Ok(3));
    data.load(2, Some(&filled(3)), &g);
    assert_eq!(page_at(&data, 2, &g), Ok(filled(0)));
    let data = with_an_unknown_leaf(&g);
    data.load_leaf(64..128, &[(64..65, true), (66..67, true)], &g);
    data.write(65 * PAGE, &filled(5), &g).unwrap();
    assert_eq!(data.load_leaf(64..128, &[(64..65, true)], &g).nodes, 0);
    assert_eq!((page_at(&data, 65, &g), data.pages(&g)), (Ok(filled(5)), 4));
}

#[test]
fn allocated_pages_are_holes_until_written_and_take_no_memory() {
    let g = pin();
    let data = Data::new();
    assert_eq!(data.allocate(1, 100 * PAGE, &g), Ok(101));
    assert_eq!((data.pages(&g), data.resident(&g).pages), (101, 0));
    assert_eq!(data.seek_data(0, 200 * PAGE, &g), Ok(None));
    assert_eq!(data.write(5 * PAGE, b"x", &g), Ok(0));
    assert_eq!(data.seek_data(0, 200 * PAGE, &g), Ok(Some(5 * PAGE)));
    assert_eq!(data.seek_hole(5 * PAGE, 200 * PAGE, &g), Ok(6 * PAGE));
    assert_eq!(data.zero_range(4 * PAGE, 2 * PAGE, &g), Ok(0));
    assert_eq!(data.seek_data(0, 200 * PAGE, &g), Ok(None));
    assert_eq!(data.pages(&g), 101);
}

#[test]
fn an_allocated_page_reaches_the_backend_once() {
    let g = pin();
    let data = Data::new();
    data.allocate(0, 2 * PAGE, &g).unwrap();
    let failed = data.flush(&mut |index, _| {
        if index == 1 { Err("full") } else { Ok(()) }
    });
    assert_eq!(failed, Err("full"));
    let mut seen = Vec::new();
    let mut keep = |index: u64, bytes: &[u8]| {
        assert_eq!(bytes, filled(0));
        seen.push(index);
        Ok::<(), ()>(())
    };
    assert_eq!(data.flush(&mut keep), Ok(1));
    assert_eq!(data.flush(&mut keep), Ok(0));
    assert_eq!(seen, [1]);
}

#[test]
fn a_page_written_to_during_its_flush_stays_dirty() {
    let g = pin();
    let data = dense(1, &g);
    let flushed = data.flush(&mut |_, bytes| {
        assert_eq!(bytes, filled(1));
        data.write(0, &filled(2), &g).map(|_| ())
    });
    assert_eq!(flushed, Ok(1));
    assert_eq!(data.flush(&mut |_, bytes| Err(bytes[0])), Err(2));
    assert_eq!(data.flush(&mut |_, _| Ok::<(), ()>(())), Ok(1));
}

#[test]
fn eviction_spares_what_is_dirty_on_its_way_or_in_use() {
    let g = pin();
    let data = dense(4, &g);
    let evict = || data.evict(9, |_| true, true, &g).pages;
    let evict_twice = || evict() + evict();
    assert_eq!(evict_twice(), 0, "all are dirty");
    let flushed = data.flush(&mut |index, _| {
        assert_eq!(
            evict_twice(),
            u64::from(index > 0),
            "only the page that was saved before"
        );
        assert_eq!(data.resident(&g).pages, 4 - index);
        Ok::<(), ()>(())
    });
    assert_eq!(flushed, Ok(4));
    assert_eq!(evict_twice(), 1, "saved, and not used since");
}

#[test]
fn an_evicted_page_is_absent_and_still_counted() {
    let g = pin();
    let data = dense(4, &g);
    data.flush(&mut |_, _| Ok::<(), ()>(())).unwrap();
    assert_eq!(data.evict(9, |_| true, true, &g).pages, 0, "all were used");
    page_at(&data, 2, &g).unwrap();
    assert_eq!(data.evict(9, |_| true, true, &g).pages, 3);
    assert_eq!(
        (data.pages(&g), data.resident(&g).pages, data.is_complete()),
        (4, 1, false)
    );
    assert_eq!(page_at(&data, 2, &g), Ok(filled(3)));
    assert_eq!(page_at(&data, 1, &g), Err(PageMiss(1)));
    assert_eq!(page_at(&data, 9, &g), Ok(filled(0)));
    data.load(1, Some(&filled(2)), &g);
    assert_eq!(page_at(&data, 1, &g), Ok(filled(2)));
    assert_eq!(data.collapse(PAGE, PAGE, &g), Err(PageMiss(3)));
    assert_eq!(data.truncate(PAGE, &g), Ok(3));
    assert_eq!(data.truncate(1, &g), Err(PageMiss(0)));
}

#[test]
fn eviction_goes_on_where_it_stopped() {
    let g = pin();
    let data = dense(200, &g);
    data.flush(&mut |_, _| Ok::<(), ()>(())).unwrap();
    assert_eq!(data.evict(0, |_| true, true, &g).pages, 0);
    assert_eq!(
        data.evict(999, |_| true, true, &g).pages,
        0,
        "all were used"
    );
    let gone = || -> Vec<u64> {
        let absent = |index: &u64| {
            let slot = data.slot(*index, &g);
            slot.is_none_or(|slot| slot.page(&g).is_none())
        };
        (0..200).filter(absent).collect()
    };
    assert_eq!(data.evict(30, |_| true, true, &g).pages, 30);
    assert_eq!(gone(), (0..30).collect::<Vec<_>>());
    // A page that comes back at once is not evicted next.
    for index in 0..30 {
        data.load(index, Some(&filled(1)), &g);
    }
    assert_eq!(data.evict(100, |_| true, true, &g).pages, 100);
    assert_eq!(gone(), (30..130).collect::<Vec<_>>());
    assert_eq!(
        data.evict(999, |_| true, true, &g).pages,
        70,
        "once around; those that were loaded are in use"
    );
}

#[test]
fn dropped_ranges_give_their_nodes_back() {
    let live_count = live_count::begin();
    let data = Data::new();
    {
        let g = pin();
        for index in [0, 1, 63, 64, 200, 4096, 1 << 30, 1 << 50, LAST] {
            data.write(index * PAGE, b"here", &g).unwrap();
        }
        for index in 4096..4096 + 3 * 64 {
            data.write(index * PAGE, b"here", &g).unwrap();
        }
        assert_eq!(data.punch(64 * PAGE, (1 << 40) * PAGE, &g), Ok(2 + 192 + 1));
        assert_eq!(data.collapse(1 << 61, 1 << 61, &g), Ok(0));
    }
    // 5 pages; the near leaf and the far trees; in the highest tree 2 leaves below 15 nodes.
    live_count.settle(5 + 2 + 2 + 15);
    assert_eq!(data.truncate(0, &pin()), Ok(5));
    live_count.settle(1);
    drop(data);
    live_count.settle(0);
}

#[test]
fn a_dropped_file_frees_every_page_and_node() {
    let live_count = live_count::begin();
    let data = dense(200, &pin());
    data.write(1 << 60, b"far", &pin()).unwrap();
    assert!(live_count.alive() > 200);
    drop(data);
    live_count.settle(0);
}

#[test]
fn changing_a_slot_state_leaves_its_neighbours_alone() {
    let word = hearth_sync::primitive::atomic::AtomicU64::new(0);
    let state = |at| super::slot_state::StateCell::new(&word, at);
    let marks = [
        SlotState::Hole,
        SlotState::AtBackend,
        SlotState::Unwritten,
        SlotState::UnwrittenDirty,
        SlotState::Unset,
    ];
    (0..16).for_each(|at| state(at).set(marks[at % 5]));
    (0..16).for_each(|at| assert_eq!(state(at).get(), marks[at % 5]));
    assert!(!state(7).replace(SlotState::AtBackend, SlotState::Hole));
    assert!(state(7).replace(SlotState::Unwritten, SlotState::Hole));
    assert_eq!(
        (state(6).get(), state(7).get(), state(8).get()),
        (
            SlotState::AtBackend,
            SlotState::Hole,
            SlotState::UnwrittenDirty
        )
    );
}

#[test]
fn byte_ranges_split_into_pages() {
    let span = |index, bytes| Span { index, bytes };
    let list = |off, len| spans(off, len).collect::<Vec<_>>();
    assert_eq!(list(5, 0), []);
    assert_eq!(list(5, 10), [span(0, 5..15)]);
    assert_eq!(list(4090, 4102), [span(0, 4090..4096), span(1, 0..4096)]);
    assert_eq!(list(BYTES - 1, u64::MAX), [span(LAST, 4095..4096)]);
    let list = |off, len| edges(off, len).collect::<Vec<_>>();
    assert_eq!(list(0, 8192), []);
    assert_eq!(list(1, 2), [span(0, 1..3)]);
    assert_eq!(list(1, 8192), [span(0, 1..4096), span(2, 0..1)]);
    assert_eq!(list(4096, 5000), [span(2, 0..904)]);
    assert_eq!(
        (touched(1, 0), touched(4095, 2), touched(0, 4096)),
        (0..0, 0..2, 0..1)
    );
    assert_eq!(
        (whole(1, 4096), whole(0, 4096), whole(1, 8191)),
        (0..0, 0..1, 1..2)
    );
    assert_eq!(whole(0, u64::MAX), 0..PAGES);
}
