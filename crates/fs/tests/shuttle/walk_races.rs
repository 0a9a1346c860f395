//! Paths beside renames: what a path does not lead to was not there at one moment, and the path of
//! a directory is one that it had.

use hearth::{AT_FDCWD, Credentials, Errno, Process, Volume};
use hearth_sync::primitive::thread;

use crate::explore::explore;

const SCHEDULES: usize = 1200;

/// A volume with these directories, and a file `x` or `y` where a path ends so; returns a process
/// for each of two tasks.
fn world(paths: &[&str]) -> (Process, Process) {
    let volume = Volume::memory();
    let [one, two] = [(); 2].map(|()| volume.process(Credentials::root()));
    for path in paths {
        match path.ends_with("/x") || path.ends_with("/y") {
            true => make(&one, path),
            false => one.mkdir(path, 0o755).unwrap(),
        }
    }
    (one, two)
}

fn make(process: &Process, path: &str) {
    process.mknod(path, libc::S_IFREG | 0o644, 0).unwrap();
}

fn exchange(process: &Process, one: &str, two: &str) {
    let flags = libc::RENAME_EXCHANGE;
    process
        .renameat2(AT_FDCWD, one, AT_FDCWD, two, flags)
        .unwrap();
}

fn ino(process: &Process, path: &str) -> Result<u64, Errno> {
    process.stat(path).map(|attr| attr.ino)
}

/// Which of two files, of which one is always there, a path leads to beside `change`.
fn found_beside(
    (process, other): (Process, Process),
    (path, one, two): (&str, &str, &str),
    change: impl FnOnce(&Process) + Send + 'static,
) -> &'static str {
    let [one, two] = [one, two].map(|path| ino(&process, path).unwrap());
    let changer = thread::spawn(move || change(&other));
    let found = ino(&process, path);
    changer.join().unwrap();
    match found {
        Ok(ino) if ino == one => "before",
        Ok(ino) if ino == two => "after",
        other => panic!("{path}: {other:?}"),
    }
}

/// Once, only a directory that got another parent counted as moved.
#[test]
fn a_name_that_is_always_there_is_never_missed_through_a_directory_exchanged_in_place() {
    explore(SCHEDULES, &["before", "after"], || {
        let world = world(&["/p", "/p/d", "/p/f", "/p/d/x", "/p/f/x"]);
        found_beside(world, ("/p/d/x", "/p/d/x", "/p/f/x"), |process| {
            exchange(process, "/p/d", "/p/f");
            process.unlink("/p/f/x").unwrap();
        })
    });
}

/// Once, a walk did not note the links that it followed.
#[test]
fn a_name_that_is_always_there_is_never_missed_behind_a_link_that_is_replaced() {
    for path in ["/cur/x", "/cur/../cur/x", "/last"] {
        explore(SCHEDULES, &["before", "after"], move || {
            let (process, other) = world(&["/1", "/2", "/1/x", "/2/x"]);
            process.symlink("1", "/cur").unwrap();
            process.symlink("2", "/new").unwrap();
            process.symlink("cur/x", "/last").unwrap();
            found_beside((process, other), (path, "/1/x", "/2/x"), |process| {
                process.rename("/new", "/cur").unwrap();
                process.unlink("/1/x").unwrap();
            })
        });
    }
}

/// The link is the end of the path, and leads to a name that is not there any more.
#[test]
fn the_end_of_a_link_that_is_always_there_is_never_missed() {
    explore(SCHEDULES, &["before", "after"], || {
        let (process, other) = world(&["/1", "/2", "/1/x", "/2/x"]);
        process.symlink("1/x", "/cur").unwrap();
        process.symlink("2/x", "/new").unwrap();
        found_beside((process, other), ("/cur", "/1/x", "/2/x"), |process| {
            process.rename("/new", "/cur").unwrap();
            process.unlink("/1/x").unwrap();
        })
    });
}

/// Once, only ENOENT was doubted.
#[test]
fn what_is_always_a_directory_is_never_said_to_be_none() {
    for (one, two) in [("/p/d", "/q/d"), ("/p/d", "/p/e")] {
        explore(SCHEDULES, &["before", "after"], move || {
            let mut paths = vec!["/p", "/q"];
            let deeper =
                [one, two].map(|top| [top.into(), format!("{top}/s"), format!("{top}/s/y")]);
            paths.extend(deeper.iter().flatten().map(|path: &String| path.as_str()));
            let path = [one, two].map(|top| format!("{top}/s/y"));
            let world = world(&paths);
            found_beside(world, (&path[0], &path[0], &path[1]), move |process| {
                exchange(process, one, two);
                process.unlink(format!("{two}/s/y")).unwrap();
                process.rmdir(format!("{two}/s")).unwrap();
                make(process, &format!("{two}/s"));
            })
        });
    }
}

/// Once, a directory that was renamed while its parent was listed had no path.
#[test]
fn a_directory_that_is_renamed_in_place_has_one_of_its_paths() {
    for new in ["e", "f", "g", "h", "i", "k", "l", "m"] {
        explore(SCHEDULES / 4, &["before", "after"], move || {
            let (process, other) = world(&["/a", "/a/d"]);
            process.chdir("/a/d").unwrap();
            let to = format!("/a/{new}");
            let after = to.clone();
            let renamer = thread::spawn(move || other.rename("/a/d", &to).unwrap());
            let cwd = process.getcwd();
            renamer.join().unwrap();
            match cwd {
                Ok(path) if path == b"/a/d" => "before",
                Ok(path) if path == after.as_bytes() => "after",
                other => panic!("{other:?}"),
            }
        });
    }
}

/// Once, the names of a path were of different moments.
#[test]
fn the_path_of_a_directory_is_one_that_it_had() {
    explore(SCHEDULES, &["/a/b", "/a/c", "/z/c"], || {
        let (process, other) = world(&["/a", "/a/b"]);
        process.chdir("/a/b").unwrap();
        let renamer = thread::spawn(move || {
            other.rename("/a/b", "/a/c").unwrap();
            other.rename("/a", "/z").unwrap();
        });
        let cwd = process.getcwd().unwrap();
        renamer.join().unwrap();
        let had = ["/a/b", "/a/c", "/z/c"];
        had.into_iter()
            .find(|path| path.as_bytes() == cwd)
            .unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(&cwd)))
    });
}
