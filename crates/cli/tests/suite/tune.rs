//! `hearth tune` on a real mount: what is shown, what is set, bad input.

use crate::harness;

use harness::{Mounted, Said, Transport, hearth, program, refused, said, succeed};
use serde_json::Value;
use std::process::Command;

/// A user without a name.
const USER: &str = "1234";

harness::on_both_transports!(
    all_tunables_are_shown_with_what_they_take,
    one_is_shown_alone,
    several_are_set_in_the_order_given,
    what_is_impossible_is_refused_and_changes_nothing,
    a_name_that_is_none_is_found_before_anything_is_set,
);

/// Runs `hearth tune` with `typed` after the mount point.
fn tune(mounted: &Mounted, typed: &[&str]) -> Said {
    said(&mut command(hearth(), mounted, typed))
}

fn command(mut command: Command, mounted: &Mounted, typed: &[&str]) -> Command {
    command.arg("tune").arg(mounted.path()).args(typed);
    command
}

/// Has to work; what it printed.
fn done(mounted: &Mounted, typed: &[&str]) -> String {
    succeed(&mut command(hearth(), mounted, typed))
}

fn json(mounted: &Mounted, typed: &[&str]) -> Vec<Value> {
    let text = done(mounted, &[typed, &["--json"]].concat());
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    json["tunables"].as_array().unwrap().clone()
}

fn all_tunables_are_shown_with_what_they_take(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let table = done(&mounted, &[]);
    let mut lines = table.lines();
    let heading = lines.next().unwrap();
    let heading: Vec<&str> = heading.split_whitespace().collect();
    assert_eq!(heading, ["NAME", "VALUE", "TAKES"]);
    let help = std::fs::read_to_string(mounted.at(".hearth/sys/help")).unwrap();
    let rows = json(&mounted, &[]);
    assert!(rows.len() > 5, "{rows:?}");
    for ((line, listed), row) in lines.by_ref().zip(help.lines()).zip(&rows) {
        let (name, takes) = listed.split_once('\t').unwrap();
        let file = mounted.at(".hearth/sys").join(name);
        let value = std::fs::read_to_string(file).unwrap();
        let value = value.trim_end();
        let shown: Vec<&str> = line.split("  ").filter(|part| !part.is_empty()).collect();
        let shown: Vec<&str> = shown.into_iter().map(str::trim).collect();
        assert_eq!(shown, [name, value, takes]);
        let expected = serde_json::json!({ "name": name, "value": value, "takes": takes });
        assert_eq!(*row, expected);
    }
    assert_eq!((lines.next(), rows.len()), (None, help.lines().count()));
}

fn one_is_shown_alone(transport: Transport) {
    let mounted = Mounted::new(transport, "noatime");
    assert_eq!(done(&mounted, &["fs/atime"]), "noatime\n");
    let two = ["fs/hot-half-lives", "fs/read-only"];
    assert_eq!(done(&mounted, &two), "3600 86400\n0\n");
    let rows = json(&mounted, &two);
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str()).collect();
    assert_eq!(names, two.map(Some));
}

fn several_are_set_in_the_order_given(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let typed = [
        "fs/atime=noatime",
        "fs/hot-half-lives=60 600",
        "fs/read-only=1",
    ];
    assert_eq!(done(&mounted, &typed), "");
    let names = ["fs/atime", "fs/hot-half-lives", "fs/read-only"];
    assert_eq!(done(&mounted, &names), "noatime\n60 600\n1\n");
    // What is shown is shown as it is when its turn comes.
    let typed = [
        "fs/read-only",
        "fs/read-only=0",
        "fs/read-only",
        "fs/atime=relatime",
        "fs/atime=strictatime",
    ];
    assert_eq!(done(&mounted, &typed), "1\n0\n");
    assert_eq!(done(&mounted, &["fs/atime"]), "strictatime\n");
    std::fs::create_dir(mounted.at("writable")).unwrap();
}

