//! What the ledger of a host volume says after what happens while it counts, or moves a tree to
//! another project, or ends.

#![allow(clippy::unwrap_used)]

mod served;

use hearth::{Errno, QuotaId, ROOT, SetAttr, Vfs, VfsError};
use hearth_testing::threads::SetOnDrop;
use served::{CALLER, SIZE, Served, directories};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const DIRECTORIES: usize = 60;
const FILES: usize = 150;

/// Directories `d0`, `d1` ... with files `f0`, `f1` ... of a block each.
fn make_tree(source: &Path) {
    for d in 0..DIRECTORIES {
        let directory = source.join(format!("d{d}"));
        fs::create_dir(&directory).unwrap();
        for f in 0..FILES {
            fs::write(directory.join(format!("f{f}")), b"x").unwrap();
        }
    }
}

fn is_counted(served: &Served) -> bool {
    served.vfs.counted().unwrap().1
}

/// No difference between the ledger and the tree.
fn check(served: &Served) {
    let found = served.volume.quota().check().unwrap();
    assert!(found.differences.is_empty(), "{:?}", found.differences);
}

/// Once, the walk found a file at neither of its names: it had been where the file went, and came
/// to where it had been.
#[test]
fn files_that_are_renamed_during_the_walk_are_counted() {
    let (_place, source, state) = directories("renamed");
    make_tree(&source);
    let served = Served::counted(&source, &state, false);
    let lookup = |d: usize| {
        let name = format!("d{d}");
        let found = served.vfs.lookup(&CALLER, ROOT, name.as_bytes());
        found.unwrap().ino
    };
    let found: Vec<u64> = (0..DIRECTORIES).map(lookup).collect();
    let mut round = 0;
    while !is_counted(&served) {
        // Each file to the directory half way round, and back.
        for d in 0..DIRECTORIES {
            let (from, to) = (found[d], found[(d + DIRECTORIES / 2) % DIRECTORIES]);
            let name = format!("f{}", round % FILES);
            let other = format!("moved-{d}-{round}");
            let moved = |from, name: &str, to, other: &str| {
                let (name, other) = (name.as_bytes(), other.as_bytes());
                served.vfs.rename(&CALLER, from, name, to, other, 0)
            };
            moved(from, &name, to, &other).unwrap();
            if is_counted(&served) {
                break;
            }
        }
        round += 1;
        if round == FILES {
            break;
        }
    }
    let end = Instant::now() + Duration::from_secs(60);
    while !is_counted(&served) {
        assert!(Instant::now() < end, "the walk has failed");
        thread::sleep(Duration::from_millis(20));
    }
    check(&served);
}

/// Once, what was found in a directory that had become a part of the project belonged to it before
/// it was charged to it: then it never was.
#[test]
fn files_that_are_used_while_their_tree_becomes_a_project_are_charged_to_it() {
    let (_place, source, state) = directories("project");
    make_tree(&source);
    let served = Served::of(&source, &state);
    let is_over = AtomicBool::new(false);
    let use_all = || {
        let mut made = 0;
        while !is_over.load(Relaxed) {
            for d in 0..DIRECTORIES {
                let name = format!("d{d}");
                let parent = served.vfs.lookup(&CALLER, ROOT, name.as_bytes());
                let parent = parent.unwrap().ino;
                for f in 0..FILES {
                    let name = format!("f{f}");
                    let found = served.vfs.lookup(&CALLER, parent, name.as_bytes());
                    let set = SetAttr {
                        size: Some(f as u64 % 3 * 5000),
                        ..SetAttr::default()
                    };
                    let ino = found.unwrap().ino;
                    served.vfs.setattr(&CALLER, ino, None, &set).unwrap();
                }
                made += 1;
                let file = served.make(parent, format!("new-{made}").as_bytes());
                assert!(served.write(&file, 0));
                served.vfs.release(&file, None);
            }
        }
    };
    let quota = served.volume.quota();
    thread::scope(|scope| {
        let _end = SetOnDrop(&is_over);
        scope.spawn(use_all);
        let root = fs::metadata(&source).unwrap().ino();
        let change = |project| quota.set_project_of(root, b"/", project);
        let changed: Result<Vec<_>, _> = [7, 8, 0, 9].into_iter().map(change).collect();
        changed.unwrap();
    });
    check(&served);
    let all = quota.get(QuotaId::project(9)).unwrap().inodes.used;
    assert_eq!(all, quota.get(QuotaId::user(0)).unwrap().inodes.used);
}

