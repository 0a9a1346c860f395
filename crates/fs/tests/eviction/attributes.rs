//! Extended attributes beside a backend: more of them than may be set, and what they count for.

use super::nodes::{begin, counted};
use hearth::backend::{Backend, Record, TestBackend};
use hearth::{Credentials, Errno, Process, Volume};
use hearth_testing::random::Random;
use std::sync::Arc;

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;
const BIG: usize = 65_536;

fn make(root: &Process, path: &str) {
    let fd = root.open(path, NEW, 0o600).expect("a new name");
    root.close(fd).expect("it is open");
}

/// A store may have been written by a version without the bound.
#[test]
fn more_attributes_than_may_be_set_stay_readable_and_become_fewer() {
    let backend = Arc::new(TestBackend::new());
    let open = |backend: &Arc<TestBackend>| {
        let volume = Volume::builder().backend(backend.clone()).build();
        let volume = volume.expect("a new backend has nothing that could fail");
        let root = volume.process(Credentials::root());
        (volume, root)
    };
    let (volume, root) = open(&backend);
    make(&root, "/f");
    let (ino, generation) = root
        .stat("/f")
        .map(|f| (f.ino, f.generation))
        .expect("made");
    drop((root, volume));
    let name = |n: usize| format!("user.{n:02}").into_bytes();
    let of = |n: usize| (name(n).into(), vec![n as u8; BIG].into());
    let kept = backend.load_inode(ino).expect("no fault is set");
    let mut attrs = kept.expect("it was committed").attrs;
    attrs.extra_blocks = 193;
    let brought = vec![
        Record::Attrs {
            ino,
            version: 9,
            attrs,
        },
        Record::Xattrs {
            ino,
            generation,
            version: 9,
            xattrs: (0..12).map(of).collect(),
        },
    ];
    backend.commit(1_000, brought).expect("no fault is set");
    let (_volume, root) = open(&backend);
    let set = |n: usize, len: usize| root.setxattr("/f", &name(n), &vec![0; len], 0);
    assert_eq!(
        root.getxattr("/f", &name(11)).expect("it is there"),
        [11; BIG]
    );
    assert_eq!(set(12, 1), Err(Errno::ENOSPC));
    assert_eq!(set(3, BIG), Ok(()), "no more than before");
    assert_eq!(set(3, 5), Ok(()), "less than before");
    assert_eq!(set(3, 6), Err(Errno::ENOSPC));
    for n in 4..12 {
        assert_eq!(root.removexattr("/f", &name(n)), Ok(()));
    }
    assert_eq!(set(12, BIG), Ok(()));
}

/// Once, nothing of it counted, and three thousand files took 888 MB of a budget of 64 MiB.
#[test]
fn attributes_and_targets_count_while_they_are_in_memory() {
    let (volume, root) = begin();
    volume.reclaim(u64::MAX);
    let before = counted(&volume);
    let taken = || counted(&volume) - before;
    let target = "t".repeat(4000);
    make(&root, "/f");
    root.symlink(&target, "/l").expect("a new name");
    for name in [b"user.a", b"user.b", b"user.c"] {
        root.setxattr("/f", name, &vec![7; BIG], 0).expect("room");
    }
    let all = (3 * BIG + target.len()) as u64;
    let full = taken();
    assert!(full > all && full < all + 4096, "{full} of {all} bytes");
    volume.sync().expect("the backend fails nothing");
    assert!(volume.reclaim(u64::MAX) >= full);
    assert_eq!(taken(), 0);
    // One brings the other along, or not.
    root.stat("/f").expect("it is there");
    root.lstat("/l").expect("it is there");
    assert_eq!(taken(), full);
    for name in [b"user.a", b"user.b", b"user.c"] {
        root.removexattr("/f", name).expect("it is there");
    }
    assert!(taken() < full - 3 * BIG as u64);
    for path in ["/f", "/l"] {
        root.unlink(path).expect("it is there");
    }
    volume.reclaim(u64::MAX);
    assert_eq!(taken(), 0);
}

#[test]
fn what_was_counted_for_attributes_is_taken_away_again_whatever_was_done() {
    let mut random = Random(1);
    let mut below = |most: u64| random.below(most);
    let acl = |users: u64| {
        let entry = |tag: u16, perm: u16, id: u32| {
            let [tag, perm] = [tag, perm].map(u16::to_le_bytes);
            [&tag[..], &perm[..], &id.to_le_bytes()].concat()
        };
        let nobody = u32::MAX;
        let named = (0..users).flat_map(|id| entry(2, 7, id as u32));
        let mut all = 2u32.to_le_bytes().to_vec();
        all.extend(entry(1, 7, nobody));
        all.extend(named);
        all.extend(
            [
                entry(4, 5, nobody),
                entry(16, 7, nobody),
                entry(32, 5, nobody),
            ]
            .concat(),
        );
        all
    };
    let (volume, root) = begin();
    // What the root directory has counts as well, and it does not leave.
    root.setxattr("/", b"user.a", &[1; 5_000], 0).expect("room");
    volume.reclaim(u64::MAX);
    let before = counted(&volume);
    for round in 0..40 {
        let paths = ["/d", "/d/f", "/d/e", "/"];
        root.mkdir("/d", 0o700).expect("a new name");
        make(&root, "/d/f");
        for _ in 0..60 {
            let path = paths[below(4) as usize];
            let name = [&b"user.a"[..], b"user.b", b"security.capability"][below(3) as usize];
            let value = vec![7; below(100) as usize * below(500) as usize];
            let access = b"system.posix_acl_access";
            let default = b"system.posix_acl_default";
            // Some of it is refused: what is not there, or has no such attribute.
            let _ = match below(9) {
                0 => root.removexattr(path, name),
                1 => root.setxattr(path, access, &acl(below(40)), 0),
                2 => root.setxattr(path, default, &acl(below(40)), 0),
                3 => root.removexattr(path, access),
                4 => root.chmod(path, below(0o1000) as u16 | 0o700),
                5 => root.mkdir("/d/e", 0o700),
                6 => root.rmdir("/d/e"),
                7 if below(4) == 0 => {
                    volume.reclaim(u64::MAX);
                    Ok(())
                }
                _ => root.setxattr(path, name, &value, 0),
            };
        }
        for name in [&b"user.b"[..], b"security.capability"] {
            let _ = root.removexattr("/", name);
        }
        for name in [&b"system.posix_acl_access"[..], b"system.posix_acl_default"] {
            root.removexattr("/", name).expect("it is the root's");
        }
        root.setxattr("/", b"user.a", &[2; 5_000], 0).expect("room");
        let _ = root.rmdir("/d/e");
        root.unlink("/d/f").expect("it is there");
        if below(2) == 0 {
            volume.reclaim(u64::MAX);
        }
        root.rmdir("/d").expect("it is empty");
        volume.reclaim(u64::MAX);
        assert_eq!(counted(&volume), before, "round {round}");
    }
}
