use super::*;
use crate::disk::Disk;
use crate::disk::simulated::SimulatedDisk;
use crate::segment::layout::HEAD;
use hearth_sync::primitive::Arc;
use std::collections::BTreeSet;

/// Reads without anything kept from before.
fn read(store: &Store, stored: &Stored) -> crate::Result<Bytes> {
    store.open_with(VOLUME, 0).read(stored, INO, GENERATION)
}

#[test]
fn a_bit_flipped_anywhere_is_damage_of_that_file_or_the_same_bytes() {
    for store in every_kind() {
        let given: Vec<Page> = [page(3, 1), (4, noise(PAGE, 1).into()), page(9, 1)].into();
        let written = store.open().write(INO, GENERATION, &given).expect("write");
        let whole = store.bytes(1);
        let right: Vec<Bytes> = written
            .iter()
            .map(|w| read(&store, &w.stored).expect("read"))
            .collect();
        let segments = store.open_with(VOLUME, 0);
        for (at, byte) in whole.iter().enumerate() {
            store.set_byte(1, at, byte ^ 1 << (at % 8));
            for (block, right) in written.iter().zip(&right) {
                let result = segments.read(&block.stored, INO, GENERATION);
                let inside = block.stored.span().contains(&(at as u64));
                match &result {
                    Ok(bytes) => assert!(bytes == right && !inside, "byte {at}"),
                    Err(_) => assert!(is_damage_of(&result, 1) && inside, "byte {at}: {result:?}"),
                }
            }
            let bodies = written.iter().any(|w| {
                let span = w.stored.span();
                (span.start + HEADER as u64..span.end).contains(&(at as u64))
            });
            // The walk of headers finds all damage outside the bodies of blocks.
            let found = segments.headers(1).any(|block| is_damage_of(&block, 1));
            assert_eq!(found, !bodies, "byte {at}");
            store.set_byte(1, at, *byte);
        }
    }
}

#[test]
fn damage_says_the_file_and_the_byte_of_the_block() {
    let store = Store::new(Compression::None, false);
    let written = store
        .open()
        .write(INO, GENERATION, &pages([1, 5], 1))
        .expect("write");
    let stored = written[1].stored;
    let mut bytes = store.bytes(1);
    bytes[stored.at as usize + 100] ^= 4;
    store.set_bytes(1, &bytes);
    match read(&store, &stored) {
        Err(Error::Corrupt { file, offset, .. }) => {
            assert_eq!(file, PathBuf::from("segments/01/0000000000000001"));
            assert_eq!(offset, u64::from(stored.at));
        }
        other => panic!("{other:?}"),
    }
    assert!(read(&store, &written[0].stored).is_ok());
}

#[test]
fn a_block_that_was_moved_to_another_place_is_damage() {
    for store in every_kind() {
        let segments = store.open();
        let write = |ino, index| {
            let given = [(index, noise(PAGE, 1).into())];
            segments.write(ino, GENERATION, &&given[..]).expect("write")[0].stored
        };
        // The same bytes for another inode, another page and in another segment.
        let (one, other, moved) = (write(INO, 0), write(INO + 1, 0), write(INO, 8));
        let block = |stored: &Stored| {
            let span = stored.span();
            store.bytes(stored.segment)[span.start as usize..span.end as usize].to_vec()
        };
        for from in [other, moved] {
            let mut bytes = store.bytes(one.segment);
            let at = one.span().start as usize;
            bytes[at..at + block(&from).len()].copy_from_slice(&block(&from));
            let before = store.bytes(one.segment);
            store.set_bytes(one.segment, &bytes);
            assert!(is_damage_of(&read(&store, &one), one.segment));
            // A record that was damaged in the same way finds the segment's number against it.
            let forged = Stored {
                segment: one.segment,
                at: one.at,
                ..from
            };
            assert!(is_damage_of(&read(&store, &forged), one.segment));
            store.set_bytes(one.segment, &before);
        }
        assert!(is_damage_of(&read(&store, &other), other.segment));
        assert!(store.open().read_shared(&other).is_ok());
    }
}

#[test]
fn a_segment_cut_anywhere_gives_damage_or_the_same_bytes_and_nothing_past_its_end() {
    for store in every_kind() {
        let written = store
            .open()
            .write(INO, GENERATION, &pages([1, 5], 1))
            .expect("write");
        let whole = store.bytes(1);
        let right: Vec<Bytes> = written
            .iter()
            .map(|w| read(&store, &w.stored).expect("read"))
            .collect();
        let ends = written.iter().map(|w| w.stored.span().end as usize);
        let near = ends
            .flat_map(|end| end - 2..end + 2)
            .chain([63, 64, 65, 127, 128]);
        for len in (0..whole.len())
            .step_by(97)
            .chain(near)
            .chain([whole.len() - 1])
        {
            store.set_bytes(1, &whole[..len]);
            for (block, right) in written.iter().zip(&right) {
                let result = read(&store, &block.stored);
                match &result {
                    Ok(bytes) => assert!(bytes == right && block.stored.span().end <= len as u64),
                    Err(_) => assert!(is_damage_of(&result, 1), "{len}: {result:?}"),
                }
            }
            let segments = store.open_with(VOLUME, 0);
            let is_found = segments.headers(1).any(|block| is_damage_of(&block, 1));
            assert!(is_found, "{len}");
        }
    }
}

