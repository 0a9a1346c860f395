//! Whoever calls has the rights that they have on the directory itself.

use super::harness::{Below, Mounted, Transport, program, said, shell, succeed};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

fn over(below: &Below) -> Mounted {
    Mounted::over(Transport::Dev, below.path(), "")
}

/// A script of a user, with these groups or none.
fn as_user(groups: &str, place: &Path, script: &str) -> Command {
    let mut user = program("setpriv");
    user.args(["--reuid", "1000", "--regid", "1000"]);
    match groups {
        "" => user.arg("--clear-groups"),
        groups => user.args(["--groups", groups]),
    };
    user.args(["bash", "-euo", "pipefail", "-c", script]);
    user.current_dir(place).env("LC_ALL", "C");
    user
}

#[test]
fn what_a_user_makes_is_the_users() {
    for below in [Below::ext4(), Below::tmpfs()] {
        fs::set_permissions(below.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let mounted = over(&below);
        let make = "umask 027; touch f; mkdir d; ln -s f l; mkfifo p; mktemp -p . >/dev/null
                    exec 3<> d/g; echo x >&3; ln f second";
        succeed(&mut as_user("", mounted.path(), make));
        for name in ["f", "d", "l", "p", "d/g"] {
            let made = fs::symlink_metadata(below.at(name)).unwrap();
            assert_eq!((made.uid(), made.gid()), (1000, 1000), "{name}");
        }
        let mode = |name: &str| fs::metadata(below.at(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode("f"), mode("d"), mode("d/g")), (0o640, 0o750, 0o640));
        // Root, with another group.
        let mut root = program("setpriv");
        root.args(["--regid", "77", "--clear-groups", "touch"]);
        succeed(root.arg(mounted.at("root")));
        let made = fs::metadata(below.at("root")).unwrap();
        assert_eq!((made.uid(), made.gid()), (0, 77));
        // Nobody else gets more by the mount.
        let refusals = "! cat private; ! echo x >> private; ! chmod 777 private; ! rm private
                        ! mv private mine; ! mknod n c 1 3; ! chown 1000 private
                        ! setfattr -n trusted.a -v b f; test -z \"$(getfattr -m trusted f)\"";
        fs::write(below.at("private"), "secret").unwrap();
        fs::set_permissions(below.at("private"), fs::Permissions::from_mode(0o600)).unwrap();
        succeed(as_user("", mounted.path(), refusals).stderr(std::process::Stdio::null()));
        assert_eq!(fs::read(below.at("private")).unwrap(), b"secret");
    }
}

#[test]
fn groups_are_those_of_the_process_that_calls_now() {
    let below = Below::tmpfs();
    let mounted = over(&below);
    fs::create_dir(below.at("g")).unwrap();
    fs::write(below.at("g/read"), "for the group").unwrap();
    for (name, mode) in [("g", 0o2770), ("g/read", 0o640)] {
        chown(below.at(name), Some(0), Some(5000)).unwrap();
        fs::set_permissions(below.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let try_ = "cat g/read && touch g/mine && echo x > g/mine && rm g/mine";
    for round in 0..10 {
        let member = said(&mut as_user("4,5000,6", mounted.path(), try_));
        assert!(member.success(), "{round}: {member:?}");
        let other = said(&mut as_user("", mounted.path(), try_));
        assert!(
            !other.success() && other.err.contains("denied"),
            "{round}: {other:?}"
        );
    }
    // What a group may without being asked for its right to: setgid stays for its members.
    let made = "touch g/f; chmod 2755 g/f; stat -c %a g/f; chgrp 6 g/f; stat -c %g g/f
                mkdir g/d; stat -c '%a %g' g/d";
    let said = succeed(&mut as_user("4,5000,6", mounted.path(), made));
    let native = "rm -rf g/f g/d; touch g/f; chmod 2755 g/f; stat -c %a g/f; chgrp 6 g/f
                  stat -c %g g/f; mkdir g/d; stat -c '%a %g' g/d";
    let native = succeed(&mut as_user("4,5000,6", below.path(), native));
    assert_eq!(said, native);
    fs::write(below.at("foreign"), "").unwrap();
    chown(below.at("foreign"), Some(1000), Some(5001)).unwrap();
    let lost = "chmod 2755 foreign; stat -c %a foreign";
    assert_eq!(succeed(&mut as_user("4", mounted.path(), lost)), "755\n");
}

#[test]
fn setuid_goes_with_a_write_of_somebody_else_and_capabilities_with_any() {
    let below = Below::ext4();
    let mounted = over(&below);
    for name in ["f", "g"] {
        fs::copy("/bin/true", below.at(name)).unwrap();
        fs::set_permissions(below.at(name), fs::Permissions::from_mode(0o6777)).unwrap();
    }
    succeed(&mut as_user("", mounted.path(), "echo x >> f"));
    let mode = |name: &str| fs::metadata(mounted.at(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("f"), mode("g")), (0o777, 0o6777));
    succeed(&mut shell(mounted.path(), "echo x >> g"));
    assert_eq!(mode("g"), 0o6777, "root's write leaves them");
    let capability = "setcap cap_net_raw+ep g; getcap g | grep -c net_raw; echo x >> g; getcap g";
    let said = succeed(&mut shell(mounted.path(), capability));
    assert_eq!(said, "1\n");
}

/// A file that may be run and not be read.
#[test]
fn what_may_only_be_run_runs() {
    let below = Below::ext4();
    let mounted = over(&below);
    fs::copy("/bin/true", below.at("run")).unwrap();
    fs::set_permissions(below.at("run"), fs::Permissions::from_mode(0o711)).unwrap();
    succeed(&mut as_user(
        "",
        mounted.path(),
        "./run; ! cat run 2> /dev/null",
    ));
}

/// ext4 keeps a part for root.
#[test]
fn the_reserve_of_the_filesystem_is_not_for_users() {
    let below = Below::ext4();
    fs::set_permissions(below.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let mounted = over(&below);
    let room = || rustix::fs::statvfs(below.path()).unwrap();
    let fill = "fallocate -l $((BAVAIL * 4096 - 4194304)) large; \
                for i in $(seq 64); do
                    head -c 1M /dev/zero >> f 2> /dev/null || exit 0
                done; exit 1";
    let available = room().f_bavail.to_string();
    succeed(as_user("", mounted.path(), fill).env("BAVAIL", available));
    let left = room();
    let reserve = left.f_bfree - left.f_bavail;
    assert!(
        left.f_bfree >= reserve && reserve > 1000,
        "{} {reserve}",
        left.f_bfree
    );
    succeed(&mut shell(mounted.path(), "head -c 1M /dev/zero > root"));
}
