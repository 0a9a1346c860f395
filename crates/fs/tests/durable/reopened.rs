//! What comes back when a volume is opened again.

use super::{NEW, PAGE, begin, check, crashed, create, opened, text};
use hearth::{Credentials, QuotaId, SetTime, Time};
use std::collections::HashMap;
use std::sync::Arc;

#[test]
fn everything_that_an_inode_has_survives() {
    let (backend, volume, root) = begin();
    let old = Some(SetTime::At(Time { sec: 12, nsec: 34 }));
    let acl: Vec<u8> = [
        &2u32.to_le_bytes()[..],
        &[1, 0, 6, 0, 255, 255, 255, 255],
        &[2, 0, 6, 0, 0xe8, 3, 0, 0],
        &[4, 0, 4, 0, 255, 255, 255, 255],
        &[16, 0, 6, 0, 255, 255, 255, 255],
        &[32, 0, 4, 0, 255, 255, 255, 255],
    ]
    .concat();
    root.mkdir("/d", 0o2750).unwrap();
    root.setxattr("/d", b"system.posix_acl_default", &acl, 0)
        .unwrap();
    let fd = create(&root, "/d/f", b"text");
    root.fchown(fd, Some(1000), Some(2000)).unwrap();
    root.fchmod(fd, 0o4711).unwrap();
    root.setxattr("/d/f", b"user.a", &vec![7; 6000], 0).unwrap();
    root.setxattr("/d/f", b"system.posix_acl_access", &acl, 0)
        .unwrap();
    root.link("/d/f", "/d/g").unwrap();
    root.futimens(fd, old, old).unwrap();
    root.symlink("somewhere/else", "/d/link").unwrap();
    root.mknod("/d/device", libc::S_IFBLK | 0o600, 0x0803)
        .unwrap();
    root.mknod("/d/fifo", libc::S_IFIFO | 0o640, 0).unwrap();
    root.mknod("/d/socket", libc::S_IFSOCK | 0o640, 0).unwrap();
    root.utimensat(hearth::AT_FDCWD, "/d", old, old, 0).unwrap();
    let paths = [
        "/d",
        "/d/f",
        "/d/g",
        "/d/link",
        "/d/device",
        "/d/fifo",
        "/d/socket",
        "/",
    ];
    let seen = |process: &hearth::Process| {
        paths.map(|path| {
            let names = process.llistxattr(path).unwrap();
            let values: Vec<_> = names
                .split(|byte| *byte == 0)
                .filter(|name| !name.is_empty())
                .map(|name| (name.to_vec(), process.lgetxattr(path, name).unwrap()))
                .collect();
            (path, process.lstat(path).unwrap(), values)
        })
    };
    volume.sync().unwrap();
    let before = seen(&root);
    let (after, volume, process) = crashed(&backend);
    assert_eq!(seen(&process), before);
    assert_eq!(process.readlink("/d/link").unwrap(), b"somewhere/else");
    assert_eq!(text(&process, "/d/g"), b"text");
    check(&after, &volume);
}

#[test]
fn what_is_used_is_exact_after_each_of_many_lives() {
    let (mut backend, mut volume, mut root) = begin();
    for life in 0..12u32 {
        root.chmod("/", 0o777).unwrap();
        let user = volume.process(Credentials::user(1000 + life % 3, 100));
        let path = format!("/{life}");
        let fd = user.open(&path, NEW, 0o644).unwrap();
        user.pwrite(fd, &vec![1; 10_000 * (1 + life as usize)], 50_000)
            .unwrap();
        user.setxattr(&path, b"user.a", &vec![7; 5000], 0).unwrap();
        if life > 2 {
            root.truncate(format!("/{}", life - 1), 60_000).unwrap();
            root.chown(format!("/{}", life - 2), Some(1001), None)
                .unwrap();
        }
        volume.sync().unwrap();
        // These are lost.
        create(&root, "/lost", &[1; 20_000]);
        root.unlink(&path).unwrap();
        let used = |volume: &hearth::Volume| {
            let record = |id: u32| volume.quota().get(QuotaId::user(1000 + id)).unwrap();
            [0, 1, 2].map(|id| (record(id).bytes.used, record(id).inodes.used))
        };
        volume.abandon();
        (backend, volume, root) = crashed(&backend);
        check(&backend, &volume);
        let counted = used(&volume);
        assert!(counted.iter().any(|used| used.0 > 0));
        assert_eq!(used(&opened(&backend)), counted);
    }
}

/// Numbers come back, and generations tell what they name.
#[test]
fn a_number_and_a_generation_name_one_file_over_all_crashes() {
    let (mut backend, mut volume, mut root) = begin();
    let mut named: HashMap<(u64, u32), u64> = HashMap::new();
    let (mut count, mut seed) = (0, 7_u64);
    for life in 0..25 {
        for _ in 0..400 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let path = format!("/{}", (seed >> 33) % 40);
            match (seed >> 50) % 8 {
                0 => volume.sync().unwrap(),
                1 => super::neighbour_syncs(&root),
                2 => drop(volume.reclaim(u64::MAX)),
                3..=4 => drop(root.unlink(&path)),
                _ => {
                    let made = root.open(&path, NEW | libc::O_EXCL, 0o600);
                    let Ok(fd) = made else { continue };
                    let attr = root.fstat(fd).unwrap();
                    count += 1;
                    let other = named.insert((attr.ino, attr.generation), count);
                    assert_eq!(other, None, "life {life}: {attr:?}");
                    let text = count.to_le_bytes();
                    root.pwrite(fd, &text, 0).unwrap();
                    root.close(fd).unwrap();
                }
            }
        }
        volume.abandon();
        (backend, volume, root) = crashed(&backend);
        for entry in root.read_dir("/").unwrap() {
            let path = [b"/", &entry.name[..]].concat();
            let attr = root.lstat(&path).unwrap();
            if entry.name.starts_with(b".") || entry.name.starts_with(b"n") {
                continue;
            }
            let whole = text(&root, std::str::from_utf8(&path).unwrap());
            if let Ok(bytes) = whole.try_into() {
                let number = named[&(attr.ino, attr.generation)];
                assert_eq!(u64::from_le_bytes(bytes), number, "life {life}");
            }
        }
        check(&backend, &volume);
    }
}

#[test]
fn times_of_contents_go_on_from_what_was_kept() {
    let (backend, volume, root) = begin();
    let fd = create(&root, "/f", &[1; 3 * PAGE]);
    root.mkdir("/d", 0o755).unwrap();
    create(&root, "/d/x", b"");
    volume.sync().unwrap();
    let before = root.fstat(fd).unwrap();
    let inside = root.stat("/d").unwrap();
    let (after, _volume, process) = crashed(&backend);
    // The contents change, and its times are not written back with that.
    process.truncate("/f", PAGE as u64).unwrap();
    super::neighbour_syncs(&process);
    let found = crashed(&after).2.stat("/f").unwrap();
    assert!(found.mtime >= before.mtime && found.ctime >= before.ctime);
    assert_eq!(crashed(&after).2.stat("/d").unwrap(), inside);
    let _ = Arc::clone(&after);
}
