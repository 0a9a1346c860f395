//! Room that was asked for in advance, in files that have other holes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use hearth::{
    Caller, Errno, FsXAttr, LimitChange, LimitUpdate, QuotaId, ROOT, SetAttr, Vfs, VfsError,
    WriteAt,
};
use hearth_host::HostFile;
use hearth_testing::place::Place;
use served::{CALLER, Served, directories};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// Limits all of the volume.
fn limit(served: &Served, bytes: u64) {
    let change = LimitChange {
        bytes_hard: LimitUpdate::To(bytes),
        inodes_hard: LimitUpdate::To(1000),
        ..LimitChange::default()
    };
    let quota = served.volume.quota();
    quota.set(QuotaId::VOLUME, &change).unwrap();
}

/// Writes at an offset; returns how much.
fn write(served: &Served, file: &HostFile, at: u64, bytes: u64) -> Result<u64, VfsError> {
    let data = vec![1; bytes as usize];
    let done = served
        .vfs
        .write(&CALLER, file, WriteAt::At(at), &data, false);
    done.map(|bytes| bytes as u64)
}

/// An XFS with blocks of this size in a directory; false if this kernel has none of that size.
fn xfs(place: &Place, at: &Path, block: &str) -> bool {
    let disk = place.path().join("disk");
    File::create(&disk).unwrap().set_len(320 << 20).unwrap();
    let size = format!("size={block}");
    let mut mkfs = Command::new("mkfs.xfs");
    let made = mkfs.args(["-q", "-f", "-b", &size]).arg(&disk).status();
    assert!(made.unwrap().success());
    let mut mount = Command::new("mount");
    let mounted = mount.args(["-o", "loop"]).arg(&disk).arg(at).status();
    mounted.unwrap().success()
}

/// Once, files were charged by their size in blocks of 4 KiB: of small ones four times the limit
/// was allocated.
#[test]
fn larger_blocks_of_xfs_are_charged_whole() {
    let (place, source, state) = directories("larger");
    // Blocks above the size of a page came with Linux 6.12.
    if !xfs(&place, &source, "16384") {
        return;
    }
    let served = Served::of(&source, &state);
    limit(&served, 4 * 16384);
    let files: Vec<_> = (0..5)
        .map(|n| served.make(ROOT, format!("{n}").as_bytes()))
        .collect();
    for file in &files[..4] {
        assert_eq!(write(&served, file, 0, 100).unwrap(), 100);
    }
    write(&served, &files[4], 0, 100).unwrap_err();
    assert_eq!(write(&served, &files[0], 100, 20_000).unwrap(), 16_284);
    assert_eq!(served.used()[0], 4 * 16384);
    let blocks = (0..5).map(|n| fs::metadata(source.join(format!("{n}"))).unwrap().blocks());
    assert_eq!(blocks.sum::<u64>() * 512, 4 * 16384);
    let set = SetAttr {
        size: Some(MIB),
        ..SetAttr::default()
    };
    let ino = served.vfs.lookup(&CALLER, ROOT, b"0").unwrap().ino;
    served.vfs.setattr(&CALLER, ino, None, &set).unwrap();
    write(&served, &files[0], MIB / 2 + 5000, 1).unwrap_err();
    for file in &files {
        served.vfs.release(file, None);
    }
}

/// Once, each file of a tmpfs with huge pages could pass a limit by the rest of one.
#[test]
fn huge_pages_of_tmpfs_are_reserved_whole() {
    let (_place, source, state) = directories("huge");
    let mut mount = Command::new("mount");
    let tmpfs = ["-t", "tmpfs", "-o", "huge=always,size=64m", "tmpfs"];
    // Not every kernel has them.
    if !mount.args(tmpfs).arg(&source).status().unwrap().success() {
        return;
    }
    let served = Served::of(&source, &state);
    limit(&served, 3 * MIB);
    let (first, second) = (served.make(ROOT, b"1"), served.make(ROOT, b"2"));
    assert_eq!(write(&served, &first, 0, BLOCK).unwrap(), BLOCK);
    assert_eq!(write(&served, &first, BLOCK, 4 * BLOCK).unwrap(), 4 * BLOCK);
    let _ = write(&served, &second, 0, BLOCK);
    let volume = served.volume.quota().get(QuotaId::VOLUME).unwrap();
    assert!(volume.bytes.used <= 3 * MIB, "{}", volume.bytes.used);
    for file in [first, second] {
        served.vfs.release(&file, None);
    }
}