#[test]
fn segments_that_are_empty_zero_foreign_or_gone_are_told_apart() {
    let store = Store::new(Compression::Lz4, true);
    let given = pages([1], 1);
    let stored = store.open().write(INO, GENERATION, &given).expect("write")[0].stored;
    let whole = store.bytes(1);
    let says = |text: &str| {
        let segments = store.open_with(VOLUME, 0);
        let results = [
            segments.read(&stored, INO, GENERATION).map(drop),
            segments
                .headers(1)
                .map(|b| b.map(drop))
                .last()
                .expect("one"),
        ];
        for result in results {
            assert!(is_damage_of(&result, 1), "{result:?}");
            let shown = result.expect_err("damage").to_string();
            assert!(shown.contains(text), "{shown}");
        }
    };
    store.set_bytes(1, b"");
    says("ends inside its head");
    store.set_bytes(1, &vec![0; whole.len()]);
    says("all zeros");
    store.set_bytes(1, &noise(whole.len(), 1));
    says("no segment");
    let other = store.open_with([1; 16], 0);
    other.write(INO, GENERATION, &given).expect("write");
    let foreign = store.bytes(2);
    store.set_bytes(1, &foreign);
    says("another volume");
    store.open().write(INO, GENERATION, &given).expect("write");
    let renamed = store.bytes(3);
    store.set_bytes(1, &renamed);
    says("another number");
    std::fs::remove_file(store.path(1)).expect("remove");
    says("missing");
}

#[test]
fn a_block_of_another_volume_or_another_key_does_not_open() {
    for encrypted in [false, true] {
        let mut store = Store::new(Compression::None, encrypted);
        let given = pages([1], 1);
        let stored = store.open().write(INO, GENERATION, &given).expect("write")[0].stored;
        let other = store.open_with([1; 16], 0);
        assert!(is_damage_of(&other.read(&stored, INO, GENERATION), 1));
        store.key = VolumeKey::generate();
        assert_eq!(read(&store, &stored).is_err(), encrypted);
        store.encrypted = !encrypted;
        assert!(is_damage_of(&read(&store, &stored), 1));
    }
}

#[test]
fn a_block_is_refused_to_another_inode_or_generation() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let given = pages([1], 1);
    let stored = segments.write(INO, GENERATION, &given).expect("write")[0].stored;
    assert!(is_damage_of(
        &segments.read(&stored, INO + 1, GENERATION),
        1
    ));
    assert!(is_damage_of(
        &segments.read(&stored, INO, GENERATION + 1),
        1
    ));
    assert!(segments.read(&stored, INO, GENERATION).is_ok());
}

#[test]
fn a_record_that_lies_outside_everything_reads_nothing() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let given = pages([1], 1);
    let good = segments.write(INO, GENERATION, &given).expect("write")[0].stored;
    let bad = [
        Stored {
            at: u32::MAX,
            ..good
        },
        Stored {
            at: good.at + 1,
            ..good
        },
        Stored {
            stored_len: 65_000,
            ..good
        },
        Stored {
            stored_len: 0,
            ..good
        },
        Stored {
            len: 65_536,
            ..good
        },
        Stored {
            within: 4096,
            ..good
        },
        Stored {
            within: u32::MAX,
            ..good
        },
        Stored {
            codec: Codec::Zstd,
            ..good
        },
        Stored {
            digest: [0; 16],
            ..good
        },
    ];
    for stored in bad {
        let result = segments.read(&stored, INO, GENERATION);
        assert!(is_damage_of(&result, 1), "{stored:?}");
        segments.read_run(
            &[good, stored, good],
            INO,
            GENERATION,
            &mut |which, result| {
                assert_eq!(result.is_ok(), *which == good);
            },
        );
    }
    let missing = Stored {
        segment: 99,
        ..good
    };
    assert!(is_damage_of(&segments.read(&missing, INO, GENERATION), 99));
}

#[test]
fn the_walk_steps_over_a_damaged_header_to_the_next_block() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let given: Vec<Page> = [1, 5, 9].map(|at| (at, noise(PAGE, at).into())).into();
    let written = segments.write(INO, GENERATION, &given).expect("write");
    let mut bytes = store.bytes(1);
    bytes[written[1].stored.at as usize] ^= 1;
    store.set_bytes(1, &bytes);
    let found: Vec<_> = segments.headers(1).collect();
    let offsets: Vec<Option<u64>> = found
        .iter()
        .map(|block| block.as_ref().ok().map(|b| b.header.offset))
        .collect();
    assert_eq!(offsets, [Some(4096), None, Some(9 * 4096)]);
}

