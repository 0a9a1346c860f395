//! Random operations with limits that are hit: the ledger stays what a walk finds, and no limit is
//! ever passed.

use super::{check, site};
use hearth::backend::TestBackend;
use hearth::{Credentials, Errno, Process, QuotaId, QuotaKind, Volume};

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// One random operation; what it answers is checked by others.
fn step(dice: &mut Dice, processes: &[Process], fds: &mut Vec<(usize, i32)>) -> Option<Errno> {
    let at = dice.below(processes.len() as u64) as usize;
    let process = &processes[at];
    let name = |dice: &mut Dice| {
        let dirs = ["/d", "/d/p", "/d/q", "/d/p/r"];
        format!("{}/{}", dirs[dice.below(4) as usize], dice.below(12))
    };
    let (a, b) = (name(dice), name(dice));
    let result = match dice.below(16) {
        0..=2 => process
            .open(&*a, libc::O_CREAT | libc::O_RDWR, 0o666)
            .map(|fd| fds.push((at, fd))),
        3 => process.mkdir(&*a, 0o777),
        4 => process.unlink(&*a),
        5 => process.rmdir(&*a),
        6 => process.rename(&*a, &*b),
        7 => process.link(&*a, &*b),
        8 => process.symlink("somewhere", &*a),
        9 => process.truncate(&*a, dice.below(60_000)),
        10 => processes[0].chown(&*a, Some(dice.below(3) as u32), Some(dice.below(3) as u32)),
        11 => process.chown(&*a, None, Some(dice.below(3) as u32)),
        12 => process.setxattr(&*a, b"user.x", &vec![1; dice.below(9000) as usize], 0),
        13 if !fds.is_empty() => {
            let (at, fd) = fds.swap_remove(dice.below(fds.len() as u64) as usize);
            processes[at].close(fd)
        }
        14 => process.renameat2(
            hearth::AT_FDCWD,
            &*a,
            hearth::AT_FDCWD,
            &*b,
            [libc::RENAME_EXCHANGE, libc::RENAME_WHITEOUT][dice.below(2) as usize],
        ),
        _ if !fds.is_empty() => {
            let (at, fd) = fds[dice.below(fds.len() as u64) as usize];
            let off = dice.below(100_000);
            let bytes = vec![1; 1 + dice.below(20_000) as usize];
            let modes = [
                0,
                libc::FALLOC_FL_KEEP_SIZE,
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                libc::FALLOC_FL_COLLAPSE_RANGE,
                libc::FALLOC_FL_INSERT_RANGE,
                libc::FALLOC_FL_ZERO_RANGE,
            ];
            let mode = modes[dice.below(6) as usize];
            let page = |n: u64| n / 4096 * 4096;
            match dice.below(3) {
                0 => processes[at].pwrite(fd, &bytes, off).map(drop),
                1 => processes[at].write(fd, &bytes).map(drop),
                _ => processes[at].fallocate(fd, mode, page(off), page(30_000)),
            }
        }
        _ => process.access(&*a, 0),
    };
    result.err()
}

fn prepare(volume: &Volume) -> Vec<Process> {
    let ids = [(0, vec![0, 1, 2]), (1, vec![0, 1, 2]), (2, vec![0, 1, 2])];
    let processes: Vec<Process> = ids
        .into_iter()
        .map(|(id, groups)| {
            let process = volume.process(Credentials {
                uid: id,
                gid: id,
                groups,
            });
            process.umask(0);
            process
        })
        .collect();
    for directory in ["/d", "/d/p", "/d/q", "/d/p/r"] {
        let _ = processes[0].mkdir(directory, 0o777);
    }
    volume.quota().set_project_tree("/d/p", 7).unwrap();
    processes
}

/// Runs `steps` operations and checks every now and then.
fn run(volume: &Volume, seed: u64, steps: u64) {
    let processes = prepare(volume);
    let quota = volume.quota();
    let mut dice = Dice(seed);
    let mut fds = Vec::new();
    let mut refused = [0; 2];
    for i in 0..steps {
        match step(&mut dice, &processes, &mut fds) {
            Some(Errno::EDQUOT) => refused[0] += 1,
            Some(Errno::ENOSPC) => refused[1] += 1,
            _ => {}
        }
        if i % 500 == 0 {
            for record in quota.report() {
                let forced =
                    record.who.kind == QuotaKind::User || record.who.kind == QuotaKind::Group;
                for usage in [record.bytes, record.inodes] {
                    let over = usage.hard.is_some_and(|hard| usage.used > hard);
                    // Root gives files away whatever the limits say.
                    assert!(!over || forced, "{record:?}");
                }
            }
        }
        if i % 5000 == 0 {
            check(volume);
        }
    }
    assert!(refused.iter().all(|&n| n > steps / 1000), "{refused:?}");
    check(volume);
    for (at, fd) in fds {
        processes[at].close(fd).unwrap();
    }
    drop(processes);
    check(volume);
}

fn limit(volume: &Volume) {
    for who in [QuotaId::user(1), QuotaId::user(2), QuotaId::group(2)] {
        let change = hearth::LimitChange {
            bytes_hard: hearth::LimitUpdate::To(200_000),
            inodes_hard: hearth::LimitUpdate::To(12),
            ..Default::default()
        };
        volume.quota().set(who, &change).unwrap();
    }
    let change = hearth::LimitChange {
        bytes_hard: hearth::LimitUpdate::To(150_000),
        inodes_hard: hearth::LimitUpdate::To(14),
        ..Default::default()
    };
    volume.quota().set(QuotaId::project(7), &change).unwrap();
}

#[test]
fn after_a_hundred_thousand_random_operations_the_ledger_equals_a_walk() {
    let site = site();
    limit(&site.volume);
    run(&site.volume, 11, 100_000);
}

#[test]
fn with_a_backend_that_takes_objects_out_of_memory_as_well() {
    let backend = std::sync::Arc::new(TestBackend::new());
    let build = || {
        Volume::builder()
            .size(64 << 20)
            .inodes(10_000)
            .memory_budget(200_000)
            .backend(std::sync::Arc::clone(&backend))
            .build()
            .unwrap()
    };
    let volume = build();
    limit(&volume);
    run(&volume, 12, 10_000);
    volume.sync().unwrap();
    let before: Vec<_> = volume.quota().report();
    drop(volume);
    // A new volume on the same backend counts what it finds.
    let volume = build();
    check(&volume);
    let used = |report: &[hearth::QuotaRecord]| {
        let used = report.iter().filter(|r| r.bytes.used + r.inodes.used > 0);
        used.map(|r| (r.who, r.bytes.used, r.inodes.used))
            .collect::<Vec<_>>()
    };
    assert_eq!(used(&volume.quota().report()), used(&before));
}
