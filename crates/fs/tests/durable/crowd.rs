//! Several change one tree, and the machine stops at moments that nobody chose.

use super::{NEW, begin, check, crashed};
use hearth::{Credentials, Process};
use hearth_testing::threads::SetOnDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const THREADS: u64 = 3;
const OPERATIONS: usize = 4_000;
const CRASHES: usize = 40;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    /// A path in a tree of few names, which all threads share.
    fn path(&mut self) -> String {
        let depth = self.roll(3);
        let parts = (0..=depth).map(|_| format!("/{}", self.roll(5)));
        parts.collect()
    }
}

/// One operation, which may fail.
fn operate(process: &Process, dice: &mut Dice) {
    let (one, other) = (dice.path(), dice.path());
    let _ = match dice.roll(16) {
        0..=2 => process.open(&one, NEW, 0o644).and_then(|fd| {
            let at = dice.roll(200_000);
            let len = 1 + dice.roll(90_000) as usize;
            let written = process.pwrite(fd, &vec![7; len], at).map(drop);
            if dice.roll(4) == 0 {
                let _ = process.fsync(fd);
            }
            process.close(fd).and(written)
        }),
        3..=4 => process.mkdir(&one, 0o755),
        5..=6 => process.rename(&one, &other),
        7 => process.link(&one, &other),
        8..=9 => process.unlink(&one),
        10 => process.rmdir(&one),
        11 => process.truncate(&one, dice.roll(150_000)),
        12 => process.chown(&one, Some(1000 + dice.roll(3) as u32), None),
        13 => process.setxattr(&one, b"user.a", &vec![1; dice.roll(9_000) as usize], 0),
        14 => process.renameat2(
            hearth::AT_FDCWD,
            &one,
            hearth::AT_FDCWD,
            &other,
            libc::RENAME_EXCHANGE,
        ),
        _ => process.symlink("target", &one),
    };
}

#[test]
fn whatever_a_crash_leaves_of_several_at_work_is_a_whole_tree() {
    let (backend, volume, root) = begin();
    let ended = AtomicBool::new(false);
    let copies = std::thread::scope(|scope| {
        let _end = SetOnDrop(&ended);
        let workers: Vec<_> = (1..=THREADS)
            .map(|thread| {
                let process = volume.process(Credentials::root());
                scope.spawn(move || {
                    let mut dice = Dice(thread.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    (0..OPERATIONS).for_each(|_| operate(&process, &mut dice));
                })
            })
            .collect();
        scope.spawn(|| {
            let mut dice = Dice(99);
            while !ended.load(Relaxed) {
                match dice.roll(3) {
                    0 => volume.sync().unwrap(),
                    1 => super::neighbour_syncs(&root),
                    _ => drop(volume.reclaim(256 << 10)),
                }
            }
        });
        let mut copies = Vec::new();
        while workers.iter().any(|worker| !worker.is_finished()) {
            if copies.len() < CRASHES {
                copies.push(backend.after_crash());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        copies
    });
    volume.sync().unwrap();
    for copy in copies.iter().chain([&backend.after_crash()]) {
        let (after, volume, _root) = crashed(copy);
        check(&after, &volume);
    }
}

/// Once, a sync did not wait for files that another one had taken from the list.
#[test]
fn syncs_at_once_return_when_the_files_of_each_are_durable() {
    let (backend, volume, _root) = begin();
    backend.set_delay(std::time::Duration::from_millis(1));
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let (backend, volume) = (&backend, &volume);
            scope.spawn(move || {
                let process = volume.process(Credentials::root());
                for round in 0..20_u8 {
                    let contents = vec![round * 3 + thread; 100_000];
                    for file in 0..4 {
                        let path = format!("/{thread}-{file}");
                        let fd = super::create(&process, &path, &contents);
                        process.close(fd).unwrap();
                    }
                    volume.sync().unwrap();
                    let (_, _after, process) = crashed(backend);
                    for file in 0..4 {
                        let path = format!("/{thread}-{file}");
                        assert!(super::text(&process, &path) == contents, "{path}");
                    }
                }
            });
        }
    });
}
