//! Dumps of sparse, odd and busy volumes, and very large transactions.

use crate::case::{Case, Failure, factor, rounds, walk};
use crate::harness::{Random, hearth, said, shell, succeed};
use crate::stored::{daemon_with, source};
use hearth_testing::place::Place;
use hearth_testing::rounds::Service;
use hearth_testing::threads::SetOnDrop;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const TIB: u64 = 1 << 40;

/// Type, mode, owner, size, blocks, number of names and times of each name.
fn lines(root: &std::path::Path) -> Vec<String> {
    let all = walk(root).map(|(path, m)| {
        let path = path.strip_prefix(root).unwrap().display().to_string();
        let size = if m.is_dir() { 0 } else { m.size() };
        let blocks = if m.is_file() { m.blocks() } else { 0 };
        let times = [m.mtime(), m.mtime_nsec()];
        format!(
            "{path} {:o} {} {} {size} {blocks} {} {times:?}",
            m.mode(),
            m.uid(),
            m.gid(),
            m.nlink()
        )
    });
    let mut all: Vec<String> = all.collect();
    all.sort();
    all
}

/// SR62: sparse files came back full, and times were those of the restore.
#[test]
fn sr62_a_dump_keeps_holes_times_and_odd_modes() {
    let mut c = Case::plain("");
    let files = factor() * 20;
    for n in 0..files {
        let file = File::create(c.at(&format!("sparse{n}"))).unwrap();
        file.set_len(TIB).unwrap();
        for page in [0, TIB / 2, TIB - 4096] {
            file.write_all_at(&Random(n).bytes(4096), page).unwrap();
        }
    }
    c.mkdir("old");
    c.put("old/f", "x");
    let script = "ln -s nowhere old/l; mkfifo old/p; mknod old/c c 1 3; chmod 4755 sparse0
        chmod 000 sparse1; touch -hd '1968-01-02 03:04:05.123456789' old/l old/p old/c old/f
        mkdir later; touch -d '2100-05-06 07:08:09.987654321' later
        chmod 555 later; touch -d '1968-01-02 03:04:05.5' old";
    succeed(&mut shell(c.root(), script));
    c.sync(".");
    let before = lines(c.root());
    c.daemon().stop().unwrap();
    let place = Place::new("dump").unwrap();
    let [mount, plain] = ["m", "plain"].map(|name| place.directory(name).unwrap());
    let (dump, copy) = (place.path().join("d"), place.path().join("copy"));
    succeed(hearth().arg("dump").arg(c.kept()).arg(&dump));
    assert!(
        fs::metadata(&dump).unwrap().len() < 4 << 20,
        "holes are in the dump"
    );
    succeed(hearth().arg("load").arg(&dump).arg(source(&copy)));
    let mut daemon = daemon_with(&copy, &mount, "transport=dev");
    daemon.start().unwrap();
    assert_eq!(lines(&mount), before);
    let file = File::open(mount.join("sparse0")).unwrap();
    for page in [0, TIB / 2, TIB - 4096] {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, page).unwrap();
        assert!(bytes[..] == Random(0).bytes(4096)[..]);
    }
    drop(file);
    daemon.stop().unwrap();
    // Files of that size are more than ext4 takes (16 TiB a file is its most): they fit.
    succeed(hearth().arg("load").arg(&dump).arg(&plain));
    assert_eq!(lines(&plain), before);
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(plain.join("later"), mode).unwrap();
}

/// Once, one file of 8 EiB ended the load of all others.
#[test]
fn a_file_that_is_too_large_for_a_plain_directory_is_named_and_the_others_are_loaded() {
    let mut c = Case::on_a_small_disk();
    let plain = c.kept().parent().unwrap().join("plain");
    for name in ["a", "z"] {
        c.put(name, name);
    }
    let file = File::create(c.at("huge")).unwrap();
    file.set_len(i64::MAX as u64).unwrap();
    file.write_all_at(b"there", 5).unwrap();
    drop(file);
    c.link("huge", "other");
    c.sync(".");
    c.daemon().stop().unwrap();
    let place = Place::new("dump").unwrap();
    let dump = place.path().join("d");
    succeed(hearth().arg("dump").arg(c.kept()).arg(&dump));
    let load = said(hearth().arg("load").arg(&dump).arg(&plain));
    assert_eq!(load.status.code(), Some(1), "{load:?}");
    let names = load.err.contains("'huge'") && load.out.contains("names of what was left out");
    assert!(names, "{load:?}");
    let mut there: Vec<_> = fs::read_dir(&plain).unwrap().collect();
    there.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    let there: Vec<_> = there
        .iter()
        .map(|e| e.as_ref().unwrap().file_name())
        .collect();
    assert_eq!(there, ["a", "z"]);
    assert_eq!(fs::read(plain.join("z")).unwrap(), b"z");
}

