use super::*;

#[test]
fn pages_come_back_with_every_codec_and_cipher() {
    for store in every_kind() {
        let segments = store.open();
        let given = pages((0..40).chain(50..51).chain([100, 101, u64::MAX >> 12]), 1);
        let written = segments.write(INO, GENERATION, &given).expect("write");
        let expected: Vec<_> = vec![
            0..16,
            16..32,
            32..40,
            50..51,
            100..102,
            (u64::MAX >> 12)..(u64::MAX >> 12) + 1,
        ];
        let ranges: Vec<_> = written.iter().map(|w| w.pages.clone()).collect();
        assert_eq!(ranges, expected);
        assert_eq!(read_back(&segments, &written), given);
        // Another life reads the same, and what a record carries is enough.
        let again = store.open();
        let carried: Vec<Written> = written
            .iter()
            .map(|w| Written {
                pages: w.pages.clone(),
                stored: Stored::decode(&w.stored.encode()).expect("decode"),
            })
            .collect();
        assert_eq!(carried, written);
        assert_eq!(read_back(&again, &carried), given);
    }
}

#[test]
fn a_large_write_streams_as_several_segments_and_reads_back_in_runs() {
    for store in every_kind() {
        let segments = store.open();
        let given: Vec<Page> = (0..20_000)
            .map(|index| match index % 3 {
                0 => (index, noise(PAGE, index).into()),
                _ => page(index, 2),
            })
            .collect();
        let written = segments.write(INO, GENERATION, &given).expect("write");
        assert_eq!(segments.list().expect("list"), [1, 2, 3]);
        let blocks: Vec<Stored> = written.iter().map(|w| w.stored).collect();
        let mut found = Vec::new();
        segments.read_run(&blocks, INO, GENERATION, &mut |_, bytes| {
            let bytes = bytes.expect("read");
            for page in bytes.chunks(PAGE) {
                found.push((found.len() as u64, page.into()));
            }
        });
        assert!(found == given);
        let starts: Vec<u64> = written.iter().map(|w| w.pages.start).collect();
        assert!(starts.is_sorted());
        let checked: Vec<_> = segments.headers(2).collect();
        assert!(checked.iter().all(|block| block.is_ok()));
    }
}

#[test]
fn a_short_page_is_filled_up_with_zeros_and_no_pages_are_no_segment() {
    let store = Store::new(Compression::Lz4, true);
    let segments = store.open();
    assert_eq!(
        segments.write(INO, GENERATION, &Vec::new()).expect("write"),
        []
    );
    assert_eq!(segments.list().expect("list"), [] as [u64; 0]);
    let given = vec![(4, b"abc"[..].into()), (5, b""[..].into())];
    let written = segments.write(INO, GENERATION, &given).expect("write");
    let mut expected = vec![0; 2 * PAGE];
    expected[..3].copy_from_slice(b"abc");
    let stored = written[0].stored;
    let read = segments.read(&stored, INO, GENERATION).expect("read");
    assert!(read == expected);
}

#[test]
fn a_part_of_a_block_is_read_from_where_it_begins_to_the_end_of_the_block() {
    let store = Store::new(Compression::Zstd(3), false);
    let segments = store.open();
    let given = pages(0..16, 5);
    let stored = segments.write(INO, GENERATION, &given).expect("write")[0].stored;
    for index in 0..16 {
        let part = stored.from(index * 4096).expect("inside");
        assert_eq!(Stored::decode(&part.encode()), Some(part));
        let read = segments.read(&part, INO, GENERATION).expect("read");
        assert_eq!(read.len(), (16 - index as usize) * PAGE);
        assert_eq!(read[..PAGE], given[index as usize].1[..]);
    }
    assert_eq!(stored.from(16 * 4096), None);
    assert_eq!(stored.from(u32::MAX), None);
}

#[test]
fn noise_grows_by_at_most_a_hundredth() {
    for store in every_kind() {
        let segments = store.open();
        let given: Vec<Page> = (0..2048).map(|at| (at, noise(PAGE, at).into())).collect();
        let written = segments.write(INO, GENERATION, &given).expect("write");
        let len = segments.len_of(1).expect("length");
        let plain = 2048 * 4096;
        assert!(len <= plain + plain / 100, "{len} bytes");
        assert!(written.iter().all(|w| w.stored.codec == Codec::None));
        assert!(read_back(&segments, &written) == given);
    }
}

#[test]
fn what_packs_well_takes_less_room() {
    for compression in [Compression::Lz4, Compression::Zstd(3)] {
        let store = Store::new(compression, true);
        let segments = store.open();
        segments
            .write(INO, GENERATION, &pages(0..512, 1))
            .expect("write");
        assert!(segments.len_of(1).expect("length") < (512 * 4096) / 4);
    }
}

#[test]
fn volumes_written_with_another_codec_stay_readable() {
    let mut store = Store::new(Compression::Lz4, false);
    let given = pages(0..10, 1);
    let written = store.open().write(INO, GENERATION, &given).expect("write");
    store.compression = Compression::Zstd(9);
    assert_eq!(read_back(&store.open(), &written), given);
}

#[test]
fn the_bytes_of_a_record_that_no_write_gives_are_refused() {
    let good = Stored {
        segment: 1,
        at: 64,
        stored_len: 4096,
        len: 4096,
        within: 0,
        codec: Codec::None,
        digest: [1; 16],
    };
    assert_eq!(Stored::decode(&good.encode()), Some(good));
    let bad = [
        Stored { at: 63, ..good },
        Stored {
            within: 4096,
            ..good
        },
        Stored { len: 65537, ..good },
        Stored {
            stored_len: 70_000,
            ..good
        },
    ];
    for stored in bad {
        assert_eq!(Stored::decode(&stored.encode()), None);
    }
    assert_eq!(Stored::decode(&good.encode()[..40]), None);
    let mut codec = good.encode();
    codec[24] = 4;
    assert_eq!(Stored::decode(&codec), None);
}