/// Once, they were taken for what XFS allocates ahead, or for a directory's own blocks: attributes
/// had any room.
#[test]
fn attributes_of_xfs_are_charged() {
    let (place, source, state) = directories("values");
    assert!(xfs(&place, &source, "4096"));
    let served = Served::of(&source, &state);
    let file = served.make(ROOT, b"f");
    write(&served, &file, 0, 100).unwrap();
    served.vfs.mkdir(&CALLER, ROOT, b"d", 0o755).unwrap();
    limit(&served, MIB);
    let value = vec![1; 65536];
    for name in ["f", "d"] {
        let ino = served
            .vfs
            .lookup(&CALLER, ROOT, name.as_bytes())
            .unwrap()
            .ino;
        let set = |n: u64| {
            let name = format!("user.{n}");
            let done = served
                .vfs
                .setxattr(&CALLER, ino, name.as_bytes(), &value, 0, false);
            done.is_ok()
        };
        let fitting = (0..32).take_while(|n| set(*n)).count();
        assert!((14..16).contains(&fitting), "{name}: {fitting}");
        let volume = served.volume.quota().get(QuotaId::VOLUME).unwrap();
        assert!(volume.bytes.used <= MIB, "{name}: {}", volume.bytes.used);
        let found = served.volume.quota().check().unwrap();
        assert!(found.differences.is_empty(), "{:?}", found.differences);
        for n in 0..fitting {
            let name = format!("user.{n}");
            let done = served.vfs.removexattr(&CALLER, ino, name.as_bytes());
            done.unwrap();
        }
    }
    let volume = served.volume.quota().get(QuotaId::VOLUME).unwrap();
    assert!(volume.bytes.used <= 5 * BLOCK, "{}", volume.bytes.used);
    served.vfs.release(&file, None);
}

/// Once, a write into a sparse file allocated as much as its owner liked, whatever the limit.
#[test]
fn what_a_hint_of_xfs_allocates_is_reserved_and_only_who_manages_the_volume_sets_one() {
    let (place, source, state) = directories("hint");
    assert!(xfs(&place, &source, "4096"));
    let served = Served::of(&source, &state);
    let file = served.make(ROOT, b"f");
    let set = SetAttr {
        size: Some(256 * MIB),
        uid: Some(1234),
        ..SetAttr::default()
    };
    let ino = served.vfs.lookup(&CALLER, ROOT, b"f").unwrap().ino;
    served.vfs.setattr(&CALLER, ino, None, &set).unwrap();
    let hint = |caller: &Caller<'_>, xflags, extsize, cowextsize| {
        let new = FsXAttr {
            xflags,
            extsize,
            cowextsize,
            ..FsXAttr::default()
        };
        served.vfs.set_fsxattr(caller, ino, &new)
    };
    let owner = Caller {
        uid: 1234,
        gid: 1234,
        ..CALLER
    };
    for (xflags, extsize, cowextsize) in [(0x800, 16 << 20, 0), (0x1_0000, 0, 16 << 20)] {
        let refused = hint(&owner, xflags, extsize, cowextsize);
        assert!(matches!(refused, Err(VfsError::Errno(Errno::EPERM))));
    }
    hint(&CALLER, 0x800, 16 << 20, 0).unwrap();
    let used = || {
        let volume = served.volume.quota().get(QuotaId::VOLUME).unwrap();
        volume.bytes.used
    };
    limit(&served, 8 * MIB);
    write(&served, &file, 20 * MIB, 1).unwrap_err();
    assert_eq!(used(), 0);
    limit(&served, 16 * MIB);
    assert_eq!(write(&served, &file, 20 * MIB, 1).unwrap(), 1);
    assert_eq!(used(), 16 * MIB);
    assert_eq!(write(&served, &file, 30 * MIB, BLOCK).unwrap(), BLOCK);
    write(&served, &file, 50 * MIB, 1).unwrap_err();
    served.vfs.release(&file, None);
}

/// Once, a file that had as many blocks as its size needs, one of them with attributes, was taken
/// for one without holes: twice the limit was written.
#[test]
fn a_block_of_attributes_hides_no_hole() {
    let (_place, source, state) = directories("attributes");
    let served = Served::of(&source, &state);
    let value = vec![1; 3000];
    let made = |n: u64, size: u64| {
        let name = format!("f{n}");
        let file = served.make(ROOT, name.as_bytes());
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        let ino = served
            .vfs
            .lookup(&CALLER, ROOT, name.as_bytes())
            .unwrap()
            .ino;
        served.vfs.setattr(&CALLER, ino, None, &set).unwrap();
        let done = served
            .vfs
            .setxattr(&CALLER, ino, b"user.a", &value, 0, false);
        done.unwrap();
        file
    };
    let (filled, grown) = (made(0, BLOCK), made(1, 100));
    limit(&served, served.used()[0]);
    write(&served, &filled, 0, BLOCK).unwrap_err();
    write(&served, &grown, 100, 100).unwrap_err();
    for file in [filled, grown] {
        served.vfs.release(&file, None);
    }
}

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
