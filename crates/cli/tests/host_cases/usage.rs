//! What is used and what is left.

use crate::case::Case;
use crate::harness::{Below, Mounted, Transport, hearth, program, said, shell, succeed, until};
use crate::quotas::{done, quota, used, user_shell};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

#[test]
fn hr81_room_is_that_of_the_directory() {
    Case::on(Below::ext4).agrees(
        "hr81",
        r##"
stat -f -c '%b %d %l %s %S' . | cut -d' ' -f1,3-; mkdir -p sub; df --output=size . | tail -1
room() { stat -f -c '%b %f %a %c %d %l %s' "$1"; }
[ "$(room .)" = "$(room $S)" ] && echo same
"##,
    );
}

/// The daemon's own limit does not matter.
#[test]
fn hr82_the_limit_of_a_files_size_is_the_callers() {
    Case::on(Below::ext4).agrees(
        "hr82",
        r##"
    (ulimit -f 1024; exec head -c 2M /dev/zero > f) || echo $?
    stat -c %s f
    (ulimit -f 1024; trap '' XFSZ; try head -c 2M /dev/zero | wc -c
     for c in "truncate -s 3M f" "fallocate -l 3M f" "truncate -s 1000 f"; do try $c; done)
    stat -c %s f
"##,
    );
    let below = Below::ext4();
    let place = below.outside("place");
    let mut mount = shell(
        below.path(),
        "ulimit -S -f 1; exec \"$HEARTH\" mount -o transport=dev \"$PWD\" \"$MNT\"",
    );
    mount.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    succeed(mount.env("MNT", &place));
    std::fs::write(place.join("f"), vec![1; 1 << 20]).unwrap();
    assert_eq!(std::fs::read(below.at("f")).unwrap().len(), 1 << 20);
    succeed(hearth().arg("umount").arg(&place));
}

const USER: &str = "user:1234";
/// 200 KB in a file.
const LARGE: u64 = 200 << 10;

/// A file of that user.
fn large(path: &Path) {
    fs::write(path, vec![1; LARGE as usize]).unwrap();
    std::os::unix::fs::chown(path, Some(1234), Some(1234)).unwrap();
}

/// Options with the state beside the directory.
fn counted(below: &Below) -> String {
    let state = below.path().with_file_name("state");
    format!("quota=wait,state={}", state.display())
}

fn bind(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    succeed(program("mount").arg("--bind").arg(from).arg(to));
}

