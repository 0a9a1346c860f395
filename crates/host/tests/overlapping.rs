//! Operations that a change of a tree's project overlaps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod served;

use hearth::{QuotaId, ROOT, Vfs};
use served::{CALLER, Served, directories};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

fn run(program: &str, words: &[&Path]) {
    let status = Command::new(program).args(words).status();
    assert!(status.unwrap().success(), "{program}");
}

/// A filesystem whose changes wait.
struct Frozen(PathBuf);

impl Frozen {
    fn now(place: &Path) -> Frozen {
        run("fsfreeze", &[Path::new("-f"), place]);
        Frozen(place.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        run("fsfreeze", &[Path::new("-u"), &self.0]);
    }
}

/// Waits until a thread of this process is inside a system call.
fn wait_until_inside(tid: i32, call: i64) {
    let end = Instant::now() + Duration::from_secs(60);
    let path = format!("/proc/self/task/{tid}/syscall");
    let begins = format!("{call} ");
    while !fs::read_to_string(&path).unwrap().starts_with(&begins) {
        assert!(Instant::now() < end, "it is not called");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Once, a rename that had begun before, and went out of the tree after the walk had come to the
/// file, left it in the new project until the unmount, and in none after.
#[test]
fn a_file_that_goes_out_while_its_tree_becomes_a_project_is_of_one_project() {
    let (place, source, state) = directories("overlapping");
    let disk = place.path().join("disk");
    File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    run("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &disk]);
    run(
        "mount",
        &[Path::new("-o"), Path::new("loop"), &disk, &source],
    );
    for name in ["tree", "out"] {
        fs::create_dir(source.join(name)).unwrap();
    }
    fs::write(source.join("tree/f"), b"x").unwrap();
    let served = Served::of(&source, &state);
    let find = |parent, name: &[u8]| served.vfs.lookup(&CALLER, parent, name).unwrap().ino;
    let (tree, out) = (find(ROOT, b"tree"), find(ROOT, b"out"));
    let shown = fs::metadata(source.join("tree")).unwrap().ino();
    let become_project = |project| {
        let quota = served.volume.quota();
        quota.set_project_of(shown, b"/tree", project).unwrap();
    };
    become_project(7);
    find(tree, b"f");
    let (tells, told) = channel();
    thread::scope(|scope| {
        let frozen = Frozen::now(&source);
        let served = &served;
        scope.spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero();
            tells.send(tid.get()).unwrap();
            let done = served.vfs.rename(&CALLER, tree, b"f", out, b"f", 0);
            done.unwrap();
        });
        wait_until_inside(told.recv().unwrap(), libc::SYS_renameat2);
        let change = scope.spawn(|| become_project(9));
        // It waits for the rename, or does not, which shows at the end.
        let end = Instant::now() + Duration::from_millis(200);
        while !change.is_finished() && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        drop(frozen);
        change.join().unwrap();
    });
    let used = |served: &Served| {
        let found = served.volume.quota().check().unwrap();
        assert!(found.differences.is_empty(), "{:?}", found.differences);
        let quota = served.volume.quota();
        [7, 9].map(|id| quota.get(QuotaId::project(id)).unwrap().inodes.used)
    };
    let all = used(&served);
    assert_eq!(all.iter().sum::<u64>(), 2);
    drop(served);
    assert_eq!(used(&Served::of(&source, &state)), all, "by a walk");
}

/// Once, what had been of no project, and went out just when the walk came to it, belonged to the
/// new project until the unmount alone.
#[test]
fn files_that_go_out_of_a_tree_that_becomes_a_project_are_of_it_or_not() {
    const DIRECTORIES: usize = 12;
    const FILES: usize = 30;
    let (_place, source, state) = directories("goes-out");
    for d in 0..DIRECTORIES {
        let directory = source.join(format!("tree/d{d}"));
        fs::create_dir_all(&directory).unwrap();
        for f in 0..FILES {
            fs::write(directory.join(format!("f{f}")), b"x").unwrap();
        }
    }
    fs::create_dir(source.join("out")).unwrap();
    let served = Served::of(&source, &state);
    let find = |parent, name: &str| {
        let found = served.vfs.lookup(&CALLER, parent, name.as_bytes());
        found.unwrap().ino
    };
    let (top, out) = (find(ROOT, "tree"), find(ROOT, "out"));
    let below: Vec<u64> = (0..DIRECTORIES)
        .map(|d| find(top, &format!("d{d}")))
        .collect();
    let go_out = || {
        for f in 0..FILES {
            for (d, &from) in below.iter().enumerate() {
                let (name, new) = (format!("f{f}"), format!("{d}-{f}"));
                find(from, &name);
                let (name, new) = (name.as_bytes(), new.as_bytes());
                let done = served.vfs.rename(&CALLER, from, name, out, new, 0);
                done.unwrap();
            }
        }
    };
    let shown = fs::metadata(source.join("tree")).unwrap().ino();
    let quota = served.volume.quota();
    thread::scope(|scope| {
        let going = scope.spawn(go_out);
        let mut project = 1;
        while !going.is_finished() {
            quota.set_project_of(shown, b"/tree", project).unwrap();
            project += 1;
        }
    });
    let used = |served: &Served| {
        let found = served.volume.quota().check().unwrap();
        assert!(found.differences.is_empty(), "{:?}", found.differences);
        let quota = served.volume.quota();
        quota.get(QuotaId::project(0)).unwrap().inodes.used
    };
    let all = used(&served);
    drop(served);
    assert_eq!(used(&Served::of(&source, &state)), all, "by a walk");
}
