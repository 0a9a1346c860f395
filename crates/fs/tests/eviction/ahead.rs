//! Inodes and names that come along with one that is not in memory.

use super::ends::{Doing, begin, make, used};
use hearth::{Errno, Process};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const PAGE: usize = 4096;
const MANY: usize = 300;

fn many(process: &Process) -> Vec<String> {
    let names: Vec<_> = (0..MANY).map(|n| format!("/f{n}")).collect();
    names.iter().for_each(|name| make(process, name, 1));
    names
}

/// Once, each file of a tree that nobody had looked at cost three calls of the backend, and on a
/// mount as many changes of the thread.
#[test]
fn a_walk_over_what_is_not_in_memory_asks_for_many_at_a_time() {
    let (backend, volume, root) = begin();
    let names = many(&root);
    for order in [1, 7] {
        volume.reclaim(u64::MAX);
        let counts = || {
            let single = |n: usize| backend.singles[n].load(Relaxed);
            let batches = backend.batches.load(Relaxed);
            [single(0), single(1), single(2), batches]
        };
        let before = counts();
        for n in 0..MANY {
            let name = &names[n * order % MANY];
            assert_eq!(root.stat(name).map(|attr| attr.size), Ok(PAGE as u64));
        }
        let after = counts();
        let calls: Vec<_> = (0..4).map(|n| after[n] - before[n]).collect();
        let most = MANY as u64 / 12;
        assert!(calls.iter().all(|&calls| calls <= most), "{calls:?}");
        assert!(calls[2] == 1 && calls[3] >= 2, "{calls:?}");
    }
    let before = used(&root);
    names
        .iter()
        .for_each(|name| root.unlink(name).expect("it is there"));
    volume.sync().expect("the backend fails nothing");
    assert_eq!(used(&root), before - MANY as u64);
    assert_eq!(backend.backend.inodes(), 1);
}

/// What the backend returned ahead of need is older than what came and went meanwhile.
#[test]
fn inodes_that_are_brought_along_are_not_older_than_what_left_memory_meanwhile() {
    let (backend, volume, root) = begin();
    let before = used(&root);
    let names = many(&root);
    let ino = |name| root.stat(name).expect("it is there").ino;
    let numbers: Vec<u64> = names.iter().map(ino).collect();
    volume.reclaim(u64::MAX);
    let root = Arc::new(root);
    let (other, all) = (Arc::clone(&root), names.clone());
    let mut times = 0;
    backend.set(move |doing| {
        times += u32::from(doing == Doing::Bring);
        // One that brings many.
        if doing != Doing::Bring || times != 6 {
            return;
        }
        // Changed and evicted, removed and forgotten, removed and known to be gone.
        for (n, name) in all.iter().enumerate().skip(1) {
            match n % 3 {
                0 => other.chmod(name, 0o640).expect("it is there"),
                _ => other.unlink(name).expect("it is there"),
            }
            if n % 3 != 2 {
                other.volume().sync().expect("the backend fails nothing");
            }
        }
        other.volume().reclaim(u64::MAX);
    });
    for name in &names {
        let _ = root.stat(name);
    }
    for (n, &ino) in numbers.iter().enumerate().skip(1) {
        let found = volume.vfs().getattr(ino).map(|attr| attr.perm);
        let right = if n % 3 == 0 {
            Ok(0o640)
        } else {
            Err(Errno::ESTALE)
        };
        assert_eq!(found, right, "file {n}");
    }
    for (n, name) in names.iter().enumerate().skip(1) {
        let mode = root.stat(name).map(|attr| attr.mode() & 0o777);
        match n % 3 {
            0 => assert_eq!(mode, Ok(0o640), "{name}"),
            _ => assert_eq!(mode, Err(Errno::ENOENT), "{name}"),
        }
    }
    volume.sync().expect("the backend fails nothing");
    volume.reclaim(u64::MAX);
    let left = MANY.div_ceil(3);
    assert_eq!(
        (backend.backend.inodes(), used(&root)),
        (left + 1, before + left as u64)
    );
}