/// A mount below may be of the same filesystem, and show a directory for the second time.
#[test]
fn hr79_what_is_used_is_counted_once_and_as_it_is_mounted_now() {
    let below = Below::ext4();
    fs::create_dir_all(below.at("s/a")).unwrap();
    fs::create_dir(below.at("out")).unwrap();
    large(&below.at("s/a/f"));
    fs::hard_link(below.at("s/a/f"), below.at("s/a/g")).unwrap();
    large(&below.at("out/f"));
    File::create(below.at("s/sparse"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    bind(&below.at("s/a"), &below.at("s/b"));
    bind(&below.at("out"), &below.at("s/c"));
    let options = counted(&below);
    let mounted = Mounted::over(Transport::Dev, &below.at("s"), &options);
    assert_eq!(used(&mounted, USER), (2 * LARGE, 2));
    done(&mounted, "check @");
    mounted.unmount();
    succeed(program("umount").arg(below.at("s/c")));
    // What was used with the mounts is not what is used without.
    mounted.mount_again(Transport::Dev, &options);
    assert_eq!(used(&mounted, USER), (LARGE, 1));
    mounted.unmount();
    succeed(program("umount").arg(below.at("s/b")));
    mounted.mount_again(Transport::Dev, &options);
    assert_eq!(used(&mounted, USER), (LARGE, 1));
    mounted.unmount();
    // Without mounts below it is kept, until there is one.
    succeed(
        program("mount")
            .arg("--bind")
            .args([below.at("out"), below.at("s/c")]),
    );
    mounted.mount_again(Transport::Dev, &options);
    assert_eq!(used(&mounted, USER), (2 * LARGE, 2));
    mounted.unmount();
    succeed(program("umount").arg(below.at("s/c")));
}

#[test]
fn hr80_a_removed_file_is_charged_until_its_last_close_through_the_mount() {
    let below = Below::ext4();
    let mounted = Mounted::over(Transport::Dev, below.path(), &counted(&below));
    for (opened, stays) in [(mounted.at("f"), true), (below.at("f"), false)] {
        large(&mounted.at("f"));
        assert_eq!(used(&mounted, USER), (LARGE, 1));
        let open = File::open(opened).unwrap();
        fs::remove_file(mounted.at("f")).unwrap();
        if stays {
            assert_eq!(used(&mounted, USER), (LARGE, 1));
            drop(open);
        }
        until("it is not charged", || used(&mounted, USER) == (0, 0));
    }
    large(&mounted.at("f"));
    fs::remove_file(below.at("f")).unwrap();
    done(&mounted, "check --repair @");
    assert_eq!(used(&mounted, USER), (0, 0));
    mounted.unmount();
}

/// The directory under a filesystem that is not mounted has limits, use and heat of its own.
#[test]
fn hr32_a_source_that_is_not_mounted_is_said_and_changes_nothing_of_the_one_that_is_meant() {
    let below = Below::ext4();
    let (disk, source, place) = (below.at("disk"), below.at("s"), below.outside("place"));
    fs::create_dir(&source).unwrap();
    File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    succeed(program("mkfs.ext4").arg("-q").arg(&disk));
    let options = counted(&below);
    let serve = || {
        let mut mount = hearth();
        mount
            .args(["mount", "-o", &options])
            .arg(&source)
            .arg(&place);
        let said = said(&mut mount);
        assert!(said.success(), "{said:?}");
        said.out + &said.err
    };
    let said_of = |words: &[&str]| {
        let said = said(hearth().arg("quota").args(words).arg(&place));
        assert!(said.success(), "{said:?}");
        said.out
    };
    let mount_disk = || succeed(program("mount").args(["-o", "loop"]).args([&disk, &source]));
    let end = |is_disk: bool| {
        succeed(hearth().arg("umount").arg(&place));
        if is_disk {
            succeed(program("umount").arg(&source));
        }
    };
    mount_disk();
    assert!(!serve().contains("filesystem"));
    said_of(&["set", USER, "--hard", "1MiB"]);
    large(&place.join("f"));
    end(true);

    assert!(serve().contains("on another filesystem when it was served last"));
    assert!(!said_of(&["report"]).contains("1234"));
    end(false);

    mount_disk();
    assert!(serve().contains("on another filesystem when it was served last"));
    let report = said_of(&["report"]);
    assert!(
        report.contains("1024") && report.contains("200"),
        "{report}"
    );
    end(true);
}

/// What was made is there, or nothing is.
#[test]
fn hr39_a_file_that_is_refused_is_not_there() {
    let below = Below::ext4();
    let mounted = Mounted::over(Transport::Dev, below.path(), &counted(&below));
    mounted.shell("mkdir -m 777 d");
    done(&mounted, "set user:1234 --inodes-hard 3 @");
    let made = user_shell(
        1234,
        &mounted.at("d"),
        "for n in 1 2 3 4 5; do mkdir d$n; done; : > f; ln -s x l; mkfifo p",
    );
    assert_eq!(made.err.matches("quota exceeded").count(), 5, "{made:?}");
    let mut names: Vec<_> = fs::read_dir(below.at("d")).unwrap().collect();
    names.sort_by_key(|name| name.as_ref().unwrap().file_name());
    let names: Vec<_> = names
        .into_iter()
        .map(|name| name.unwrap().file_name())
        .collect();
    assert_eq!(names, ["d1", "d2", "d3"]);
    assert_eq!(used(&mounted, USER), (0, 3));
    mounted.unmount();
}

/// XFS allocates ahead of a file that grows: that is not its user's.
#[test]
fn hr76_a_growing_file_of_xfs_reaches_its_limit_and_gives_all_back() {
    let below = Below::xfs();
    let mounted = Mounted::over(Transport::Dev, below.path(), &counted(&below));
    mounted.shell("mkdir p");
    done(&mounted, "project @/p 9");
    done(&mounted, "set project:9 --hard 40MiB @");
    let grow = |name: &str, most: usize| {
        let mut file = File::create(mounted.at("p").join(name)).unwrap();
        let mut size = 0;
        while size < most && file.write_all(&[1; 1 << 16]).is_ok() {
            size += 1 << 16;
            if size % (4 << 20) == 0 {
                file.sync_all().unwrap();
            }
        }
        (file, size)
    };
    let (file, size) = grow("one", usize::MAX);
    assert_eq!(size, 40 << 20);
    drop(file);
    fs::remove_file(mounted.at("p/one")).unwrap();
    until("it is given back", || used(&mounted, "project:9") == (0, 1));
    let open: Vec<_> = (0..32).map(|n| grow(&n.to_string(), 1 << 20).0).collect();
    assert_eq!(used(&mounted, "project:9"), (32 << 20, 33));
    drop(open);
    fs::remove_dir_all(mounted.at("p")).unwrap();
    until("nothing is charged", || {
        used(&mounted, "project:9") == (0, 0)
    });
    mounted.unmount();
}

/// A filesystem that tells blocks when a file is closed, or a second after.
#[test]
fn hr77_a_limit_holds_where_blocks_are_told_late() {
    let late = Mounted::new(Transport::Dev, "");
    fs::create_dir(late.at("s")).unwrap();
    let state = late.at("state");
    let options = format!("quota=wait,state={}", state.display());
    let mounted = Mounted::over(Transport::Dev, &late.at("s"), &options);
    let limit = 4 << 20;
    done(&mounted, "set volume --hard 4MiB --inodes-hard 1m @");
    let write = |member: u64| {
        let (mut written, mut refused) = (0, 0);
        for n in 0..20 {
            let mut file = File::create(mounted.at(format!("{member}-{n}"))).unwrap();
            match file.write(&[1; 100_000]) {
                Ok(n) => written += n,
                Err(_) => refused += 1,
            }
        }
        (written, refused)
    };
    let written: Vec<(usize, u32)> = std::thread::scope(|scope| {
        let members: Vec<_> = (0..16).map(|m| scope.spawn(move || write(m))).collect();
        members.into_iter().map(|m| m.join().unwrap()).collect()
    });
    let all: usize = written.iter().map(|(bytes, _)| bytes).sum();
    assert!(all <= limit, "{all} bytes fit in {limit}");
    assert!(
        all > limit / 2 && written.iter().any(|(_, refused)| *refused > 0),
        "{written:?}"
    );
    until("what is told is what is charged", || {
        quota(&mounted, "check @").success()
    });
    mounted.unmount();
}

/// Once, all processes of the machine were counted with the tree of a container, and each mount
/// counted it anew.
#[test]
fn what_the_kernel_makes_up_below_is_not_counted() {
    let below = Below::ext4();
    fs::create_dir(below.at("proc")).unwrap();
    fs::write(below.at("f"), "x").unwrap();
    let mount = ["-t", "proc", "proc"];
    succeed(program("mount").args(mount).arg(below.at("proc")));
    let state = below.path().with_file_name("state");
    let options = format!("quota=wait,state={}", state.display());
    for _ in 0..2 {
        let mounted = Mounted::over(Transport::Dev, below.path(), &options);
        assert_eq!(used(&mounted, "user:0").1, used(&mounted, "group:0").1);
        assert!(
            used(&mounted, "user:0").1 < 10,
            "the root, the file, the directory"
        );
        assert!(mounted.at("proc/self/status").exists());
        done(&mounted, "check @");
        mounted.unmount();
        assert!(
            state_has_usage(&state),
            "what is used is known at the next mount"
        );
    }
    succeed(program("umount").arg(below.at("proc")));
}

fn state_has_usage(state: &Path) -> bool {
    let found = fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found = found.map(|path| path.join("quota/usage"));
    state.join("quota/usage").exists() || found.any(|path| path.exists())
}
