//! Rights to mount: directly, through `fusermount3`, or none; and the message without any.

use crate::harness;

use harness::{
    Private, Turn, demand_root, mounts_below, pids_naming, program, refused, said, state, succeed,
    until, with_devices,
};
use std::path::Path;

/// Starts a program as an ordinary user.
const AS_USER: &str = "setpriv --reuid daemon --regid daemon --clear-groups";
/// Makes the device, open to every user.
const OPEN_DEVICE: &str = "mknod -m 666 /dev/fuse c 10 229";

#[test]
fn a_machine_without_the_device_is_told_what_to_do() {
    demand_root();
    let private = Private::new();
    let place = private.directory("m");
    private.directory("d");
    let before = state(private.path());
    let said = said(&mut with_devices(&private, "", "\"$HEARTH\" mount m"));
    refused("no /dev/fuse", &said, 1, &["/dev/fuse", "modprobe fuse"]);
    // Before a tree is counted, or a volume made.
    for typed in ["mount -o quota=wait ./d m", "mount -o create store:s m"] {
        let typed = format!("\"$HEARTH\" {typed}");
        let said = harness::said(&mut with_devices(&private, "", &typed));
        refused(&typed, &said, 1, &["/dev/fuse", "modprobe fuse"]);
        assert!(!said.err.contains("counted"), "{said:?}");
    }
    let doctor = harness::said(&mut with_devices(&private, "", "\"$HEARTH\" doctor"));
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert!(doctor.out.contains("cannot mount") && doctor.out.contains("modprobe fuse"));
    assert_eq!(
        (state(private.path()), mounts_below(&place)),
        (before, vec![])
    );
}

#[test]
fn a_user_without_the_right_to_mount_is_told_what_to_do() {
    demand_root();
    let private = Private::new();
    private.directory("m");
    let before = state(private.path());
    let closed = "mknod -m 600 /dev/fuse c 10 229";
    let typed = format!("{AS_USER} \"$HEARTH\" mount m");
    let answer = said(&mut with_devices(&private, closed, &typed));
    refused(
        "a closed device",
        &answer,
        1,
        &["/dev/fuse", "run as root", "chmod 666 /dev/fuse"],
    );
    let typed = format!("{AS_USER} env PATH=/nowhere \"$HEARTH\" mount m");
    let answer = said(&mut with_devices(&private, OPEN_DEVICE, &typed));
    refused(
        "no fusermount3",
        &answer,
        1,
        &["fusermount3", "apt-get install fuse3"],
    );
    let typed = format!("{AS_USER} env PATH=/nowhere \"$HEARTH\" doctor");
    let doctor = said(&mut with_devices(&private, OPEN_DEVICE, &typed));
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert!(doctor.out.contains("FAIL  privilege"), "{}", doctor.out);
    let typed = format!("{AS_USER} \"$HEARTH\" mount m");
    let answer = said(&mut with_devices(&private, OPEN_DEVICE, &typed));
    let place = private.path().join("m");
    let words = [
        place.to_str().unwrap(),
        "no permission",
        "a directory of your own",
        "run as root",
    ];
    refused("another's directory", &answer, 1, &words);
    assert_eq!(state(private.path()), before);
}

#[test]
fn a_user_mounts_through_fusermount3_by_every_transport_and_unmounts() {
    demand_root();
    user_mounts("dev", "dev");
    let turn = Turn::without_uring();
    user_mounts("auto", "dev");
    drop(turn);
    let turn = Turn::with_uring();
    user_mounts("auto", "uring");
    drop(turn);
}

/// Asks for a transport and gets one.
fn user_mounts(asked: &str, transport: &str) {
    let private = Private::new();
    succeed(
        program("chown")
            .arg("daemon:daemon")
            .arg(private.directory("m")),
    );
    let typed = format!(
        "{AS_USER} env HOME=/nowhere bash -ec '
        \"$HEARTH\" mount m -o transport={asked}
        echo text > m/file; cat m/file; stat -c %U m/file
        \"$HEARTH\" quota set user:bin --hard 1M m
        \"$HEARTH\" quota get --json user:bin m | grep -c 1048576
        \"$HEARTH\" umount m
        ! mountpoint -q m'"
    );
    let out = succeed(&mut with_devices(&private, OPEN_DEVICE, &typed));
    let expected = format!("hearth: memory: on m, transport {transport}\ntext\ndaemon\n1\n");
    assert_eq!(out, expected, "transport={asked}");
    ended(&private);
}

/// The capability decides, not the name of the user.
#[test]
fn a_user_with_the_capability_mounts_without_fusermount3_as_doctor_says() {
    demand_root();
    let private = Private::new();
    private.directory("m");
    let typed = format!(
        "{AS_USER} --inh-caps=+sys_admin --ambient-caps=+sys_admin \
         env HOME=/nowhere PATH=/nowhere /bin/bash -ec '
        \"$HEARTH\" doctor | /bin/grep privilege
        \"$HEARTH\" mount m -o transport=dev
        /bin/stat -c %U m
        \"$HEARTH\" umount m'"
    );
    let out = succeed(&mut with_devices(&private, OPEN_DEVICE, &typed));
    let said =
        "ok    privilege    may mount by itself\nhearth: memory: on m, transport dev\ndaemon\n";
    assert_eq!(out, said);
    ended(&private);
}

#[test]
fn root_in_a_container_without_the_capability_is_told_by_mount_and_doctor_how_to_start_it() {
    demand_root();
    let private = Private::new();
    private.directory("m");
    let before = state(private.path());
    let contained = "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin \"$HEARTH\"";
    let place = private.path().join("m");
    let words = [place.to_str().unwrap(), "--cap-add SYS_ADMIN"];
    let typed = format!("{contained} mount m");
    let answer = said(&mut with_devices(&private, OPEN_DEVICE, &typed));
    refused("without the capability", &answer, 1, &words);
    let typed = format!("{contained} doctor");
    let doctor = said(&mut with_devices(&private, OPEN_DEVICE, &typed));
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert!(doctor.out.contains("FAIL  privilege"), "{}", doctor.out);
    assert!(doctor.out.contains("--cap-add SYS_ADMIN"), "{}", doctor.out);
    assert_eq!(state(private.path()), before);
}

/// In a user namespace the capability is there, and does not count for the mounts of the outside.
#[test]
fn where_the_call_is_forbidden_to_who_has_the_capability_fusermount3_is_asked() {
    demand_root();
    let private = Private::new();
    private.directory("m");
    let place = private.path().join("m");
    let typed = "printf '#!/bin/sh\ntouch /dev/asked\nexit 1\n' > $bin/fusermount3
        chmod 755 $bin/fusermount3
        ! PATH=$bin:$PATH unshare --user --map-root-user \"$HEARTH\" mount m 2> /dev/null
        test -e /dev/asked
        unshare --user --map-root-user \"$HEARTH\" mount m";
    let answer = said(&mut with_devices(&private, OPEN_DEVICE, typed));
    let words = [place.to_str().unwrap(), "--cap-add SYS_ADMIN"];
    refused("a user namespace", &answer, 1, &words);
}

fn ended(private: &Private) {
    let place = private.path().join("m");
    until("the daemon ends", || {
        [&*place, Path::new("m")]
            .iter()
            .all(|name| pids_naming(name).is_empty())
    });
}
