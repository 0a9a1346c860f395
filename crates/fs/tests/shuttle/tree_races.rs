//! The tree: every pair of operations that meet on one name or one inode gives one of the results
//! that some order of the two would give, and leaves nothing behind.

use hearth::{AT_FDCWD, Credentials, Errno, Process, Volume};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::thread::{self, JoinHandle};

use crate::explore::explore;

const SCHEDULES: usize = 1200;
/// How often a reader looks while the other task is at work.
const LOOKS: usize = 8;
const CONTENT: &[u8] = b"what the file holds";

/// A volume, a process of the main task, and what was free when the volume was new.
struct World {
    volume: Volume,
    process: Process,
    free_inodes: u64,
}

impl World {
    fn new() -> World {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        let free_inodes = process.statfs("/").unwrap().ffree;
        World {
            volume,
            process,
            free_inodes,
        }
    }

    /// Runs `work` in a task of its own, as a process of its own.
    fn task<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Process) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let process = self.volume.process(Credentials::root());
        thread::spawn(move || work(&process))
    }

    fn used_inodes(&self) -> u64 {
        self.free_inodes - self.process.statfs("/").unwrap().ffree
    }
}

fn write_file(process: &Process, path: &str) -> i32 {
    let fd = process
        .open(path, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o600)
        .unwrap();
    assert_eq!(process.write(fd, CONTENT), Ok(CONTENT.len()));
    fd
}

fn make_file(process: &Process, path: &str) -> u64 {
    let fd = write_file(process, path);
    let ino = process.fstat(fd).unwrap().ino;
    process.close(fd).unwrap();
    ino
}

fn ino(process: &Process, path: &str) -> Result<u64, Errno> {
    process.stat(path).map(|attr| attr.ino)
}

/// When a change was seen, by looks in order.
fn phase(seen: &[bool]) -> &'static str {
    match (seen.first(), seen.last()) {
        (_, Some(false)) => "before",
        (Some(false), _) => "meanwhile",
        _ => "after",
    }
}

fn names(process: &Process, path: &str) -> Vec<Vec<u8>> {
    let entries = process.read_dir(path).unwrap().into_iter();
    let names = entries.map(|entry| entry.name.to_vec());
    let mut names: Vec<_> = names.filter(|name| name != b"." && name != b"..").collect();
    names.sort();
    names
}

#[test]
fn a_lookup_that_misses_the_old_name_finds_the_new_one() {
    for (old, new) in [
        ("/d/a", "/d/b"),
        ("/d/a", "/e/a"),
        ("/d/sub/x", "/d/other/x"),
    ] {
        explore(SCHEDULES, &["old", "new"], move || {
            let world = World::new();
            for dir in ["/d", "/e", "/d/sub"] {
                world.process.mkdir(dir, 0o755).unwrap();
            }
            let file = make_file(&world.process, old);
            // The third pair renames the directory above the file.
            let moves = if old == "/d/sub/x" {
                ("/d/sub", "/d/other")
            } else {
                (old, new)
            };
            let renamer = world.task(move |process| process.rename(moves.0, moves.1));
            let seen = match ino(&world.process, old) {
                Ok(found) => {
                    assert_eq!(found, file);
                    "old"
                }
                Err(error) => {
                    assert_eq!(error, Errno::ENOENT);
                    assert_eq!(
                        ino(&world.process, new),
                        Ok(file),
                        "missed under both names"
                    );
                    "new"
                }
            };
            assert_eq!(renamer.join().unwrap(), Ok(()));
            assert_eq!(ino(&world.process, old), Err(Errno::ENOENT));
            assert_eq!(ino(&world.process, new), Ok(file));
            seen
        });
    }
}

