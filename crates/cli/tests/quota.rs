//! `hearth quota` on a real mount: every verb, limits as programs meet them, projects, bad input.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Mounted, Said, Transport, hearth, program, said, shell, succeed, until};
use rustix::fs::statvfs;
use rustix::io::Errno;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

const USER: u32 = 1234;

harness::on_both_transports!(
    a_full_user_and_a_full_group_are_told_edquot,
    a_full_project_is_a_full_disk,
    who_is_over_the_limit_can_still_look_rename_and_remove,
    what_comes_from_another_project_is_copied,
    a_volume_of_a_size_takes_that_and_not_one_block_or_inode_more,
);

fn a_volume_of_a_size_takes_that_and_not_one_block_or_inode_more(transport: Transport) {
    let mounted = Mounted::new(transport, "size=1M,inodes=20,quota");
    let file = std::fs::File::create(mounted.at("full")).unwrap();
    let full = |error: std::io::Error| error.raw_os_error() == Some(Errno::NOSPC.raw_os_error());
    let page = |n: u64| file.write_all_at(&[1; 4096], n * 4096);
    assert!((0..256).all(|n| page(n).is_ok()));
    assert!(full(page(256).unwrap_err()));
    let room = statvfs(mounted.path()).unwrap();
    assert_eq!((room.f_blocks * room.f_frsize, room.f_bfree), (1 << 20, 0));
    file.set_len(4096).unwrap();
    assert!((1..256).all(|n| page(n).is_ok()));
    assert!(full(page(256).unwrap_err()));

    let left = room.f_ffree;
    assert_eq!((room.f_files, left > 0), (20, true));
    let make = |n: u64| std::fs::create_dir(mounted.at(format!("d{n}")));
    assert!((0..left).all(|n| make(n).is_ok()));
    assert!(full(make(left).unwrap_err()));
    assert_eq!(statvfs(mounted.path()).unwrap().f_ffree, 0);
    std::fs::remove_dir(mounted.at("d0")).unwrap();
    make(0).unwrap();
}

#[test]
fn names_of_users_are_looked_up() {
    let mounted = Mounted::new(Transport::Dev, "");
    assert!(
        quota(&mounted, "set user:daemon --hard 8KiB @")
            .status
            .success()
    );
    let seen = quota(&mounted, "get user:1 --json @");
    assert!(
        seen.status.success() && seen.out.contains("8192"),
        "{}",
        seen.out
    );
    let seen = quota(&mounted, "get user:daemon @");
    assert!(
        seen.status.success() && seen.out.contains("daemon"),
        "{}",
        seen.out
    );
}

/// Runs `hearth quota`; `@` is the mount point.
fn quota(mounted: &Mounted, typed: &str) -> Said {
    said(&mut command(mounted, hearth(), typed))
}

/// The same as another user.
fn quota_as(uid: u32, mounted: &Mounted, typed: &str) -> Said {
    let hearth = hearth();
    let mut command_of_user = as_user(uid);
    command_of_user.arg(hearth.get_program());
    said(&mut command(mounted, command_of_user, typed))
}

fn command(mounted: &Mounted, mut command: Command, typed: &str) -> Command {
    let mount = mounted.path().to_str().unwrap();
    command.arg("quota");
    command.args(typed.split(' ').map(|word| word.replace('@', mount)));
    command
}

