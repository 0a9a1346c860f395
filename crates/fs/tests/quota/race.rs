//! Threads of several users against limits, through the operations.

use super::{PAGE, check};
use hearth::{
    AT_FDCWD, Clock, Credentials, Errno, Kind, LimitChange, LimitUpdate, Process, QuotaId,
};
use hearth::{SystemClock, Time, Volume};
use hearth_testing::threads::SetOnDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

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

fn hard(volume: &Volume, who: QuotaId, bytes: u64, inodes: u64) {
    let change = LimitChange {
        bytes_hard: LimitUpdate::To(bytes),
        inodes_hard: LimitUpdate::To(inodes),
        ..LimitChange::default()
    };
    volume.quota().set(who, &change).unwrap();
}

/// Creates, writes, truncates, removes; chown and project changes run beside it.
fn work(process: &Process, thread: u64, dice: &mut Dice) {
    let mut files = Vec::new();
    for i in 0..300 {
        match dice.below(6) {
            0 | 1 => {
                let path = format!("/d/{thread}-{i}");
                match process.open(&*path, libc::O_CREAT | libc::O_RDWR, 0o666) {
                    Ok(fd) => files.push((path, fd)),
                    Err(errno) => assert!(matches!(errno, Errno::EDQUOT | Errno::ENOSPC)),
                }
            }
            2 if !files.is_empty() => {
                let at = dice.below(files.len() as u64) as usize;
                let (path, fd) = files.swap_remove(at);
                process.unlink(&*path).unwrap();
                process.close(fd).unwrap();
            }
            3 if !files.is_empty() => {
                let (_, fd) = &files[dice.below(files.len() as u64) as usize];
                process.ftruncate(*fd, dice.below(10) * PAGE).unwrap();
            }
            _ if !files.is_empty() => {
                let (_, fd) = &files[dice.below(files.len() as u64) as usize];
                let bytes = vec![1; (1 + dice.below(6 * PAGE)) as usize];
                let off = dice.below(20) * PAGE;
                if let Err(errno) = process.pwrite(*fd, &bytes, off) {
                    assert!(matches!(errno, Errno::EDQUOT | Errno::ENOSPC));
                }
            }
            _ => {}
        }
    }
}

#[test]
fn threads_never_pass_a_limit_and_the_ledger_is_right_after() {
    let rounds = std::env::var("HEARTH_ROUNDS").map_or(15, |n| n.parse().unwrap());
    for seed in 0..rounds {
        let mut dice = Dice(seed * 31 + 5);
        let volume = Volume::builder()
            .size((200 + dice.below(2000)) * PAGE)
            .inodes(100 + dice.below(500))
            .build()
            .unwrap();
        let root = volume.process(Credentials::root());
        root.mkdir("/d", 0o777).unwrap();
        root.chmod("/d", 0o777).unwrap();
        for id in 1..4 {
            let (bytes, inodes) = (dice.below(400) * PAGE, dice.below(200));
            hard(&volume, QuotaId::user(id), bytes, inodes);
            hard(&volume, QuotaId::group(id), bytes * 3 / 2, inodes * 3 / 2);
        }
        volume.quota().set_project_tree("/d", 9).unwrap();
        hard(&volume, QuotaId::project(9), 900 * PAGE, 400);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (volume, mut dice) = (&volume, Dice(dice.below(u64::MAX)));
                scope.spawn(move || {
                    let id = 1 + thread as u32 % 3;
                    let process = volume.process(Credentials::user(id, 1 + (id + 1) % 3));
                    work(&process, thread, &mut dice);
                });
            }
            scope.spawn(|| {
                for _ in 0..100 {
                    for record in volume.quota().report() {
                        for usage in [record.bytes, record.inodes] {
                            let over = usage.hard.is_some_and(|hard| usage.used > hard);
                            assert!(!over, "seed {seed}: {record:?}");
                        }
                    }
                    std::thread::yield_now();
                }
            });
        });
        check(&volume);
    }
}

#[test]
fn a_file_that_is_given_away_under_its_writers_is_charged_to_its_owner() {
    let volume = Volume::memory();
    let root = volume.process(Credentials::root());
    let fd = root
        .open("/f", libc::O_CREAT | libc::O_RDWR, 0o666)
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let root = &root;
            scope.spawn(move || {
                let mut dice = Dice(thread);
                for i in 0..800 {
                    let off = dice.below(50) * PAGE;
                    root.pwrite(fd, &[1; 5000], off).unwrap();
                    if i % 7 == 0 {
                        root.truncate("/f", dice.below(30) * PAGE).unwrap();
                    }
                }
            });
        }
        let root = &root;
        scope.spawn(move || {
            for i in 0..800 {
                root.chown("/f", Some(i % 5), Some(i % 3)).unwrap();
            }
        });
    });
    check(&volume);
}

