//! Applying the stream of names to an empty tree gives the tree, whatever threads did at once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::{Credentials, NameChange, NameEvent, NamePlace, Process, ROOT, Volume};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: u64 = 4;
const STEPS: u64 = 6_000;

/// Names in directories, and what they mean.
type Tree = BTreeMap<(u64, Vec<u8>), u64>;

/// xorshift: each thread goes its own way, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Changes a few names in a few directories, which the other threads change as well. Most calls
/// fail; those are not told.
fn change(process: &Process, seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for _ in 0..STEPS {
        let mut path = || match random.below(3) {
            0 => format!("/{}", random.below(4)),
            1 => format!("/{}/{}", random.below(4), random.below(4)),
            _ => format!(
                "/{}/{}/{}",
                random.below(4),
                random.below(4),
                random.below(4)
            ),
        };
        let (a, b) = (path(), path());
        let _ = match random.below(9) {
            0 | 1 => process.mkdir(&a, 0o755),
            2 => process.symlink("x", &a),
            3 => process.link(&a, &b),
            4 => process.unlink(&a),
            5 => process.rmdir(&a),
            6 => process.renameat2(
                hearth::AT_FDCWD,
                &a,
                hearth::AT_FDCWD,
                &b,
                libc::RENAME_EXCHANGE,
            ),
            _ => process.rename(&a, &b),
        };
    }
}

/// Counts a thread down when it ends.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

fn key(at: &NamePlace) -> (u64, Vec<u8>) {
    (at.directory.ino, at.name.to_vec())
}

/// Applies an event, which has to be possible.
fn apply(tree: &mut Tree, event: &NameEvent) {
    let ino = event.what.unwrap().0.ino;
    let has_names = |tree: &Tree, ino| {
        tree.range((ino, vec![])..(ino + 1, vec![]))
            .next()
            .is_some()
    };
    match &event.change {
        NameChange::Create => assert_eq!(tree.insert(key(&event.at), ino), None, "{event:?}"),
        NameChange::Remove => {
            assert_eq!(tree.remove(&key(&event.at)), Some(ino), "{event:?}");
            let is_directory = event.what.unwrap().1 == hearth::Kind::Directory;
            assert!(!is_directory || !has_names(tree, ino), "{event:?}");
        }
        NameChange::Rename {
            to,
            displaced,
            exchange,
        } => {
            assert_eq!(tree.remove(&key(&event.at)), Some(ino), "{event:?}");
            let before = tree.insert(key(to), ino);
            assert_eq!(before, displaced.map(|(id, _)| id.ino), "{event:?}");
            if *exchange {
                tree.insert(key(&event.at), before.unwrap());
            }
        }
    }
}

/// The tree as the library lists it.
fn listed(process: &Process, path: &str, ino: u64, tree: &mut Tree) {
    for entry in process.read_dir(format!("{path}/")).unwrap() {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        if name == "." || name == ".." {
            continue;
        }
        tree.insert((ino, name.clone().into_bytes()), entry.ino);
        if entry.kind == hearth::Kind::Directory {
            listed(process, &format!("{path}/{name}"), entry.ino, tree);
        }
    }
}

#[test]
fn applying_the_stream_gives_the_tree_that_threads_left() {
    let volume = Volume::memory();
    let mut watch = volume.watch();
    let mut tree = Tree::new();
    let running = AtomicUsize::new(THREADS as usize);
    let (mut told, mut last, mut pathless) = (0, 0, 0);
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let (volume, running) = (&volume, &running);
            scope.spawn(move || {
                // Also after a panic, which the scope passes on.
                let _ended = Ended(running);
                change(&volume.process(Credentials::root()), thread);
            });
        }
        loop {
            let is_last = running.load(Ordering::Acquire) == 0;
            let news = watch.read(&volume);
            assert_eq!(news.lost, 0);
            for event in &news.events {
                assert_eq!(event.sequence, last + 1);
                last = event.sequence;
                apply(&mut tree, event);
                pathless += usize::from(event.at.path.is_none());
            }
            told += news.events.len();
            if is_last {
                break;
            }
        }
    });
    let mut left = Tree::new();
    listed(&volume.process(Credentials::root()), "", ROOT, &mut left);
    assert_eq!(tree, left);
    assert!(told > 1_000, "only {told} changes were made");
    // Every directory was made while this listened, so each one is known.
    assert_eq!(pathless, 0);
}
