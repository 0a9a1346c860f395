//! The races of one file under a scheduler that chooses every interleaving of atomics. Run with
//! `cargo test -p hearth --features shuttle --lib data::`.

use hearth_sync::epoch::pin;
use hearth_sync::primitive::{Arc, Mutex, thread};

use super::root::{Data, PageLookup, PageMiss};
use super::span::{PAGE, PAGE_BYTES};

const RUNS: usize = 2_000;

/// Runs `race` under random schedules, and under those with few and well-placed switches.
fn check(race: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(race, RUNS);
    shuttle::check_pct(race, RUNS, 3);
}

/// Both at once, on one file.
fn beside(
    data: &Arc<Data>,
    one: impl FnOnce(&Data) + Send + 'static,
    other: impl FnOnce(&Data) + Send + 'static,
) {
    let (first, second) = (data.clone(), data.clone());
    let first = thread::spawn(move || one(&first));
    let second = thread::spawn(move || other(&second));
    first.join().expect("the first has finished");
    second.join().expect("the second has finished");
}

/// The value that fills the page.
fn page(data: &Data, index: u64) -> Result<u8, PageMiss> {
    let mut bytes = vec![0xee; PAGE_BYTES];
    data.read(index * PAGE, &mut bytes, &pin())?;
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn page");
    Ok(bytes[0])
}

fn fill(data: &Data, index: u64, value: u8) -> u64 {
    let added = data.write(index * PAGE, &[value; PAGE_BYTES], &pin());
    added.expect("a whole page of complete data")
}

/// Complete data whose page i is full of `i + 1`.
fn dense(pages: u64) -> Arc<Data> {
    let data = Data::new();
    for index in 0..pages {
        fill(&data, index, index as u8 + 1);
    }
    Arc::new(data)
}

fn save(data: &Data, backend: &Mutex<Vec<u8>>) -> u64 {
    let saved = data.flush(&mut |index, bytes| {
        backend.lock()[index as usize] = bytes[0];
        Ok::<(), ()>(())
    });
    saved.expect("the backend takes everything")
}

#[test]
fn a_page_under_eviction_is_there_or_absent_and_never_zeros() {
    check(|| {
        let data = dense(2);
        save(&data, &Mutex::new(vec![0; 2]));
        assert_eq!(data.evict(9, |_| true, true, &pin()).pages, 0);
        beside(
            &data,
            |data| assert!(data.evict(9, |_| true, true, &pin()).pages <= 2),
            |data| {
                for index in [1, 0] {
                    let got = page(data, index);
                    assert!(
                        got == Ok(index as u8 + 1) || got == Err(PageMiss(index)),
                        "{got:?}"
                    );
                }
            },
        );
    });
}

#[test]
fn a_page_in_flight_is_found_before_or_after() {
    check(|| {
        let data = dense(3);
        beside(
            &data,
            |data| {
                data.insert(PAGE, 63 * PAGE, &pin()).expect("complete");
                assert_eq!(data.collapse(0, 63 * PAGE, &pin()), Ok(1));
            },
            |data| {
                // Page i moves to i + 63 and from there to i.
                let got = [0, 1, 2, 64, 65].map(|index| page(data, index).expect("complete"));
                assert!([1, 0].contains(&got[0]), "{got:?}");
                assert!(
                    [2, 0].contains(&got[1]) && [3, 0].contains(&got[2]),
                    "{got:?}"
                );
                assert!(
                    [2, 0].contains(&got[3]) && [3, 0].contains(&got[4]),
                    "{got:?}"
                );
            },
        );
        assert_eq!(
            [0, 1, 2, 3].map(|index| page(&data, index)),
            [0, 2, 3, 0].map(Ok)
        );
    });
}

#[test]
fn a_lookup_during_a_shift_is_repeated() {
    for has_far_pages in [false, true] {
        check(move || {
            let data = dense(8);
            if has_far_pages {
                fill(&data, 100, 1);
            }
            beside(
                &data,
                |data| assert_eq!(data.collapse(0, 4 * PAGE, &pin()), Ok(4)),
                |data| {
                    // In one step, because `read` has missed the page once before it checks.
                    for _ in 0..16 {
                        assert!(matches!(data.look(1, &pin()), PageLookup::Page(_)));
                    }
                    let got = page(data, 1).expect("complete");
                    assert!(got == 2 || got == 6, "{got}");
                },
            );
        });
    }
}

#[test]
fn of_two_writers_of_one_hole_one_adds_the_page_and_both_are_seen() {
    check(|| {
        for index in [0, 5, 5_000] {
            let data = Arc::new(Data::new());
            let added = Arc::new(Mutex::new(0));
            let writer = |start: u64, value: u8| {
                let added = added.clone();
                move |data: &Data| {
                    let mine = data.write(index * PAGE + start, &[value; 8], &pin());
                    *added.lock() += mine.expect("complete");
                }
            };
            beside(&data, writer(0, 1), writer(8, 2));
            let mut bytes = [0; 16];
            data.read(index * PAGE, &mut bytes, &pin())
                .expect("complete");
            assert_eq!((&bytes[..8], &bytes[8..]), (&[1; 8][..], &[2; 8][..]));
            assert_eq!((*added.lock(), data.pages(&pin())), (1, 1));
        }
    });
}

#[test]
fn two_pages_of_a_new_leaf_do_not_lose_each_other() {
    check(|| {
        let data = Arc::new(Data::new());
        beside(
            &data,
            |data| assert_eq!(fill(data, 5_000, 1), 1),
            |data| {
                assert_eq!(fill(data, 5_001, 2), 1);
                assert_eq!(page(data, 5_001), Ok(2));
            },
        );
        assert_eq!((page(&data, 5_000), page(&data, 5_001)), (Ok(1), Ok(2)));
    });
}

#[test]
fn a_late_load_never_covers_a_write() {
    check(|| {
        let (data, _) = Data::allocated(std::iter::once((0..1, true)));
        let data = Arc::new(data);
        beside(
            &data,
            |data| {
                data.load(0, Some(&[7; PAGE_BYTES]), &pin());
            },
            |data| {
                assert_eq!(fill(data, 0, 9), 0);
                assert_eq!(page(data, 0), Ok(9));
            },
        );
        assert_eq!(page(&data, 0), Ok(9));
    });
}

#[test]
fn a_write_beside_a_flush_is_saved_by_it_or_the_next() {
    check(|| {
        let data = dense(1);
        let backend = Arc::new(Mutex::new(vec![0]));
        let during = backend.clone();
        beside(
            &data,
            move |data| assert!(save(data, &during) <= 1),
            |data| assert_eq!((fill(data, 0, 8), fill(data, 0, 9)), (0, 0)),
        );
        save(&data, &backend);
        assert_eq!(backend.lock()[0], 9);
    });
}

#[test]
fn a_reader_beside_truncate_sees_the_page_or_zeros() {
    check(|| {
        let data = dense(3);
        beside(
            &data,
            |data| {
                assert_eq!(data.truncate(PAGE, &pin()), Ok(2));
                assert_eq!(fill(data, 2, 7), 1);
            },
            |data| {
                let got = [2, 1, 0].map(|index| page(data, index).expect("complete"));
                assert!(
                    [3, 0, 7].contains(&got[0]) && [2, 0].contains(&got[1]),
                    "{got:?}"
                );
                assert_eq!(got[2], 1);
            },
        );
    });
}
