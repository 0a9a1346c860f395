//! Paths beside renames: the path of a directory is one that it had.

use hearth::{Credentials, Process, Volume};
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
