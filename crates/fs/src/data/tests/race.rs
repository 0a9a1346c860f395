//! Operations at the same time on real threads.

use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use hearth_sync::primitive::{Mutex, thread};
use hearth_testing::threads::SetOnDrop;

use super::super::root::Data;
use super::super::span::{PAGE, PAGE_BYTES};
use super::{LAST, dense, filled, page_at};

/// Runs `readers` until `writer` has returned; a failed reader fails the test.
fn beside(readers: Vec<Box<dyn Fn() + Send>>, writer: impl FnOnce()) {
    let done = Arc::new(AtomicBool::new(false));
    let end = SetOnDrop(&done);
    let readers: Vec<_> = readers
        .into_iter()
        .map(|reader| {
            let done = done.clone();
            thread::spawn(move || {
                // Relaxed: join orders the rest.
                while !done.load(Ordering::Relaxed) {
                    reader();
                }
            })
        })
        .collect();
    writer();
    drop(end);
    readers
        .into_iter()
        .for_each(|reader| reader.join().expect("a reader failed"));
}

/// The value that fills the page.
fn value(bytes: &[u8]) -> u8 {
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn page");
    bytes[0]
}

#[test]
fn readers_see_whole_pages_beside_writers() {
    let data = Arc::new(Data::new());
    let read = {
        let data = data.clone();
        move || {
            let g = pin();
            let mut bytes = vec![0; 4 * PAGE_BYTES];
            data.read(62 * PAGE, &mut bytes, &g).unwrap();
            assert!(bytes.chunks(PAGE_BYTES).map(value).count() == 4);
        }
    };
    beside(vec![Box::new(read)], || {
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let data = data.clone();
                thread::spawn(move || {
                    for round in 0..150_000u64 {
                        let bytes = vec![(round * 2 + writer) as u8; 2 * PAGE_BYTES];
                        data.write((62 + round % 3) * PAGE, &bytes, &pin()).unwrap();
                    }
                })
            })
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn a_page_stays_found_while_the_file_grows() {
    for _ in 0..300 {
        let data = Arc::new(Data::new());
        let written = Arc::new(AtomicU64::new(0));
        let steps: Vec<u64> = [0, 1, 63]
            .into_iter()
            .chain((1..9).map(|level| 1 << (6 * level)))
            .chain([LAST - 1])
            .collect();
        let read = {
            let (data, written, steps) = (data.clone(), written.clone(), steps.clone());
            move || {
                let g = pin();
                // Acquire: pairs with the Release below; these pages exist.
                let there = written.load(Ordering::Acquire);
                for (at, index) in steps.iter().enumerate() {
                    let got = value(&page_at(&data, *index, &g).unwrap());
                    let want = at as u8 + 1;
                    assert!(
                        got == want || got == 0 && at as u64 >= there,
                        "{got} at {index}"
                    );
                }
            }
        };
        beside(vec![Box::new(read)], || {
            for (at, index) in steps.iter().enumerate() {
                assert_eq!(
                    data.write(index * PAGE, &filled(at as u8 + 1), &pin()),
                    Ok(1)
                );
                // Release: pairs with the Acquire above.
                written.store(at as u64 + 1, Ordering::Release);
            }
        });
    }
}

#[test]
fn of_many_writers_of_one_hole_one_adds_the_page() {
    for _ in 0..200 {
        let data = Arc::new(Data::new());
        let added = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (data, added) = (data.clone(), added.clone());
                thread::spawn(move || {
                    for index in (0..200).map(|index| index * 37) {
                        let part = vec![writer + 1; 1000];
                        let at = index * PAGE + u64::from(writer) * 1000;
                        added.fetch_add(data.write(at, &part, &pin()).unwrap(), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        let g = pin();
        assert_eq!((added.load(Ordering::Relaxed), data.pages(&g)), (200, 200));
        for index in (0..200).map(|index| index * 37) {
            let bytes = page_at(&data, index, &g).unwrap();
            (0..3).for_each(|at| assert_eq!(bytes[at * 1000 + 500], at as u8 + 1));
        }
    }
}

#[test]
fn a_reader_never_misses_a_page_in_flight() {
    const HOLE: u64 = 70;
    let data = Arc::new(dense(200, &pin()));
    let read = {
        let data = data.clone();
        move || {
            let g = pin();
            for index in [0, 1, 5, 75, 80, 128, 140, 199] {
                let got = value(&page_at(&data, index, &g).unwrap());
                let still = index as u8 + 1;
                let moved = index
                    .checked_sub(HOLE)
                    .filter(|from| *from >= 1)
                    .map(|from| from as u8 + 1);
                let opened = (1..1 + HOLE).contains(&index);
                assert!(
                    got == still || index >= 1 && (Some(got) == moved || opened && got == 0),
                    "{got} at {index}"
                );
            }
        }
    };
    beside(vec![Box::new(read.clone()), Box::new(read)], || {
        for _ in 0..4_000 {
            data.insert(PAGE, HOLE * PAGE, &pin()).unwrap();
            assert_eq!(data.collapse(PAGE, HOLE * PAGE, &pin()), Ok(0));
        }
    });
    let g = pin();
    (0..200).for_each(|index| assert_eq!(page_at(&data, index, &g), Ok(filled(index as u8 + 1))));
}

#[test]
fn readers_beside_truncate_see_the_page_or_zeros() {
    let data = Arc::new(dense(100, &pin()));
    let read = {
        let data = data.clone();
        move || {
            let g = pin();
            for index in 0..100 {
                let got = value(&page_at(&data, index, &g).unwrap());
                assert!(
                    got == index as u8 + 1 || got == 0 && index >= 3,
                    "{got} at {index}"
                );
            }
        }
    };
    beside(vec![Box::new(read.clone()), Box::new(read)], || {
        for round in 0..5_000 {
            let keep = 3 + round % 80;
            assert_eq!(data.truncate(keep * PAGE, &pin()), Ok(100 - keep));
            for index in keep..100 {
                data.write(index * PAGE, &filled(index as u8 + 1), &pin())
                    .unwrap();
            }
        }
    });
}

#[test]
fn the_last_write_before_a_flush_reaches_the_backend() {
    let data = Arc::new(dense(8, &pin()));
    let backend = Arc::new(Mutex::new(vec![Vec::new(); 8]));
    let flush = {
        let (data, backend) = (data.clone(), backend.clone());
        move || {
            let keep = &mut |index: u64, bytes: &[u8]| {
                value(bytes);
                backend.lock()[index as usize] = bytes.to_vec();
                Ok::<(), ()>(())
            };
            data.flush(keep).map(drop).unwrap();
        }
    };
    beside(vec![Box::new(flush.clone())], || {
        for round in 0..200_000u64 {
            data.write(round % 8 * PAGE, &filled(round as u8), &pin())
                .unwrap();
        }
    });
    flush();
    let g = pin();
    (0..8).for_each(|index| {
        assert_eq!(
            page_at(&data, index as u64, &g).unwrap(),
            backend.lock()[index]
        );
    });
}

#[test]
fn readers_load_pages_that_eviction_drops() {
    let data = Arc::new(dense(130, &pin()));
    data.flush(&mut |_, _| Ok::<(), ()>(())).unwrap();
    // Stands for the inode's gate: loads and evictions exclude each other.
    let gate = Arc::new(Mutex::new(()));
    let read = {
        let (data, gate) = (data.clone(), gate.clone());
        move || {
            for index in 0..130 {
                let g = pin();
                let bytes = match page_at(&data, index, &g) {
                    Ok(bytes) => bytes,
                    Err(absent) => {
                        assert_eq!(absent.0, index);
                        let _inside = gate.lock();
                        if let Some(leaf) = data.unknown_leaf(index, &g) {
                            data.load_leaf(leaf, &[(0..130, true)], &g);
                        }
                        data.load(index, Some(&filled(index as u8 + 1)), &g);
                        page_at(&data, index, &g).expect("no eviction while the gate is held")
                    }
                };
                assert_eq!(value(&bytes), index as u8 + 1);
            }
        }
    };
    beside(vec![Box::new(read.clone()), Box::new(read)], || {
        let mut evicted = 0;
        for _ in 0..30_000 {
            let _closed = gate.lock();
            evicted += data.evict(20, |_| true, true, &pin()).pages;
        }
        assert!(evicted > 0);
    });
    assert_eq!(data.pages(&pin()), 130);
}
