//! What the forgetting filesystem keeps and what it loses.

#![allow(clippy::unwrap_used)]

use hearth_testing::forgetting::{Fault, Forgetting, Options};
use hearth_testing::place::Place;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A mount, and what has to outlive it.
struct Fixture {
    mount: Forgetting,
    _place: Place,
}

fn fixture(options: Options) -> Fixture {
    let place = Place::new("forgetting").unwrap();
    let (below, at) = (
        place.directory("below").unwrap(),
        place.directory("at").unwrap(),
    );
    Fixture {
        mount: Forgetting::mount(&below, &at, options).unwrap(),
        _place: place,
    }
}

impl Fixture {
    fn at(&self, name: &str) -> std::path::PathBuf {
        self.mount.path().join(name)
    }

    fn sync(&self, name: &str) {
        File::open(self.at(name)).unwrap().sync_all().unwrap();
    }

    fn cut(&mut self, seed: Option<u64>) {
        self.mount.cut(seed).unwrap();
    }
}

/// Long contents, of which a failure names the first byte that differs.
#[track_caller]
fn same(seen: &[u8], want: &[u8]) {
    assert_eq!(seen.len(), want.len());
    let differs = seen.iter().zip(want).position(|(seen, want)| seen != want);
    assert_eq!(differs, None);
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_write_that_was_not_synced_is_lost_and_one_that_was_stays() {
    let mut f = fixture(Options::default());
    for name in ["synced", "not"] {
        fs::write(f.at(name), "old").unwrap();
        f.sync(name);
    }
    f.sync(".");
    fs::write(f.at("synced"), "new").unwrap();
    f.sync("synced");
    fs::write(f.at("not"), "new and longer").unwrap();
    assert_eq!(fs::read(f.at("not")).unwrap(), b"new and longer");
    f.cut(None);
    assert_eq!(fs::read(f.at("synced")).unwrap(), b"new");
    assert_eq!(fs::read(f.at("not")).unwrap(), b"old");
    assert_eq!(fs::read(f.mount.below().join("not")).unwrap(), b"old");
}

#[test]
fn a_name_is_there_only_after_a_sync_of_its_directory() {
    let mut f = fixture(Options::default());
    for name in ["lost", "kept"] {
        fs::create_dir(f.at(name)).unwrap();
    }
    f.sync(".");
    for name in ["lost/file", "kept/file"] {
        fs::write(f.at(name), "data").unwrap();
        f.sync(name);
    }
    f.sync("kept");
    f.cut(None);
    assert!(names(&f.at("lost")).is_empty());
    assert_eq!(fs::read(f.at("kept/file")).unwrap(), b"data");
    assert_eq!(fs::metadata(f.at("kept/file")).unwrap().nlink(), 1);
}

#[test]
fn a_rename_without_a_sync_of_the_directory_is_lost() {
    let mut f = fixture(Options::default());
    fs::write(f.at("target"), "old").unwrap();
    f.sync("target");
    f.sync(".");
    fs::write(f.at("new"), "new").unwrap();
    f.sync("new");
    fs::rename(f.at("new"), f.at("target")).unwrap();
    assert_eq!(fs::read(f.at("target")).unwrap(), b"new");
    f.cut(None);
    assert_eq!(fs::read(f.at("target")).unwrap(), b"old");
    assert_eq!(names(f.mount.path()), ["target"]);
    fs::write(f.at("new"), "new").unwrap();
    f.sync("new");
    fs::rename(f.at("new"), f.at("target")).unwrap();
    f.sync(".");
    f.cut(None);
    assert_eq!(fs::read(f.at("target")).unwrap(), b"new");
}

#[test]
fn a_directory_that_moved_is_in_one_place_whichever_parent_was_synced() {
    for synced in [None, Some("a"), Some("b")] {
        let mut f = fixture(Options::default());
        for name in ["a", "b", "a/moved"] {
            fs::create_dir(f.at(name)).unwrap();
            f.sync(Path::new(name).parent().unwrap().to_str().unwrap());
        }
        fs::write(f.at("a/moved/file"), "x").unwrap();
        f.sync("a/moved");
        fs::rename(f.at("a/moved"), f.at("b/moved")).unwrap();
        if let Some(name) = synced {
            f.sync(name);
        }
        f.cut(None);
        let (a, b) = (names(&f.at("a")), names(&f.at("b")));
        let place = if synced.is_some() { b } else { a };
        assert_eq!(place, ["moved"], "{synced:?}");
        let all = ["a", "b"].map(|name| names(&f.at(name)).len());
        assert_eq!(all.iter().sum::<usize>(), 1);
    }
}

#[test]
fn removed_names_come_back_unless_the_removal_was_synced() {
    let mut f = fixture(Options::default());
    fs::create_dir_all(f.at("d/e")).unwrap();
    fs::write(f.at("d/e/file"), "x").unwrap();
    for name in ["d/e", "d", "."] {
        f.sync(name);
    }
    fs::remove_dir_all(f.at("d")).unwrap();
    f.cut(None);
    assert_eq!(names(&f.at("d/e")), ["file"]);
    fs::remove_dir_all(f.at("d")).unwrap();
    f.sync(".");
    f.cut(None);
    assert!(names(f.mount.path()).is_empty());
}

#[test]
fn a_seed_tears_what_was_not_synced_by_blocks_and_always_in_the_same_way() {
    let torn = |seed| {
        let mut f = fixture(Options::default());
        fs::write(f.at("file"), vec![1; 64 * 4096]).unwrap();
        f.sync("file");
        f.sync(".");
        let file = File::options().write(true).open(f.at("file")).unwrap();
        file.write_all_at(&[2; 64 * 4096], 0).unwrap();
        drop(file);
        f.cut(Some(seed));
        fs::read(f.at("file")).unwrap()
    };
    let (first, again, other) = (torn(7), torn(7), torn(8));
    assert_eq!(first, again);
    assert_ne!(first, other);
    let blocks: Vec<_> = first.chunks(4096).collect();
    assert!(blocks.iter().all(|b| b.iter().all(|&byte| byte == b[0])));
    let new = blocks.iter().filter(|block| block[0] == 2).count();
    assert!((10..54).contains(&new), "{new} of 64 blocks are new");
}

#[test]
fn sizes_holes_and_maps_are_as_on_any_filesystem_until_the_cut() {
    let mut f = fixture(Options::default());
    let file = File::options();
    let mut file = file.clone();
    let file = file.create(true).read(true).write(true).truncate(true);
    let file = file.open(f.at("file")).unwrap();
    file.write_all_at(&[9; 10_000], 0).unwrap();
    file.sync_all().unwrap();
    f.sync(".");
    file.set_len(5_000).unwrap();
    file.set_len(9_000).unwrap();
    file.write_all_at(&[8; 10], 8_995).unwrap();
    let want = [&[9; 5_000][..], &[0; 3_995], &[8; 10]].concat();
    same(&fs::read(f.at("file")).unwrap(), &want);
    file.sync_data().unwrap();
    same(&fs::read(f.mount.below().join("file")).unwrap(), &want);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 4_096, 4_096).unwrap();
    file.set_len(4_100).unwrap();
    file.set_len(9_216).unwrap();
    let cut = [&[9; 4_096][..], &[0; 5_120]].concat();
    same(&fs::read(f.at("file")).unwrap(), &cut);
    drop(file);
    f.cut(None);
    same(&fs::read(f.at("file")).unwrap(), &want);
}