#[test]
fn a_name_that_a_rename_replaces_is_there_all_the_time() {
    explore(SCHEDULES, &["before", "meanwhile", "after"], || {
        let world = World::new();
        let replaced = make_file(&world.process, "/new");
        let replacing = make_file(&world.process, "/old");
        let renamer = world.task(|process| process.rename("/old", "/new"));
        let seen = [(); LOOKS].map(|()| {
            let found = ino(&world.process, "/new").expect("the name is never missing");
            assert!(found == replaced || found == replacing);
            found == replacing
        });
        assert!(seen.is_sorted(), "a rename is not undone: {seen:?}");
        assert_eq!(renamer.join().unwrap(), Ok(()));
        assert_eq!(ino(&world.process, "/new"), Ok(replacing));
        assert_eq!(world.used_inodes(), 1, "the replaced file is gone");
        phase(&seen)
    });
}

#[test]
fn an_open_that_beats_the_unlink_reads_the_whole_file() {
    explore(SCHEDULES, &["opened", "too late"], || {
        let world = World::new();
        make_file(&world.process, "/a");
        let unlinker = world.task(|process| process.unlink("/a"));
        let opened = world.process.open("/a", libc::O_RDONLY, 0);
        let outcome = match opened {
            Ok(fd) => {
                let mut content = [0; 64];
                assert_eq!(world.process.read(fd, &mut content), Ok(CONTENT.len()));
                assert_eq!(&content[..CONTENT.len()], CONTENT);
                assert_eq!(unlinker.join().unwrap(), Ok(()));
                assert_eq!(world.process.fstat(fd).unwrap().nlink, 0);
                assert_eq!(world.process.pread(fd, &mut content, 0), Ok(CONTENT.len()));
                assert_eq!(world.used_inodes(), 1, "open, so still there");
                world.process.close(fd).unwrap();
                "opened"
            }
            Err(error) => {
                assert_eq!(error, Errno::ENOENT);
                assert_eq!(unlinker.join().unwrap(), Ok(()));
                "too late"
            }
        };
        assert_eq!(world.used_inodes(), 0);
        outcome
    });
}

#[test]
fn of_two_exclusive_creators_one_wins() {
    explore(SCHEDULES, &["first", "second"], || {
        let world = World::new();
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
        let create = move |process: &Process| {
            process
                .open("/a", flags, 0o600)
                .map(|fd| process.fstat(fd).unwrap().ino)
        };
        let other = world.task(create);
        let mine = create(&world.process);
        let (winner, outcome) = match (mine, other.join().unwrap()) {
            (Ok(ino), Err(Errno::EEXIST)) => (ino, "first"),
            (Err(Errno::EEXIST), Ok(ino)) => (ino, "second"),
            both => panic!("{both:?}"),
        };
        assert_eq!(ino(&world.process, "/a"), Ok(winner));
        assert_eq!(names(&world.process, "/"), [b"a"]);
        assert_eq!(world.used_inodes(), 1, "the loser's inode is given back");
        outcome
    });
}

#[test]
fn two_creators_of_one_name_open_one_file() {
    explore(SCHEDULES, &["same"], || {
        let world = World::new();
        let create = |process: &Process| {
            let fd = process
                .open("/a", libc::O_CREAT | libc::O_RDWR, 0o600)
                .unwrap();
            process.fstat(fd).unwrap().ino
        };
        let other = world.task(create);
        let mine = create(&world.process);
        assert_eq!(other.join().unwrap(), mine);
        assert_eq!(ino(&world.process, "/a"), Ok(mine));
        assert_eq!(world.used_inodes(), 1);
        "same"
    });
}

#[test]
fn nothing_is_ever_created_in_a_removed_directory() {
    explore(SCHEDULES, &["created", "removed"], || {
        let world = World::new();
        world.process.mkdir("/d", 0o755).unwrap();
        let remover = world.task(|process| process.rmdir("/d"));
        let flags = libc::O_CREAT | libc::O_RDWR;
        let created = world.process.open("/d/x", flags, 0o600);
        let outcome = match (created, remover.join().unwrap()) {
            (Ok(_), Err(Errno::ENOTEMPTY)) => {
                assert_eq!(names(&world.process, "/d"), [b"x"]);
                "created"
            }
            (Err(Errno::ENOENT), Ok(())) => {
                assert_eq!(ino(&world.process, "/d"), Err(Errno::ENOENT));
                "removed"
            }
            both => panic!("{both:?}"),
        };
        let left = if outcome == "created" { (2, 3) } else { (0, 2) };
        let nlink = world.process.stat("/").unwrap().nlink;
        assert_eq!((world.used_inodes(), nlink), left);
        outcome
    });
}

