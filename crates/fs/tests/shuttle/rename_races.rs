//! Renames beside what forgets, removes, grows and tells: each pair gives a result of some order,
//! and leaves nothing behind.

use hearth::backend::TestBackend;
use hearth::{AT_FDCWD, Credentials, Errno, Process, Volume};
use hearth_sync::primitive::thread::{self, JoinHandle};
use hearth_sync::primitive::{Arc, atomic};

use crate::explore::explore;

const SCHEDULES: usize = 600;

fn task<R: Send + 'static>(
    volume: &Volume,
    work: impl FnOnce(&Process) -> R + Send + 'static,
) -> JoinHandle<R> {
    let process = volume.process(Credentials::root());
    thread::spawn(move || work(&process))
}

fn make(process: &Process, path: &str) {
    process.mknod(path, libc::S_IFREG | 0o644, 0).unwrap();
}

fn mkdirs(process: &Process, paths: &[&str]) {
    for path in paths {
        process.mkdir(path, 0o755).unwrap();
    }
}

fn ino(process: &Process, path: &str) -> Result<u64, Errno> {
    process.stat(path).map(|attr| attr.ino)
}

fn exchange(process: &Process, one: &str, two: &str) -> Result<(), Errno> {
    process.renameat2(AT_FDCWD, one, AT_FDCWD, two, libc::RENAME_EXCHANGE)
}

fn used_inodes(process: &Process) -> u64 {
    let room = process.statfs("/").unwrap();
    room.files - room.ffree
}

/// The root directory is one of them.
fn assert_left(process: &Process, inodes: u64) {
    assert_eq!(used_inodes(process), inodes, "inodes in use");
}

#[test]
fn what_is_renamed_while_it_is_forgotten_is_where_it_was_moved() {
    for (old, new, inside) in [
        ("/d/f", "/e/g", ""),
        ("/d/s", "/e/t", "/f"),
        ("/d", "/e/d", "/f"),
    ] {
        explore(SCHEDULES, &["done"], move || {
            let backend = Arc::new(TestBackend::new());
            let volume = Volume::builder().backend(backend).build().unwrap();
            let process = volume.process(Credentials::root());
            mkdirs(&process, &["/d", "/e", "/d/s"]);
            make(&process, "/d/f");
            make(&process, "/d/s/f");
            let before = (ino(&process, old), ino(&process, &format!("{old}{inside}")));
            volume.sync().unwrap();
            let renamer = task(&volume, move |process| process.rename(old, new));
            volume.reclaim(u64::MAX);
            volume.reclaim(u64::MAX);
            assert_eq!(renamer.join().unwrap(), Ok(()));
            for _ in 0..2 {
                assert_eq!(ino(&process, old), Err(Errno::ENOENT));
                let after = (ino(&process, new), ino(&process, &format!("{new}{inside}")));
                assert_eq!(after, before);
                if !inside.is_empty() {
                    assert_eq!(ino(&process, &format!("{new}/..")), ino(&process, "/e"));
                }
                volume.sync().unwrap();
                volume.reclaim(u64::MAX);
            }
            assert_left(&process, 6);
            "done"
        });
    }
}

#[test]
fn two_exchanges_of_directories_are_made_one_after_the_other() {
    for paths in [
        ["/p/a", "/q/b", "/r/c"],
        ["/p/a", "/p/b", "/q/c"],
        ["/p/a", "/p/b", "/p/c"],
    ] {
        explore(SCHEDULES, &["first", "second"], move || {
            let volume = Volume::memory();
            let process = volume.process(Credentials::root());
            mkdirs(&process, &["/p", "/q", "/r"]);
            mkdirs(&process, &paths);
            let [a, b, c] = paths.map(|path| ino(&process, path).unwrap());
            let other = task(&volume, move |process| {
                exchange(process, paths[1], paths[2])
            });
            assert_eq!(exchange(&process, paths[0], paths[1]), Ok(()));
            assert_eq!(other.join().unwrap(), Ok(()));
            for path in paths {
                let above = ino(&process, &path[..2]);
                assert_eq!(ino(&process, &format!("{path}/..")), above);
            }
            let links = |dir| u64::from(process.stat(dir).unwrap().nlink) - 2;
            assert_eq!(["/p", "/q", "/r"].map(links).iter().sum::<u64>(), 3);
            match paths.map(|path| ino(&process, path).unwrap()) {
                now if now == [b, c, a] => "first",
                now if now == [c, a, b] => "second",
                now => panic!("{now:?} of {:?}", [a, b, c]),
            }
        });
    }
}

