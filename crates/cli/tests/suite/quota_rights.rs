//! Everybody sees their own quota, only root and the owner of the mount set: verb by verb.

use crate::{harness, quotas};

use harness::{
    Private, Transport, demand_root, pids_naming, program, succeed, until, with_devices,
};
use quotas::{USER, as_user, done, json, quota_as, refused, volume};
use std::path::Path;

harness::on_both_transports!(a_user_sees_their_own_and_sets_nothing);

fn a_user_sees_their_own_and_sets_nothing(transport: Transport) {
    let mounted = volume(transport, "");
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
    let mount = mounted.path().display();
    let only = |whose: &str, would: &str| {
        format!("{whose}: only root and user root, the owner of the volume, may {would}; ask them")
    };
    let place = format!("make {mount}/d part of it");
    let enforce = "turn enforcement";
    for (typed, line) in [
        (
            format!("set {who} --hard 1G @"),
            only(&who, "set a hard limit of 1073741824 bytes"),
        ),
        (
            "set user:daemon --soft none --inodes-soft 5 --force @".to_owned(),
            only(
                "user:daemon (1)",
                "lift the soft limit of bytes and set a soft limit of 5 inodes",
            ),
        ),
        (
            "set volume --inodes-hard 9 @".to_owned(),
            only("volume", "set a hard limit of 9 inodes"),
        ),
        (
            format!("set {who} --clear @"),
            only(&who, "lift its own limits and grace periods"),
        ),
        (
            "default group --hard 8k @".to_owned(),
            only("group quotas", "set a hard limit of 8192 bytes"),
        ),
        (
            "grace user --bytes 1d @".to_owned(),
            only("user quotas", "set a grace period of 86400 s for bytes"),
        ),
        (
            format!("grace {who} --inodes default @"),
            only(&who, "lift its own grace period for inodes"),
        ),
        (
            "on project @".to_owned(),
            only("project quotas", &format!("{enforce} on")),
        ),
        (
            "off user @".to_owned(),
            only("user quotas", &format!("{enforce} off")),
        ),
        ("project @/d 7".to_owned(), only("project:7", &place)),
        (
            "check @".to_owned(),
            only("quotas of the volume", "check them"),
        ),
        (
            "events @".to_owned(),
            only("quotas of the volume", "read their events"),
        ),
    ] {
        let said = quota_as(USER, &mounted, &typed);
        refused(&typed, &said, 1, &[]);
        assert_eq!(said.err, format!("hearth: {line}\n"), "{typed}");
        assert_eq!(done(&mounted, "report --json @"), before, "{typed}");
    }
    for who in ["user:root (0)", "group:daemon (1)", "user:4000000000"] {
        let typed = format!("get {} @", who.split(' ').next().unwrap());
        let line = format!(
            "hearth: {who} is not yours to see; ask for your own user or groups, or ask root or \
             user root, the owner of the volume\n"
        );
        let said = quota_as(USER, &mounted, &typed);
        refused(&typed, &said, 1, &[]);
        assert_eq!(said.err, line);
    }
    // Everybody's: projects, the volume, and what holds for who has no limits of their own.
    for typed in [
        "get project:7 @",
        "get volume @",
        "default user @",
        "report @",
    ] {
        let said = quota_as(USER, &mounted, typed);
        assert!(said.success() && !said.out.is_empty(), "{typed}: {said:?}");
    }
    let all = json(&quota_as(USER, &mounted, "report --json @").out);
    for record in all["records"].as_array().unwrap() {
        let (kind, id) = (&record["kind"], &record["id"]);
        let is_own = id == USER || kind == "volume" || kind == "project";
        assert!(is_own, "{kind} {id}");
    }
    let file = as_user(USER)
        .arg("cat")
        .arg(mounted.at(".hearth/quota/report.json"))
        .output();
    assert!(!file.unwrap().status.success());
}

#[test]
fn the_owner_of_a_mount_who_is_not_root_does_everything() {
    demand_root();
    let private = Private::new();
    let place = private.directory("m");
    succeed(program("chown").arg("daemon:daemon").arg(&place));
    let devices = "mknod -m 666 /dev/fuse c 10 229; echo user_allow_other > fuse.conf; \
                   mount --bind fuse.conf /etc/fuse.conf";
    let script = r#"
        as() { setpriv --reuid "$1" --regid "$1" --clear-groups env HOME=/nowhere "${@:2}"; }
        quota() { as daemon "$HEARTH" quota "$@"; }
        as daemon "$HEARTH" mount m -o transport=dev,allow_other > said
        as daemon mkdir m/p
        quota set user:bin --hard 1M --inodes-hard 10 m
        quota default group --soft 1M m
        quota grace user --bytes 1d m
        quota grace user:bin --inodes 1h m
        quota off user m; quota on user m
        quota project m/p 7
        quota get user:bin m | grep -c '^bin '
        quota report -u m | grep -c -e '^bin ' -e '^daemon '
        quota check m
        quota events m
        quota set user:bin --clear m
        quota get --json user:bin m | grep -c '"own": false'
        as bin "$HEARTH" quota get m | grep -c '^bin '
        as bin "$HEARTH" quota set user:bin --hard 2M m 2>&1 && exit 9
        as bin "$HEARTH" quota get user:daemon m 2>&1 && exit 9
        as daemon "$HEARTH" umount m
    "#;
    let out = succeed(&mut with_devices(&private, devices, script));
    let expected = [
        "hearth: m/p: project:7; 1 inodes changed, 0 were so already",
        "1",
        "2",
        "2 inodes walked, 0 of them open without a name",
        "2",
        "2",
        "hearth: user:bin (2): only root and user daemon, the owner of the volume, may set a hard \
         limit of 2097152 bytes; ask them",
        "hearth: user:daemon (1) is not yours to see; ask for your own user or groups, or ask root \
         or user daemon, the owner of the volume",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), expected);
    until("the daemon ends", || {
        [&*place, Path::new("m")]
            .iter()
            .all(|name| pids_naming(name).is_empty())
    });
}
