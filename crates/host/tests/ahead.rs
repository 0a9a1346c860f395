//! Room that was asked for in advance, in files that have other holes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use hearth::{LimitChange, LimitUpdate, QuotaId, ROOT, SetAttr, Vfs, WriteAt};
use served::{CALLER, Served, directories};
use std::fs;
use std::os::unix::fs::MetadataExt;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// Once, it counted as a hole where the file had fewer blocks than its size needs: a program that
/// had asked for all it would write was refused.
#[test]
fn what_was_allocated_ahead_in_a_sparse_file_is_written_at_the_limit() {
    let (_place, source, state) = directories("ahead");
    let served = Served::of(&source, &state);
    let file = served.make(ROOT, b"f");
    let sparse = SetAttr {
        size: Some(64 * MIB),
        ..SetAttr::default()
    };
    let ino = served.vfs.lookup(&CALLER, ROOT, b"f").unwrap().ino;
    served.vfs.setattr(&CALLER, ino, None, &sparse).unwrap();
    let at = 32 * MIB;
    let asked = served.vfs.fallocate(&CALLER, &file, 0, at, MIB);
    asked.unwrap();
    let behind = libc::FALLOC_FL_KEEP_SIZE;
    let asked = served
        .vfs
        .fallocate(&CALLER, &file, behind, 64 * MIB, 4 * BLOCK);
    asked.unwrap();
    let used = served.used();
    let change = LimitChange {
        bytes_hard: LimitUpdate::To(used[0]),
        inodes_hard: LimitUpdate::To(1000),
        ..LimitChange::default()
    };
    served.volume.quota().set(QuotaId::VOLUME, &change).unwrap();
    let write = |at: u64, blocks: u64| {
        let data = vec![1; (blocks * BLOCK) as usize];
        let place = WriteAt::At(at);
        let done = served.vfs.write(&CALLER, &file, place, &data, false);
        done.map(|bytes| bytes as u64 / BLOCK)
    };
    let last = at + MIB - BLOCK;
    assert_eq!(write(at, 16).unwrap(), 16);
    assert_eq!(write(last, 2).unwrap(), 1, "as far as it was asked for");
    write(at - BLOCK, 2).unwrap_err();
    assert_eq!(write(at + 20 * BLOCK, 8).unwrap(), 8);
    assert_eq!(write(64 * MIB, 8).unwrap(), 4, "behind the end");
    assert_eq!(served.used(), used);
    let allocated = fs::metadata(source.join("f")).unwrap().blocks() * 512;
    assert!(allocated <= used[0] + BLOCK, "{allocated} of {}", used[0]);
}
