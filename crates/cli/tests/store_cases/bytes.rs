//! Bytes, sizes and attributes after a crash.

use crate::case::{Case, FAILURES, Failure};
use crate::harness::Random;
use hearth_testing::threads::SetOnDrop;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;

/// A record that says which it is.
fn record(number: u64) -> Vec<u8> {
    let mut record = number.to_le_bytes().to_vec();
    record.extend(Random(number ^ 0x5eed).bytes(PAGE - 8));
    record
}

/// SR9: sizes were durable and data was not, and a lost range reads as a hole.
#[test]
fn sr9_every_byte_inside_the_size_is_one_that_was_written() {
    let mut random = Random(crate::harness::seed());
    let rounds = std::env::var("HEARTH_ROUNDS").map_or(6, |n| n.parse().unwrap());
    for round in 0..rounds {
        let mut c = Case::new();
        let end = AtomicBool::new(false);
        let path = c.at("records");
        std::thread::scope(|scope| {
            let _end = SetOnDrop(&end);
            scope.spawn(|| {
                // It goes on until the disk is gone.
                let _ = append(&path, &end);
            });
            for n in 0..1 + random.below(6) {
                let name = format!("n{n}");
                c.put(&name, "x");
                c.sync(&name);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        c.fail([Failure::Cut, Failure::Torn, Failure::Kill][round % 3]);
        if !c.exists("records") {
            continue;
        }
        let bytes = c.read("records");
        for (n, chunk) in bytes.chunks(PAGE).enumerate() {
            let want = record(n as u64);
            assert!(
                chunk == &want[..chunk.len()],
                "round {round}: record {n} is another"
            );
        }
    }
}

fn append(path: &Path, end: &AtomicBool) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    for n in 0..20_000 {
        // Relaxed: a flag by itself.
        if end.load(Ordering::Relaxed) {
            break;
        }
        file.write_all(&record(n))?;
    }
    Ok(())
}

/// SR9: overwrites in place.
#[test]
fn sr9_a_page_that_is_overwritten_is_old_or_new() {
    for failure in FAILURES {
        let mut c = Case::new();
        c.put("f", vec![1; 64 * PAGE]);
        c.sync("f");
        c.sync(".");
        let file = File::options().write(true).open(c.at("f")).unwrap();
        for n in (0..64).step_by(3) {
            file.write_all_at(&[2; PAGE], n * PAGE as u64).unwrap();
        }
        drop(file);
        c.put("n", "x");
        c.sync("n");
        c.fail(failure);
        let bytes = c.read("f");
        assert_eq!(bytes.len(), 64 * PAGE);
        for (n, page) in bytes.chunks(PAGE).enumerate() {
            let is_whole = page.iter().all(|byte| *byte == page[0]);
            assert!(
                is_whole && (page[0] == 1 || page[0] == 2 && n % 3 == 0),
                "page {n}"
            );
        }
    }
}

/// SR10: editors that replace a file without a sync, and a neighbour's sync that commits the names.
#[test]
fn sr10_a_file_that_is_replaced_is_old_or_whole_and_new() {
    let (old, new) = (vec![1; MIB], vec![2; MIB]);
    for failure in [Failure::Cut, Failure::Torn, Failure::Kill] {
        for _ in 0..4 {
            let mut c = Case::new();
            c.put("foo", &old);
            c.sync("foo");
            c.put("tmp", &new);
            c.rename("tmp", "foo");
            c.put("n", "x");
            c.sync("n");
            c.fail(failure);
            let found = c.read("foo");
            assert!(
                found == old || found == new,
                "{failure:?}: {} bytes",
                found.len()
            );

            c.put("foo", &old);
            c.sync("foo");
            c.rename("foo", "foo~");
            c.put("foo", &new);
            c.unlink("foo~");
            c.put("n", "y");
            c.sync("n");
            c.fail(failure);
            let foo = c.exists("foo").then(|| c.read("foo"));
            let backup = c.exists("foo~").then(|| c.read("foo~"));
            // As on ext4, and in `docs/semantics.md`: `foo` may be a beginning of the new one, and
            // never anything else.
            let is_right = |foo: &Vec<u8>| *foo == old || new.starts_with(foo);
            assert!(
                foo.as_ref().is_some_and(is_right) || backup == Some(old.clone()),
                "{failure:?}"
            );
        }
    }
}

/// SR10: a file that is cut to nothing and written again.
#[test]
fn sr10_a_file_that_is_truncated_and_rewritten_is_old_or_new_or_empty() {
    let (old, new) = (vec![1; MIB], vec![2; MIB]);
    let mut c = Case::new();
    c.put("foo", &old);
    c.sync("foo");
    c.put("foo", &new);
    c.put("n", "x");
    c.sync("n");
    c.cut();
    let found = c.read("foo");
    let is_prefix = found.iter().all(|byte| *byte == 2) && found.len() <= MIB;
    assert!(found == old || is_prefix, "{} bytes", found.len());
}

/// SR11: ranges that were allocated, zeroed or punched were lost, or the size grew.
#[test]
fn sr11_ranges_that_were_changed_and_synced_are_as_they_were() {
    let keep = FallocateFlags::KEEP_SIZE;
    let changes: [(FallocateFlags, u64, u64); 5] = [
        (keep, 16 << 10, 4 << 10),
        (FallocateFlags::ZERO_RANGE | keep, 16 << 10, 4 << 10),
        (FallocateFlags::PUNCH_HOLE | keep, 4_000, 200),
        (FallocateFlags::COLLAPSE_RANGE, 4_096, 4_096),
        (FallocateFlags::INSERT_RANGE, 4_096, 4_096),
    ];
    for (flags, at, length) in changes {
        let mut c = Case::new();
        c.put(
            "f",
            (0..16 << 10).map(|n| (n % 251) as u8).collect::<Vec<u8>>(),
        );
        c.sync("f");
        let file = File::options().write(true).open(c.at("f")).unwrap();
        match fallocate(&file, flags, at, length) {
            Err(rustix::io::Errno::OPNOTSUPP) => continue,
            done => done.unwrap(),
        }
        file.sync_data().unwrap();
        drop(file);
        let seen = |c: &Case| {
            let found = fs::metadata(c.at("f")).unwrap();
            (found.size(), found.blocks(), c.read("f"))
        };
        let before = seen(&c);
        c.cut();
        let after = seen(&c);
        assert_eq!(
            (before.0, before.1),
            (after.0, after.1),
            "size and blocks, {flags:?}"
        );
        assert!(before.2 == after.2, "bytes, {flags:?}");
        if flags.contains(FallocateFlags::PUNCH_HOLE) {
            assert!(after.2[4_000..4_200].iter().all(|byte| *byte == 0));
        }
    }
}

/// SR13: what was cut off came back, or sizes that no call had set.
#[test]
fn sr13_what_was_cut_off_is_zeros_when_the_file_grows_again() {
    for failure in FAILURES {
        for cut in [0, 1, 4, 4_095, 4_096, 4_097] {
            let mut c = Case::new();
            c.put("f", vec![b'A'; 8_192]);
            c.sync("f");
            let file = File::options().write(true).open(c.at("f")).unwrap();
            file.set_len(cut).unwrap();
            drop(file);
            c.fail(failure);
            let size = fs::metadata(c.at("f")).unwrap().size();
            assert!(
                size == cut || size == 8_192,
                "{failure:?}, cut to {cut}: {size}"
            );
            let file = File::options().write(true).open(c.at("f")).unwrap();
            file.set_len(cut).unwrap();
            file.set_len(8_192).unwrap();
            file.sync_all().unwrap();
            drop(file);
            c.fail(failure);
            let bytes = c.read("f");
            assert_eq!(bytes.len(), 8_192);
            let (kept, rest) = bytes.split_at(cut as usize);
            assert!(kept.iter().all(|byte| *byte == b'A'), "{failure:?}, {cut}");
            assert!(
                rest.iter().all(|byte| *byte == 0),
                "{failure:?}, {cut}: old bytes"
            );
        }
    }
}

/// SR13: dirty pages over what is cut, and a file that was emptied when it was opened.
#[test]
fn sr13_a_file_that_was_emptied_holds_nothing_of_its_past() {
    for failure in FAILURES {
        let mut c = Case::new();
        c.put("f", vec![b'A'; 200 << 10]);
        c.sync("f");
        let file = File::create(c.at("f")).unwrap();
        file.write_all_at(b"new", 100_000).unwrap();
        file.sync_all().unwrap();
        drop(file);
        c.fail(failure);
        let bytes = c.read("f");
        assert_eq!(bytes.len(), 100_003);
        assert!(
            bytes[..100_000].iter().all(|byte| *byte == 0),
            "{failure:?}"
        );
    }
}