#[test]
fn a_walk_through_exchanged_directories_always_arrives() {
    explore(SCHEDULES, &["before", "meanwhile", "after"], || {
        let world = World::new();
        for dir in ["/p", "/q", "/p/d", "/q/d"] {
            world.process.mkdir(dir, 0o755).unwrap();
        }
        let one = make_file(&world.process, "/p/d/x");
        let two = make_file(&world.process, "/q/d/x");
        let exchanger = world.task(|process| {
            let flags = libc::RENAME_EXCHANGE;
            process.renameat2(AT_FDCWD, "/p/d", AT_FDCWD, "/q/d", flags)
        });
        // Both places in turn: who has seen one of them exchanged sees the other so too.
        let paths = ["/q/d/x", "/p/d/x"].into_iter().cycle().take(LOOKS);
        let seen = paths.chain(["/p/d/../d/x"]).map(|path| {
            let found = ino(&world.process, path).expect("there is always one");
            assert!(found == one || found == two);
            (found == two) == path.starts_with("/p")
        });
        let seen: Vec<bool> = seen.collect();
        assert!(seen.is_sorted(), "an exchange is not undone: {seen:?}");
        assert_eq!(exchanger.join().unwrap(), Ok(()));
        assert_eq!(ino(&world.process, "/p/d/x"), Ok(two));
        assert_eq!(ino(&world.process, "/q/d/x"), Ok(one));
        let parent = ino(&world.process, "/p");
        assert_eq!(ino(&world.process, "/p/d/.."), parent);
        phase(&seen)
    });
}