#[test]
fn a_rename_into_a_directory_that_is_removed_moves_or_finds_none() {
    for is_dir in [false, true] {
        explore(SCHEDULES, &["moved", "removed"], move || {
            let volume = Volume::memory();
            let process = volume.process(Credentials::root());
            process.mkdir("/d", 0o755).unwrap();
            match is_dir {
                true => process.mkdir("/x", 0o755).unwrap(),
                false => make(&process, "/x"),
            }
            let remover = task(&volume, |process| process.rmdir("/d"));
            let renamed = process.rename("/x", "/d/x");
            let outcome = match (renamed, remover.join().unwrap()) {
                (Ok(()), Err(Errno::ENOTEMPTY)) => "moved",
                (Err(Errno::ENOENT), Ok(())) => "removed",
                both => panic!("{both:?}"),
            };
            let left = match outcome {
                "moved" => ino(&process, "/d/x"),
                _ => ino(&process, "/x"),
            };
            assert!(left.is_ok(), "{left:?}");
            assert_left(&process, if outcome == "moved" { 3 } else { 2 });
            outcome
        });
    }
}

/// All names stay in one directory, which grows meanwhile.
#[test]
fn a_file_that_is_renamed_while_its_directory_grows_has_one_name() {
    const NAMES: [&str; 4] = ["/d/one", "/d/two", "/d/three", "/d/four"];
    explore(SCHEDULES / 2, &["done"], || {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        process.mkdir("/d", 0o755).unwrap();
        process.mkdir(NAMES[0], 0o755).unwrap();
        let file = ino(&process, NAMES[0]);
        (0..29).for_each(|n| make(&process, &format!("/d/{n}")));
        let maker = task(&volume, |process| {
            (29..48).for_each(|n| make(process, &format!("/d/{n}")));
        });
        let renamer = task(&volume, |process| {
            for pair in NAMES.windows(2) {
                process.rename(pair[0], pair[1]).unwrap();
            }
        });
        // Each name is looked for after the one before it had gone.
        let found = NAMES.iter().find_map(|name| ino(&process, name).ok());
        assert_eq!(found, file.ok());
        maker.join().unwrap();
        renamer.join().unwrap();
        assert_eq!(
            NAMES.map(|name| ino(&process, name).is_ok()),
            [false, false, false, true]
        );
        assert_eq!(process.read_dir("/d").unwrap().len(), 49);
        assert_left(&process, 51);
        "done"
    });
}

/// Two names of one file, one of which is moved over the other, beside the end of one of them.
#[test]
fn a_file_that_replaces_its_own_name_ends_with_its_last_one() {
    explore(SCHEDULES, &["done"], || {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        make(&process, "/a");
        make(&process, "/b");
        let unlinker = task(&volume, |process| {
            process.link("/b", "/c").ok();
            process.unlink("/b").unwrap();
        });
        process.rename("/a", "/b").unwrap();
        unlinker.join().unwrap();
        for name in ["/a", "/b", "/c"] {
            process.unlink(name).ok();
        }
        assert_left(&process, 1);
        "done"
    });
}

/// Once, a directory that was moved between two looks of the listener had no path.
#[test]
fn a_change_in_a_directory_that_moves_is_told_with_a_path() {
    explore(SCHEDULES, &["before", "after"], || {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        mkdirs(&process, &["/a", "/b", "/a/d"]);
        let mut watch = volume.watch();
        make(&process, "/a/d/x");
        let renamer = task(&volume, |process| process.rename("/a/d", "/b/d"));
        let news = watch.read(&volume);
        renamer.join().unwrap().unwrap();
        match news.events[0].at.path.as_deref() {
            Some(b"/a/d/x") => "before",
            Some(b"/b/d/x") => "after",
            other => panic!("{other:?}"),
        }
    });
}

/// It has a path all the time, also while it gets another parent.
#[test]
fn the_path_of_a_directory_that_moves_to_and_fro_is_one_that_it_had() {
    explore(SCHEDULES, &["/a/c/d", "/b/c/d", "/b/e/d"], || {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        mkdirs(&process, &["/a", "/b", "/a/c", "/a/c/d"]);
        process.chdir("/a/c/d").unwrap();
        let is_done = Arc::new(atomic::AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let renamer = task(&volume, move |process| {
            for (from, to) in [
                ("/a/c", "/b/c"),
                ("/b/c", "/a/c"),
                ("/a/c", "/b/c"),
                ("/b/c", "/b/e"),
            ] {
                process.rename(from, to).unwrap();
            }
            done.store(true, atomic::Ordering::Release);
        });
        let is_over = is_done.load(atomic::Ordering::Acquire);
        let cwd = String::from_utf8(process.getcwd().unwrap()).unwrap();
        renamer.join().unwrap();
        assert!(!is_over || cwd == "/b/e/d", "{cwd}");
        match &cwd[..] {
            "/a/c/d" => "/a/c/d",
            "/b/c/d" => "/b/c/d",
            "/b/e/d" => "/b/e/d",
            other => panic!("{other}"),
        }
    });
}
