//! Names people and programs see.

use crate::case::Case;
use crate::harness::{Below, Mounted, Transport, hearth, program, said, shell, succeed};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[test]
fn hr83_the_mount_is_listed_as_a_local_filesystem_whatever_its_directory_is_called() {
    for name in [
        &b"with:colon"[..],
        b"with space",
        b"with,comma",
        b"with#hash",
        b"back\\slash",
        b"\xff bytes",
        b"new\nline",
    ] {
        let below = Below::tmpfs();
        let directory = below.at(OsStr::from_bytes(name));
        let place = below.outside("place");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("f"), "x").unwrap();
        let mut mount = hearth();
        mount.args(["mount", "-o", "transport=dev"]);
        succeed(mount.arg(&directory).arg(&place));
        assert_eq!(fs::read(place.join("f")).unwrap(), b"x");
        let local = succeed(program("df").args(["-l", "--output=target"]).arg(&place));
        assert!(local.contains("place"), "{local}");
        let real = succeed(&mut shell(&place, "findmnt --real -no TARGET -M \"$PWD\""));
        assert!(real.contains("place"), "{real}");
        succeed(hearth().arg("umount").arg(&place));
    }
}

/// Nothing of ours is in the tree, and whoever reads all of it comes to an end.
#[test]
fn hr84_nothing_of_the_tree_is_hidden_and_nothing_of_ours_is_in_it() {
    let case = Case::over(Below::ext4());
    let control = "timeout 20 find .hearth -type f -exec cat {} + > /dev/null";
    case.mounted.shell(control);
    assert_eq!(case.mounted.shell("ls -A; tar -cf - . | tar t"), "./\n");
    // Made behind, and on the mount.
    fs::create_dir(case.below.at(".hearth")).unwrap();
    fs::write(case.below.at(".hearth/x"), "mine").unwrap();
    std::thread::sleep(crate::case::WAIT);
    assert_eq!(case.mounted.shell("cat .hearth/x; ls -A"), "mine.hearth\n");
    takes_nobodys_files_for_its_own(&case);
    fs::remove_dir_all(case.below.at(".hearth")).unwrap();
    follows_nobodys_links_to_another_mount(&case);
    case.mounted
        .shell("rm -rf .hearth; mkdir a; touch a/.config .config; rm -rf * .config");
    assert_eq!(fs::read_dir(case.below.path()).unwrap().count(), 0);
    let stats = said(hearth().arg("stats").arg(case.mounted.path()));
    assert!(stats.success(), "{stats:?}");
}

/// Files of the tree are called like control files, and are neither asked, believed nor changed.
fn takes_nobodys_files_for_its_own(case: &Case) {
    let names = [
        "ask",
        "stats",
        "locks",
        "locks.json",
        "sched",
        "version",
        "pid",
        "events",
        "sys/help",
        "sys/fs/atime",
        "sys/fs/hot-track",
        "heat/status.json",
        "heat/import",
    ];
    let mine = "fs/atime\tmine\n";
    for name in names {
        let file = case.below.at(".hearth").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, mine).unwrap();
    }
    let place = case.mounted.path().to_str().unwrap();
    let calls: [&[&str]; 11] = [
        &["ask", place, "quota check"],
        &["tune", place],
        &["tune", place, "fs/atime=noatime"],
        &["stats", place],
        &["sched", place],
        &["locks", place],
        &["locks", place, "--for", "10ms"],
        &["events", place],
        &["heat", "on", place],
        &["heat", "top", place],
        &["heat", "import", place, "/dev/null"],
    ];
    for call in calls {
        let answer = said(hearth().args(call));
        assert!(!answer.success(), "{call:?}: {answer:?}");
        let is_right = answer.err.lines().count() == 1 && !answer.err.contains("mine");
        assert!(is_right, "{call:?}: {answer:?}");
    }
    for name in names {
        let text = fs::read_to_string(case.below.at(".hearth").join(name)).unwrap();
        assert_eq!(text, mine, "{name}");
    }
}