/// SR63: limits did not hold after a load, and a dump mixed moments.
#[test]
fn sr63_limits_hold_after_a_load_and_a_dump_is_one_moment() {
    let c = Case::plain(",memory=64M");
    let quota =
        |at: &std::path::Path, words: &[&str]| succeed(hearth().arg("quota").args(words).arg(at));
    c.mkdir("a");
    c.mkdir("b");
    c.put("mine", Random(1).bytes(300_000));
    c.sync("mine");
    chown(c.at("mine"), Some(4321), Some(4322)).unwrap();
    quota(c.root(), &["set", "user:4321", "--hard", "400k"]);
    quota(c.root(), &["set", "group:4322", "--hard", "900k"]);
    for n in 0..20 {
        c.put(&format!("a/f{n}"), n.to_string());
    }
    c.sync(".");
    let place = Place::new("dump").unwrap();
    let dumps: Vec<_> = (0..rounds(5))
        .map(|n| place.path().join(format!("d{n}")))
        .collect();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        for task in 0..2 {
            let (c, end) = (&c, &end);
            scope.spawn(move || {
                while !end.load(Relaxed) {
                    for n in (task..20).step_by(2) {
                        let (a, b) = (c.at(&format!("a/f{n}")), c.at(&format!("b/f{n}")));
                        fs::rename(&a, &b).or_else(|_| fs::rename(&b, &a)).unwrap();
                    }
                    c.sync("a");
                }
            });
        }
        for dump in &dumps {
            succeed(hearth().arg("dump").arg(c.kept()).arg(dump));
        }
    });
    for dump in &dumps {
        let listed = shell(place.path(), "tar -tf \"$DUMP\" 2>/dev/null")
            .env("DUMP", dump)
            .output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        for n in 0..20 {
            let places = listed.lines().filter(|line| {
                line.ends_with(&format!("/f{n}"))
                    || *line == format!("a/f{n}")
                    || *line == format!("b/f{n}")
            });
            assert_eq!(places.count(), 1, "f{n} in {}: {listed}", dump.display());
        }
    }
    let (copy, mount) = (place.path().join("copy"), place.directory("m").unwrap());
    succeed(hearth().arg("load").arg(&dumps[0]).arg(source(&copy)));
    let mut daemon = daemon_with(&copy, &mount, "transport=dev");
    daemon.start().unwrap();
    let file = File::options()
        .append(true)
        .open(mount.join("mine"))
        .unwrap();
    let more = Random(2).bytes(200_000);
    let error = file
        .write_all_at(&more, 300_000)
        .and_then(|()| file.sync_all());
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EDQUOT));
    quota(&mount, &["check"]);
    drop(file);
    daemon.stop().unwrap();
}

/// SR64: one very large transaction was refused, or ate memory, or kept all others waiting.
#[test]
fn sr64_a_very_large_transaction_is_bounded_and_whole_or_a_beginning() {
    let mut c = Case::plain(",memory=64M,commit=60");
    c.mkdir("many");
    c.put("neighbour", "x");
    c.sync(".");
    let most = factor() * 20_000;
    let end = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        let end_of_all = SetOnDrop(&end);
        let tasks: Vec<_> = (0..2)
            .map(|task| {
                let c = &c;
                scope.spawn(move || {
                    (task..most)
                        .step_by(2)
                        .for_each(|n| c.put(&format!("many/f{n}"), ""))
                })
            })
            .collect();
        let neighbour = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !end.load(Relaxed) {
                let begun = Instant::now();
                c.put("neighbour", "y");
                c.sync("neighbour");
                longest = longest.max(begun.elapsed());
                std::thread::sleep(Duration::from_millis(50));
            }
            longest
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
        drop(end_of_all);
        neighbour.join().unwrap()
    });
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    let memory = c.memory("VmHWM");
    assert!(memory < 400 << 10, "{memory} KiB");
    c.fail(Failure::Kill);
    let names = c.names("many").len() as u64;
    fs::remove_dir_all(c.at("many")).unwrap();
    c.fail(Failure::Kill);
    // All or a part of them: the checkers have found nothing.
    let left = if c.exists("many") {
        c.names("many").len() as u64
    } else {
        0
    };
    assert!(left <= names && names <= most);
}
