//! What ext4 and XFS allocate whole, or beside the data: clusters, values of attributes, ACLs that
//! are inherited.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use hearth::{Kind, LimitChange, LimitUpdate, QuotaId, ROOT, Vfs, WriteAt};
use served::{CALLER, Served, directories};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const LIMIT: u64 = 1 << 20;

/// A filesystem in `source`, unmounted at the end.
struct Disk<'a>(&'a Path);

impl Disk<'_> {
    fn made<'a>(at: &Path, source: &'a Path, mkfs: &[&str]) -> Disk<'a> {
        Disk::mounted((at, "loop"), source, mkfs)
    }

    fn mounted<'a>((at, how): (&Path, &str), source: &'a Path, mkfs: &[&str]) -> Disk<'a> {
        File::create(at).unwrap().set_len(320 << 20).unwrap();
        succeed(Command::new(mkfs[0]).args(&mkfs[1..]).arg(at));
        succeed(Command::new("mount").args(["-o", how]).args([at, source]));
        Disk(source)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn succeed(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Limits all of the volume.
fn limit(served: &Served, bytes: u64) {
    let change = LimitChange {
        bytes_hard: LimitUpdate::To(bytes),
        inodes_hard: LimitUpdate::To(10_000),
        ..LimitChange::default()
    };
    served.volume.quota().set(QuotaId::VOLUME, &change).unwrap();
}

/// Makes files without a byte in a directory until one is refused. Their number, and what is
/// allocated there then.
fn made_until_refused(served: &Served, (parent, below): (u64, &Path)) -> (u64, u64) {
    let open = libc::O_CREAT | libc::O_RDWR;
    for made in 0..=LIMIT / 4096 {
        let name = format!("f{made}").into_bytes();
        match served.vfs.create(&CALLER, parent, &name, 0o644, open) {
            Ok((_, file)) => served.vfs.release(&file, None),
            Err(_) => return (made, allocated(below)),
        }
    }
    panic!("no file was refused in {below:?}");
}

/// What files in a directory and below have allocated.
fn allocated(directory: &Path) -> u64 {
    let of = |entry: fs::DirEntry| match entry.metadata().unwrap() {
        found if found.is_dir() => allocated(&entry.path()),
        found => found.blocks() * 512,
    };
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| of(entry.unwrap())).sum()
}

/// Once, one block was reserved of what ext4 takes whole: each writer passed the limit by a
/// cluster but for one block.
#[test]
fn clusters_of_ext4_are_reserved_whole() {
    let (place, source, state) = directories("clusters");
    let ext4 = [
        "mkfs.ext4",
        "-q",
        "-F",
        "-O",
        "bigalloc",
        "-C",
        "65536",
        "-b",
        "4096",
    ];
    let disk = Disk::made(&place.path().join("disk"), &source, &ext4);
    let served = Served::of(&source, &state);
    limit(&served, LIMIT);
    let write = |file: &_, at: u64, bytes: usize| {
        let data = vec![1; bytes];
        let place = WriteAt::At(at);
        served.vfs.write(&CALLER, file, place, &data, false)
    };
    // One block short of a cluster.
    let small = served.make(ROOT, b"small");
    let of_attribute = served.vfs.setxattr(
        &CALLER,
        served.vfs.lookup(&CALLER, ROOT, b"small").unwrap().ino,
        b"user.a",
        &[1; 2000],
        0,
        false,
    );
    of_attribute.unwrap();
    let sparse = served.make(ROOT, b"sparse");
    let mut clusters = 0;
    while write(&sparse, clusters << 20, 1).is_ok() {
        clusters += 1;
        assert!(allocated(&source) <= LIMIT, "{clusters} clusters");
    }
    assert_eq!(allocated(&source), LIMIT, "{clusters} clusters");
    // What a cluster has is written at the limit, and nothing beyond it.
    assert_eq!(write(&sparse, 4096, 4096).unwrap(), 4096);
    assert_eq!(write(&sparse, 40_000, 100_000).unwrap(), 65_536 - 40_000);
    write(&sparse, 1 << 16, 1).unwrap_err();
    write(&small, 0, 1).unwrap_err();
    assert_eq!(allocated(&source), LIMIT);
    served.vfs.release(&sparse, None);
    served.vfs.release(&small, None);
    let sparse = served.vfs.lookup(&CALLER, ROOT, b"sparse").unwrap().ino;
    served.vfs.unlink(&CALLER, ROOT, b"sparse").unwrap();
    served.vfs.forget(sparse, 2);
    // Appended to by blocks: all of the rest can be had.
    let grows = served.make(ROOT, b"grows");
    let mut at = 0;
    while write(&grows, at, 4096).is_ok() {
        at += 4096;
    }
    assert_eq!(at, LIMIT - (1 << 16));
    served.vfs.release(&grows, None);
    let found = served.volume.quota().check().unwrap();
    assert!(found.differences.is_empty(), "{:?}", found.differences);
    drop((served, disk));
}