/// The last name goes while others, who found the file by name, give it away and cut it.
#[test]
fn an_inode_that_ends_under_a_chown_is_freed_once() {
    let volume = Volume::memory();
    let root = volume.process(Credentials::root());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let root = &root;
            scope.spawn(move || {
                for i in 0..1500 {
                    let _ = root.chown("/f", Some(i % 4 + thread), None);
                    let _ = root.truncate("/f", 3 * PAGE);
                    let _ = root.setxattr("/f", b"trusted.x", &[0; 5000], 0);
                }
            });
        }
        for thread in 0..2_u64 {
            let root = &root;
            scope.spawn(move || {
                let mut dice = Dice(thread);
                for _ in 0..1500 {
                    if let Ok(fd) = root.open("/f", libc::O_CREAT | libc::O_RDWR, 0o666) {
                        let _ = root.pwrite(fd, &[1; 20_000], dice.below(9000));
                        root.close(fd).unwrap();
                    }
                    let _ = root.unlink("/f");
                }
            });
        }
    });
    check(&volume);
}

/// Two who fill the same holes need them once. Each asked for all of them, and whoever came second
/// was cut short though there was room.
#[test]
fn who_fill_the_same_holes_are_not_refused_while_there_is_room() {
    let volume = Volume::builder().build().unwrap();
    let root = volume.process(Credentials::root());
    root.mkdir("/d", 0o777).unwrap();
    root.chmod("/d", 0o777).unwrap();
    hard(&volume, QuotaId::user(7), 15 * PAGE, 10);
    let user = volume.process(Credentials::user(7, 7));
    for round in 0..300 {
        let path = format!("/d/{round}");
        let fd = user
            .open(&*path, libc::O_CREAT | libc::O_RDWR, 0o666)
            .unwrap();
        // Some write below the size, some beyond it.
        user.ftruncate(fd, (round % 2) * 10 * PAGE).unwrap();
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for tag in 0..4 {
                let (user, barrier) = (&user, &barrier);
                scope.spawn(move || {
                    let bytes = vec![tag; 10 * PAGE as usize];
                    barrier.wait();
                    let done = user.pwrite(fd, &bytes, 0);
                    assert_eq!(done, Ok(bytes.len()), "round {round}");
                });
            }
        });
        user.close(fd).unwrap();
        user.unlink(&*path).unwrap();
        check(&volume);
    }
}

/// What is made or moved while its directory enters a project is in it after.
#[test]
fn a_tree_that_becomes_a_project_keeps_nothing_out_that_is_made_meanwhile() {
    let volume = Volume::builder().build().unwrap();
    let root = volume.process(Credentials::root());
    for round in 1..60_u32 {
        let top = format!("/{round}");
        root.mkdir(&*top, 0o777).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetOnDrop(&done);
            for thread in 0..3 {
                let (root, top, done) = (&root, &top, &done);
                scope.spawn(move || {
                    for n in 0.. {
                        let path = format!("{top}/{thread}-{n}");
                        match n % 3 {
                            0 => root.mkdir(&*path, 0o777).unwrap(),
                            1 => root.symlink("x", &*path).unwrap(),
                            _ => {
                                let fd = root.open(&*path, libc::O_CREAT, 0o666).unwrap();
                                root.close(fd).unwrap();
                            }
                        }
                        if done.load(Relaxed) {
                            break;
                        }
                    }
                });
            }
            volume.quota().set_project_tree(&*top, round).unwrap();
        });
        let again = volume.quota().set_project_tree(&*top, round).unwrap();
        assert_eq!(again.changed, 0, "round {round}: {again:?}");
    }
    check(&volume);
}

/// A clock that does something each time when it is asked, but not meanwhile.
#[derive(Clone, Default)]
struct Hooked(Arc<Mutex<Hook>>);
type Hook = Option<Box<dyn FnMut() + Send>>;

impl Clock for Hooked {
    fn now(&self) -> Time {
        let hook = self.0.lock().unwrap().take();
        if let Some(mut hook) = hook {
            hook();
            *self.0.lock().unwrap() = Some(hook);
        }
        SystemClock.now()
    }
}

/// Once, nobody ended it: its number and its charge were gone for ever.
#[test]
fn a_whiteout_that_is_removed_before_its_rename_ends_gives_back_what_it_is_charged() {
    let clock = Hooked::default();
    let volume = Volume::builder().clock(clock.clone()).build().unwrap();
    let root = volume.process(Credentials::root());
    let used = || {
        let all = root.statfs("/").unwrap();
        all.files - all.ffree
    };
    let fd = root.open("/old", libc::O_CREAT | libc::O_WRONLY, 0o600);
    root.close(fd.unwrap()).unwrap();
    let before = used();
    let removed = Arc::new(AtomicBool::new(false));
    let (other, done) = (volume.process(Credentials::root()), removed.clone());
    *clock.0.lock().unwrap() = Some(Box::new(move || {
        std::thread::scope(|scope| {
            let remove = || {
                if other.lstat("/old").is_ok_and(|old| old.kind == Kind::Char) {
                    other.unlink("/old").unwrap();
                    done.store(true, Relaxed);
                }
            };
            scope.spawn(remove).join().unwrap();
        });
    }));
    root.renameat2(AT_FDCWD, "/old", AT_FDCWD, "/new", libc::RENAME_WHITEOUT)
        .unwrap();
    *clock.0.lock().unwrap() = None;
    assert!(removed.load(Relaxed), "between the names and the end");
    assert_eq!(root.lstat("/old"), Err(Errno::ENOENT));
    assert_eq!(used(), before);
    check(&volume);
}
