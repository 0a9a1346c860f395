//! `hearth quota` on a real mount: every verb, limits as programs meet them, projects, names.

use crate::{harness, quotas};

use harness::{Mounted, Transport, hearth, program, said, shell, succeed};
use quotas::{USER, done, json, quota, record, used, user_shell, volume};
use rustix::fs::statvfs;
use rustix::io::Errno;
use serde_json::Value;
use std::os::unix::fs::FileExt;

harness::on_both_transports!(
    a_full_user_and_a_full_group_are_told_edquot,
    a_full_project_is_a_full_disk,
    who_is_over_the_limit_can_still_look_rename_and_remove,
    what_comes_from_another_project_is_copied,
    a_volume_of_a_size_takes_that_and_not_one_block_or_inode_more,
    set_get_and_report_agree,
    defaults_grace_and_enforcement_are_set_by_kind_and_by_id,
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

#[test]
fn what_nobody_would_hear_fails_where_opens_are_not_reported() {
    let mounted = Mounted::new(Transport::Dev, "no_open");
    let place = mounted.path().to_str().unwrap();
    let calls: [&[&str]; 15] = [
        &["quota", "set", "user:1000", "--hard", "1M", place],
        &["quota", "off", "user", place],
        &["quota", "report", place],
        &["quota", "get", "user:1000", place],
        &["quota", "check", place],
        &["quota", "events", place],
        &["sched", "limit", "user:1000", "--iops", "1", place],
        &["heat", "on", place],
        &["heat", "off", place],
        &["heat", "top", place],
        &["heat", "import", place, "/dev/null"],
        &["locks", place, "--for", "10ms"],
        &["tune", place, "fs/read-only=1"],
        &["ask", place, "help"],
        &["sync", place],
    ];
    for call in calls {
        let said = said(hearth().args(call));
        let words = ["control files are empty", "no_open", "mount without"];
        harness::refused(&call.join(" "), &said, 1, &words);
    }
}

#[test]
fn names_of_projects_are_looked_up() {
    let mounted = volume(Transport::Dev, "");
    mounted.shell("mkdir d/p d/q");
    let place = mounted.outside("names");
    std::fs::create_dir(place.join("etc")).unwrap();
    let list = "# name:number\nbuild:42\nscratch: 43\n";
    std::fs::write(place.join("etc/projid"), list).unwrap();
    // In a mount namespace of its own the machine knows two projects.
    let script = r#"
        mount -t overlay -o "lowerdir=$PWD/etc:/etc" overlay /etc
        quota() { "$HEARTH" quota "$@"; }
        quota project "$MOUNT/d/p" build
        quota project "$MOUNT/d/q" 43
        quota set project:build --hard 64k --inodes-hard 10 "$MOUNT"
        quota grace project:build --bytes 1d "$MOUNT"
        head -c 5000 /dev/zero > "$MOUNT/d/p/f"; sync "$MOUNT/d/p/f"
        quota get project:build "$MOUNT" | grep '^build'
        quota report -p "$MOUNT" | grep -e '^build' -e '^scratch'
        quota report -p -n "$MOUNT" | grep -c -e '^#42' -e '^#43'
        quota set project:build --soft 1M "$MOUNT" 2>&1 || true
    "#;
    let mut namespace = program("unshare");
    namespace.args(["--mount", "bash", "-euo", "pipefail", "-c", script]);
    namespace.env("HEARTH", hearth().get_program());
    namespace.env("MOUNT", mounted.path()).current_dir(&place);
    let out = succeed(&mut namespace);
    let lines: Vec<String> = out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let at = |name: &str| mounted.at(name).display().to_string();
    let expected = [
        format!("hearth: {}: project:build; 1 inodes changed, 0 were so already", at("d/p")),
        format!("hearth: {}: project:scratch; 1 inodes changed, 0 were so already", at("d/q")),
        "build -- 8 0 64 2 0 10".to_owned(),
        "build -- 8 0 64 2 0 10".to_owned(),
        "scratch -- 0 0 0 1 0 0".to_owned(),
        "2".to_owned(),
        "hearth: project:build (42): soft limit of 1048576 bytes is above the hard limit of 65536; \
         raise that too"
            .to_owned(),
    ];
    assert_eq!(lines, expected);
    // Outside nobody knows the names.
    let project = record(&mounted, "project:42");
    let numbers = [&project["bytes"]["hard"], &project["bytes"]["grace"]];
    assert_eq!(numbers, [&Value::from(65_536), &Value::from(86_400)]);
    assert!(done(&mounted, "report -p @").contains("#42 "));
    assert!(!quota(&mounted, "get project:build @").success());
}

fn set_get_and_report_agree(transport: Transport) {
    let mounted = volume(transport, "");
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

fn defaults_grace_and_enforcement_are_set_by_kind_and_by_id(transport: Transport) {
    let mounted = volume(transport, "");
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