/// Once, a block was reserved for a value of any length.
#[test]
fn long_values_of_attributes_of_ext4_are_reserved_whole() {
    let (place, source, state) = directories("values");
    let ext4 = ["mkfs.ext4", "-q", "-F", "-O", "ea_inode", "-b", "4096"];
    let disk = Disk::made(&place.path().join("disk"), &source, &ext4);
    let served = Served::of(&source, &state);
    limit(&served, LIMIT);
    let mut values = 0;
    for file in 0..8_u8 {
        let name = [b'f', b'0' + file];
        let made = served.make(ROOT, &name);
        served.vfs.release(&made, None);
        let ino = served.vfs.lookup(&CALLER, ROOT, &name).unwrap().ino;
        for key in [b"user.1", b"user.2", b"user.3", b"user.4"] {
            // Equal ones would share an inode.
            let value = vec![values; 60_000];
            let set = served.vfs.setxattr(&CALLER, ino, key, &value, 0, false);
            values += u8::from(set.is_ok());
            assert!(allocated(&source) <= LIMIT, "{values} values");
        }
    }
    assert_eq!(values, 17);
    drop((served, disk));
}

/// Once, only the inode of a new file was reserved: by files without a byte, in a directory with a
/// long default ACL, any limit could be passed.
#[test]
fn an_inherited_acl_is_reserved_with_its_file() {
    for mkfs in [
        &["mkfs.ext4", "-q", "-F", "-b", "4096"][..],
        &["mkfs.xfs", "-q", "-f"],
    ] {
        let (place, source, state) = directories("inherited");
        let disk = Disk::made(&place.path().join("disk"), &source, mkfs);
        let below = source.join("d");
        fs::create_dir(&below).unwrap();
        let entries: Vec<_> = (2000..2060).map(|user| format!("u:{user}:rw")).collect();
        let mut setfacl = Command::new("setfacl");
        succeed(setfacl.args(["-d", "-m", &entries.join(",")]).arg(&below));
        let served = Served::of(&source, &state);
        limit(&served, LIMIT);
        let parent = served.vfs.lookup(&CALLER, ROOT, b"d").unwrap().ino;
        let open = libc::O_CREAT | libc::O_RDWR;
        let (made, full) = made_until_refused(&served, (parent, &below));
        // XFS counts the ACL of the directory as well.
        let own = if mkfs[0] == "mkfs.xfs" { 4096 } else { 0 };
        assert_eq!(full + own, LIMIT, "{mkfs:?}: {made} files");
        // Neither by another way to a file.
        let tmpfile = served.vfs.tmpfile(&CALLER, parent, 0o644, open);
        assert!(tmpfile.is_err(), "{mkfs:?}");
        let mknod = served
            .vfs
            .mknod(&CALLER, parent, b"n", Kind::File, 0o644, 0);
        assert!(mknod.is_err(), "{mkfs:?}");
        // Without an ACL to inherit the limit of bytes is no limit of files.
        let file = served.make(ROOT, b"outside");
        served.vfs.release(&file, None);
        let found = served.volume.quota().check().unwrap();
        assert!(found.differences.is_empty(), "{:?}", found.differences);
        drop((served, disk));
    }
}

/// Once, by files without a byte any limit could be passed where a label, or what a file is
/// encrypted by, has no place in the inode.
#[test]
fn what_a_new_file_has_beside_its_inode_is_reserved_with_it() {
    let (place, source, state) = directories("labels");
    let mkfs = "mkfs.ext4 -q -F -b 4096 -I 128 -O encrypt";
    let mkfs: Vec<_> = mkfs.split(' ').collect();
    let how = "loop,test_dummy_encryption";
    let disk = Disk::mounted((&place.path().join("disk"), how), &source, &mkfs);
    fs::create_dir(source.join("d")).unwrap();
    let served = Served::of(&source, &state);
    limit(&served, LIMIT);
    let parent = served.vfs.lookup(&CALLER, ROOT, b"d").unwrap().ino;
    let (made, full) = made_until_refused(&served, (parent, &source.join("d")));
    assert_eq!((full, made), (LIMIT, LIMIT / 4096));
    let found = served.volume.quota().check().unwrap();
    assert!(found.differences.is_empty(), "{:?}", found.differences);
    drop((served, disk));
}