#[test]
fn a_program_that_works_there_sees_nothing_unusual() {
    let f = fixture(Options::default());
    let script = "git init -q r && cd r && for i in $(seq 300); do echo $i > f$i; done
        git add -A && git -c user.name=a -c user.email=a@a commit -qm x && git fsck --strict
        rm -rf f* && git checkout -q . && test -z \"$(git status --porcelain)\"
        ln f1 g; ln -s f2 s; test $(stat -c %h g) = 2; test \"$(cat s)\" = 2
        mkdir d; mv f* d/; rm -r d; mkfifo p; cd ..; rm -rf r; test -z \"$(ls -A)\"";
    let mut shell = Command::new("bash");
    shell.args(["-euc", script]).current_dir(f.mount.path());
    let done = shell.output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn syncs_are_counted_and_take_as_long_as_they_were_told() {
    let f = fixture(Options::default());
    let file = File::create(f.at("file")).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    f.mount.set_delay(Duration::from_millis(30));
    let start = Instant::now();
    file.sync_data().unwrap();
    f.sync(".");
    assert!(start.elapsed() >= Duration::from_millis(60));
    let counts = f.mount.counts();
    assert_eq!((counts.syncs, counts.directory_syncs), (1, 1));
    assert_eq!((counts.writes, counts.bytes_written), (1, 1));
}

#[test]
fn an_orderly_end_keeps_everything() {
    let place = Place::new("forgetting").unwrap();
    let (below, at) = (
        place.directory("below").unwrap(),
        place.directory("at").unwrap(),
    );
    let mount = Forgetting::mount(&below, &at, Options::default()).unwrap();
    fs::create_dir(at.join("d")).unwrap();
    fs::write(at.join("d/file"), "x").unwrap();
    drop(mount);
    assert_eq!(fs::read(below.join("d/file")).unwrap(), b"x");
    assert_eq!(names(place.path()), ["at", "below"]);
}

#[test]
fn a_broken_disk_loses_what_a_sync_should_have_kept_and_says_so_once() {
    let f = fixture(Options::default());
    let file = File::create(f.at("file")).unwrap();
    file.write_all_at(b"old", 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(b"new", 0).unwrap();
    f.mount.set_fault(Fault::Broken);
    let code = |error: std::io::Error| error.raw_os_error();
    assert_eq!(code(file.sync_all().unwrap_err()), Some(libc_eio()));
    assert_eq!(code(file.write_at(b"x", 0).unwrap_err()), Some(libc_eio()));
    f.mount.set_fault(Fault::None);
    file.sync_all().unwrap();
    let below = fs::read_dir(f.mount.below().with_extension("unsynced")).unwrap();
    let kept = below.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    assert_eq!(kept.collect::<Vec<_>>(), [b"old"]);
}

#[test]
fn on_a_full_disk_bytes_that_are_there_can_be_written_over() {
    let f = fixture(Options::default());
    let file = File::create(f.at("file")).unwrap();
    file.write_all_at(&[1; 8192], 0).unwrap();
    f.mount.set_fault(Fault::Full);
    file.write_all_at(&[2; 4096], 4096).unwrap();
    file.sync_all().unwrap();
    let full = Some(rustix::io::Errno::NOSPC.raw_os_error());
    assert_eq!(
        file.write_at(&[2; 4096], 8192).unwrap_err().raw_os_error(),
        full
    );
    assert_eq!(File::create(f.at("new")).unwrap_err().raw_os_error(), full);
    fs::remove_file(f.at("file")).unwrap();
    f.mount.set_fault(Fault::None);
    File::create(f.at("new")).unwrap();
}

fn libc_eio() -> i32 {
    rustix::io::Errno::IO.raw_os_error()
}

#[test]
fn with_a_journal_any_sync_keeps_all_names_and_no_other_data() {
    let mut f = fixture(Options {
        journals: true,
        ..Options::default()
    });
    fs::create_dir_all(f.at("a/b")).unwrap();
    fs::write(f.at("a/b/lost"), "data").unwrap();
    fs::write(f.at("kept"), "data").unwrap();
    f.sync("kept");
    f.cut(None);
    assert_eq!(fs::read(f.at("kept")).unwrap(), b"data");
    assert_eq!(fs::read(f.at("a/b/lost")).unwrap(), b"");
}
