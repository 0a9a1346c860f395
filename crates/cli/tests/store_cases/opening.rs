//! Opening: damage, locks, what is no volume, and reading only.

use crate::case::Case;
use crate::harness::{Random, Said, hearth, program, said, shell};
use crate::stored::{one_line, source};
use hearth_testing::place::{Place, mounts_below};
use hearth_testing::rounds::Service;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// What is damaged in one file.
const DAMAGES: [&str; 6] = [
    "end zeroed",
    "middle zeroed",
    "emptied",
    "zeros",
    "noise",
    "a bit",
];

fn damage(path: &Path, how: &str) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let size = file.metadata().unwrap().len();
    let mut random = Random(size);
    let done = match how {
        "end zeroed" => file.write_all_at(&[0; 4096], size.saturating_sub(4096)),
        "middle zeroed" => file.write_all_at(&[0; 4096], size / 2),
        "emptied" => file.set_len(0),
        "zeros" => file.write_all_at(&[0; 8192], size),
        "noise" => file.write_all_at(&random.bytes(8192), size),
        _ => {
            let (mut byte, at) = ([0], random.below(size));
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at)
        }
    };
    done.unwrap();
}

/// Every file below, sorted.
fn files(root: &Path) -> Vec<PathBuf> {
    let all = crate::case::walk(root);
    let mut files: Vec<PathBuf> = all.filter(|(_, m)| m.is_file()).map(|(p, _)| p).collect();
    files.sort();
    files
}

/// Path, size, time and contents.
type Sum = (PathBuf, u64, (i64, i64), Vec<u8>);

/// Size, time and contents of everything below.
fn sums(root: &Path) -> Vec<Sum> {
    let one = |(path, m): (PathBuf, fs::Metadata)| {
        let bytes = if m.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        (path, m.size(), (m.mtime(), m.mtime_nsec()), bytes)
    };
    let mut all: Vec<_> = crate::case::walk(root).map(one).collect();
    all.sort();
    all
}

/// SR44: torn and zeroed records panicked, passed, or took later ones with them.
#[test]
fn sr44_damage_is_refused_or_told_by_name_and_never_taken_for_the_truth() {
    let mut c = Case::new();
    for n in 0..200 {
        let name = format!("f{n}");
        c.put(&name, Random(n).bytes(100 + n as usize * 50));
        if n % 10 == 0 {
            c.sync(&name);
        }
    }
    c.daemon().stop().unwrap();
    let place = Place::new("damage").unwrap();
    let whole = place.path().join("whole");
    succeed_cp(c.kept(), &whole);
    let mount = place.directory("m").unwrap();
    for file in files(&whole) {
        if fs::metadata(&file).unwrap().len() == 0 {
            continue;
        }
        let name = file.strip_prefix(&whole).unwrap();
        for how in DAMAGES {
            let copy = place.path().join("copy");
            succeed_cp(&whole, &copy);
            damage(&copy.join(name), how);
            let shown = format!("{}, {how}", name.display());
            let mounted = said(hearth().args(["mount", &source(&copy)]).arg(&mount));
            assert!(!mounted.err.contains("panicked"), "{shown}: {mounted:?}");
            if mounted.success() {
                for n in 0..200 {
                    // An error names the file; other bytes, and a file that is gone, are a lie.
                    match fs::read(mount.join(format!("f{n}"))) {
                        Ok(bytes) => {
                            let want = Random(n).bytes(100 + n as usize * 50);
                            assert!(bytes == want, "{shown}: f{n} has other bytes");
                        }
                        Err(error) => {
                            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{shown}: f{n}");
                        }
                    }
                }
                let end = said(hearth().arg("umount").arg(&mount));
                assert!(end.success(), "{shown}: {end:?}");
            } else {
                assert_eq!(
                    mounted.err.trim().lines().count(),
                    1,
                    "{shown}: {mounted:?}"
                );
            }
            let checked = said(hearth().arg("fsck").arg(&copy));
            assert!(!checked.err.contains("panicked"), "{shown}: {checked:?}");
            fs::remove_dir_all(&copy).unwrap();
        }
    }
}

fn succeed_cp(from: &Path, to: &Path) {
    let done = said(program("cp").arg("-a").arg(from).arg(to));
    assert!(done.success(), "{done:?}");
}

/// SR46: a lock that a crash had left asked for a repair by hand.
#[test]
fn sr46_a_volume_opens_at_once_after_a_kill_and_one_in_use_names_its_user() {
    let mut c = Case::new();
    c.put("f", "x");
    c.sync("f");
    c.daemon().kill();
    c.daemon().start().unwrap();
    assert_eq!(c.read("f"), b"x");
    let place = Place::new("second").unwrap();
    let mount = place.directory("m").unwrap();
    let second = said(hearth().args(["mount", &source(c.kept())]).arg(&mount));
    let pid = c.daemon().id().unwrap().to_string();
    one_line(&second, &pid);
    assert!(
        second.err.contains(&*c.root().to_string_lossy()),
        "{second:?}"
    );
    assert_eq!(c.read("f"), b"x");
}

/// Runs each verb on what is no volume.
fn verbs(at: &Path, mount: &Path) -> Vec<(String, Said)> {
    let words: [&[&str]; 5] = [
        &["mount"],
        &["mkfs"],
        &["info"],
        &["fsck"],
        &["fsck", "--repair"],
    ];
    let one = |words: &&[&str]| {
        let mut command = hearth();
        command.args(*words);
        match words[0] {
            "mount" => command.arg(source(at)).arg(mount),
            "mkfs" => command.arg(source(at)),
            _ => command.arg(at),
        };
        (words.join(" "), said(&mut command))
    };
    words.iter().map(one).collect()
}

