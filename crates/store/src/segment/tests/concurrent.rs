use super::*;
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn writers_and_readers_at_once_see_their_own_bytes() {
    for store in [
        Store::new(Compression::None, false),
        Store::new(Compression::Lz4, true),
    ] {
        let segments = store.open();
        std::thread::scope(|scope| {
            for writer in 0..8u64 {
                let segments = &segments;
                scope.spawn(move || {
                    for round in 0..10 {
                        let given =
                            pages((round..round + 40).step_by(1 + round as usize % 3), writer);
                        let written = segments.write(INO, GENERATION, &given).expect("write");
                        assert!(read_back(segments, &written) == given);
                    }
                });
            }
        });
        let numbers = segments.list().expect("list");
        for number in &numbers {
            assert!(segments.headers(*number).all(|block| block.is_ok()));
        }
        assert!(numbers.len() <= 80);
    }
}

#[test]
fn writers_that_come_together_share_segments() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let writers = 16;
    let together = Barrier::new(writers);
    std::thread::scope(|scope| {
        for writer in 0..writers as u64 {
            let (segments, together) = (&segments, &together);
            scope.spawn(move || {
                for _ in 0..10 {
                    together.wait();
                    let given = pages([writer], writer);
                    let written = segments.write(INO, GENERATION, &given).expect("write");
                    assert_eq!(read_back(segments, &written), given);
                }
            });
        }
    });
    let made = segments.list().expect("list").len();
    assert!(made < 160, "{made} segments for 160 writes");
}

#[test]
fn no_number_and_no_nonce_is_used_twice_over_lives_rollbacks_and_copies() {
    let store = Store::new(Compression::None, true);
    let mut nonces = HashSet::new();
    let mut blocks = 0;
    let mut take = |bytes: &[u8], written: &[Written]| {
        for block in written {
            let at = block.stored.at as usize + HEADER;
            nonces.insert(bytes[at..at + 24].to_vec());
            blocks += 1;
        }
    };
    let given = pages((0..64).step_by(2), 1);
    // Each life forgets what the one before wrote: its segment is taken away again.
    for _life in 0..10 {
        let segments = store.open();
        let written = segments.write(INO, GENERATION, &given).expect("write");
        assert_eq!(written[0].stored.segment, 1);
        take(&store.bytes(1), &written);
        segments.delete(1).expect("delete");
    }
    // Two copies of the directory go on side by side.
    for _copy in 0..2 {
        let copy = Store {
            key: store.key.clone(),
            ..Store::new(Compression::None, true)
        };
        let written = copy.open().write(INO, GENERATION, &given).expect("write");
        take(&copy.bytes(1), &written);
    }
    assert_eq!(nonces.len(), blocks);
    assert_eq!(blocks, 12 * 32);
}

#[test]
fn readers_of_one_block_share_one_read() {
    let flights = flight::Flights::<u32>::new(0);
    let (reads, together) = (AtomicUsize::new(0), Barrier::new(8));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                together.wait();
                let read = flights.get(block(64), || {
                    // All others come while this one reads.
                    reads.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(300));
                    let plain = Bytes::from_static(b"block");
                    Ok(flight::Opened { header: 7, plain })
                });
                let read = read.expect("read");
                assert_eq!((read.header, &read.plain[..]), (7, &b"block"[..]));
            });
        }
    });
    assert!(reads.load(Ordering::SeqCst) < 8);
}

#[test]
fn a_reader_that_is_gone_leaves_the_others_their_read_and_errors_are_not_kept() {
    let flights = flight::Flights::<u32>::new(100);
    let good = || {
        Ok(flight::Opened {
            header: 1,
            plain: Bytes::from_static(b"block"),
        })
    };
    let at = block(64);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        flights.get(at, || panic!("gone"))
    }));
    assert!(unwound.is_err());
    assert!(
        flights
            .get(at, || Err(Error::NoSpace { what: "x" }))
            .is_err()
    );
    assert!(flights.get(at, good).is_ok());
    // Kept now: nothing is read any more.
    assert!(flights.get(at, || panic!("read again")).is_ok());
}

#[test]
fn a_long_read_ends_although_its_taker_unwinds_or_a_segment_is_gone() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let given: Vec<Page> = (0..4096).map(|at| (at, noise(PAGE, at).into())).collect();
    let mut blocks = Vec::new();
    for part in given.chunks(2048) {
        let written = segments.write(INO, GENERATION, &part).expect("write");
        blocks.extend(written.iter().map(|w| w.stored));
    }
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        segments.read_run(&blocks, INO, GENERATION, &mut |_, _| panic!("enough"));
    }));
    assert!(unwound.is_err());
    segments.delete(1).expect("delete");
    let mut read = [0, 0];
    segments.read_run(&blocks, INO, GENERATION, &mut |stored, bytes| {
        assert_eq!(bytes.is_ok(), stored.segment == 2);
        assert!(bytes.is_ok() || is_damage_of(&bytes, 1));
        read[stored.segment as usize - 1] += 1;
    });
    assert_eq!(read, [128, 128]);
    let mut shared = 0;
    segments.read_run_shared(&blocks[128..], &mut |_, bytes| {
        shared += bytes.expect("read").len()
    });
    assert_eq!(shared, 2048 * PAGE);
}

#[test]
fn blocks_that_are_kept_stay_below_their_limit() {
    let flights = flight::Flights::<u64>::new(1000);
    let reads = AtomicUsize::new(0);
    let get = |at: u32| {
        let read = flights.get(block(at), || {
            reads.fetch_add(1, Ordering::SeqCst);
            let plain = Bytes::from(vec![at as u8; 300]);
            let header = u64::from(at);
            Ok(flight::Opened { header, plain })
        });
        assert_eq!(read.expect("read").header, u64::from(at));
    };
    (0..4).for_each(get);
    (1..4).for_each(get);
    assert_eq!(reads.load(Ordering::SeqCst), 4);
    get(0);
    assert_eq!(reads.load(Ordering::SeqCst), 5);
}

fn block(at: u32) -> Stored {
    Stored {
        segment: 1,
        at,
        stored_len: 5,
        len: 5,
        within: 0,
        codec: Codec::None,
        digest: [0; 16],
    }
}