/// Once, nothing said at the names outside that the files are of the project.
#[test]
fn files_that_are_linked_out_while_their_tree_becomes_a_project_are_of_it_by_all_names() {
    let (_place, source, state) = directories("outside");
    let tree = source.join("tree");
    fs::create_dir(&tree).unwrap();
    make_tree(&tree);
    fs::create_dir(source.join("out")).unwrap();
    let used = |served: &Served| {
        check(served);
        let quota = served.volume.quota();
        quota.get(QuotaId::project(9)).unwrap().inodes.used
    };
    let served = Served::of(&source, &state);
    let find = |parent, name: &str| {
        let found = served.vfs.lookup(&CALLER, parent, name.as_bytes());
        found.unwrap().ino
    };
    let (top, out) = (find(ROOT, "tree"), find(ROOT, "out"));
    let is_over = AtomicBool::new(false);
    let link_all = || {
        for round in 0..FILES {
            for d in 0..DIRECTORIES {
                if is_over.load(Relaxed) {
                    return;
                }
                let file = find(find(top, &format!("d{d}")), &format!("f{round}"));
                let name = format!("{d}-{round}");
                served
                    .vfs
                    .link(&CALLER, file, out, name.as_bytes())
                    .unwrap();
            }
        }
    };
    thread::scope(|scope| {
        let _end = SetOnDrop(&is_over);
        scope.spawn(link_all);
        let shown = fs::metadata(&tree).unwrap().ino();
        let quota = served.volume.quota();
        let change = |project| quota.set_project_of(shown, b"/tree", project);
        let changed: Result<Vec<_>, _> = [7, 8, 0, 9].into_iter().map(change).collect();
        changed.unwrap();
    });
    let all = used(&served);
    assert_eq!(all, 1 + (DIRECTORIES * (FILES + 1)) as u64);
    drop(served);
    assert_eq!(used(&Served::of(&source, &state)), all, "by a walk");
}

/// Once, its room was kept as used over a clean end, and stayed so.
#[test]
fn a_file_without_a_name_that_is_open_at_the_end_is_free_after_it() {
    let (_place, source, state) = directories("nameless");
    let before = {
        let served = Served::of(&source, &state);
        let before = served.used();
        let file = served.make(ROOT, b"f");
        assert!(served.write(&file, 0));
        served.vfs.unlink(&CALLER, ROOT, b"f").unwrap();
        assert!(served.used()[0] >= SIZE as u64, "it is open");
        served.vfs.forget_all();
        served.vfs.end_quotas().unwrap();
        drop(file);
        before
    };
    let again = Served::of(&source, &state);
    assert_eq!(again.used(), before);
}

/// Once, a file that began without a name could be opened for as long as the kernel knew it, also
/// when its name was gone: what was written then was in no tree.
#[test]
fn a_file_that_got_a_name_is_gone_with_it() {
    let (_place, source, state) = directories("linked");
    let served = Served::of(&source, &state);
    let (made, file) = served
        .vfs
        .tmpfile(&CALLER, ROOT, 0o644, libc::O_RDWR)
        .unwrap();
    served.vfs.link(&CALLER, made.ino, ROOT, b"name").unwrap();
    served.vfs.release(&file, None);
    drop(file);
    fs::remove_file(source.join("name")).unwrap();
    let opened = served.vfs.open(&CALLER, made.ino, libc::O_RDWR);
    assert!(matches!(opened, Err(VfsError::Errno(Errno::ESTALE))));
}

/// Once, each move of a file out of its project and back was a line that stayed, and what was set
/// for a file outlived it.
#[test]
fn projects_that_are_written_down_are_those_of_files_that_are_there() {
    let (_place, source, state) = directories("lines");
    for name in ["p", "out"] {
        fs::create_dir(source.join(name)).unwrap();
    }
    fs::write(source.join("p/f"), b"x").unwrap();
    let lines = || {
        let kept = fs::read_dir(&state)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut kept = kept.map(|path| path.join("quota/projects"));
        let kept = kept.find(|path| path.exists()).unwrap();
        let text = fs::read_to_string(kept).unwrap();
        text.lines().filter(|line| !line.is_empty()).count()
    };
    let served = Served::of(&source, &state);
    let find = |name: &[u8]| served.vfs.lookup(&CALLER, ROOT, name).unwrap().ino;
    let (project, out) = (find(b"p"), find(b"out"));
    let shown = fs::metadata(source.join("p")).unwrap().ino();
    served
        .volume
        .quota()
        .set_project_of(shown, b"/p", 7)
        .unwrap();
    let moved = |from, to| {
        let done = served.vfs.rename(&CALLER, from, b"f", to, b"f", 0);
        done.unwrap();
    };
    moved(project, out);
    moved(out, project);
    let once = lines();
    for _ in 0..10 {
        moved(project, out);
        moved(out, project);
    }
    assert_eq!(lines(), once);
    moved(project, out);
    served.vfs.unlink(&CALLER, out, b"f").unwrap();
    drop(served);
    drop(Served::of(&source, &state));
    assert_eq!(lines(), 1, "of the directory alone");
}