/// SR49: opening a text file as a database changed it.
#[test]
fn sr49_what_is_no_volume_is_refused_in_one_line_and_not_changed() {
    let place = Place::new("foreign").unwrap();
    let [mount, photos, rest] = ["m", "photos", "rest"].map(|n| place.directory(n).unwrap());
    fs::write(photos.join("a.jpg"), [0xff; 5000]).unwrap();
    fs::create_dir(photos.join("2026")).unwrap();
    let text = rest.join("notes.txt");
    fs::write(&text, "some text\n".repeat(1000)).unwrap();
    for at in [&photos, &text] {
        let before = sums(place.path());
        for (verb, said) in verbs(at, &mount) {
            one_line(&said, &at.to_string_lossy());
            assert!(
                sums(place.path()) == before,
                "{verb} changed {}",
                at.display()
            );
        }
        assert!(mounts_below(&mount).is_empty());
    }
}

/// SR50: the disk was not mounted, and a new volume filled the one below.
#[test]
fn sr50_an_empty_directory_becomes_a_volume_only_when_somebody_says_so() {
    let place = Place::new("empty").unwrap();
    let [mount, usb] = ["m", "usb"].map(|name| place.directory(name).unwrap());
    for kept in [usb.join("vol"), usb.clone()] {
        // Not at a terminal, as from fstab and systemd.
        let said = said(hearth().args(["mount", &source(&kept)]).arg(&mount));
        one_line(&said, "no volume");
        assert_eq!(fs::read_dir(&usb).unwrap().count(), 0);
    }
}

/// SR51: the directory of the volume lay below its own mount point.
#[test]
fn sr51_a_volume_below_its_own_mount_point_is_refused() {
    let mut c = Case::new();
    c.put("f", "x");
    c.daemon().stop().unwrap();
    let kept = c.kept().to_owned();
    let inside = kept.join("m");
    let below = kept.parent().unwrap().to_owned();
    let place = Place::new("link").unwrap();
    let link = place.path().join("link");
    symlink(&kept, &link).unwrap();
    let before = files(&kept);
    for (volume, mount) in [
        (&kept, &below),
        (&kept, &kept),
        (&kept, &inside),
        (&link, &below),
    ] {
        let said = said(hearth().args(["mount", &source(volume)]).arg(mount));
        assert!(!said.success(), "{said:?}");
        assert_eq!(said.err.trim().lines().count(), 1, "{said:?}");
        assert_eq!(files(&kept), before, "{}", mount.display());
    }
    // By way of a link it is the same volume.
    let mount = place.directory("m").unwrap();
    let by_link = said(hearth().args(["mount", &source(&link)]).arg(&mount));
    assert!(by_link.success(), "{by_link:?}");
    assert_eq!(fs::read(mount.join("f")).unwrap(), b"x");
    assert!(said(hearth().arg("umount").arg(&mount)).success());
}

/// SR52: "read-only" replayed the log and wrote.
#[test]
fn sr52_reading_only_changes_no_byte_also_after_a_kill() {
    let mut c = Case::new();
    for n in 0..100 {
        let name = format!("f{n}");
        c.put(&name, Random(n).bytes(3_000));
        c.sync(&name);
    }
    c.daemon().kill();
    let place = Place::new("read-only").unwrap();
    let mount = place.directory("m").unwrap();
    let before = sums(c.kept());
    let look = |what: &str| {
        let said = said(
            hearth()
                .args(["mount", "-o", "ro", &source(c.kept())])
                .arg(&mount),
        );
        assert!(said.success(), "{what}: {said:?}");
        for n in 0..100 {
            let bytes = fs::read(mount.join(format!("f{n}"))).unwrap();
            assert!(bytes == Random(n).bytes(3_000), "{what}: f{n}");
        }
        let refused = fs::write(mount.join("new"), "x").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS), "{what}");
        let end = crate::harness::said(hearth().arg("umount").arg(&mount));
        assert!(end.success(), "{what}: {end:?}");
        for verb in ["info", "fsck"] {
            let said = crate::harness::said(hearth().arg(verb).arg(c.kept()));
            assert!(said.success(), "{what}: {verb}: {said:?}");
        }
        assert!(sums(c.kept()) == before, "{what}: bytes have changed");
    };
    look("a disk that can be written");
    let bind = format!(
        "mount --bind {0} {0}; mount -o remount,ro,bind {0}",
        c.kept().display()
    );
    assert!(said(&mut shell(place.path(), &bind)).success());
    look("a disk that can only be read");
    assert!(said(program("umount").arg(c.kept())).success());
}

/// SR53: a checker destroyed what was in use, or took change for damage.
#[test]
fn sr53_a_checker_beside_load_is_silent_and_repairs_nothing() {
    let mut c = Case::new();
    let load = "for i in $(seq 400); do echo $i > f$((i % 50)); mv f$((i % 50)) g$((i % 7))
                [ $((i % 20)) -ne 0 ] || sync g$((i % 7)); rm -f g$(((i + 3) % 7)); done";
    let mut load = shell(c.root(), load).spawn().unwrap();
    let mut turns = 0;
    while load.try_wait().unwrap().is_none() {
        let said = said(hearth().arg("fsck").arg(c.kept()));
        assert!(said.success(), "{said:?}");
        turns += 1;
    }
    assert!(load.wait().unwrap().success() && turns > 0);
    let pid = c.daemon().id().unwrap().to_string();
    let repair = said(hearth().args(["fsck", "--repair"]).arg(c.kept()));
    one_line(&repair, &pid);
    c.put("after", "x");
    c.cut();
}