/// Settings of segments that are neither compressed nor encrypted.
fn plain() -> Settings {
    Settings {
        volume: VOLUME,
        compression: Compression::None,
        cipher: None,
        next: 1,
        kept: 0,
    }
}

/// Once, the walk ended there: what lay behind was lost to a repair.
#[test]
fn the_walk_goes_on_behind_what_the_disk_cannot_read() {
    let disk = SimulatedDisk::new(1);
    disk.make_dir("segments").expect("a folder");
    let segments = Segments::open_on(Arc::new(disk.clone()), plain()).expect("open");
    let given: Vec<Page> = (0..12).map(|at| (2 * at, noise(PAGE, at).into())).collect();
    let written = segments.write(INO, GENERATION, &given).expect("write");
    let name = "segments/01/0000000000000001";
    // The head, the header of a block with the end of the one before, and the trailer.
    let block = u64::from(written[5].stored.at);
    let end = disk.contents()[name].len() as u64;
    for (bytes, lost) in [(0..1, 0..1), (block..block + 1, 4..6), (end - 1..end, 0..0)] {
        let disk = disk.crashed(0);
        disk.make_unreadable(name, bytes);
        let segments = Segments::open_on(Arc::new(disk), plain()).expect("open");
        let found: Vec<_> = segments.headers(1).collect();
        assert_eq!(found.iter().filter(|block| block.is_err()).count(), 1);
        let offsets: BTreeSet<u64> = found.iter().flatten().map(|b| b.header.offset).collect();
        for (at, block) in written.iter().enumerate() {
            let is_found = offsets.contains(&(block.pages.start * PAGE as u64));
            assert!(is_found || lost.contains(&at), "block {at}");
        }
    }
}

/// Bytes that look like headers of blocks of 64 KiB, and have no digest of any.
fn forged(len: usize) -> Vec<u8> {
    let header = BlockHeader {
        codec: Codec::None,
        sealed: false,
        stored_len: BLOCK_MAX as u32,
        len: BLOCK_MAX as u32,
        ino: INO,
        generation: GENERATION,
        offset: 0,
        epoch: 1,
        digest: [7; 16],
    };
    header.encode().into_iter().cycle().take(len).collect()
}

/// Once, the walk hashed 64 KiB for each 64 bytes: 16 GiB for a segment of 16 MiB.
#[test]
fn a_segment_of_forged_headers_is_read_a_bounded_number_of_times() {
    let disk = SimulatedDisk::new(1);
    disk.make_dir("segments").expect("a folder");
    let segments = Segments::open_on(Arc::new(disk.clone()), plain()).expect("open");
    let given: Vec<Page> = [(0, noise(PAGE, 1).into())].into();
    segments.write(INO, GENERATION, &given).expect("write");
    let (name, len) = ("segments/01/0000000000000001", 2 << 20);
    disk.edit(name, |bytes| *bytes = forged(len));
    let before = disk.counts().bytes_read;
    let found: Vec<_> = segments.headers(1).collect();
    assert!(
        found.iter().all(|block| is_damage_of(block, 1)),
        "{found:?}"
    );
    let read = disk.counts().bytes_read - before;
    assert!(
        read <= (256 << 20) + 40 * len as u64,
        "{read} bytes for {len}"
    );
}

#[test]
fn files_of_forged_headers_hide_no_block_behind_a_damaged_header() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let page = |at: u64| (at, forged(PAGE).into());
    let given: Vec<Page> = (0..5 * 16).map(page).collect();
    let written = segments.write(INO, GENERATION, &given).expect("write");
    assert_eq!(written.len(), 5);
    let at = written[2].stored.at as usize;
    store.set_byte(1, at, store.bytes(1)[at] ^ 1);
    let found: Vec<_> = segments.headers(1).flatten().collect();
    for (number, block) in written.iter().enumerate() {
        let is_found = found.iter().any(|found| found.stored == block.stored);
        assert_eq!(is_found, number != 2, "block {number}");
    }
}

#[test]
fn a_wrong_length_in_a_header_and_a_damaged_head_hide_no_other_block() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let given: Vec<Page> = (0..6).map(|at| (2 * at, noise(PAGE, at).into())).collect();
    let written = segments.write(INO, GENERATION, &given).expect("write");
    let whole = store.bytes(1);
    let length = written[1].stored.at as usize + 8;
    // Longer than one block, longer than the segment; the head.
    for (at, bit) in [(length + 1, 0x40), (length + 2, 1), (0, 1), (9, 1), (25, 1)] {
        store.set_byte(1, at, whole[at] ^ bit);
        let found: Vec<_> = segments.headers(1).flatten().collect();
        for (number, block) in written.iter().enumerate() {
            let is_found = found.iter().any(|found| found.stored == block.stored);
            assert_eq!(
                is_found,
                at < HEAD || number != 1,
                "byte {at}, block {number}"
            );
        }
        store.set_byte(1, at, whole[at]);
    }
}
