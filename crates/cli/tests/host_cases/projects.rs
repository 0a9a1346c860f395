//! Project ids over a filesystem that keeps them itself: it has them, before and after.

use crate::case::Case;
use crate::harness::{Below, Mounted, Transport, said, shell, succeed};
use crate::quotas::{command, done, json, quota, used};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// A mount with the state beside the directory.
fn over(below: &Below, options: &str) -> Mounted {
    let state = below.path().with_file_name("state");
    let options = format!("quota=wait,state={}{options}", state.display());
    Mounted::over(Transport::Dev, below.path(), &options)
}

/// The project ids of names below a directory, as the filesystem keeps them.
fn ids(directory: &Path, names: &str) -> String {
    let script = format!("for f in {names}; do lsattr -dp $f | awk '{{print $1}}'; done");
    let said = succeed(&mut shell(directory, &script));
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn projects_of_xfs_are_set_inherited_and_kept_apart_as_xfs_does() {
    Case::on(Below::xfs).agrees(
        "projects",
        r##"
id() { lsattr -dp "$@" | awk '{print $1}'; }
mv_() { perl -e 'rename($ARGV[0], $ARGV[1]) or die "$!\n"' "$@"; }
mkdir p q; echo a > p/before; echo q > q/f
chattr -p 7 p; id p p/before
echo b > p/plain; id p/plain
try mv_ q/f p/f; try mv_ p/f q/f
chattr +P p; lsattr -d p | cut -d' ' -f1
echo c > p/in; mkdir -p p/sub/deep; id p/in p/sub p/sub/deep
try mv_ q/f p/f; try ln q/f p/f; try mv_ p/sub q/sub; id q/sub/deep
try mv_ p/plain q/plain; try mv_ q/plain p/plain
chattr -p 7 q/f; try mv_ q/f p/f; id p/f
chattr -P p; echo d > p/last; id p/last
chattr -p 8 p/in; id p/in p
try U chattr -p 9 p/in; id p/in
"##,
    );
}

#[test]
fn a_tree_with_projects_of_xfs_is_counted_limited_and_stays_so() {
    let below = Below::xfs();
    let make = "mkdir p p/sub other; chattr -p 7 p p/sub; chattr +P p p/sub; \
                head -c 8192 /dev/zero > p/f; ln p/f p/g; head -c 4096 /dev/zero > p/sub/f; \
                ln -s f p/link; mkfifo p/fifo; head -c 4096 /dev/zero > other/f";
    succeed(&mut shell(below.path(), make));
    let mounted = over(&below, "");
    assert_eq!(used(&mounted, "project:7"), (12288, 6));
    done(&mounted, "set project:7 --hard 40KiB --inodes-hard 8 @");
    let error = fs::write(mounted.at("p/sub/big"), vec![1; 100_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(used(&mounted, "project:7"), (40960, 7));
    assert_eq!(ids(below.path(), "p/sub/big"), "7", "XFS has given it");
    done(&mounted, "check @");
    // What moves out stays in its project: XFS has no rule against it.
    fs::rename(mounted.at("p/f"), mounted.at("other/moved")).unwrap();
    assert_eq!(used(&mounted, "project:7"), (40960, 7));
    // A directory that passes nothing on.
    succeed(&mut shell(
        &mounted.at("."),
        "chattr -P p/sub; rm p/sub/big",
    ));
    fs::write(mounted.at("p/sub/free"), vec![1; 50_000]).unwrap();
    assert_eq!(used(&mounted, "project:7"), (12288, 6));
    assert_eq!(ids(below.path(), "p/sub/free other/moved"), "0 7");
    done(&mounted, "check @");
    let records = |mounted: &Mounted| json(&done(mounted, "report --json @"))["records"].take();
    let before = records(&mounted);
    mounted.unmount();
    let mounted = over(&below, "");
    assert_eq!(records(&mounted), before);
    mounted.unmount();
}

#[test]
fn a_tree_that_becomes_a_project_is_one_of_xfs_after_the_mount() {
    let below = Below::xfs();
    let make = "mkdir -p t/a/b; for f in t/1 t/a/2 t/a/b/3; do head -c 4096 /dev/zero > $f; done; \
                ln t/1 t/one; ln -s 1 t/link; mkfifo t/fifo; chattr -p 5 t/a/2";
    succeed(&mut shell(below.path(), make));
    let mounted = over(&below, "");
    let open = fs::File::open(mounted.at("t/1")).unwrap();
    assert_eq!(used(&mounted, "project:5"), (4096, 1));
    done(&mounted, "project @/t 9");
    assert_eq!(used(&mounted, "project:5"), (0, 0));
    let all = used(&mounted, "project:9");
    done(&mounted, "check @");
    fs::write(mounted.at("t/a/b/new"), [1; 4096]).unwrap();
    assert_eq!(used(&mounted, "project:9"), (all.0 + 4096, all.1 + 1));
    drop(open);
    mounted.unmount();
    let names = "t t/a t/a/b t/1 t/one t/a/2 t/a/b/3 t/a/b/new";
    assert_eq!(ids(below.path(), names), "9 9 9 9 9 9 9 9");
    let flags = succeed(&mut shell(
        below.path(),
        "lsattr -d t t/a t/a/b | cut -d' ' -f1",
    ));
    assert!(flags.lines().all(|line| line.contains('P')), "{flags}");
    let told = succeed(&mut shell(
        below.path(),
        "xfs_quota -x -c 'project -c -p t 9' .",
    ));
    assert!(!told.contains("is not set"), "{told}");
    let mounted = over(&below, "");
    assert_eq!(used(&mounted, "project:9"), (all.0 + 4096, all.1 + 1));
    done(&mounted, "project @/t 0");
    assert_eq!(used(&mounted, "project:9"), (0, 0));
    mounted.unmount();
    assert_eq!(ids(below.path(), names), "0 0 0 0 0 0 0 0");
}

#[test]
fn projects_that_others_change_behind_show_in_a_check() {
    let below = Below::xfs();
    succeed(&mut shell(below.path(), "mkdir d"));
    let mounted = over(&below, "");
    fs::write(mounted.at("d/f"), [1; 8192]).unwrap();
    succeed(&mut shell(below.path(), "chattr -p 3 d/f"));
    let check = said(&mut command(&mounted, crate::harness::hearth(), "check @"));
    // The file is in use, so a check charges it anew.
    assert_eq!(used(&mounted, "project:3"), (8192, 1), "{check:?}");
    succeed(&mut shell(
        below.path(),
        "mkdir e; head -c 4096 /dev/zero > e/f; chattr -p 3 e/f",
    ));
    assert!(!quota(&mounted, "check @").success());
    done(&mounted, "check --repair @");
    assert_eq!(used(&mounted, "project:3"), (12288, 2));
    for _ in 0..2 {
        done(&mounted, "check @");
    }
    mounted.unmount();
}

/// An older version wrote all projects down beside.
#[test]
fn projects_that_were_written_down_go_on_to_count() {
    let below = Below::xfs();
    let state = below.path().with_file_name("state");
    succeed(&mut shell(below.path(), "mkdir p"));
    let first = over(&below, "");
    first.unmount();
    let find = format!("find {} -name projects", state.display());
    let kept = succeed(&mut shell(below.path(), &find));
    fs::write(kept.trim(), "1:t2.0\t7\n").unwrap();
    let mounted = over(&below, "");
    done(&mounted, "project @/p 8");
    fs::write(mounted.at("p/f"), [1; 4096]).unwrap();
    assert_eq!(used(&mounted, "project:8"), (4096, 2));
    assert_eq!(ids(below.path(), "p p/f"), "0 0");
    mounted.unmount();
}