/// Has to work; what it printed.
fn done(mounted: &Mounted, typed: &str) -> String {
    let said = quota(mounted, typed);
    assert!(said.success(), "hearth quota {typed}: {said:?}");
    said.out
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Record of `kind:id`.
fn record(mounted: &Mounted, who: &str) -> Value {
    json(&done(mounted, &format!("get {who} --json @")))["records"][0].clone()
}

/// Use in bytes and inodes.
fn used(mounted: &Mounted, who: &str) -> (u64, u64) {
    let record = record(mounted, who);
    let used = |resource: &str| record[resource]["used"].as_u64().unwrap();
    (used("bytes"), used("inodes"))
}

fn as_user(uid: u32) -> Command {
    let mut command = program("setpriv");
    let uid = uid.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--"]);
    command
}

/// Runs a script as another user in `directory`.
fn user_shell(uid: u32, directory: &Path, script: &str) -> Said {
    let mut command = as_user(uid);
    command.env("LC_ALL", "C").args(["bash", "-c", script]);
    command.current_dir(directory);
    said(&mut command)
}

/// A volume with a directory `d` for everybody.
fn volume(transport: Transport, options: &str) -> Mounted {
    let mounted = Mounted::new(transport, options);
    mounted.shell("mkdir d; chmod 1777 d");
    mounted
}

#[test]
fn set_get_and_report_agree() {
    let mounted = volume(Transport::Dev, "");
    let typed = format!("set user:{USER} --hard 64MiB --soft 1.5M --inodes-hard 5k @");
    assert_eq!(done(&mounted, &typed), "");
    let user = record(&mounted, &format!("user:{USER}"));
    assert_eq!(
        (&user["bytes"]["hard"], &user["bytes"]["soft"]),
        (&(64 << 20).into(), &(3 << 19).into())
    );
    assert_eq!(user["inodes"]["hard"], 5000);
    assert_eq!(user["inodes"]["soft"], Value::Null);
    user_shell(
        USER,
        &mounted.at("d"),
        "head -c 10000 /dev/zero > a; sync a",
    );
    assert_eq!(used(&mounted, &format!("user:{USER}")), (12288, 1));
    // The table has the numbers of repquota's columns.
    let table = done(&mounted, "report -u @");
    assert!(table.starts_with(&format!(
        "*** Report for user quotas on {}",
        mounted.path().display()
    )));
    let row = table
        .lines()
        .find(|line| line.starts_with("#1234"))
        .unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words,
        ["#1234", "--", "12", "1536", "65536", "1", "0", "5000"],
        "{table}"
    );
    assert!(
        table.lines().any(|line| line.starts_with("root ")),
        "{table}"
    );
    assert!(!done(&mounted, "report -u -n @").contains("root"));
    assert!(done(&mounted, "report -u -s @").contains(" 64M "));
    let whole = done(&mounted, "report @");
    let order = [
        "Room of the volume",
        "user quotas",
        "group quotas",
        "project quotas",
    ];
    let places = order.map(|head| {
        whole
            .find(head)
            .unwrap_or_else(|| panic!("{head}: {whole}"))
    });
    assert!(places.is_sorted());
    // The file, the report and the question say the same.
    let file = std::fs::read_to_string(mounted.at(".hearth/quota/report.json")).unwrap();
    let report = json(&done(&mounted, "report --json @"));
    assert_eq!(json(&file)["records"], report["records"]);
    assert_eq!(report["owner"], 0);
    let ids = |kind: &str| -> Vec<u64> {
        let all = report["records"].as_array().unwrap().iter();
        let of = all.filter(|r| r["kind"] == kind);
        of.map(|r| r["id"].as_u64().unwrap()).collect()
    };
    assert_eq!((ids("volume"), ids("user")), (vec![0], vec![0, 1234]));
    // Limits are lifted one by one, or all at once.
    done(
        &mounted,
        &format!("set user:{USER} --soft none --inodes-hard 0 @"),
    );
    let user = record(&mounted, &format!("user:{USER}"));
    assert_eq!(
        (&user["bytes"]["soft"], &user["inodes"]["hard"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(user["bytes"]["own"], true);
    done(&mounted, &format!("set user:{USER} --clear @"));
    assert_eq!(
        record(&mounted, &format!("user:{USER}"))["bytes"]["own"],
        false
    );
    // The volume's own room.
    done(&mounted, "set volume --hard 1G --inodes-hard 1000 @");
    let df = mounted.shell("df --output=size,itotal -B1 . | tail -1");
    let words: Vec<&str> = df.split_whitespace().collect();
    assert_eq!(words, ["1073741824", "1000"]);
}

#[test]
fn defaults_grace_and_enforcement_are_set_by_kind_and_by_id() {
    let mounted = volume(Transport::Dev, "");
    done(&mounted, "default user --hard 8k --inodes-soft 1 @");
    let default = json(&done(&mounted, "default user --json @"));
    assert_eq!(
        (&default["bytes"]["hard"], &default["enforced"]),
        (&8192.into(), &true.into())
    );
    assert!(done(&mounted, "default user @").contains("8192"));
    let over = user_shell(
        USER,
        &mounted.at("d"),
        "dd if=/dev/zero of=a bs=4k count=3 oflag=dsync",
    );
    assert!(
        !over.success() && over.err.contains("Disk quota exceeded"),
        "{over:?}"
    );
    done(&mounted, "off user @");
    let free = user_shell(
        USER,
        &mounted.at("d"),
        "dd if=/dev/zero of=a bs=4k count=3 oflag=dsync",
    );
    assert!(free.success(), "{free:?}");
    assert!(done(&mounted, "report -u @").contains("enforcement is off"));
    done(&mounted, "on user @");
    assert_eq!(
        used(&mounted, &format!("user:{USER}")).0,
        12288,
        "counted all the time"
    );
    let again = user_shell(
        USER,
        &mounted.at("d"),
        "dd if=/dev/zero of=b bs=4k count=4 oflag=dsync",
    );
    assert!(again.err.contains("Disk quota exceeded"), "{again:?}");
    // Above its soft limit of inodes now (b was made); the period ends at once.
    let grace = |of: &str| record(&mounted, of)["inodes"]["grace"].clone();
    let who = format!("user:{USER}");
    assert_eq!(grace(&who), 604_800);
    done(&mounted, "grace user --inodes 12h @");
    assert_eq!(grace(&who), 43_200);
    done(&mounted, &format!("grace {who} --inodes 0 @"));
    assert_eq!((grace(&who), grace("user:77")), (0.into(), 43_200.into()));
    let late = user_shell(USER, &mounted.at("d"), "mkdir c");
    assert!(late.err.contains("Disk quota exceeded"), "{late:?}");
    assert!(
        done(&mounted, "report -u @").contains("none"),
        "grace has ended"
    );
    done(&mounted, &format!("grace {who} --inodes default @"));
    assert_eq!(grace(&who), 43_200);
    assert!(user_shell(USER, &mounted.at("d"), "mkdir c").success());
}

fn a_full_user_and_a_full_group_are_told_edquot(transport: Transport) {
    let mounted = volume(transport, "");
    done(
        &mounted,
        &format!("set user:{USER} --hard 64k --inodes-hard 3 @"),
    );
    let script = "touch 1 2 3; touch 4 || true; dd if=/dev/zero of=1 bs=4k count=17 oflag=dsync";
    let over = user_shell(USER, &mounted.at("d"), script);
    let told = over.err.matches("Disk quota exceeded").count();
    assert!(!over.success() && told == 2, "{over:?}");
    assert_eq!(used(&mounted, &format!("user:{USER}")), (64 << 10, 3));
    done(&mounted, "set group:777 --inodes-hard 1 @");
    mounted.shell("mkdir g; chgrp 777 g; chmod 2777 g");
    let group = user_shell(4321, &mounted.at("g"), "touch no");
    assert!(
        group.err.contains("Disk quota exceeded"),
        "the directory is the one: {group:?}"
    );
    // chgrp into a full group, as its member.
    let member = "setpriv --reuid 4321 --regid 4321 --groups 777 chgrp 777 d/mine";
    mounted.shell("touch d/mine; chown 4321:4321 d/mine");
    let moved = said(&mut shell(mounted.path(), member));
    assert!(moved.err.contains("Disk quota exceeded"), "{moved:?}");
    assert!(done(&mounted, "check @").contains("inodes walked"));
}

fn a_full_project_is_a_full_disk(transport: Transport) {
    let mounted = volume(transport, "");
    mounted.shell(
        "mkdir -p d/p/sub; head -c 8192 /dev/zero > d/p/sub/a; ln -s a d/p/link; sync d/p/sub/a",
    );
    let made = done(&mounted, "project @/d/p 7");
    assert!(made.contains("4 inodes changed, 0 were so"), "{made}");
    let made = json(&done(&mounted, "project @/d/p 7 --json"));
    assert_eq!((&made["changed"], &made["kept"]), (&0.into(), &4.into()));
    assert_eq!(used(&mounted, "project:7"), (8192, 4));
    assert_eq!(
        mounted.shell("lsattr -pd d/p/sub | tr -s ' ' | cut -d' ' -f2"),
        "7\n"
    );
    done(&mounted, "set project:7 --hard 1MiB --inodes-hard 6 @");
    let df = |at: &str| {
        let df = format!("df -B1 --output=size,avail,itotal,iavail {at} | tail -1");
        let numbers = mounted.shell(&df);
        let numbers = numbers
            .split_whitespace()
            .map(|n| n.parse::<u64>().unwrap());
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(df("d/p"), [1 << 20, (1 << 20) - 8192, 6, 2]);
    assert_eq!(df("d/p/sub"), df("d/p"));
    assert!(df("d")[0] > 1 << 20);
    // Root is told as well: the limit is the project's, not a user's.
    let fill = "dd if=/dev/zero of=d/p/big bs=4k count=1000 conv=fsync";
    let full = said(&mut shell(mounted.path(), fill));
    assert!(
        !full.success() && full.err.contains("No space left on device"),
        "{full:?}"
    );
    assert_eq!(used(&mounted, "project:7").0, 1 << 20);
    assert_eq!(df("d/p")[1], 0);
    mounted.shell("mkdir d/p/last; if mkdir d/p/none; then exit 9; fi; rm d/p/big; mkdir d/p/now");
    done(&mounted, "project @/d/p/sub 8");
    mounted.shell("touch d/p/sub/b");
    assert_eq!(used(&mounted, "project:8"), (8192, 3), "the nearest counts");
    done(&mounted, "project @/d/p 0");
    assert_eq!(
        (used(&mounted, "project:7"), used(&mounted, "project:8")),
        ((0, 0), (0, 0))
    );
    let clean = json(&done(&mounted, "check --json @"));
    assert_eq!(clean["clean"], true, "{clean}");
}

fn who_is_over_the_limit_can_still_look_rename_and_remove(transport: Transport) {
    let mounted = volume(transport, "");
    let home = mounted.at("d");
    let full =
        "mkdir h; cd h; for i in $(seq 20); do head -c 4096 /dev/zero > f$i; done; sync -f .";
    assert!(user_shell(USER, &home, full).success());
    // Below use: nothing is taken away, growth is refused.
    done(
        &mounted,
        &format!("set user:{USER} --hard 8k --inodes-hard 2 @"),
    );
    assert_eq!(used(&mounted, &format!("user:{USER}")), (20 * 4096, 21));
    let script = "set -e; cd h; HOME=$PWD bash -l -c ls > /dev/null; \
         ls -l > /dev/null; cat f1 > /dev/null; mv f1 g1; ln g1 g2; rm g2; \
         chmod 600 g1; touch g1; echo again 1<> g1 >&1; sync g1; truncate -s 0 f2; rm f3; \
         exec 2> /dev/null; if touch new; then exit 8; fi; \
         if bash -c 'head -c 9000 /dev/zero >> f4 && sync f4'; then exit 9; fi; \
         rm f*; rm g1; cd ..; rmdir h; touch h; head -c 8192 /dev/zero > h; sync h";
    let said = user_shell(USER, &home, script);
    assert!(said.success(), "{said:?}");
    assert_eq!(used(&mounted, &format!("user:{USER}")), (8192, 1));
    done(&mounted, "check @");
}

fn what_comes_from_another_project_is_copied(transport: Transport) {
    let mounted = volume(transport, "");
    mounted.shell(
        "mkdir d/p d/q d/q/dir; head -c 9000 /dev/zero > d/q/f; echo x > d/q/dir/x; sync -f .",
    );
    done(&mounted, "project @/d/p 7");
    let link = said(&mut shell(mounted.path(), "ln d/q/f d/p/f"));
    assert!(link.err.contains("Invalid cross-device link"), "{link:?}");
    let inode = mounted.shell("stat -c %i d/q/f");
    mounted.shell("mv d/q/f d/p/f; mv d/q/dir d/p/dir");
    assert_ne!(mounted.shell("stat -c %i d/p/f"), inode, "a copy");
    assert_eq!(used(&mounted, "project:7"), (12288 + 4096, 4));
    // Inside and out again it is a rename.
    let inode = mounted.shell("stat -c %i d/p/f");
    mounted.shell("mv d/p/f d/p/dir/f; mv d/p/dir/f d/q/f");
    assert_eq!(mounted.shell("stat -c %i d/q/f"), inode);
    assert_eq!(
        used(&mounted, "project:7").1,
        4,
        "and it stays charged where it was"
    );
    done(&mounted, "check @");
}

#[test]
fn chattr_lsattr_and_xfs_io_speak_of_the_same_projects() {
    let mounted = volume(Transport::Dev, "");
    mounted.shell("mkdir d/p; touch d/p/f; chattr +P -p 42 d/p; chattr -p 42 d/p/f");
    let flags = mounted.shell("lsattr -pd d/p; lsattr -p d/p");
    let words: Vec<&str> = flags.split_whitespace().collect();
    assert!(
        words[0] == "42" && words[1].contains('P') && words[3] == "42",
        "{flags}"
    );
    mounted.shell("mkdir d/p/sub; touch d/p/sub/g");
    assert_eq!(used(&mounted, "project:42"), (0, 4), "inherited");
    assert_eq!(
        mounted.shell("xfs_io -r -c lsproj d/p/sub"),
        "projid = 42\n"
    );
    mounted.shell("xfs_io -r -c 'chproj 43' d/p/sub");
    assert_eq!(
        (
            used(&mounted, "project:42").1,
            used(&mounted, "project:43").1
        ),
        (3, 1)
    );
    // What does not belong to the owner of the mount is the owner of the mount's to say.
    mounted.shell(&format!("chown -R {USER} d/p"));
    let stranger = user_shell(USER, &mounted.at("d"), "chattr -p 1 p/f");
    assert!(
        stranger.err.contains("Operation not permitted"),
        "{stranger:?}"
    );
    assert_eq!(used(&mounted, "project:42").1, 3);
}

#[test]
fn a_user_sees_their_own_and_sets_nothing() {
    let mounted = volume(Transport::Dev, "");
    done(&mounted, &format!("set user:{USER} --hard 1M @"));
    done(&mounted, "set user:5 --hard 1M @");
    let own = quota_as(USER, &mounted, "get --json @");
    let own = json(&own.out);
    let shown: Vec<(&str, u64)> = own["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["kind"].as_str().unwrap(), r["id"].as_u64().unwrap()))
        .collect();
    assert_eq!(shown, [("user", 1234), ("group", 1234)]);
    assert_eq!(own["records"][0]["bytes"]["hard"], 1 << 20);
    let report = quota_as(USER, &mounted, "report --json -u @");
    assert_eq!(
        json(&report.out)["records"].as_array().unwrap().len(),
        1,
        "{report:?}"
    );
    let before = done(&mounted, "report --json @");
    let who = format!("user:{USER}");
    for typed in [
        format!("set {who} --hard 1G @"),
        format!("set {who} --clear @"),
        "default user --hard 1G @".to_owned(),
        "grace user --bytes 1d @".to_owned(),
        format!("grace {who} --bytes 1d @"),
        "off user @".to_owned(),
        "project @/d 7".to_owned(),
        "check @".to_owned(),
        "events @".to_owned(),
    ] {
        let said = quota_as(USER, &mounted, &typed);
        refused(
            &typed,
            &said,
            1,
            &["only root and user root, the owner of the volume"],
        );
        assert_eq!(done(&mounted, "report --json @"), before, "{typed}");
    }
    let other = quota_as(USER, &mounted, "get user:root @");
    refused(
        "get user:root",
        &other,
        1,
        &["user:root is not yours to see"],
    );
    let file = as_user(USER)
        .arg("cat")
        .arg(mounted.at(".hearth/quota/report.json"))
        .output();
    assert!(!file.unwrap().status.success());
}

/// What is typed, the status, words of the answer.
const WRONG: &[(&str, i32, &[&str])] = &[
    (
        "set user:1234 --hard -5 @",
        2,
        &["'-5'", "--hard", "not negative"],
    ),
    (
        "set user:1234 --inodes-soft -1k @",
        2,
        &["'-1k'", "not negative"],
    ),
    (
        "set user:1234 --hard 99999999T @",
        2,
        &["'99999999T'", "above 9223372036854775807"],
    ),
    (
        "set user:1234 --hard 9223372036854775808 @",
        2,
        &["above 9223372036854775807"],
    ),
    ("set user:1234 --hard 12q @", 2, &["'12q'", "KiB"]),
    ("set user:1234 --inodes-hard 0.5 @", 2, &["'0.5'", "whole"]),
    (
        "set user:1234 --soft 2M @",
        1,
        &[
            "user:1234",
            "soft limit of 2097152 bytes",
            "hard limit of 1048576",
        ],
    ),
    (
        "set user:1234 --inodes-hard 9 --soft 2M @",
        1,
        &["user:1234", "above the hard limit"],
    ),
    (
        "set user:1234 --hard 1k --soft 2k @",
        1,
        &["soft limit of 2048 bytes", "of 1024"],
    ),
    ("set user:1234 @", 2, &["user:1234", "--hard"]),
    (
        "set user:nobody-of-that-name --hard 1M @",
        2,
        &["no user 'nobody-of-that-name'", "number"],
    ),
    (
        "set group:none-such --hard 1M @",
        2,
        &["no group 'none-such'", "number"],
    ),
    (
        "set project:none-such --hard 1M @",
        2,
        &["no project 'none-such'", "/etc/projid"],
    ),
    (
        "set user:4294967295 --hard 1M @",
        2,
        &["user 4294967295", "0 to 4294967294"],
    ),
    (
        "set user:-1 --hard 1M @",
        2,
        &["user -1", "0 to 4294967294"],
    ),
    ("set tree:7 --hard 1M @", 2, &["'tree:7'", "user:NAME"]),
    (
        "set user:0 --hard 1M @",
        1,
        &["root", "never limited", "defaults"],
    ),
    ("set volume --soft 1M @", 1, &["volume", "hard limits"]),
    ("set volume --clear @", 1, &["volume", "hard limits"]),
    (
        "set user:1234 --clear --hard 1M @",
        2,
        &["--clear", "--hard"],
    ),
    ("set user:1234 --hard 1M", 2, &["MOUNT"]),
    ("set user:1234 --hard 1M /proc", 1, &["/proc", "findmnt"]),
    (
        "set user:1234 --hard 1M @/d",
        1,
        &["/d", "not the top of a Hearth mount"],
    ),
    ("get nobody @", 2, &["'nobody'", "user:NAME"]),
    ("get user:4294967295 @", 2, &["0 to 4294967294"]),
    (
        "default volume --hard 1M @",
        2,
        &["'volume'", "user, group, project"],
    ),
    (
        "default user --hard 1k --soft 2k @",
        1,
        &["user quotas", "soft limit of 2048"],
    ),
    (
        "grace user --bytes 7y @",
        2,
        &["'7y'", "--bytes", "s, m, h, d or w"],
    ),
    ("grace user --bytes -7d @", 2, &["'-7d'", "not negative"]),
    (
        "grace user --bytes default @",
        1,
        &["default", "whole kind"],
    ),
    (
        "grace user:1234 @",
        2,
        &["user:1234", "--bytes or --inodes"],
    ),
    ("grace volume --bytes 1d @", 1, &["volume", "no grace"]),
    (
        "on everything @",
        2,
        &["'everything'", "user, group, project"],
    ),
    ("off volume @", 2, &["'volume'"]),
    ("project @/d/file 7", 1, &["/d/file", "not a directory"]),
    (
        "project @/d/missing 7",
        1,
        &["/d/missing", "No such file or directory"],
    ),
    (
        "project @/d 4294967295",
        2,
        &["4294967295", "0 to 4294967294"],
    ),
    ("project @/d -7", 2, &["-7", "0 to 4294967294"]),
    ("project @/d none-such", 2, &["no project 'none-such'"]),
    ("project /proc 7", 1, &["/proc", "findmnt"]),
    ("project @/.hearth 7", 1, &["/.hearth", "not a directory"]),
    ("check @/d", 1, &["not the top of a Hearth mount"]),
    ("events --after x @", 2, &["'x'"]),
    ("frobnicate @", 2, &["'frobnicate'"]),
];

#[test]
fn what_is_typed_wrong_is_answered_with_one_line_and_changes_nothing() {
    let mounted = volume(Transport::Dev, "");
    mounted.shell("head -c 5000 /dev/zero > d/file; sync d/file");
    done(&mounted, "set user:1234 --hard 1M --inodes-hard 10 @");
    let before = done(&mounted, "report --json @");
    for (typed, status, words) in WRONG {
        refused(typed, &quota(&mounted, typed), *status, words);
        assert_eq!(done(&mounted, "report --json @"), before, "{typed}");
    }
    done(&mounted, "check @");
}

#[test]
fn a_question_that_makes_no_sense_to_the_volume_is_refused_too() {
    let mounted = volume(Transport::Dev, "");
    let before = done(&mounted, "report --json @");
    for (asked, words) in [
        ("set user:1 bytes-hard=-1", "bytes-hard=-1"),
        ("set user:1 bytes-hard=99999999999999999999", "bytes-hard="),
        (
            "set user:1 bytes-hard=9223372036854775808",
            "above 9223372036854775807",
        ),
        ("set user:4294967295 bytes-hard=1", "user:4294967295"),
        ("set user:4294967296 bytes-hard=1", "user:ID"),
        ("set user:1 bytes-hard", "with a number or none"),
        ("set user:1 frob=1", "frob=1"),
        ("set user:1", "set user:1"),
        ("project 1 4294967295", "0 to 4294967294"),
        ("project 1 4294967296", "0 to 4294967294"),
        ("project 999999999 7", "999999999"),
        ("grace user bytes=x", "'x'"),
        (
            "grace user bytes=9223372036854775808",
            "above 9223372036854775807",
        ),
        ("on volume", "user, group or project"),
        ("frobnicate", "report, get, set"),
        ("", "report, get, set"),
    ] {
        let mut ask = hearth();
        ask.arg("ask").arg(mounted.path()).arg("quota");
        ask.args(asked.split(' '));
        refused(asked, &said(&mut ask), 1, &[words]);
        assert_eq!(done(&mounted, "report --json @"), before, "{asked}");
    }
}

fn refused(typed: &str, said: &Said, status: i32, words: &[&str]) {
    assert_eq!(said.status.code(), Some(status), "{typed}: {said:?}");
    assert!(said.out.is_empty(), "{typed}: {said:?}");
    let is_line = said.err.starts_with("hearth: ") && said.err.lines().count() == 1;
    assert!(is_line, "{typed}: {said:?}");
    for word in words {
        assert!(said.err.contains(word), "{typed}: no {word:?} in {said:?}");
    }
}

#[test]
fn crossing_a_limit_is_told_in_the_file_by_the_verb_and_in_the_log() {
    let mounted = volume(Transport::Dev, "");
    done(
        &mounted,
        &format!("set user:{USER} --inodes-soft 1 --inodes-hard 2 @"),
    );
    let mut follow = command(&mounted, hearth(), "events --follow --json @");
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    user_shell(
        USER,
        &mounted.at("d"),
        "touch a b; touch c 2>/dev/null; rm a b",
    );
    let next = |lines: &mut dyn Iterator<Item = std::io::Result<String>>| {
        json(&lines.next().unwrap().unwrap())
    };
    let events: Vec<Value> = (0..3).map(|_| next(&mut lines)).collect();
    follow.kill().unwrap();
    follow.wait().unwrap();
    let what: Vec<&str> = events.iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["soft-crossed", "refused-hard", "soft-returned"]);
    let crossed = &events[0];
    assert_eq!(
        (&crossed["kind"], &crossed["id"]),
        (&"user".into(), &USER.into())
    );
    assert_eq!(
        (&crossed["used"], &crossed["limit"]),
        (&2.into(), &1.into())
    );
    let period = crossed["deadline"].as_i64().unwrap() - crossed["time"].as_i64().unwrap();
    assert_eq!(period, 604_800);
    let file = std::fs::read_to_string(mounted.at(".hearth/quota/events")).unwrap();
    assert_eq!(done(&mounted, "events @"), file);
    assert_eq!(done(&mounted, "events --after 2 @").lines().count(), 1);
    let logged = format!("hearth: quota: {}\n", file.lines().nth(1).unwrap());
    until("the event is in the log", || {
        mounted.log().contains(&logged)
    });
    // What happens last is told as well.
    user_shell(USER, &mounted.at("d"), "touch a b");
    mounted.unmount();
    assert!(mounted.log().contains(" 4 "), "{}", mounted.log());
}

#[test]
fn pages_and_completions_know_the_verbs() {
    let private = harness::Private::new();
    succeed(hearth().arg("man").arg(private.path()));
    let page = std::fs::read_to_string(private.path().join("hearth-quota-set.1")).unwrap();
    assert!(
        page.contains("inodes\\-hard") && page.contains("volume"),
        "{page}"
    );
    let page = std::fs::read_to_string(private.path().join("hearth-quota.1")).unwrap();
    assert!(
        page.contains("512MiB") && page.contains("/etc/projid"),
        "{page}"
    );
    let bash = succeed(hearth().args(["completions", "bash"]));
    assert!(
        bash.contains("hearth__subcmd__quota__subcmd__set") || bash.contains("hearth__quota__set")
    );
}