/// A link of the tree is called like the directory of the control files, or like one in it, and
/// leads to those of another mount: nothing is asked there, believed or changed.
fn follows_nobodys_links_to_another_mount(case: &Case) {
    let other = Mounted::new(Transport::Dev, "hot_track");
    let tune = |mount: &str| succeed(hearth().args(["tune", mount]));
    let quota = |mount: &str| succeed(hearth().args(["quota", "report", mount]));
    let [place, elsewhere] = [case.mounted.path(), other.path()].map(|path| path.to_str().unwrap());
    let before = (tune(elsewhere), quota(elsewhere));
    let plant = |link: &str, target: &str| {
        let link = case.below.at(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(other.at(target), link).unwrap();
    };
    let calls: [&[&str]; 8] = [
        &["quota", "set", "user:1000", "--hard", "1M", place],
        &["ask", place, "quota report"],
        &["tune", place, "fs/read-only=1"],
        &["heat", "off", place],
        &["heat", "top", place],
        &["sched", "limit", "user:1000", "--iops", "1", place],
        &["locks", place, "--for", "10ms"],
        &["stats", place],
    ];
    let refused = || {
        for call in calls {
            let answer = said(hearth().args(call));
            let is_right = answer.err.lines().count() == 1 && answer.out.is_empty();
            assert!(!answer.success() && is_right, "{call:?}: {answer:?}");
        }
        let info = succeed(hearth().args(["info", place]));
        let daemon = other.daemon().to_string();
        let is_other = info.split_whitespace().any(|word| word == daemon);
        assert!(!is_other && !info.contains("memory:"), "{info}");
        assert_eq!((tune(elsewhere), quota(elsewhere)), before);
    };
    plant(".hearth", ".hearth");
    std::thread::sleep(crate::case::WAIT);
    refused();
    fs::remove_file(case.below.at(".hearth")).unwrap();
    for part in ["sys", "ask", "heat", "stats", "locks", "pid"] {
        plant(&format!(".hearth/{part}"), &format!(".hearth/{part}"));
    }
    std::thread::sleep(crate::case::WAIT);
    refused();
}

#[test]
fn a_tunable_that_the_filesystem_below_decides_is_refused_with_that_reason() {
    let case = Case::over(Below::ext4());
    let place = case.mounted.path().to_str().unwrap();
    let tune = |order: &str| said(hearth().args(["tune", place, order]));
    for order in ["fs/atime=noatime", "fs/memory-budget=1048576"] {
        let refused = tune(order);
        let is_right = refused.err.lines().count() == 1 && refused.err.contains("below decides");
        assert!(!refused.success() && is_right, "{refused:?}");
    }
    assert_eq!(tune("fs/atime").out, "relatime\n");
    for order in ["fs/hot-track=1", "fs/read-only=1", "fs/read-only=0"] {
        assert!(tune(order).success(), "{order}");
    }
    fs::write(case.mounted.at("f"), "x").unwrap();
}

/// As in fstab, and over itself.
#[test]
fn a_mount_by_mount_8_and_a_remount_serve_the_directory() {
    let below = Below::ext4();
    fs::write(below.at("f"), "x").unwrap();
    let place = below.outside("place");
    let (bin, helper) = (below.outside("bin"), below.outside("bin/u"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hearth"), helper.join("mount.hearth")).unwrap();
    let source = format!("host:{}", below.path().display());
    // A /sbin with the helper in it, for this script only.
    let script = "exec unshare -m bash -euc '
         trap \"umount -l $PLACE || true\" EXIT; cd /; mkdir $BIN/w
         mount -t overlay -o lowerdir=/sbin,upperdir=$BIN/u,workdir=$BIN/w o /sbin
         echo \"$SOURCE $PLACE hearth rw,transport=dev 0 0\" > $BIN/fstab
         mount -T $BIN/fstab $PLACE > /dev/null; cat $PLACE/f; mount -T $BIN/fstab -a
         findmnt -no FSTYPE,SOURCE $PLACE; umount $PLACE; trap - EXIT'";
    let mut mount = shell(below.path(), script);
    mount.env("BIN", &bin).env("SOURCE", &source);
    let said = succeed(mount.env("PLACE", &place));
    assert!(said.starts_with("xfuse.hearth /"), "{said}");
    // Again and again, each time with what the directory has then.
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    for round in 0..3 {
        fs::write(mounted.at("f"), format!("{round}")).unwrap();
        mounted.unmount();
        assert_eq!(
            fs::read(below.at("f")).unwrap(),
            format!("{round}").as_bytes()
        );
        fs::write(below.at("g"), format!("behind {round}")).unwrap();
        mounted.mount_again(Transport::Dev, "");
        assert_eq!(
            fs::read(mounted.at("g")).unwrap(),
            format!("behind {round}").as_bytes()
        );
    }
    // After a kill too.
    mounted.kill();
    mounted.mount_again(Transport::Dev, "");
    assert_eq!(fs::read(mounted.at("g")).unwrap(), b"behind 2");
}
