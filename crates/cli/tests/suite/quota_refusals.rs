//! What `hearth quota` refuses: one line that names whose quota it is, which limit, and the number;
//! and nothing has changed.

use crate::{harness, quotas};

use harness::{Transport, hearth, said, until};
use quotas::{USER, done, quota, refused, volume};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, chown};

harness::on_both_transports!(a_refusal_names_the_quota_the_limit_and_the_number);

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
    ("set user:1234 --force @", 2, &["user:1234", "--hard"]),
    (
        "default user --force @",
        2,
        &["user quotas", "--force without a limit", "--inodes-soft"],
    ),
    (
        "default project --force --json @",
        2,
        &["project quotas", "--force without a limit"],
    ),
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
    ("set volume --clear @", 1, &["volume", "no defaults"]),
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
        &["/d/missing", "does not exist"],
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
        (
            "default user",
            "'default user' is not understood; expected bytes-hard=",
        ),
        (
            "default user force",
            "'default user' is not understood; expected bytes-hard=",
        ),
        ("project 1 4294967295", "0 to 4294967294"),
        ("project 1 4294967296", "0 to 4294967294"),
        ("project 999999999 7", "999999999"),
        ("grace user bytes=x", "user quotas: 'bytes=x'"),
        ("grace user bytes=default", "seconds for a whole kind"),
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

fn a_refusal_names_the_quota_the_limit_and_the_number(transport: Transport) {
    let mounted = volume(transport, "");
    done(&mounted, "set user:1234 --hard 1M --inodes-hard 10 @");
    let kind = "the volume has no defaults, no grace and is always enforced; name a kind of quota";
    for (typed, line) in [
        (
            "set user:1234 --soft 2M @",
            "user:1234: soft limit of 2097152 bytes is above the hard limit of 1048576; raise \
             that too",
        ),
        (
            "set group:daemon --inodes-soft 3 --inodes-hard 2 @",
            "group:daemon (1): soft limit of 3 inodes is above the hard limit of 2; raise that too",
        ),
        (
            "default project --hard 1k --soft 2k @",
            "project quotas: soft limit of 2048 bytes is above the hard limit of 1024; raise that \
             too",
        ),
        (
            "set user:0 --hard 1M @",
            "user root is never limited; set defaults for the kind instead",
        ),
        (
            "set volume --soft 1M @",
            "volume: soft limit of 1048576 bytes: the volume has hard limits only; set that",
        ),
        (
            "set volume --inodes-hard none @",
            "volume: no hard limit of inodes: the volume always has one of bytes and one of \
             inodes; set another number",
        ),
        ("set volume --clear @", &format!("volume: {kind}")),
        ("grace volume --bytes 1d @", &format!("volume: {kind}")),
        (
            "project @/d/missing 7",
            "@/d/missing: does not exist; give a directory of a mounted volume",
        ),
    ] {
        let answer = quota(&mounted, typed);
        refused(typed, &answer, 1, &[]);
        let line = line.replace('@', mounted.path().to_str().unwrap());
        assert_eq!(answer.err, format!("hearth: {line}\n"), "{typed}");
    }
    let most = "is above 9223372036854775807; choose a smaller one";
    for (asked, line) in [
        (
            "set user:1 inodes-soft=9223372036854775808",
            format!("user:1: soft limit of 9223372036854775808 inodes {most}"),
        ),
        (
            "default group bytes-hard=9223372036854775808",
            format!("group quotas: hard limit of 9223372036854775808 bytes {most}"),
        ),
        (
            "grace user:1 inodes=9223372036854775808",
            format!("user:1: grace period of 9223372036854775808 s for inodes {most}"),
        ),
        (
            "grace user bytes=9223372036854775808",
            format!("user quotas: grace period of 9223372036854775808 s for bytes {most}"),
        ),
    ] {
        let mut ask = hearth();
        ask.arg("ask").arg(mounted.path()).arg("quota");
        let answer = said(ask.args(asked.split(' ')));
        refused(asked, &answer, 1, &[&line]);
    }
}

#[test]
fn a_volume_without_quotas_says_whose_it_does_not_keep() {
    let mounted = volume(Transport::Dev, "noquota");
    for (typed, whose) in [
        ("set user:1234 --hard 1M @", "user:1234"),
        ("set group:daemon --clear @", "group:daemon (1)"),
        ("get project:7 @", "project:7"),
        ("grace user:1234 --bytes 1d @", "user:1234"),
        ("default user --hard 1M @", "user quotas"),
        ("on group @", "group quotas"),
        ("project @/d 7", "project:7"),
    ] {
        let line = format!(
            "{whose}: the volume keeps no quotas; build it with quotas, or mount it without noquota"
        );
        refused(typed, &quota(&mounted, typed), 1, &[&line]);
    }
}

#[test]
fn a_first_limit_that_is_refused_names_the_file_and_the_limit() {
    let mounted = volume(Transport::Dev, "");
    let file = File::create(mounted.at("d/f")).unwrap();
    chown(mounted.at("d/f"), Some(USER), Some(1)).unwrap();
    let inode = file.metadata().unwrap().ino();
    let lost = |which: &str, bytes: u32| {
        format!(
            "is open for writing since before it had a limit (inode {inode}), and writes to it \
             that pass the {which} limit of {bytes} bytes could get lost; close it and try again, \
             force the limit, or mount with -o quota"
        )
    };
    for (typed, whose, line) in [
        (
            "set user:1234 --hard 40960 @",
            "user:1234: 1 file of user:1234 ",
            lost("hard", 40_960),
        ),
        (
            "set group:daemon --soft 8192 @",
            "group:daemon (1): 1 file of group:daemon (1) ",
            lost("soft", 8_192),
        ),
        (
            "default user --soft 4096 --hard 8192 @",
            "user quotas: 1 file of user:1234 ",
            lost("hard", 8_192),
        ),
    ] {
        let line = format!("{whose}{line}");
        refused(typed, &quota(&mounted, typed), 1, &[&line]);
    }
    drop(file);
    until("the file is closed", || {
        quota(&mounted, "set user:1234 --hard 40960 @").success()
    });
}

#[test]
fn a_tree_that_is_too_large_for_its_project_says_so_and_is_told_of() {
    let mounted = volume(Transport::Dev, "");
    mounted.shell("mkdir d/p; head -c 8192 /dev/zero > d/p/f; sync d/p/f");
    done(&mounted, "set project:7 --hard 4k --inodes-hard 1 @");
    let place = mounted.at("d/p");
    let expected = format!(
        "hearth: {}: project:7; 2 inodes changed, 0 were so already\n\
         hearth: project:7 uses 8192 bytes, above its hard limit of 4096; it cannot grow\n\
         hearth: project:7 uses 2 inodes, above its hard limit of 1; it cannot grow\n",
        place.display()
    );
    assert_eq!(done(&mounted, "project @/d/p 7"), expected);
    let events = done(&mounted, "events @");
    for told in [
        "project:7 hard-crossed bytes=8192 limit=4096\n",
        "project:7 hard-crossed inodes=2 limit=1\n",
    ] {
        assert_eq!(events.matches(told).count(), 1, "{events}");
    }
    let again = done(&mounted, "project @/d/p 7 --json");
    assert_eq!(quotas::json(&again)["above"][1]["used"], 2, "{again}");
    done(&mounted, "set project:7 --clear @");
    assert_eq!(done(&mounted, "project @/d/p 7").lines().count(), 1);
}