fn what_is_impossible_is_refused_and_changes_nothing(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let before = done(&mounted, &[]);
    for (typed, words) in [
        (
            "fs/atime=sometimes",
            "fs/atime 'sometimes': expected relatime, strictatime or noatime",
        ),
        ("fs/atime=", "fs/atime '': expected relatime"),
        (
            "fs/memory-budget=4096",
            "fs/memory-budget '4096': expected bytes, at least 65536",
        ),
        ("fs/read-only=0=1", "fs/read-only '0=1': expected 0 or 1"),
    ] {
        refused(typed, &tune(&mounted, &[typed]), 1, &[words]);
        assert_eq!(done(&mounted, &[]), before, "{typed}");
    }
    let long = format!("fs/hot-update-interval={}1", "0".repeat(5000));
    let words = ["fs/hot-update-interval", "too long", "hearth tune "];
    refused("long", &tune(&mounted, &[&long]), 1, &words);
    assert_eq!(done(&mounted, &[]), before);
    let typed = ["fs/atime=noatime", "fs/read-only=2", "fs/hot-track=1"];
    refused("2", &tune(&mounted, &typed), 1, &["fs/read-only '2'"]);
    let names = ["fs/atime", "fs/read-only", "fs/hot-track"];
    assert_eq!(done(&mounted, &names), "noatime\n0\n0\n");
}

fn a_name_that_is_none_is_found_before_anything_is_set(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let remedy = format!("'hearth tune {}' lists them", mounted.path().display());
    for (typed, name) in [
        (&["fs/atime=noatime", "fs/speed=9"][..], "'fs/speed'"),
        (&["fs/atime=noatime", "fs/speed"], "'fs/speed'"),
        (&["fs/atime=noatime", "help"], "'help'"),
        (&["fs/atime=noatime", "../version"], "'../version'"),
        (&[""], "''"),
    ] {
        refused(name, &tune(&mounted, typed), 1, &[name, &remedy]);
        assert_eq!(done(&mounted, &["fs/atime"]), "relatime\n");
    }
}

#[test]
fn everybody_looks_and_only_root_and_the_owner_set() {
    let mounted = Mounted::new(Transport::Dev, "allow_other");
    let by_user = |typed: &[&str]| {
        let mut user = program("setpriv");
        user.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]);
        user.arg(hearth().get_program());
        said(&mut command(user, &mounted, typed))
    };
    let shown = by_user(&["fs/atime"]);
    assert!(shown.success() && shown.out == "relatime\n", "{shown:?}");
    let words = ["only the owner of the mount and root", "fs/atime"];
    refused("user", &by_user(&["fs/atime=noatime"]), 1, &words);
    assert_eq!(done(&mounted, &["fs/atime"]), "relatime\n");
}

#[test]
fn what_cannot_be_looked_at_is_answered_with_the_remedy() {
    let mounted = Mounted::new(Transport::Dev, "");
    std::fs::create_dir(mounted.at("inside")).unwrap();
    let elsewhere = said(hearth().arg("tune").arg(mounted.at("inside")));
    let words = [
        "inside: not the top of a Hearth mount, which is ",
        "give that",
    ];
    refused("inside", &elsewhere, 1, &words);
    mounted.unmount();
    mounted.mount_again(Transport::Dev, "ro");
    let words = ["mounted with ro", "mount it without", "fs/atime"];
    refused("ro", &tune(&mounted, &["fs/atime=noatime"]), 1, &words);
    mounted.unmount();
    mounted.mount_again(Transport::Dev, "no_open");
    refused(
        "no_open",
        &tune(&mounted, &[]),
        1,
        &["no_open", "mount without"],
    );
    for verb in ["stats", "sched", "locks"] {
        let said = said(hearth().arg(verb).arg(mounted.path()));
        refused(verb, &said, 1, &["no_open", "mount without"]);
    }
}
