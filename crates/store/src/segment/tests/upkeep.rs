use super::*;

#[test]
fn opening_sweeps_uploads_and_segments_without_a_record_and_leaves_what_is_strange() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    for index in 0..3 {
        segments
            .write(INO, GENERATION, &pages([index], 1))
            .expect("write");
    }
    for folder in ["segments/00", "segments/2c"] {
        std::fs::create_dir(store.dir.path().join(folder)).expect("a folder");
    }
    let upload = PathBuf::from(format!("{}#1", store.path(300).display()));
    std::fs::write(&upload, b"half of it").expect("write");
    let strange = store.dir.path().join("segments/00/notes");
    std::fs::write(&strange, b"mine").expect("write");
    let misplaced = store.dir.path().join("segments/00/0000000000000001");
    std::fs::write(&misplaced, b"elsewhere").expect("write");
    let swept = segments.sweep(&|number| number == 2).expect("sweep");
    assert_eq!((swept.uploads, &swept.segments[..]), (1, &[1, 3][..]));
    let mut left = swept.strange;
    left.sort();
    assert_eq!(left, [misplaced.clone(), strange.clone()]);
    assert!(!upload.exists() && strange.exists() && misplaced.exists());
    assert_eq!(segments.list().expect("list"), [2]);
    segments.delete(1).expect("one that is gone is no error");
}

#[test]
fn numbers_go_on_behind_the_records_and_the_files() {
    let store = Store::new(Compression::None, false);
    let write = |segments: &Segments| {
        segments
            .write(INO, GENERATION, &pages([1], 1))
            .expect("write")[0]
            .stored
            .segment
    };
    let first = store.open();
    assert_eq!((first.next(), write(&first), write(&first)), (1, 1, 2));
    assert_eq!(first.next(), 3);
    // The record of the number was lost: `next` is 1 again, and the file says more.
    assert_eq!(write(&store.open()), 3);
    let cipher = None;
    let settings = Settings {
        volume: VOLUME,
        compression: Compression::None,
        cipher,
        next: 1000,
        kept: 0,
    };
    let later = Segments::open(store.dir.path(), settings).expect("open");
    assert_eq!(write(&later), 1000);
}

#[test]
fn a_write_leaves_one_file_that_is_a_whole_segment_and_no_other() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    segments.set_epoch(12);
    segments
        .write(INO, GENERATION, &pages(0..2000, 1))
        .expect("write");
    let found = segments.files.walk().expect("walk");
    assert_eq!(found.segments, [1]);
    assert!(found.uploads.is_empty() && found.strange.is_empty());
    let blocks: Vec<SurveyedBlock> = segments.headers(1).map(|b| b.expect("block")).collect();
    assert_eq!(blocks.len(), 125);
    assert!(blocks.iter().all(|b| b.header.epoch == 12));
}

#[test]
fn a_failed_write_is_told_to_all_and_leaves_nothing() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    std::fs::remove_dir_all(store.dir.path().join("segments")).expect("remove");
    std::fs::write(store.dir.path().join("segments"), b"no folder").expect("write");
    for count in [1, 2000] {
        let failed = segments.write(INO, GENERATION, &pages(0..count, 1));
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    }
    std::fs::remove_file(store.dir.path().join("segments")).expect("remove");
    std::fs::create_dir(store.dir.path().join("segments")).expect("a folder");
    // Folders in it that are not there are made.
    let written = segments
        .write(INO, GENERATION, &pages([1], 1))
        .expect("write");
    assert_eq!(read_back(&segments, &written), pages([1], 1));
}

#[test]
fn headers_are_enough_to_find_every_block_again() {
    for store in every_kind() {
        let segments = store.open();
        let written = segments
            .write(INO, GENERATION, &pages([1, 2, 7], 1))
            .expect("write");
        let blocks: Vec<SurveyedBlock> = segments.headers(1).map(|b| b.expect("block")).collect();
        assert_eq!(blocks.len(), written.len());
        for (block, written) in blocks.iter().zip(&written) {
            assert_eq!(block.stored, written.stored);
            assert_eq!(
                (block.header.ino, block.header.generation),
                (INO, GENERATION)
            );
            assert_eq!(block.header.offset, written.pages.start * 4096);
        }
    }
}

#[test]
fn live_blocks_move_to_a_new_segment_with_all_they_are() {
    for store in every_kind() {
        let segments = store.open();
        segments.set_epoch(5);
        let first = segments
            .write(INO, GENERATION, &pages(0..40, 1))
            .expect("write");
        let second = segments
            .write(INO, GENERATION, &pages([90], 1))
            .expect("write");
        segments.set_epoch(9);
        let live = [
            first[1].stored,
            second[0].stored,
            first[2].stored.from(4096).expect("inside"),
            first[1].stored.from(8192).expect("inside"),
        ];
        let moved = segments.rewrite(&live).expect("rewrite");
        let moved: Vec<Stored> = moved.into_iter().map(|m| m.expect("moved")).collect();
        assert!(moved.iter().all(|stored| stored.segment == 3));
        assert_eq!(moved[0].at, moved[3].at);
        let fresh = store.open();
        for (old, new) in live.iter().zip(&moved) {
            let before = segments.read(old, INO, GENERATION).expect("read");
            assert_eq!(before, fresh.read(new, INO, GENERATION).expect("read"));
        }
        let blocks: Vec<SurveyedBlock> = fresh.headers(3).map(|b| b.expect("block")).collect();
        assert_eq!(blocks.len(), 3);
        assert!(blocks.iter().all(|b| b.header.epoch == 5));
    }
}

#[test]
fn a_damaged_block_stays_behind_and_the_others_move() {
    let store = Store::new(Compression::None, false);
    let segments = store.open();
    let written = segments
        .write(INO, GENERATION, &pages([1, 5, 9], 1))
        .expect("write");
    let live: Vec<Stored> = written.iter().map(|w| w.stored).collect();
    let mut bytes = store.bytes(1);
    bytes[live[1].at as usize + 1000] ^= 1;
    store.set_bytes(1, &bytes);
    let moved = segments.rewrite(&live).expect("rewrite");
    assert_eq!(moved.len(), 3);
    assert!(moved[0].is_ok() && is_damage_of(&moved[1], 1) && moved[2].is_ok());
    assert!(segments.rewrite(&[]).expect("rewrite").is_empty());
}