#[test]
fn a_name_that_is_always_there_is_never_missed_through_a_directory_that_moved() {
    explore(SCHEDULES, &["before", "after"], || {
        let world = World::new();
        for dir in ["/p", "/q", "/p/d", "/q/d"] {
            world.process.mkdir(dir, 0o755).unwrap();
        }
        let one = make_file(&world.process, "/p/d/x");
        let two = make_file(&world.process, "/q/d/x");
        let mover = world.task(|process| {
            let flags = libc::RENAME_EXCHANGE;
            process.renameat2(AT_FDCWD, "/p/d", AT_FDCWD, "/q/d", flags)?;
            process.unlink("/q/d/x")
        });
        let found = ino(&world.process, "/p/d/x");
        assert_eq!(mover.join().unwrap(), Ok(()));
        match found {
            Ok(ino) if ino == one => "before",
            Ok(ino) if ino == two => "after",
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn directories_that_move_into_each_other_never_form_a_loop() {
    explore(SCHEDULES, &["a in b", "b in a"], || {
        let world = World::new();
        for dir in ["/a", "/b"] {
            world.process.mkdir(dir, 0o755).unwrap();
        }
        let other = world.task(|process| process.rename("/b", "/a/b"));
        let mine = world.process.rename("/a", "/b/a");
        match (mine, other.join().unwrap()) {
            // EINVAL: the walk found the target directory before it moved, as it may in Linux.
            (Ok(()), Err(Errno::ENOENT | Errno::EINVAL)) => {
                assert_eq!(names(&world.process, "/b"), [b"a"]);
                assert_eq!(names(&world.process, "/"), [b"b"]);
                "a in b"
            }
            (Err(Errno::ENOENT | Errno::EINVAL), Ok(())) => {
                assert_eq!(names(&world.process, "/a"), [b"b"]);
                assert_eq!(names(&world.process, "/"), [b"a"]);
                "b in a"
            }
            both => panic!("{both:?}"),
        }
    });
}

#[test]
fn a_directory_that_gets_the_name_of_one_that_is_moved_never_moves_into_itself() {
    explore(SCHEDULES, &["moved", "exchanged"], || {
        let world = World::new();
        for dir in ["/a", "/b"] {
            world.process.mkdir(dir, 0o755).unwrap();
        }
        // Inside one directory, so without the rename lock.
        let other = world.task(|process| {
            process.renameat2(AT_FDCWD, "/a", AT_FDCWD, "/b", libc::RENAME_EXCHANGE)
        });
        let mine = world.process.rename("/a", "/b/c");
        let outcome = match (mine, other.join().unwrap()) {
            (Ok(()), Err(Errno::ENOENT)) => "moved",
            (Ok(()), Ok(())) => "exchanged",
            // The walk found the target directory before it got the other name.
            (Err(Errno::EINVAL), Ok(())) => {
                assert_eq!(names(&world.process, "/").len(), 2);
                return "exchanged";
            }
            both => panic!("{both:?}"),
        };
        assert_eq!(names(&world.process, "/"), [b"b"]);
        assert_eq!(names(&world.process, "/b"), [b"c"]);
        outcome
    });
}

#[test]
fn the_last_close_and_the_unlink_free_the_file_once() {
    explore(SCHEDULES, &["done"], || {
        let world = World::new();
        let fd = write_file(&world.process, "/a");
        let free_blocks = world.process.statfs("/").unwrap().bfree;
        let unlinker = world.task(|process| process.unlink("/a"));
        assert_eq!(world.process.close(fd), Ok(()));
        assert_eq!(unlinker.join().unwrap(), Ok(()));
        assert_eq!(ino(&world.process, "/a"), Err(Errno::ENOENT));
        assert_eq!(world.used_inodes(), 0);
        assert_eq!(world.process.statfs("/").unwrap().bfree, free_blocks + 1);
        "done"
    });
}

#[test]
fn two_last_closes_of_an_unlinked_file_free_it_once() {
    explore(SCHEDULES, &["done"], || {
        let world = World::new();
        let mine = write_file(&world.process, "/a");
        let child = world.process.fork();
        let theirs = world.process.open("/a", libc::O_RDONLY, 0).unwrap();
        world.process.unlink("/a").unwrap();
        let closer = thread::spawn(move || drop(child));
        world.process.close(mine).unwrap();
        world.process.close(theirs).unwrap();
        closer.join().unwrap();
        assert_eq!(world.used_inodes(), 0);
        "done"
    });
}

#[test]
fn a_link_against_the_last_unlink_revives_nothing() {
    explore(SCHEDULES, &["linked", "too late"], || {
        let world = World::new();
        let file = make_file(&world.process, "/a");
        let unlinker = world.task(|process| process.unlink("/a"));
        let linked = world.process.link("/a", "/b");
        assert_eq!(unlinker.join().unwrap(), Ok(()));
        match linked {
            Ok(()) => {
                let attr = world.process.stat("/b").unwrap();
                assert_eq!((attr.ino, attr.nlink), (file, 1));
                assert_eq!(world.used_inodes(), 1);
                "linked"
            }
            Err(error) => {
                assert_eq!(error, Errno::ENOENT);
                assert_eq!(world.used_inodes(), 0);
                "too late"
            }
        }
    });
}

/// Fails when the last close drops the pages itself instead of leaving them to the inode's end.
#[test]
fn a_descriptor_that_is_closed_under_a_reader_reads_all_or_is_bad() {
    explore(SCHEDULES, &["read", "bad"], || {
        let world = World::new();
        let fd = write_file(&world.process, "/a");
        world.process.unlink("/a").unwrap();
        let process = Arc::new(world.process);
        let threads_process = Arc::clone(&process);
        let closer = thread::spawn(move || threads_process.close(fd));
        let mut content = [0; 64];
        let outcome = match process.pread(fd, &mut content, 0) {
            Ok(length) => {
                assert_eq!(&content[..length], CONTENT);
                "read"
            }
            Err(error) => {
                assert_eq!(error, Errno::EBADF);
                "bad"
            }
        };
        assert_eq!(closer.join().unwrap(), Ok(()));
        assert_eq!(process.statfs("/").unwrap().ffree, world.free_inodes);
        outcome
    });
}
